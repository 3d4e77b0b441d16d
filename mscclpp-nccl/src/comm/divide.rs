//! Creates communicators from other ones: some of their ranks, those that remain, and more of them.

use std::ffi::c_int;
use std::sync::Arc;

use mscclpp_bootstrap::UniqueId as Id;
use mscclpp_communicator::Communicator;

use super::create::{begin, check_ranks, create, device, id_of, leave_division, options, text};
use super::{Comm, lock};
use crate::abi::{Handle, NO_COLOR, SHRINK_ABORT, UniqueId};
use crate::config::Config;
use crate::entry::{Failure, Result, check_pointer};
use crate::open_group::Start;

/// Divides a communicator.
///
/// # Safety
/// As for `create`; `config` must be valid for [`Config::read`].
pub(crate) unsafe fn split(
    comm: &Arc<Comm>,
    color: c_int,
    key: c_int,
    out: *mut Handle,
    config: *const std::ffi::c_void,
) -> Result<()> {
    const NAME: &str = "ncclCommSplit";
    check_pointer("newcomm", out)?;
    // SAFETY: guaranteed by the caller.
    let own = unsafe { Config::read(config) }?;
    let config = if config.is_null() { comm.config.clone() } else { own };
    if color < NO_COLOR {
        return Err(Failure::argument(format!("color: expected at least 0, or NCCL_SPLIT_NOCOLOR, found {color}")));
    }
    // Keys are compared as signed numbers.
    let (parent, key) = (comm.for_call()?, (key as u32) ^ (1 << 31));
    if color == NO_COLOR {
        // SAFETY: guaranteed by the caller.
        unsafe { out.write(std::ptr::null_mut()) };
        let of = Arc::clone(comm);
        // There is no other communicator whose failure it could be.
        let run = move || {
            let divided = parent.split(None, key).map(drop);
            leave_division(&parent);
            of.result(divided)
        };
        return begin(Start { parent: Some(comm.handle), is_nonblocking: config.is_nonblocking, run: Box::new(run) });
    }
    let divided = parent.clone();
    let divide = move || {
        let part = parent.split(Some(color as u32), key)?;
        part.ok_or_else(|| Failure::new(crate::abi::Code::InternalError, "a split without the rank that called it"))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { create(NAME, out, comm.device.clone(), config, Box::new(divide), Some((comm.handle, Some(divided)))) }
}

/// Creates a communicator without some ranks.
///
/// # Safety
/// As for [`split`]; `excluded` must be null or valid for reads of `num_excluded` numbers.
pub(crate) unsafe fn shrink(
    comm: &Arc<Comm>,
    excluded: *const c_int,
    num_excluded: c_int,
    out: *mut Handle,
    config: *const std::ffi::c_void,
    flags: c_int,
) -> Result<()> {
    check_pointer("excludeRanksList", excluded)?;
    check_pointer("newcomm", out)?;
    // SAFETY: guaranteed by the caller.
    let own = unsafe { Config::read(config) }?;
    let config = if config.is_null() { comm.config.clone() } else { own };
    let parent = comm.ready()?;
    let (rank, ranks) = (parent.rank(), parent.num_ranks());
    if flags & !SHRINK_ABORT != 0 {
        return Err(Failure::argument(format!(
            "shrinkFlags: expected NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT, found {flags:#x}"
        )));
    }
    let count = usize::try_from(num_excluded).ok().filter(|count| (1..ranks as usize).contains(count));
    let count = count.ok_or_else(|| {
        Failure::argument(format!("excludeRanksCount: expected 1 to {}, found {num_excluded}", ranks.saturating_sub(1)))
    })?;
    // SAFETY: guaranteed by the caller.
    let excluded = unsafe { std::slice::from_raw_parts(excluded, count) };
    let excluded = excluded.iter().map(|found| match u32::try_from(*found) {
        Ok(found) if found < ranks && found != rank => Ok(found),
        _ => Err(Failure::argument(format!(
            "excludeRanksList: expected other ranks than {rank}, below {ranks}, found {found}"
        ))),
    });
    let excluded = excluded.collect::<Result<Vec<u32>>>()?;
    let of = Arc::clone(comm);
    let without = move || {
        // Pending launches may wait for ranks that are excluded. A failed communicator has ended them.
        if flags & SHRINK_ABORT != 0 && of.check().is_ok() && !of.is_idle(&parent)? {
            parent.revoke();
            // It ends the launches.
            let _ = of.check();
        }
        Ok(parent.shrink(&excluded)?)
    };
    // SAFETY: guaranteed by the caller.
    unsafe { create("ncclCommShrink", out, comm.device.clone(), config, Box::new(without), Some((comm.handle, None))) }
}

/// Listens for processes that join the communicator.
pub(crate) fn newcomers_id(comm: &Comm) -> Result<UniqueId> {
    let communicator = comm.for_call()?;
    if communicator.rank() != 0 {
        let rank = communicator.rank();
        return Err(Failure::usage(format!(
            "rank 0 must make the id of the processes that join, and this is rank {rank}"
        )));
    }
    let listener = communicator.listen_for_newcomers()?;
    let id = id_of(listener.unique_id())?;
    *lock(&comm.newcomers) = Some(listener);
    Ok(id)
}

/// Adds processes to a communicator, as one of its ranks, or joins as one of them if `comm` is none.
///
/// # Safety
/// As for [`split`].
pub(crate) unsafe fn grow(
    comm: Option<&Arc<Comm>>,
    num_ranks: c_int,
    id: Option<&UniqueId>,
    rank: c_int,
    out: *mut Handle,
    config: *const std::ffi::c_void,
) -> Result<()> {
    const NAME: &str = "ncclCommGrow";
    check_pointer("newcomm", out)?;
    // SAFETY: guaranteed by the caller.
    let own = unsafe { Config::read(config) }?;
    let Some(comm) = comm else {
        let id = id.ok_or_else(|| {
            Failure::argument("uniqueId is null, and a process that joins needs that of ncclCommGetUniqueId")
        })?;
        let (num_ranks, rank) = check_ranks(num_ranks, rank)?;
        let job: Id = text(id)
            .parse()
            .map_err(|_| Failure::argument("uniqueId: expected the id that ncclCommGetUniqueId wrote"))?;
        let (device, options) = (device(None)?, options()?);
        let join = move || Ok(Communicator::join_grown(&job, rank, num_ranks, options)?);
        // SAFETY: guaranteed by the caller.
        return unsafe { create(NAME, out, device, own, Box::new(join), None) };
    };
    let config = if config.is_null() { comm.config.clone() } else { own };
    let parent = comm.for_call()?;
    let before = parent.num_ranks();
    let after = u32::try_from(num_ranks).ok().filter(|after| *after > before);
    let after =
        after.ok_or_else(|| Failure::argument(format!("nRanks: expected more than {before}, found {num_ranks}")))?;
    if rank != -1 {
        return Err(Failure::argument(format!("rank: expected -1, as ranks keep their number, found {rank}")));
    }
    let listener = lock(&comm.newcomers).take();
    if parent.rank() == 0 && listener.is_none() {
        return Err(Failure::usage(
            "call ncclCommGetUniqueId on rank 0 first, and give its id to the processes that join",
        ));
    }
    let newcomers: Vec<u32> = (before..after).collect();
    let larger = move || Ok(parent.grow(&newcomers, listener)?);
    // SAFETY: guaranteed by the caller.
    unsafe { create(NAME, out, comm.device.clone(), config, Box::new(larger), Some((comm.handle, None))) }
}
