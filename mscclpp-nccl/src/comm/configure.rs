//! What the environment states of new communicators: plans of the user, and the real NCCL to which calls are forwarded.

use std::sync::Once;

use mscclpp_communicator::Communicator;
use mscclpp_select::defaults::Defaults;
use mscclpp_select::{LaunchLimits, PlanFile, Registry};

use super::{Comm, lock};
use crate::abi::Code;
use crate::debug;
use crate::entry::{Failure, Result};
use crate::forward::{self, Nested, RULES_VARIABLE, VARIABLE};
use crate::kernels;
use crate::profiler::Profiler;

/// Compares what the environments of all ranks state, adds the user's plans, creates the communicator of the real NCCL, and
/// tells a profiler plugin of the new one. A call of all ranks, of which some may come from a parent: a grown one has new ranks.
///
/// # Errors
/// On the ranks where it occurs, why a library or a plan cannot be used; on the others, and where environments differ, the
/// first difference; those of the real NCCL, on all ranks.
pub(super) fn configure(comm: &Comm, communicator: &Communicator, has_parent: bool) -> Result<()> {
    let (library, registry) = (forward::library(), registry(comm, communicator.rank()));
    let of_library = match library {
        None => "none".to_owned(),
        Some(Ok(library)) => format!("NCCL {}", forward::dotted(library.version())),
        Some(Err(_)) => "cannot be loaded".to_owned(),
    };
    let of_plans = match &registry {
        Ok(registry) => registry
            .added_names()
            .map_or_else(|| "none".to_owned(), |names| format!("{names}; {}", registry.fingerprint())),
        Err(_) => "cannot be used".to_owned(),
    };
    let rules = forward::rules().to_string();
    let values = [(VARIABLE, &*of_library), (RULES_VARIABLE, &*rules), ("plans of the user", &*of_plans)];
    let compared = communicator.bootstrap().compare(&values);
    // A rank's own failure says more than the difference from the others.
    let library = library.map(|library| library.as_ref().map_err(Clone::clone)).transpose()?;
    let registry = registry?;
    compared?;
    set_registry(comm, communicator, registry, has_parent)?;
    if let Some(library) = library {
        // The communicator is new, so that there is none yet.
        let _ = comm.nested.set(Nested::new(library, communicator, &comm.device)?);
    }
    let (number, job) = communicator.bootstrap().identity();
    // Plugins have 64 bits; the numbers of a job's communicators are multiplied by an odd one, so that they stay different.
    let identity = (job as u64) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let shape = [communicator.bootstrap().num_nodes(), communicator.num_ranks(), communicator.rank()];
    *lock(&comm.profiler) = Profiler::new(identity, comm.config.name.as_deref(), shape);
    Ok(())
}

/// Returns the registry of the built-in plans, of the plans and kernels that the program has registered, and of the plans and the tuning table that the
/// environment names. What the environment names is reported once.
///
/// # Errors
/// An invalid usage for what the environment names and cannot be used.
fn registry(comm: &Comm, rank: u32) -> Result<Registry> {
    static REPORT: Once = Once::new();
    let registry = Registry::with_defaults(&Defaults::current(), kernels::algorithms(comm.handle, rank))
        .map_err(|error| Failure::new(Code::InvalidUsage, error.to_string()))?;
    REPORT.call_once(|| {
        for PlanFile { path, outcome } in registry.files() {
            match outcome {
                Ok((name, collective)) => {
                    debug::info(|| format!("plan `{name}` for {collective} of {}", path.display()))
                }
                Err(reason) => debug::warn(&format!("a plan is left out: {}: {reason}", path.display())),
            }
        }
    });
    Ok(registry)
}

/// Sets the registry: the user's plans, and as limit of thread blocks the smallest number that a rank states as `maxCTAs`, as NCCL
/// does. A call of all ranks.
fn set_registry(comm: &Comm, communicator: &Communicator, mut registry: Registry, has_parent: bool) -> Result<()> {
    let own = [comm.config.max_blocks.unwrap_or(u32::MAX).to_le_bytes(), u32::from(has_parent).to_le_bytes()].concat();
    let all = communicator.bootstrap().all_gather(&own)?;
    let number = |of_rank: &[u8], at: usize| of_rank.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let max_blocks = all.iter().filter_map(|of_rank| number(of_rank, 0)).min().filter(|limit| *limit < u32::MAX);
    // Ranks with a parent have its registry, with its limit, and new ones have none.
    let differ = all.iter().any(|of_rank| number(of_rank, 4) != Some(0));
    let is_usual = registry.iter().all(|algorithm| algorithm.is_builtin());
    if is_usual && max_blocks.is_none() && !differ {
        return Ok(());
    }
    registry.set_launch_limits(LaunchLimits { max_blocks, ..LaunchLimits::default() });
    Ok(communicator.set_registry(registry)?)
}
