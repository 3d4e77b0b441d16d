//! Execution of one step of a thread.

use super::program::{Grain, Move, Opcode};
use super::scale::VECTOR;
use super::simulator::{Accessor, Progress, Simulator};

impl Simulator<'_> {
    /// Executes one step of a thread.
    pub(super) fn thread(&mut self, agent: u32, block: u32, thread: u32) -> Progress {
        let launch = self.ranks[self.rank_of[agent as usize] as usize].launch;
        let code = &self.size(launch).program.blocks[block as usize];
        let Some(instr) = code.instrs.get(self.threads[agent as usize].instr as usize) else {
            return self.end(code.rank);
        };
        // The channels or semaphores of an operation are divided among threads: each has its own, or none.
        let own = |ids: &[u32]| ids.get(thread as usize).copied();
        let step = match &instr.opcode {
            Opcode::Sync => Some(self.block_sync(agent, block, None)),
            Opcode::Barrier { id, blocks } => Some(self.block_sync(agent, block, Some((*id, *blocks)))),
            Opcode::Move(transfer) => self.transfer(agent, block, thread, transfer),
            Opcode::Push(triggers) => {
                triggers.get(thread as usize).and_then(|trigger| self.push(agent, block, thread, trigger))
            }
            Opcode::Flush { ends } => own(ends).and_then(|end| self.flush(agent, end)),
            Opcode::Signal { ends, relaxed } => {
                own(ends).into_iter().for_each(|end| self.signal(agent, end, *relaxed));
                None
            }
            Opcode::Wait { ends, relaxed } => own(ends).and_then(|end| self.wait(agent, end, *relaxed)),
            Opcode::Acquire { semaphores } => own(semaphores).and_then(|id| self.acquire(agent, id)),
            Opcode::Release { semaphores } => {
                own(semaphores).into_iter().for_each(|id| self.release(agent, id));
                None
            }
            Opcode::Loop { window, trips, end } => self.repeat(agent, *window, *trips, *end),
            Opcode::Again { start } => {
                self.threads[agent as usize].instr = *start;
                Some(Progress::Runnable)
            }
        };
        step.unwrap_or_else(|| {
            self.advance(agent);
            Progress::Runnable
        })
    }

    /// Ends a thread.
    fn end(&mut self, number: u32) -> Progress {
        let rank = &mut self.ranks[number as usize];
        rank.running -= 1;
        if rank.running == 0 {
            rank.ended = rank.launch;
            self.ended(number);
        }
        Progress::Blocked
    }

    fn advance(&mut self, agent: u32) {
        let state = &mut self.threads[agent as usize];
        state.instr += 1;
        state.done = 0;
        state.ticket = None;
    }

    // The following functions execute one step of an operation; they return `None` when the operation is complete.

    /// Moves the thread's next element.
    fn transfer(&mut self, agent: u32, block: u32, thread: u32, transfer: &Move) -> Option<Progress> {
        let code = &self.program.blocks[block as usize];
        let state = self.threads[agent as usize];
        let (start, len) = transfer.window(state.window);
        let (element, at, cells) = next_element(transfer, len, state.done, thread, code.threads)?;
        let rank = &self.ranks[code.rank as usize];
        let accessor = Accessor { by: agent, launch: rank.launch, since: self.seen_at_start(rank), port: false };
        if let Err(cell) = self.element(accessor, transfer, start + at, cells) {
            self.packets.entry(cell).or_default().push(agent);
            return Some(Progress::Blocked);
        }
        self.threads[agent as usize].done = element + 1;
        Some(Progress::Runnable)
    }

    fn wait(&mut self, agent: u32, end: u32, relaxed: bool) -> Option<Progress> {
        let counter = &mut self.counters[end as usize];
        let ticket = *self.threads[agent as usize].ticket.get_or_insert_with(|| {
            counter.expected += 1;
            counter.expected
        });
        if counter.arrived < ticket {
            counter.waiting.push(agent);
            return Some(Progress::Blocked);
        }
        let released = counter.released[ticket as usize - 1].take();
        if let Some(released) = released.filter(|_| !relaxed) {
            self.agents[agent as usize].clock.join(&released);
        }
        if let Some(begin) = counter.begins.get(ticket as usize - 1) {
            self.agents[agent as usize].clock.join(begin);
        }
        None
    }

    fn acquire(&mut self, agent: u32, id: u32) -> Option<Progress> {
        let semaphore = &mut self.semaphores[id as usize];
        if semaphore.value <= 0 {
            semaphore.waiting.push(agent);
            return Some(Progress::Blocked);
        }
        semaphore.value -= 1;
        if let Some(released) = &semaphore.clock {
            self.agents[agent as usize].clock.join(released);
        }
        None
    }

    fn release(&mut self, agent: u32, id: u32) {
        let released = self.release_clock(agent);
        let semaphore = &mut self.semaphores[id as usize];
        match &mut semaphore.clock {
            Some(clock) => clock.join(&released),
            none => *none = Some(released),
        }
        semaphore.value = semaphore.value.saturating_add(1);
        for waiting in std::mem::take(&mut semaphore.waiting) {
            self.schedule.wake(waiting);
        }
    }

    /// Begins the next iteration of a loop, or leaves it.
    fn repeat(&mut self, agent: u32, window: u64, trips: u64, end: u32) -> Option<Progress> {
        let state = &mut self.threads[agent as usize];
        let first = state.window.map_or(0, |(iteration, _)| iteration + 1);
        if first < trips {
            state.window = Some((first, window));
            return None;
        }
        state.window = None;
        state.instr = end;
        Some(Progress::Runnable)
    }

    pub(super) fn signal(&mut self, agent: u32, end: u32, relaxed: bool) {
        let released = (!relaxed).then(|| self.release_clock(agent));
        let Some(pair) = self.program.ends[end as usize].pair else { return };
        let begin = self.ranks[self.rank_of[agent as usize] as usize].begin.clone().filter(|_| !self.launch_barriers);
        let counter = &mut self.counters[pair as usize];
        counter.arrived += 1;
        if let Some(mut begin) = begin {
            if let Some(last) = counter.begins.last() {
                begin.join(last);
            }
            counter.begins.push(begin);
        }
        if let Some(mut released) = released {
            if let Some(last) = &counter.last {
                released.join(last);
            }
            counter.last = Some(released);
        }
        counter.released.push(counter.last.clone());
        for waiting in std::mem::take(&mut counter.waiting) {
            self.schedule.wake(waiting);
        }
    }

    /// Synchronizes a thread at a block sync, which ends when all other threads have arrived.
    fn block_sync(&mut self, agent: u32, block: u32, barrier: Option<(u32, u32)>) -> Progress {
        let program = self.program;
        if std::mem::replace(&mut self.threads[agent as usize].met, true) {
            return Progress::Blocked;
        }
        let arrived = &mut self.blocks[block as usize];
        *arrived += 1;
        if *arrived < program.blocks[block as usize].threads {
            return Progress::Blocked;
        }
        *arrived = 0;
        let mut blocks = vec![block];
        if let Some((id, count)) = barrier {
            let there = &mut self.barriers[id as usize];
            there.push(block);
            if there.len() < count as usize {
                return Progress::Blocked;
            }
            blocks = std::mem::take(there);
        }
        let agents = || {
            blocks.iter().flat_map(|&block| {
                let block = &program.blocks[block as usize];
                block.first..block.first + block.threads
            })
        };
        let mut all = self.agents[agent as usize].clock.clone();
        for other in agents() {
            all.join(&self.agents[other as usize].clock);
        }
        for other in agents() {
            all.set(other, self.agents[other as usize].epoch);
        }
        for other in agents() {
            let state = &mut self.agents[other as usize];
            state.clock = all.clone();
            state.epoch += 1;
            self.threads[other as usize].met = false;
            self.advance(other);
            self.schedule.wake(other);
        }
        Progress::Blocked
    }
}

/// Returns the next element of a range that belongs to a thread: its number, first cell and cells.
fn next_element(transfer: &Move, len: u64, done: u64, thread: u32, threads: u32) -> Option<(u64, u64, u64)> {
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    let cells = if matches!(transfer.grain, Grain::Vector | Grain::Row) { VECTOR } else { 1 };
    let owner = |element: u64| match transfer.grain {
        Grain::Multicast => 2 * element % threads,
        Grain::Row => (element + 1) % threads,
        _ => element % threads,
    };
    let element = (done..len / cells).find(|&element| owner(element) == thread)?;
    Some((element, element * cells, cells))
}
