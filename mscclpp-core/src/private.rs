//! Items that the expansion of `#[collective]` uses. Not part of the public API.

pub use crate::algorithm::{EmbeddedAlgorithm, Param, argument};
pub use crate::check::{Checks, Level};
pub use crate::collective::{Collective, CollectiveKind};
pub use crate::diag::Diagnostics;
pub use crate::dsl::Program;
pub use crate::plan::Plan;
pub use crate::spec::AlgoSpec;
pub use crate::types::{Protocol, Replication};

use crate::diag::Code;

/// Returns the checks that an attribute selects. `allow` has the numbers of the allowed diagnostics.
pub fn checks(level: Level, allow: &[&str]) -> Checks {
    Checks { level, allow: allow.iter().filter_map(|number| Code::find(number)).collect() }
}

/// Builds a plan by running a function.
///
/// # Errors
/// The errors of [`compile_trace`](crate::compile_trace).
pub fn compile(spec: AlgoSpec, checks: &Checks, body: impl FnOnce(&Program)) -> Result<Plan, Diagnostics> {
    let program = Program::new(spec);
    body(&program);
    crate::compile_trace(program, checks)
}

/// Panics because no embedded plan matches the number of ranks and the arguments of a call.
///
/// # Panics
/// Always.
#[track_caller]
pub fn no_such_plan(name: &str, asked: std::fmt::Arguments<'_>, plans: &[Plan]) -> ! {
    let mut ranks: Vec<u32> = plans.iter().map(Plan::num_ranks).collect();
    ranks.dedup();
    panic!(
        "`{name}` has no plan for {asked}: it was compiled for ranks = {ranks:?}; add the number of ranks to the \
         attribute, or compile the plan with `{name}::compile`"
    )
}

/// Asserts that the function of a collective compiles to its embedded plan. The generated test calls this for each
/// combination of arguments.
///
/// # Panics
/// If compiling fails or the plans differ.
#[track_caller]
pub fn assert_native_equals_embedded(native: Result<Plan, Diagnostics>, embedded: &Plan) {
    match native {
        Ok(native) => assert!(
            native.image() == embedded.image(),
            "the embedded plan `{}` differs from the plan that its function compiles to at run time, so the \
             evaluator of the macro has a bug; please report it with the function",
            embedded.name()
        ),
        Err(error) => panic!("the function of plan `{}` fails at run time:\n{error}", embedded.name()),
    }
}
