//! Execution traces: the abstract execution of a plan, for a trace viewer, with its operations and what they wait for.
//!
//! Time is logical. Every operation takes one step, begins when the previous one in its block has ended, and ends one
//! step after everything for which it waits: the depth of the longest chain that leads to it. Operations at the same
//! time can be executed concurrently. Chunks have the size at which the checks execute the plan, so that loops make a
//! few iterations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use serde_json::{Map, Value};

use super::access::accesses;
use super::counted;
use super::dataflow::MemoryRecorder;
use super::deadlock;
use super::machine::{AbstractMachine, Observer};
use super::model::{self, Model, NOTHING};
use super::pairing::Pairs;
use super::shape;
use mscclpp_plan::diag::{Diagnostic, Diagnostics};
use mscclpp_plan::raw::{OpClass, OpKind, PlanTree};
use mscclpp_plan::text::{BlockNames, Operation, RankNames};
use mscclpp_trace::{Arrow, Class, Lane, Slice, Trace, Unit};

/// Executes a plan on symbolic state and records its operations and what they wait for: until every thread block has
/// ended, or none can continue.
///
/// Processes are ranks; threads are thread blocks and, after them, port channels, which execute their triggers later. There is
/// a slice for every operation, with arrows from signals to waits, from releases to acquires, from packets written to packets
/// read, and from blocks to ports and back to their flushes. An operation that never ends is a slice up to the end of the
/// trace. What chunks hold is recorded unless the plan has very many. A plan whose sizes are counts is traced at the largest
/// counts.
///
/// # Cost
/// Linear in the operations, loops counted a few times.
///
/// # Errors
/// The findings of the rule `shape`, without which a plan cannot be executed on symbolic state.
pub fn execution_trace(plan: &PlanTree) -> Result<Trace, Diagnostics> {
    let plan = &*counted::representative(plan);
    shape::check(plan.into()).into_result(())?;
    let size = model::example(plan.into()).ok_or_else(|| model::too_many_atoms(plan.into()))?;
    let pairs = Pairs::of(plan);
    let model = Model::of(plan.into(), &pairs, size);
    let mut machine = AbstractMachine::new(&model);
    let mut tracer = Tracer::new(&model);
    machine.run(&mut tracer);
    Ok(tracer.finish(&machine))
}

/// Adds findings to the operations of a trace that they are about, each under the detail `finding`, and returns those that are about
/// no operation of the trace.
pub fn mark_findings<'f>(trace: &mut Trace, findings: &'f Diagnostics) -> Vec<&'f Diagnostic> {
    let mut unmarked = Vec::new();
    for finding in findings.iter() {
        let sites = std::iter::once(&finding.site).chain(finding.notes.iter().map(|(_, site)| site));
        // The first location that is that of an operation.
        let is_marked = sites.map(ToString::to_string).any(|site| {
            let at = |slice: &Slice| slice.details.get("source").and_then(Value::as_str) == Some(&site);
            let mut slices: Vec<&mut Slice> = trace.slices.iter_mut().filter(|slice| at(slice)).collect();
            // Block syncs have the location of the operation that requires them.
            let worst = slices.iter().map(|slice| priority(slice)).max();
            slices.retain(|slice| Some(priority(slice)) == worst);
            let text = format!("{}: {}", finding.code.entry().number, finding.message);
            let found = !slices.is_empty();
            for slice in slices {
                slice.details.entry("finding").or_insert_with(|| text.clone().into());
            }
            found
        });
        if !is_marked {
            unmarked.push(finding);
        }
    }
    unmarked
}

/// Returns how likely a finding at the location of an operation is about it: most if it never ends, least for a block sync.
fn priority(slice: &Slice) -> u32 {
    match slice.class {
        Class::Blocked => 2,
        _ => u32::from(slice.name != OpKind::Nop.name()),
    }
}

/// Number of a slice.
type SliceId = usize;

/// Observes the abstract execution of a plan, and records it.
struct Tracer<'m, 'p> {
    model: &'m Model<'p>,
    /// Per rank.
    names: Vec<RankNames<'p>>,
    trace: Trace,
    /// Number of a lane, by rank and thread.
    lanes: BTreeMap<(u32, u32), u32>,
    memory: Option<MemoryRecorder<'p>>,
    /// Per agent.
    blocks: Vec<Block>,
    /// Per channel end with triggers of a port.
    ports: BTreeMap<u32, Port>,
    /// Per rank, threads of the trace so far.
    threads: Vec<u32>,
    /// Signals and releases that no wait has received yet, by counter and semaphore.
    signals: Vec<VecDeque<SliceId>>,
    releases: Vec<VecDeque<SliceId>>,
    /// Per semaphore, its initial units.
    units: Vec<i64>,
    /// Per atom, the slice that wrote the packet there.
    packets: Vec<Option<SliceId>>,
}

#[derive(Clone, Default)]
struct Block {
    /// The end of its last operation.
    time: u64,
    /// The time at which its current barrier opens.
    opens: Option<u64>,
    /// Its last operation and position in the loop, and the iteration.
    last: (usize, usize),
    iteration: u64,
}

/// The state of a port channel.
struct Port {
    thread: u32,
    time: u64,
    last: Option<SliceId>,
}

impl<'m, 'p> Tracer<'m, 'p> {
    fn new(model: &'m Model<'p>) -> Self {
        let plan = model.plan;
        let mut trace = Trace { title: plan.name.clone(), unit: Unit::Steps, ..Trace::default() };
        let mut lanes = BTreeMap::new();
        for (rank, tables) in (0..).zip(&plan.ranks) {
            for block in 0..tables.blocks.len() as u32 {
                lanes.insert((rank, block), trace.lanes.len() as u32);
                trace.lanes.push(Lane::of_rank(rank, block, format!("thread block {block}")));
            }
        }
        let queues = |count: usize| -> Vec<VecDeque<SliceId>> { (0..count).map(|_| VecDeque::new()).collect() };
        Self {
            model,
            names: model.plan.ranks.iter().map(RankNames::new).collect(),
            trace,
            lanes,
            memory: MemoryRecorder::of(model),
            blocks: vec![Block::default(); model.agents.len()],
            ports: BTreeMap::new(),
            threads: model.agents_of.iter().map(|agents| agents.len() as u32).collect(),
            signals: queues(model.pairs.counters()),
            releases: queues(model.units.len()),
            units: model.units.clone(),
            packets: vec![None; model.atoms.count()],
        }
    }

    /// Returns the port of a channel end.
    fn port(&mut self, end: u32) -> &mut Port {
        self.ports.entry(end).or_insert_with(|| {
            let direction = self.model.pairs.direction(end as usize);
            let thread = &mut self.threads[direction.from as usize];
            *thread += 1;
            let name = format!("port channel {} to rank {}", direction.number, direction.to);
            self.lanes.insert((direction.from, *thread - 1), self.trace.lanes.len() as u32);
            self.trace.lanes.push(Lane::of_rank(direction.from, *thread - 1, name));
            Port { thread: *thread - 1, time: 0, last: None }
        })
    }

    /// Adds a slice of a rank's thread, in steps; returns its number.
    fn slice(
        &mut self,
        class: Class,
        name: &str,
        place: (u32, u32),
        steps: Range<u64>,
        details: Map<String, Value>,
    ) -> SliceId {
        let times = (steps.start as f64, steps.end as f64);
        let slice = Slice { details, ..Slice::new(self.lanes[&place], times, class, name) };
        self.trace.slices.push(slice);
        self.trace.slices.len() - 1
    }

    /// Returns the end of a slice.
    fn end_of(&self, slice: SliceId) -> u64 {
        self.trace.slices[slice].end as u64
    }

    fn arrow(&mut self, what: &'static str, from: SliceId, to: SliceId) {
        self.trace.arrows.push(Arrow { from: from as u32, to: to as u32, what, critical: false });
    }

    /// Returns the slices for which a step waits, each with the name of the dependency.
    fn sources(&mut self, agent: usize, step: usize) -> BTreeSet<(SliceId, &'static str)> {
        let model = self.model;
        let kind = model.step_at(step).kind;
        let mut sources = BTreeSet::new();
        for &id in model.ids(step).iter().filter(|id| **id != NOTHING) {
            match kind.class() {
                OpClass::Wait { .. } => {
                    sources.extend(self.signals[id as usize].pop_front().map(|from| (from, "signal")))
                }
                OpClass::Acquire if self.units[id as usize] > 0 => self.units[id as usize] -= 1,
                OpClass::Acquire => {
                    sources.extend(self.releases[id as usize].pop_front().map(|from| (from, "release")));
                }
                OpClass::Flush => sources.extend(self.port(id).last.map(|from| (from, "flush"))),
                OpClass::Data(..)
                | OpClass::Signal { .. }
                | OpClass::Release
                | OpClass::BlockSync
                | OpClass::Barrier
                | OpClass::Pipeline
                | OpClass::ExchangeCounts => {}
            }
        }
        let own = model.agents[agent].rank as u32;
        for effect in
            model.effects(step).iter().filter(|effect| effect.packets() && !effect.write && effect.owner == own)
        {
            sources.extend(effect.atoms().filter_map(|atom| self.packets[atom]).map(|from| (from, "packets")));
        }
        sources
    }

    /// Returns the details of a step's slice.
    fn details(&mut self, agent: usize, step: usize) -> Map<String, Value> {
        let plan = self.model.plan;
        let at = self.model.placed(agent, step);
        let names = BlockNames::new(&self.names[at.rank], &plan.ranks[at.rank].blocks[at.block]);
        let mut chunks: Vec<Value> = Vec::new();
        accesses(plan, &at, &mut |effect| {
            let does = if effect.write { "writes" } else { "reads" };
            let (first, end) = (effect.range.index, u64::from(effect.range.index) + u64::from(effect.range.size));
            let what = if effect.packets { " as packets" } else { "" };
            chunks.push(format!("{does} rank {} {}[{first}..{end}]{what}", effect.owner, effect.buffer).into());
        });
        let block = &mut self.blocks[agent];
        let inner = at.inside.map(|(position, _)| position);
        let here = (at.index, inner.unwrap_or(0));
        // Steps of a loop are in order, so an iteration begins where the position does not increase.
        block.iteration = match inner {
            Some(_) if block.last.0 == here.0 && block.last.1 < here.1 => block.iteration,
            Some(_) if block.last.0 == here.0 && step > self.model.agents[agent].steps.start => block.iteration + 1,
            _ => 0,
        };
        block.last = here;
        let mut details = Map::new();
        details.insert("op".into(), Operation { op: at.op, names: &names }.to_string().into());
        details.insert("chunks".into(), chunks.into());
        details.insert("source".into(), counted::original_site(at.site(plan)).to_string().into());
        if inner.is_some() {
            details.insert("iteration".into(), self.blocks[agent].iteration.into());
        }
        details
    }
}

impl<'p> Observer<'p> for Tracer<'_, 'p> {
    fn on_step(&mut self, model: &Model<'p>, agent: usize, step: usize) {
        let &model::Step { kind, port, .. } = model.step_at(step);
        let details = self.details(agent, step);
        let sources = self.sources(agent, step);
        let model::Block { rank, block, .. } = model.agents[agent];
        let (rank, thread) = (rank as u32, block as u32);
        let start = self.blocks[agent].time;
        let opens = self.blocks[agent].opens.take();
        let ready = sources.iter().map(|(from, _)| self.end_of(*from)).chain(opens);
        let end = ready.fold(start, u64::max) + 1;
        let name = kind.name();
        let slice = self.slice(Class::of(kind), name, (rank, thread), start..end, details.clone());
        for (from, what) in sources {
            self.arrow(what, from, slice);
        }
        self.blocks[agent].time = end;
        let mut by_port = Vec::new();
        if port && (kind.is_data() || kind.signals()) {
            // A port executes its triggers one after the other, and none before the block has posted it.
            for (position, &id) in (0..).zip(model.ids(step)).filter(|(_, id)| **id != NOTHING) {
                let port = self.port(id);
                let (thread, start) = (port.thread, port.time.max(end));
                port.time = start + 1;
                let done = self.slice(Class::Transfer, name, (rank, thread), start..start + 1, details.clone());
                self.port(id).last = Some(done);
                self.arrow("port", slice, done);
                by_port.push((position, id, done));
            }
        }
        if kind.then_flushes() {
            let over = by_port.iter().map(|(.., done)| self.end_of(*done)).max();
            self.blocks[agent].time = over.map_or(end, |over| over.max(end));
        }
        if kind.signals() {
            for (position, &id) in (0..).zip(model.ids(step)).filter(|(_, id)| **id != NOTHING) {
                let by = by_port.iter().find(|(other, ..)| *other == position).map_or(slice, |(.., done)| *done);
                self.signals[id as usize].push_back(by);
            }
        }
        if kind == OpKind::SemaphoreRelease {
            model.ids(step).iter().for_each(|&id| self.releases[id as usize].push_back(slice));
        }
        for effect in model.effects(step).iter().filter(|effect| effect.packets() && effect.write) {
            let by =
                by_port.iter().find(|(position, ..)| *position == effect.position).map_or(slice, |(.., done)| *done);
            self.packets[effect.atoms()].fill(Some(by));
        }
        if let Some(memory) = &mut self.memory {
            let by = |position| by_port.iter().find(|(other, ..)| *other == position).map_or(slice, |(.., done)| *done);
            memory.step(model, agent, step, |position| by(position) as u32);
        }
    }

    fn on_barrier(&mut self, _: u32, agents: &[usize]) {
        let last = agents.iter().map(|&agent| self.blocks[agent].time).max();
        for &agent in agents {
            self.blocks[agent].opens = last;
        }
    }
}

impl Tracer<'_, '_> {
    /// Adds the operations that never end, and returns the trace.
    fn finish(mut self, machine: &AbstractMachine) -> Trace {
        let last = self.trace.end() as u64 + 1;
        for agent in 0..self.blocks.len() {
            let (state, own) = (&machine.agents[agent], &self.model.agents[agent]);
            if state.need.is_none() || state.next >= own.steps.end {
                continue;
            }
            let (rank, thread) = (own.rank as u32, own.block as u32);
            let name = self.model.step_at(state.next).kind.name();
            let mut details = self.details(agent, state.next);
            details.insert("waits_for".into(), deadlock::waits(machine, agent).into());
            let start = self.blocks[agent].time;
            self.slice(Class::Blocked, name, (rank, thread), start..last, details);
        }
        let Self { mut trace, lanes, memory, .. } = self;
        // Ports were added as they were used: the lanes of a rank follow each other.
        let order: BTreeMap<u32, u32> = lanes.values().copied().zip(0..).collect();
        trace.slices.iter_mut().for_each(|slice| slice.lane = order[&slice.lane]);
        trace.lanes.sort_by_key(|lane| (lane.process, lane.thread));
        trace.memory = memory.and_then(MemoryRecorder::finish);
        trace
    }
}

#[cfg(test)]
mod tests;
