//! Kernels that run at once: their threads, which of these are ready, and when their stores reach memory.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use super::{Fault, Finished, Kernel, Turn};
use crate::native::{self, SimThread};
use crate::options::Options;

/// Factor by which threads of a slow device are scheduled less often.
pub(super) const SLOWNESS: u32 = 100;

/// Average number of turns of each thread without progress after which all threads count as blocked. The probability
/// that a thread that can make progress has none of these turns is e to the negative of this power: with 16 that
/// happened, since a full run checks some hundred million times.
const TURNS: u64 = 48;

/// A seeded xorshift generator.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound.max(1))) >> 32) as u32
    }
}

pub(super) struct Block {
    pub(super) stores: *mut c_void,
    /// Variables in shared memory, by name.
    pub(super) shared: Vec<(usize, Box<[u128]>)>,
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
    Parked,
}

/// Kernels that run at once.
pub(super) struct Grids {
    pub(super) options: Options,
    pub(super) random: Random,
    /// Running kernels; finished ones are `None`.
    pub(super) grids: Vec<Option<Grid>>,
    pub(super) threads: Vec<Option<Thread>>,
    /// Threads that can be resumed.
    pub(super) ready: Vec<u32>,
    pub(super) current: u32,
    pub(super) yielder: *const Yielder<(), Stop>,
    /// Memory of the last access, and the kernel that made it.
    pub(super) last_piece: (u32, (u64, u64)),
    /// Number of consecutive stops at waits, without any progress.
    pub(super) waits: u64,
    /// Whether all threads are blocked, and the number of clock reads since.
    pub(super) blocked: bool,
    pub(super) asked: u64,
    pub(super) steps: u64,
    /// Time without progress: the last clock reading, and the time counted until then.
    pub(super) idle: Option<(Instant, Duration)>,
}

impl Grids {
    pub(super) fn new(options: Options, seed: u64) -> Self {
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
            blocked: false,
            asked: 0,
            steps: 0,
            idle: None,
        }
    }

    pub(super) fn begin(&mut self, kernel: Kernel) {
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

    pub(super) fn any_ready(&mut self) -> u32 {
        let at = self.random.below(self.ready.len() as u32) as usize;
        self.ready[at]
    }

    /// Returns whether a thread belongs to the slow device.
    pub(super) fn is_slow(&mut self, thread: u32) -> bool {
        let slow = self.options.slow;
        slow.is_some() && self.grid_of(thread).map(|grid| grid.kernel.device) == slow
    }

    /// Removes a thread from those that can be resumed.
    pub(super) fn remove_ready(&mut self, number: u32) {
        self.ready.retain(|&other| other != number);
    }

    /// Lets stores reach memory at random times, and checks whether any thread can make progress. Returns whether the
    /// host should run.
    pub(super) fn advance_stores(&mut self) -> bool {
        let idle = self.waits > 2 * self.ready.len() as u64;
        let mut has_written = false;
        if idle || self.random.below(8) == 0 {
            let count = self.blocks().count() as u32;
            let at = self.random.below(count) as usize;
            let stores = self.blocks().nth(at).map(|block| block.stores);
            // SAFETY: stores of kernels that run.
            has_written = stores.is_some_and(|stores| unsafe { native::sim_write_one(stores) });
        }
        if !idle || self.blocked {
            self.idle = None;
            return false;
        }
        // SAFETY: stores of kernels that run.
        let waiting: usize = self.blocks().map(|block| unsafe { native::sim_waiting_stores(block.stores) }).sum();
        if has_written && waiting == 0 {
            // A thread may wait for the last store, and has not polled since.
            self.waits = 0;
            return false;
        }
        let slowness = if self.options.slow.is_some() { u64::from(SLOWNESS) } else { 1 };
        waiting == 0 && self.waits > TURNS * slowness * self.ready.len() as u64 + 64
    }

    /// Returns whether no thread can make progress although the timeout of all waits has expired.
    pub(super) fn is_stalled(&self) -> bool {
        self.blocked && self.waits > 10_000 * (self.ready.len() as u64 + 10)
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.grids.iter().flatten().flat_map(|grid| &grid.blocks)
    }

    /// Takes the result of a turn of the host. `idle`: no thread could make progress when the turn began.
    pub(super) fn take(&mut self, turn: Turn, idle: bool) {
        if let Some(reach) = turn.reach {
            for grid in self.grids.iter_mut().flatten() {
                grid.kernel.reach = reach[grid.kernel.device as usize].clone();
            }
            self.last_piece = (0, (0, 0));
        }
        let begins = !turn.more.is_empty();
        turn.more.into_iter().for_each(|kernel| self.begin(kernel));
        if idle && !begins {
            let (looked, counted) = self.idle.get_or_insert_with(|| (Instant::now(), Duration::ZERO));
            // A process that was suspended for long cannot tell whether others made progress, so the time that counts
            // is limited.
            *counted += looked.elapsed().min(self.options.patience / 32);
            *looked = Instant::now();
            self.blocked = !turn.may_help || *counted > self.options.patience;
            if self.blocked {
                // From here on every thread that reads the clock aborts.
                self.waits = 0;
            }
        }
    }

    pub(super) fn grid_of(&mut self, thread: u32) -> Option<&mut Grid> {
        let grid = self.threads[thread as usize].as_ref()?.grid;
        self.grids[grid as usize].as_mut()
    }

    /// Removes a finished thread; returns its kernel, if the thread was the last one of it.
    pub(super) fn finish(&mut self, number: u32) -> Option<Finished> {
        self.remove_ready(number);
        self.waits = 0;
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
            let slot = &mut self.threads[thread as usize];
            let Some(ended) = slot.take_if(|thread| thread.grid as usize == number) else { continue };
            if let Some((mut coroutine, _)) = ended.running {
                // SAFETY: its stack has frames of the kernel and of callbacks, which have nothing to drop where they
                // stop.
                unsafe { coroutine.force_reset() };
            }
            self.remove_ready(thread);
        }
        self.waits = 0;
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
        }
        if self.grids.iter().all(Option::is_none) {
            self.grids.clear();
            self.threads.clear();
            (self.blocked, self.last_piece) = (false, (0, (0, 0)));
        }
        (grid.kernel.stream, grid.fault.map_or(Ok(()), Err))
    }
}
