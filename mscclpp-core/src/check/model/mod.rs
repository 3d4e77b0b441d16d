//! A plan spelled out for the rules that run it: loops unrolled, channels and semaphores resolved to counters, and memory
//! cut into the pieces that operations touch.
//!
//! * A **step** is one operation of one thread block, in one iteration of its loop. Loops are unrolled for one size of a
//!   chunk ([`sizes`], [`uneven_sizes`]).
//! * An **effect** is what a step does to one range of one memory. Every rank has four memories: input, output, scratch as
//!   plain data, and scratch as packets. Input and output of an in-place plan are one.
//! * An **atom** is a range of a memory that every effect touches wholly or not at all. Atoms are numbered through all
//!   memories, so that what is known of them lies in plain arrays.

mod atoms;
mod size;
mod traffic;
mod uneven;

use std::collections::BTreeMap;
use std::ops::Range;

pub(super) use atoms::{Atoms, number as memory_number};
pub(super) use size::{Size, sizes, too_fine};
pub(super) use traffic::Traffic;
pub(super) use uneven::uneven_sizes;

use super::effect::effects;
use super::pairing::{Pairs, signals, waits};
use super::place::{Placed, home};
use super::symmetry::Symmetry;
use super::view::View;
use crate::plan::{Op, OpKind, PlanTree};
use crate::vocab::{BufferKind, ChannelKind, Protocol};

/// A plan spelled out.
pub(super) struct Model<'p> {
    pub(super) view: View<'p>,
    /// Its tables.
    pub(super) plan: &'p PlanTree,
    pub(super) pairs: &'p Pairs,
    pub(super) size: Size,
    /// How many ranks are looked at, the first ones. Where they stand for all, whatever is said of ranks here is said of these.
    pub(super) ranks: u32,
    pub(super) symmetry: Option<&'p Symmetry>,
    pub(super) agents: Vec<Agent>,
    /// Per rank, its agents.
    pub(super) agents_of: Vec<Range<usize>>,
    pub(super) atoms: Atoms,
    /// The steps of all agents, one agent after the other, and one more so that every step has a next one.
    steps: Vec<Step>,
    ids: Vec<u32>,
    /// Where ranks stand for others: per id, by how much the rank is shifted that the signal goes to.
    shifts: Vec<u32>,
    effects: Vec<Effect>,
    /// The first semaphore of each rank.
    semaphores: Vec<usize>,
    /// Initial values of all semaphores.
    pub(super) units: Vec<i64>,
    /// Per counter and per semaphore, who uses it.
    pub(super) counters: Vec<Traffic>,
    pub(super) releases: Vec<Traffic>,
    /// Barriers in use: rank and number.
    barriers: Vec<(usize, u32)>,
    has_packets: bool,
    /// Whether anything reads or writes plain data in scratch.
    has_plain_scratch: bool,
    has_loops: bool,
    /// How often a thread gives something to a port.
    port_uses: usize,
    /// Whether the thread blocks of each barrier come to it equally often.
    barriers_agree: bool,
}

/// A thread block.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) rank: usize,
    pub(super) block: usize,
    /// Its steps.
    pub(super) steps: Range<usize>,
}

/// One operation of one thread block, in one iteration of its loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) kind: OpKind,
    /// Whether it goes through port channels.
    pub(super) port: bool,
    /// Position of the operation in its block.
    index: u32,
    /// Position in the pipeline, from 1; 0 outside of pipelines.
    inner: u32,
    first_id: u32,
    first_effect: u32,
}

/// What a step does to one range of one memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    /// The atoms, none if the slice or window is empty.
    first: u32,
    end: u32,
    pub(super) owner: u32,
    /// By how much the rank whose memory it really is is shifted from the owner.
    pub(super) shift: u32,
    /// Position of the reference on its side of the operation.
    pub(super) position: u32,
    pub(super) memory: Space,
    pub(super) write: bool,
}

impl Effect {
    pub(super) fn atoms(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }

    pub(super) fn packets(&self) -> bool {
        self.memory == Space::Packets
    }
}

/// A memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Space {
    Input,
    Output,
    Scratch,
    Packets,
}

impl Space {
    pub(super) const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Scratch, Self::Packets];

    /// The memory behind a buffer.
    pub(super) const fn of(buffer: BufferKind, packets: bool) -> Self {
        match buffer {
            _ if packets => Self::Packets,
            BufferKind::Input => Self::Input,
            BufferKind::Output => Self::Output,
            BufferKind::Scratch => Self::Scratch,
        }
    }

    pub(super) const fn buffer(self) -> BufferKind {
        match self {
            Self::Input => BufferKind::Input,
            Self::Output => BufferKind::Output,
            Self::Scratch | Self::Packets => BufferKind::Scratch,
        }
    }

    /// Whether the caller owns it between launches.
    pub(super) const fn is_callers(self) -> bool {
        matches!(self, Self::Input | Self::Output)
    }
}

/// The id of something that the plan does not have.
pub(super) const NOTHING: u32 = u32::MAX;

impl<'p> Model<'p> {
    /// Spells out a plan that has passed the shape rule, for chunks of one size.
    pub(super) fn of(view: View<'p>, pairs: &'p Pairs, size: Size) -> Self {
        Self::folded(view, pairs, size, None)
    }

    /// The same of a plan whose first ranks stand for all.
    pub(super) fn folded(view: View<'p>, pairs: &'p Pairs, size: Size, symmetry: Option<&'p Symmetry>) -> Self {
        let plan = view.plan;
        let ranks = symmetry.map_or(plan.ranks.len(), |symmetry| symmetry.own as usize);
        let own = &plan.ranks[..ranks];
        let mut semaphores = Vec::with_capacity(ranks);
        let mut units = Vec::new();
        for tables in own {
            semaphores.push(units.len());
            units.extend_from_slice(&tables.semaphores);
        }
        let operations = view.operations() * ranks / plan.ranks.len().max(1);
        let mut build = Build {
            // Data mostly moves from one place to one other.
            ranges: Vec::with_capacity(2 * operations),
            barriers: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            epoch: 0,
            blocks: own.iter().map(|rank| rank.blocks.len() as u32).sum(),
            next: (0, 0),
        };
        let mut model = Self {
            view,
            plan,
            pairs,
            size,
            ranks: ranks as u32,
            symmetry,
            agents: Vec::with_capacity(build.blocks as usize),
            agents_of: Vec::with_capacity(ranks),
            atoms: Atoms::default(),
            steps: Vec::with_capacity(operations + 1),
            ids: Vec::with_capacity(operations),
            shifts: Vec::new(),
            effects: Vec::with_capacity(2 * operations),
            semaphores,
            counters: vec![Traffic::NONE; pairs.counters()],
            releases: vec![Traffic::NONE; units.len()],
            units,
            barriers: Vec::new(),
            has_packets: false,
            has_plain_scratch: false,
            port_uses: 0,
            has_loops: false,
            barriers_agree: true,
        };
        for (rank, tables) in own.iter().enumerate() {
            let first = model.agents.len();
            for block in 0..tables.blocks.len() {
                let begin = model.steps.len();
                for (index, op) in view.ops(rank, block).iter().enumerate() {
                    let whole = Placed { rank, block, index, inside: None, op, instances: view.instances() };
                    let Some(body) = &op.body else {
                        model.step(&mut build, &whole, None);
                        continue;
                    };
                    model.has_loops = true;
                    let next = build.next;
                    for iteration in 0..size.trips(body) {
                        build.next = next;
                        for (i, inner) in body.ops.iter().enumerate() {
                            let at = Placed { inside: Some((i, op)), op: inner, ..whole };
                            model.step(&mut build, &at, Some((iteration, body.unit)));
                        }
                    }
                }
                model.agents.push(Agent { rank, block, steps: begin..model.steps.len() });
            }
            model.agents_of.push(first..model.agents.len());
        }
        model.begin_step(OpKind::Nop, false, 0, 0);
        model.atoms = Atoms::cut(own, size, &build.ranges);
        for (effect, range) in model.effects.iter_mut().zip(&build.ranges) {
            (effect.first, effect.end) = model.atoms.numbers(range);
        }
        let mut arrivals = build.arrivals.iter().zip(build.arrivals.iter().skip(1));
        model.barriers_agree = arrivals.all(|((one, a), (other, b))| one.0 != other.0 || a == b);
        model.barriers = vec![(0, 0); build.barriers.len()];
        for (place, number) in build.barriers {
            model.barriers[number as usize] = place;
        }
        model
    }

    fn begin_step(&mut self, kind: OpKind, port: bool, index: usize, inner: u32) {
        let (first_id, first_effect) = (self.ids.len() as u32, self.effects.len() as u32);
        self.steps.push(Step { kind, port, index: index as u32, inner, first_id, first_effect });
    }

    fn step(&mut self, build: &mut Build, at: &Placed<'p>, window: Option<(u64, u64)>) {
        use OpKind as K;
        let (plan, pairs, op, symmetry) = (self.plan, self.pairs, at.op, self.symmetry);
        let port = op.channel == Some(ChannelKind::Port);
        self.begin_step(op.kind, port, at.index, at.inside.map_or(0, |(i, _)| i as u32 + 1));
        let number = |found: Option<usize>| found.map_or(NOTHING, |counter| counter as u32);
        let (agent, epoch) = (self.agents.len() as u32, build.epoch);
        // Those of shifted ranks have numbers of their own.
        let all = plan.ranks.len() as u32 / self.ranks.max(1);
        let agent_of = |shift: u32| (all - shift) % all * build.blocks + agent;
        let thread = |position| traffic::Thread { agent, position, epoch };
        if matches!(op.kind, K::Nop | K::Barrier) {
            build.epoch += 1;
        }
        if port {
            self.port_uses += op.ids.len();
        }
        match op.kind {
            K::SemaphoreAcquire | K::SemaphoreRelease => {
                let first = self.semaphores[at.rank] as u32;
                for (position, &id) in (0..).zip(&op.ids) {
                    let id = first + at.number(id);
                    let traffic = &mut self.releases[id as usize];
                    match op.kind {
                        K::SemaphoreRelease => traffic.raise(thread(position)),
                        _ => traffic.lower(thread(position)),
                    }
                    self.ids.push(id);
                }
            }
            K::Barrier => {
                let next = build.barriers.len() as u32;
                let number = at.number(op.ids.first().copied().unwrap_or(0));
                let barrier = *build.barriers.entry((at.rank, number)).or_insert(next);
                *build.arrivals.entry((barrier, agent)).or_default() += 1;
                self.ids.push(barrier);
            }
            kind if waits(kind) => {
                let incoming = pairs.incoming(plan, at);
                for (position, &id) in (0..).zip(&op.ids) {
                    let counter = incoming(id);
                    if let Some(counter) = counter {
                        self.counters[counter].lower(thread(position));
                    }
                    build.next.1 += 1;
                    self.ids.push(number(counter));
                }
            }
            kind if signals(kind) || kind == K::Flush || port => {
                let outgoing = pairs.outgoing(plan, at);
                for (position, &id) in (0..).zip(&op.ids) {
                    let (counter, shift) = match symmetry {
                        Some(symmetry) => {
                            let (counter, shift) = symmetry.counters[build.next.1];
                            (Some(counter as usize), shift)
                        }
                        None => (outgoing(id), 0),
                    };
                    build.next.1 += 1;
                    if let Some(counter) = counter.filter(|_| signals(kind)) {
                        let thread = traffic::Thread { agent: agent_of(shift), ..thread(position) };
                        self.counters[counter].raise(thread);
                    }
                    self.ids.push(number(counter));
                    if shift > 0 {
                        self.shifts.resize(self.ids.len(), 0);
                        self.shifts[self.ids.len() - 1] = shift;
                    }
                }
            }
            _ => {}
        }
        if !op.kind.is_data() {
            return;
        }
        let size = self.size;
        effects(plan, at, &mut |effect| {
            let (buffer, mut index) = home(plan, effect.owner, effect.buffer, effect.range.index);
            let memory = Space::of(buffer, effect.packets);
            let (mut owner, mut shift) = (effect.owner, 0);
            if let Some(symmetry) = symmetry {
                index = symmetry.chunks[build.next.0];
                (owner, shift) = (owner % symmetry.own, owner / symmetry.own);
                build.next.0 += 1;
            }
            let window =
                window.map(|window| if memory == Space::Scratch { size.scratch_window(window) } else { window });
            let range = size.range(op.slice, window, index, effect.range.size);
            let (position, write) = (effect.position as u32, effect.write);
            build.ranges.push((atoms::number(owner, memory), range));
            self.has_packets |= effect.packets;
            self.has_plain_scratch |= memory == Space::Scratch;
            self.effects.push(Effect { first: 0, end: 0, owner, shift, position, memory, write });
        });
    }

    pub(super) fn step_at(&self, step: usize) -> &Step {
        &self.steps[step]
    }

    /// What a step's ids stand for: counters for whatever uses channels, numbers of semaphores, the number of a barrier.
    /// The position of an id is that of the thread that serves it.
    pub(super) fn ids(&self, step: usize) -> &[u32] {
        &self.ids[self.steps[step].first_id as usize..self.steps[step + 1].first_id as usize]
    }

    /// By how much the rank is shifted to which the n-th channel of a step leads.
    pub(super) fn shift(&self, step: usize, position: usize) -> u32 {
        self.shifts.get(self.steps[step].first_id as usize + position).copied().unwrap_or(0)
    }

    /// Ranks that each rank stands for.
    pub(super) fn shifts(&self) -> u32 {
        self.plan.ranks.len() as u32 / self.ranks.max(1)
    }

    /// The agent that alone signals on a counter, or one that stands for it.
    pub(super) fn signaller(&self, counter: u32) -> Option<usize> {
        Some(self.counters[counter as usize].signaller()? % self.agents.len())
    }

    /// What a step does to memory, reads first, in the order of its references.
    pub(super) fn effects(&self, step: usize) -> &[Effect] {
        &self.effects[self.steps[step].first_effect as usize..self.steps[step + 1].first_effect as usize]
    }

    /// Effects of all steps.
    pub(super) fn effect_count(&self) -> usize {
        self.effects.len()
    }

    /// The operation of a step.
    pub(super) fn op(&self, agent: usize, step: usize) -> &'p Op {
        self.placed(agent, step).op
    }

    /// The operation of a step and where it stands.
    pub(super) fn placed(&self, agent: usize, step: usize) -> Placed<'p> {
        let Agent { rank, block, .. } = self.agents[agent];
        let Step { index, inner, .. } = self.steps[step];
        let (index, instances) = (index as usize, self.view.instances());
        let op = &self.view.ops(rank, block)[index];
        let whole = Placed { rank, block, index, inside: None, op, instances };
        match (&op.body, inner.checked_sub(1)) {
            (Some(body), Some(i)) => Placed { inside: Some((i as usize, op)), op: &body.ops[i as usize], ..whole },
            _ => whole,
        }
    }

    /// The agent whose step this is.
    pub(super) fn agent_of(&self, step: usize) -> usize {
        self.agents.partition_point(|agent| agent.steps.end <= step)
    }

    /// Whether all that is counted is seen to be done equally often on both sides, without a closer look at loops.
    pub(super) fn is_balanced(&self) -> bool {
        let mut traffic = self.counters.iter().chain(&self.releases);
        !self.has_loops && self.barriers_agree && traffic.all(|traffic| traffic.up == traffic.down)
    }

    /// Whether anything reads or writes packets.
    pub(super) fn has_packets(&self) -> bool {
        self.has_packets
    }

    /// Whether it is seen at a glance that packets and plain data keep apart in scratch: there are not both.
    pub(super) fn keeps_scratch_apart(&self) -> bool {
        match self.has_packets {
            true => self.plan.protocol == Protocol::LL && !self.has_plain_scratch,
            false => !(self.plan.double_scratch && self.has_plain_scratch),
        }
    }

    /// Ports as threads see them are no more than this: one for every use.
    pub(super) fn most_ports(&self) -> usize {
        self.port_uses
    }

    /// The positions that an effect covers.
    pub(super) fn range(&self, effect: &Effect) -> Range<u64> {
        self.atoms.start(effect.first as usize)..self.atoms.start(effect.end as usize)
    }

    /// How many positions an effect covers.
    pub(super) fn length(&self, effect: &Effect) -> u64 {
        self.atoms.start(effect.end as usize) - self.atoms.start(effect.first as usize)
    }

    pub(super) fn barriers(&self) -> usize {
        self.barriers.len()
    }

    /// The number of a barrier on its rank.
    pub(super) fn barrier(&self, number: u32) -> u32 {
        self.barriers[number as usize].1
    }

    /// Rank of a semaphore, and its number there.
    pub(super) fn semaphore(&self, number: u32) -> (usize, u32) {
        let rank = self.semaphores.partition_point(|&first| first <= number as usize) - 1;
        (rank, number - self.semaphores[rank] as u32)
    }
}

/// What is collected while a model is built.
struct Build {
    /// Per effect, the number of its memory and the range there.
    ranges: Vec<(usize, Range<u64>)>,
    barriers: BTreeMap<(usize, u32), u32>,
    /// How often an agent comes to a barrier.
    arrivals: BTreeMap<(u32, u32), u32>,
    /// Block syncs so far.
    epoch: u32,
    /// Thread blocks.
    blocks: u32,
    /// The next of the chunks and counters that the symmetry knows.
    next: (usize, usize),
}
