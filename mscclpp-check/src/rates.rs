//! Trip counts of loops as functions of one size.
//!
//! A chunk has x *grains*. A loop over s chunks in windows of U bytes makes ⌈x × s × grain / U⌉ iterations, so loops of
//! one [`Rate`], s × grain / U in lowest terms, make equally many at every size. Loops of several rates cannot have all
//! combinations of trip counts: [`Trips`] lists those that occur, in the order of the sizes.

use crate::view::View;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::raw::LoopBody;

/// Iterations of a loop per grain of a chunk, as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rate {
    iterations: u64,
    grains: u64,
}

impl Rate {
    /// Returns the rate of a loop that passed the shape rule.
    pub(crate) fn of(body: &LoopBody, grain: u64) -> Self {
        let (iterations, grains) = (u64::from(body.num_chunks.max(1)).saturating_mul(grain.max(1)), body.unit.max(1));
        let divisor = greatest_common_divisor(iterations, grains);
        Self { iterations: iterations / divisor, grains: grains / divisor }
    }

    /// Returns the trip count for chunks of the given number of grains.
    pub(crate) fn trips(self, size: u64) -> u128 {
        (u128::from(size) * u128::from(self.iterations)).div_ceil(self.grains.into())
    }

    /// Compares the trip counts with those of another rate.
    pub(crate) fn cmp_speed(&self, other: &Self) -> std::cmp::Ordering {
        let product = |one: &Self, other: &Self| u128::from(one.iterations) * u128::from(other.grains);
        product(self, other).cmp(&product(other, self))
    }

    /// Returns the largest size at which the loop makes at most the given number of iterations.
    pub(crate) fn last_size(self, trips: u128) -> u128 {
        trips.saturating_mul(self.grains.into()) / u128::from(self.iterations)
    }
}

/// The sizes of a chunk that messages within the plan's limits have: each integer number of grains from `min` to `max`.
///
/// Executors round a chunk up to whole grains: the plan's alignment, and packets of 8 bytes if it has packets. Messages
/// of bytes have every such size, 0 included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkSizes {
    /// Bytes.
    pub(crate) grain: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// Bytes of the largest buffer: addresses are signed.
const MAX_BYTES: u64 = i64::MAX as u64;

impl ChunkSizes {
    /// Returns the sizes of a plan that passed the shape rule. `None` if no message is within its limits.
    pub(crate) fn of(view: View, has_packets: bool) -> Option<Self> {
        let plan = view.plan;
        let grain = u64::from(plan.buffer_alignment.max(if has_packets { 8 } else { 1 }));
        let instances = u64::from(view.instances());
        let chunks = plan.ranks.first().map_or([0; 2], |rank| [rank.input_chunks, rank.output_chunks]);
        let chunks = u64::from(chunks.into_iter().max().unwrap_or(0)) * instances;
        let (min, max) = (plan.min_message_size, plan.max_message_size.min(MAX_BYTES));
        let grains = |bytes: u64| bytes.div_ceil(chunks.max(1)).div_ceil(grain);
        let (min, max) = match plan.collective.kind {
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::AllToAllV => {
                // Whole elements for every rank.
                let ranks = plan.ranks.len().max(1) as u64;
                (grains(min.next_multiple_of(ranks)), grains(max / ranks * ranks))
            }
            _ => (grains(min), grains(max)),
        };
        (min <= max).then_some(Self { grain, min, max })
    }
}

/// The combinations of trip counts that loops of some rates have, numbered from 0 in the order of the smallest sizes
/// with each. At size 0 no loop makes an iteration, at other sizes each makes at least one.
#[derive(Clone, Debug)]
pub(crate) struct Trips {
    rates: Vec<Rate>,
    /// The smallest size with each combination, from 1 to the period, ascending. The combination of size 0 is the
    /// period's last one, a period earlier.
    firsts: Vec<u64>,
    /// Grains after which every loop has made an integer number of iterations.
    period: u64,
    /// Combinations after which the trip counts have grown by `gains`, whatever the combination: the numbers of
    /// combinations with equal remainders are the residues over which the induction runs.
    pub(crate) residues: u64,
    /// By rate.
    pub(crate) gains: Vec<u64>,
}

/// Maximum number of combinations in a period that are listed.
const MAX_COMBINATIONS: usize = 1 << 12;

impl Trips {
    /// Returns the combinations of loops of these rates, each listed once. `None` if too many occur before they repeat.
    pub(crate) fn of(rates: Vec<Rate>) -> Option<Self> {
        let period = rates.iter().try_fold(1, |period: u64, rate| {
            (period / greatest_common_divisor(period, rate.grains)).checked_mul(rate.grains)
        })?;
        let gain = |rate: &Rate| u64::try_from(rate.trips(period)).ok();
        let mut gains = rates.iter().map(gain).collect::<Option<Vec<_>>>()?;
        let mut firsts = vec![1];
        loop {
            let size = *firsts.last()?;
            let next = rates.iter().map(|rate| rate.last_size(rate.trips(size)) + 1).min().unwrap_or(u128::MAX);
            if next > period.into() {
                break;
            }
            if firsts.len() == MAX_COMBINATIONS {
                return None;
            }
            firsts.push(next as u64);
        }
        // The trip counts may repeat sooner than the sizes.
        let all = firsts.len() as u64;
        let mut trips = Self { rates, firsts, period, residues: all, gains: Vec::new() };
        let parts = gains.iter().copied().fold(all, greatest_common_divisor);
        let parts = (1..=parts).rev().find(|parts| parts_repeat(&trips, &gains, *parts)).unwrap_or(1);
        gains.iter_mut().for_each(|gain| *gain /= parts);
        (trips.residues, trips.gains) = (all / parts, gains);
        Some(trips)
    }

    /// Returns the rates, in the order of `gains`.
    pub(crate) fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// Returns the smallest size with a combination; saturates.
    pub(crate) fn size(&self, number: u64) -> u64 {
        let all = self.firsts.len() as u64;
        let Some(index) = number.checked_sub(1) else { return 0 };
        (index / all).saturating_mul(self.period).saturating_add(self.firsts[(index % all) as usize])
    }

    /// Returns the largest size at which no loop makes more than the given number of iterations; saturates.
    pub(crate) fn last_size(&self, trips: u128) -> u64 {
        let sizes = self.rates.iter().map(|rate| rate.last_size(trips));
        sizes.min().and_then(|size| u64::try_from(size).ok()).unwrap_or(u64::MAX)
    }

    /// Returns the combination of a size.
    pub(crate) fn number(&self, size: u64) -> u64 {
        let Some(index) = size.checked_sub(1) else { return 0 };
        let inside = self.firsts.partition_point(|&first| first <= index % self.period + 1) as u64;
        (index / self.period) * self.firsts.len() as u64 + inside
    }
}

/// Returns whether trip counts grow by a fraction `1 / parts` of the gains from every combination to the one that
/// fraction of a period later.
fn parts_repeat(trips: &Trips, gains: &[u64], parts: u64) -> bool {
    let all = trips.firsts.len() as u64;
    if !all.is_multiple_of(parts) || gains.iter().any(|gain| !gain.is_multiple_of(parts)) {
        return false;
    }
    let grows = |number: u64| {
        let (old, new) = (trips.size(number), trips.size(number + all / parts));
        trips.rates.iter().zip(gains).all(|(rate, gain)| rate.trips(new) == rate.trips(old) + u128::from(gain / parts))
    };
    (0..all).all(grows)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ChunkSizes, Rate, Trips};
    use crate::testing::plan;
    use mscclpp_plan::collective::CollectiveKind;
    use mscclpp_plan::raw::LoopBody;

    fn rate((unit, num_chunks): (u64, u32), grain: u64) -> Rate {
        Rate::of(&LoopBody { unit, num_chunks, ops: Vec::new() }, grain)
    }

    fn trips(loops: &[(u64, u32)]) -> Trips {
        let mut rates: Vec<_> = loops.iter().map(|&body| rate(body, 16)).collect();
        rates.sort_unstable();
        rates.dedup();
        Trips::of(rates).unwrap()
    }

    #[test]
    fn loops_of_one_rate_make_any_number_of_iterations() {
        for loops in [&[(64, 1)][..], &[(1 << 20, 1)], &[(64, 3)], &[(64, 1), (192, 3)]] {
            let trips = trips(loops);
            assert_eq!((trips.residues, &trips.gains[..]), (1, &[1][..]), "{loops:?}");
        }
        assert_eq!([0, 1, 2, 3].map(|number| trips(&[(64, 1)]).size(number)), [0, 1, 5, 9]);
    }

    #[test]
    fn long_spans_skip_numbers_of_iterations() {
        let trips = trips(&[(16, 3)]);
        assert_eq!((trips.residues, &trips.gains[..]), (1, &[3][..]));
        assert_eq!([0, 1, 2].map(|number| trips.rates()[0].trips(trips.size(number))), [0, 3, 6]);
    }

    #[test]
    fn loops_of_two_rates_have_the_combinations_of_a_period() {
        // 0 1 1 1 1 2 and 0 1 2 3 4 5.
        let trips = trips(&[(64, 1), (16, 1)]);
        assert_eq!((trips.residues, &trips.gains[..]), (4, &[4, 1][..]));
    }

    #[test]
    fn too_many_combinations_are_not_listed() {
        let primes = [257, 263, 269, 271, 277];
        assert!(Trips::of(primes.map(|prime| rate((16 * prime, 1), 16)).to_vec()).is_none());
        assert!(Trips::of(vec![rate((u64::MAX / 16 * 16, u32::MAX), 1 << 31), rate((16, 1), 1)]).is_none());
    }

    #[test]
    fn limits_of_messages_are_limits_of_chunks() {
        let sizes = |kind, chunks: (u32, u32), limits: (u64, u64), has_packets| {
            let mut plan = plan(&[&[""], &[""]]);
            plan.collective.kind = kind;
            (plan.min_message_size, plan.max_message_size) = limits;
            for rank in &mut plan.ranks {
                (rank.input_chunks, rank.output_chunks) = chunks;
            }
            plan.buffer_alignment = 4;
            ChunkSizes::of((&plan).into(), has_packets).map(|sizes| (sizes.grain, sizes.min, sizes.max))
        };
        use CollectiveKind as K;
        let custom = |input, output| K::Custom { input, output };
        for (kind, chunks, limits, has_packets, expected) in [
            (K::AllReduce, (8, 8), (0, 1 << 20), false, Some((4, 0, 1 << 15))),
            (K::AllReduce, (8, 8), (1, 33), true, Some((8, 1, 1))),
            (K::AllReduce, (8, 8), (65, 65), true, Some((8, 2, 2))),
            (K::AllGather, (4, 8), (65, 65), false, None),
            (K::AllGather, (4, 8), (65, 67), false, Some((4, 3, 3))),
            (custom(2, 8), (2, 8), (64, 64), false, Some((4, 2, 2))),
            (custom(0, 8), (0, 8), (1, 64), false, Some((4, 1, 2))),
            (custom(8, 0), (8, 0), (1, 64), false, Some((4, 1, 2))),
            (custom(0, 0), (0, 0), (1, 64), false, Some((4, 1, 16))),
        ] {
            assert_eq!(sizes(kind, chunks, limits, has_packets), expected, "{kind:?} {chunks:?} {limits:?}");
        }
    }

    proptest! {
        /// Every size has the trip counts of its combination, and combinations differ and repeat as they should.
        #[test]
        fn every_size_has_a_combination(
            loops in prop::collection::vec((1_u64..20, 1_u32..5), 1..4), sizes in prop::collection::vec(0_u64..5000, 20),
        ) {
            let loops: Vec<_> = loops.into_iter().map(|(unit, span)| (16 * unit, span)).collect();
            let trips = trips(&loops);
            let at = |size: u64| trips.rates().iter().map(|rate| rate.trips(size)).collect::<Vec<_>>();
            for size in sizes {
                let number = trips.number(size);
                let first = trips.size(number);
                prop_assert_eq!(at(first), at(size));
                prop_assert!(first == 0 || at(first - 1) != at(size));
                prop_assert_eq!(trips.number(first), number);
                let later: Vec<_> = at(size).iter().zip(&trips.gains).map(|(old, gain)| old + u128::from(*gain)).collect();
                prop_assert_eq!(at(trips.size(number + trips.residues)), later);
            }
        }
    }
}
