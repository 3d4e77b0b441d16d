//! `mscclpp select`: explains which algorithm is selected for a call, and why others are not.

use std::process::ExitCode;

use mscclpp_communicator::tune::TuningTable;
use mscclpp_exec::cuda::KernelTier;
use mscclpp_select::{OrderPolicy, Outcome, Registry, Request};
use serde_json::json;

use super::machine::load;
use crate::args::SelectArgs;
use crate::error::Result;
use crate::exit;
use crate::output::{print, print_json};

/// Explains the selection.
///
/// # Errors
/// [`Error::Call`](crate::error::Error::Call) if the tuning table or what else the environment names cannot be read;
/// [`Error::Usage`](crate::error::Error::Usage) for an invalid root; those of the machine description; failures of standard output.
pub(crate) fn select(args: &SelectArgs) -> Result<ExitCode> {
    let mut registry = Registry::from_env().map_err(mscclpp_exec::Error::from)?;
    if let Some(path) = &args.table {
        registry.set_table(Some(TuningTable::load(path).map_err(mscclpp_exec::Error::from)?));
    }
    let machine = args.machine.as_deref().map(load).transpose()?;
    let of_machine = machine.as_ref().map(|machine| {
        let backend = if machine.cpu { mscclpp_select::Backend::Cpu } else { mscclpp_select::Backend::Cuda };
        (machine.ranks, machine.ranks_per_node, machine.multicast, backend)
    });
    let (ranks, per_node, multicast, backend) =
        of_machine.unwrap_or((8, u32::MAX, false, mscclpp_select::Backend::Cpu));
    let ranks = args.ranks.unwrap_or(ranks);
    if machine.is_some() {
        registry.set_machine(machine);
    }
    let of_environment = OrderPolicy::from_env().map_err(mscclpp_exec::Error::from)?;
    let request = Request::new(args.collective, ranks, args.rooted.call.dtype, args.bytes);
    let request = args.rooted.complete(Request {
        ranks_per_node: args.ranks_per_node.unwrap_or(per_node.min(ranks)),
        in_place: args.in_place,
        registered: args.registered,
        multicast: args.multicast || multicast,
        backend: args.backend.map_or(backend, Into::into),
        order: args.order.unwrap_or(of_environment),
        ..request
    })?;
    let explanation = registry.explain(&request);
    if args.json {
        let algorithms = explanation.candidates.iter().map(|verdict| {
            let outcome = match verdict.outcome {
                Outcome::Selected { .. } => "selected",
                Outcome::Eligible => "eligible",
                Outcome::Rejected(_) => "rejected",
            };
            json!({ "name": verdict.name, "outcome": outcome, "reason": verdict.outcome.to_string() })
        });
        print_json(&json!({
            "request": request.to_string(),
            "selected": explanation.selected(),
            "kernel": explanation.kernel.map(KernelTier::name),
            "algorithms": algorithms.collect::<Vec<_>>(),
            "machine": explanation.machine.as_ref().map(ToString::to_string),
            "not_loaded": explanation.refused,
        }))?;
    } else {
        print(&explanation)?;
    }
    Ok(ExitCode::from(if explanation.selected().is_some() { exit::SUCCESS } else { exit::FAILURE }))
}
