//! Random plans that are right where all chunks are full: rank 0 moves all data, through random chunks of all buffers.

use std::collections::{BTreeMap, BTreeSet};

use mscclpp_core::collective::{ChunkCounts, Collective, CollectiveKind, OutputContent};
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::raw::{Expectation, Op, OpKind, Operand, PlanTree};
use mscclpp_core::types::{BufferKind, ReduceOp};

use crate::common::{With, at, op, pipeline, signal, sync, tree, wait};

/// A random number generator with a fixed sequence per seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// A chunk of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: u32,
    buffer: BufferKind,
    chunk: u32,
}

impl Place {
    fn following(self) -> Self {
        Self { chunk: self.chunk + 1, ..self }
    }
}

/// Chunks of scratch that routes may pass through: enough that some are always free.
const SLOTS: u32 = 5;

/// An input chunk: rank and number.
type Input = (u32, u32);

/// A plan that is being generated.
pub(crate) struct Routes {
    collective: Collective,
    ranks: u32,
    /// Chunks of every rank's buffers.
    input: u32,
    output: u32,
    /// Chunks of scratch that were used.
    scratch: u32,
    reduce: ReduceOp,
    ops: Vec<Op>,
    /// Where the inputs are.
    sources: BTreeMap<Input, Place>,
    /// Outputs that are complete.
    done: BTreeSet<Place>,
}

impl Routes {
    pub(crate) fn random(random: &mut Random) -> PlanTree {
        use CollectiveKind as K;
        let ranks = 1 + random.below(3) as u32;
        let (input, output) = (1 + random.below(4) as u32, 1 + random.below(4) as u32);
        let custom = K::Custom { input, output };
        let kind = random.of(&[
            custom,
            custom,
            custom,
            K::AllReduce,
            K::AllGather,
            K::ReduceScatter,
            K::AllToAll,
            K::Broadcast,
        ]);
        let mut collective = Collective { chunk_factor: 1 + random.below(3) as u32, ..Collective::new(kind) };
        collective.in_place = matches!(kind, K::AllReduce | K::AllGather | K::ReduceScatter) && random.below(2) == 0;
        let (input, output) = collective.chunks(ranks).expect("few chunks");
        // A product with the zeros of chunks that a message does not fill is zero, whatever is lost of it.
        let reduce = random.of(&[ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]);
        let mut routes = Self {
            collective,
            ranks,
            input,
            output,
            scratch: SLOTS,
            reduce,
            ops: Vec::new(),
            sources: BTreeMap::new(),
            done: BTreeSet::new(),
        };
        for input in (0..ranks).flat_map(|rank| (0..input).map(move |chunk| (rank, chunk))) {
            routes.sources.insert(input, routes.place(input.0, BufferKind::Input, input.1));
        }
        let mut expectations = Vec::new();
        let mut required = routes.required(random, &mut expectations);
        while !required.is_empty() {
            let next = random.below(required.len() as u64) as usize;
            let (output, inputs) = required.swap_remove(next);
            let pair = required.iter().position(|(other, others)| {
                *other == output.following() && inputs.len() == 1 && others[..] == [(inputs[0].0, inputs[0].1 + 1)]
            });
            let adjacent = |routes: &Self| {
                let (rank, chunk) = inputs[0];
                routes.sources[&(rank, chunk)].following() == routes.sources[&(rank, chunk + 1)]
            };
            match pair.filter(|_| !collective.in_place && random.below(3) > 0) {
                Some(other) if adjacent(&routes) => {
                    required.swap_remove(other);
                    routes.route(random, routes.sources[&inputs[0]], output, 2);
                    routes.done.extend([output, output.following()]);
                }
                _ => {
                    routes.produce(random, output, &inputs);
                    routes.done.insert(output);
                }
            }
        }
        let mut plan = routes.finish();
        plan.expectations = expectations;
        plan.buffer_alignment = random.of(&[16, 16, 16, 1, 4, 32]);
        if random.below(6) == 0 {
            plan.min_message_size = random.below(300);
        }
        if random.below(6) == 0 {
            plan.max_message_size = plan.min_message_size + random.below(100);
        }
        plan
    }

    /// Returns the outputs with the inputs that they must contain.
    fn required(&self, random: &mut Random, expectations: &mut Vec<Expectation>) -> Vec<(Place, Vec<Input>)> {
        let mut required = Vec::new();
        let extent = ChunkCounts { num_ranks: self.ranks, input: self.input, output: self.output, distance: 1 };
        for rank in 0..self.ranks {
            for postcondition in self.collective.postconditions(extent, rank) {
                for i in 0..postcondition.len {
                    let inputs = match postcondition.content {
                        OutputContent::Input { rank, chunk } | OutputContent::NormalizedInput { rank, chunk } => {
                            vec![(rank, chunk + i)]
                        }
                        OutputContent::Reduction { chunk } | OutputContent::Normalized { chunk } => {
                            (0..self.ranks).map(|rank| (rank, chunk + i)).collect()
                        }
                    };
                    required.push((self.place(rank, BufferKind::Output, postcondition.chunk + i), inputs));
                }
            }
            for chunk in 0..if matches!(self.collective.kind, CollectiveKind::Custom { .. }) { self.output } else { 0 }
            {
                let inputs: BTreeSet<Input> = (0..random.of(&[1, 1, 2, 3]))
                    .map(|_| (random.below(self.ranks.into()) as u32, random.below(self.input.into()) as u32))
                    .collect();
                let inputs: Vec<Input> = inputs.into_iter().collect();
                expectations.push(Expectation { rank, chunk, len: 1, inputs: inputs.clone(), origin: Origin::UNKNOWN });
                required.push((self.place(rank, BufferKind::Output, chunk), inputs));
            }
        }
        required
    }

    /// Returns a chunk, of the shared buffer if the plan is in place.
    fn place(&self, rank: u32, buffer: BufferKind, chunk: u32) -> Place {
        let part = self.input.min(self.output);
        let (buffer, chunk) = self.collective.canonical_chunk(rank, buffer, chunk, part);
        Place { rank, buffer, chunk }
    }

    /// Returns a random chunk that may be overwritten, after moving the input in it elsewhere.
    fn free(&mut self, random: &mut Random, rank: Option<u32>, len: u32, avoid: &[Place]) -> Place {
        loop {
            let rank = rank.unwrap_or_else(|| random.below(self.ranks.into()) as u32);
            let buffer = random.of(&[BufferKind::Scratch, BufferKind::Output, BufferKind::Output, BufferKind::Input]);
            let chunks = match buffer {
                BufferKind::Scratch => SLOTS,
                BufferKind::Output => self.output,
                BufferKind::Input if self.collective.in_place => self.input,
                BufferKind::Input => continue,
            };
            if chunks < len {
                continue;
            }
            let place = self.place(rank, buffer, random.below(u64::from(chunks - len + 1)) as u32);
            let all = (0..len).map(|i| Place { chunk: place.chunk + i, ..place });
            if all.clone().all(|place| !self.done.contains(&place) && !avoid.contains(&place)) {
                all.for_each(|place| self.evict(place));
                return place;
            }
        }
    }

    /// Moves the input in a chunk to a chunk of scratch of its own.
    fn evict(&mut self, place: Place) {
        let input = self.sources.iter().find(|(_, source)| **source == place).map(|(input, _)| *input);
        if let Some(input) = input {
            let slot = self.slot();
            self.copy(place, slot, 1, false);
            self.sources.insert(input, slot);
        }
    }

    fn slot(&mut self) -> Place {
        self.scratch += 1;
        Place { rank: 0, buffer: BufferKind::Scratch, chunk: self.scratch - 1 }
    }

    /// Moves chunks to a place through some other places.
    fn route(&mut self, random: &mut Random, from: Place, to: Place, len: u32) {
        let mut now = from;
        for _ in 0..random.below(3) {
            let next = self.free(random, None, len, &[now, now.following(), to, to.following()]);
            self.copy(now, next, len, random.below(4) == 0);
            now = next;
        }
        if now != to {
            (0..len).for_each(|i| self.evict(Place { chunk: to.chunk + i, ..to }));
            self.copy(now, to, len, random.below(4) == 0);
        }
    }

    /// Produces an output from the inputs that it must contain.
    fn produce(&mut self, random: &mut Random, output: Place, inputs: &[Input]) {
        let [first, others @ ..] = inputs else { return };
        if others.is_empty() {
            self.evict(output);
            return self.route(random, self.sources[first], output, 1);
        }
        self.evict(output);
        let mut sum = self.free(random, Some(0), 1, &[]);
        self.route(random, self.sources[first], sum, 1);
        for other in others {
            let addend = self.free(random, Some(0), 1, &[sum]);
            self.done.insert(sum);
            self.route(random, self.sources[other], addend, 1);
            self.done.remove(&sum);
            let to = if random.below(2) == 0 { sum } else { self.free(random, Some(0), 1, &[sum, addend]) };
            let operation =
                op(OpKind::Reduce, &[self.operand(sum, 1), self.operand(addend, 1)], &[self.operand(to, 1)]);
            self.add(operation.by(self.reduce));
            sum = to;
        }
        self.route(random, sum, output, 1);
    }

    fn operand(&self, place: Place, len: u32) -> Operand {
        let operand = Operand::local(place.buffer, place.chunk, len);
        if place.rank == 0 { operand } else { at(0, place.rank, operand) }
    }

    /// Copies chunks; in two slices or in a loop on request.
    fn copy(&mut self, from: Place, to: Place, len: u32, divided: bool) {
        if from == to {
            return;
        }
        let (src, dst) = (self.operand(from, len), self.operand(to, len));
        let copy = match (from.rank, to.rank) {
            (0, 0) => op(OpKind::Copy, &[src], &[dst]),
            (0, _) => op(OpKind::Put, &[src], &[dst]).memory(),
            (_, 0) => op(OpKind::Get, &[src], &[dst]).memory().ids(&[from.rank - 1]),
            _ => {
                let slot = self.slot();
                (1..len).for_each(|_| _ = self.slot());
                self.copy(from, slot, len, divided);
                return self.copy(slot, to, len, false);
            }
        };
        if !divided {
            self.add(copy);
        } else if self.ops.len().is_multiple_of(2) {
            (0..2).for_each(|slice| self.add(copy.clone().part(slice, 2)));
        } else {
            self.add(pipeline(32, len, vec![copy]));
        }
    }

    fn add(&mut self, operation: Op) {
        self.ops.extend([operation, op(OpKind::Nop, &[], &[])]);
    }

    fn finish(self) -> PlanTree {
        let others: Vec<u32> = (1..self.ranks).collect();
        let mut plan = tree(self.ranks, [self.input, self.output, self.scratch], |rank| {
            let mut ops = Vec::new();
            if self.ranks == 1 {
                ops.extend(self.ops.clone());
            } else if rank == 0 {
                ops.extend([sync(OpKind::RelaxedWait, 0, &others), op(OpKind::Nop, &[], &[])]);
                ops.extend(self.ops.clone());
                ops.push(signal(0, &others));
            } else {
                ops.extend([sync(OpKind::RelaxedSignal, rank, &[0]), wait(rank, &[0])]);
            }
            vec![ops]
        });
        plan.collective = self.collective;
        plan
    }
}
