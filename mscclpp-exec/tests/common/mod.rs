//! Hand-written plans: every rank has a memory and a port channel to every other rank, access to all their buffers, and
//! a switch channel over all ranks for each buffer. The tables of every thread block are those of its rank.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

pub(crate) mod flushed;
pub(crate) mod port;
pub(crate) mod ranks;

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::{
    Plan,
    raw::{
        BlockTable, BufferRef, ChannelTable, LoopBody, Op, OpKind, Operand, PlanTree, RankPlan, RemoteBuffer, Slice,
        ThreadBlock,
    },
};
use mscclpp_core::types::{BufferKind, ChannelKind, Protocol, ReduceOp};
use mscclpp_exec::cpu::{Buffers, Executor, Options, Schedule};
use mscclpp_exec::{Error, Message};

/// Chunks of input, output and scratch.
pub type Chunks = [u32; 3];

/// Returns a plan of a custom collective from the thread blocks of each rank.
pub fn tree(ranks: u32, chunks: Chunks, blocks: impl Fn(u32) -> Vec<Vec<Op>>) -> PlanTree {
    let [input, output, _] = chunks;
    PlanTree {
        name: "by hand".into(),
        collective: Collective::new(CollectiveKind::Custom { input, output }),
        protocol: Protocol::LL,
        reuse_resources: false,
        threads_per_block: 32,
        double_scratch: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: u64::MAX,
        ranks_per_node: ranks,
        tags: Default::default(),
        ranks: (0..ranks).map(|rank| rank_plan(ranks, rank, chunks, blocks(rank))).collect(),
        expectations: Vec::new(),
        origins: Default::default(),
    }
}

fn rank_plan(ranks: u32, rank: u32, chunks: Chunks, blocks: Vec<Vec<Op>>) -> RankPlan {
    let peers: Vec<u32> = (0..ranks).filter(|&peer| peer != rank).collect();
    let remote_buffers: Vec<RemoteBuffer> = peers
        .iter()
        .flat_map(|&rank| BufferKind::ALL.map(|buffer| RemoteBuffer { rank, buffer, memory: true, port: true }))
        .collect();
    let ids = |len: usize| (0..len as u32).collect::<BlockTable>();
    let (channels, remote) = (ids(peers.len()), ids(remote_buffers.len()));
    let mut tables = vec![ChannelTable::Memory(peers.clone()), ChannelTable::Port(peers)];
    let groups = || vec![(0..ranks).collect()];
    tables.extend(BufferKind::ALL.map(|buffer| ChannelTable::Switch { buffer, groups: groups() }));
    let block = |ops| ThreadBlock {
        ops,
        channels: vec![
            (ChannelKind::Memory, channels.clone()),
            (ChannelKind::Port, channels.clone()),
            (ChannelKind::Switch, ids(3)),
        ]
        .into(),
        remote_buffers: vec![(ChannelKind::Memory, remote.clone()), (ChannelKind::Port, remote.clone())].into(),
    };
    RankPlan {
        input_chunks: chunks[0],
        output_chunks: chunks[1],
        scratch_chunks: chunks[2],
        blocks: blocks.into_iter().map(block).collect(),
        channels: tables,
        remote_buffers,
        semaphores: vec![0, 1, 2],
    }
}

pub fn i(index: u32, size: u32) -> Operand {
    Operand::local(BufferKind::Input, index, size)
}

pub fn o(index: u32, size: u32) -> Operand {
    Operand::local(BufferKind::Output, index, size)
}

pub fn s(index: u32, size: u32) -> Operand {
    Operand::local(BufferKind::Scratch, index, size)
}

/// Returns the position of a peer among a rank's channels.
pub fn to(rank: u32, peer: u32) -> u32 {
    if peer < rank { peer } else { peer - 1 }
}

/// Returns an operand in a peer's buffer.
pub fn at(rank: u32, peer: u32, chunk: Operand) -> Operand {
    let buffer = chunk.local_buffer().expect("a buffer") as u32;
    Operand { buffer: BufferRef::Remote(to(rank, peer) * 3 + buffer), ..chunk }
}

/// Returns an operand on a switch channel.
pub fn all(chunk: Operand) -> Operand {
    Operand { buffer: BufferRef::Switch(chunk.local_buffer().expect("a buffer") as u32), ..chunk }
}

/// Returns an operation without a channel.
pub fn op(kind: OpKind, srcs: &[Operand], dsts: &[Operand]) -> Op {
    Op {
        srcs: srcs.iter().copied().collect(),
        dsts: dsts.iter().copied().collect(),
        reduce: kind.is_reduce().then_some(ReduceOp::Sum),
        ..Op::new(kind, Origin::UNKNOWN)
    }
}

/// Other properties of an operation.
pub trait With: Sized {
    fn memory(self) -> Self;
    fn port(self, ids: &[u32]) -> Self;
    fn switch(self) -> Self;
    fn ids(self, ids: &[u32]) -> Self;
    fn by(self, reduce: ReduceOp) -> Self;
    fn part(self, index: u32, of: u32) -> Self;
}

impl With for Op {
    fn memory(mut self) -> Self {
        self.channel = Some(ChannelKind::Memory);
        self
    }

    fn port(mut self, ids: &[u32]) -> Self {
        self.channel = Some(ChannelKind::Port);
        self.ids(ids)
    }

    fn switch(mut self) -> Self {
        self.channel = Some(ChannelKind::Switch);
        self
    }

    fn ids(mut self, ids: &[u32]) -> Self {
        self.ids = ids.iter().copied().collect();
        self
    }

    fn by(mut self, reduce: ReduceOp) -> Self {
        self.reduce = Some(reduce);
        self
    }

    fn part(mut self, index: u32, of: u32) -> Self {
        self.slice = Some(Slice { index, count: of });
        self
    }
}

/// Returns a signal on the memory channel to each of a list of peers.
pub fn signal(rank: u32, peers: &[u32]) -> Op {
    sync(OpKind::Signal, rank, peers)
}

/// Returns a wait on the memory channel to each of a list of peers.
pub fn wait(rank: u32, peers: &[u32]) -> Op {
    sync(OpKind::Wait, rank, peers)
}

pub fn sync(kind: OpKind, rank: u32, peers: &[u32]) -> Op {
    let ids: Vec<u32> = peers.iter().map(|&peer| to(rank, peer)).collect();
    op(kind, &[], &[]).memory().ids(&ids)
}

pub fn barrier(id: u32, blocks: u32) -> Op {
    Op { num_blocks: blocks, ..op(OpKind::Barrier, &[], &[]).ids(&[id]) }
}

pub fn pipeline(unit: u64, num_chunks: u32, ops: Vec<Op>) -> Op {
    let body = Some(Box::new(LoopBody { unit, num_chunks, ops }));
    Op { body, ..Op::new(OpKind::Pipeline, Origin::UNKNOWN) }
}

/// Returns element `index` of a rank's input: different for every element, and never 0.
pub fn input(rank: u32, index: usize) -> i32 {
    1 + rank as i32 * 1_000_000 + index as i32
}

/// Returns all schedules that tests use.
pub fn schedules() -> Vec<Schedule> {
    std::iter::once(Schedule::RoundRobin).chain((0..6).map(Schedule::Seeded)).collect()
}

pub fn world(ranks: u32, schedule: Schedule) -> Executor {
    Executor::with_options(ranks, Options::default().schedule(schedule).workers(Some(2)))
}

/// A plan with its chunks' size in elements of `i32`, for one message.
pub struct Case {
    pub run: mscclpp_exec::cpu::PreparedPlan,
    pub buffers: Buffers,
    ranks: u32,
}

impl Case {
    pub fn new(world: &Executor, plan: &Plan, message: Message) -> Result<Self, Error> {
        let run = world.prepare(plan, message)?;
        let buffers = run.buffers()?;
        Ok(Self { run, buffers, ranks: plan.num_ranks() })
    }

    /// Fills the inputs, launches and returns the outputs.
    pub fn launch(&mut self) -> Result<Vec<Vec<i32>>, Error> {
        for rank in 0..self.ranks {
            let elements = self.buffers.input_as::<i32>(rank)?;
            elements.iter_mut().enumerate().for_each(|(index, element)| *element = input(rank, index));
            self.buffers.output_mut(rank).fill(0);
        }
        self.run.launch_buffers(&mut self.buffers)?;
        (0..self.ranks).map(|rank| Ok(self.buffers.output_as::<i32>(rank)?.to_vec())).collect()
    }
}

/// Runs a plan of `i32` under every schedule, with chunks of 4 elements (16 bytes), of 300, of fewer in the last one,
/// and of one in all. Compares each output chunk with `expected(rank, chunk, element in the chunk, input)`, where
/// `input(rank, chunk, element)` is an input element. `None` is not compared.
pub fn check(tree: &PlanTree, expected: impl Fn(u32, u32, usize, &dyn Fn(u32, u32, usize) -> i32) -> Option<i32>) {
    let plan = Plan::new(tree);
    let chunks = tree.ranks[0].input_chunks.max(tree.ranks[0].output_chunks) as usize;
    for schedule in schedules() {
        let world = world(plan.num_ranks(), schedule);
        for count in [4 * chunks, 300 * chunks, 300 * chunks - 91, 1] {
            // 16 bytes are the granularity of boundaries.
            let chunk = count.div_ceil(chunks).next_multiple_of(4);
            let mut case = Case::new(&world, &plan, Message::of::<i32>(count)).expect("a plan that can be prepared");
            let input_len = case.run.input_len();
            for launch in 0..3 {
                let outputs = case.launch().unwrap_or_else(|error| panic!("{schedule:?}, {count} elements: {error}"));
                for (rank, output) in outputs.iter().enumerate() {
                    for (index, &found) in output.iter().enumerate() {
                        let padded = |rank: u32, of: u32, element: usize| {
                            let at = of as usize * chunk + element;
                            if at < input_len { input(rank, at) } else { 0 }
                        };
                        let (at, element) = ((index / chunk) as u32, index % chunk);
                        let Some(expected) = expected(rank as u32, at, element, &padded) else {
                            continue;
                        };
                        assert_eq!(
                            found, expected,
                            "{schedule:?}, {count} elements, launch {launch}: rank {rank}, chunk {at}, element {element}"
                        );
                    }
                }
            }
        }
    }
}
