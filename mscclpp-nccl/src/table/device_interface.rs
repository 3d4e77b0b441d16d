//! NCCL's interface for kernels, of which teams are served.

use std::ffi::{c_int, c_void};

use super::{Class, Function, functions, loud};
use crate::abi::{Handle, Team};
use crate::comm::window::Of;
use crate::comm::{self, device_comm};
use crate::device_api::{ResourceHandle, lsa_barrier_bytes, write_requirement};
use crate::entry::{self, Failure, Result, check_pointer, write};
use crate::forward;

/// What to do instead of kernels that communicate by a network or by logical endpoints.
const NO_NETWORK: &str = "it is for kernels that communicate by a network or by logical endpoints; start the program without the preloaded \
     library, or let ranks of a node communicate by device communicators";

/// Returns the team of a communicator, or one without ranks.
fn team(name: &'static str, find: impl FnOnce() -> Result<Team>) -> Team {
    let mut team = Team { num_ranks: 0, rank: -1, stride: 0 };
    entry::call(name, || {
        team = find()?;
        Ok(())
    });
    team
}

/// Returns the number of a rank, or -1.
fn rank(name: &'static str, find: impl FnOnce() -> Result<c_int>) -> c_int {
    let mut rank = -1;
    entry::call(name, || {
        rank = find()?;
        Ok(())
    });
    rank
}

/// Bytes of a slot of the all-to-all by flags: those of two words of data, each with a flag.
const SLOT_BYTES: u64 = 16;

/// Returns a number of the caller's.
fn number(name: &str, found: c_int) -> Result<u32> {
    u32::try_from(found).map_err(|_| Failure::argument(format!("{name}: expected a count, found {found}")))
}

/// Returns the number of slots for elements of a size: one for each 8 bytes.
fn slots_of(elements: u32, size: u32) -> Result<c_int> {
    let slots = u64::from(elements) * u64::from(size.div_ceil(8));
    c_int::try_from(slots)
        .map_err(|_| Failure::argument(format!("maxElts: {elements} elements of {size} bytes need {slots} slots")))
}

/// Returns the real NCCL with its handle of a communicator, if the communicator has one.
///
/// # Errors
/// Those of [`comm::nested_handle`].
fn forwarded(of: Handle) -> Result<Option<(&'static forward::Library, usize)>> {
    match (comm::find(of)?.nested(), forward::library()) {
        (Some(_), Some(library)) => Ok(Some((library.as_ref().map_err(Clone::clone)?, comm::nested_handle(of)?))),
        _ => Ok(None),
    }
}

functions! {
    228 Ours ncclDevCommCreate pncclDevCommCreate(of: Handle, requirements: *const c_void, out: *mut c_void) => {
        let Some((library, comm)) = forwarded(of)? else {
            // SAFETY: guaranteed by the caller.
            return unsafe { device_comm::create(comm::find(of)?, requirements, out) };
        };
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclDevCommCreate", fn(usize, *const c_void, *mut c_void), comm, requirements, out) };
        library.check("ncclDevCommCreate", comm, code)
    }
    228 Ours ncclDevCommDestroy pncclDevCommDestroy(of: Handle, device: *const c_void) => {
        let Some((library, comm)) = forwarded(of)? else {
            // SAFETY: guaranteed by the caller.
            return unsafe { device_comm::destroy(&*comm::find(of)?, device) };
        };
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclDevCommDestroy", fn(usize, *const c_void), comm, device) };
        library.check("ncclDevCommDestroy", comm, code)
    }
    229 Ours ncclGetMultimemDevicePointer pncclGetMultimemDevicePointer(window: *mut c_void, offset: usize, multimem: *mut c_void, out: *mut *mut c_void) => {
        check_pointer("outPtr", out)?;
        if multimem.is_null() {
            return Err(Failure::argument("multimem: expected the base of a device communicator's multicast addresses, found null"));
        }
        let address = comm::window::device_pointer(window, offset, Of::AllFrom(multimem as u64))?.unwrap_or(0);
        // SAFETY: guaranteed by the caller.
        unsafe { write("outPtr", out, address as *mut c_void) }
    }
    231 Loud ncclGetMultimemDeviceLeInfo pncclGetMultimemDeviceLeInfo(_window: *mut c_void, _offset: usize, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetMultimemDeviceLeInfo", NO_NETWORK))
    }
    231 Loud ncclGetCftDeviceLeInfo pncclGetCftDeviceLeInfo(_window: *mut c_void, _offset: usize, _peer: c_int, _team: Team, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetCftDeviceLeInfo", NO_NETWORK))
    }
    231 Loud ncclGetPeerDeviceLeInfo pncclGetPeerDeviceLeInfo(_window: *mut c_void, _offset: usize, _peer: c_int, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetPeerDeviceLeInfo", NO_NETWORK))
    }
    228 Ours ncclTeamWorld pncclTeamWorld(of: Handle) -> Team { team("ncclTeamWorld", || comm::team_world(&*comm::find(of)?)) }
    228 Ours ncclTeamLsa pncclTeamLsa(of: Handle) -> Team { team("ncclTeamLsa", || comm::team_lsa(&*comm::find(of)?)) }
    228 Ours ncclTeamRail pncclTeamRail(of: Handle) -> Team { team("ncclTeamRail", || comm::team_rail(&*comm::find(of)?)) }
    231 Loud ncclTeamCft pncclTeamCft(_comm: Handle, _mode: c_int) -> Team { team("ncclTeamCft", || Err(loud("ncclTeamCft", NO_NETWORK))) }
    231 Loud ncclTeamCftMultimem pncclTeamCftMultimem(_comm: Handle) -> Team {
        team("ncclTeamCftMultimem", || Err(loud("ncclTeamCftMultimem", NO_NETWORK)))
    }
    228 Ours ncclTeamRankToWorld pncclTeamRankToWorld(of: Handle, team: Team, number: c_int) -> c_int {
        rank("ncclTeamRankToWorld", || comm::to_world(&*comm::find(of)?, team, number))
    }
    228 Ours ncclTeamRankToLsa pncclTeamRankToLsa(of: Handle, team: Team, number: c_int) -> c_int {
        rank("ncclTeamRankToLsa", || comm::to_lsa(&*comm::find(of)?, team, number))
    }
    228 Ours ncclLsaBarrierCreateRequirement pncclLsaBarrierCreateRequirement(team: Team, count: c_int, handle: *mut c_void, out: *mut c_void) => {
        let (barriers, ranks) = (number("nBarriers", count)?, number("team.nRanks", team.num_ranks)?);
        let handle = handle.cast::<ResourceHandle>();
        // SAFETY: guaranteed by the caller.
        unsafe {
            write("outHandle", handle, ResourceHandle { unit: 0, count: barriers })?;
            write_requirement(out, lsa_barrier_bytes(barriers, ranks), align_of::<u32>(), &raw mut (*handle).unit)
        }
    }
    228 Loud ncclGinBarrierCreateRequirement pncclGinBarrierCreateRequirement(_comm: Handle, _team: Team, _count: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinBarrierCreateRequirement", NO_NETWORK))
    }
    229 Loud ncclGinOutboxCreateRequirement pncclGinOutboxCreateRequirement(_blocks: c_int, _size: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinOutboxCreateRequirement", NO_NETWORK))
    }
    229 Loud ncclGinInboxA2ACreateRequirement pncclGinInboxA2ACreateRequirement(_team: Team, _blocks: c_int, _size: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinInboxA2ACreateRequirement", NO_NETWORK))
    }
    228 Ours ncclLLA2ACalcSlots pncclLLA2ACalcSlots(elements: c_int, size: c_int) -> c_int {
        let mut slots = 0;
        entry::call("ncclLLA2ACalcSlots", || {
            slots = slots_of(number("maxElts", elements)?, number("maxEltSize", size)?)?;
            Ok(())
        });
        slots
    }
    228 Ours ncclLLA2ACreateRequirement pncclLLA2ACreateRequirement(blocks: c_int, slots: c_int, handle: *mut c_void, out: *mut c_void) => {
        let (blocks, slots) = (number("nBlocks", blocks)?, number("nSlots", slots)?);
        let handle = handle.cast::<ResourceHandle>();
        // Each block has an epoch and two sets of slots.
        let bytes = (1 + 2 * u64::from(slots)).saturating_mul(u64::from(blocks)).saturating_mul(SLOT_BYTES);
        // SAFETY: guaranteed by the caller.
        unsafe {
            write("outHandle", handle, ResourceHandle { unit: 0, count: slots })?;
            write_requirement(out, bytes, SLOT_BYTES as usize, &raw mut (*handle).unit)
        }
    }
}
