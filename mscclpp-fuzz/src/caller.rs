//! Callers: checks between the launches of a rank, and at the end of a run.

use super::Failure;
use super::memory::Write;
use super::program::{AgentKind, Opcode, Sized};
use super::simulator::{Accessor, Progress, Simulator, Thread, settled};
use super::value::{poison, token};

/// Maximum number of lines in a stall's report.
const MAX_LINES: usize = 6;

impl Simulator<'_> {
    /// Executes a rank's caller: it checks the results of one launch, then starts the next one.
    pub(super) fn caller(&mut self, agent: u32, rank: u32) -> Progress {
        let state = &self.ranks[rank as usize];
        let launch = state.launch;
        // Woken by another rank.
        if state.running > 0 {
            return Progress::Blocked;
        }
        if state.ended == launch && launch > 0 {
            self.check_memory(rank, launch);
            if launch == self.launches {
                if self.frees_scratch {
                    self.free_scratch(agent, rank, launch);
                }
                // Marks the rank as ended.
                self.ranks[rank as usize].launch += 1;
                return Progress::Blocked;
            }
            // Its next action is a later step.
            let state = &mut self.ranks[rank as usize];
            state.launch += 1;
            return Progress::Runnable;
        }
        if launch > self.launches {
            return Progress::Blocked;
        }
        // Start the launch.
        let launch = launch.max(1);
        let Sized { scale, program } = self.size(launch);
        if self.synchronizes && scale.chunk != self.size(launch - 1).scale.chunk && self.is_under_way_before(launch) {
            return Progress::Blocked;
        }
        let tables = &program.ranks[rank as usize];
        if scale.poisons {
            for cell in 0..tables.outputs * scale.chunk as u32 {
                self.caller_writes(rank, tables.output + cell, poison(launch, tables.output + cell));
            }
        }
        for cell in 0..tables.inputs * scale.chunk as u32 {
            if !program.is_padding(tables.input + cell) {
                self.caller_writes(rank, tables.input + cell, token(launch, rank, cell.into()));
            }
        }
        let clock = self.agents[agent as usize].clock.clone();
        let mut running = 0;
        for block in program.blocks.iter().filter(|block| block.rank == rank) {
            for thread in block.first..block.first + block.threads {
                self.threads[thread as usize] = Thread::default();
                self.agents[thread as usize].clock.join(&clock);
                self.schedule.wake(thread);
                running += 1;
            }
        }
        let state = &mut self.ranks[rank as usize];
        (state.launch, state.started, state.running) = (launch, self.time, running);
        state.begin = Some(clock);
        if running == 0 {
            state.ended = launch;
            self.ended(rank);
            return Progress::Runnable;
        }
        Progress::Blocked
    }

    /// Returns whether a rank is in an earlier launch, or a port has triggers of one in flight. Between launches of
    /// different sizes executors wait for both.
    fn is_under_way_before(&self, launch: u32) -> bool {
        self.ranks.iter().any(|rank| rank.ended + 1 < launch)
            || self.ports.iter().any(|port| port.carries_before(launch))
    }

    /// Ends a rank's launch, for which its caller waits; before a launch of another size other callers may, too.
    pub(super) fn ended(&mut self, rank: u32) {
        match self.sizes.len() {
            1 => self.schedule.wake(self.program.first_caller + rank),
            _ => self.wake_callers(),
        }
    }

    /// Wakes all callers, which may wait for each other's launches before one of another size.
    pub(super) fn wake_callers(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            self.schedule.wake(self.program.first_caller + rank);
        }
    }

    /// Checks all memory of a rank after a launch.
    fn check_memory(&mut self, rank: u32, launch: u32) {
        let Sized { scale, program } = self.size(launch);
        let tables = &program.ranks[rank as usize];
        let caller = (program.first_caller + rank) as usize;
        for block in program.blocks.iter().filter(|block| block.rank == rank) {
            for thread in block.first..block.first + block.threads {
                let clock = self.release_clock(thread);
                self.agents[caller].clock.join(&clock);
            }
        }
        let Self { memory, agents, ranks, rank_of, launch_barriers, .. } = self;
        let (clock, first_caller) = (&agents[caller].clock, program.first_caller);
        let accessor = Accessor { by: caller as u32, launch, since: 0, port: false };
        for cell in tables.memory.0..tables.memory.1 {
            let is_settled =
                |write: &Write| *launch_barriers || settled(write, accessor, clock, ranks, rank_of, first_caller);
            memory[cell as usize].settle(is_settled);
        }
        let chunk = scale.chunk;
        let ranks = program.ranks.len();
        for cell in 0..u64::from(tables.outputs) * chunk {
            let found = self.seen_by_caller(accessor, tables.output + cell as u32);
            if let Some(results) = &mut self.results {
                results[(launch - 1) as usize * ranks + rank as usize].push(found);
                continue;
            }
            match self.oracle.output(launch, rank, cell) {
                Some(expected) if expected != found && !program.is_padding(tables.output + cell as u32) => {
                    let what = self.oracle.explain(launch, found, expected);
                    self.failure =
                        Some(Failure::Wrong { launch, rank, buffer: "output", chunk: (cell / chunk) as u32, what });
                    return;
                }
                _ => {}
            }
        }
        if !self.keeps_inputs || self.results.is_some() {
            return;
        }
        for cell in 0..u64::from(tables.inputs) * chunk {
            if program.is_padding(tables.input + cell as u32) {
                continue;
            }
            let found = self.seen_by_caller(accessor, tables.input + cell as u32);
            let expected = token(launch, rank, cell);
            if found != expected {
                self.failure = Some(Failure::Wrong {
                    launch,
                    rank,
                    buffer: "input",
                    chunk: (cell / chunk) as u32,
                    what: format!("has changed: it {}", self.oracle.explain(launch, found, expected)),
                });
                return;
            }
        }
    }

    /// Frees a rank's scratch.
    fn free_scratch(&mut self, agent: u32, rank: u32, launch: u32) {
        let Sized { scale, program } = self.size(launch);
        let tables = &program.ranks[rank as usize];
        let is_in = |cell: u32, first: u32, chunks: u32| (first..first + chunks * scale.chunk as u32).contains(&cell);
        let Self { memory, agents, ranks, rank_of, failure, .. } = self;
        let clock = &agents[agent as usize].clock;
        let accessor = Accessor { by: agent, launch, since: 0, port: false };
        for cell in tables.memory.0..tables.memory.1 {
            if is_in(cell, tables.input, tables.inputs) || is_in(cell, tables.output, tables.outputs) {
                continue;
            }
            let memory = &mut memory[cell as usize];
            memory.freed_by = Some(rank);
            let late = memory.last().filter(|write| {
                write.flag == 0
                    && !write.arrived
                    && !settled(write, accessor, clock, ranks, rank_of, program.first_caller)
            });
            if let (Some(write), None) = (late, &failure) {
                let what = format!("a write of rank {} to it may be in flight", rank_of[write.by as usize]);
                *failure = Some(Failure::Freed { rank, what });
            }
        }
    }

    /// Returns the value that a caller reads from a cell.
    fn seen_by_caller(&mut self, accessor: Accessor, place: u32) -> u64 {
        match self.launch_barriers {
            true => self.memory[place as usize].last().map_or(0, |write| write.value),
            false => self.read(accessor, place).0.0,
        }
    }

    /// Returns the failure if no agent can make progress.
    pub(super) fn at_the_end(&mut self) -> Option<Failure> {
        if self.ranks.iter().any(|rank| rank.launch <= self.launches) {
            return Some(Failure::Stalled { waiting: self.waiting() });
        }
        let program = self.program;
        for (end, counter) in program.ends.iter().zip(&self.counters) {
            if counter.arrived != counter.expected {
                let (rank, left) = (end.rank, counter.arrived - counter.expected);
                return Some(Failure::Drift { what: format!("{left} signals to rank {rank} are never waited for") });
            }
        }
        for (number, (semaphore, initial)) in self.semaphores.iter().zip(&program.semaphores).enumerate() {
            if semaphore.value != *initial {
                let value = semaphore.value;
                return Some(Failure::Drift {
                    what: format!("semaphore {number} of all starts at {initial} and ends at {value}"),
                });
            }
        }
        None
    }

    fn waiting(&mut self) -> Vec<String> {
        let program = self.program;
        let mut lines: Vec<String> = Vec::new();
        for agent in 0..program.agents.len() as u32 {
            let AgentKind::Thread { block, thread } = program.agents[agent as usize] else { continue };
            let code = &program.blocks[block as usize];
            let (state, rank) = (self.threads[agent as usize], &self.ranks[code.rank as usize]);
            let launch = rank.launch;
            if rank.ended >= launch {
                continue;
            }
            let Some(instr) = code.instrs.get(state.instr as usize) else { continue };
            // Threads that only wait for others of their block add no information.
            if matches!(instr.opcode, Opcode::Sync) {
                continue;
            }
            let mut line = format!("launch {launch}, {}, thread {thread}", program.path(block, state.instr));
            if let Some((&cell, _)) = self.packets.iter().find(|(_, waiting)| waiting.contains(&agent)) {
                let flag = self.memory[cell as usize].last().map_or(0, |write| write.flag);
                line += &match flag {
                    0 => ": no packet has come".to_owned(),
                    flag => format!(": finds the packet of launch {flag}"),
                };
            }
            lines.push(line);
            if lines.len() == MAX_LINES {
                break;
            }
        }
        lines
    }
}
