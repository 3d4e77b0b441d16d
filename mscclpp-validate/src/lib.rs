//! Checks that executors run the plan that was proved.
//!
//! The passes change a plan after the checker has accepted it. The validator translates their output back into a plan,
//! with the executor's launch protocol written as operations, and runs the checker again. It shares no code with the
//! passes: an operation that they kept must be one of the plan's, in the plan's order (`operations`); the checker's
//! rules for deadlocks, races, launch boundaries and results decide at every message size about the operations that
//! they elided, the memory that they chose and the waits that they added; and both plans are run on the same data,
//! whose results must be equal.
//!
//! It costs as much as the checker, so it runs in tests and on request (`mscclpp check --executor`), never when a plan is
//! prepared: [`validate_processes`], [`validate_devices`] and `validate_kernel`, and [`validate_form`] for all launches of
//! one of them.

mod devices;
mod forms;
#[cfg(feature = "cuda")]
mod kernel;
mod launches;
mod openings;
mod operations;
mod own_packets;
mod process;
mod results;
#[cfg(test)]
mod tests;
mod tree;

use std::borrow::Cow;

use mscclpp_core::check::{Checks, LaunchBoundaries, Level, check, launch_boundaries};
use mscclpp_core::diag::{Code, Diagnostics};
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::types::ChannelKind;
use thiserror::Error;

use self::devices::Body;
pub use self::forms::{ExecutorForm, InvalidLaunch, ValidationReport, validate_form};
pub use self::launches::{DeviceLaunch, ProcessLaunch, Sharing};
use self::own_packets::without_own_packets;
use mscclpp_base::error::Error;
#[cfg(feature = "cuda")]
use mscclpp_base::interpret::program::Reductions;
use mscclpp_base::interpret::{ResolvedPlan, resolve};
use mscclpp_base::interpret::{check_nodes, links};
#[cfg(feature = "cuda")]
use mscclpp_base::message::Message;
use mscclpp_base::passes::RankSchedule;
use mscclpp_base::passes::elide_own_packets::elide_own_packets;
use mscclpp_base::passes::insert_launch_barriers::{Placement, insert_launch_barriers, needed_barriers};
use mscclpp_base::passes::place_in_caller_memory::SLOTS;
#[cfg(feature = "cuda")]
use mscclpp_exec::cuda::{NotSpecialized, specialized_source};

/// Why an executor does not run the plan that was proved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// The executor cannot run the plan.
    #[error(transparent)]
    Plan(#[from] Error),
    /// No kernel is specialized for the plan.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    NotSpecialized(#[from] NotSpecialized),
    /// The launch is not described for each of the plan's ranks, or has devices without ranks.
    #[error("expected a launch of {expected} ranks and no device without ranks, found {found} ranks")]
    Ranks {
        /// Ranks of the plan.
        expected: usize,
        /// Ranks of the launch.
        found: usize,
    },
    /// The plan as executed has more chunks or operations than 32-bit numbers can count.
    #[error("the plan as executed has more than 2^32 chunks or operations")]
    TooLarge,
    /// An operation is not the plan's.
    #[error("{path}: {what}")]
    Changed {
        /// The operation, thread block or rank.
        path: String,
        /// How it differs.
        what: String,
    },
    /// The checker rejects the plan as executed.
    #[error("the checker rejects the plan as executed:\n{0}")]
    Rejected(Diagnostics),
    /// The plan as executed needs a launch barrier.
    #[error(
        "the plan as executed requires a launch barrier at the {boundary} of a launch, which the executor does not \
         insert"
    )]
    Boundary {
        /// `start` or `end`.
        boundary: &'static str,
    },
    /// The plan as executed has other results.
    #[error("after two launches, byte {byte} of rank {rank}'s {buffer} differs from the result of the plan")]
    Results {
        /// The rank.
        rank: u32,
        /// `input` or `output`, or an operand of row norms.
        buffer: &'static str,
        /// The first byte that differs.
        byte: usize,
    },
}

impl ValidationError {
    fn changed(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Changed { path: path.into(), what: what.into() }
    }
}

/// Returns the plan that the process executor runs for a plan: without the elided handshakes, on the memory that
/// operations use, with the launch protocol as operations of two additional thread blocks per rank.
///
/// # Errors
/// [`ValidationError::Plan`], [`ValidationError::Ranks`], [`ValidationError::TooLarge`], [`ValidationError::Changed`].
///
/// # Cost
/// Quadratic in the number of ranks: the passes run for each of them on the operations of all.
pub fn as_run_by_processes(plan: &PlanTree, launch: &ProcessLaunch) -> Result<PlanTree, ValidationError> {
    let mut schedules = schedules(plan, launch)?;
    let plan = without_own_packets_of_ranks(plan, &mut schedules)?;
    process::Writer::write(&plan, &schedules, launch)
}

/// Validates what the process executor runs for a plan that the checker accepts.
///
/// ```
/// use mscclpp_algorithms as algorithms;
/// use mscclpp_validate::{ProcessLaunch, Sharing, validate_processes};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ring = algorithms::find("allreduce_ring").expect("it is in the library");
/// let plan = ring.compile_tree(ring.spec(2, 2), &[])?;
/// validate_processes(&plan, &ProcessLaunch::new(2, 2, Sharing::Staged))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Any [`ValidationError`]. A plan that the checker rejects is not proved: its diagnostics are returned as
/// [`ValidationError::Rejected`].
pub fn validate_processes(plan: &PlanTree, launch: &ProcessLaunch) -> Result<(), ValidationError> {
    rejected(check(plan))?;
    validate_schedules(plan, &mut schedules(plan, launch)?, launch).map(drop)
}

/// Returns the plan that the CUDA executor runs for a plan on several devices: with the launch barriers at the end and
/// the start of every thread block, where the plan needs them, and the waits for the starts of the other devices.
///
/// # Errors
/// [`ValidationError::Plan`], [`ValidationError::Ranks`], [`ValidationError::TooLarge`], [`ValidationError::Changed`].
pub fn as_run_by_devices(plan: &PlanTree, launch: &DeviceLaunch) -> Result<PlanTree, ValidationError> {
    let (plan, program) = with_launch_barriers(plan, launch)?;
    devices::Writer::write(&plan, &program, launch, Body::Plan)
}

/// Validates what the CUDA executor runs on several devices for a plan that the checker accepts: the plan's operations
/// and no others, between launch barriers that keep any access to another rank of the node inside of both ranks'
/// launches. Where there is none at the start, the plan's own accesses to another rank's buffers come after that rank's
/// start, and any access to scratch after the end of the previous launch. Where there is none at the end either, the plan's
/// own accesses to another rank's memory come before that rank's end, and launches at most one apart use different scratch.
///
/// # Errors
/// Any [`ValidationError`]. A plan that the checker rejects is not proved: its diagnostics are returned as
/// [`ValidationError::Rejected`].
pub fn validate_devices(plan: &PlanTree, launch: &DeviceLaunch) -> Result<(), ValidationError> {
    rejected(check(plan))?;
    let (plan, program) = with_launch_barriers(plan, launch)?;
    validate_launch_barriers(&plan, &program, launch)
}

/// Validates the source of the kernel that is specialized for a plan and a message on one device: each thread block
/// executes the same operations as in the interpreter.
///
/// # Errors
/// [`ValidationError::NotSpecialized`] where there is no such kernel, [`ValidationError::Plan`], [`ValidationError::Changed`].
#[cfg(feature = "cuda")]
pub fn validate_kernel(plan: &PlanTree, message: Message) -> Result<(), ValidationError> {
    let image = Plan::new(plan);
    let mut program = resolve(&image)?;
    elide_own_packets(&mut program);
    let reduce = match program.reductions {
        Reductions::Generic => Some(message.op.unwrap_or_default()).map(|op| format!("{op:?}")),
        _ => None,
    };
    let (source, shapes) = specialized_source(&image, message)?;
    kernel::compare(&program, source.text(), &shapes, reduce.as_deref())
}

/// Returns the output of the passes, and the plan without the own packets that they elided.
fn with_launch_barriers<'p>(
    plan: &'p PlanTree,
    launch: &DeviceLaunch,
) -> Result<(Cow<'p, PlanTree>, ResolvedPlan), ValidationError> {
    let (expected, found) = (plan.ranks.len(), launch.devices.len());
    let mut numbers = 0..launch.nodes.len() as u32;
    let is_known = |device: &u32| (*device as usize) < launch.nodes.len();
    if expected != found
        || !launch.devices.iter().all(is_known)
        || !numbers.all(|device| launch.devices.contains(&device))
    {
        return Err(ValidationError::Ranks { expected, found });
    }
    let mut program = resolve(&Plan::new(plan))?;
    elide_own_packets(&mut program);
    let node_of: Vec<u32> = launch.devices.iter().map(|&device| launch.nodes[device as usize]).collect();
    check_nodes(&program, &node_of)?;
    let mut far: Vec<u32> = links(&program, &node_of).into_iter().map(|(rank, _)| rank).collect();
    far.dedup();
    let placement = Placement { device_of: &launch.devices, node_of: &launch.nodes, far: &far };
    let barriers = needed_barriers(&program, &placement);
    insert_launch_barriers(&mut program, &placement, barriers);
    let executed = without_own_packets(plan, &mut program)?;
    own_packets::prove(plan, &executed)?;
    Ok((executed, program))
}

fn validate_launch_barriers(
    plan: &PlanTree,
    program: &ResolvedPlan,
    launch: &DeviceLaunch,
) -> Result<(), ValidationError> {
    let write = |body| devices::Writer::write(plan, program, launch, body);
    // Two arguments: no operation is inserted between the plan's operations, and the barriers hold for any operations.
    let written = write(Body::Plan)?;
    rejected(check(&written))?;
    let probes = write(Body::Probes)?;
    if check(&probes).is_empty() {
        return boundaries(&probes).map(drop);
    }
    // There is no barrier at the start, or it does not hold. The checker has accepted how the plan's operations access
    // the buffers of peers nevertheless.
    let facts = launch_boundaries(&written);
    if !facts.puts_arrive_in_launch || has_marks(plan, program)? {
        return Err(ValidationError::Boundary { boundary: "start" });
    }
    if check(&write(Body::ProbesAfterBarrier)?).is_empty() {
        // A barrier at the end. The next launch may lay out scratch differently.
        return scratch_probes(program, |pair| Ok(boundaries(&write(Body::Scratch(pair))?)?.sizes_may_follow));
    }
    // None at either end: what the plan's operations access is no longer in use when a launch ends.
    let LaunchBoundaries { accesses_follow_begin, can_end_without_barrier, can_free_without_barrier, .. } = facts;
    if !accesses_follow_begin {
        return Err(ValidationError::Boundary { boundary: "start" });
    }
    let has_ports = program.channels.iter().any(|channel| channel.kind == ChannelKind::Port);
    let single_scratch_is_free = facts.can_start_without_barrier && facts.sizes_may_follow;
    let scratch_is_free = program.double_scratch || !program.shape.packets && single_scratch_is_free;
    if has_ports || !can_end_without_barrier || !can_free_without_barrier || !scratch_is_free {
        return Err(ValidationError::Boundary { boundary: "end" });
    }
    // A device is at most one launch ahead, so that it uses the other half of scratch.
    scratch_probes(program, |pair| {
        Ok(launch_boundaries(&write(Body::DoubleScratch(pair))?).sizes_may_follow_in_fixed_halves)
    })
}

/// Fails unless the order of all accesses to scratch of two launches holds for each pair of groups of thread blocks.
fn scratch_probes(
    program: &ResolvedPlan,
    is_ordered: impl Fn([u32; 2]) -> Result<bool, ValidationError>,
) -> Result<(), ValidationError> {
    let groups = (program.agents.len() as u32).div_ceil(devices::GROUP).max(2);
    for pair in (0..groups).flat_map(|one| (one + 1..groups).map(move |other| [one, other])) {
        if !is_ordered(pair)? {
            return Err(ValidationError::Boundary { boundary: "start" });
        }
    }
    Ok(())
}

/// Returns whether devices mark the start and the end of launches for their proxies.
fn has_marks(plan: &PlanTree, program: &ResolvedPlan) -> Result<bool, ValidationError> {
    let of_plan = resolve(&Plan::new(plan))?.channels.len();
    Ok(program.channels.iter().skip(of_plan).any(|channel| channel.kind == ChannelKind::Port))
}

/// Returns the output of the passes on every rank.
fn schedules(plan: &PlanTree, launch: &ProcessLaunch) -> Result<Vec<RankSchedule>, ValidationError> {
    let expected = plan.ranks.len();
    if let Some(found) = [launch.nodes.len(), launch.sharing.len()].into_iter().find(|&found| found != expected) {
        return Err(ValidationError::Ranks { expected, found });
    }
    let image = Plan::new(plan);
    let schedule = |rank| {
        let program = resolve(&image)?;
        check_nodes(&program, &launch.nodes)?;
        Ok(RankSchedule::new(program, rank, &launch.nodes))
    };
    (0..expected as u32).map(schedule).collect()
}

/// Returns the plan without the own packets that the passes elided, on all ranks the same ones.
fn without_own_packets_of_ranks<'p>(
    plan: &'p PlanTree,
    schedules: &mut [RankSchedule],
) -> Result<Cow<'p, PlanTree>, ValidationError> {
    let mut executed = None;
    for schedule in schedules {
        let of_rank = without_own_packets(plan, &mut schedule.program)?;
        if executed.get_or_insert_with(|| of_rank.clone()) != &of_rank {
            return Err(ValidationError::changed("the whole plan", "ranks elide different packets"));
        }
    }
    let executed = executed.unwrap_or(Cow::Borrowed(plan));
    own_packets::prove(plan, &executed)?;
    Ok(executed)
}

/// Validates the output of the passes, and returns the plan as executed.
fn validate_schedules(
    plan: &PlanTree,
    schedules: &mut [RankSchedule],
    launch: &ProcessLaunch,
) -> Result<PlanTree, ValidationError> {
    let executed = without_own_packets_of_ranks(plan, schedules)?;
    let plan = &*executed;
    let written = process::Writer::write(plan, schedules, launch)?;
    // A lasting copy is not that of the next launch, which `process::calls::RING` ensures. Only plans without scratch
    // have such copies, so no other race is allowed here; the remaining ones are checked below.
    let lasts = launch.sharing.iter().flatten().any(|&sharing| sharing == Sharing::Lasting)
        && schedules.iter().any(|schedule| schedule.is_read_only);
    // Copies are plain data that peers access; unlike scratch of the plan, for which the checker has just excluded that, they are at
    // the place that their owner announces in each launch, on every executor that makes copies.
    let mut allow = vec![Code::PlainDoubleScratch];
    allow.extend(lasts.then_some(Code::CrossLaunchRace));
    // A row norm that writes to a copy of the output has the operands of the output's rows.
    allow.extend(plan.collective.rows.then_some(Code::RepeatedNorm));
    rejected(Checks { level: Level::Full, allow }.run(&written))?;
    // Double scratch also hides whether accesses to a copy have finished when it is overwritten. This is equivalent to
    // whether accesses to the caller's memory have finished when the launch ends.
    if plan.double_scratch || lasts {
        let mut shared = launch.clone();
        shared.sharing.fill([Sharing::Registered; SLOTS]);
        let shared = process::Writer::write(plan, schedules, &shared)?;
        rejected(check(&shared))?;
        boundaries(&shared)?;
    } else {
        boundaries(&written)?;
    }
    results::compare(plan, &written)?;
    Ok(written)
}

/// Fails if a plan needs launch barriers other than those that it has.
fn boundaries(plan: &PlanTree) -> Result<LaunchBoundaries, ValidationError> {
    let facts = launch_boundaries(plan);
    match (facts.can_start_without_barrier, facts.can_end_without_barrier) {
        (true, true) => Ok(facts),
        (false, _) => Err(ValidationError::Boundary { boundary: "start" }),
        _ => Err(ValidationError::Boundary { boundary: "end" }),
    }
}

fn rejected(found: Diagnostics) -> Result<(), ValidationError> {
    if found.is_empty() { Ok(()) } else { Err(ValidationError::Rejected(found)) }
}
