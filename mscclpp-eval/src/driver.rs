//! The phases from tokens to a trace or value.

use std::rc::Rc;
use std::sync::Arc;

use mscclpp_core::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_core::dsl::Program;
use mscclpp_core::spec::AlgoSpec;

use crate::build_hir::{self, Items};
use crate::eval::value::Value;
use crate::eval::{self, Limits};
use crate::hir::{Tree, TypeExpr};
use crate::report::{self, Report};
use crate::spans::Spans;
use crate::types::{self, Types};

/// Stack of the thread that evaluates: enough for [`Limits::depth`] calls of deeply nested code without optimization.
const STACK_BYTES: usize = 256 << 20;

/// A function that has passed all checks that precede evaluation.
pub(crate) struct Checked {
    tree: Tree,
    types: Types,
    file: Arc<str>,
}

/// Lowers and types a function with everything that it reaches; `None` if there are errors.
pub(crate) fn check(
    items: &Items,
    function: &Rc<syn::ItemFn>,
    spans: &mut Spans,
    report: &mut Report,
) -> Option<Checked> {
    let tree = build_hir::build_hir(items, function, spans, report);
    if !report.is_empty() {
        return None;
    }
    let types = types::infer(&tree, report);
    let file = Arc::from(function.sig.ident.span().file());
    report.is_empty().then_some(Checked { tree, types, file })
}

impl Checked {
    /// Returns the types of the function's parameters after the program.
    pub(crate) fn params(&self) -> impl Iterator<Item = &TypeExpr> {
        self.tree.functions.iter().take(1).flat_map(|function| function.params.iter().skip(1).map(|(_, ty)| ty))
    }

    /// Runs the function on a new program, passes the program to `finish`, and returns the result.
    ///
    /// # Errors
    /// The errors that calls reported, the error that stopped the evaluation, or the errors of `finish`.
    pub(crate) fn record<T>(
        &self,
        spec: AlgoSpec,
        args: &[i128],
        limits: Limits,
        finish: impl FnOnce(Program) -> Result<T, Diagnostics> + Send,
    ) -> Result<T, Diagnostics>
    where
        T: Send,
    {
        on_own_stack(|| {
            let program = Program::new(spec);
            let args = self.params().zip(args).map(|(ty, arg)| match ty {
                TypeExpr::Int(_) => Value::Int(*arg),
                _ => Value::Bool(*arg != 0),
            });
            let result = eval::run(&self.tree, &self.types, Some(&program), args.collect(), &self.file, limits);
            program.set_location(None);
            match result {
                Ok(_) => finish(program),
                Err(error) => {
                    program.report(error);
                    program.finish().map_or_else(Err, |_| Err(internal("an error was lost")))
                }
            }
        })
    }

    /// Runs a function that has no parameters and needs no program. Returns its value as `{:?}` formats it.
    ///
    /// # Errors
    /// The error that stopped the evaluation.
    pub(crate) fn value(&self, limits: Limits) -> Result<String, Diagnostics> {
        on_own_stack(|| {
            let value = eval::run(&self.tree, &self.types, None, Vec::new(), &self.file, limits)?;
            Ok(eval::fmt::debug(&value))
        })
    }
}

/// Runs `work` on a separate thread whose stack is large enough for its recursion.
fn on_own_stack<T: Send>(work: impl FnOnce() -> Result<T, Diagnostics> + Send) -> Result<T, Diagnostics> {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    std::thread::scope(|scope| match thread.spawn_scoped(scope, work) {
        Ok(handle) => handle.join().unwrap_or_else(|_| Err(internal("evaluation panicked"))),
        Err(error) => Err(internal(&format!("no thread to evaluate on: {error}"))),
    })
}

fn internal(message: &str) -> Diagnostics {
    Diagnostics::from(Diagnostic::new(Code::Internal, report::at(u32::MAX), message))
}

#[cfg(test)]
mod tests {
    use mscclpp_core::diag::Code;

    use super::on_own_stack;

    #[test]
    fn a_panic_of_ours_is_an_internal_error() {
        let found = on_own_stack::<()>(|| panic!("a bug of this crate")).expect_err("it panics");
        assert_eq!(found.iter().map(|one| one.code).collect::<Vec<_>>(), [Code::Internal]);
    }
}
