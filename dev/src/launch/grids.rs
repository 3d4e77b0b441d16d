//! Kernels that run at once: their threads, which of these are ready, and when their stores reach memory.

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use super::sleepers::Run;
use super::{Fault, Finished, Kernel, Turn};
use crate::native::{self, SimPoll, SimShared, SimThread};
use crate::options::Options;

/// Factor by which threads of a slow device are scheduled less often.
pub(super) const SLOWNESS: u32 = 100;

/// Average number of turns of each thread without progress after which all threads count as blocked. The probability
/// that a thread that can make progress has none of these turns is e to the negative of this power: with 16 that
/// happened, since a full run checks some hundred million times.
const TURNS: u64 = 48;

/// Number of turns of the host between two searches for threads that see what it has changed, while other threads make progress.
const WAKE_INTERVAL: u64 = 8;

pub(super) struct Block {
    pub(super) stores: *mut c_void,
    /// Variables in shared memory, by name; of the first ones, threads find the places themselves.
    pub(super) shared: Vec<(usize, Box<[u128]>)>,
    pub(super) first_shared: Box<SimShared>,
    /// Threads that arrived at the current block sync, those for which the predicate holds, and the last sync's result.
    pub(super) arrived: u32,
    pub(super) holds: u32,
    pub(super) result: u32,
    pub(super) parked: Vec<u32>,
}

/// A running kernel.
pub(super) struct Grid {
    pub(super) kernel: Kernel,
    pub(super) blocks: Vec<Block>,
    /// Number of threads that have not finished.
    pub(super) left: u32,
    pub(super) fault: Option<Fault>,
}

/// A CUDA thread that has not finished.
pub(super) struct Thread {
    pub(super) grid: u32,
    /// Its index among those that can be resumed, if it is one of them.
    ready_at: usize,
    pub(super) facts: Box<SimThread>,
    pub(super) running: Option<Running>,
}

/// A coroutine that has begun, and its yielder.
pub(super) type Running = (Coroutine<(), Stop, (), DefaultStack>, *const Yielder<(), Stop>);

/// Reason why a coroutine stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Elsewhere,
    Waiting,
    /// At a wait, until what it polled changes.
    Asleep,
    Parked,
}

/// Kernels that run at once.
pub(super) struct Grids {
    pub(super) options: Options,
    pub(super) run: Rc<Run>,
    /// Running kernels; finished ones are `None`.
    pub(super) grids: Vec<Option<Grid>>,
    pub(super) threads: Vec<Option<Thread>>,
    /// Threads that can be resumed.
    pub(super) ready: Vec<u32>,
    pub(super) current: u32,
    pub(super) yielder: *const Yielder<(), Stop>,
    /// Stores of all blocks of running kernels.
    stores: Vec<*mut c_void>,
    /// Buffer for threads that have awoken.
    awoken: Vec<u32>,
    /// Whether all threads are blocked, and the number of clock reads since.
    pub(super) blocked: bool,
    pub(super) asked: u64,
    pub(super) steps: u64,
    /// Number of turns of the host.
    turns: u64,
    /// The kernels' clock.
    pub(super) clock: u64,
    /// Time without progress: the last clock reading, and the time counted until then.
    pub(super) idle: Option<(Instant, Duration)>,
}

/// The latest time of the clocks of kernels that have ended.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// Returns the time at which kernels begin: as on a device it is later than that of kernels which ended before, and about that of the host.
fn first_time() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    elapsed.max(LATEST.load(Relaxed)) + 1
}

impl Drop for Grids {
    fn drop(&mut self) {
        LATEST.fetch_max(self.clock, Relaxed);
    }
}

impl Grids {
    pub(super) fn new(options: Options, seed: u64) -> Self {
        let run = Rc::<Run>::default();
        run.sim.random.set(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        run.sim.stop_at_one_of.set(options.stop_at_one_of);
        run.sim.weak.set(options.weak);
        run.sim.records.set(options.accesses.is_some());
        run.sim.version.set(1);
        Self {
            options,
            run,
            grids: Vec::new(),
            threads: Vec::new(),
            ready: Vec::new(),
            current: 0,
            yielder: std::ptr::null(),
            stores: Vec::new(),
            awoken: Vec::new(),
            blocked: false,
            asked: 0,
            steps: 0,
            turns: 0,
            clock: first_time(),
            idle: None,
        }
    }

    pub(super) fn begin(&mut self, kernel: Kernel) {
        let number = self.grids.len() as u32;
        let block = || Block {
            // SAFETY: freed when the kernel has finished.
            stores: unsafe { native::sim_new_stores(kernel.threads) },
            shared: Vec::new(),
            first_shared: Box::default(),
            arrived: 0,
            holds: 0,
            result: 0,
            parked: Vec::new(),
        };
        let blocks: Vec<_> = (0..kernel.blocks).map(|_| block()).collect();
        for (at, block) in (0..).zip(&blocks) {
            self.stores.push(block.stores);
            for thread in 0..kernel.threads {
                let facts = SimThread {
                    thread,
                    threads: kernel.threads,
                    block: at,
                    blocks: kernel.blocks,
                    stores: block.stores,
                    shared: &raw const *block.first_shared,
                };
                let thread = Thread { grid: number, ready_at: 0, facts: Box::new(facts), running: None };
                self.threads.push(Some(thread));
                self.add_ready(self.threads.len() as u32 - 1);
            }
        }
        let left = kernel.blocks * kernel.threads;
        self.grids.push(Some(Grid { kernel, blocks, left, fault: None }));
        self.make_progress();
    }

    /// Something has changed that threads may wait for.
    pub(super) fn make_progress(&self) {
        self.run.sim.waits.set(0);
        self.run.sim.progressed.set(true);
    }

    pub(super) fn any_ready(&self) -> u32 {
        self.ready[self.run.sim.below(self.ready.len() as u32) as usize]
    }

    /// Returns whether a thread belongs to the slow device, or to the rank that is traced.
    pub(super) fn is_slow(&mut self, thread: u32) -> bool {
        if let (Some(trace), Some(Some(thread))) = (self.options.trace, self.threads.get(thread as usize)) {
            return trace.is_of_first_rank(thread.facts.block, thread.facts.blocks);
        }
        let slow = self.options.slow;
        slow.is_some() && self.grid_of(thread).map(|grid| grid.kernel.device) == slow
    }

    /// Adds a thread to those that can be resumed.
    pub(super) fn add_ready(&mut self, number: u32) {
        if let Some(thread) = &mut self.threads[number as usize] {
            thread.ready_at = self.ready.len();
            self.ready.push(number);
        }
    }

    /// Removes a thread from those that can be resumed, if it is one.
    pub(super) fn remove_ready(&mut self, number: u32) {
        let Some(thread) = &self.threads[number as usize] else { return };
        let at = thread.ready_at;
        if self.ready.get(at) != Some(&number) {
            return;
        }
        self.ready.swap_remove(at);
        if let Some(&moved) = self.ready.get(at)
            && let Some(thread) = &mut self.threads[moved as usize]
        {
            thread.ready_at = at;
        }
    }

    /// Suspends the current thread at a wait until what it polled changes.
    pub(super) fn sleep(&mut self, polls: &[SimPoll]) {
        self.run.sleep(self.current, polls);
        self.remove_ready(self.current);
    }

    /// Lets threads that have awoken be resumed.
    pub(super) fn collect_awoken(&mut self) {
        let mut awoken = std::mem::take(&mut self.awoken);
        self.run.take_awoken(&mut awoken);
        awoken.drain(..).for_each(|thread| self.add_ready(thread));
        self.awoken = awoken;
    }

    pub(super) fn has_sleepers(&self) -> bool {
        self.run.sim.asleep.get() > 0
    }

    /// Wakes the threads that see a change by the host or another process; returns whether there are any.
    fn wake_changed(&self) -> bool {
        self.run.wake_if(|thread| {
            let thread = self.threads[thread as usize].as_ref();
            // SAFETY: the thread's kernel runs, and what it polled is allocated: otherwise `take` has awoken it.
            thread.is_some_and(|thread| unsafe { native::sim_sees_change(thread.facts.stores, thread.facts.thread) })
        })
    }

    /// Lets stores reach memory at random times, and checks whether any thread can make progress. Returns whether the
    /// host should run.
    pub(super) fn advance_stores(&mut self) -> bool {
        let sim = &self.run.sim;
        let all_sleep = self.ready.is_empty();
        let idle = all_sleep || sim.waits.get() > 2 * self.ready.len() as u64;
        let mut has_written = false;
        if idle || sim.below(8) == 0 {
            let at = sim.below(self.stores.len() as u32) as usize;
            // SAFETY: stores of kernels that run.
            has_written = self.stores.get(at).is_some_and(|&stores| unsafe { native::sim_write_one(stores) });
        }
        if sim.progressed.replace(false) {
            self.idle = None;
        }
        if !idle || self.blocked {
            return false;
        }
        let waiting = sim.waiting.get();
        if has_written && waiting == 0 {
            // A thread may wait for the last store, and has not polled since.
            sim.waits.set(0);
            return false;
        }
        // Once all have slept, it is known that none can make progress.
        let may_be_slow = (self.options.slow.is_some() || self.options.trace.is_some()) && self.idle.is_none();
        let slowness = if may_be_slow { u64::from(SLOWNESS) } else { 1 };
        waiting == 0 && (all_sleep || sim.waits.get() > TURNS * slowness * self.ready.len() as u64 + 64)
    }

    /// Returns whether no thread can make progress although the timeout of all waits has expired.
    pub(super) fn is_stalled(&self) -> bool {
        self.blocked && self.run.sim.waits.get() > 10_000 * (self.ready.len() as u64 + 10)
    }

    /// Takes the result of a turn of the host. `idle`: no thread could make progress when the turn began.
    pub(super) fn take(&mut self, turn: Turn, idle: bool) {
        let mut sees_change = turn.reach.is_some();
        if let Some(reach) = turn.reach {
            for grid in self.grids.iter_mut().flatten() {
                grid.kernel.reach = reach[grid.kernel.device as usize].clone();
            }
            self.run.sim.version.set(self.run.sim.version.get() + 1);
            // What they polled may have been freed.
            self.run.wake_if(|_| true);
        }
        // All sleeping threads are compared, so rarely while others make progress.
        self.turns += 1;
        sees_change |= (idle || turn.may_help && self.turns.is_multiple_of(WAKE_INTERVAL)) && self.wake_changed();
        let begins = !turn.more.is_empty();
        turn.more.into_iter().for_each(|kernel| self.begin(kernel));
        if idle && !begins && !sees_change {
            let (looked, counted) = self.idle.get_or_insert_with(|| (Instant::now(), Duration::ZERO));
            // A process that was suspended for long cannot tell whether others made progress, so the time that counts
            // is limited.
            *counted += looked.elapsed().min(self.options.patience / 32);
            *looked = Instant::now();
            self.blocked = !turn.may_help || *counted > self.options.patience;
            // The turns that those who sleep have not taken.
            self.clock += TURNS * self.run.sim.asleep.get();
            // Each reads clocks and abort flags from time to time.
            self.run.wake_if(|_| true);
            if self.blocked {
                // From here on every thread that reads the clock aborts.
                self.run.sim.waits.set(0);
            }
        }
        self.collect_awoken();
    }

    pub(super) fn grid_of(&mut self, thread: u32) -> Option<&mut Grid> {
        let grid = self.threads[thread as usize].as_ref()?.grid;
        self.grids[grid as usize].as_mut()
    }

    /// Removes a finished thread; returns its kernel, if the thread was the last one of it.
    pub(super) fn finish(&mut self, number: u32) -> Option<Finished> {
        self.remove_ready(number);
        self.make_progress();
        let grid = self.threads[number as usize].take()?.grid;
        let slot = &mut self.grids[grid as usize];
        let left = &mut slot.as_mut()?.left;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let grid = slot.take()?;
        Some(self.end(grid))
    }

    /// Ends a kernel whose threads are blocked, and returns it.
    pub(super) fn end_one(&mut self) -> Option<Finished> {
        let number = self.grids.iter().position(Option::is_some)?;
        for thread in 0..self.threads.len() as u32 {
            if self.threads[thread as usize].as_ref().is_none_or(|thread| thread.grid as usize != number) {
                continue;
            }
            self.remove_ready(thread);
            let Some(ended) = self.threads[thread as usize].take() else { continue };
            if let Some((mut coroutine, _)) = ended.running {
                // SAFETY: its stack has frames of the kernel and of callbacks, which have nothing to drop where they
                // stop.
                unsafe { coroutine.force_reset() };
            }
        }
        self.make_progress();
        let mut grid = self.grids[number].take()?;
        grid.fault.get_or_insert(Fault::Endless { threads: grid.left });
        Some(self.end(grid))
    }

    /// Ends a kernel that has no threads left.
    fn end(&mut self, grid: Grid) -> Finished {
        for block in &grid.blocks {
            // The end of a kernel publishes all its stores. SAFETY: made when the kernel began, and none of its
            // coroutines is left.
            unsafe {
                while native::sim_write_one(block.stores) {}
                native::sim_free_stores(block.stores);
            }
            self.stores.retain(|&stores| stores != block.stores);
        }
        if self.grids.iter().all(Option::is_none) {
            self.grids.clear();
            self.threads.clear();
            self.run.clear();
            self.blocked = false;
        }
        (grid.kernel.stream, grid.fault.map_or(Ok(()), Err))
    }
}
