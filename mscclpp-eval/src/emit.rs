//! The expansion: next to the unchanged function, a module with its name and its plans.

use mscclpp_core::check::{Checks, Level};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Diagnostic;
use mscclpp_core::plan::Plan;
use mscclpp_core::types::{Protocol, Replication};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::args::{Attribute, Combination};
use crate::hir::IntTy;

/// A parameter of the function, as it appears in the expansion.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    /// Its type; `None` for `bool`.
    pub(crate) int: Option<IntTy>,
}

impl Parameter {
    fn ty(&self) -> Ident {
        Ident::new(self.int.map_or("bool", IntTy::name), Span::call_site())
    }

    fn literal(&self, value: i128) -> TokenStream {
        match self.int {
            None if value == 0 => quote!(false),
            None => quote!(true),
            Some(_) => {
                let literal = Literal::i128_unsuffixed(value.abs());
                if value < 0 { quote!(-#literal) } else { quote!(#literal) }
            }
        }
    }
}

/// Returns the module next to the function. Without plans, after errors, everything in it still type-checks; a function
/// that the module cannot call is not called then.
pub(crate) fn module(
    attribute: &Attribute,
    function: &syn::ItemFn,
    params: &[Parameter],
    plans: &[(Combination, Plan)],
    callable: bool,
) -> TokenStream {
    let (name, vis) = (&function.sig.ident, &function.vis);
    let text = name.to_string();
    let about = format!("The plans of [`{text}`](fn@{text}), {}.", how_checked(&attribute.checks));
    // A conditionally compiled function has its module under the same conditions.
    let conditions = function.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    let private = match &attribute.krate {
        Some(krate) => quote!(#krate::__private),
        None => quote!(::mscclpp::__private),
    };
    let count = plans.len();
    let statics = plans.iter().map(|(_, plan)| {
        let (image, origins) = (Literal::byte_string(plan.image()), Literal::byte_string(plan.origins()));
        quote!(p::Plan::from_static(#image, #origins))
    });
    let names: Vec<&Ident> = params.iter().map(|param| &param.name).collect();
    let types: Vec<Ident> = params.iter().map(Parameter::ty).collect();
    let arms = plans.iter().enumerate().map(|(index, (combination, _))| {
        let ranks = Literal::u32_unsuffixed(combination.ranks);
        let values = params.iter().zip(&combination.values).map(|(param, value)| param.literal(*value));
        let index = Literal::usize_unsuffixed(index);
        quote!((#ranks, #(#values,)*) => #index,)
    });
    let asked = params.iter().map(|param| format!(", {0} = {{{0}}}", param.name)).collect::<String>();
    let asked = format!("{{ranks}} ranks{asked}");
    let (level, allowed) = (level(&attribute.checks), allowed(&attribute.checks));
    let checks = quote!(p::checks(#level, #allowed));
    let noted = (attribute.checks != Checks::default()).then(|| quote!(.with_checks(#level, #allowed)));
    let spec = spec(attribute, params, &text);
    let erased = erased(params);
    let param_table = attribute.params.iter().map(|param| {
        let (name, values) = (&param.name, param.values.iter().map(|value| Literal::i128_unsuffixed(*value)));
        quote!(p::Param { name: #name, values: &[#(#values),*] })
    });
    let compile = if callable {
        quote!(p::compile(spec, &#checks, |program| super::#name(program, #(#names),*)))
    } else {
        quote!(::core::result::Result::Err(::core::default::Default::default()))
    };
    let tests = plans.iter().map(|(combination, _)| {
        let ranks = Literal::u32_unsuffixed(combination.ranks);
        let values: Vec<TokenStream> =
            params.iter().zip(&combination.values).map(|(param, value)| param.literal(*value)).collect();
        quote!(p::assert_native_equals_embedded(
            compile(spec(#ranks, #(#values),*), #(#values),*),
            plan(#ranks, #(#values),*),
        );)
    });
    // `p` shortens many paths, so that the expansion of a small collective is small.
    quote! {
        #(#conditions)*
        #[doc = #about]
        #[allow(dead_code, unreachable_pub, unused_imports, unused_variables, unreachable_code, clippy::all, clippy::pedantic)]
        #vis mod #name {
            use #private as p;

            static PLANS: [p::Plan; #count] = [#(#statics),*];

            /// Returns the plan for a number of ranks and these arguments.
            ///
            /// # Panics
            /// If there is no embedded plan for them; [`try_plan`] returns `None` instead.
            #[track_caller]
            pub fn plan(ranks: usize, #(#names: #types),*) -> &'static p::Plan {
                match try_plan(ranks, #(#names),*) {
                    ::core::option::Option::Some(plan) => plan,
                    ::core::option::Option::None => p::no_such_plan(#text, ::core::format_args!(#asked), &PLANS),
                }
            }

            /// Returns the plan for a number of ranks and these arguments, if one is embedded.
            pub fn try_plan(ranks: usize, #(#names: #types),*) -> ::core::option::Option<&'static p::Plan> {
                let index: usize = match (ranks, #(#names,)*) {
                    #(#arms)*
                    _ => return ::core::option::Option::None,
                };
                PLANS.get(index)
            }

            /// Returns all embedded plans in the order of the attribute; the number of ranks varies slowest.
            pub fn plans() -> &'static [p::Plan] {
                &PLANS
            }

            /// Returns the specification that the attribute gives for a number of ranks and these arguments. Pass it to
            /// [`compile`], changed or unchanged.
            pub fn spec(ranks: usize, #(#names: #types),*) -> p::AlgoSpec {
                #spec
            }

            /// Builds a plan by running the function, with the checks of the attribute: for sizes known only at run
            /// time.
            ///
            /// # Errors
            /// The errors of the specification, the program and the plan.
            pub fn compile(spec: p::AlgoSpec, #(#names: #types),*) -> ::core::result::Result<p::Plan, p::Diagnostics> {
                #compile
            }

            /// Returns the collective as a value, for registries and tools.
            pub fn algorithm() -> p::EmbeddedAlgorithm {
                p::EmbeddedAlgorithm::new(#text, &[#(#param_table),*], &PLANS, #erased)#noted
            }

            #[cfg(test)]
            #[test]
            fn native_equals_embedded() {
                #(#tests)*
            }
        }
    }
}

/// Emits a compiler warning at a span. Macros cannot emit their own warnings on stable Rust, so this uses a deprecated
/// constant whose name says what it is, and whose note is the text.
pub(crate) fn warning(warning: &Diagnostic, at: Span) -> TokenStream {
    let text = warning.body();
    quote_spanned! {at=>
        #[doc(hidden)]
        const _: () = {
            #[deprecated(note = #text)]
            #[allow(non_upper_case_globals)]
            const warning_of_mscclpp_not_a_deprecation: () = ();
            warning_of_mscclpp_not_a_deprecation
        };
    }
}

/// Returns the last two arguments of `EmbeddedAlgorithm::new`: `spec` and `compile` on untyped arguments.
fn erased(params: &[Parameter]) -> TokenStream {
    let read = |fallible: bool| {
        let read = params.iter().enumerate().map(move |(index, param)| {
            let (name, text) = (&param.name, param.name.to_string());
            match (param.int, fallible) {
                (None, _) => quote!(let #name = arguments.get(#index).is_some_and(|value| *value != 0);),
                (Some(_), true) => quote!(let #name = p::argument(#text, arguments, #index)?;),
                (Some(_), false) => quote!(let #name = p::argument(#text, arguments, #index).unwrap_or_default();),
            }
        });
        quote!(#(#read)*)
    };
    let names: Vec<&Ident> = params.iter().map(|param| &param.name).collect();
    let (lenient, strict) = (read(false), read(true));
    quote! {
        |ranks, arguments| { #lenient spec(ranks as usize, #(#names),*) },
        |spec, arguments| { #strict compile(spec, #(#names),*) }
    }
}

/// Returns the text about checks in the documentation of the module.
fn how_checked(checks: &Checks) -> String {
    let mut text = match checks.level {
        Level::Full => "built and checked while this crate was compiled".to_owned(),
        Level::Basic => "built while this crate was compiled, and checked in part only (`check = basic`): not for \
                         deadlocks, races and results"
            .to_owned(),
        Level::Off => "built while this crate was compiled, and not checked (`check = off`)".to_owned(),
    };
    for (i, code) in checks.allow.iter().enumerate() {
        let comma = if i == 0 { "; its author allows " } else { ", " };
        text += &format!("{comma}`{}`", code.entry().slug);
    }
    text
}

fn level(checks: &Checks) -> TokenStream {
    match checks.level {
        Level::Full => quote!(p::Level::Full),
        Level::Basic => quote!(p::Level::Basic),
        Level::Off => quote!(p::Level::Off),
    }
}

/// Returns the numbers of the allowed diagnostics.
fn allowed(checks: &Checks) -> TokenStream {
    let allow = checks.allow.iter().map(|code| code.entry().number);
    quote!(&[#(#allow),*])
}

/// Returns code that creates a specification: it sets what differs from the defaults.
fn spec(attribute: &Attribute, params: &[Parameter], function: &str) -> TokenStream {
    let base = attribute.base();
    let kind = match base.collective.kind {
        CollectiveKind::AllReduce => quote!(AllReduce),
        CollectiveKind::AllGather => quote!(AllGather),
        CollectiveKind::ReduceScatter => quote!(ReduceScatter),
        CollectiveKind::AllToAll => quote!(AllToAll),
        CollectiveKind::AllToAllV => quote!(AllToAllV),
        CollectiveKind::SendRecv => quote!(SendRecv),
        CollectiveKind::Broadcast => quote!(Broadcast),
        CollectiveKind::Reduce => quote!(Reduce),
        CollectiveKind::Custom { input, output } => quote!(Custom { input: #input, output: #output }),
        CollectiveKind::Test { input, output } => quote!(Test { input: #input, output: #output }),
    };
    let several: Vec<&Parameter> = params
        .iter()
        .filter(|param| attribute.params.iter().any(|given| param.name == given.name && given.values.len() > 1))
        .collect();
    let name = if several.is_empty() {
        let name = if base.name.is_empty() { function } else { &base.name };
        quote!(#name)
    } else {
        let names = several.iter().map(|param| &param.name);
        let values = several.iter().map(|param| {
            let name = &param.name;
            if param.int.is_none() { quote!(u8::from(#name)) } else { quote!(#name) }
        });
        let format = format!(
            "{}{}",
            base.name.replace('{', "{{").replace('}', "}}"),
            names.map(|name| format!("_{name}{{}}")).collect::<String>()
        );
        quote!(::std::format!(#format, #(#values),*))
    };
    let per_node = attribute.ranks_per_node().map(|ranks| quote!(spec.ranks_per_node = #ranks;));
    let fields = fields(attribute);
    quote! {
        let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
        let mut spec = p::AlgoSpec::new(#name, p::CollectiveKind::#kind, ranks);
        #per_node
        #fields
        spec
    }
}

/// Returns assignments of the fields that differ from those of `AlgoSpec::new`.
fn fields(attribute: &Attribute) -> TokenStream {
    let base = attribute.base();
    let plain = mscclpp_core::spec::AlgoSpec::new("", base.collective.kind, 0);
    let mut out = TokenStream::new();
    macro_rules! set {
        ($($field:ident),*) => { $(
            if base.$field != plain.$field {
                let value = &base.$field;
                out.extend(quote!(spec.$field = #value;));
            }
        )* };
    }
    set!(instances, threads_per_block, buffer_alignment, min_message_size, max_message_size);
    set!(fuse, auto_sync, reuse_resources, double_scratch);
    if base.protocol == Protocol::LL {
        out.extend(quote!(spec.protocol = p::Protocol::LL;));
    }
    if base.replication == Replication::None {
        out.extend(quote!(spec.replication = p::Replication::None;));
    }
    let collective = &base.collective;
    for (field, value, default) in
        [("chunk_factor", u64::from(collective.chunk_factor), 1), ("root", u64::from(collective.root), 0)]
    {
        if value != default {
            let (field, value) = (format_ident!("{field}"), Literal::u64_unsuffixed(value));
            out.extend(quote!(spec.collective.#field = #value;));
        }
    }
    if collective.in_place {
        out.extend(quote!(spec.collective.in_place = true;));
    }
    if collective.dividing {
        out.extend(quote!(spec.collective.dividing = true;));
    }
    if collective.rows {
        out.extend(quote!(spec.collective.rows = true;));
    }
    for (tag, value) in &base.tags {
        out.extend(quote!(spec.tags.insert(::std::string::String::from(#tag), #value);));
    }
    out
}
