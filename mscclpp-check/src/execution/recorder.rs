//! Records the abstract execution of a plan.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Dependency, Execution, MAX_RECORDS, MovedData, Node};
use crate::dataflow::MemoryRecorder;
use crate::machine::Observer;
use crate::model::{self, Model, NOTHING};
use mscclpp_plan::raw::{OpClass, OpKind};

/// Observes the abstract execution of a plan, and records it.
pub(super) struct Recorder<'m, 'p> {
    model: &'m Model<'p>,
    pub(super) execution: Execution,
    /// Per agent, its last node.
    last: Vec<Option<u32>>,
    /// Per agent, the opening of the barrier at which it is.
    opening: Vec<Option<u32>>,
    /// Per agent, its current step.
    next: Vec<usize>,
    /// Per port, its last transfer.
    ports: BTreeMap<u32, u32>,
    /// Signals and releases that no wait has received yet: a queue of nodes, and how many of it were received.
    signals: Vec<(Vec<u32>, usize)>,
    releases: Vec<(Vec<u32>, usize)>,
    units: Vec<i64>,
    /// Ranges of atoms that hold packets, by first atom: the end, and the node that wrote them.
    packets: BTreeMap<usize, (usize, u32)>,
    /// What chunks hold, on request.
    pub(super) memory: Option<MemoryRecorder<'p>>,
}

impl<'m, 'p> Recorder<'m, 'p> {
    pub(super) fn new(model: &'m Model<'p>, memory: Option<MemoryRecorder<'p>>) -> Self {
        Self {
            model,
            execution: Execution::default(),
            last: vec![None; model.agents.len()],
            opening: vec![None; model.agents.len()],
            next: model.agents.iter().map(|agent| agent.steps.start).collect(),
            ports: BTreeMap::new(),
            signals: vec![(Vec::new(), 0); model.pairs.counters()],
            releases: vec![(Vec::new(), 0); model.units.len()],
            units: model.units.clone(),
            packets: BTreeMap::new(),
            memory,
        }
    }

    /// Returns the larger of the numbers of accesses and dependencies.
    pub(super) fn records(&self) -> usize {
        self.execution.accesses.len().max(self.execution.dependencies.len())
    }

    /// Returns whether recording has ended: numbers of nodes and records must fit in 32 bits, and memory be bounded.
    pub(super) fn is_full(&self) -> bool {
        self.records() > MAX_RECORDS
    }

    /// Adds a node; its accesses and dependencies follow.
    fn node(&mut self, agent: usize, step: usize, transfer: bool) -> u32 {
        let model::Block { rank, block, .. } = self.model.agents[agent];
        self.execution.nodes.push(Node {
            rank: rank as u32,
            block: block as u32,
            kind: self.model.step_at(step).kind,
            transfer,
            opening: false,
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
        if self.is_full() {
            return;
        }
        self.next[agent] = step + 1;
        let &model::Step { kind, port, .. } = model.step_at(step);
        let posts = port && (kind.is_data() || kind.signals());
        let node = self.node(agent, step, false);
        if !posts {
            self.add_accesses(step, None);
        }
        match self.opening[agent].take() {
            // It depends on all arrivals, this agent's own one included.
            Some(opening) => self.depend(Some(opening), Dependency::Barrier),
            None => self.depend(self.last[agent], Dependency::Order),
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
        if let Some(memory) = &mut self.memory {
            memory.step(model, agent, step, by);
        }
    }

    fn on_barrier(&mut self, _: u32, agents: &[usize]) {
        let Some(&last) = agents.last().filter(|_| !self.is_full()) else { return };
        let opening = self.node(last, self.next[last], false);
        self.execution.nodes[opening as usize].opening = true;
        for &agent in agents {
            self.depend(self.last[agent], Dependency::Barrier);
            self.opening[agent] = Some(opening);
        }
    }
}
