//! From a function to a plan: record, lower, check, encode.

use crate::check::Checks;
use crate::diag::Diagnostics;
use crate::dsl::Program;
use crate::lower::lowered;
use crate::plan::{Plan, PlanTree};
use crate::spec::AlgoSpec;

/// Builds the plan of a program: runs `body` on it, lowers what it recorded, checks the plan, and encodes it.
///
/// ```
/// use mscclpp_core::{collective::CollectiveKind, compile::compile, spec::AlgoSpec};
///
/// // A rank that forgets its output: the checks say which chunk nobody has written.
/// let spec = AlgoSpec::new("forgetful", CollectiveKind::Broadcast, 2);
/// let refused = compile(spec, |p| {
///     let root = p.rank(0);
///     root.copy(root.output().chunk(0), root.input().chunk(0), 0);
/// });
/// let why = refused.expect_err("rank 1 has nothing").to_string();
/// assert!(why.contains("rank 1"), "{why}");
/// ```
///
/// # Cost
/// Linear in the number of operations.
///
/// # Errors
/// Everything that is wrong with the specification, the program and the plan.
pub fn compile(spec: AlgoSpec, body: impl FnOnce(&Program)) -> Result<Plan, Diagnostics> {
    let program = Program::new(spec);
    body(&program);
    compile_trace(program, &Checks::default())
}

/// Builds the plan of a recorded program. The evaluator and native code both end here.
///
/// # Errors
/// As [`compile`], less what `checks` leaves out.
pub fn compile_trace(program: Program, checks: &Checks) -> Result<Plan, Diagnostics> {
    compile_tree(program, checks).map(|tree| Plan::new(&tree))
}

/// As [`compile_trace`], as a tree.
///
/// # Errors
/// As [`compile_trace`].
pub fn compile_tree(program: Program, checks: &Checks) -> Result<PlanTree, Diagnostics> {
    let tree = lowered(program.finish()?)?;
    checks.run(&tree).into_result(tree)
}
