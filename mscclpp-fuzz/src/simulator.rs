//! Simulator that executes a scaled-down plan.

use std::collections::{HashMap, VecDeque};

use mscclpp_core::plan::raw::PlanTree;

use super::clock::Clock;
use super::memory::{Cell, Write};
use super::program::{AgentKind, Move, Program, Sized, of_launch};
use super::schedule::Schedule;
use super::value::{Oracle, is_free, normalized, packet_bytes_as_plain, poison};
use super::{Failure, Outcome};
use crate::random::Random;

/// The whole state of an execution.
pub(super) struct Simulator<'p> {
    /// The plan at the size of the first launch; at other sizes only ranges and iterations differ.
    pub(super) program: &'p Program,
    /// The sizes of successive launches, which repeat.
    pub(super) sizes: &'p [Sized],
    /// Whether all ranks synchronize before a launch of another size.
    pub(super) synchronizes: bool,
    pub(super) frees_scratch: bool,
    pub(super) launches: u32,
    /// Whether a launch barrier makes all writes visible between launches.
    pub(super) launch_barriers: bool,
    /// Whether puts of a port channel may overtake each other and signals, within a launch.
    pub(super) reorders_puts: bool,
    /// Whether inputs must keep their values.
    pub(super) keeps_inputs: bool,
    pub(super) random: Random,
    pub(super) schedule: Schedule,
    pub(super) oracle: Oracle<'p>,
    /// Results, if they are recorded as expected results; per launch and rank.
    pub(super) results: Option<Vec<Vec<u64>>>,
    pub(super) memory: Vec<Cell>,
    pub(super) agents: Vec<Agent>,
    /// The rank of each agent.
    pub(super) rank_of: Vec<u32>,
    pub(super) threads: Vec<Thread>,
    pub(super) blocks: Vec<u32>,
    /// Per barrier, the blocks that have arrived.
    pub(super) barriers: Vec<Vec<u32>>,
    pub(super) counters: Vec<Counter>,
    pub(super) ports: Vec<Port>,
    pub(super) semaphores: Vec<Semaphore>,
    pub(super) ranks: Vec<RankState>,
    /// Agents that wait for a packet in a cell.
    pub(super) packets: HashMap<u32, Vec<u32>>,
    pub(super) time: u64,
    pub(super) unordered: u64,
    pub(super) failure: Option<Failure>,
}

pub(super) struct Agent {
    /// The agent's vector clock.
    pub(super) clock: Clock,
    /// The number of times that it has released its clock.
    pub(super) epoch: u32,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thread {
    pub(super) instr: u32,
    /// Iteration and cells of a window, in a loop.
    pub(super) window: Option<(u64, u64)>,
    /// Elements of the operation that are complete.
    pub(super) done: u64,
    /// Number of the event for which it waits.
    pub(super) ticket: Option<u64>,
    /// Whether it waits at a block sync.
    pub(super) met: bool,
}

/// Signals that arrive at a channel.
#[derive(Default)]
pub(super) struct Counter {
    pub(super) arrived: u64,
    pub(super) expected: u64,
    /// The clock that every signal releases, joined with those before it, until it is received.
    pub(super) released: Vec<Option<Clock>>,
    pub(super) last: Option<Clock>,
    /// The clock that every signal releases even if it is relaxed, joined with those before it: what was visible to its
    /// rank when the rank's launch started. Without barriers only.
    pub(super) begins: Vec<Clock>,
    pub(super) waiting: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Port {
    pub(super) queue: VecDeque<Request>,
    pub(super) pushed: u64,
    /// Requests whose sources were read, for which a flush waits.
    pub(super) handled: u64,
    pub(super) waiting: Vec<u32>,
    /// Data that was read and has not arrived.
    pub(super) wire: VecDeque<Parcel>,
}

impl Port {
    /// Returns whether a request of an earlier launch has not arrived.
    pub(super) fn carries_before(&self, launch: u32) -> bool {
        // Requests and parcels are in the order of launches.
        let first = self.wire.front().map(|parcel| &parcel.request).or(self.queue.front());
        first.is_some_and(|request| request.launch < launch)
    }
}

/// The data of a request.
pub(super) struct Parcel {
    pub(super) request: Request,
    /// Values and flags of the elements that were read.
    pub(super) values: Vec<(u64, u32)>,
    /// How many of them have arrived.
    pub(super) arrived: usize,
    /// Whether all elements were read.
    pub(super) complete: bool,
}

/// A trigger of an instruction, as it was posted.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) block: u32,
    pub(super) instr: u32,
    pub(super) number: u32,
    pub(super) window: Option<(u64, u64)>,
    pub(super) launch: u32,
    /// The time up to which all writes are visible to its rank, by the launch barrier.
    pub(super) since: u64,
    pub(super) clock: Clock,
}

#[derive(Default)]
pub(super) struct Semaphore {
    pub(super) value: i64,
    pub(super) clock: Option<Clock>,
    pub(super) waiting: Vec<u32>,
}

#[derive(Default)]
pub(super) struct RankState {
    /// The launch that is running, or the last one that has ended.
    pub(super) launch: u32,
    pub(super) ended: u32,
    /// The time of its start.
    pub(super) started: u64,
    /// What was visible to it then, which the end of its last kernel made visible to all agents that acquire its start.
    pub(super) begin: Option<Clock>,
    /// Threads that have not ended.
    pub(super) running: u32,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The agent has more to do.
    Runnable,
    /// The agent waits, or has nothing to do.
    Blocked,
}

/// The agent of an access, with its context.
#[derive(Clone, Copy)]
pub(super) struct Accessor {
    pub(super) by: u32,
    pub(super) launch: u32,
    /// All writes up to this time are visible.
    pub(super) since: u64,
    /// Whether it is a port, whose writes the end of a kernel does not publish.
    pub(super) port: bool,
}

impl<'p> Simulator<'p> {
    pub(super) fn new(
        plan: &'p PlanTree,
        sizes: &'p [Sized],
        launches: u32,
        mut random: Random,
        expected_results: Option<Vec<Vec<u64>>>,
        target_block: Option<(u32, u32)>,
    ) -> Self {
        let schedule = Schedule::adverse(&sizes[0].program, &mut random, target_block);
        let mut simulator = Self::with(plan, sizes, launches, schedule, expected_results);
        simulator.random = random;
        simulator
    }

    /// Creates a simulator with a round-robin schedule, which records the results.
    pub(super) fn round_robin(plan: &'p PlanTree, sizes: &'p [Sized], launches: u32) -> Self {
        let schedule = Schedule::round_robin(sizes[0].program.agents.len());
        let mut simulator = Self::with(plan, sizes, launches, schedule, None);
        simulator.results = Some(vec![Vec::new(); launches as usize * plan.ranks.len()]);
        simulator
    }

    fn with(
        plan: &'p PlanTree,
        sizes: &'p [Sized],
        launches: u32,
        schedule: Schedule,
        expected_results: Option<Vec<Vec<u64>>>,
    ) -> Self {
        let program = &sizes[0].program;
        let clock = Clock::new(program.agents.len());
        let mut simulator = Self {
            program,
            sizes,
            synchronizes: true,
            frees_scratch: false,
            launches,
            launch_barriers: true,
            reorders_puts: false,
            keeps_inputs: !plan.collective.in_place && !is_free(plan),
            random: Random::new(0),
            schedule,
            oracle: Oracle::new(plan, sizes, expected_results),
            results: None,
            memory: vec![Cell::default(); program.cells],
            agents: program.agents.iter().map(|_| Agent { clock: clock.clone(), epoch: 1 }).collect(),
            rank_of: Vec::new(),
            threads: vec![Thread::default(); program.first_caller as usize],
            blocks: vec![0; program.blocks.len()],
            barriers: vec![Vec::new(); program.barriers],
            counters: program.ends.iter().map(|_| Counter::default()).collect(),
            ports: program.ends.iter().map(|_| Port::default()).collect(),
            semaphores: program.semaphores.iter().map(|&value| Semaphore { value, ..Semaphore::default() }).collect(),
            ranks: program.ranks.iter().map(|_| RankState::default()).collect(),
            packets: HashMap::new(),
            time: 0,
            unordered: 0,
            failure: None,
        };
        simulator.rank_of = program
            .agents
            .iter()
            .map(|role| match *role {
                AgentKind::Thread { block, .. } => program.blocks[block as usize].rank,
                AgentKind::Port { end } | AgentKind::Wire { end } => program.ends[end as usize].rank,
                AgentKind::Caller { rank } => rank,
            })
            .collect();
        for (rank, tables) in (0..).zip(&program.ranks) {
            for cell in tables.memory.0..tables.memory.1 {
                simulator.caller_writes(rank, cell, poison(0, cell));
            }
            simulator.schedule.wake(program.first_caller + rank);
        }
        simulator
    }

    /// Returns the time up to which the writes of all ranks are visible to a rank in its launch: the start of the
    /// launch, if that is a barrier.
    pub(super) fn seen_at_start(&self, rank: &RankState) -> u64 {
        if self.launch_barriers { rank.started } else { 0 }
    }

    /// Returns the size of a launch.
    pub(super) fn size(&self, launch: u32) -> &'p Sized {
        of_launch(self.sizes, launch)
    }

    /// Runs until no agent can make progress.
    pub(super) fn run(mut self, max_steps: u64) -> Outcome {
        match self.run_to_end(max_steps) {
            false => Outcome::StepLimit,
            true => match self.failure.take() {
                Some(failure) => Outcome::Failed(failure),
                None => Outcome::Passed { unordered: self.unordered },
            },
        }
    }

    /// Returns the results of a run with a round-robin schedule.
    pub(super) fn expected_results(mut self, max_steps: u64) -> Result<Vec<Vec<u64>>, Outcome> {
        if !self.run_to_end(max_steps) {
            return Err(Outcome::StepLimit);
        }
        match (self.failure, self.results) {
            (Some(failure), _) => Err(Outcome::Failed(failure)),
            (None, results) => Ok(results.unwrap_or_default()),
        }
    }

    /// Returns whether the run ended within the limit.
    fn run_to_end(&mut self, max_steps: u64) -> bool {
        while self.failure.is_none() {
            let Some((agent, turn)) = self.schedule.next(self.program, &mut self.random) else {
                self.failure = self.at_the_end();
                return true;
            };
            for left in (0..turn).rev() {
                self.time += 1;
                if self.step(agent) == Progress::Blocked {
                    break;
                }
                if left == 0 {
                    self.schedule.wake(agent);
                }
                if self.time > max_steps {
                    return false;
                }
            }
        }
        true
    }

    fn step(&mut self, agent: u32) -> Progress {
        match self.program.agents[agent as usize] {
            AgentKind::Thread { block, thread } => self.thread(agent, block, thread),
            AgentKind::Port { end } => self.port(agent, end),
            AgentKind::Wire { end } => self.wire(agent, end),
            AgentKind::Caller { rank } => self.caller(agent, rank),
        }
    }

    /// Releases an agent's clock: everything that is visible to it, and its own writes.
    pub(super) fn release_clock(&mut self, agent: u32) -> Clock {
        let Agent { clock, epoch } = &mut self.agents[agent as usize];
        clock.set(agent, *epoch);
        *epoch += 1;
        clock.clone()
    }

    /// Moves one element. If a packet has not arrived, returns its cell.
    pub(super) fn element(&mut self, accessor: Accessor, transfer: &Move, at: u64, cells: u64) -> Result<(), u32> {
        let launch = accessor.launch;
        if !transfer.raw {
            for cell in at..at + cells {
                for src in transfer.srcs.iter().filter(|src| src.packets) {
                    let cell = src.cell(cell, launch);
                    self.find_packet(accessor, cell)?;
                    if self.program.mixed {
                        self.find_packet(accessor, cell + 1)?;
                    }
                }
            }
        }
        for cell in at..at + cells {
            let found = self.gather(accessor, transfer, cell);
            self.scatter(accessor, transfer, cell, found);
        }
        Ok(())
    }

    /// Combines an element's sources to its value and its flag.
    pub(super) fn gather(&mut self, accessor: Accessor, transfer: &Move, cell: u64) -> (u64, u32) {
        let (mut value, mut flag) = (0_u64, 0);
        for src in &transfer.srcs {
            let place = src.cell(cell, accessor.launch);
            if self.size(accessor.launch).program.is_padding(place) {
                flag = 0;
                continue;
            }
            let found = if src.packets && !transfer.raw {
                self.memory[place as usize].last().map_or((0, 0), |write| (write.value, write.flag))
            } else {
                let (found, choices) = self.read(accessor, place);
                // Packets have their flags.
                self.unordered += u64::from(choices > 1 && !src.packets);
                found
            };
            value = value.wrapping_add(match found.1 {
                0 => found.0,
                _ if src.packets => found.0,
                flag => packet_bytes_as_plain(found.0, flag),
            });
            flag = found.1;
        }
        (if transfer.norm { normalized(value) } else { value }, flag)
    }

    /// Writes an element to all its destinations.
    pub(super) fn scatter(&mut self, accessor: Accessor, transfer: &Move, cell: u64, (value, flag): (u64, u32)) {
        for dst in &transfer.dsts {
            let place = dst.cell(cell, accessor.launch);
            if self.size(accessor.launch).program.is_padding(place) {
                continue;
            }
            let flag = match (dst.packets, transfer.raw) {
                (false, _) => 0,
                (true, true) => flag,
                (true, false) => accessor.launch,
            };
            self.write(accessor, place, value, flag);
            if dst.packets && self.program.mixed {
                self.write(accessor, place + 1, value, flag);
            }
        }
    }

    fn find_packet(&mut self, accessor: Accessor, cell: u32) -> Result<(), u32> {
        let found = self.memory[cell as usize].last().filter(|write| write.flag == accessor.launch).ok_or(cell)?;
        if found.by != accessor.by {
            found.arrived = true;
        }
        Ok(())
    }

    /// Reads a cell: any value that the memory model permits. Returns its value, its flag, and the number of permitted
    /// values.
    pub(super) fn read(&mut self, accessor: Accessor, place: u32) -> ((u64, u32), usize) {
        self.check_exists(accessor.by, place, "reads");
        let Self { memory, agents, ranks, rank_of, program, random, .. } = self;
        let cell = &mut memory[place as usize];
        let clock = &agents[accessor.by as usize].clock;
        let choices = cell.choices(|write| settled(write, accessor, clock, ranks, rank_of, program.first_caller));
        let back = if choices > 1 && self.results.is_none() {
            match random.below(2) {
                0 => choices - 1,
                _ => random.below(choices as u64) as usize,
            }
        } else {
            0
        };
        let Some(found) = cell.back(back) else { return ((0, 0), 1) };
        if found.by != accessor.by {
            found.arrived = true;
        }
        ((found.value, found.flag), choices)
    }

    /// Fails if a cell was freed.
    fn check_exists(&mut self, by: u32, place: u32, accesses: &str) {
        if let (Some(rank), None) = (self.memory[place as usize].freed_by, &self.failure) {
            let what = format!("rank {} {accesses} it", self.rank_of[by as usize]);
            self.failure = Some(Failure::Freed { rank, what });
        }
    }

    fn write(&mut self, accessor: Accessor, place: u32, value: u64, flag: u32) {
        self.check_exists(accessor.by, place, "writes to");
        let Self { memory, agents, ranks, rank_of, program, random, .. } = self;
        let cell = &mut memory[place as usize];
        let Agent { clock, epoch } = &agents[accessor.by as usize];
        let overtakes = cell.overtakes(|write| settled(write, accessor, clock, ranks, rank_of, program.first_caller));
        let before = if overtakes > 0 && self.results.is_none() {
            self.unordered += u64::from(flag == 0);
            match random.below(2) {
                0 => overtakes,
                _ => random.below(overtakes as u64 + 1) as usize,
            }
        } else {
            0
        };
        let launch = if accessor.port { u32::MAX } else { accessor.launch };
        let (by, epoch, time) = (accessor.by, *epoch, self.time);
        cell.write(Write { value, flag, by, epoch, launch, time, arrived: false }, before);
        if flag != 0 {
            for waiting in self.packets.remove(&place).unwrap_or_default() {
                self.schedule.wake(waiting);
            }
        }
    }

    /// Writes as a rank's caller: immediately visible to all agents.
    pub(super) fn caller_writes(&mut self, rank: u32, place: u32, value: u64) {
        let by = self.program.first_caller + rank;
        let write = Write { value, flag: 0, by, epoch: 0, launch: 0, time: self.time, arrived: true };
        self.memory[place as usize].write(write, 0);
    }
}

/// Returns whether a write must be visible to an agent that accesses its cell.
pub(super) fn settled(
    write: &Write,
    accessor: Accessor,
    clock: &Clock,
    ranks: &[RankState],
    rank_of: &[u32],
    first_caller: u32,
) -> bool {
    write.by == accessor.by
        // Ports read memory directly; only caches can return older values.
        || accessor.port && write.arrived
        || write.by >= first_caller
        || write.time <= accessor.since
        || ranks[rank_of[write.by as usize] as usize].ended >= write.launch
        || clock.get(write.by) >= write.epoch
}
