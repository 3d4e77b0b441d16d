//! From a function to a plan: record, lower, encode.

use crate::diag::Diagnostics;
use crate::dsl::Program;
use crate::lower::lower;
use crate::plan::{Plan, PlanTree};
use crate::spec::AlgoSpec;

/// Builds the plan of a program: runs `body` on it, lowers what it recorded, and encodes the result.
///
/// # Cost
/// Linear in the number of operations.
///
/// # Errors
/// Everything that is wrong with the specification and the program.
pub fn compile(spec: AlgoSpec, body: impl FnOnce(&Program)) -> Result<Plan, Diagnostics> {
    let program = Program::new(spec);
    body(&program);
    finish(program)
}

/// Builds the plan of a recorded program. The evaluator and native code both end here.
///
/// # Errors
/// As [`compile`].
pub fn finish(program: Program) -> Result<Plan, Diagnostics> {
    tree(program).map(|tree| Plan::new(&tree))
}

/// As [`finish`], as a tree.
///
/// # Errors
/// As [`compile`].
pub fn tree(program: Program) -> Result<PlanTree, Diagnostics> {
    lower(&program.finish()?)
}
