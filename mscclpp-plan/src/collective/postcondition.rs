//! Postconditions: what every collective guarantees about its outputs.

use super::{Collective, CollectiveKind};

/// What a range of a rank's output holds at the end of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Postcondition {
    /// First chunk of the output.
    pub chunk: u32,
    /// Number of chunks.
    pub len: u32,
    /// What they hold.
    pub content: OutputContent,
}

/// What chunks of an output hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputContent {
    /// Chunks of one rank's input.
    Input {
        /// The rank.
        rank: u32,
        /// The first chunk.
        chunk: u32,
    },
    /// The reduction of the same chunks of every rank's input, each taken once.
    Reduction {
        /// The first chunk.
        chunk: u32,
    },
    /// The rows of that reduction, each normalized once.
    Normalized {
        /// The first chunk.
        chunk: u32,
    },
    /// The rows of one rank's input, each normalized once.
    NormalizedInput {
        /// The rank.
        rank: u32,
        /// The first chunk.
        chunk: u32,
    },
}

impl OutputContent {
    /// Returns whether it is a reduction over all ranks, normalized or not.
    pub const fn is_reduction(self) -> bool {
        matches!(self, Self::Reduction { .. } | Self::Normalized { .. })
    }

    /// Returns the first chunk of the inputs.
    pub const fn chunk(self) -> u32 {
        match self {
            Self::Input { chunk, .. }
            | Self::Reduction { chunk }
            | Self::Normalized { chunk }
            | Self::NormalizedInput { chunk, .. } => chunk,
        }
    }
}

/// The numbers on which postconditions depend, as a plan has them: instances are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkCounts {
    /// Number of ranks.
    pub num_ranks: u32,
    /// Chunks of every rank's input.
    pub input: u32,
    /// Chunks of every rank's output.
    pub output: u32,
    /// Over how many ranks a send-receive sends: 1, or more if a plan sends from group to group.
    pub distance: u32,
}

impl Collective {
    /// Returns the postconditions of the output of a rank, in ascending order of chunks; chunks without a postcondition
    /// may hold anything. `Custom` and `Test` have none.
    #[doc(hidden)]
    pub fn postconditions(&self, extent: ChunkCounts, rank: u32) -> impl Iterator<Item = Postcondition> + use<> {
        use CollectiveKind as K;
        let ChunkCounts { num_ranks: ranks, input: _, output, distance } = extent;
        let Self { kind, root, rows, .. } = *self;
        let (count, len) = match kind {
            K::AllGather | K::AllToAll | K::AllToAllV => (ranks, output / ranks.max(1)),
            K::Reduce if rank != root => (0, 0),
            K::AllReduce | K::Reduce | K::ReduceScatter | K::SendRecv | K::Broadcast => (1, output),
            K::Custom { .. } | K::Test { .. } => (0, 0),
        };
        (0..count).map(move |from| {
            let content = match kind {
                K::AllGather => OutputContent::Input { rank: from, chunk: 0 },
                K::AllToAll | K::AllToAllV => OutputContent::Input { rank: from, chunk: rank.saturating_mul(len) },
                K::Broadcast => OutputContent::Input { rank: root, chunk: 0 },
                K::SendRecv => {
                    let ranks = u64::from(ranks.max(1));
                    let sender = (u64::from(rank) + ranks - u64::from(distance) % ranks) % ranks;
                    OutputContent::Input { rank: sender as u32, chunk: 0 }
                }
                K::ReduceScatter => OutputContent::Reduction { chunk: rank.saturating_mul(len) },
                K::AllReduce | K::Reduce | K::Custom { .. } | K::Test { .. } => OutputContent::Reduction { chunk: 0 },
            };
            let content = match content {
                OutputContent::Reduction { chunk } if rows => OutputContent::Normalized { chunk },
                OutputContent::Input { rank, chunk } if rows && kind == K::AllGather => {
                    OutputContent::NormalizedInput { rank, chunk }
                }
                other => other,
            };
            Postcondition { chunk: from * len, len, content }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postconditions(kind: CollectiveKind, input: u32, output: u32, rank: u32) -> Vec<(u32, u32, OutputContent)> {
        let extent = ChunkCounts { num_ranks: 3, input, output, distance: 1 };
        let collective = Collective { root: 2, ..Collective::new(kind) };
        collective
            .postconditions(extent, rank)
            .map(|postcondition| (postcondition.chunk, postcondition.len, postcondition.content))
            .collect()
    }

    #[test]
    fn every_collective_has_its_postconditions() {
        use CollectiveKind as K;
        let input = |rank, chunk| OutputContent::Input { rank, chunk };
        let gathered = [(0, 2, input(0, 0)), (2, 2, input(1, 0)), (4, 2, input(2, 0))];
        assert_eq!(postconditions(K::AllGather, 2, 6, 1), gathered);
        let exchanged = [(0, 2, input(0, 2)), (2, 2, input(1, 2)), (4, 2, input(2, 2))];
        assert_eq!(postconditions(K::AllToAll, 6, 6, 1), exchanged);
        assert_eq!(postconditions(K::AllReduce, 3, 3, 1), [(0, 3, OutputContent::Reduction { chunk: 0 })]);
        assert_eq!(postconditions(K::ReduceScatter, 6, 2, 1), [(0, 2, OutputContent::Reduction { chunk: 2 })]);
        assert_eq!(postconditions(K::Reduce, 3, 3, 1), []);
        assert_eq!(postconditions(K::Reduce, 3, 3, 2), [(0, 3, OutputContent::Reduction { chunk: 0 })]);
        assert_eq!(postconditions(K::Broadcast, 3, 3, 0), [(0, 3, input(2, 0))]);
        assert_eq!(postconditions(K::SendRecv, 1, 1, 0), [(0, 1, input(2, 0))]);
        let rows = Collective { rows: true, ..Collective::new(K::AllGather) };
        let gathered = rows.postconditions(ChunkCounts { num_ranks: 2, input: 1, output: 2, distance: 1 }, 0);
        let contents: Vec<_> = gathered.map(|postcondition| postcondition.content).collect();
        let normalized = |rank| OutputContent::NormalizedInput { rank, chunk: 0 };
        assert_eq!(contents, [normalized(0), normalized(1)]);
        assert_eq!(postconditions(K::Custom { input: 1, output: 1 }, 1, 1, 0), []);
    }
}
