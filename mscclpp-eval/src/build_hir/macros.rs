//! Macros: assertions and panics, which become compile errors, and `vec!` and `matches!`.

use std::sync::Arc;

use mscclpp_core::diag::Code;
use syn::Token;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;

use super::HirBuilder;
use crate::hir::{Arm, Expr, ExprKind, FormatPart, Message, SpanId, TyCon};
use crate::report::AT_RUN_TIME;

/// Arguments of a macro: expressions, some with a name (`panic!("{x}", x = 1)`).
type Args = Punctuated<syn::Expr, Token![,]>;

/// The effect of a macro.
enum Kind {
    Assert,
    /// Whether both sides are required to be equal.
    AssertEq(bool),
    /// The default message, or the prefix of a given one.
    Panic(&'static str),
    Vec,
    Matches,
    Format,
}

/// All macros that are evaluated.
const KNOWN: &[(&str, Kind)] = &[
    ("assert", Kind::Assert),
    ("assert_eq", Kind::AssertEq(true)),
    ("assert_ne", Kind::AssertEq(false)),
    ("debug_assert", Kind::Assert),
    ("debug_assert_eq", Kind::AssertEq(true)),
    ("debug_assert_ne", Kind::AssertEq(false)),
    ("panic", Kind::Panic(PANIC)),
    ("unreachable", Kind::Panic("internal error: entered unreachable code")),
    ("todo", Kind::Panic("not yet implemented")),
    ("unimplemented", Kind::Panic("not implemented")),
    ("vec", Kind::Vec),
    ("matches", Kind::Matches),
    ("format", Kind::Format),
];

/// The message of a plain `panic!()`.
const PANIC: &str = "explicit panic";

/// Returns the names of the macros that are evaluated.
pub(crate) fn macros() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

impl HirBuilder<'_> {
    pub(super) fn macro_call(&mut self, mac: &syn::Macro) -> Expr {
        let name = mac.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let tok = self.macro_tok(mac);
        match KNOWN.iter().find(|(known, _)| *known == name) {
            Some((_, Kind::Assert)) => self.assert(mac, tok),
            Some((_, Kind::AssertEq(equal))) => self.assert_eq(mac, tok, *equal),
            Some((_, Kind::Panic(text))) => self.panic(mac, tok, text),
            Some((_, Kind::Vec)) => self.vec(mac, tok),
            Some((_, Kind::Matches)) => self.matches(mac, tok),
            Some((_, Kind::Format)) => {
                let args = self.macro_args(mac, tok);
                self.plain_format(args.first(), tok);
                let message = self.message(args.iter(), tok);
                self.expr(ExprKind::Format(message), tok)
            }
            None if ["println", "print", "eprintln", "eprint", "dbg"].contains(&name.as_str()) => {
                let help = format!(
                    "to look at a value while the crate compiles write `panic!(\"{{value:?}}\")`; {AT_RUN_TIME}"
                );
                self.refused(tok, format!("`{name}!` is not evaluated at compile time"), help)
            }
            None => {
                let help = format!("write out what `{name}!` expands to, or make it a function; {AT_RUN_TIME}");
                self.refused(tok, format!("the macro `{name}!` is not evaluated at compile time"), help)
            }
        }
    }

    fn macro_tok(&mut self, mac: &syn::Macro) -> SpanId {
        let first = mac.path.segments.first().map_or(mac.bang_token.span, |first| first.ident.span());
        self.spans.pair(first, mac.delimiter.span().close())
    }

    fn parse<T: Default>(&mut self, mac: &syn::Macro, tok: SpanId, parser: impl Parser<Output = T>) -> T {
        parser.parse2(mac.tokens.clone()).unwrap_or_else(|error| {
            drop(self.report.error(Code::TypeError, tok, format!("{error}")));
            T::default()
        })
    }

    fn macro_args(&mut self, mac: &syn::Macro, tok: SpanId) -> Args {
        self.parse(mac, tok, Args::parse_terminated)
    }

    fn assert(&mut self, mac: &syn::Macro, tok: SpanId) -> Expr {
        let args = self.macro_args(mac, tok);
        let Some(condition) = args.first() else { return self.type_error(tok, "`assert!` takes a condition") };
        let condition = Box::new(self.expression(condition));
        let message = (args.len() > 1).then(|| self.message(args.iter().skip(1), tok));
        self.expr(ExprKind::Assert(condition, message), tok)
    }

    fn assert_eq(&mut self, mac: &syn::Macro, tok: SpanId, equal: bool) -> Expr {
        let args = self.macro_args(mac, tok);
        let (Some(left), Some(right)) = (args.get(0), args.get(1)) else {
            return self.type_error(tok, "this assertion compares two values");
        };
        let (left, right) = (Box::new(self.expression(left)), Box::new(self.expression(right)));
        let message = (args.len() > 2).then(|| self.message(args.iter().skip(2), tok));
        self.expr(ExprKind::AssertEq(equal, left, right, message), tok)
    }

    fn panic(&mut self, mac: &syn::Macro, tok: SpanId, plain: &str) -> Expr {
        let args = self.macro_args(mac, tok);
        let mut message = self.message(args.iter(), tok);
        if message.pieces.is_empty() {
            message.pieces.push(FormatPart::Text(Arc::from(plain)));
        } else if plain != PANIC {
            message.pieces.insert(0, FormatPart::Text(Arc::from(format!("{plain}: "))));
        }
        self.expr(ExprKind::Panic(message), tok)
    }

    fn vec(&mut self, mac: &syn::Macro, tok: SpanId) -> Expr {
        let repeat = |input: ParseStream<'_>| {
            let value: syn::Expr = input.parse()?;
            input.parse::<Token![;]>()?;
            Ok((value, input.parse::<syn::Expr>()?))
        };
        let kind = match repeat.parse2(mac.tokens.clone()) {
            Ok((value, count)) => {
                ExprKind::Repeat(self.boxed_expression(&value), self.boxed_expression(&count), TyCon::List)
            }
            Err(_) => {
                let args = self.macro_args(mac, tok);
                ExprKind::List(args.iter().map(|arg| self.expression(arg)).collect(), TyCon::List)
            }
        };
        self.expr(kind, tok)
    }

    fn matches(&mut self, mac: &syn::Macro, tok: SpanId) -> Expr {
        let parser = |input: ParseStream<'_>| {
            let value: syn::Expr = input.parse()?;
            input.parse::<Token![,]>()?;
            let pattern = syn::Pat::parse_multi_with_leading_vert(input)?;
            let guard = if input.peek(Token![if]) {
                input.parse::<Token![if]>()?;
                Some(input.parse::<syn::Expr>()?)
            } else {
                None
            };
            input.parse::<Option<Token![,]>>()?;
            Ok(Some((value, pattern, guard)))
        };
        let Some((value, pattern, guard)) = self.parse(mac, tok, parser) else {
            return self.expr(ExprKind::Error, tok);
        };
        let value = self.boxed_expression(&value);
        let arm = self.scoped(|this| {
            let pattern = this.pattern(&pattern);
            let guard = guard.map(|guard| this.expression(&guard));
            Arm { pattern, guard, body: this.expr(ExprKind::Bool(true), tok) }
        });
        let pattern = self.pat(crate::hir::PatternKind::Wild, tok);
        let otherwise = Arm { pattern, guard: None, body: self.expr(ExprKind::Bool(false), tok) };
        self.expr(ExprKind::Match(value, vec![arm, otherwise]), tok)
    }

    /// Rejects the formats of a string that are ignored in messages: the program may compare the string.
    fn plain_format(&mut self, text: Option<&syn::Expr>, tok: SpanId) {
        let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })) = text else { return };
        for part in split(&text.value()) {
            if let Part::Value { format, .. } = part
                && !["", "?"].contains(&&*format)
            {
                let what = format!("the format `:{format}` of `format!` is not evaluated at compile time");
                let help = "use `{}` or `{:?}`; the messages of assertions and panics may have any format";
                self.refuse(tok, what, help);
            }
        }
    }

    /// Lowers a format string with its arguments. In messages, width, precision and alignment affect only the
    /// appearance and are ignored.
    fn message<'a>(&mut self, mut args: impl Iterator<Item = &'a syn::Expr>, tok: SpanId) -> Message {
        let text = match args.next() {
            None => return Message::default(),
            Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })) => text.value(),
            Some(_) => {
                drop(self.report.error(Code::TypeError, tok, "a message starts with a string"));
                return Message::default();
            }
        };
        let args: Vec<&syn::Expr> = args.collect();
        let mut pieces = Vec::new();
        let mut next = 0;
        for part in split(&text) {
            match part {
                Part::Text(text) => pieces.push(FormatPart::Text(Arc::from(text))),
                Part::Value { name, format } => match self.message_value(&name, &args, &mut next) {
                    Some(value) => pieces.push(FormatPart::Value(value, format.ends_with('?'))),
                    None => {
                        let what = format!("`{{{name}}}` has no value");
                        drop(self.report.error(Code::TypeError, tok, what));
                    }
                },
            }
        }
        Message { pieces }
    }

    fn message_value(&mut self, name: &str, args: &[&syn::Expr], next: &mut usize) -> Option<Expr> {
        let positional = |index: usize| args.get(index).copied();
        let named = args.iter().find_map(|arg| match arg {
            syn::Expr::Assign(arg) => match &*arg.left {
                syn::Expr::Path(path) if path.path.is_ident(name) => Some(&*arg.right),
                _ => None,
            },
            _ => None,
        });
        let value = match (name.is_empty(), name.parse::<usize>()) {
            (true, _) => {
                *next += 1;
                positional(*next - 1)?
            }
            (false, Ok(index)) => positional(index)?,
            (false, Err(_)) => match named {
                Some(value) => value,
                None => {
                    let path: syn::Expr = syn::parse_str(name).ok()?;
                    return Some(self.expression(&path));
                }
            },
        };
        Some(self.expression(value))
    }
}

/// A part of a format string.
enum Part {
    Text(String),
    Value { name: String, format: String },
}

/// Splits a format string.
fn split(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '{' | '}' if chars.peek() == Some(&char) => {
                chars.next();
                plain.push(char);
            }
            '{' => {
                let inner: String = chars.by_ref().take_while(|&char| char != '}').collect();
                let (name, format) = inner.split_once(':').unwrap_or((&inner, ""));
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Value { name: name.trim().to_owned(), format: format.trim_end().to_owned() });
            }
            _ => plain.push(char),
        }
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    parts
}
