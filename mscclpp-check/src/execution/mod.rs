//! Executions at a message size, for timing models: the operations of a plan, the bytes that they move, and what they wait for.
//!
//! The abstract machine that the rules observe executes the plan with the chunks of one message size. An execution
//! records every operation, every transfer of a port, and their dependencies, so that a timing model needs no
//! semantics of plans. In a plan that the checks accept, no signal or packet can be received by another operation than in this execution.

mod recorder;

use std::borrow::Cow;
use std::fmt;

use super::counted::representative;
use super::dataflow::MemoryRecorder;
use super::deadlock;
use super::instances;
use super::machine::AbstractMachine;
use super::model::{Model, Size};
use super::pairing::Pairs;
use super::shape;
use super::view::View;
use mscclpp_plan::diag::Diagnostics;
use mscclpp_plan::raw::{LoopBody, OpKind, PlanTree};
use mscclpp_trace::Memory;
use recorder::Recorder;
use thiserror::Error;

/// Why a plan has no execution at a message size.
#[derive(Debug, Error)]
pub enum ExecutionError {
    /// Findings of the rules on which an execution relies, or a thread block that never ends.
    #[error("the plan cannot be executed")]
    Findings(Diagnostics),
    /// More operations, accesses or dependencies than are recorded.
    #[error(
        "expected at most {limit} operations, accesses or dependencies at this message size, found {found} or more; use a smaller message, or a plan with fewer thread blocks"
    )]
    TooLong {
        /// The number in the plan, or the number at which recording has ended.
        found: u128,
        /// The limit.
        limit: u64,
    },
    /// Buffers with more addresses than an execution has.
    #[error(
        "expected buffers of at most 2^60 bytes, found {chunks} chunks of {chunk_bytes} bytes; use a smaller message"
    )]
    TooLarge {
        /// Chunks of the largest buffer.
        chunks: u32,
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
}

/// A plan executed at one message size.
///
/// If the plan consists of equal instances, one of them is recorded: the others do the same at the same time.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    /// Number of instances that do the same.
    pub num_instances: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// The operations and transfers; each is after all on which it depends.
    pub nodes: Vec<Node>,
    accesses: Vec<MovedData>,
    dependencies: Vec<(u32, Dependency)>,
}

/// An operation of a thread block, or a transfer of a port.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The rank that executes it.
    pub rank: u32,
    /// The thread block that executes it, or that has posted the transfer: its number in one instance of the plan.
    pub block: u32,
    /// Kind of the operation.
    pub kind: OpKind,
    /// Whether it is the transfer of a port. The operation that posts it is a node without accesses.
    pub transfer: bool,
    /// Whether it is the opening of a barrier, which takes no time: after all arrivals, before every operation that waits for it.
    pub opening: bool,
    /// Position in the thread block, and in the pipeline from 1; 0 outside of pipelines.
    pub position: (u32, u32),
    first_access: u32,
    first_dependency: u32,
}

/// Data that a node reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct MovedData {
    /// The rank that has the buffer.
    pub owner: u32,
    /// Bytes of data; packets take twice as many.
    pub bytes: u64,
    /// Whether the node writes them.
    pub write: bool,
    /// Whether they are packets.
    pub packets: bool,
}

/// Why a node waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// The previous operation of the thread block, or transfer of the port.
    Order,
    /// The signal that a wait receives.
    Signal,
    /// The release of a semaphore.
    Release,
    /// The packets that the node reads.
    Packets,
    /// The last transfer before a flush.
    Flush,
    /// The arrival of a thread block at a barrier, or the opening of the barrier.
    Barrier,
    /// The operation that has posted a transfer.
    Post,
}

impl Execution {
    /// Returns the number of a node's thread block in the plan: that of the first instance.
    pub fn plan_block(&self, node: &Node) -> u32 {
        node.block.saturating_mul(self.num_instances.max(1))
    }

    /// Returns the data that a node reads and writes.
    pub fn accesses(&self, node: usize) -> &[MovedData] {
        let end = self.nodes.get(node + 1).map_or(self.accesses.len(), |next| next.first_access as usize);
        &self.accesses[self.nodes[node].first_access as usize..end]
    }

    /// Returns the nodes for which a node waits.
    pub fn dependencies(&self, node: usize) -> &[(u32, Dependency)] {
        let end = self.nodes.get(node + 1).map_or(self.dependencies.len(), |next| next.first_dependency as usize);
        &self.dependencies[self.nodes[node].first_dependency as usize..end]
    }
}

/// Returns the bytes of a chunk in messages of the given size, the larger of a rank's input and output: executors round
/// up to the alignment of the plan. If that is no number of 64 bits, it is the largest multiple of the alignment.
pub fn chunk_bytes(plan: &PlanTree, message: u64) -> u64 {
    let chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks)).max().unwrap_or(0);
    let grain = u64::from(plan.buffer_alignment.max(1));
    let bytes = message.div_ceil(u64::from(chunks.max(1))).max(1);
    bytes.checked_next_multiple_of(grain).unwrap_or(u64::MAX / grain * grain)
}

/// Returns the largest number of iterations that a loop of the plan makes with chunks of the given number of bytes; 0
/// without loops.
pub fn iterations(plan: &PlanTree, chunk_bytes: u64) -> u64 {
    loops(plan).map(|body| trips(body, chunk_bytes)).max().unwrap_or(0)
}

/// Returns the largest size of a chunk with which no loop makes more iterations than given.
pub fn chunk_of_iterations(plan: &PlanTree, iterations: u64) -> u64 {
    let longest = loops(plan).map(|body| iterations.saturating_mul(body.unit) / u64::from(body.num_chunks.max(1)));
    longest.min().unwrap_or(u64::MAX)
}

fn loops(plan: &PlanTree) -> impl Iterator<Item = &LoopBody> {
    plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops).filter_map(|op| op.body.as_deref())
}

fn trips(body: &LoopBody, chunk_bytes: u64) -> u64 {
    chunk_bytes.saturating_mul(body.num_chunks.into()).div_ceil(body.unit.max(1))
}

/// Maximum number of operations of an execution.
pub const MAX_OPERATIONS: u64 = 1 << 23;

/// Maximum number of accesses, and of dependencies, of an execution.
const MAX_RECORDS: usize = 1 << 25;

/// Executes a plan on symbolic state with chunks of the given number of bytes. Of a plan whose sizes are counts it executes the
/// [`representative`], whose operations have other positions.
///
/// # Errors
/// * [`ExecutionError::Findings`]: the findings of the rule `shape`, or that of a thread block that never ends.
/// * [`ExecutionError::TooLong`]: a plan with more than [`MAX_OPERATIONS`] operations, loops unrolled.
/// * [`ExecutionError::TooLarge`]: buffers that are larger than the checks can address.
pub fn record_execution(plan: &PlanTree, chunk_bytes: u64) -> Result<Execution, ExecutionError> {
    ExecutablePlan::new(plan)?.record(chunk_bytes)
}

/// Executes a plan as [`record_execution`] does, and records what chunks hold: slices are nodes. `None` for plans that are too large
/// for that.
///
/// # Errors
/// Those of [`record_execution`].
pub fn record_execution_with_memory(
    plan: &PlanTree,
    chunk_bytes: u64,
) -> Result<(Execution, Option<Memory>), ExecutionError> {
    ExecutablePlan::new(plan)?.execute(chunk_bytes, true)
}

/// A plan that is executed at several message sizes: what is the same at all of them is found once.
pub struct ExecutablePlan<'p> {
    plan: Cow<'p, PlanTree>,
    instance: Option<instances::Instance>,
}

impl fmt::Debug for ExecutablePlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutablePlan").field("plan", &self.plan.name).finish_non_exhaustive()
    }
}

impl<'p> ExecutablePlan<'p> {
    /// Prepares a plan: the [`representative`] of one whose sizes are counts.
    ///
    /// # Errors
    /// [`ExecutionError::Findings`]: those of the rule `shape`.
    pub fn new(plan: &'p PlanTree) -> Result<Self, ExecutionError> {
        let plan = representative(plan);
        shape::check((&*plan).into()).into_result(()).map_err(ExecutionError::Findings)?;
        let instance = instances::one_of(&plan);
        Ok(Self { plan, instance })
    }

    /// Executes the plan with chunks of the given number of bytes.
    ///
    /// # Errors
    /// Those of [`record_execution`], but for findings of the rule `shape`.
    pub fn record(&self, chunk_bytes: u64) -> Result<Execution, ExecutionError> {
        Ok(self.execute(chunk_bytes, false)?.0)
    }

    fn execute(&self, chunk_bytes: u64, with_memory: bool) -> Result<(Execution, Option<Memory>), ExecutionError> {
        let plan = &*self.plan;
        let (view, num_instances) = match &self.instance {
            Some(one) => (one.view(plan), one.view(plan).instances()),
            None => (View::from(plan), 1),
        };
        let grain = u64::from(plan.buffer_alignment.max(1));
        let chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks).max(rank.scratch_chunks));
        let too_large = || ExecutionError::TooLarge { chunks: chunks.max().unwrap_or(0), chunk_bytes };
        let size = Size::real(view, chunk_bytes / grain, grain).ok_or_else(too_large)?;
        let operations = size.steps(view).saturating_add(view.operations() as u128);
        if operations > u128::from(MAX_OPERATIONS) {
            return Err(ExecutionError::TooLong { found: operations, limit: MAX_OPERATIONS });
        }
        let pairs = Pairs::of(view.plan);
        let model = Model::of(view, &pairs, size);
        let memory = if with_memory { MemoryRecorder::of(&model) } else { None };
        let mut recorder = Recorder::new(&model, memory);
        let mut machine = AbstractMachine::new(&model);
        machine.run(&mut recorder);
        if recorder.is_full() {
            return Err(ExecutionError::TooLong { found: recorder.records() as u128, limit: MAX_RECORDS as u64 });
        }
        if let Some(finding) = deadlock::check(&machine) {
            return Err(ExecutionError::Findings(finding.into()));
        }
        let execution = Execution { num_instances, chunk_bytes, ..recorder.execution };
        Ok((execution, recorder.memory.and_then(MemoryRecorder::finish)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;
    use mscclpp_plan::diag::Code;

    #[test]
    fn wait_depends_on_the_signal_that_it_receives() {
        let plan = plan(&[&["put.m i0 > r0:0; nop; signal.m#0"], &["wait.m#0; copy s0 > o0"]]);
        let Ok(run) = record_execution(&plan, 64) else { panic!("it runs") };
        let wait = run.nodes.iter().position(|node| node.kind == OpKind::Wait).expect("a wait");
        let [(from, why)] = run.dependencies(wait) else { panic!("one dependency: {run:?}") };
        assert_eq!((run.nodes[*from as usize].kind, *why), (OpKind::Signal, Dependency::Signal));
        let put = run.nodes.iter().position(|node| node.kind == OpKind::Put).expect("a put");
        let moved: Vec<_> = run.accesses(put).iter().map(|data| (data.owner, data.bytes, data.write)).collect();
        assert_eq!(moved, [(0, 64, false), (1, 64, true)]);
    }

    #[test]
    fn deadlock_is_reported_with_its_cycle() {
        let found = record_execution(&plan(&[&["wait.m#0; signal.m#0"], &["wait.m#0; signal.m#0"]]), 64);
        let Err(ExecutionError::Findings(findings)) = found else { panic!("{found:?}") };
        let finding = findings.iter().next().expect("a finding");
        assert!(finding.code == Code::Deadlock && finding.to_string().contains("wait-for cycle"), "{finding}");
    }

    #[test]
    fn huge_messages_are_errors() {
        let one = plan(&[&["copy i0 > o0"], &[]]);
        let chunk = chunk_bytes(&one, u64::MAX);
        assert_eq!(chunk % u64::from(one.buffer_alignment.max(1)), 0);
        let error = record_execution(&one, chunk).expect_err("it is too large");
        assert!(matches!(error, ExecutionError::TooLarge { .. }), "{error:?}");
    }

    #[test]
    fn barrier_of_many_blocks_has_one_dependency_per_block_and_side() {
        let blocks = vec!["barrier#0=64; barrier#0=64"; 64];
        let run = record_execution(&plan(&[&blocks, &[]]), 64).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(run.nodes.iter().filter(|node| node.opening).count(), 2);
        let dependencies: usize = (0..run.nodes.len()).map(|node| run.dependencies(node).len()).sum();
        // 64 operations after each opening, and 64 arrivals before the second one.
        assert_eq!((run.nodes.len(), dependencies), (2 * 64 + 2, 3 * 64));
    }
}
