//! Runs the evaluator on source text, for tests and benches.

use std::rc::Rc;

use mscclpp_core::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;

use crate::build_hir::Items;
use crate::driver::{self, Checked};
use crate::eval::Limits;
use crate::report::{self, Report};
use crate::spans::Spans;

/// Evaluates a function without parameters, given the items of its module. Returns its value as `{:?}` formats it.
///
/// # Errors
/// The errors of the source, and the one that stopped its evaluation.
pub fn value(source: &str, function: &str) -> Result<String, Diagnostics> {
    checked(source, function)?.value(Limits::default())
}

/// Records a collective, given the items of its module; `args` are the arguments after the program.
///
/// # Errors
/// The errors of the source, the one that stopped its evaluation, and those that its calls reported.
pub fn trace(source: &str, function: &str, spec: AlgoSpec, args: &[i128]) -> Result<Trace, Diagnostics> {
    checked(source, function)?.record(spec, args, Limits::default(), mscclpp_core::dsl::Program::finish)
}

fn checked(source: &str, function: &str) -> Result<Checked, Diagnostics> {
    let invalid = |message: String| Diagnostics::from(Diagnostic::new(Code::TypeError, report::at(u32::MAX), message));
    let file = syn::parse_file(source).map_err(|error| invalid(error.to_string()))?;
    let found = file.items.iter().find_map(|item| match item {
        syn::Item::Fn(item) if item.sig.ident == function => Some(Rc::new(item.clone())),
        _ => None,
    });
    let found = found.ok_or_else(|| invalid(format!("there is no function `{function}`")))?;
    let (mut spans, mut report) = (Spans::default(), Report::default());
    let checked = driver::check(&Items::of_module(&file.items), &found, &mut spans, &mut report);
    let diagnostics = report.into_diagnostics();
    checked.ok_or(diagnostics)
}
