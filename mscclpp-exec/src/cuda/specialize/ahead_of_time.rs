//! The sources of specialized kernels that are compiled ahead of time, by the same steps as when a plan is prepared on devices.

use mscclpp_core::plan::Plan;

use super::shape::Shapes;
use super::{Constants, MAX_OPERATIONS, NotSpecialized, failed, source};
use crate::cuda::multicast::MulticastUnavailable;
use crate::cuda::switch::Groups;
use crate::cuda::tables::Tables;
use mscclpp_base::interpret::{Params, resolve};
use mscclpp_base::kernel_tier::KernelTier;
use mscclpp_base::message::Message;
use mscclpp_base::passes::elide_own_packets::elide_own_packets;
use mscclpp_base::passes::insert_launch_barriers::{Placement, insert_launch_barriers, needed_barriers};
use mscclpp_cuda::jit::Source;

/// Returns which kernels launch a plan, at best, for ranks on one node, each on its own device: the arguments are those of
/// [`sources_of_ranks`]. Which devices and drivers take kernels that were compiled ahead of time is not considered.
#[doc(hidden)]
pub fn best_tier(plan: &Plan, message: Message, switch_floats: bool, multicast: bool) -> KernelTier {
    match sources_of_ranks(plan, message, switch_floats, multicast) {
        Err(_) => KernelTier::Interpreter,
        #[cfg(feature = "images")]
        Ok(sources) if sources.iter().all(mscclpp_cuda::ahead_of_time::contains) => KernelTier::AheadOfTime,
        Ok(_) => KernelTier::JustInTime,
    }
}

/// Returns the sources of a plan's kernels for ranks on one node, each on its own device. `switch_floats`: whether switches may reduce
/// floats; `multicast`: whether the devices support multicast objects.
///
/// # Errors
/// As [`specialized_source`](super::specialized_source).
#[doc(hidden)]
pub fn sources_of_ranks(
    plan: &Plan,
    message: Message,
    switch_floats: bool,
    multicast: bool,
) -> Result<Vec<Source>, NotSpecialized> {
    let mut program = resolve(plan).map_err(failed)?;
    elide_own_packets(&mut program);
    let params = Params::new(&program, message, u64::MAX, u64::MAX).map_err(failed)?;
    let device_of: Vec<u32> = (0..program.shape.ranks).collect();
    let node_of = vec![0; device_of.len()];
    let placement = Placement { device_of: &device_of, node_of: &node_of, far: &[] };
    let needed = needed_barriers(&program, &placement);
    insert_launch_barriers(&mut program, &placement, needed);
    let groups = Groups::with(&program, &device_of, |_| (!multicast).then_some(MulticastUnavailable::Off));
    let switched = [false, true].map(|combines| groups.useful(combines));
    let mut sources: Vec<Source> = Vec::new();
    for &rank in &device_of {
        let agents = (0..).zip(&program.agents).filter(|(_, code)| code.rank == rank);
        let numbers: Vec<u32> = agents.map(|(number, _)| number).collect();
        let blocks = Tables::blocks(&program, &numbers, &program.proxies);
        let shapes = Shapes::new(&program, &blocks, &switched, MAX_OPERATIONS)?;
        let source = source(&shapes, Constants::new(&program, &params, switch_floats))?;
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    Ok(sources)
}
