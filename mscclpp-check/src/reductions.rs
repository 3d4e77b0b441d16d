//! Plans that average: executors add, and divide the outputs once, when the launch ends ([`ReduceOp::Avg`]). Results of other
//! reductions would be divided as well, so executors run no plan that has both.
//!
//! Copies of inputs in the outputs of such a plan would also be divided: `dataflow` finds these.

use super::place::{LocatedOp, each};
use super::view::View;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_plan::types::ReduceOp;

pub(super) fn check(view: View) -> Diagnostics {
    let (mut average, mut other) = (None::<LocatedOp>, None::<LocatedOp>);
    each(view, &mut |at| {
        if at.op.kind.is_reduce() {
            let first = if op(&at) == ReduceOp::Avg { &mut average } else { &mut other };
            first.get_or_insert(at);
        }
    });
    let (Some(average), Some(other)) = (average, other) else { return Diagnostics::default() };
    let describe = |at: &LocatedOp| format!("{} ({})", at.display_name(view.plan), at.agent());
    let message = format!(
        "{} reduces with `{}`, and {} with `avg`, which divides all outputs",
        describe(&other),
        op(&other),
        describe(&average)
    );
    Diagnostic::new(Code::MixedAverage, other.site(view.plan), message)
        .note(format!("{} averages", describe(&average)), average.site(view.plan))
        .help("use `avg` for all reductions of the plan, or for none")
        .into()
}

fn op(at: &LocatedOp) -> ReduceOp {
    at.op.reduce.unwrap_or_default()
}
