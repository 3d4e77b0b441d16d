//! Executions at a message size, for timing models: the operations of a plan, the bytes that they move, and what they wait for.
//!
//! The abstract machine that the rules observe executes the plan with the chunks of one message size. An execution
//! records every operation, every transfer of a port, and their dependencies, so that a timing model needs no
//! semantics of plans. In a plan that the checks accept, no signal or packet can be received by another operation than in this execution.

use std::collections::BTreeMap;
use std::ops::Range;

use super::execute::runs_to_its_end;
use super::instances;
use super::machine::Observer;
use super::model::{self, Model, NOTHING, Size};
use super::pairing::Pairs;
use super::shape;
use super::view::View;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::raw::{LoopBody, OpClass, OpKind, PlanTree};

/// A plan executed at one message size.
///
/// If the plan consists of equal instances, one of them is recorded: the others do the same at the same time.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    /// Number of instances that do the same.
    pub instances: u32,
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
    /// The thread block that executes it, or that has posted the transfer.
    pub block: u32,
    /// Kind of the operation.
    pub kind: OpKind,
    /// Whether it is the transfer of a port. The operation that posts it is a node without accesses.
    pub transfer: bool,
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
    /// The arrival of another thread block at a barrier.
    Barrier,
    /// The operation that has posted a transfer.
    Post,
}

impl Execution {
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
/// up to the alignment of the plan.
pub fn chunk_bytes(plan: &PlanTree, message: u64) -> u64 {
    let chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks)).max().unwrap_or(0);
    message.div_ceil(u64::from(chunks.max(1))).max(1).next_multiple_of(u64::from(plan.buffer_alignment.max(1)))
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

/// Maximum number of nodes of an execution.
pub const MAX_NODES: u64 = 1 << 23;

/// Executes a plan on symbolic state with chunks of the given number of bytes.
///
/// # Errors
/// The findings of the rule `shape`; a plan with more than [`MAX_NODES`] operations, or one of which a thread block
/// never ends.
pub fn execution(plan: &PlanTree, chunk_bytes: u64) -> Result<Execution, Diagnostics> {
    shape::check(plan.into()).into_result(())?;
    let instance = instances::one_of(plan);
    let (view, instances) = match &instance {
        Some(one) => (one.view(plan), one.view(plan).instances()),
        None => (View::from(plan), 1),
    };
    let too_large =
        || Diagnostic::new(Code::BadLoop, Site::None, "the plan has too many operations to be executed at this size");
    let grain = u64::from(plan.buffer_alignment.max(1));
    let size = Size::real(view, chunk_bytes / grain, grain).ok_or_else(too_large)?;
    if size.steps(view).saturating_add(view.operations() as u128) > u128::from(MAX_NODES) {
        return Err(too_large().into());
    }
    let pairs = Pairs::of(view.plan);
    let model = Model::of(view, &pairs, size);
    let mut recorder = Recorder::new(&model);
    if !runs_to_its_end(&model, &mut recorder) {
        let message = "a thread block never ends, so the plan has no time";
        return Err(Diagnostic::new(Code::Deadlock, Site::None, message).into());
    }
    Ok(Execution { instances, ..recorder.execution })
}

/// Observes the abstract execution of a plan, and records it.
struct Recorder<'m, 'p> {
    model: &'m Model<'p>,
    execution: Execution,
    /// Per agent, its last node.
    last: Vec<Option<u32>>,
    /// Per agent, the nodes after which the current barrier opens.
    opens: Vec<Vec<u32>>,
    /// Per port, its last transfer.
    ports: BTreeMap<u32, u32>,
    /// Signals and releases that no wait has received yet: a queue of nodes, and how many of it were received.
    signals: Vec<(Vec<u32>, usize)>,
    releases: Vec<(Vec<u32>, usize)>,
    units: Vec<i64>,
    /// Ranges of atoms that hold packets, by first atom: the end, and the node that wrote them.
    packets: BTreeMap<usize, (usize, u32)>,
}

impl<'m, 'p> Recorder<'m, 'p> {
    fn new(model: &'m Model<'p>) -> Self {
        Self {
            model,
            execution: Execution::default(),
            last: vec![None; model.agents.len()],
            opens: vec![Vec::new(); model.agents.len()],
            ports: BTreeMap::new(),
            signals: vec![(Vec::new(), 0); model.pairs.counters()],
            releases: vec![(Vec::new(), 0); model.units.len()],
            units: model.units.clone(),
            packets: BTreeMap::new(),
        }
    }

    /// Adds a node; its accesses and dependencies follow.
    fn node(&mut self, agent: usize, step: usize, transfer: bool) -> u32 {
        let model::Block { rank, block, .. } = self.model.agents[agent];
        self.execution.nodes.push(Node {
            rank: rank as u32,
            block: block as u32,
            kind: self.model.step_at(step).kind,
            transfer,
            position: self.model.place_of(step),
            first_access: self.execution.accesses.len() as u32,
            first_dependency: self.execution.dependencies.len() as u32,
        });
        self.execution.nodes.len() as u32 - 1
    }

    /// Adds the accesses of a step, or those of the operands at one position.
    fn add_accesses(&mut self, step: usize, position: Option<u32>) {
        let model = self.model;
        let chosen = model.effects(step).iter().filter(|effect| position.is_none_or(|one| one == effect.position));
        self.execution.accesses.extend(chosen.map(|effect| MovedData {
            owner: effect.owner,
            bytes: model.length(effect),
            write: effect.write,
            packets: effect.packets(),
        }));
    }

    fn depend(&mut self, on: Option<u32>, why: Dependency) {
        self.execution.dependencies.extend(on.map(|on| (on, why)));
    }

    /// Adds the dependencies of a step on other agents.
    fn add_sources(&mut self, agent: usize, step: usize) {
        let model = self.model;
        let kind = model.step_at(step).kind;
        for &id in model.ids(step).iter().filter(|id| **id != NOTHING) {
            match kind.class() {
                OpClass::Wait { .. } => {
                    let from = receive(&mut self.signals[id as usize]);
                    self.depend(from, Dependency::Signal);
                }
                OpClass::Acquire if self.units[id as usize] > 0 => self.units[id as usize] -= 1,
                OpClass::Acquire => {
                    let from = receive(&mut self.releases[id as usize]);
                    self.depend(from, Dependency::Release);
                }
                OpClass::Flush => {
                    let from = self.ports.get(&id).copied();
                    self.depend(from, Dependency::Flush);
                }
                _ => {}
            }
        }
        let own = model.agents[agent].rank as u32;
        let mut writers = Vec::new();
        for read in model.effects(step).iter().filter(|effect| effect.packets() && !effect.write && effect.owner == own)
        {
            writers.extend(self.writers(read.atoms()));
        }
        writers.sort_unstable();
        writers.dedup();
        writers.into_iter().for_each(|from| self.depend(Some(from), Dependency::Packets));
    }

    /// Returns the nodes that wrote the packets of a range.
    fn writers(&self, atoms: Range<usize>) -> Vec<u32> {
        let before = self.packets.range(..atoms.start).next_back().filter(|(_, (end, _))| *end > atoms.start);
        let inside = self.packets.range(atoms.clone()).filter(|_| !atoms.is_empty());
        before.into_iter().chain(inside).map(|(_, (_, node))| *node).collect()
    }

    /// Records the node that wrote the packets of a range.
    fn write_packets(&mut self, atoms: Range<usize>, node: u32) {
        if atoms.is_empty() {
            return;
        }
        if let Some((&first, &(end, by))) =
            self.packets.range(..atoms.start).next_back().filter(|(_, (end, _))| *end > atoms.start)
        {
            self.packets.insert(first, (atoms.start, by));
            if end > atoms.end {
                self.packets.insert(atoms.end, (end, by));
            }
        }
        let covered: Vec<usize> = self.packets.range(atoms.clone()).map(|(first, _)| *first).collect();
        for first in covered {
            if let Some((end, by)) = self.packets.remove(&first).filter(|(end, _)| *end > atoms.end) {
                self.packets.insert(atoms.end, (end, by));
            }
        }
        self.packets.insert(atoms.start, (atoms.end, node));
    }
}

/// Takes the first node of a queue.
fn receive((queue, received): &mut (Vec<u32>, usize)) -> Option<u32> {
    let first = queue.get(*received).copied();
    *received += usize::from(first.is_some());
    first
}

impl<'p> Observer<'p> for Recorder<'_, 'p> {
    fn on_step(&mut self, model: &Model<'p>, agent: usize, step: usize) {
        let &model::Step { kind, port, .. } = model.step_at(step);
        let posts = port && (kind.is_data() || kind.signals());
        let node = self.node(agent, step, false);
        if !posts {
            self.add_accesses(step, None);
        }
        self.depend(self.last[agent], Dependency::Order);
        for other in std::mem::take(&mut self.opens[agent]) {
            self.depend(Some(other), Dependency::Barrier);
        }
        self.add_sources(agent, step);
        self.last[agent] = Some(node);
        let mut by_port = Vec::new();
        if posts {
            for (position, &id) in (0..).zip(model.ids(step)).filter(|(_, id)| **id != NOTHING) {
                let transfer = self.node(agent, step, true);
                self.add_accesses(step, Some(position));
                self.depend(Some(node), Dependency::Post);
                let previous = self.ports.insert(id, transfer);
                self.depend(previous, Dependency::Order);
                by_port.push((position, transfer));
            }
        }
        if kind.then_flushes() {
            let flush = self.node(agent, step, false);
            self.depend(Some(node), Dependency::Order);
            by_port.iter().for_each(|(_, transfer)| self.depend(Some(*transfer), Dependency::Flush));
            self.last[agent] = Some(flush);
        }
        let by = |position: u32| by_port.iter().find(|(other, _)| *other == position).map_or(node, |(_, by)| *by);
        if kind.signals() {
            for (position, &id) in (0..).zip(model.ids(step)).filter(|(_, id)| **id != NOTHING) {
                self.signals[id as usize].0.push(by(position));
            }
        }
        if kind == OpKind::SemaphoreRelease {
            model.ids(step).iter().for_each(|&id| self.releases[id as usize].0.push(node));
        }
        for effect in model.effects(step).iter().filter(|effect| effect.packets() && effect.write) {
            self.write_packets(effect.atoms(), by(effect.position));
        }
    }

    fn on_barrier(&mut self, _: u32, agents: &[usize]) {
        let arrived: Vec<u32> = agents.iter().filter_map(|&agent| self.last[agent]).collect();
        for &agent in agents {
            self.opens[agent] = arrived.iter().copied().filter(|node| Some(*node) != self.last[agent]).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;

    #[test]
    fn wait_depends_on_the_signal_that_it_receives() {
        let plan = plan(&[&["put.m i0 > r0:0; nop; signal.m#0"], &["wait.m#0; copy s0 > o0"]]);
        let Ok(run) = execution(&plan, 64) else { panic!("it runs") };
        let wait = run.nodes.iter().position(|node| node.kind == OpKind::Wait).expect("a wait");
        let [(from, why)] = run.dependencies(wait) else { panic!("one dependency: {run:?}") };
        assert_eq!((run.nodes[*from as usize].kind, *why), (OpKind::Signal, Dependency::Signal));
        let put = run.nodes.iter().position(|node| node.kind == OpKind::Put).expect("a put");
        let moved: Vec<_> = run.accesses(put).iter().map(|data| (data.owner, data.bytes, data.write)).collect();
        assert_eq!(moved, [(0, 64, false), (1, 64, true)]);
    }

    #[test]
    fn deadlock_is_an_error() {
        assert!(execution(&plan(&[&["wait.m#0; signal.m#0"], &["wait.m#0; signal.m#0"]]), 64).is_err());
    }
}
