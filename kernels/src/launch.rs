//! A launch: every CUDA thread a coroutine, one of which runs at a time.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::native::{self, SimThread};
use crate::options::Options;

/// What a launch is about.
pub(crate) struct Kernel<'a> {
    pub(crate) kernel: *const c_void,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) argument: &'a [u64],
    /// Memory that it may use.
    pub(crate) pieces: &'a [(u64, u64)],
}

/// What went wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) write: bool,
    pub(crate) block: u32,
    pub(crate) thread: u32,
}

/// A xorshift, seeded.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound.max(1))) >> 32) as u32
    }
}

struct Block {
    stores: *mut c_void,
    /// Variables in shared memory, by name.
    shared: Vec<(usize, Box<[u128]>)>,
    /// Threads at the block sync at hand, those for which the predicate holds, and the last sync's result.
    arrived: u32,
    holds: u32,
    result: u32,
    parked: Vec<u32>,
}

struct Launch<'a> {
    kernel: &'a Kernel<'a>,
    options: Options,
    random: Random,
    blocks: Vec<Block>,
    /// Threads that can be resumed.
    ready: Vec<u32>,
    current: u32,
    yielder: *const Yielder<(), Stop>,
    /// Memory of the last access.
    last_piece: (u64, u64),
    fault: Option<Fault>,
    /// Threads that stopped because they wait, one after the other, without anything happening.
    waits: u64,
    /// Whether nobody can go on, and how often the time was asked for since.
    stuck: bool,
    asked: u64,
    steps: u64,
    idle_since: Option<Instant>,
}

/// Why a coroutine stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Elsewhere,
    Waiting,
    Parked,
}

/// A coroutine that began, and how it stops itself.
type Running = (Coroutine<(), Stop, (), DefaultStack>, *const Yielder<(), Stop>);

thread_local! {
    static LAUNCH: Cell<*mut c_void> = const { Cell::new(null_mut()) };
    static STACKS: std::cell::RefCell<Vec<DefaultStack>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Bytes of a coroutine's stack.
const STACK: usize = 64 << 10;

/// How long nothing may happen before a launch with help from the host counts as stuck.
const HOST_PATIENCE: Duration = Duration::from_secs(10);

/// Runs a launch to its end. `between`: called every so often, when the host may use the memory; whether it may do something
/// that threads wait for.
pub(crate) fn run(
    kernel: &Kernel<'_>,
    options: Options,
    seed: u64,
    mut between: impl FnMut() -> bool,
) -> Result<(), Fault> {
    let block = || Block {
        // SAFETY: freed below.
        stores: unsafe { native::sim_new_stores(kernel.threads) },
        shared: Vec::new(),
        arrived: 0,
        holds: 0,
        result: 0,
        parked: Vec::new(),
    };
    let count = kernel.blocks * kernel.threads;
    let mut launch = Launch {
        kernel,
        options,
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        blocks: (0..kernel.blocks).map(|_| block()).collect(),
        ready: (0..count).collect(),
        current: 0,
        yielder: std::ptr::null(),
        last_piece: (0, 0),
        fault: None,
        waits: 0,
        stuck: false,
        asked: 0,
        steps: 0,
        idle_since: None,
    };
    let mut threads: Vec<SimThread> = (0..count)
        .map(|number| SimThread {
            thread: number % kernel.threads,
            threads: kernel.threads,
            block: number / kernel.threads,
            blocks: kernel.blocks,
            stores: launch.blocks[(number / kernel.threads) as usize].stores,
            shared: null_mut(),
        })
        .collect();
    let mut coroutines: Vec<Option<Running>> = (0..count).map(|_| None).collect();
    let pointer = &raw mut launch;
    let outer = LAUNCH.replace(pointer.cast());
    // SAFETY: `launch` outlives the loop. It is only reached through `pointer` until the loop is over: here between two
    // resumes, and from coroutines in the callbacks, never at the same time.
    let at_hand = || unsafe { &mut *pointer };
    while !at_hand().ready.is_empty() {
        let launch = at_hand();
        launch.steps += 1;
        if launch.steps.is_multiple_of(1024) {
            between();
        }
        launch.settle(&mut between);
        let at = launch.random.below(launch.ready.len() as u32) as usize;
        let number = launch.ready[at];
        launch.current = number;
        let thread: *mut SimThread = &raw mut threads[number as usize];
        let slot = &mut coroutines[number as usize];
        if slot.is_none() {
            let (entry, argument) = (kernel.kernel as usize, kernel.argument.as_ptr() as usize);
            let (thread, launch_at) = (thread as usize, pointer as usize);
            let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| DefaultStack::new(STACK).expect("a stack"));
            let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Stop>, ()| {
                // SAFETY: the launch outlives its coroutines, nobody else is in it now, and the kernel takes this argument.
                unsafe {
                    (*(launch_at as *mut Launch<'_>)).yielder = yielder;
                    native::sim_enter(thread as *mut SimThread, entry as *const c_void, argument as *const c_void);
                }
            });
            *slot = Some((coroutine, std::ptr::null()));
        } else if let Some((_, yielder)) = slot {
            launch.yielder = *yielder;
        }
        let Some((coroutine, yielder)) = slot else { break };
        // SAFETY: a thread of this launch.
        unsafe { native::sim_resume(thread) };
        let stopped = coroutine.resume(());
        let launch = at_hand();
        *yielder = launch.yielder;
        match stopped {
            CoroutineResult::Yield(Stop::Waiting) => launch.waits += 1,
            // It may be inside of a wait's look, so that says nothing; its next store does.
            CoroutineResult::Yield(Stop::Elsewhere) => {}
            CoroutineResult::Yield(Stop::Parked) => launch.leave(number),
            CoroutineResult::Return(()) => {
                launch.leave(number);
                launch.waits = 0;
                if let Some((coroutine, _)) = slot.take() {
                    STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
                }
            }
        }
    }
    let stores: Vec<_> = at_hand().blocks.iter().map(|block| block.stores).collect();
    for stores in stores {
        // A kernel's end publishes everything.
        // SAFETY: made above, and no coroutine is left.
        unsafe {
            while native::sim_write_one(stores) {}
            native::sim_free_stores(stores);
        }
    }
    LAUNCH.set(outer);
    // A thread that never came to a block sync leaves the others of its block parked.
    debug_assert!(coroutines.iter().all(Option::is_none), "threads of a block at a sync that not all reach");
    launch.fault.map_or(Ok(()), Err)
}

impl Launch<'_> {
    /// Takes a thread off those that can be resumed.
    fn leave(&mut self, number: u32) {
        self.ready.retain(|&other| other != number);
    }

    /// Lets stores reach memory now and then, and looks whether anybody can go on.
    fn settle(&mut self, between: &mut impl FnMut() -> bool) {
        let idle = self.waits > 2 * self.ready.len() as u64;
        if idle || self.random.below(8) == 0 {
            let at = self.random.below(self.blocks.len() as u32) as usize;
            // SAFETY: stores of this launch.
            unsafe { native::sim_write_one(self.blocks[at].stores) };
        }
        if !idle || self.stuck {
            self.idle_since = None;
            return;
        }
        // SAFETY: stores of this launch.
        let waiting: usize = self.blocks.iter().map(|block| unsafe { native::sim_waiting_stores(block.stores) }).sum();
        if waiting > 0 || self.waits <= 16 * self.ready.len() as u64 + 64 {
            return;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        self.stuck = !between() || since.elapsed() > HOST_PATIENCE;
    }
}

/// The launch whose coroutine calls.
fn current<'a>() -> &'a mut Launch<'a> {
    // SAFETY: callbacks come from coroutines of the launch that `run` put there, and use it for themselves until they
    // return or suspend.
    unsafe { &mut *LAUNCH.get().cast::<Launch<'a>>() }
}

fn suspend(stop: Stop) {
    let launch = current();
    let (number, yielder) = (launch.current, launch.yielder);
    // SAFETY: the yielder of the coroutine at hand, which lives as long as that.
    unsafe { (*yielder).suspend(stop) };
    let launch = current();
    debug_assert_eq!(launch.current, number);
}

#[unsafe(no_mangle)]
extern "C" fn sim_yield(waiting: bool) {
    let launch = current();
    if waiting {
        suspend(Stop::Waiting);
    } else if launch.options.stop_at_one_of != 0 && launch.random.below(launch.options.stop_at_one_of) == 0 {
        suspend(Stop::Elsewhere);
    }
}

#[unsafe(no_mangle)]
extern "C" fn sim_meet(predicate: bool) -> u32 {
    // SAFETY: a coroutine is at hand.
    unsafe { native::sim_share_stores() };
    let launch = current();
    let (number, threads) = (launch.current, launch.kernel.threads);
    let block = &mut launch.blocks[(number / threads) as usize];
    block.arrived += 1;
    block.holds += u32::from(predicate);
    if block.arrived < threads {
        block.parked.push(number);
        suspend(Stop::Parked);
    } else {
        block.result = std::mem::take(&mut block.holds);
        block.arrived = 0;
        launch.ready.append(&mut block.parked);
        launch.waits = 0;
    }
    current().blocks[(number / threads) as usize].result
}

#[unsafe(no_mangle)]
extern "C" fn sim_now() -> u64 {
    let launch = current();
    if !launch.stuck {
        return launch.steps;
    }
    launch.asked += 1;
    (1 << 62) + (launch.asked << 40)
}

#[unsafe(no_mangle)]
extern "C" fn sim_shared(name: *const c_void, bytes: usize) -> *mut c_void {
    let launch = current();
    let block = &mut launch.blocks[(launch.current / launch.kernel.threads) as usize];
    if let Some((_, memory)) = block.shared.iter_mut().find(|(of, _)| *of == name as usize) {
        return memory.as_mut_ptr().cast();
    }
    // Shared memory holds anything at first.
    block.shared.push((name as usize, vec![u128::MAX / 3; bytes.div_ceil(16)].into()));
    block.shared.last_mut().map_or(null_mut(), |(_, memory)| memory.as_mut_ptr().cast())
}

#[unsafe(no_mangle)]
extern "C" fn sim_may_use(at: *const c_void, bytes: u32, write: bool) -> bool {
    let launch = current();
    let address = at as u64;
    let inside = |(first, len): (u64, u64)| {
        address >= first && address - first <= len && u64::from(bytes) <= len - (address - first)
    };
    if inside(launch.last_piece) {
        return true;
    }
    let pieces = launch.kernel.pieces;
    let behind = pieces.partition_point(|&(first, _)| first <= address);
    if let Some(&piece) = behind.checked_sub(1).map(|at| &pieces[at])
        && inside(piece)
    {
        launch.last_piece = piece;
        return true;
    }
    let (block, thread) = (launch.current / launch.kernel.threads, launch.current % launch.kernel.threads);
    launch.fault.get_or_insert(Fault { address, bytes, write, block, thread });
    false
}

#[unsafe(no_mangle)]
extern "C" fn sim_random(bound: u32) -> u32 {
    current().random.below(bound)
}

#[unsafe(no_mangle)]
extern "C" fn sim_progress() {
    let launch = LAUNCH.get().cast::<Launch<'_>>();
    if !launch.is_null() {
        current().waits = 0;
    }
}

#[unsafe(no_mangle)]
extern "C" fn sim_is_strong() -> bool {
    !current().options.weak
}
