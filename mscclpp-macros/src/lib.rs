//! `#[collective]` and `#[collectives]`: collectives that are built and checked while the crate compiles.
//!
//! The evaluator is `mscclpp-eval`; this crate only passes it the tokens. `mscclpp explain --subset` lists the arguments of the
//! attribute and the subset of Rust that is evaluated.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Evaluates the function while the crate compiles, checks the plan that it describes, and embeds it.
///
/// ```text
/// #[collective(AllGather, ranks = [2, 4, 8], in_place)]
/// fn all_pairs(p: &Program) { … }
/// ```
///
/// The function is unchanged and can be called. The macro adds a module of the same name:
///
/// | item | description |
/// |---|---|
/// | `plan(ranks, params…) -> &'static Plan` | the plan for this number of ranks; panics if none was built |
/// | `try_plan(ranks, params…) -> Option<&'static Plan>` | the plan for this number of ranks, or `None` |
/// | `plans() -> &'static [Plan]` | all plans that were built |
/// | `spec(ranks, params…) -> AlgoSpec` | the attribute's specification |
/// | `compile(spec, params…) -> Result<Plan, Diagnostics>` | a plan for a size known only at run time |
/// | `algorithm() -> Algorithm` | the algorithm as a value, with all of the above |
/// | `native_equals_embedded` | a test that the plan in the binary is the one that the function builds |
///
/// The plan's name is that of the function, or that given by `name = "…"`; each parameter that has several values adds
/// `_` with its name and value. Items within a function body cannot be collectives: the function would not be visible
/// in the module.
///
/// # Errors
/// Every error in the attribute, the function or the plan becomes a compile error on the tokens concerned, several in
/// one build; the module is generated even so, so that its absence causes no further errors.
#[proc_macro_attribute]
pub fn collective(args: TokenStream, item: TokenStream) -> TokenStream {
    mscclpp_eval::collective(args.into(), item.into()).into()
}

/// Makes the constants, functions and structs of a module available to its collectives.
///
/// ```text
/// #[collectives]
/// mod rings {
///     use mscclpp::prelude::*;
///
///     const STEPS: usize = 3;
///
///     #[collective(AllGather, ranks = 4)]
///     fn ring(p: &Program) { … }
/// }
/// ```
#[proc_macro_attribute]
pub fn collectives(args: TokenStream, item: TokenStream) -> TokenStream {
    mscclpp_eval::collectives(args.into(), item.into()).into()
}
