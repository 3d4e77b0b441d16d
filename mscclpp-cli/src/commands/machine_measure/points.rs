//! Measured times of plans on the CPU executor.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mscclpp_algorithms::{self as algorithms, BufferMode};
use mscclpp_communicator::tune::{MeasureOptions, measure_executor};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_exec::DataType;
use mscclpp_exec::cpu::{Executor, Options};
use mscclpp_predict::{Machine, Predictor};
use mscclpp_select::Request;

use super::fit;
use crate::args::MachineMeasureArgs;
use crate::error::Result;
use crate::memory;
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

/// Most calls of a point.
const MAX_CALLS: u32 = 100;

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
    /// Measures all plans at all sizes, twice.
    ///
    /// # Errors
    /// Those of runs.
    pub(super) fn measure(args: &MachineMeasureArgs) -> Result<Self> {
        let (first, last) = args.sizes;
        let sizes: Vec<u64> = std::iter::successors(Some(first.max(1)), |size| size.checked_mul(4))
            .take_while(|size| *size <= last)
            .collect();
        let all = last.saturating_mul(4).saturating_mul(args.ranks.into());
        let scratch_limit = memory::require(|| format!("calls of {last} bytes on {} ranks", args.ranks), all)?;
        let options =
            Options::default().workers(Some(args.workers as usize)).parallel_from(0).scratch_limit(scratch_limit);
        let world = Executor::with_options(args.ranks, options);
        let mut plans = Vec::new();
        for algorithm in algorithms::all().iter().filter(|one| KINDS.contains(&one.kind()) && !one.needs_multicast()) {
            if !algorithm.supports(args.ranks, args.ranks) {
                continue;
            }
            let (mut spec, arguments) = algorithm.with_parallel_blocks(algorithm.spec(args.ranks, args.ranks), 1);
            spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
            if let Ok(tree) = algorithm.compile_tree(spec, &arguments) {
                plans.push((algorithm.name(), algorithm.kind(), tree));
            }
        }
        let progress = Progress::new(2 * (plans.len() * sizes.len()) as u64);
        let time = |kind: CollectiveKind, tree: &PlanTree, bytes: u64| -> Result<f64> {
            let request = Request {
                in_place: tree.collective.in_place,
                virtual_ranks: true,
                ..Request::new(kind, args.ranks, DataType::F32, bytes)
            };
            let mut measuring = MeasureOptions::for_bytes(bytes.saturating_mul(args.ranks.into()));
            measuring.iterations = measuring.iterations.min(MAX_CALLS);
            let measured = measure_executor(&world, &Plan::new(tree), &request, measuring.check(0))?;
            progress.step();
            Ok(measured.slowest.as_secs_f64() * 1e6)
        };
        let is_meant = |tree: &PlanTree, bytes: u64| (tree.min_message_size..=tree.max_message_size).contains(&bytes);
        let mut points = Vec::new();
        for (number, (name, kind, tree)) in plans.iter().enumerate() {
            for (size, &bytes) in sizes.iter().enumerate().filter(|(_, bytes)| is_meant(tree, **bytes)) {
                progress.doing(format!("{name} of {bytes} bytes"));
                let us = time(*kind, tree, bytes)?;
                points.push(Point { plan: name, bytes, us, again_us: us, is_held_out: (number + size) % 2 == 1 });
            }
        }
        // Long after the first run, so that the two differ as those of different days would.
        for point in &mut points {
            if let Some((_, kind, tree)) = plans.iter().find(|(name, ..)| *name == point.plan) {
                progress.doing(format!("{} of {} bytes, again", point.plan, point.bytes));
                point.again_us = time(*kind, tree, point.bytes)?;
            }
        }
        let predictors =
            plans.into_iter().map(|(name, _, tree)| (name, Predictor::new(Box::leak(Box::new(tree))))).collect();
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
