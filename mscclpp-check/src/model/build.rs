//! Construction of a model: a plan unrolled into steps.

use std::collections::BTreeMap;
use std::ops::Range;

use super::size::Window;
use super::{Access, Atoms, Block, CounterUse, Model, NOTHING, Size, Space, Step, atoms, counter_use};
use crate::access::accesses;
use crate::pairing::Pairs;
use crate::place::{LocatedOp, canonical_buffer};
use crate::symmetry::Symmetry;
use crate::view::View;
use mscclpp_plan::raw::{IdList, OpKind};
use mscclpp_plan::types::ChannelKind;

/// Intermediate state of the construction.
struct Build {
    /// Per access, the number of its buffer and the range in it.
    ranges: Vec<(usize, Range<u64>)>,
    barriers: BTreeMap<(usize, u32), u32>,
    /// How often an agent executes a barrier.
    arrivals: BTreeMap<(u32, u32), u32>,
    /// Number of block syncs so far.
    epoch: u32,
    /// Number of thread blocks.
    blocks: u32,
    /// The next of the chunks and counters in the tables of the symmetry.
    next: (usize, usize),
    /// The threads of the current block that post triggers to ports: channel end and position.
    ports: Vec<(u32, u32)>,
}

impl<'p> Model<'p> {
    /// Builds the model of a plan that has passed the shape rule, for chunks of one size.
    pub(crate) fn of(view: View<'p>, pairs: &'p Pairs, size: Size) -> Self {
        Self::reduced(view, pairs, size, None)
    }

    /// Builds the model of the representative ranks of a symmetric plan.
    pub(crate) fn reduced(view: View<'p>, pairs: &'p Pairs, size: Size, symmetry: Option<&'p Symmetry>) -> Self {
        let plan = view.plan;
        let ranks = symmetry.map_or(plan.ranks.len(), |symmetry| symmetry.representatives as usize);
        let own = &plan.ranks[..ranks];
        let mut semaphores = Vec::with_capacity(ranks);
        let mut units = Vec::new();
        for tables in own {
            semaphores.push(units.len());
            units.extend_from_slice(&tables.semaphores);
        }
        let operations = view.operations() * ranks / plan.ranks.len().max(1);
        let mut build = Build {
            // An operation mostly has one source and one destination.
            ranges: Vec::with_capacity(2 * operations),
            barriers: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            epoch: 0,
            blocks: own.iter().map(|rank| rank.blocks.len() as u32).sum(),
            next: (0, 0),
            ports: Vec::new(),
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
            counters: vec![CounterUse::NONE; pairs.counters()],
            releases: vec![CounterUse::NONE; units.len()],
            units,
            barriers: Vec::new(),
            has_packets: false,
            has_plain_scratch: false,
            ports: 0,
            has_loops: false,
            barriers_agree: true,
        };
        for (rank, tables) in own.iter().enumerate() {
            let first = model.agents.len();
            for block in 0..tables.blocks.len() {
                model.add_block(&mut build, rank, block);
            }
            model.agents_of.push(first..model.agents.len());
        }
        model.finish(build);
        model
    }

    /// Adds the steps of a thread block, with its loops unrolled.
    fn add_block(&mut self, build: &mut Build, rank: usize, block: usize) {
        let (view, begin) = (self.view, self.steps.len());
        for (index, op) in view.ops(rank, block).iter().enumerate() {
            let whole = LocatedOp { rank, block, index, inside: None, op, instances: view.instances() };
            let Some(body) = &op.body else {
                self.add_step(build, &whole, None);
                continue;
            };
            self.has_loops = true;
            let next = build.next;
            let trips = self.size.trips(body);
            for iteration in 0..trips {
                build.next = next;
                for (i, inner) in body.ops.iter().enumerate() {
                    let at = LocatedOp { inside: Some((i, op)), op: inner, ..whole };
                    self.add_step(build, &at, Some(Window { iteration, trips, unit: body.unit }));
                }
            }
        }
        build.ports.sort_unstable();
        build.ports.dedup();
        self.ports += build.ports.len();
        build.ports.clear();
        self.agents.push(Block { rank, block, steps: begin..self.steps.len() });
    }

    /// Completes the tables that depend on all steps.
    fn finish(&mut self, build: Build) {
        self.begin_step(OpKind::Nop, false, 0, 0);
        self.atoms = Atoms::cut(&self.plan.ranks[..self.ranks as usize], self.size, &build.ranges);
        for (effect, range) in self.effects.iter_mut().zip(&build.ranges) {
            (effect.first, effect.end) = self.atoms.numbers(range);
        }
        let mut arrivals = build.arrivals.iter().zip(build.arrivals.iter().skip(1));
        self.barriers_agree = arrivals.all(|((one, a), (other, b))| one.0 != other.0 || a == b);
        self.barriers = vec![(0, 0); build.barriers.len()];
        for (place, number) in build.barriers {
            self.barriers[number as usize] = place;
        }
    }

    fn begin_step(&mut self, kind: OpKind, port: bool, index: usize, inner: u32) {
        let (first_id, first_effect) = (self.ids.len() as u32, self.effects.len() as u32);
        self.steps.push(Step { kind, port, index: index as u32, inner, first_id, first_effect });
    }

    /// Adds an operation, in an iteration of its loop.
    fn add_step(&mut self, build: &mut Build, at: &LocatedOp<'p>, window: Option<Window>) {
        let op = at.op;
        let port = op.channel == Some(ChannelKind::Port);
        self.begin_step(op.kind, port, at.index, at.inside.map_or(0, |(i, _)| i as u32 + 1));
        let epoch = build.epoch;
        if op.kind.is_block_sync() {
            build.epoch += 1;
        }
        match op.kind.ids() {
            IdList::Semaphores => self.add_semaphores(epoch, at),
            IdList::Barrier => self.add_barrier(build, at),
            IdList::Channels if op.kind.waits() => self.add_waits(build, epoch, at),
            IdList::Channels => self.add_signals(build, epoch, at),
            IdList::ChannelPerPair | IdList::ChannelPerPortDestination if port => self.add_signals(build, epoch, at),
            IdList::ChannelPerPair | IdList::ChannelPerPortDestination | IdList::Nothing => {}
        }
        if op.kind.is_data() {
            self.add_effects(build, at, window);
        }
    }

    /// Returns a thread of the current block.
    fn thread(&self, position: u32, epoch: u32) -> counter_use::Thread {
        counter_use::Thread { agent: self.agents.len() as u32, position, epoch }
    }

    fn add_semaphores(&mut self, epoch: u32, at: &LocatedOp<'p>) {
        let first = self.semaphores[at.rank] as u32;
        for (position, &id) in (0..).zip(&at.op.ids) {
            let (id, thread) = (first + at.number(id), self.thread(position, epoch));
            let traffic = &mut self.releases[id as usize];
            match at.op.kind.acquires() {
                true => traffic.lower(thread, at.inside.is_some()),
                false => traffic.raise(thread),
            }
            self.ids.push(id);
        }
    }

    fn add_barrier(&mut self, build: &mut Build, at: &LocatedOp<'p>) {
        let next = build.barriers.len() as u32;
        let number = at.number(at.op.ids.first().copied().unwrap_or(0));
        let barrier = *build.barriers.entry((at.rank, number)).or_insert(next);
        *build.arrivals.entry((barrier, self.agents.len() as u32)).or_default() += 1;
        self.ids.push(barrier);
    }

    fn add_waits(&mut self, build: &mut Build, epoch: u32, at: &LocatedOp<'p>) {
        let incoming = self.pairs.incoming(self.plan, at);
        for (position, &id) in (0..).zip(&at.op.ids) {
            let counter = incoming(id);
            if let Some(counter) = counter {
                let thread = self.thread(position, epoch);
                self.counters[counter].lower(thread, at.inside.is_some());
            }
            build.next.1 += 1;
            self.ids.push(counter.map_or(NOTHING, |counter| counter as u32));
        }
    }

    /// Adds signals, flushes, and all other triggers of ports.
    fn add_signals(&mut self, build: &mut Build, epoch: u32, at: &LocatedOp<'p>) {
        let outgoing = self.pairs.outgoing(self.plan, at);
        for (position, &id) in (0..).zip(&at.op.ids) {
            let (counter, shift) = match self.symmetry {
                Some(symmetry) => {
                    let (counter, shift) = symmetry.counters[build.next.1];
                    (Some(counter as usize), shift)
                }
                None => (outgoing(id), 0),
            };
            build.next.1 += 1;
            if let Some(counter) = counter.filter(|_| at.op.kind.signals()) {
                let (thread, all) = (self.thread(position, epoch), self.shifts());
                // The agents of rotated ranks have their own numbers.
                let agent = (all - shift) % all * build.blocks + thread.agent;
                self.counters[counter].raise(counter_use::Thread { agent, ..thread });
            }
            let end = counter.map_or(NOTHING, |counter| counter as u32);
            self.ids.push(end);
            if at.op.channel == Some(ChannelKind::Port) {
                build.ports.push((end, position));
            }
            if shift > 0 {
                self.shifts.resize(self.ids.len(), 0);
                self.shifts[self.ids.len() - 1] = shift;
            }
        }
    }

    fn add_effects(&mut self, build: &mut Build, at: &LocatedOp<'p>, window: Option<Window>) {
        let (plan, size, symmetry) = (self.plan, self.size, self.symmetry);
        accesses(plan, at, &mut |effect| {
            let (buffer, mut index) = canonical_buffer(plan, effect.owner, effect.buffer, effect.range.index);
            let memory = Space::of(buffer, effect.packets);
            let (mut owner, mut shift) = (effect.owner, 0);
            if let Some(symmetry) = symmetry {
                index = symmetry.chunks[build.next.0];
                (owner, shift) = (owner % symmetry.representatives, owner / symmetry.representatives);
                build.next.0 += 1;
            }
            let window =
                window.map(|window| if memory == Space::Scratch { size.scratch_window(window) } else { window });
            let range = size.range(at.op.slice, window, index, effect.range.size);
            let (position, write) = (effect.position as u32, effect.write);
            build.ranges.push((atoms::number(owner, memory), range));
            self.has_packets |= effect.packets;
            self.has_plain_scratch |= memory == Space::Scratch;
            self.effects.push(Access { first: 0, end: 0, owner, shift, position, memory, write });
        });
    }
}
