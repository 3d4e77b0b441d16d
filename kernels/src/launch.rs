//! Launches: every CUDA thread a coroutine, one of which runs at a time, those of all kernels that run at once in one order.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::multicast::Window;
use crate::native::{self, SimThread};
use crate::options::Options;

/// First address and length of memory, ascending.
pub(crate) type Pieces = Arc<[(u64, u64)]>;

/// What memory a device reaches.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) pieces: Pieces,
    /// Ranges of multicast addresses.
    pub(crate) windows: Arc<[Window]>,
}

/// What a launch is about.
pub(crate) struct Kernel {
    pub(crate) kernel: *const c_void,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) argument: Vec<u64>,
    /// Memory that it may use.
    pub(crate) reach: Reach,
    pub(crate) device: u32,
    /// Where it was put.
    pub(crate) stream: usize,
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

/// A kernel that runs.
struct Grid {
    kernel: Kernel,
    blocks: Vec<Block>,
    /// Threads that have not finished.
    left: u32,
    fault: Option<Fault>,
}

/// A CUDA thread that has not finished.
struct Thread {
    grid: u32,
    facts: Box<SimThread>,
    running: Option<Running>,
}

/// A coroutine that began, and how it stops itself.
type Running = (Coroutine<(), Stop, (), DefaultStack>, *const Yielder<(), Stop>);

/// Why a coroutine stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Elsewhere,
    Waiting,
    Parked,
}

/// Kernels that run at once.
pub(crate) struct Grids {
    options: Options,
    random: Random,
    /// Those that have finished are `None`.
    grids: Vec<Option<Grid>>,
    threads: Vec<Option<Thread>>,
    /// Threads that can be resumed.
    ready: Vec<u32>,
    current: u32,
    yielder: *const Yielder<(), Stop>,
    /// Memory of the last access, and by which kernel.
    last_piece: (u32, (u64, u64)),
    /// Threads that stopped because they wait, one after the other, without anything happening.
    waits: u64,
    /// Whether nobody can go on, and how often the time was asked for since.
    stuck: bool,
    asked: u64,
    steps: u64,
    idle_since: Option<Instant>,
}

thread_local! {
    static GRIDS: Cell<*mut Grids> = const { Cell::new(null_mut()) };
    static STACKS: std::cell::RefCell<Vec<DefaultStack>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Bytes of a coroutine's stack.
const STACK: usize = 64 << 10;

/// How many times less often threads of a slow device have their turn.
const SLOWNESS: u32 = 100;

/// A kernel that has finished: where it was put, and how it came out.
pub(crate) type Finished = (usize, Result<(), Fault>);

/// What the surroundings say when they had their turn.
pub(crate) struct Turn {
    /// Kernels to begin.
    pub(crate) more: Vec<Kernel>,
    /// Whether others may do something that threads wait for: the host's helpers, other processes.
    pub(crate) may_help: bool,
    /// What memory each device reaches, if that has changed.
    pub(crate) reach: Option<Vec<Reach>>,
}

impl Grids {
    pub(crate) fn new(options: Options, seed: u64) -> Self {
        Self {
            options,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            grids: Vec::new(),
            threads: Vec::new(),
            ready: Vec::new(),
            current: 0,
            yielder: std::ptr::null(),
            last_piece: (0, (0, 0)),
            waits: 0,
            stuck: false,
            asked: 0,
            steps: 0,
            idle_since: None,
        }
    }

    fn begin(&mut self, kernel: Kernel) {
        let number = self.grids.len() as u32;
        let block = || Block {
            // SAFETY: freed when the kernel has finished.
            stores: unsafe { native::sim_new_stores(kernel.threads) },
            shared: Vec::new(),
            arrived: 0,
            holds: 0,
            result: 0,
            parked: Vec::new(),
        };
        let blocks: Vec<_> = (0..kernel.blocks).map(|_| block()).collect();
        for (at, block) in (0..).zip(&blocks) {
            for thread in 0..kernel.threads {
                let facts = SimThread {
                    thread,
                    threads: kernel.threads,
                    block: at,
                    blocks: kernel.blocks,
                    stores: block.stores,
                    shared: null_mut(),
                };
                self.ready.push(self.threads.len() as u32);
                self.threads.push(Some(Thread { grid: number, facts: Box::new(facts), running: None }));
            }
        }
        let left = kernel.blocks * kernel.threads;
        self.grids.push(Some(Grid { kernel, blocks, left, fault: None }));
        self.waits = 0;
    }

    fn any_ready(&mut self) -> u32 {
        let at = self.random.below(self.ready.len() as u32) as usize;
        self.ready[at]
    }

    /// Whether a thread belongs to the slow device.
    fn is_slow(&mut self, thread: u32) -> bool {
        let slow = self.options.slow;
        slow.is_some() && self.grid_of(thread).map(|grid| grid.kernel.device) == slow
    }

    /// Takes a thread off those that can be resumed.
    fn leave(&mut self, number: u32) {
        self.ready.retain(|&other| other != number);
    }

    /// Lets stores reach memory now and then, and looks whether anybody can go on. Returns: whether the surroundings should have
    /// their turn.
    fn settle(&mut self) -> bool {
        let idle = self.waits > 2 * self.ready.len() as u64;
        if idle || self.random.below(8) == 0 {
            let count = self.blocks().count() as u32;
            let at = self.random.below(count) as usize;
            let stores = self.blocks().nth(at).map(|block| block.stores);
            // SAFETY: stores of kernels that run.
            stores.map(|stores| unsafe { native::sim_write_one(stores) });
        }
        if !idle || self.stuck {
            self.idle_since = None;
            return false;
        }
        // SAFETY: stores of kernels that run.
        let waiting: usize = self.blocks().map(|block| unsafe { native::sim_waiting_stores(block.stores) }).sum();
        let patience = if self.options.slow.is_some() { 16 * u64::from(SLOWNESS) } else { 16 };
        waiting == 0 && self.waits > patience * self.ready.len() as u64 + 64
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.grids.iter().flatten().flat_map(|grid| &grid.blocks)
    }

    /// What the surroundings say. `idle`: nobody could go on when they were asked.
    fn take(&mut self, turn: Turn, idle: bool) {
        if let Some(reach) = turn.reach {
            for grid in self.grids.iter_mut().flatten() {
                grid.kernel.reach = reach[grid.kernel.device as usize].clone();
            }
            self.last_piece = (0, (0, 0));
        }
        let begins = !turn.more.is_empty();
        turn.more.into_iter().for_each(|kernel| self.begin(kernel));
        if idle && !begins {
            let since: Instant = *self.idle_since.get_or_insert_with(Instant::now);
            self.stuck = !turn.may_help || since.elapsed() > self.options.patience;
        }
    }

    fn grid_of(&mut self, thread: u32) -> Option<&mut Grid> {
        let grid = self.threads[thread as usize].as_ref()?.grid;
        self.grids[grid as usize].as_mut()
    }
}

/// Runs kernels until all have finished, with those that come while they run. `surroundings` have their turn every so often,
/// and when nobody can go on; they hear what has finished.
pub(crate) fn run(options: Options, seed: u64, mut surroundings: impl FnMut(Vec<Finished>) -> Turn) {
    let mut grids = Grids::new(options, seed);
    let pointer = &raw mut grids;
    let outer = GRIDS.replace(pointer);
    // SAFETY: `grids` outlives the loop. It is only reached through `pointer` until the loop is over: here between two resumes,
    // and from coroutines in the callbacks, never at the same time.
    let at_hand = || unsafe { &mut *pointer };
    let turn = surroundings(Vec::new());
    at_hand().take(turn, false);
    while !at_hand().ready.is_empty() {
        let grids = at_hand();
        grids.steps += 1;
        let idle = grids.settle();
        if idle || grids.steps.is_multiple_of(1024) {
            let turn = surroundings(Vec::new());
            grids.take(turn, idle);
        }
        let mut number = grids.any_ready();
        while grids.is_slow(number) && grids.random.below(SLOWNESS) != 0 {
            number = grids.any_ready();
        }
        grids.current = number;
        let Some(thread) = &mut grids.threads[number as usize] else { break };
        let facts: *mut SimThread = &raw mut *thread.facts;
        if thread.running.is_none() {
            let Some(grid) = &grids.grids[thread.grid as usize] else { break };
            let (entry, argument) = (grid.kernel.kernel as usize, grid.kernel.argument.as_ptr() as usize);
            let (facts, grids_at) = (facts as usize, pointer as usize);
            let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| DefaultStack::new(STACK).expect("a stack"));
            let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Stop>, ()| {
                // SAFETY: the kernels outlive their coroutines, nobody else is in them now, and the kernel takes this argument.
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
                STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
                if let Some(finished) = grids.finish(number) {
                    let turn = surroundings(vec![finished]);
                    grids.take(turn, false);
                }
            }
            CoroutineResult::Yield(stop) => {
                match stop {
                    Stop::Waiting => grids.waits += 1,
                    // It may be inside of a wait's look, so that says nothing; its next store does.
                    Stop::Elsewhere => {}
                    Stop::Parked => grids.leave(number),
                }
                if let Some(thread) = &mut grids.threads[number as usize] {
                    thread.running = Some((coroutine, yielder));
                }
            }
        }
    }
    GRIDS.set(outer);
    // A thread that never came to a block sync leaves the others of its block parked.
    debug_assert!(grids.threads.iter().all(Option::is_none), "threads of a block at a sync that not all reach");
}

impl Grids {
    /// A thread has finished; returns its kernel, if that was the last one of it.
    fn finish(&mut self, number: u32) -> Option<Finished> {
        self.leave(number);
        self.waits = 0;
        let grid = self.threads[number as usize].take()?.grid;
        let slot = &mut self.grids[grid as usize];
        let left = &mut slot.as_mut()?.left;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let grid = slot.take()?;
        for block in &grid.blocks {
            // A kernel's end publishes everything.
            // SAFETY: made when the kernel began, and no coroutine of it is left.
            unsafe {
                while native::sim_write_one(block.stores) {}
                native::sim_free_stores(block.stores);
            }
        }
        if self.grids.iter().all(Option::is_none) {
            self.grids.clear();
            self.threads.clear();
            (self.stuck, self.last_piece) = (false, (0, (0, 0)));
        }
        Some((grid.kernel.stream, grid.fault.map_or(Ok(()), Err)))
    }
}

/// The kernels whose coroutine calls.
fn current<'a>() -> &'a mut Grids {
    // SAFETY: callbacks come from coroutines of the kernels that `run` put there, and use them for themselves until they return
    // or suspend.
    unsafe { &mut *GRIDS.get() }
}

/// The block whose coroutine calls, and how many threads it has.
fn current_block<'a>() -> (&'a mut Block, u32) {
    let grids = current();
    let thread = grids.threads[grids.current as usize].as_ref().expect("it runs");
    let grid = grids.grids[thread.grid as usize].as_mut().expect("it has threads");
    (&mut grid.blocks[thread.facts.block as usize], grid.kernel.threads)
}

fn suspend(stop: Stop) {
    let grids = current();
    let (number, yielder) = (grids.current, grids.yielder);
    // SAFETY: the yielder of the coroutine at hand, which lives as long as that.
    unsafe { (*yielder).suspend(stop) };
    debug_assert_eq!(current().current, number);
}

#[unsafe(no_mangle)]
extern "C" fn sim_yield(waiting: bool) {
    let grids = current();
    if waiting {
        suspend(Stop::Waiting);
    } else if grids.options.stop_at_one_of != 0 && grids.random.below(grids.options.stop_at_one_of) == 0 {
        suspend(Stop::Elsewhere);
    }
}

#[unsafe(no_mangle)]
extern "C" fn sim_meet(predicate: bool) -> u32 {
    // SAFETY: a coroutine is at hand.
    unsafe { native::sim_share_stores() };
    let number = current().current;
    let (block, threads) = current_block();
    block.arrived += 1;
    block.holds += u32::from(predicate);
    if block.arrived < threads {
        block.parked.push(number);
        suspend(Stop::Parked);
    } else {
        block.result = std::mem::take(&mut block.holds);
        block.arrived = 0;
        let mut parked = std::mem::take(&mut block.parked);
        current().ready.append(&mut parked);
        current().waits = 0;
    }
    current_block().0.result
}

#[unsafe(no_mangle)]
extern "C" fn sim_now() -> u64 {
    let grids = current();
    if !grids.stuck {
        return grids.steps;
    }
    grids.asked += 1;
    (1 << 62) + (grids.asked << 40)
}

#[unsafe(no_mangle)]
extern "C" fn sim_shared(name: *const c_void, bytes: usize) -> *mut c_void {
    let (block, _) = current_block();
    if let Some((_, memory)) = block.shared.iter_mut().find(|(of, _)| *of == name as usize) {
        return memory.as_mut_ptr().cast();
    }
    // Shared memory holds anything at first.
    block.shared.push((name as usize, vec![u128::MAX / 3; bytes.div_ceil(16)].into()));
    block.shared.last_mut().map_or(null_mut(), |(_, memory)| memory.as_mut_ptr().cast())
}

#[unsafe(no_mangle)]
extern "C" fn sim_may_use(at: *const c_void, bytes: u32, write: bool) -> bool {
    let grids = current();
    let (address, number) = (at as u64, grids.current);
    let inside = |(first, len): (u64, u64)| {
        address >= first && address - first <= len && u64::from(bytes) <= len - (address - first)
    };
    let grid = grids.threads[number as usize].as_ref().map_or(0, |thread| thread.grid);
    if grids.last_piece.0 == grid && inside(grids.last_piece.1) {
        return true;
    }
    let facts =
        grids.threads[number as usize].as_ref().map_or((0, 0), |thread| (thread.facts.block, thread.facts.thread));
    let Some(of) = grids.grid_of(number) else { return false };
    let pieces = &of.kernel.reach.pieces;
    let behind = pieces.partition_point(|&(first, _)| first <= address);
    let piece = behind.checked_sub(1).map(|at| pieces[at]).filter(|&piece| inside(piece));
    match piece {
        Some(piece) => grids.last_piece = (grid, piece),
        None => {
            let (block, thread) = facts;
            of.fault.get_or_insert(Fault { address, bytes, write, block, thread });
        }
    }
    piece.is_some()
}

/// The bug of a switch that leaves one member out of what it loads.
pub(crate) const A_MEMBER_LEFT_OUT: &str = "a_member_left_out";

/// # Safety
/// There is room for `most` addresses.
#[unsafe(no_mangle)]
unsafe extern "C" fn sim_members(at: *const c_void, bytes: u32, write: bool, addresses: *mut u64, most: u32) -> u32 {
    let grids = current();
    let (address, number, options) = (at as u64, grids.current, grids.options);
    let (block, thread) =
        grids.threads[number as usize].as_ref().map_or((0, 0), |thread| (thread.facts.block, thread.facts.thread));
    let Some(of) = grids.grid_of(number) else { return 0 };
    let mut count = 0;
    if let Some(members) = of.kernel.reach.windows.iter().find_map(|window| window.members(address, bytes)) {
        for member in members.take(most as usize) {
            // SAFETY: there is room for so many.
            unsafe { addresses.add(count as usize).write(member) };
            count += 1;
        }
    }
    if count == 0 {
        of.fault.get_or_insert(Fault { address, bytes, write, block, thread });
    }
    if let Some(counts) = options.counts {
        let counter = if write { &counts.stores } else { &counts.loads };
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    let left_out = !write && options.bug == Some(A_MEMBER_LEFT_OUT);
    count - u32::from(left_out && count > 1)
}

#[unsafe(no_mangle)]
extern "C" fn sim_random(bound: u32) -> u32 {
    current().random.below(bound)
}

#[unsafe(no_mangle)]
extern "C" fn sim_progress() {
    let grids = GRIDS.get();
    if !grids.is_null() {
        current().waits = 0;
    }
}

#[unsafe(no_mangle)]
extern "C" fn sim_is_strong() -> bool {
    !current().options.weak
}
