//! Converts between a collective with its chunking and the chunk counts that a plan file has instead.

use crate::collective::{Collective, CollectiveKind};

/// The names of all collectives.
pub(super) const NAMES: &[&str] = &[
    "allreduce",
    "allgather",
    "reducescatter",
    "alltoall",
    "alltoallv",
    "sendrecv",
    "broadcast",
    "reduce",
    "custom",
    "test",
];

/// Returns the collective with a name, out of place, with the chunk factor that rank 0's counts of input and output
/// chunks imply: at least 1, rounded down if the counts do not fit the collective.
pub(super) fn collective(name: &str, (input, output): (u32, u32), ranks: u32) -> Collective {
    let kind = CollectiveKind::from_name(name).unwrap_or(match name {
        "test" => CollectiveKind::Test { input, output },
        _ => CollectiveKind::Custom { input, output },
    });
    Collective { chunk_factor: factor(kind, (input, output), ranks), ..Collective::new(kind) }
}

/// Returns the chunk factor alone.
pub(super) fn factor(kind: CollectiveKind, (input, output): (u32, u32), ranks: u32) -> u32 {
    let factor = match kind {
        CollectiveKind::AllGather | CollectiveKind::SendRecv => input,
        CollectiveKind::ReduceScatter => output,
        CollectiveKind::Custom { .. } | CollectiveKind::Test { .. } => 1,
        _ => input / ranks.max(1),
    };
    factor.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_come_back_from_counts() {
        for name in NAMES {
            let kind = collective(name, (3, 5), 4).kind;
            assert_eq!(kind.name(), *name);
            for chunk_factor in 1..4 {
                let chunk_factor = match kind {
                    CollectiveKind::Custom { .. } | CollectiveKind::Test { .. } => 1,
                    _ => chunk_factor,
                };
                let whole = Collective { chunk_factor, ..Collective::new(kind) };
                let counts = whole.chunks(4).unwrap();
                assert_eq!(collective(name, counts, 4), whole, "{name} {chunk_factor}");
            }
        }
        assert_eq!(collective("allreduce", (0, 0), 0).chunk_factor, 1);
    }
}
