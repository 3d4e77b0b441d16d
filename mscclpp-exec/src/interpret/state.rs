//! Where a thread block or proxy stands in a launch.

use super::fifo::Trigger;

/// Where an agent stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AgentState {
    /// The launch that this is about.
    pub(crate) launch: u64,
    pub(crate) at: Position,
    /// What the operation at hand waits for: a count of signals or arrivals, or a position in a queue.
    pub(crate) ticket: u64,
    /// The loop at hand; it ends at `loop_end`, outside of loops that is 0.
    pub(crate) loop_start: u32,
    pub(crate) loop_end: u32,
    pub(crate) trips: u64,
    /// Bytes of its window.
    pub(crate) unit: u64,
    /// What a proxy is at.
    pub(crate) trigger: Option<Trigger>,
}

/// What changes when an agent gets on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The instruction.
    pub(crate) instr: u32,
    /// The reference, channel or semaphore in it.
    pub(crate) number: u32,
    /// Whether the operation at hand has begun to wait.
    pub(crate) waiting: bool,
    /// Bytes done.
    pub(crate) done: u64,
    /// Iteration of the loop at hand.
    pub(crate) iteration: u64,
}

impl AgentState {
    /// The beginning of a launch, at a thread block's first instruction.
    pub(crate) fn begin(launch: u64, instr: u32) -> Self {
        Self { launch, at: Position { instr, ..Position::default() }, ..Self::default() }
    }

    /// All that other processes need to know: where it stands, and in which loop.
    pub(crate) fn to_words(self) -> [u64; 7] {
        let Position { instr, number, waiting, done, iteration } = self.at;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let first = pair(instr, u32::from(waiting));
        [first, number.into(), done, iteration, self.ticket, pair(self.loop_start, self.loop_end), self.trips]
    }

    /// What [`to_words`](Self::to_words) said. The window of its loop must be looked up.
    pub(crate) fn from_words(launch: u64, words: [u64; 7]) -> Self {
        let [first, number, done, iteration, ticket, ends, trips] = words;
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((instr, waiting), (loop_start, loop_end)) = (halves(first), halves(ends));
        let at = Position { instr, number: number as u32, waiting: waiting != 0, done, iteration };
        Self { launch, at, ticket, loop_start, loop_end, trips, ..Self::default() }
    }
}
