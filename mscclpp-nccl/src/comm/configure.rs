//! What the environment states of new communicators: plans of the user, and the real NCCL to which calls are forwarded.

use mscclpp_exec::Communicator;
use mscclpp_exec::select::LaunchLimits;

use super::{Comm, lock};
use crate::entry::Result;
use crate::forward::{self, Nested, RULES_VARIABLE, VARIABLE};
use crate::profiler::Profiler;
use crate::selection;

/// Compares what the environments of all ranks state, adds the user's plans, creates the communicator of the real NCCL, and
/// tells a profiler plugin of the new one. A call of all ranks.
///
/// # Errors
/// On the ranks where it occurs, why a library or a plan cannot be used; on the others, and where environments differ, the
/// first difference; those of the real NCCL, on all ranks.
pub(super) fn configure(comm: &Comm, communicator: &Communicator) -> Result<()> {
    let (library, plans) = (forward::library(), selection::from_env());
    let of_library = match library {
        None => "none".to_owned(),
        Some(Ok(library)) => format!("NCCL {}", forward::dotted(library.version())),
        Some(Err(_)) => "cannot be loaded".to_owned(),
    };
    let of_plans = match plans {
        Ok(None) => "none".to_owned(),
        Ok(Some(registry)) => registry.fingerprint(),
        Err(_) => "cannot be used".to_owned(),
    };
    let rules = forward::rules().to_string();
    let values = [(VARIABLE, &*of_library), (RULES_VARIABLE, &*rules), ("plans of the user", &*of_plans)];
    let compared = communicator.bootstrap().compare(&values);
    // A rank's own failure says more than the difference from the others.
    let library = library.map(|library| library.as_ref().map_err(Clone::clone)).transpose()?;
    let plans = plans.as_ref().map_err(Clone::clone)?;
    compared?;
    if let Some(registry) = plans {
        communicator.set_registry(registry.clone())?;
    }
    limit_blocks(comm, communicator)?;
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

/// Limits the thread blocks of calls to the smallest number that a rank states as `maxCTAs`, as NCCL does. A call of all ranks.
fn limit_blocks(comm: &Comm, communicator: &Communicator) -> Result<()> {
    let own = comm.config.max_blocks.unwrap_or(u32::MAX);
    let all = communicator.bootstrap().all_gather(&own.to_le_bytes())?;
    let limits = all.iter().filter_map(|limit| limit.as_slice().try_into().ok()).map(u32::from_le_bytes);
    if let Some(max_blocks) = limits.min().filter(|limit| *limit < u32::MAX) {
        communicator.configure(|registry| {
            let limits = LaunchLimits { max_blocks: Some(max_blocks), ..registry.launch_limits() };
            registry.set_launch_limits(limits);
        })?;
    }
    Ok(())
}
