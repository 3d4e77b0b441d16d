//! Launches: every CUDA thread is a coroutine, one of which runs at a time; the threads of all kernels that run at once
//! share one scheduler.

mod callbacks;
mod grids;
mod sleepers;

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

pub(crate) use self::callbacks::{OMITTED_MEMBER, sim_step};
use self::grids::{Grids, SLOWNESS, Stop};
use crate::multicast::MulticastRange;
use crate::native::{self, SimThread};
use crate::options::Options;

/// First address and length of allocations, ascending.
pub(crate) type Pieces = Arc<[(u64, u64)]>;

/// The memory that a device can access.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) pieces: Pieces,
    /// Ranges of multicast addresses.
    pub(crate) windows: Arc<[MulticastRange]>,
}

/// A launch of a kernel.
pub(crate) struct Kernel {
    pub(crate) kernel: *const c_void,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) argument: Vec<u64>,
    /// Memory that it may use.
    pub(crate) reach: Reach,
    pub(crate) device: u32,
    /// Stream on which it was enqueued.
    pub(crate) stream: usize,
}

/// Failure of a kernel.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// An access to unallocated memory.
    Access { address: u64, bytes: u32, write: bool, block: u32, thread: u32 },
    /// This number of threads wait for operations that cannot happen, and do not read the clock.
    Endless { threads: u32 },
    /// A condition that device code asserts does not hold.
    Assertion { condition: String, block: u32, thread: u32 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access { address, bytes, write, block, thread } => {
                let what = if *write { "written" } else { "read" };
                write!(f, "{bytes} bytes at {address:#x} {what} by thread {thread} of block {block} were not allocated")
            }
            Self::Endless { threads } => write!(f, "{threads} threads wait for what cannot happen"),
            Self::Assertion { condition, block, thread } => {
                write!(f, "`{condition}` does not hold in thread {thread} of block {block}")
            }
        }
    }
}

/// A kernel that has finished: its stream, and its result.
pub(crate) type Finished = (usize, Result<(), Fault>);

/// Result of a turn of the host.
pub(crate) struct Turn {
    /// Kernels to begin.
    pub(crate) more: Vec<Kernel>,
    /// Whether other agents may release waiting threads: the host's threads, other processes, delayed work of streams.
    pub(crate) may_help: bool,
    /// The memory that each device can access, if that has changed.
    pub(crate) reach: Option<Vec<Reach>>,
}

thread_local! {
    static GRIDS: Cell<*mut Grids> = const { Cell::new(null_mut()) };
}

/// Stacks of coroutines that have ended.
static STACKS: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

fn stacks() -> MutexGuard<'static, Vec<DefaultStack>> {
    STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of steps of threads between two turns of the host. Threads that wait take few steps, so that the host's work would come late
/// if these were more, and plans without a wait for the other devices at their end would rarely be found.
const HOST_INTERVAL: u64 = 128;

/// Bytes of a coroutine's stack.
const STACK: usize = 64 << 10;

/// Runs kernels until all have finished, including those that arrive while they run. `surroundings` is called at
/// intervals, and when no thread can make progress; it receives the kernels that have finished, and whether that is so.
pub(crate) fn run(options: Options, seed: u64, mut surroundings: impl FnMut(Vec<Finished>, bool) -> Turn) {
    let mut grids = Grids::new(options, seed);
    // A pointer to the whole, to which `sim_wake` casts what `memory.cc` has.
    let run = Rc::as_ptr(&grids.run).cast();
    let pointer = &raw mut grids;
    let outer = GRIDS.replace(pointer);
    // SAFETY: it lives as long as `grids`, and the next call of this kind is below.
    let outer_run = unsafe { native::sim_enter_run(run) };
    // SAFETY: `grids` outlives the loop. It is accessed only through `pointer` until the loop has ended: here between
    // two resumes, and from coroutines in the callbacks, never at the same time.
    let at_hand = || unsafe { &mut *pointer };
    let turn = surroundings(Vec::new(), false);
    at_hand().take(turn, false);
    loop {
        let grids = at_hand();
        grids.collect_awoken();
        // Threads at a block sync that not all threads of the block reach are blocked forever as well.
        if grids.ready.is_empty() && !grids.has_sleepers() || grids.is_stalled() {
            let Some(ended) = grids.end_one() else { break };
            let turn = surroundings(vec![ended], false);
            grids.take(turn, false);
            continue;
        }
        grids.steps += 1;
        grids.clock += 1;
        let idle = grids.advance_stores();
        if idle || grids.steps.is_multiple_of(HOST_INTERVAL) {
            let turn = surroundings(Vec::new(), idle);
            grids.take(turn, idle);
        }
        if grids.ready.is_empty() {
            continue;
        }
        let mut number = grids.any_ready();
        while grids.is_slow(number) && grids.run.sim.below(SLOWNESS) != 0 {
            number = grids.any_ready();
        }
        grids.current = number;
        let Some(thread) = &mut grids.threads[number as usize] else { break };
        let facts: *mut SimThread = &raw mut *thread.facts;
        if thread.running.is_none() {
            let Some(grid) = &grids.grids[thread.grid as usize] else { break };
            let (entry, argument) = (grid.kernel.kernel as usize, grid.kernel.argument.as_ptr() as usize);
            let (facts, grids_at) = (facts as usize, pointer as usize);
            let stack = stacks().pop().unwrap_or_else(|| DefaultStack::new(STACK).expect("a stack"));
            let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Stop>, ()| {
                // SAFETY: the kernels outlive their coroutines, no other code uses them now, and the kernel takes this
                // argument.
                unsafe {
                    (*(grids_at as *mut Grids)).yielder = yielder;
                    native::sim_enter(facts as *mut SimThread, entry as *const c_void, argument as *const c_void);
                }
            });
            thread.running = Some((coroutine, std::ptr::null()));
        }
        // Taken out, so that nothing of `grids` is borrowed while it runs.
        let Some((mut coroutine, yielder)) = thread.running.take() else { break };
        grids.yielder = yielder;
        // SAFETY: a thread that has not finished.
        unsafe { native::sim_resume(facts) };
        let stopped = coroutine.resume(());
        let grids = at_hand();
        let yielder = grids.yielder;
        match stopped {
            CoroutineResult::Return(()) => {
                stacks().push(coroutine.into_stack());
                if let Some(finished) = grids.finish(number) {
                    let turn = surroundings(vec![finished], false);
                    grids.take(turn, false);
                }
            }
            CoroutineResult::Yield(stop) => {
                match stop {
                    Stop::Waiting => grids.run.sim.waits.set(grids.run.sim.waits.get() + 1),
                    // The thread may be polling in a wait, so this is no progress; its next store is.
                    Stop::Elsewhere | Stop::Asleep => {}
                    Stop::Parked => grids.remove_ready(number),
                }
                if let Some(thread) = &mut grids.threads[number as usize] {
                    thread.running = Some((coroutine, yielder));
                }
            }
        }
    }
    // SAFETY: those that ran before, and still run.
    unsafe { native::sim_enter_run(outer_run) };
    GRIDS.set(outer);
}
