//! `#[collective]` and `#[collectives]`: collectives that are built and checked while the crate compiles.
//!
//! The engine is `mscclpp-eval`; this crate only hands it the tokens. `docs/subset.md` lists the arguments of the attribute
//! and the subset of Rust that is evaluated.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Evaluates the function while the crate compiles, checks the plan that it describes, and embeds it.
///
/// ```text
/// #[collective(AllGather, ranks = [2, 4, 8], in_place)]
/// fn all_pairs(p: &Program) { … }
/// ```
///
/// The function stays as it is and can be called. Beside it comes a module of its name:
///
/// | item | gives |
/// |---|---|
/// | `plan(ranks, params…) -> &'static Plan` | the plan for so many ranks; panics if none was built |
/// | `try_plan(ranks, params…) -> Option<&'static Plan>` | the same, or `None` |
/// | `plans() -> &'static [Plan]` | all plans that were built |
/// | `spec(ranks, params…) -> AlgoSpec` | the attribute's specification |
/// | `compile(spec, params…) -> Result<Plan, Diagnostics>` | a plan for a size known only at run time |
/// | `algorithm() -> Algorithm` | all of this as data |
/// | `native_equals_baked` | a test that the plan in the binary is the one that the function builds |
///
/// The plan's name is that of the function, or what `name = "…"` says; each parameter that has several values adds
/// `_` with its name and value. Items within a function body cannot be collectives: the module would not see the function.
///
/// # Errors
/// Everything that is wrong with the attribute, the function or the plan becomes a compile error on the tokens that it is
/// about, several in one build; the module is there all the same, so that nothing else fails for its absence.
#[proc_macro_attribute]
pub fn collective(args: TokenStream, item: TokenStream) -> TokenStream {
    mscclpp_eval::collective(args.into(), item.into()).into()
}

/// Lets the collectives of a module use its constants, functions and structs.
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
