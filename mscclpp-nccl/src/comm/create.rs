//! Creates communicators: from unique ids, of the devices of this process, from other communicators.

use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};
use std::thread;

use mscclpp_bootstrap::{Options, Rendezvous, UniqueId as Id};
use mscclpp_exec::Communicator;
use mscclpp_exec::cuda::{Device, current_device, device_count};

use super::configure::configure;
use super::{Comm, lock, remove, watch};
use crate::abi::{Handle, NO_COLOR, SHRINK_ABORT, UniqueId};
use crate::config::Config;
use crate::debug;
use crate::entry::{Failure, Result, check_pointer, fail, panicked, write};
use crate::open_group;
use crate::params;

/// The rendezvous of ids that this process has made, by id.
static MADE: Mutex<Option<HashMap<String, Rendezvous>>> = Mutex::new(None);

/// Creates a communicator; the result is that of the call.
type Create = Box<dyn FnOnce() -> Result<Communicator> + Send>;

/// Returns the text of an id.
fn text(id: &UniqueId) -> String {
    id.0.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).map(char::from).collect()
}

fn id_of(id: &Id) -> Result<UniqueId> {
    let text = id.to_string();
    let mut id = UniqueId([0; 128]);
    if text.len() >= id.0.len() {
        return Err(Failure::new(crate::abi::Code::InternalError, format!("a unique id of {} bytes", text.len())));
    }
    id.0.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte as c_char);
    Ok(id)
}

/// Lets the ranks of a new job find each other through this process, which need not have one of them.
pub(crate) fn unique_id() -> Result<UniqueId> {
    let rendezvous = Rendezvous::new()?;
    let id = id_of(rendezvous.unique_id())?;
    lock(&MADE).get_or_insert_default().insert(text(&id), rendezvous);
    Ok(id)
}

/// Returns the timeouts that the environment states.
fn options() -> Result<Options> {
    Ok(Options::from_env()?)
}

/// Opens a device; those of a process are opened once.
fn device(ordinal: Option<u32>) -> Result<Device> {
    static DEVICES: Mutex<Option<HashMap<u32, Device>>> = Mutex::new(None);
    let current = match ordinal {
        Some(ordinal) => ordinal,
        None => current_device()?.unwrap_or(0),
    };
    let mut devices = lock(&DEVICES);
    let devices = devices.get_or_insert_default();
    if let Some(device) = devices.get(&current) {
        return Ok(device.clone());
    }
    let device = Device::new(current)?;
    devices.insert(current, device.clone());
    Ok(device)
}

/// Opens the current device for allocations.
pub(crate) fn own_device() -> Result<Device> {
    device(None)
}

fn check_ranks(num_ranks: c_int, rank: c_int) -> Result<(u32, u32)> {
    match (u32::try_from(num_ranks), u32::try_from(rank)) {
        (Ok(num_ranks), Ok(rank)) if rank < num_ranks => Ok((num_ranks, rank)),
        _ => Err(Failure::argument(format!("rank {rank} of {num_ranks} ranks: expected 0 <= rank < nranks"))),
    }
}

/// Waits until all ranks of a communicator have their parts of it: messages of a part pass through ranks that are not in it, and
/// those may end after they have divided it. The communicator reports a failure at its next call.
fn leave_division(divided: &Communicator) {
    let _ = divided.bootstrap().barrier();
}

/// A communicator whose creation fails if it is dropped before: the group that creates it has failed.
struct Starting(Arc<Comm>);

impl Drop for Starting {
    fn drop(&mut self) {
        if self.0.is_starting() {
            // It is the communicator's failure from now on.
            let _ =
                self.0.started(Err(Failure::usage("a call of the group that was to create the communicator failed")));
        }
    }
}

/// Creates a communicator, now or at the end of the group, and writes its handle. `divided`: the one of which it is a part.
///
/// # Safety
/// `out` must be null or valid for writes until the end of the group.
unsafe fn create(
    function: &'static str,
    out: *mut Handle,
    device: Device,
    config: Config,
    create: Create,
    divided: Option<Communicator>,
) -> Result<()> {
    check_pointer("newcomm", out)?;
    debug::init(params::version_line);
    let comm = Comm::add(device, config);
    // SAFETY: guaranteed by the caller.
    unsafe { out.write(comm.handle as Handle) };
    let run = {
        let starting = Starting(Arc::clone(&comm));
        move || {
            let comm = &starting.0;
            let created = create().and_then(|communicator| configure(comm, &communicator).map(|()| communicator));
            if let Some(divided) = &divided {
                leave_division(divided);
            }
            if let Ok(communicator) = &created {
                watch::begin();
                debug::info(|| {
                    let (rank, ranks, device) = (communicator.rank(), communicator.num_ranks(), comm.device.ordinal());
                    let name = comm.config.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
                    format!(
                        "{function}: communicator{name} {:#x}, rank {rank} of {ranks} on device {device}",
                        comm.handle
                    )
                });
            }
            comm.started(created)
        }
    };
    if comm.config.is_nonblocking {
        let (thread, of) = (thread::Builder::new().name("mscclpp-nccl-init".into()), Arc::clone(&comm));
        let spawned = thread.spawn(move || {
            if let Err(failure) = run() {
                fail(function, &failure);
            }
        });
        if let Err(error) = spawned {
            remove(of.handle);
            return Err(Failure::new(crate::abi::Code::SystemError, format!("no thread for the creation: {error}")));
        }
        return Err(Failure::new(crate::abi::Code::InProgress, ""));
    }
    let out = out as usize;
    let run = move || {
        run().inspect_err(|_| {
            remove(comm.handle);
            // SAFETY: guaranteed by the caller of `create`: this runs before the group ends.
            unsafe { (out as *mut Handle).write(std::ptr::null_mut()) };
        })
    };
    open_group::start(Box::new(run))
}

/// Joins the job of an id.
///
/// # Safety
/// As for `create`; `config` must be valid for [`Config::read`].
pub(crate) unsafe fn init_rank(
    function: &'static str,
    out: *mut Handle,
    num_ranks: c_int,
    id: &UniqueId,
    rank: c_int,
    config: *const std::ffi::c_void,
) -> Result<()> {
    check_pointer("comm", out)?;
    let (num_ranks, rank) = check_ranks(num_ranks, rank)?;
    // SAFETY: guaranteed by the caller.
    let config = unsafe { Config::read(config) }?;
    let (device, options, id) = (device(None)?, options()?, text(id));
    let job: Id = id.parse().map_err(|_| Failure::argument("commId: expected the id that ncclGetUniqueId wrote"))?;
    if lock(&MADE).as_ref().and_then(|made| made.get(&id)).is_some_and(Rendezvous::is_over) {
        return Err(Failure::usage("commId: its communicator was created before: ncclGetUniqueId makes an id for one"));
    }
    let join: Create = Box::new(move || Ok(Communicator::connect_by_id(&job, rank, num_ranks, options)?));
    // SAFETY: guaranteed by the caller.
    unsafe { create(function, out, device, config, join, None) }
}

/// Joins the job of several ids, of which the first one is used.
///
/// # Safety
/// As for [`init_rank`]; `ids` must be null or valid for reads of `num_ids` ids.
pub(crate) unsafe fn init_scalable(
    out: *mut Handle,
    num_ranks: c_int,
    rank: c_int,
    num_ids: c_int,
    ids: *const UniqueId,
    config: *const std::ffi::c_void,
) -> Result<()> {
    check_pointer("commIds", ids)?;
    if num_ids < 1 || num_ids > num_ranks {
        return Err(Failure::argument(format!("nId: expected 1 to {num_ranks}, found {num_ids}")));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { init_rank("ncclCommInitRankScalable", out, num_ranks, &*ids, rank, config) }
}

/// Creates a communicator of devices of this process.
///
/// # Safety
/// `comms` must be null or valid for writes of `num_devices` handles, `list` null or valid for as many reads.
pub(crate) unsafe fn init_all(comms: *mut Handle, num_devices: c_int, list: *const c_int) -> Result<()> {
    check_pointer("comm", comms)?;
    let count = device_count()?;
    let ranks = u32::try_from(num_devices).ok().filter(|ranks| *ranks > 0);
    let ranks = ranks.ok_or_else(|| Failure::argument(format!("ndev: expected at least 1, found {num_devices}")))?;
    if !list.is_null() {
        check_pointer("devlist", list)?;
    }
    let mut ordinals = Vec::new();
    for at in 0..ranks {
        // SAFETY: guaranteed by the caller.
        let ordinal = if list.is_null() { at as c_int } else { unsafe { list.add(at as usize).read() } };
        let ordinal = u32::try_from(ordinal).ok().filter(|ordinal| *ordinal < count);
        ordinals
            .push(ordinal.ok_or_else(|| Failure::argument(format!("devlist[{at}]: expected a device below {count}")))?);
    }
    let devices = ordinals.into_iter().map(|ordinal| device(Some(ordinal))).collect::<Result<Vec<_>>>()?;
    let locals = Communicator::local_with_options(ranks, options()?)?;
    debug::init(params::version_line);
    let created: Vec<_> = devices.into_iter().map(|device| Comm::add(device, Config::default())).collect();
    // The ranks wait for one another.
    let starts = created.iter().zip(locals).map(|(comm, communicator)| -> open_group::Start {
        let comm = Arc::clone(comm);
        Box::new(move || {
            let configured = configure(&comm, &communicator);
            comm.started(configured.map(|()| communicator))
        })
    });
    if let Err(failure) = run_all(starts.collect()) {
        created.iter().for_each(|comm| drop(remove(comm.handle)));
        return Err(failure);
    }
    for (at, comm) in created.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        unsafe { write("comm", comms.add(at), comm.handle as Handle)? };
    }
    watch::begin();
    Ok(())
}

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
        return open_group::start(Box::new(move || {
            parent.split(None, key)?;
            leave_division(&parent);
            Ok(())
        }));
    }
    let divided = parent.clone();
    let divide = move || {
        let part = parent.split(Some(color as u32), key)?;
        part.ok_or_else(|| Failure::new(crate::abi::Code::InternalError, "a split without the rank that called it"))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { create(NAME, out, comm.device.clone(), config, Box::new(divide), Some(divided)) }
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
    unsafe { create("ncclCommShrink", out, comm.device.clone(), config, Box::new(without), None) }
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
    unsafe { create(NAME, out, comm.device.clone(), config, Box::new(larger), None) }
}

/// Makes the calls that create communicators of a group, each in a thread, since the ranks wait for one another.
pub(crate) fn run_all(starts: Vec<open_group::Start>) -> Result<()> {
    let mut starts = starts;
    if starts.len() == 1 {
        return starts.pop().map_or(Ok(()), |start| start());
    }
    thread::scope(|scope| {
        let threads: Vec<_> = starts.into_iter().map(|start| scope.spawn(start)).collect();
        // All of them are joined, also if one fails.
        let mut result = Ok(());
        for thread in threads {
            result = result.and(thread.join().unwrap_or_else(|panic| Err(panicked(&*panic))));
        }
        result
    })
}
