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
    /// The count, or the sum of the counts for the buffer, in elements; a number of tokens; the token of a choice.
    pub demand: i64,
    /// The maximum, or what the rank expects, in elements; a number of tokens; the number of experts.
    pub room: u64,
    /// The other rank of the count; of a sum, of its largest part.
    pub peer: u32,
    /// The largest part of the sum; which of the token's choices.
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
    /// A rank dispatches at most as many tokens as were declared.
    Tokens,
    /// The choices of a token are different experts, or none.
    Choice,
    /// Rows return from experts after a dispatch that has brought them there.
    Returned,
}

/// Why a rank has no rows of tokens to send. It passes this instead of a count for rank 0, a negative number, so that all ranks learn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// More tokens than were declared.
    Tokens {
        /// The tokens.
        found: u64,
        /// The declared maximum.
        most: u64,
    },
    /// A choice that is no expert, or that repeats another one of its token.
    Choice {
        /// The token.
        token: u64,
        /// Which of its choices.
        choice: u64,
        /// The number of experts.
        num_experts: u64,
    },
    /// The dispatch has moved nothing.
    Returned,
}

/// The parts of a refusal: its kind in bits 60 to 62, then numbers; the same in `kernels/experts/experts.cu`.
impl Refusal {
    /// The limits of what is passed: tokens, choices of a token, experts.
    pub const MAX_TOKENS: u64 = (1 << 30) - 1;
    pub const MAX_TOP_K: u64 = (1 << 8) - 1;
    pub const MAX_EXPERTS: u64 = (1 << 22) - 1;

    /// Returns what is passed instead of a count.
    pub fn count(self) -> i64 {
        let (kind, parts) = match self {
            Self::Tokens { found, most } => (0, found.min(Self::MAX_TOKENS) << 30 | most.min(Self::MAX_TOKENS)),
            Self::Choice { token, choice, num_experts } => {
                let [token, choice] = [token.min(Self::MAX_TOKENS) << 30, choice.min(Self::MAX_TOP_K) << 22];
                (1, token | choice | num_experts.min(Self::MAX_EXPERTS))
            }
            Self::Returned => (2, 0),
        };
        (1 << 63 | kind << 60 | parts).cast_signed()
    }

    /// Returns what a count says; `None` if it is no refusal.
    pub fn of_count(count: i64) -> Option<Self> {
        let word = count.cast_unsigned();
        let part = |at: u32, bits: u32| word >> at & ((1 << bits) - 1);
        match word >> 60 {
            // Negative numbers that a caller may pass, such as the smallest one, are no refusals.
            8 => Some(Self::Tokens { found: part(30, 30), most: part(0, 30) }).filter(|_| part(30, 30) > part(0, 30)),
            9 => Some(Self::Choice { token: part(30, 30), choice: part(22, 8), num_experts: part(0, 22) }),
            10 => Some(Self::Returned),
            _ => None,
        }
    }

    /// Returns the error of all ranks if a rank refuses.
    pub fn overflow(self, rank: u32) -> CountOverflow {
        let (limit, demand, room, part) = match self {
            Self::Tokens { found, most } => (CountLimit::Tokens, found, most, 0),
            Self::Choice { token, choice, num_experts } => (CountLimit::Choice, token, num_experts, choice),
            Self::Returned => (CountLimit::Returned, 0, 0, 0),
        };
        CountOverflow { rank, limit, demand: demand.cast_signed(), room, peer: rank, part: part.cast_signed() }
    }
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
            CountLimit::Tokens => {
                return write!(
                    f,
                    "rank {rank} dispatches {demand} tokens, expected at most {room}; no data was moved: declare a larger \
                     maximum, or dispatch fewer tokens"
                );
            }
            CountLimit::Choice => {
                return write!(
                    f,
                    "choice {part} of token {demand} of rank {rank} is no expert, or repeats another choice of the token, \
                     expected different numbers from 0 to {}, or -1 for none; no data was moved: correct the choices",
                    room.saturating_sub(1)
                );
            }
            CountLimit::Returned => {
                return write!(
                    f,
                    "rank {rank} returns rows of a dispatch that has moved none; no data was moved: dispatch the tokens again"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_what_their_counts_say() {
        let all = [
            Refusal::Tokens { found: 9, most: 8 },
            Refusal::Tokens { found: Refusal::MAX_TOKENS, most: 0 },
            Refusal::Choice { token: 0, choice: 0, num_experts: 1 },
            Refusal::Choice {
                token: Refusal::MAX_TOKENS,
                choice: Refusal::MAX_TOP_K,
                num_experts: Refusal::MAX_EXPERTS,
            },
            Refusal::Returned,
        ];
        for refusal in all {
            assert!(refusal.count() < 0);
            assert_eq!(Refusal::of_count(refusal.count()), Some(refusal));
        }
        for count in [-1, -(1 << 40), 0, 7, i64::MAX, i64::MIN >> 1, i64::MIN] {
            assert_eq!(Refusal::of_count(count), None, "{count}");
        }
    }
}
