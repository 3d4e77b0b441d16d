//! Report of counts that exceed what a launch has room for.

use std::fmt;

/// A count, or a sum of counts, that exceeds its limit. All ranks of the launch report the same; no data was moved, and the next launch may
/// follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountOverflow {
    /// The rank that passed the count or expects another one, or whose buffer it is.
    pub rank: u32,
    /// What is exceeded.
    pub limit: CountLimit,
    /// The count, or the sum of the counts for the buffer, in elements.
    pub demand: i64,
    /// The maximum, or what the rank expects, in elements.
    pub room: u64,
    /// The other rank of the count; of a sum, of its largest part.
    pub peer: u32,
    /// The largest part of the sum.
    pub part: i64,
}

impl CountOverflow {
    /// Returns the rank whose numbers are wrong: the one that passed another count than its peer expects, otherwise the one that passed
    /// the count or whose buffer is too short.
    pub(super) fn root_cause(&self) -> u32 {
        if self.limit == CountLimit::Expected { self.peer } else { self.rank }
    }
}

/// What counts may exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountLimit {
    /// A single count is at least 0, and at most a rank's part of the message.
    Entry,
    /// The counts that a rank passes fit into its input.
    Input,
    /// The counts for a rank fit into its output.
    Output,
    /// A count is what its receiver expects, if the receiver states that.
    Expected,
}

impl fmt::Display for CountOverflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, limit, demand, room, peer, part } = self;
        let (buffer, direction) = match limit {
            CountLimit::Entry => {
                return write!(
                    f,
                    "rank {rank} has {demand} elements for rank {peer}, expected 0 to {room}; no data was moved: correct \
                     the count, or use a larger message"
                );
            }
            CountLimit::Expected => {
                return write!(
                    f,
                    "rank {peer} has {demand} elements for rank {rank}, which expects {room}; no data was moved: pass the \
                     same count on both ranks"
                );
            }
            CountLimit::Input => ("input", "for"),
            CountLimit::Output => ("output", "from"),
        };
        write!(
            f,
            "the counts add up to {demand} elements for the {buffer} of rank {rank}, which has room for {room}; the largest \
             part, {part} elements, is {direction} rank {peer}; no data was moved: use a longer {buffer}, or smaller counts"
        )
    }
}

impl std::error::Error for CountOverflow {}
