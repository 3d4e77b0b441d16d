//! Collects the errors of an item, and reports them on the user's tokens.

use std::sync::Arc;

use mscclpp_core::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_core::origin::SourceLocation;
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::quote;

use crate::hir::SpanId;
use crate::spans::Spans;

/// Maximum number of errors of one code that are shown.
const MAX_OF_ONE_CODE: usize = 5;

/// Help text for code that nothing in the subset can replace.
pub(crate) const AT_RUN_TIME: &str =
    "or remove the attribute and build the plan at run time, with `mscclpp::compiler::compile`";

/// Errors so far. Ignoring them is a bug, so dropping them unread panics.
#[derive(Default)]
pub(crate) struct Report {
    list: Diagnostics,
    read: bool,
}

/// An error that is being described; it is added to the report when it goes out of scope.
pub(crate) struct DiagnosticBuilder<'a> {
    report: &'a mut Report,
    diagnostic: Option<Diagnostic>,
}

impl DiagnosticBuilder<'_> {
    /// Adds a help text.
    pub(crate) fn help(mut self, help: impl Into<String>) {
        self.diagnostic = self.diagnostic.take().map(|diagnostic| diagnostic.help(help));
    }
}

impl Drop for DiagnosticBuilder<'_> {
    fn drop(&mut self) {
        if let Some(diagnostic) = self.diagnostic.take() {
            self.report.push(diagnostic);
        }
    }
}

impl Report {
    /// Reports an error at a token; the result takes its help text.
    pub(crate) fn error(&mut self, code: Code, tok: SpanId, message: impl Into<String>) -> DiagnosticBuilder<'_> {
        DiagnosticBuilder { report: self, diagnostic: Some(Diagnostic::new(code, at(tok), message)) }
    }

    /// Adds an error.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.read = false;
        self.list.push(diagnostic);
    }

    /// Adds errors, the first of each code on each token, with the number of the others.
    pub(crate) fn extend_merged(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        let mut merged: Vec<(Diagnostic, usize)> = Vec::new();
        for diagnostic in diagnostics {
            let same = |(other, _): &&mut (Diagnostic, usize)| {
                other.code == diagnostic.code && token(other).is_some() && token(other) == token(&diagnostic)
            };
            match merged.iter_mut().find(same) {
                Some((_, more)) => *more += 1,
                None => merged.push((diagnostic, 0)),
            }
        }
        for (mut diagnostic, more) in merged {
            if more > 0 {
                diagnostic.message += &format!("; {more} more here");
            }
            self.push(diagnostic);
        }
    }

    /// Returns whether there is no error.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.read |= self.list.is_empty();
        self.list.is_empty()
    }

    /// Returns the errors.
    pub(crate) fn into_diagnostics(mut self) -> Diagnostics {
        self.read = true;
        std::mem::take(&mut self.list)
    }

    /// Returns the errors as calls of `compile_error!` on the tokens that they are about. If there is a closure with
    /// the function's code, type errors are reported only if rustc finds no error in it.
    pub(crate) fn into_compile_errors(self, spans: &Spans, closure: Option<&TokenStream>) -> TokenStream {
        let diagnostics = self.into_diagnostics();
        diagnostics
            .deduplicated(MAX_OF_ONE_CODE)
            .iter()
            .flat_map(|diagnostic| {
                let (first, last) =
                    token(diagnostic).map_or_else(|| (Span::call_site(), Span::call_site()), |token| spans.get(token));
                match closure.filter(|_| diagnostic.code == Code::TypeError) {
                    Some(closure) => error_after_rustc(&diagnostic.body(), closure, first, last),
                    None => {
                        call("compile_error", TokenTree::from(Literal::string(&diagnostic.body())).into(), first, last)
                    }
                }
            })
            .collect()
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        assert!(self.read || std::thread::panicking(), "a report is dropped unread");
    }
}

/// Returns a site that is known by its token only.
pub(crate) fn at(tok: SpanId) -> Site {
    Site::Source(SourceLocation { token: tok, file: Arc::from(""), ..SourceLocation::default() })
}

/// Returns the token of a diagnostic, if it has one.
fn token(diagnostic: &Diagnostic) -> Option<SpanId> {
    match &diagnostic.site {
        Site::Source(place) if place.token != u32::MAX => Some(place.token),
        _ => None,
    }
}

/// Returns the first span of a diagnostic's location, if it has one.
pub(crate) fn span(diagnostic: &Diagnostic, spans: &Spans) -> Option<Span> {
    token(diagnostic).map(|token| spans.get(token).0)
}

/// Returns an error that is reported if rustc accepts a closure: rustc does not evaluate a constant whose code has
/// errors, and reports errors of equal text at one place once.
fn error_after_rustc(text: &str, closure: &TokenStream, first: Span, last: Span) -> TokenStream {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let text = Literal::string(&lines.join("\n"));
    let panic = call("panic", quote!("{}", #text), first, last);
    quote! {
        #[allow(warnings, clippy::all, clippy::pedantic)]
        const _: () = {
            let _ = #closure;
            #panic
        };
    }
}

/// Returns `::core::name! { args }`: the path has the first span and the braces the last, so that rustc underlines
/// everything between.
fn call(name: &str, args: TokenStream, first: Span, last: Span) -> TokenStream {
    let punct = |char, spacing, span| {
        let mut punct = Punct::new(char, spacing);
        punct.set_span(span);
        TokenTree::Punct(punct)
    };
    let ident = |name, span| TokenTree::Ident(Ident::new(name, span));
    let args = args.into_iter().map(|mut arg| {
        arg.set_span(last);
        arg
    });
    let mut group = Group::new(Delimiter::Brace, args.collect());
    group.set_span(last);
    let tokens = [
        punct(':', Spacing::Joint, first),
        punct(':', Spacing::Alone, first),
        ident("core", first),
        punct(':', Spacing::Joint, first),
        punct(':', Spacing::Alone, first),
        ident(name, first),
        punct('!', Spacing::Alone, first),
        TokenTree::Group(group),
    ];
    tokens.into_iter().collect()
}
