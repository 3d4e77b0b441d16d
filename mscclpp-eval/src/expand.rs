//! Expands the two attributes, phase by phase.

use std::rc::Rc;

use mscclpp_core::compile_tree;
use mscclpp_core::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_core::plan::Plan;
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::args::{self, Attribute, Combination};
use crate::build_hir::Items;
use crate::depth;
use crate::driver::{self, Checked};
use crate::emit::{self, Parameter};
use crate::eval::Limits;
use crate::hir::{IntTy, SpanId};
use crate::report::{self, Report};
use crate::spans::Spans;

/// Expands `#[collective(args)] item`.
///
/// The result is the unchanged item, a module of its name with the plans, and a `compile_error!` for each error.
pub fn collective(args: TokenStream, item: TokenStream) -> TokenStream {
    if let Some(errors) = too_deep(&args).or_else(|| too_deep(&item)) {
        return quote!(#item #errors);
    }
    match syn::parse2::<syn::ItemFn>(item.clone()) {
        Ok(function) => {
            let expansion = guarded(|| one(args, Rc::new(function), &Items::default()));
            quote!(#item #expansion)
        }
        // Such as an unfinished line in an editor.
        Err(error) if is_function(&item) => {
            let (mut spans, mut report) = (Spans::default(), Report::default());
            let tok = spans.one(error.span());
            report
                .error(Code::NotInSubset, tok, format!("the function cannot be read: {error}"))
                .help("fix the syntax; the plan is built once the function can be read");
            let errors = report.into_compile_errors(&spans, None);
            quote!(#item #errors)
        }
        Err(_) => {
            misplaced(&item, "`#[collective]` belongs on a function", "write `fn name(p: &Program) { … }` under it")
        }
    }
}

/// Returns whether tokens begin like a function: attributes and qualifiers, and `fn`.
fn is_function(item: &TokenStream) -> bool {
    let words = item.clone().into_iter().filter_map(|token| match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    });
    let is_qualifier = |word: &String| ["pub", "const", "async", "unsafe", "extern"].contains(&word.as_str());
    words.into_iter().find(|word| !is_qualifier(word)).is_some_and(|word| word == "fn")
}

/// Expands `#[collectives] mod name { … }`: every function in it under `#[collective]` may use the module's constants,
/// functions and structs.
pub fn collectives(args: TokenStream, item: TokenStream) -> TokenStream {
    if let Some(errors) = too_deep(&item) {
        return quote!(#item #errors);
    }
    let help = "write `#[collectives] mod name { … }`, with `#[collective(…)]` on functions in it";
    let Ok(mut module) = syn::parse2::<syn::ItemMod>(item.clone()) else {
        return misplaced(&item, "`#[collectives]` belongs on a module", help);
    };
    if !args.is_empty() {
        return misplaced(&item, "`#[collectives]` takes no arguments", help);
    }
    let Some((_, list)) = &mut module.content else {
        return misplaced(&item, "`#[collectives]` needs the module's content in the same file", help);
    };
    let mut found = Vec::new();
    for item in list.iter_mut() {
        if let syn::Item::Fn(function) = item
            && let Some(at) = function.attrs.iter().position(is_collective)
        {
            let attribute = function.attrs.remove(at);
            found.push((attribute_args(&attribute), Rc::new(function.clone())));
        }
    }
    let items = Items::of_module(list);
    for (args, function) in found {
        list.push(syn::Item::Verbatim(guarded(|| one(args, function, &items))));
    }
    module.into_token_stream()
}

/// Returns an expansion, or an error that reports a bug of this crate: a panic would discard the user's item.
fn guarded(expand: impl FnOnce() -> TokenStream) -> TokenStream {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(expand)).unwrap_or_else(|_| {
        let (mut spans, mut report) = (Spans::default(), Report::default());
        let tok = spans.one(Span::call_site());
        let message = format!("the expansion panicked in mscclpp-eval {}", env!("CARGO_PKG_VERSION"));
        report.error(Code::Internal, tok, message).help("please report it with the function that shows it");
        report.into_compile_errors(&spans, None)
    })
}

/// Returns the error for tokens that nest too deep to be parsed.
fn too_deep(tokens: &TokenStream) -> Option<TokenStream> {
    let span = depth::too_deep(tokens)?;
    let (mut spans, mut report) = (Spans::default(), Report::default());
    let tok = spans.one(span);
    report
        .error(Code::NotInSubset, tok, "this is nested too deep to be read")
        .help("take parts of it into `let` statements or functions");
    Some(report.into_compile_errors(&spans, None))
}

fn is_collective(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "collective")
}

fn attribute_args(attribute: &syn::Attribute) -> TokenStream {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    }
}

/// Returns the unchanged item and an error on it.
fn misplaced(item: &TokenStream, message: &str, help: &str) -> TokenStream {
    let (mut spans, mut report) = (Spans::default(), Report::default());
    let tok = spans.one(Span::call_site());
    report.error(Code::BadAttribute, tok, message).help(help);
    let errors = report.into_compile_errors(&spans, None);
    quote!(#errors #item)
}

/// Returns what is added next to one collective: errors and the module.
fn one(args: TokenStream, function: Rc<syn::ItemFn>, items: &Items) -> TokenStream {
    let mut spans = Spans::default();
    // No module can be next to a method.
    if let Some(receiver) = function.sig.receiver() {
        let tok = spans.tokens(receiver);
        return in_impl(tok, &spans);
    }
    let mut report = Report::default();
    let attribute = args::parse(args, &function.sig.ident, &mut spans, &mut report);
    let mut signature = Report::default();
    let params = parameters(&attribute, &function, &mut spans, &mut signature);
    let sig = &function.sig;
    let lifetime = |param: &syn::GenericParam| matches!(param, syn::GenericParam::Lifetime(_));
    let plain = sig.asyncness.is_none() && sig.generics.params.iter().all(lifetime);
    let callable = signature.is_empty() && plain;
    report.extend_merged(signature.into_diagnostics());
    let combinations = attribute.combinations(&mut report);
    // The body is checked even if the attribute is wrong, so that one build reports the errors of both.
    let checked = driver::check(items, &function, &mut spans, &mut report);
    // Outside of an `impl` block `Self` has no meaning, so it is one of the errors.
    if !report.is_empty()
        && let Some(span) = names_self(function.to_token_stream())
    {
        drop(report.into_diagnostics());
        let tok = spans.one(span);
        return in_impl(tok, &spans);
    }
    let (mut plans, mut warnings) = (Vec::new(), Diagnostics::default());
    if report.is_empty()
        && let Some(checked) = checked
    {
        plans = build(&attribute, &checked, combinations, &mut report, &mut warnings);
    }
    let module = emit::module(&attribute, &function, &params, &plans, callable);
    if report.is_empty() {
        let warnings = warnings.iter().map(|warning| {
            emit::warning(warning, report::span(warning, &spans).unwrap_or_else(|| function.sig.ident.span()))
        });
        quote!(#(#warnings)* #module)
    } else {
        let closure = (callable && function.sig.generics.params.is_empty()).then(|| closure(&function));
        let errors = report.into_compile_errors(&spans, closure.as_ref());
        quote!(#errors #module)
    }
}

/// Returns the error for a collective within an `impl` block.
fn in_impl(tok: SpanId, spans: &Spans) -> TokenStream {
    let mut report = Report::default();
    report
        .error(Code::BadSignature, tok, "a collective is a free function, and this one belongs to an `impl` block")
        .help("move it out of the `impl` block and pass what it uses of `self` and `Self` as parameters");
    report.into_compile_errors(spans, None)
}

/// Returns a closure with the code of a function that has no generics.
fn closure(function: &syn::ItemFn) -> TokenStream {
    let (inputs, block) = (function.sig.inputs.iter(), &function.block);
    quote!(|#(#inputs),*| #block)
}

/// Returns where tokens name `Self`, except in items among them that may.
fn names_self(tokens: TokenStream) -> Option<Span> {
    let mut inner = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == "Self" && !inner => return Some(ident.span()),
            TokenTree::Ident(ident) => inner |= ["impl", "trait", "struct", "enum"].iter().any(|item| ident == item),
            TokenTree::Group(group) if inner => inner = group.delimiter() != Delimiter::Brace,
            TokenTree::Punct(punct) if punct.as_char() == ';' => inner = false,
            TokenTree::Group(group) => {
                if let Some(span) = names_self(group.stream()) {
                    return Some(span);
                }
            }
            _ => {}
        }
    }
    None
}

/// Evaluates, lowers, checks and encodes every combination. An error of several combinations is reported once.
fn build(
    attribute: &Attribute,
    checked: &Checked,
    combinations: Vec<Combination>,
    report: &mut Report,
    warnings: &mut Diagnostics,
) -> Vec<(Combination, Plan)> {
    let mut limits = Limits::default();
    limits.steps = attribute.max_steps.unwrap_or(limits.steps);
    let several = combinations.len() > 1;
    let checks = &attribute.checks;
    let mut plans = Vec::with_capacity(combinations.len());
    let mut findings = Vec::new();
    for combination in combinations {
        let finish = |program| {
            let tree = compile_tree(program, checks)?;
            Ok((Plan::new(&tree), checks.warnings(&tree)))
        };
        match checked.record(attribute.spec(&combination), &combination.values, limits, finish) {
            Ok((plan, found)) => {
                // Most combinations have the same warnings.
                if warnings.is_empty() {
                    let about = |found| if several { for_combination(attribute, &combination, found) } else { found };
                    warnings.extend(found.into_iter().map(about));
                }
                plans.push((combination, plan));
            }
            Err(found) if several => {
                findings.extend(found.into_iter().map(|found| for_combination(attribute, &combination, found)));
            }
            Err(found) => findings.extend(found),
        }
    }
    findings.iter_mut().for_each(|found| point_at_argument(attribute, found));
    report.extend_merged(findings);
    plans
}

/// Makes a finding about a field of the specification point at the argument that sets the field.
fn point_at_argument(attribute: &Attribute, found: &mut Diagnostic) {
    let field = match &found.site {
        Site::Path(path) => path.strip_prefix("spec."),
        _ => None,
    };
    if let Some(field) = field {
        found.site = attribute.place(field).map_or(Site::None, report::at);
    }
}

/// Adds to a finding the combination that it is about.
fn for_combination(attribute: &Attribute, combination: &Combination, mut found: Diagnostic) -> Diagnostic {
    let params =
        attribute.params.iter().zip(&combination.values).map(|(param, value)| format!(", {} = {value}", param.name));
    found.message += &format!(" (for ranks = {}{})", combination.ranks, params.collect::<String>());
    found
}

/// Returns the function's parameters after the program: each has a plain type and values in the attribute.
fn parameters(attribute: &Attribute, function: &syn::ItemFn, spans: &mut Spans, report: &mut Report) -> Vec<Parameter> {
    let sig = &function.sig;
    let mut inputs = sig.inputs.iter();
    let form = "a collective is `fn name(p: &Program)`, with parameters of integer type or `bool` after the program";
    if !inputs.next().is_some_and(is_program) {
        let tok = spans.pair(sig.ident.span(), sig.paren_token.span.close());
        report.error(Code::BadSignature, tok, "a collective takes `&Program` first").help(form);
    }
    if let syn::ReturnType::Type(_, ty) = &sig.output
        && !matches!(&**ty, syn::Type::Tuple(tuple) if tuple.elems.is_empty())
    {
        let tok = spans.tokens(&sig.output);
        report.error(Code::BadSignature, tok, "a collective returns nothing").help(form);
    }
    let mut params = Vec::new();
    for input in inputs {
        let tok = spans.tokens(input);
        match parameter(input) {
            Some(param) => {
                let given = attribute.params.iter().position(|given| param.name == given.name);
                match given {
                    Some(index) if index == params.len() => check_values(&attribute.params[index], &param, report),
                    Some(_) => {
                        let message =
                            format!("`{}` is at another position in `params(…)` than in the function", param.name);
                        report
                            .error(Code::BadSignature, tok, message)
                            .help("give the parameters in the function's order");
                    }
                    None => {
                        let message = format!("the attribute gives no values for the parameter `{}`", param.name);
                        let values = if param.int.is_some() { "1, 2" } else { "false, true" };
                        let help = format!("add `params({} = [{values}])`", param.name);
                        report.error(Code::BadSignature, tok, message).help(help);
                    }
                }
                params.push(param);
            }
            None => report.error(Code::BadSignature, tok, "this parameter cannot be given in an attribute").help(form),
        }
    }
    for given in &attribute.params {
        if !params.iter().any(|param| param.name == given.name) {
            let message = format!("the function has no parameter `{}`", given.name);
            report.error(Code::BadSignature, given.tok, message).help(format!("declare `{}: usize`", given.name));
        }
    }
    // After an error the module must still type-check, with the parameters that the function has.
    params
}

fn is_program(input: &syn::FnArg) -> bool {
    let syn::FnArg::Typed(typed) = input else { return false };
    let syn::Type::Reference(reference) = &*typed.ty else { return false };
    let syn::Type::Path(path) = &*reference.elem else { return false };
    reference.mutability.is_none() && path.path.segments.last().is_some_and(|last| last.ident == "Program")
}

fn parameter(input: &syn::FnArg) -> Option<Parameter> {
    let syn::FnArg::Typed(typed) = input else { return None };
    let (syn::Pat::Ident(pattern), syn::Type::Path(path)) = (&*typed.pat, &*typed.ty) else { return None };
    let ty = path.path.get_ident()?.to_string();
    let int = IntTy::from_name(&ty);
    (int.is_some() || ty == "bool").then(|| Parameter { name: pattern.ident.clone(), int })
}

fn check_values(given: &args::Param, param: &Parameter, report: &mut Report) {
    let fits = |value: &&i128| param.int.map_or(0..=1, |int| int.min()..=int.max()).contains(*value);
    if let Some(value) = given.values.iter().find(|value| !fits(value)) {
        let ty = param.int.map_or("bool", IntTy::name);
        let message = format!("`{}` cannot be {value}: it is a `{ty}`", given.name);
        report.error(Code::BadAttribute, given.tok, message).help("choose values of the parameter's type");
    }
}
