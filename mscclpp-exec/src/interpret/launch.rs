//! One launch as a worker sees it, and how a thread block gets on in it.

use super::counters::Counters;
use super::params::Params;
use super::program::{Block, Instr, Opcode, Operand, ResolvedPlan, Space};
use super::remote::Remote;
use super::state::{AgentState, Position};
use crate::memory::{LentSlices, Span};
use crate::numeric::{Accumulator, Tile, zeroed};

/// What is common to all agents of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) counters: &'a Counters,
    pub(crate) program: &'a ResolvedPlan,
    pub(crate) params: &'a Params,
    pub(crate) memory: LentSlices<'a>,
    /// Counted from 1.
    pub(crate) number: u64,
    /// What this launch's packets carry; never 0.
    pub(crate) flag: u32,
    /// Whether a plan with double scratch uses the second half of it: in every other of its launches.
    pub(crate) second_half: bool,
    /// Whether each counter is written by one thread only, so that counters need no locked instructions.
    pub(crate) exclusive: bool,
    /// The way to ranks on other nodes.
    pub(crate) remote: Option<&'a dyn Remote>,
    /// Whether operations must wait that access what other ranks' callers have handed in.
    pub(crate) peer_buffers_blocked: bool,
}

/// A worker's own memory, and how far it goes with an agent before it turns to the next.
pub(crate) struct Worker {
    pub(crate) block: Tile,
    pub(crate) acc: Accumulator,
    /// Steps left in this visit.
    pub(crate) fuel: u64,
    /// Bytes of a step, a multiple of a line.
    pub(crate) quantum: u64,
}

impl Default for Worker {
    fn default() -> Self {
        Self { block: zeroed(), acc: zeroed(), fuel: u64::MAX, quantum: u64::MAX }
    }
}

impl Worker {
    /// Takes a step; whether it was the last one of this visit.
    pub(crate) fn consume_fuel(&mut self) -> bool {
        self.fuel = self.fuel.saturating_sub(1);
        self.fuel == 0
    }
}

/// How an operation came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is done.
    Next,
    /// It waits for another agent.
    Blocked,
    /// The worker's turn is over.
    Yielded,
}

/// The bytes of an operation's references that it works on now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// Where bytes of an operand lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Number of the slice, first byte in it, bytes.
    pub(super) slice: u32,
    pub(super) start: u64,
    pub(super) len: u64,
    /// Padded bytes that they stand for.
    pub(super) run: u64,
}

impl<'a> Launch<'a> {
    /// Runs a thread block until it is done, blocked, or the worker's turn is over.
    pub(crate) fn run(&self, worker: &mut Worker, code: &Block, state: &mut AgentState) -> Progress {
        while state.at.instr < code.end {
            let instr = &self.program.instrs[state.at.instr as usize];
            if self.peer_buffers_blocked && instr.accesses_peer_buffers {
                return Progress::Blocked;
            }
            match self.execute(worker, code, instr, state) {
                Progress::Next => state.advance(),
                other => return other,
            }
            if worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        Progress::Next
    }

    fn execute(&self, worker: &mut Worker, code: &Block, instr: &Instr, state: &mut AgentState) -> Progress {
        match instr.action {
            // The threads of a block are one agent.
            Opcode::Nop => Progress::Next,
            Opcode::Copy => self.copy(worker, instr, state),
            Opcode::Pack => self.pack(worker, instr, state),
            Opcode::Unpack => self.unpack(worker, instr, state),
            Opcode::Forward => self.forward(worker, instr, state),
            Opcode::Reduce => self.reduce(worker, instr, state),
            Opcode::Port { flush, .. } => self.port(code, instr, state, flush),
            Opcode::PortForward => self.port_forward(worker, code, instr, state),
            Opcode::PortSignal => self.port_sync(code, instr, state, false),
            Opcode::Flush => self.port_sync(code, instr, state, true),
            Opcode::Signal { .. } => self.signal(instr),
            Opcode::Wait { .. } => self.wait(instr, state),
            Opcode::Acquire => self.acquire(instr, state),
            Opcode::Release => self.release(instr),
            Opcode::Barrier => self.barrier(instr, state),
            Opcode::Loop => {
                state.unit = self.params.layout.window(instr.unit);
                state.loop_start = state.at.instr + 1;
                state.loop_end = state.loop_start + instr.body;
                state.trips = self.params.layout.trips(instr.count, state.unit);
                if state.trips == 0 || instr.body == 0 {
                    // As if on its last operation.
                    state.at.instr = state.loop_end - 1;
                    state.at.iteration = state.trips;
                }
                Progress::Next
            }
        }
    }

    /// What an operation on references of `size` chunks works on: its slice, and of that the loop's window.
    pub(crate) fn window(&self, instr: &Instr, size: u32, state: &AgentState) -> Window {
        let layout = &self.params.layout;
        let (index, of) = instr.slice;
        let (start, len) = layout.slice(u64::from(size) * layout.stride, index, of);
        if state.loop_end == 0 {
            return Window { start, len };
        }
        let skip = state.at.iteration.saturating_mul(state.unit).min(len);
        Window { start: start + skip, len: (len - skip).min(state.unit) }
    }

    /// The bytes of an operand from `at` on, at most `len` of them, and how many padded bytes they stand for.
    #[inline(always)]
    pub(super) fn span(&self, operand: &Operand, at: u64, len: u64) -> (Span<'a>, u64) {
        let Extent { slice, start, len, run } = self.extent(operand, at, len);
        (self.memory.slice(slice as usize).range(start, len), run)
    }

    /// Where those bytes lie, whether or not this process reaches them.
    #[inline(always)]
    pub(super) fn extent(&self, operand: &Operand, at: u64, len: u64) -> Extent {
        let area = self.params.area(operand.rank, operand.space);
        let (first, len) = if area.wrap == 0 {
            (u64::from(operand.index) * self.params.layout.stride + at, len)
        } else {
            let modulus = u64::from(operand.size) * area.wrap;
            let at = at % modulus;
            (u64::from(operand.index) * area.wrap + at, len.min(modulus - at))
        };
        let piece = area.view.piece(first, len);
        let half = if self.second_half { area.half } else { 0 };
        let scale = if operand.space == Space::Packets { 2 } else { 1 };
        Extent { slice: area.slice, start: area.base + half + scale * piece.at, len: scale * piece.len, run: piece.run }
    }
}

impl AgentState {
    /// Goes on to the next operation, or around the loop.
    fn advance(&mut self) {
        self.at = Position { instr: self.at.instr + 1, iteration: self.at.iteration, ..Position::default() };
        if self.at.instr == self.loop_end {
            self.at.iteration += 1;
            if self.at.iteration < self.trips {
                self.at.instr = self.loop_start;
            } else {
                self.loop_end = 0;
                self.at.iteration = 0;
            }
        }
    }
}
