//! Communicators: one rank's handle each.

mod configure;
mod create;
pub(crate) mod device_comm;
mod divide;
mod divisions;
mod end;
pub(crate) mod memory;
mod nested;
mod query;
pub(crate) mod reduction;
mod set_up;
mod signals;
pub(crate) mod transfer;
mod watch;
pub(crate) mod window;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use cudarc::driver::sys;
use mscclpp_bootstrap::RootListener;
use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::{Device, Stream};
use mscclpp_exec::{__ProcessMark as ProcessMark, Error};
use mscclpp_select::Choice;

pub(crate) use self::create::{init_all, init_rank, init_scalable, own_device, run_all, unique_id};
use self::device_comm::DeviceWindows;
pub(crate) use self::divide::{grow, newcomers_id, shrink, split};
use self::divisions::Divisions;
pub(crate) use self::end::{abort, async_error, destroy, finalize, resume, revoke, suspend};
use self::memory::Memories;
pub(crate) use self::memory::Memory;
use self::nested::Served;
pub(crate) use self::nested::{nested_handle, nested_window};
pub(crate) use self::query::{memory_statistic, properties, team_lsa, team_rail, team_world, to_lsa, to_world};
use self::reduction::Operators;
pub(crate) use self::reduction::{Operator, Scalar, scale};
use self::signals::Signals;
pub(crate) use self::signals::{OneSided, Put, descriptions};
use crate::abi::{Code, Handle};
use crate::config::Config;
use crate::entry::{Failure, Result, keep_error};
use crate::forward::Nested;
use crate::kind::{FUNCTIONS, Kind};
use crate::open_group;
use crate::profiler::Profiler;

/// Maximum number of streams that a communicator keeps.
const MAX_STREAMS: usize = 64;

/// Number of places of functions in the count of calls.
const PLACES: u64 = 16;

/// Streams whose handle is a name: the thread's default stream is another one in each thread.
const STREAM_PER_THREAD: usize = 2;

/// What distinguishes a communicator from all others, the same on all its ranks: its number in its job, and one of the job.
pub(crate) type Identity = (u64, u128);

/// A rank's communicator.
pub(crate) struct Comm {
    pub(crate) handle: usize,
    pub(crate) device: Device,
    pub(crate) config: Config,
    state: Mutex<State>,
    is_changed: Condvar,
    divisions: Divisions,
    /// Held during calls, so that the watching thread does not disturb them.
    calling: Mutex<()>,
    /// Held while the watching thread checks: a launch that it ends has failed before others learn that it has ended.
    watching: Mutex<()>,
    /// By identifier; programs use few.
    streams: Mutex<Vec<(u64, Arc<Stream>)>>,
    pub(crate) memories: Memories,
    /// The windows that kernels look up.
    device_windows: DeviceWindows,
    pub(crate) operators: Operators,
    signals: Signals,
    /// Listens for processes that join when the communicator grows.
    newcomers: Mutex<Option<RootListener>>,
    /// Number of calls, and the place of the last one's function: `count * 16 + place`.
    calls: AtomicU64,
    /// The first failure of calls that were enqueued.
    failure: Mutex<Option<Failure>>,
    /// The algorithm that the last call named.
    forced: Mutex<Option<(CollectiveKind, Choice)>>,
    /// The communicator of the real NCCL, if the environment names one.
    nested: OnceLock<Nested>,
    /// Requests that were checked, and that algorithms serve.
    served: Mutex<Served>,
    /// What a profiler plugin keeps of the communicator, until it is destroyed.
    profiler: Mutex<Option<Arc<Profiler>>>,
    is_finalized: AtomicBool,
    is_suspended: AtomicBool,
    /// Whether the program has aborted it.
    is_aborted: AtomicBool,
}

/// Whether a communicator can be used.
enum State {
    Starting,
    Ready(Communicator),
    Failed(Failure),
}

/// The process that created the first communicator: a copy of it, made by `fork`, has neither their connections nor their memory.
static PROCESS: LazyLock<ProcessMark> = LazyLock::new(ProcessMark::new);

/// Communicators by handle.
static COMMS: RwLock<BTreeMap<usize, Arc<Comm>>> = RwLock::new(BTreeMap::new());

/// Returns the communicator of a handle.
///
/// # Errors
/// An invalid argument for a handle that is not, or no longer, one of this process; an invalid usage in a copy of the process.
pub(crate) fn find(handle: Handle) -> Result<Arc<Comm>> {
    if PROCESS.is_copy() {
        return Err(Failure::usage(
            "this process is a copy, made by fork, of the one that created the communicators, and cannot use them: call fork before \
             the first communicator is created, or start another program in the copy",
        ));
    }
    let comms = COMMS.read().unwrap_or_else(PoisonError::into_inner);
    comms.get(&(handle as usize)).cloned().ok_or_else(|| match handle.is_null() {
        true => Failure::argument("comm is null"),
        false => {
            Failure::argument(format!("comm is {handle:p}, no communicator of this process, or one that was destroyed"))
        }
    })
}

/// Returns all communicators of the process.
pub(crate) fn all() -> Vec<Arc<Comm>> {
    COMMS.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
}

fn remove(handle: usize) -> Option<Arc<Comm>> {
    COMMS.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
}

/// Locks a mutex, also after a panic of a thread that had locked it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Comm {
    /// Adds a communicator that is being created.
    fn add(device: Device, config: Config) -> Arc<Self> {
        /// Handles are numbers that no other communicator of the process ever has.
        static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
        LazyLock::force(&PROCESS);
        let comm = Arc::new(Self {
            handle: NEXT.fetch_add(0x10, Ordering::Relaxed),
            device,
            config,
            state: Mutex::new(State::Starting),
            is_changed: Condvar::new(),
            divisions: Divisions::default(),
            calling: Mutex::default(),
            watching: Mutex::default(),
            streams: Mutex::default(),
            memories: Memories::default(),
            device_windows: DeviceWindows::default(),
            operators: Operators::default(),
            signals: Signals::default(),
            newcomers: Mutex::default(),
            calls: AtomicU64::new(0),
            failure: Mutex::default(),
            forced: Mutex::default(),
            nested: OnceLock::new(),
            served: Mutex::default(),
            profiler: Mutex::default(),
            is_finalized: AtomicBool::new(false),
            is_suspended: AtomicBool::new(false),
            is_aborted: AtomicBool::new(false),
        });
        COMMS.write().unwrap_or_else(PoisonError::into_inner).insert(comm.handle, Arc::clone(&comm));
        comm
    }

    /// Ends the creation.
    fn started(&self, created: Result<Communicator>) -> Result<()> {
        let mut state_now = lock(&self.state);
        let created = created.and_then(|communicator| self.check_not_aborted(&communicator).map(|()| communicator));
        let (state, result) = match created {
            Ok(communicator) => (State::Ready(communicator), Ok(())),
            Err(failure) => (State::Failed(failure.clone()), Err(failure)),
        };
        *state_now = state;
        drop(state_now);
        self.is_changed.notify_all();
        result
    }

    /// Returns the communicator, once it is created.
    ///
    /// # Errors
    /// An invalid argument while it is being created; why its creation failed.
    pub(crate) fn ready(&self) -> Result<Communicator> {
        match &*lock(&self.state) {
            State::Ready(communicator) => Ok(communicator.clone()),
            State::Failed(failure) => Err(failure.clone()),
            State::Starting => Err(Failure::argument(
                "the communicator is still being created: call ncclCommGetAsyncError until it is no longer in progress",
            )),
        }
    }

    /// Waits until the communicator is created.
    ///
    /// # Errors
    /// Why its creation failed.
    fn wait(&self) -> Result<Communicator> {
        if open_group::is_open() && self.is_starting() {
            return Err(Failure::usage(
                "the group that creates the communicator has not ended: call ncclGroupEnd first",
            ));
        }
        let mut state = lock(&self.state);
        while matches!(*state, State::Starting) {
            state = self.is_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.ready()
    }

    fn is_starting(&self) -> bool {
        matches!(*lock(&self.state), State::Starting)
    }

    /// Returns the communicator for a call that is not one of a finalized communicator.
    ///
    /// # Errors
    /// As [`ready`](Self::ready); an invalid usage after it was finalized.
    pub(crate) fn for_call(&self) -> Result<Communicator> {
        match self.is_finalized.load(Ordering::Relaxed) {
            true => Err(Failure::usage("the communicator was finalized: it can only be destroyed")),
            false => self.ready(),
        }
    }

    /// Excludes the watching thread during a call, which follows the divisions that were begun before.
    pub(crate) fn calling(&self) -> MutexGuard<'_, ()> {
        self.wait_for_divisions();
        lock(&self.calling)
    }

    /// Returns a stream of the caller's.
    pub(crate) fn stream(&self, handle: usize) -> Arc<Stream> {
        // SAFETY: a stream of NCCL's callers is one of the communicator's device, in its primary context, and exists during the
        // call. That of each thread is used by the calling thread alone.
        let (id, stream) =
            unsafe { (Stream::id_of_raw(&self.device, handle), || Arc::new(Stream::from_raw(&self.device, handle))) };
        if handle == STREAM_PER_THREAD {
            return stream();
        }
        let mut streams = lock(&self.streams);
        if let Some((_, known)) = streams.iter().find(|(of, _)| *of == id) {
            return Arc::clone(known);
        }
        if streams.len() >= MAX_STREAMS {
            streams.clear();
        }
        let new = stream();
        streams.push((id, Arc::clone(&new)));
        new
    }

    /// Returns the communicator's profiler if a plugin asks for events.
    pub(crate) fn profiler(&self) -> Option<Arc<Profiler>> {
        if Profiler::is_active() { lock(&self.profiler).clone() } else { None }
    }

    /// Lets an algorithm serve the following calls, as all ranks do.
    pub(crate) fn force(
        &self,
        communicator: &Communicator,
        choice: Option<(CollectiveKind, Choice)>,
    ) -> std::result::Result<(), Error> {
        let mut forced = lock(&self.forced);
        if *forced != choice {
            communicator.force_algorithm(choice.clone())?;
            *forced = choice;
            lock(&self.served).clear();
        }
        Ok(())
    }

    /// Drops what calls have prepared, except the memory that other ranks access. A call of all ranks.
    ///
    /// # Errors
    /// [`Error::Busy`].
    fn release_prepared(&self, communicator: &Communicator) -> std::result::Result<(), Error> {
        communicator.release_prepared()?;
        lock(&self.served).clear();
        Ok(())
    }

    /// Records an event of the caller's on a stream.
    pub(crate) fn record(&self, event: usize, stream: usize) -> std::result::Result<(), Error> {
        // SAFETY: callers pass an event and a stream of the communicator's device; the driver is loaded.
        let recorded = unsafe { sys::cuEventRecord(event as sys::CUevent, stream as sys::CUstream) };
        match recorded {
            sys::CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(Error::System {
                what: "cannot record config.launchCompletionEvent".into(),
                reason: format!("cuEventRecord returned {code:?}"),
            }),
        }
    }

    /// Counts a call that begins.
    pub(crate) fn count_call(&self, kind: Kind) {
        let count = |calls: u64| Some((calls | (PLACES - 1)) + 1 + kind.number() as u64);
        // It never fails.
        let _ = self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
    }

    /// Returns what this rank has called, for messages.
    fn describe_calls(&self) -> String {
        let rank = self.ready().map_or_else(|_| "this rank".to_owned(), |comm| format!("rank {}", comm.rank()));
        let calls = self.calls.load(Ordering::Relaxed);
        match FUNCTIONS.get((calls % PLACES) as usize) {
            Some(function) if calls >= PLACES => {
                format!("call {} of {rank}, its last one, is {function}", calls / PLACES)
            }
            _ => format!("{rank} had made no call"),
        }
    }

    /// Records the first failure of calls that were enqueued: with the cause that all ranks name, if there is one, and this rank's
    /// last call.
    fn note(&self, failure: Failure) -> Failure {
        let cause = self.ready().ok().and_then(|communicator| communicator.bootstrap().check_alive().err());
        // Launches of the real NCCL may wait for ranks that are lost.
        if let Some(nested) = self.nested() {
            nested.abort();
        }
        let failure = match cause.map(Failure::from) {
            Some(cause) if failure.text.contains(&cause.text) => Failure { code: cause.code, ..failure },
            Some(cause) => Failure { text: format!("{}\n{}", cause.text, failure.text), ..cause },
            None => failure,
        };
        self.signals.release();
        lock(&self.failure)
            .get_or_insert_with(|| Failure { text: format!("{}\n{}", failure.text, self.describe_calls()), ..failure })
            .clone()
    }

    /// Returns the failure of earlier calls, if it is known.
    pub(crate) fn check_known_failure(&self) -> Result<()> {
        lock(&self.failure).clone().map_or(Ok(()), Err)
    }

    /// Returns the text of the communicator's failure.
    pub(crate) fn failure_text(&self) -> Option<&'static CStr> {
        let failure = lock(&self.failure).clone();
        let failure = failure.or_else(|| match &*lock(&self.state) {
            State::Failed(failure) => Some(failure.clone()),
            _ => None,
        });
        failure.map(|failure| keep_error(&failure.text))
    }

    /// Converts the result of a call: a failure of the communicator stays its failure.
    pub(crate) fn result(&self, made: std::result::Result<(), mscclpp_exec::Error>) -> Result<()> {
        made.map_err(|error| {
            let failure = Failure::from(error);
            match failure.code {
                Code::InvalidArgument => failure,
                _ => self.note(failure),
            }
        })
    }
}
