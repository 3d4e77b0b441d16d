//! Threads that sleep at a wait until what they polled changes, so that they take no turns meanwhile.

use std::cell::RefCell;

use crate::native::{SimPoll, SimRun};

/// Number of lists in which sleeping threads are registered, by the lines that they polled.
const LISTS: usize = 1024;

/// Shortest list that is searched for entries of threads that have awoken.
const SHORTEST: usize = 64;

/// A thread that sleeps until a line changes, unless it has awoken since.
struct Entry {
    line: u64,
    thread: u32,
    sleep: u64,
}

/// Entries in the order in which the threads fell asleep.
#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    /// Length at which entries of threads that have awoken are removed.
    limit: usize,
}

/// The threads of a run, by number.
#[derive(Default)]
struct Registry {
    lists: Vec<List>,
    /// Number of each thread's sleep while it sleeps, otherwise 0.
    sleeps: Vec<u64>,
    num_sleeps: u64,
    /// Threads that have awoken and are not ready yet.
    awoken: Vec<u32>,
}

/// What `sim/memory.cc` knows of a run, and the threads that sleep in it.
#[repr(C)]
#[derive(Default)]
pub(super) struct Run {
    // The first field, whose address `memory.cc` has.
    pub(super) sim: SimRun,
    registry: RefCell<Registry>,
}

/// Returns the lines of 16 bytes of an access, which has at most that many.
fn lines(at: u64, bytes: u32) -> impl Iterator<Item = u64> {
    (at >> 4)..=((at + u64::from(bytes.max(1)) - 1) >> 4)
}

impl Run {
    /// Lets a thread sleep until what it polled changes.
    pub(super) fn sleep(&self, thread: u32, polls: &[SimPoll]) {
        let Registry { lists, sleeps, num_sleeps, .. } = &mut *self.registry.borrow_mut();
        lists.resize_with(LISTS, List::default);
        if sleeps.len() <= thread as usize {
            sleeps.resize(thread as usize + 1, 0);
        }
        *num_sleeps += 1;
        sleeps[thread as usize] = *num_sleeps;
        for line in polls.iter().flat_map(|poll| lines(poll.at, poll.bytes)) {
            let list = &mut lists[line as usize % LISTS];
            if list.entries.len() >= list.limit.max(SHORTEST) {
                list.entries.retain(|entry| sleeps[entry.thread as usize] == entry.sleep);
                list.limit = 2 * list.entries.len();
            }
            list.entries.push(Entry { line, thread, sleep: *num_sleeps });
        }
        self.sim.asleep.set(self.sim.asleep.get() + 1);
    }

    /// Wakes the threads that polled some of these bytes.
    fn wake(&self, at: u64, bytes: u32) {
        let Registry { lists, sleeps, awoken, .. } = &mut *self.registry.borrow_mut();
        for line in lines(at, bytes) {
            let entries = &mut lists[line as usize % LISTS].entries;
            if entries.is_empty() {
                continue;
            }
            entries.retain(|entry| {
                let sleep = &mut sleeps[entry.thread as usize];
                if *sleep != entry.sleep {
                    return false;
                }
                if entry.line == line {
                    *sleep = 0;
                    awoken.push(entry.thread);
                    self.sim.asleep.set(self.sim.asleep.get() - 1);
                }
                entry.line != line
            });
        }
    }

    /// Wakes the threads of which `wakes` returns true; returns whether there are any.
    pub(super) fn wake_if(&self, mut wakes: impl FnMut(u32) -> bool) -> bool {
        let asleep = self.sim.asleep.get();
        if asleep == 0 {
            return false;
        }
        let Registry { sleeps, awoken, .. } = &mut *self.registry.borrow_mut();
        for (thread, sleep) in (0..).zip(sleeps) {
            if *sleep != 0 && wakes(thread) {
                *sleep = 0;
                awoken.push(thread);
                self.sim.asleep.set(self.sim.asleep.get() - 1);
            }
        }
        self.sim.asleep.get() < asleep
    }

    /// Returns the threads that have awoken since the last call.
    pub(super) fn take_awoken(&self, awoken: &mut Vec<u32>) {
        awoken.append(&mut self.registry.borrow_mut().awoken);
    }

    /// Forgets all threads, of which none sleeps.
    pub(super) fn clear(&self) {
        let registry = &mut *self.registry.borrow_mut();
        registry.lists.iter_mut().for_each(|list| list.entries.clear());
        registry.sleeps.clear();
    }
}

/// Wakes the threads that wait for a change of some bytes.
///
/// # Safety
/// `run` points to a [`Run`], whose first field it is.
#[unsafe(no_mangle)]
unsafe extern "C" fn sim_wake(run: *const SimRun, at: u64, bytes: u32) {
    // SAFETY: given, and the layouts are C's.
    unsafe { &*run.cast::<Run>() }.wake(at, bytes);
}
