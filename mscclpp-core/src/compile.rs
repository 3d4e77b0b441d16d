//! Compilation of a function to a plan: record, lower, check, encode.

use crate::check::Checks;
use crate::diag::Diagnostics;
use crate::dsl::Program;
use crate::lower::lowered;
use crate::plan::{Plan, PlanTree};
use crate::spec::AlgoSpec;

/// Builds the plan of a program: runs `body` on it, lowers what it recorded, checks the plan, and encodes it.
///
/// ```
/// use mscclpp_core::{collective::CollectiveKind, compile, spec::AlgoSpec};
///
/// // A rank without its output: the checks report the chunk that no operation has written.
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
/// Returns the findings about the specification, the program and the plan.
pub fn compile(spec: AlgoSpec, body: impl FnOnce(&Program)) -> Result<Plan, Diagnostics> {
    let program = Program::new(spec);
    body(&program);
    compile_trace(program, &Checks::default())
}

/// Builds the plan of a recorded program, for the evaluator and for native code.
///
/// # Errors
/// As [`compile`], without the findings that `checks` omits.
pub fn compile_trace(program: Program, checks: &Checks) -> Result<Plan, Diagnostics> {
    compile_tree(program, checks).map(|tree| Plan::new(&tree))
}

/// Builds the plan of a recorded program as a tree, otherwise as [`compile_trace`].
///
/// # Errors
/// As [`compile_trace`].
pub fn compile_tree(program: Program, checks: &Checks) -> Result<PlanTree, Diagnostics> {
    let tree = lowered(program.finish()?)?;
    checks.run(&tree).into_result(tree)
}
