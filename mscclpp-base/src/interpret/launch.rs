//! One launch as a worker sees it, and how thread blocks make progress in it.

use super::counters::Counters;
use super::counts::CountRows;
use super::params::Params;
use super::program::{Block, Instr, Opcode, Operand, ResolvedPlan, Space, Transfer};
use super::remote::Remote;
use super::rows::RowCalls;
use super::state::{AgentState, Position};
use super::timeline::{Recorder, Unrecorded};
use crate::memory::{LentSlices, Span};
use crate::numeric::{Accumulator, Tile, zeroed};

/// State that all agents of a launch share.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    pub counters: &'a Counters,
    pub program: &'a ResolvedPlan,
    pub params: &'a Params,
    pub memory: LentSlices<'a>,
    /// Number of the launch, counted from 1.
    pub number: u64,
    /// Flag of this launch's packets; never 0.
    pub flag: u32,
    /// Whether a plan with double scratch uses its second half, as it does in every other launch.
    pub second_half: bool,
    /// The rows that ranks of this process pass to a plan with counts, and the number of the plan's launch, which is at least 1. The
    /// parity of numbers of successive launches of a plan differs, unless no two launches overlap.
    pub counts: Option<CountRows<'a>>,
    pub counts_number: u64,
    /// The row norms of ranks of this process, in a plan that has them.
    pub rows: Option<RowCalls<'a>>,
    /// Whether each counter is written by one thread only, so that counters need no atomic read-modify-write
    /// instructions.
    pub exclusive: bool,
    /// Connections to ranks on other nodes.
    pub remote: Option<&'a dyn Remote>,
    /// Whether operations are blocked that access buffers of other ranks' callers.
    pub peer_buffers_blocked: bool,
}

/// A worker's private memory, and how far it runs an agent before it switches to the next.
pub struct Worker {
    pub block: Tile,
    pub acc: Accumulator,
    /// Steps that remain before the agent yields.
    pub fuel: u64,
    /// Bytes of a step, a multiple of a line.
    pub quantum: u64,
}

impl Default for Worker {
    fn default() -> Self {
        Self { block: zeroed(), acc: zeroed(), fuel: u64::MAX, quantum: u64::MAX }
    }
}

impl Worker {
    /// Consumes the fuel of a step, and returns whether none remains.
    pub fn consume_fuel(&mut self) -> bool {
        self.fuel = self.fuel.saturating_sub(1);
        self.fuel == 0
    }
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has finished.
    Next,
    /// It waits for another agent.
    Blocked,
    /// The worker's fuel is used up.
    Yielded,
}

/// Bytes of an operation's operands that the current iteration processes.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub start: u64,
    pub len: u64,
}

/// Location of bytes of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Number of the slice, first byte in it, number of bytes.
    pub(super) slice: u32,
    pub(super) start: u64,
    pub(super) len: u64,
    /// Number of padded bytes that they correspond to.
    pub(super) run: u64,
}

impl<'a> Launch<'a> {
    /// Runs a thread block until it has finished, is blocked, or the fuel is used up.
    pub fn run(&self, worker: &mut Worker, code: &Block, state: &mut AgentState) -> Progress {
        self.run_recorded(worker, code, state, &mut Unrecorded)
    }

    /// Does what [`run`](Self::run) does, and tells a recorder of each attempt to execute an operation.
    pub fn run_recorded(
        &self,
        worker: &mut Worker,
        code: &Block,
        state: &mut AgentState,
        recorder: &mut impl Recorder,
    ) -> Progress {
        while state.at.instr < code.end {
            let instr = &self.program.instrs[state.at.instr as usize];
            let at = state.at;
            recorder.start();
            let progress = match self.peer_buffers_blocked && instr.accesses_peer_buffers {
                true => Progress::Blocked,
                false => self.execute(worker, code, instr, state),
            };
            recorder.stop(self.number, at, progress);
            match progress {
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
            Opcode::Transfer(Transfer::CopyCounted) => self.copy_counted(worker, instr, code.rank, state),
            Opcode::Transfer(Transfer::RowNorm) => self.norm_rows(worker, instr, code.rank, state),
            Opcode::ExchangeCounts => self.exchange_counts(code.rank, state),
            Opcode::Transfer(transfer) => self.run_transfer(transfer, worker, instr, state),
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
                    // Continues as after the last operation of the body.
                    state.at.instr = state.loop_end - 1;
                    state.at.iteration = state.trips;
                }
                Progress::Next
            }
        }
    }

    /// Returns the bytes of operands of `size` chunks that an operation processes now: its slice, and within it the
    /// loop's window.
    pub fn window(&self, instr: &Instr, size: u32, state: &AgentState) -> Window {
        let layout = &self.params.layout;
        let (index, of) = instr.slice;
        let (start, len) = layout.slice(u64::from(size) * layout.stride, index, of);
        if state.loop_end == 0 {
            return Window { start, len };
        }
        let skip = state.at.iteration.saturating_mul(state.unit).min(len);
        Window { start: start + skip, len: (len - skip).min(state.unit) }
    }

    /// Returns the bytes of an operand from `at` on, at most `len` of them, and how many padded bytes they correspond
    /// to.
    #[inline(always)]
    pub(super) fn span(&self, operand: &Operand, at: u64, len: u64) -> (Span<'a>, u64) {
        let Extent { slice, start, len, run } = self.extent(operand, at, len);
        (self.memory.slice(slice as usize).range(start, len), run)
    }

    /// Returns the location of those bytes, whether or not this process can access them.
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
    /// Continues with the next operation, or with the next iteration of the loop.
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
