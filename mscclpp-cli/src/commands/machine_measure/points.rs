//! Measured times of plans.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mscclpp_algorithms::{self as algorithms, BufferMode};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_predict::{Machine, Predictor};

use super::fit;
use crate::error::Result;
use crate::progress::Progress;

/// Collectives whose algorithms are measured.
const KINDS: [CollectiveKind; 6] = [
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
    CollectiveKind::Reduce,
];

/// Weight of the worst error beside the mean.
const WORST: f64 = 0.02;

/// A plan at a size.
pub(super) struct Point {
    pub(super) plan: &'static str,
    pub(super) bytes: u64,
    /// Microseconds, in two runs.
    pub(super) us: f64,
    pub(super) again_us: f64,
    pub(super) is_held_out: bool,
}

impl Point {
    /// Returns the time with which predictions are compared.
    fn mean_us(&self) -> f64 {
        (self.us + self.again_us) / 2.0
    }
}

/// All points, and the predictors of their plans.
pub(super) struct Points {
    pub(super) all: Vec<Point>,
    /// Plans live as long as the command.
    predictors: Mutex<BTreeMap<&'static str, Predictor<'static>>>,
}

impl Points {
    /// Measures the built-in algorithms that are meant for each of the sizes, twice. `time` returns the microseconds of a plan at a size;
    /// `blocks` is the number of thread blocks that share a transfer, if a rank has room for them.
    ///
    /// # Errors
    /// Those of `time`.
    pub(super) fn measure(
        ranks: u32,
        sizes: &[u64],
        blocks: u32,
        mut time: impl FnMut(&PlanTree, u64) -> Result<f64>,
    ) -> Result<Self> {
        let mut plans = Vec::new();
        for algorithm in algorithms::all().iter().filter(|one| KINDS.contains(&one.kind()) && !one.needs_multicast()) {
            if !algorithm.supports(ranks, ranks) {
                continue;
            }
            let blocks = blocks.min(algorithm.max_parallel_blocks(ranks, blocks));
            let (mut spec, arguments) = algorithm.with_parallel_blocks(algorithm.spec(ranks, ranks), blocks);
            spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
            if let Ok(tree) = algorithm.compile_tree(spec, &arguments) {
                plans.push((algorithm.name(), tree));
            }
        }
        let progress = Progress::new(2 * (plans.len() * sizes.len()) as u64);
        let is_meant = |tree: &PlanTree, bytes: u64| (tree.min_message_size..=tree.max_message_size).contains(&bytes);
        let mut points = Vec::new();
        for (number, (name, tree)) in plans.iter().enumerate() {
            for (size, &bytes) in sizes.iter().enumerate().filter(|(_, bytes)| is_meant(tree, **bytes)) {
                progress.doing(format!("{name} of {bytes} bytes"));
                let us = time(tree, bytes)?;
                progress.step();
                points.push(Point { plan: name, bytes, us, again_us: us, is_held_out: (number + size) % 2 == 1 });
            }
        }
        // Long after the first run, so that the two differ as those of different days would.
        for point in &mut points {
            if let Some((_, tree)) = plans.iter().find(|(name, _)| *name == point.plan) {
                progress.doing(format!("{} of {} bytes, again", point.plan, point.bytes));
                point.again_us = time(tree, point.bytes)?;
                progress.step();
            }
        }
        let predictors =
            plans.into_iter().map(|(name, tree)| (name, Predictor::new(Box::leak(Box::new(tree))))).collect();
        Ok(Self { all: points, predictors: Mutex::new(predictors) })
    }

    /// Returns the predicted time of a point, in microseconds; 0 if it has none.
    pub(super) fn predict(&self, machine: &Machine, point: &Point) -> f64 {
        let mut predictors = self.predictors.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let predicted = predictors.get_mut(point.plan).and_then(|one| one.predict(machine, point.bytes, None).ok());
        predicted.map_or(0.0, |found| found.time_us)
    }

    /// Returns the relative errors of some points.
    pub(super) fn errors(&self, machine: &Machine, is_asked: impl Fn(&Point) -> bool) -> Vec<f64> {
        let asked = self.all.iter().filter(|point| is_asked(point));
        asked.map(|point| (self.predict(machine, point) / point.mean_us() - 1.0).abs()).collect()
    }

    /// Returns what the fit minimizes.
    pub(super) fn cost(&self, machine: &Machine) -> f64 {
        let errors = self.errors(machine, |point| !point.is_held_out);
        fit::mean(&errors) + WORST * errors.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the mean of the relative differences of the two runs.
    pub(super) fn spread(&self) -> f64 {
        let differences: Vec<f64> =
            self.all.iter().map(|point| (point.us - point.again_us).abs() / point.mean_us()).collect();
        fit::mean(&differences)
    }

    /// Returns the points of each plan.
    pub(super) fn by_plan(&self) -> BTreeMap<&'static str, Vec<&Point>> {
        let mut plans: BTreeMap<&'static str, Vec<&Point>> = BTreeMap::new();
        self.all.iter().for_each(|point| plans.entry(point.plan).or_default().push(point));
        plans
    }
}
