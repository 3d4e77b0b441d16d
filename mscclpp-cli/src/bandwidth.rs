//! Bandwidths as defined by nccl-tests.

use std::time::Duration;

use mscclpp_core::collective::CollectiveKind;

/// Returns the ratio of bus bandwidth to algorithm bandwidth: bytes that the busiest link must carry per byte of the
/// message, for any algorithm. It is 1 for a custom collective, whose links are unspecified.
pub(crate) fn bus_factor(kind: CollectiveKind, ranks: u32) -> f64 {
    let n = f64::from(ranks.max(1));
    match kind {
        CollectiveKind::AllReduce => 2.0 * (n - 1.0) / n,
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll
        | CollectiveKind::AllToAllV => (n - 1.0) / n,
        CollectiveKind::Broadcast
        | CollectiveKind::Reduce
        | CollectiveKind::SendRecv
        | CollectiveKind::Custom { .. }
        | CollectiveKind::Test { .. } => 1.0,
    }
}

/// Returns gigabytes (10⁹) per second; 0 for no bytes or no time.
pub(crate) fn gigabytes_per_second(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds == 0.0 { 0.0 } else { bytes as f64 / seconds / 1e9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_nccl_tests() {
        for (kind, factor) in [
            (CollectiveKind::AllReduce, 1.75),
            (CollectiveKind::AllGather, 0.875),
            (CollectiveKind::ReduceScatter, 0.875),
            (CollectiveKind::AllToAll, 0.875),
            (CollectiveKind::Broadcast, 1.0),
            (CollectiveKind::Reduce, 1.0),
            (CollectiveKind::SendRecv, 1.0),
        ] {
            assert_eq!(bus_factor(kind, 8), factor, "{}", kind.name());
        }
        assert_eq!(bus_factor(CollectiveKind::AllReduce, 1), 0.0);
    }

    #[test]
    fn bandwidth_is_bytes_over_time() {
        assert_eq!(gigabytes_per_second(2_000_000_000, Duration::from_secs(1)), 2.0);
        assert_eq!(gigabytes_per_second(1, Duration::ZERO), 0.0);
    }
}
