//! NCCL's interface for kernels, of which teams are served.

use std::ffi::{c_int, c_void};

use super::{Class, Function, functions, loud, passed};
use crate::abi::{Handle, Team};
use crate::entry::{self, Result};
use crate::{comm, forward};

/// What to do instead of kernels that communicate by NCCL's device interface.
const NO_DEVICE_API: &str = "it fills or reads structures that NVIDIA's device headers, compiled into the program's kernels, define for one \
     version of NVIDIA's library alone; start the program without the preloaded library, or use mscclpp's own channels for kernels";

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

functions! {
    228 Forwarded ncclDevCommCreate pncclDevCommCreate(of: Handle, requirements: *const c_void, out: *mut c_void) => {
        let library = passed("ncclDevCommCreate", NO_DEVICE_API)?;
        let comm = comm::nested_handle(of)?;
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclDevCommCreate", fn(usize, *const c_void, *mut c_void), comm, requirements, out) };
        library.check("ncclDevCommCreate", comm, code)
    }
    228 Forwarded ncclDevCommDestroy pncclDevCommDestroy(of: Handle, device: *const c_void) => {
        let library = passed("ncclDevCommDestroy", NO_DEVICE_API)?;
        let comm = comm::nested_handle(of)?;
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclDevCommDestroy", fn(usize, *const c_void), comm, device) };
        library.check("ncclDevCommDestroy", comm, code)
    }
    229 Loud ncclGetMultimemDevicePointer pncclGetMultimemDevicePointer(_window: *mut c_void, _offset: usize, _multimem: *mut c_void, _out: *mut *mut c_void) => {
        Err(loud("ncclGetMultimemDevicePointer", NO_DEVICE_API))
    }
    231 Loud ncclGetMultimemDeviceLeInfo pncclGetMultimemDeviceLeInfo(_window: *mut c_void, _offset: usize, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetMultimemDeviceLeInfo", NO_DEVICE_API))
    }
    231 Loud ncclGetCftDeviceLeInfo pncclGetCftDeviceLeInfo(_window: *mut c_void, _offset: usize, _peer: c_int, _team: Team, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetCftDeviceLeInfo", NO_DEVICE_API))
    }
    231 Loud ncclGetPeerDeviceLeInfo pncclGetPeerDeviceLeInfo(_window: *mut c_void, _offset: usize, _peer: c_int, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetPeerDeviceLeInfo", NO_DEVICE_API))
    }
    228 Ours ncclTeamWorld pncclTeamWorld(of: Handle) -> Team { team("ncclTeamWorld", || comm::team_world(&*comm::find(of)?)) }
    228 Ours ncclTeamLsa pncclTeamLsa(of: Handle) -> Team { team("ncclTeamLsa", || comm::team_lsa(&*comm::find(of)?)) }
    228 Ours ncclTeamRail pncclTeamRail(of: Handle) -> Team { team("ncclTeamRail", || comm::team_rail(&*comm::find(of)?)) }
    231 Loud ncclTeamCft pncclTeamCft(_comm: Handle, _mode: c_int) -> Team { team("ncclTeamCft", || Err(loud("ncclTeamCft", NO_DEVICE_API))) }
    231 Loud ncclTeamCftMultimem pncclTeamCftMultimem(_comm: Handle) -> Team {
        team("ncclTeamCftMultimem", || Err(loud("ncclTeamCftMultimem", NO_DEVICE_API)))
    }
    228 Ours ncclTeamRankToWorld pncclTeamRankToWorld(of: Handle, team: Team, number: c_int) -> c_int {
        rank("ncclTeamRankToWorld", || comm::to_world(&*comm::find(of)?, team, number))
    }
    228 Ours ncclTeamRankToLsa pncclTeamRankToLsa(of: Handle, team: Team, number: c_int) -> c_int {
        rank("ncclTeamRankToLsa", || comm::to_lsa(&*comm::find(of)?, team, number))
    }
    228 Loud ncclLsaBarrierCreateRequirement pncclLsaBarrierCreateRequirement(_team: Team, _count: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclLsaBarrierCreateRequirement", NO_DEVICE_API))
    }
    228 Loud ncclGinBarrierCreateRequirement pncclGinBarrierCreateRequirement(_comm: Handle, _team: Team, _count: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinBarrierCreateRequirement", NO_DEVICE_API))
    }
    229 Loud ncclGinOutboxCreateRequirement pncclGinOutboxCreateRequirement(_blocks: c_int, _size: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinOutboxCreateRequirement", NO_DEVICE_API))
    }
    229 Loud ncclGinInboxA2ACreateRequirement pncclGinInboxA2ACreateRequirement(_team: Team, _blocks: c_int, _size: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinInboxA2ACreateRequirement", NO_DEVICE_API))
    }
    228 Loud ncclLLA2ACalcSlots pncclLLA2ACalcSlots(_elements: c_int, _size: c_int) -> c_int {
        entry::call("ncclLLA2ACalcSlots", || Err(loud("ncclLLA2ACalcSlots", NO_DEVICE_API)));
        0
    }
    228 Loud ncclLLA2ACreateRequirement pncclLLA2ACreateRequirement(_blocks: c_int, _slots: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclLLA2ACreateRequirement", NO_DEVICE_API))
    }
}
