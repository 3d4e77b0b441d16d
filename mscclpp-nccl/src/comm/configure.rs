//! What the environment states of new communicators: plans of the user, and the real NCCL to which calls are forwarded.

use mscclpp_exec::Communicator;

use super::Comm;
use crate::entry::Result;
use crate::forward::{self, Nested, RULES_VARIABLE, VARIABLE};
use crate::selection;

/// Compares what the environments of all ranks state, adds the user's plans, and creates the communicator of the real NCCL. A
/// call of all ranks.
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
    if let Some(library) = library {
        // The communicator is new, so that there is none yet.
        let _ = comm.nested.set(Nested::new(library, communicator, &comm.device)?);
    }
    Ok(())
}
