//! Creates communicators: from unique ids, and of the devices of this process.

use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};
use std::thread;

use mscclpp_bootstrap::{Options, Rendezvous, UniqueId as Id};
use mscclpp_communicator::Communicator;
use mscclpp_core::threads;
use mscclpp_exec::cuda::{Device, current_device, device_count};

use super::configure::configure;
use super::divisions::Division;
use super::{Comm, find, lock, remove, watch};
use crate::abi::{Code, Handle, UniqueId};
use crate::config::Config;
use crate::debug;
use crate::entry::{Failure, Result, check_pointer, fail, panicked, write};
use crate::open_group::{self, Start};
use crate::params;

/// The rendezvous of ids that this process has made, by id.
static MADE: Mutex<Option<HashMap<String, Rendezvous>>> = Mutex::new(None);

/// Name of threads that create communicators.
const THREAD: &str = "mscclpp-nccl-init";

/// Creates a communicator; the result is that of the call.
pub(super) type Create = Box<dyn FnOnce() -> Result<Communicator> + Send>;

/// Returns the text of an id.
pub(super) fn text(id: &UniqueId) -> String {
    id.0.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).map(char::from).collect()
}

pub(super) fn id_of(id: &Id) -> Result<UniqueId> {
    let text = id.to_string();
    let mut id = UniqueId([0; 128]);
    if text.len() >= id.0.len() {
        return Err(Failure::new(Code::InternalError, format!("a unique id of {} bytes", text.len())));
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
pub(super) fn options() -> Result<Options> {
    Ok(Options::from_env()?)
}

/// Opens a device; those of a process are opened once.
pub(super) fn device(ordinal: Option<u32>) -> Result<Device> {
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

pub(super) fn check_ranks(num_ranks: c_int, rank: c_int) -> Result<(u32, u32)> {
    match (u32::try_from(num_ranks), u32::try_from(rank)) {
        (Ok(num_ranks), Ok(rank)) if rank < num_ranks => Ok((num_ranks, rank)),
        _ => Err(Failure::argument(format!("rank {rank} of {num_ranks} ranks: expected 0 <= rank < nranks"))),
    }
}

/// Waits until all ranks of a communicator have their parts of it: messages of a part pass through ranks that are not in it, and
/// those may end after they have divided it. The communicator reports a failure at its next call.
pub(super) fn leave_division(divided: &Communicator) {
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

/// Creates a communicator, now or at the end of the group, and writes its handle. `parent`: the handle of the one that it comes from,
/// and that one itself if it is divided.
///
/// # Safety
/// `out` must be null or valid for writes until the end of the group.
pub(super) unsafe fn create(
    function: &'static str,
    out: *mut Handle,
    device: Device,
    config: Config,
    create: Create,
    parent: Option<(usize, Option<Communicator>)>,
) -> Result<()> {
    let (parent, divided) = parent.map_or((None, None), |(handle, divided)| (Some(handle), divided));
    check_pointer("newcomm", out)?;
    debug::init(params::version_line);
    let comm = Comm::add(device, config);
    // SAFETY: guaranteed by the caller.
    unsafe { out.write(comm.handle as Handle) };
    let run = {
        let starting = Starting(Arc::clone(&comm));
        move || {
            let comm = &starting.0;
            let created = create().and_then(|communicator| {
                comm.check_not_aborted(&communicator)?;
                configure(comm, &communicator, parent.is_some()).map(|()| communicator)
            });
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
        // The failure is the communicator's.
        let run = move || {
            if let Err(failure) = run() {
                fail(function, &failure);
            }
            Ok(())
        };
        return begin(Start { parent, is_nonblocking: true, run: Box::new(run) }).and(Err(in_progress()));
    }
    let out = out as usize;
    let run = move || {
        run().inspect_err(|_| {
            remove(comm.handle);
            // SAFETY: guaranteed by the caller of `create`: this runs before the group ends.
            unsafe { (out as *mut Handle).write(std::ptr::null_mut()) };
        })
    };
    begin(Start { parent, is_nonblocking: false, run: Box::new(run) })
}

/// The result of a call that continues after it has returned.
pub(super) fn in_progress() -> Failure {
    Failure::new(Code::InProgress, "")
}

/// Runs what creates a communicator, now or at the end of the group.
///
/// # Errors
/// Those of [`run_all`].
pub(super) fn begin(start: Start) -> Result<()> {
    open_group::defer(start).map_or(Ok(()), |start| run_all(vec![start]))
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
    let starts = created.iter().zip(locals).map(|(comm, communicator)| {
        let comm = Arc::clone(comm);
        let run = move || {
            let configured = configure(&comm, &communicator, false);
            comm.started(configured.map(|()| communicator))
        };
        Start { parent: None, is_nonblocking: false, run: Box::new(run) }
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

/// Makes the calls that create communicators of a group, each in a thread, since the ranks wait for one another; those that come from
/// one communicator in one thread. Threads of calls that do not block continue.
///
/// # Errors
/// The first failure; [`Code::InProgress`] if a thread continues.
pub(crate) fn run_all(starts: Vec<Start>) -> Result<()> {
    let mut sequences: Vec<Vec<Start>> = Vec::new();
    for start in starts {
        let is_same = |sequence: &&mut Vec<Start>| start.parent.is_some() && sequence[0].parent == start.parent;
        match sequences.iter_mut().find(is_same) {
            Some(sequence) => sequence.push(start),
            None => sequences.push(vec![start]),
        }
    }
    let mut started = Ok(());
    let is_continued = |sequence: &mut Vec<Start>| sequence.iter().all(|start| start.is_nonblocking);
    for sequence in sequences.extract_if(.., is_continued) {
        started = started.and(continue_in_thread(sequence));
        started = started.and(Err(in_progress()));
    }
    if sequences.len() <= 1 {
        return sequences.pop().map_or(Ok(()), run_sequence).and(started);
    }
    let result = thread::scope(|scope| {
        let spawn = |sequence| threads::named(THREAD).spawn_scoped(scope, move || run_sequence(sequence));
        let spawned: Vec<_> = sequences.into_iter().map(spawn).collect();
        let mut result = Ok(());
        for thread in spawned {
            let thread = thread.map_err(|error| no_thread(&error));
            result = result.and(thread.and_then(|thread| thread.join().unwrap_or_else(|panic| Err(panicked(&*panic)))));
        }
        result
    });
    result.and(started)
}

/// Makes calls that come from one communicator, after those that a thread makes: all of them, also if one fails.
fn run_sequence(sequence: Vec<Start>) -> Result<()> {
    let _division = parent(&sequence).map(|parent| Division::begin(parent, false));
    let mut result = Ok(());
    for start in sequence {
        result = result.and((start.run)());
    }
    result
}

/// Makes calls that come from one communicator in a thread, which continues after this call.
fn continue_in_thread(sequence: Vec<Start>) -> Result<()> {
    let division = parent(&sequence).map(|parent| Division::begin(parent, true));
    let run = move || {
        let _division = division;
        // Failures are those of the communicators.
        sequence.into_iter().for_each(|start| _ = (start.run)());
    };
    threads::named(THREAD).spawn(run).map(drop).map_err(|error| no_thread(&error))
}

fn no_thread(error: &std::io::Error) -> Failure {
    Failure::new(Code::SystemError, format!("no thread for the creation: {error}"))
}

/// Returns the communicator that calls come from, unless it was destroyed.
fn parent(sequence: &[Start]) -> Option<Arc<Comm>> {
    find(sequence.first()?.parent? as Handle).ok()
}
