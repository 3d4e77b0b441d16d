//! State of a thread block or proxy in a launch.

use super::fifo::Trigger;

/// State of an agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentState {
    /// The launch to which the state belongs.
    pub launch: u64,
    pub at: Position,
    /// What the current operation waits for: a count of signals or arrivals, or a position in a queue.
    pub ticket: u64,
    /// Body of the current loop; it ends before `loop_end`, which is 0 outside of loops.
    pub loop_start: u32,
    pub loop_end: u32,
    pub trips: u64,
    /// Bytes of its window.
    pub unit: u64,
    /// The trigger that a proxy is executing.
    pub trigger: Option<Trigger>,
}

/// The part of the state that changes when an agent makes progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The instruction.
    pub instr: u32,
    /// Index of its operand, channel or semaphore.
    pub number: u32,
    /// Whether the current operation has started to wait.
    pub waiting: bool,
    /// Number of bytes that are done.
    pub done: u64,
    /// Iteration of the current loop.
    pub iteration: u64,
}

impl AgentState {
    /// Returns the state at the start of a launch, at a thread block's first instruction.
    pub fn begin(launch: u64, instr: u32) -> Self {
        Self { launch, at: Position { instr, ..Position::default() }, ..Self::default() }
    }

    /// Returns the parts that other processes need: the position and the loop.
    pub fn to_words(self) -> [u64; 7] {
        let Position { instr, number, waiting, done, iteration } = self.at;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let first = pair(instr, u32::from(waiting));
        [first, number.into(), done, iteration, self.ticket, pair(self.loop_start, self.loop_end), self.trips]
    }

    /// Restores the state from the result of [`to_words`](Self::to_words). The window of its loop must be looked up.
    pub fn from_words(launch: u64, words: [u64; 7]) -> Self {
        let [first, number, done, iteration, ticket, ends, trips] = words;
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((instr, waiting), (loop_start, loop_end)) = (halves(first), halves(ends));
        let at = Position { instr, number: number as u32, waiting: waiting != 0, done, iteration };
        Self { launch, at, ticket, loop_start, loop_end, trips, ..Self::default() }
    }
}
