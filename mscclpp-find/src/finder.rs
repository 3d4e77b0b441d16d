//! Ranking of candidates.

use std::collections::BTreeMap;
use std::sync::Arc;

use mscclpp_core::check::check;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_predict::{Bound, BoundError, Machine, PredictError, Predictor, lower_bound};
use thiserror::Error;

use crate::candidate::{Candidate, Origin, num_blocks};
use crate::request::Request;
use crate::{families, packed};

/// Why nothing was found.
#[derive(Debug, Error)]
pub enum FindError {
    /// A collective or ranks for which no bound is known.
    #[error(transparent)]
    Bound(#[from] BoundError),
    /// More ranks than candidates are built for.
    #[error("expected at most {limit} ranks, found {found}; use fewer ranks")]
    TooManyRanks {
        /// The maximum number of ranks.
        limit: u32,
        /// The number of ranks.
        found: u32,
    },
    /// A machine on which no candidate runs.
    #[error(
        "expected a plan for `{}` of {bytes} bytes on {num_ranks} ranks of machine `{machine}`, found none with a time that the checks \
         accept{}; {}",
        kind.name(),
        max_blocks.map_or_else(String::new, |max| format!(" with at most {max} thread blocks")),
        match first {
            Some(error) => format!("the first one has no time: {error}"),
            None => "allow more thread blocks, or use another size or number of ranks".to_owned(),
        }
    )]
    None {
        /// The collective.
        kind: CollectiveKind,
        /// Bytes of the larger of a rank's input and output.
        bytes: u64,
        /// The machine.
        machine: String,
        /// The number of ranks.
        num_ranks: u32,
        /// The limit on thread blocks.
        max_blocks: Option<u32>,
        /// Why the first candidate that is meant for the size has no time, if there is one.
        #[source]
        first: Option<Box<PredictError>>,
    },
}

/// Maximum number of ranks.
const MAX_RANKS: u32 = 512;

/// A candidate at a message size.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The candidate, which the checks accept.
    pub candidate: Arc<Candidate>,
    /// Its predicted time, in microseconds.
    pub time_us: f64,
    /// Bytes of the message per time in which the links alone carry what the plan moves, in 10⁹ bytes per second; `None` if it uses none.
    pub links_gb_per_s: Option<f64>,
}

/// Candidates at a message size.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// Bytes of the larger of a rank's input and output.
    pub bytes: u64,
    /// The bound of the time.
    pub bound: Bound,
    /// The fastest algorithms, each in its best configuration, the fastest first; not empty.
    pub ranked: Vec<Ranked>,
    /// Number of candidates that have a time.
    pub num_candidates: usize,
    /// Number of candidates that the checks refused, of those that were tried.
    pub num_refused: usize,
}

/// Candidates for a request.
#[derive(Debug)]
pub struct Finder<'m> {
    request: Request<'m>,
    origins: Vec<Origin>,
}

impl<'m> Finder<'m> {
    /// Collects all candidates for a request: none for more than 512 ranks, or more than the machine has, which [`rank`](Self::rank) reports.
    ///
    /// # Cost
    /// Trees are packed for up to 64 ranks, of one node unless all trees have one root, and at most 512 ranks, switches and hosts, with a number of maximum
    /// flows that grows with the square of the ranks.
    pub fn new(request: Request<'m>) -> Self {
        Self::collect(request, |request| [packed::candidates(request), families::candidates(request)].concat())
    }

    /// Collects the built-in algorithms alone, as [`new`](Self::new) does all candidates.
    pub fn of_builtins(request: Request<'m>) -> Self {
        Self::collect(request, families::candidates)
    }

    fn collect(request: Request<'m>, candidates: impl FnOnce(&Request<'_>) -> Vec<Origin>) -> Self {
        let is_possible = request.num_ranks <= MAX_RANKS.min(request.machine.ranks);
        let origins = if is_possible { candidates(&request) } else { Vec::new() };
        Self { request, origins }
    }

    /// Predicts the time of every candidate at every size, and returns for every size the fastest algorithms, at most the given number, each
    /// in the best configuration that the checks accept.
    ///
    /// # Cost
    /// Every candidate is built and simulated, one after the other; what is returned is built again and checked.
    ///
    /// # Errors
    /// [`FindError`].
    pub fn rank(&self, sizes: &[u64], limit: usize) -> Result<Vec<Ranking>, FindError> {
        let Request { kind, machine, num_ranks, max_blocks, .. } = self.request;
        let bounds = sizes.iter().map(|bytes| lower_bound(kind, machine, num_ranks, *bytes));
        let bounds = bounds.collect::<Result<Vec<Bound>, _>>()?;
        if num_ranks > MAX_RANKS {
            return Err(FindError::TooManyRanks { limit: MAX_RANKS, found: num_ranks });
        }
        // One candidate after the other, since the plans and executions of all would need much memory.
        let simulated: Vec<Simulated> = self
            .origins
            .iter()
            .map(|origin| Simulated::of(origin, machine, sizes, self.request.block_limit()))
            .collect();
        let mut accepted: Vec<Option<Option<Arc<Candidate>>>> = vec![None; self.origins.len()];
        let mut rankings = Vec::new();
        for ((size, &bytes), bound) in sizes.iter().enumerate().zip(bounds) {
            let times = simulated.iter().enumerate();
            let times = times.filter_map(|(number, one)| Some((number, one.time(size)?.reported(&bound))));
            let times: Vec<(usize, f64)> = times.collect();
            let (mut ranked, mut num_refused) = (Vec::new(), 0);
            for configs in self.by_algorithm(&times, &simulated) {
                if ranked.len() == limit {
                    break;
                }
                for (number, time_us) in configs {
                    let proved = accepted[number].get_or_insert_with(|| prove(&self.origins[number]));
                    if let Some(candidate) = proved {
                        let links_gb_per_s = links(candidate, machine, bytes);
                        ranked.push(Ranked { candidate: Arc::clone(candidate), time_us, links_gb_per_s });
                        break;
                    }
                    num_refused += 1;
                }
            }
            ranked.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
            if ranked.is_empty() {
                let first = simulated.into_iter().find_map(|one| one.times.into_iter().nth(size)??.err()).map(Box::new);
                return Err(FindError::None {
                    kind,
                    bytes,
                    machine: machine.name.clone(),
                    num_ranks,
                    max_blocks,
                    first,
                });
            }
            rankings.push(Ranking { bytes, bound, ranked, num_candidates: times.len(), num_refused });
        }
        Ok(rankings)
    }

    /// Returns the times of each algorithm's configurations, in place and not, in the order in which they are tried: the one with the fewest
    /// thread blocks of those that are nearly as fast as the fastest, then the others. The fastest algorithm is first.
    fn by_algorithm(&self, times: &[(usize, f64)], simulated: &[Simulated]) -> Vec<Vec<(usize, f64)>> {
        let mut groups: BTreeMap<(&str, bool), Vec<(usize, f64)>> = BTreeMap::new();
        for &(number, time_us) in times {
            groups.entry(self.origins[number].algorithm()).or_default().push((number, time_us));
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        for group in &mut groups {
            group.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
            let nearly = group.partition_point(|(_, time_us)| *time_us <= group[0].1 * (1.0 + NEARLY));
            let fewest = (0..nearly).min_by_key(|place| simulated[group[*place].0].num_blocks);
            group[..=fewest.unwrap_or(0)].rotate_right(1);
        }
        groups.sort_by(|a, b| a[0].1.total_cmp(&b[0].1).then(a[0].0.cmp(&b[0].0)));
        groups
    }
}

/// What the timing model says of a candidate.
#[derive(Default)]
struct Simulated {
    num_blocks: u32,
    /// By size; what is not meant for a size has no time, and none for any if it has too many thread blocks.
    times: Vec<Option<Result<Time, PredictError>>>,
}

/// A time of the timing model.
#[derive(Clone, Copy)]
struct Time {
    us: f64,
    /// Whether the first part of a pipeline was simulated.
    partial: bool,
}

impl Time {
    /// Returns the time that is reported: of a pipeline of which the first part was simulated, at least the bound, since its rate is an
    /// estimate. Any other time below the bound is an error of the model or of the bound, which is not hidden.
    fn reported(self, bound: &Bound) -> f64 {
        let is_near = self.us >= bound.time_us * (1.0 - ROUNDING);
        if self.partial || is_near { self.us.max(bound.time_us) } else { self.us }
    }
}

impl Simulated {
    fn of(origin: &Origin, machine: &Machine, sizes: &[u64], max_blocks: u32) -> Self {
        let Some(plan) = origin.build() else { return Self::default() };
        let num_blocks = num_blocks(&plan);
        if num_blocks > max_blocks {
            return Self { num_blocks, ..Self::default() };
        }
        let mut predictor = Predictor::new(&plan);
        let time = |bytes: &u64| {
            let is_meant = (plan.min_message_size..=plan.max_message_size).contains(bytes);
            let predicted = is_meant.then(|| predictor.predict(machine, *bytes, None))?;
            Some(predicted.map(|found| Time { us: found.time_us, partial: found.partial }))
        };
        Self { num_blocks, times: sizes.iter().map(time).collect() }
    }

    fn time(&self, size: usize) -> Option<Time> {
        self.times.get(size)?.as_ref()?.as_ref().ok().copied()
    }
}

/// Returns the bytes of the message per time in which the links carry what a plan moves, in 10⁹ bytes per second: from the execution of
/// the plan, not from what the finder knows of its trees.
fn links(candidate: &Candidate, machine: &Machine, bytes: u64) -> Option<f64> {
    let us = Predictor::new(&candidate.plan).links_us(machine, bytes).ok().filter(|us| *us > 0.0)?;
    Some(bytes as f64 / us / BYTES_PER_US)
}

/// Builds a candidate; `None` if the checks refuse its plan.
fn prove(origin: &Origin) -> Option<Arc<Candidate>> {
    let plan = origin.build()?;
    check(&plan).is_empty().then(|| Arc::new(Candidate { plan, origin: origin.clone() }))
}

/// Bytes per microsecond of 10⁹ bytes per second.
const BYTES_PER_US: f64 = 1000.0;
/// Part of the time that fewer thread blocks may cost.
const NEARLY: f64 = 0.005;
/// Part by which sums of floating-point numbers may differ.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_of_parts_are_raised_to_the_bound() {
        let bound = Bound {
            time_us: 100.0,
            throughput_us: 100.0,
            latency_us: 0.0,
            algbw_gb_per_s: 1.0,
            certificate: None,
            without_multicast_us: None,
            load_reduce_us: None,
        };
        for (us, partial, expected) in [
            (99.6, true, 100.0),
            (99.6, false, 99.6),
            (97.0, true, 100.0),
            (97.0, false, 97.0),
            (100.0 * (1.0 - 1e-10), false, 100.0),
            (101.0, true, 101.0),
            (101.0, false, 101.0),
        ] {
            assert_eq!(Time { us, partial }.reported(&bound), expected, "{us} {partial}");
        }
    }
}
