//! Predicted time of a plan at a message size.

use std::collections::BTreeMap;
use std::sync::Arc;

use mscclpp_check::execution::{ExecutablePlan, Execution, chunk_bytes, chunk_of_iterations, iterations};
use mscclpp_plan::raw::{PlanTree, RankPlan};

use crate::error::PredictError;
use crate::machine::{BYTES_PER_US, Machine};
use crate::simulation::{Cause, Timeline, Usage, bytes_of_links, simulate};
use crate::topology::Topology;

/// A part of the predicted time.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// What it is spent for.
    pub cause: Cause,
    /// Microseconds.
    pub us: f64,
}

/// A predicted time.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Microseconds from the launch of the kernel to its end.
    pub time_us: f64,
    /// How the time is spent along the critical path.
    pub shares: Vec<Share>,
    /// Whether a shorter pipeline was simulated, and continued at its last rate.
    pub partial: bool,
    /// Whether that rate had become steady.
    pub steady_state: bool,
    /// The execution that was simulated, and its times: of the message, or of the shorter pipeline.
    pub execution: Arc<Execution>,
    /// The times of its nodes.
    pub timeline: Timeline,
}

/// Iterations of the shortest pipeline that is simulated in place of a longer one; each further one is twice as long.
const FIRST_ITERATIONS: u64 = 8;
/// Iterations of the longest pipeline that is simulated, unless a chunk of the least size has more.
const MAX_ITERATIONS: u64 = 64;
/// Relative difference of the rates of two parts of a pipeline below which it is steady.
const STEADY: f64 = 0.005;

/// Predicts the times of one plan, whose executions it keeps.
#[derive(Debug)]
pub struct Predictor<'p> {
    plan: &'p PlanTree,
    /// The plan prepared for that, once it was executed.
    executable: Option<ExecutablePlan<'p>>,
    /// By bytes of a chunk.
    executions: BTreeMap<u64, Arc<Execution>>,
}

/// Predicts the time of a plan for messages of the given number of bytes, as [`Predictor::predict`] does.
///
/// # Errors
/// [`PredictError`].
pub fn predict(plan: &PlanTree, machine: &Machine, bytes: u64, tier: Option<&str>) -> Result<Prediction, PredictError> {
    Predictor::new(plan).predict(machine, bytes, tier)
}

impl<'p> Predictor<'p> {
    /// Creates a predictor of a plan.
    pub fn new(plan: &'p PlanTree) -> Self {
        Self { plan, executable: None, executions: BTreeMap::new() }
    }

    fn execution(&mut self, chunk: u64) -> Result<Arc<Execution>, PredictError> {
        if let Some(known) = self.executions.get(&chunk) {
            return Ok(Arc::clone(known));
        }
        let executable = match &mut self.executable {
            Some(executable) => executable,
            none => none.insert(ExecutablePlan::new(self.plan)?),
        };
        let new = Arc::new(executable.record(chunk)?);
        self.executions.insert(chunk, Arc::clone(&new));
        Ok(new)
    }

    /// Returns the number of ranks, of which the machine has as many.
    fn num_ranks(&self, machine: &Machine) -> Result<u32, PredictError> {
        let ranks = self.plan.ranks.len();
        match u32::try_from(ranks).ok().filter(|ranks| *ranks <= machine.ranks) {
            Some(ranks) => Ok(ranks),
            None => Err(PredictError::TooManyRanks { ranks, machine: machine.name.clone(), limit: machine.ranks }),
        }
    }

    /// Returns the microseconds in which the links alone carry a message of the given number of bytes, the larger of a rank's input and
    /// output: of the link that is longest busy if all are used at their bandwidth. That is no time of the model: it has no
    /// constants, and tells how well an algorithm uses the links. 0 for ranks on one device.
    ///
    /// # Errors
    /// [`PredictError`].
    pub fn links_us(&mut self, machine: &Machine, bytes: u64) -> Result<f64, PredictError> {
        let topology = Topology::of(machine, self.num_ranks(machine)?);
        let whole = chunk_bytes(self.plan, bytes);
        // Links carry as much in each iteration of a pipeline.
        let part = whole.min(chunk_of(self.plan, FIRST_ITERATIONS));
        let run = self.execution(part)?;
        let carried = bytes_of_links(&run, machine, &topology)?;
        let us = topology.edges.iter().zip(carried).map(|(edge, bytes)| bytes / (edge.gb_per_s * BYTES_PER_US));
        Ok(us.fold(0.0, f64::max) * (whole as f64 / part as f64))
    }

    /// Predicts the time of messages of the given number of bytes: the larger of a rank's input and output. `tier` is a kind of
    /// kernel of the machine description.
    ///
    /// # Cost
    /// Proportional to the number of operations of one instance of the plan, loops counted up to 64 iterations, times the
    /// number of concurrent operations.
    ///
    /// # Errors
    /// [`PredictError`].
    pub fn predict(&mut self, machine: &Machine, bytes: u64, tier: Option<&str>) -> Result<Prediction, PredictError> {
        let plan = self.plan;
        let ranks = self.num_ranks(machine)?;
        if let Some(tier) = tier.filter(|tier| !machine.tiers.contains_key(*tier)) {
            if machine.tiers.is_empty() {
                return Err(PredictError::NoTiers { machine: machine.name.clone(), tier: tier.to_owned() });
            }
            let known = machine.tiers.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(PredictError::UnknownTier { machine: machine.name.clone(), tier: tier.to_owned(), known });
        }
        let constants = machine.constants_of(tier);
        let topology = Topology::of(machine, ranks);
        let whole = chunk_bytes(plan, bytes);
        let buffers = all_buffer_bytes(plan, machine, bytes);
        let mut run = |chunk: u64| -> Result<(Arc<Execution>, Timeline), PredictError> {
            let run = self.execution(chunk)?;
            let timeline = simulate(&run, machine, &topology, &constants, buffers, None)?;
            Ok((run, timeline))
        };
        let grain = u64::from(plan.buffer_alignment.max(1));
        let of_iterations = |count: u64| chunk_of(plan, count);
        let mut count = FIRST_ITERATIONS;
        let mut shorter = of_iterations(count);
        if iterations(plan, whole) > MAX_ITERATIONS && shorter < whole {
            let mut earlier = run(shorter)?.1.total_us;
            let mut rate = f64::NAN;
            loop {
                let chunk = of_iterations(2 * count).max(shorter.saturating_add(grain));
                if chunk >= whole {
                    break;
                }
                let (execution, timeline) = run(chunk)?;
                let total = timeline.total_us;
                let next = (total - earlier) / (chunk - shorter) as f64;
                let steady_state = (next / rate - 1.0).abs() <= STEADY;
                count *= 2;
                if steady_state || count >= MAX_ITERATIONS {
                    let time_us = total + next * (whole - chunk) as f64;
                    let shares = continued(&timeline, time_us);
                    return Ok(Prediction { time_us, shares, partial: true, steady_state, execution, timeline });
                }
                (earlier, rate, shorter) = (total, next, chunk);
            }
        }
        let (execution, timeline) = run(whole)?;
        let shares = timeline.causes().map(|(cause, us)| Share { cause, us }).to_vec();
        let time_us = timeline.total_us;
        Ok(Prediction { time_us, shares, partial: false, steady_state: false, execution, timeline })
    }
}

/// Returns the largest size of a chunk with which no loop makes more iterations than given, as executors align it.
fn chunk_of(plan: &PlanTree, iterations: u64) -> u64 {
    let grain = u64::from(plan.buffer_alignment.max(1));
    (chunk_of_iterations(plan, iterations) / grain * grain).max(grain)
}

/// Simulates the execution of a prediction again, and returns its use of resources.
pub(crate) fn usage(
    plan: &PlanTree,
    machine: &Machine,
    bytes: u64,
    tier: Option<&str>,
    run: &Execution,
) -> Result<(Topology, Usage), PredictError> {
    let topology = Topology::of(machine, plan.ranks.len() as u32);
    let mut usage = Usage::new();
    let buffers = all_buffer_bytes(plan, machine, bytes);
    simulate(run, machine, &topology, &machine.constants_of(tier), buffers, Some(&mut usage))?;
    usage.truncate(topology.edges.len());
    Ok((topology, usage))
}

/// Returns the bytes of the buffers of a device for messages of the given number of bytes.
fn all_buffer_bytes(plan: &PlanTree, machine: &Machine, bytes: u64) -> f64 {
    let ranks = if machine.one_device { plan.ranks.len() } else { 1 };
    buffer_bytes(plan, chunk_bytes(plan, bytes)) * ranks as f64
}

/// Returns the bytes of a rank's buffers. Scratch of pipelines is reused, so it adds little.
fn buffer_bytes(plan: &PlanTree, chunk_bytes: u64) -> f64 {
    let chunks = |rank: &RankPlan| match plan.collective.in_place {
        true => rank.input_chunks.max(rank.output_chunks),
        false => rank.input_chunks.saturating_add(rank.output_chunks),
    };
    f64::from(plan.ranks.iter().map(chunks).max().unwrap_or(0)) * chunk_bytes as f64
}

/// Returns how a longer time is spent: what is added as the simulated time is, but for the launch.
fn continued(timeline: &Timeline, time_us: f64) -> Vec<Share> {
    let scale = (time_us - timeline.launch_us) / (timeline.total_us - timeline.launch_us).max(f64::MIN_POSITIVE);
    let of = |(cause, us)| Share { cause, us: if cause == Cause::Launch { us } else { us * scale } };
    timeline.causes().map(of).to_vec()
}

#[cfg(test)]
mod tests {
    use mscclpp_algorithms as algorithms;

    use mscclpp_check::execution::record_execution;

    use super::*;

    /// Iterations of pipelines that are compared, more than are simulated otherwise.
    const LONG: u64 = 3 * MAX_ITERATIONS;

    /// Returns the time of all iterations.
    fn time_of_all(plan: &PlanTree, machine: &Machine, bytes: u64) -> f64 {
        let run = record_execution(plan, chunk_bytes(plan, bytes)).unwrap_or_else(|error| panic!("{error}"));
        let (topology, constants) = (Topology::of(machine, plan.ranks.len() as u32), machine.constants_of(None));
        let buffers = all_buffer_bytes(plan, machine, bytes);
        simulate(&run, machine, &topology, &constants, buffers, None).expect("a time").total_us
    }

    #[test]
    fn steady_state_is_within_a_percent_of_all_iterations() {
        let mut num_compared = 0;
        for name in ["8xh100", "2x8xh100", "8xa100"] {
            let machine = Machine::builtin(name).expect("it is built in");
            for algorithm in algorithms::all() {
                if !algorithm.supports(machine.ranks, machine.ranks_per_node) {
                    continue;
                }
                let mut spec = algorithm.spec(machine.ranks, machine.ranks_per_node);
                spec.collective.in_place |= algorithm.buffer_mode() == algorithms::BufferMode::InPlace;
                let arguments = algorithm.arguments([]).expect("the defaults");
                let plan = algorithm.compile_tree(spec, &arguments).expect("a plan");
                let chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks)).max();
                if iterations(&plan, 1 << 40) == 0 {
                    continue;
                }
                let bytes = chunk_of(&plan, LONG) * u64::from(chunks.expect("ranks"));
                let Ok(part) = predict(&plan, &machine, bytes, None) else { continue };
                let all = time_of_all(&plan, &machine, bytes);
                assert!(part.partial && part.steady_state, "{} on {name}", algorithm.name());
                let of_all = part.time_us / all;
                assert!((of_all - 1.0).abs() <= 0.01, "{} on {name}: {of_all} of {all} us", algorithm.name());
                num_compared += 1;
            }
        }
        assert!(num_compared >= 3, "{num_compared} pipelines");
    }
}
