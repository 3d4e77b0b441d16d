//! Collectives with the chunk counts of the older API.

use crate::collective::{self, CollectiveKind};

/// A collective with the chunk counts of the older API.
///
/// An all-reduce or broadcast has `chunk_factor` chunks in all, where the [newer API](crate::dsl) has `chunk_factor` for
/// each rank; the others agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    pub(super) kind: CollectiveKind,
    pub(super) num_ranks: u32,
    pub(super) chunk_factor: u32,
    pub(super) in_place: bool,
    pub(super) root: u32,
}

macro_rules! constructors {
    ($($(#[doc = $doc:literal])* $name:ident = $kind:ident;)*) => { $(
        $(#[doc = $doc])*
        pub const fn $name(num_ranks: u32, chunk_factor: u32, in_place: bool) -> Self {
            Self { kind: CollectiveKind::$kind, num_ranks, chunk_factor, in_place, root: 0 }
        }
    )* };
}

impl Collective {
    constructors! {
        /// Input and output of `chunk_factor` chunks.
        all_reduce = AllReduce;
        /// Input of `chunk_factor` chunks, output of `num_ranks × chunk_factor`. In place, the input of rank r is chunks
        /// `r × chunk_factor..` of its output.
        all_gather = AllGather;
        /// Input of `num_ranks × chunk_factor` chunks, output of `chunk_factor`. In place, the output of rank r is chunks
        /// `r × chunk_factor..` of its input.
        reduce_scatter = ReduceScatter;
        /// Input and output of `num_ranks × chunk_factor` chunks.
        all_to_all = AllToAll;
        /// Input and output of `chunk_factor` chunks.
        send_recv = SendRecv;
    }

    /// Input and output of `chunk_factor` chunks.
    pub const fn broadcast(num_ranks: u32, chunk_factor: u32, in_place: bool, root: u32) -> Self {
        Self { kind: CollectiveKind::Broadcast, num_ranks, chunk_factor, in_place, root }
    }

    /// Returns the collective of the newer API, and how many of its chunks one chunk here is.
    ///
    /// An all-reduce over n ranks has a multiple of n chunks in the newer API. A program with k chunks, k not a
    /// multiple of n, is recorded with every chunk divided into as many parts as make it one.
    pub(super) fn to_collective(self) -> (collective::Collective, u32) {
        let (ranks, factor) = (u64::from(self.num_ranks), u64::from(self.chunk_factor));
        let (chunk_factor, scale) = match self.kind {
            CollectiveKind::AllReduce | CollectiveKind::Broadcast if ranks > 0 => {
                let scale = ranks / gcd(ranks, factor);
                (factor.saturating_mul(scale) / ranks, scale)
            }
            _ => (factor, 1),
        };
        // The recorder rejects numbers that do not fit as too large.
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let collective = collective::Collective {
            kind: self.kind,
            chunk_factor: narrow(chunk_factor),
            in_place: self.in_place,
            root: self.root,
            dividing: false,
            rows: false,
        };
        (collective, narrow(scale))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::Collective;

    #[test]
    fn an_all_reduce_is_scaled_to_a_multiple_of_the_ranks() {
        for (ranks, chunks) in [(8, 8), (8, 64), (8, 1), (8, 6), (3, 2), (1, 5), (7, 7)] {
            let (collective, scale) = Collective::all_reduce(ranks, chunks, true).to_collective();
            assert_eq!(
                collective.chunks(ranks),
                Some((chunks * scale, chunks * scale)),
                "{ranks} ranks, {chunks} chunks"
            );
            assert!(scale <= ranks);
        }
        assert_eq!(Collective::all_reduce(8, 16, true).to_collective().1, 1);
        assert_eq!(Collective::all_reduce(0, 16, true).to_collective().0.chunk_factor, 16);
        assert_eq!(Collective::all_gather(8, 3, true).to_collective().1, 1);
    }
}
