//! Random plans: executors run what the checker accepts as it was proved.

use mscclpp_core::check::check;
use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::raw::{BufferRef, ChannelTable, LoopBody, Op, OpKind, Operand, RankPlan, ThreadBlock};
use mscclpp_core::types::{BufferKind, ChannelKind, Protocol, ReduceOp};

use super::super::tree::{in_table, nop, remote, sync};
use super::*;
use mscclpp_base::random::Random;

/// Number of chunks of every buffer, those of packets not counted.
const CHUNKS: u32 = 24;

/// The first chunk of packets, whose bytes follow those of plain data.
const FIRST_PACKETS: u32 = CHUNKS / 2;

struct Generator {
    random: Random,
    plan: PlanTree,
    node: u32,
    blocks: u32,
    /// The thread block that is generated.
    rank: u32,
    block: u32,
    ops: Vec<Op>,
}

impl Generator {
    /// Returns a plan in which mostly, but not always, each thread block performs a handshake with those of the same
    /// number before and after it uses buffers of other ranks; and its number of ranks per node.
    fn plan(seed: u64) -> (PlanTree, u32) {
        let mut random = Random(seed);
        let ranks = 2 + random.below(3) as u32;
        let node = if ranks == 4 && random.below(2) == 0 { 2 } else { ranks };
        let algorithm = algorithms::find("allreduce_one_shot").expect("it is in the library");
        let mut plan = algorithm
            .compile_tree(algorithm.spec(2, 2), &algorithm.arguments([]).expect("defaults"))
            .expect("it compiles");
        let mut collective: Collective = plan.collective;
        collective.kind = CollectiveKind::Test { input: CHUNKS, output: CHUNKS };
        collective.in_place = random.below(4) == 0;
        (plan.collective, plan.name, plan.ranks) = (collective, format!("random {seed}"), Vec::new());
        plan.expectations.clear();
        plan.threads_per_block = 64;
        let packets = random.below(3) == 0;
        plan.double_scratch = random.below(3) == 0;
        plan.protocol = if packets { Protocol::LL } else { Protocol::Simple };
        let blocks = 1 + random.below(2) as u32;
        for rank in 0..ranks {
            let peers = |local: bool| {
                let peers = (0..ranks).filter(|&peer| peer != rank && (peer / node == rank / node) == local);
                peers.flat_map(|peer| (0..blocks).map(move |_| peer)).collect::<Vec<_>>()
            };
            let tables = RankPlan {
                input_chunks: CHUNKS,
                output_chunks: CHUNKS,
                scratch_chunks: if packets { FIRST_PACKETS + CHUNKS } else { CHUNKS },
                channels: vec![ChannelTable::Memory(peers(true)), ChannelTable::Port(peers(false))],
                blocks: (0..blocks).map(|_| ThreadBlock::default()).collect(),
                ..RankPlan::default()
            };
            plan.ranks.push(tables);
        }
        let mut generator = Self { random, plan, node, blocks, rank: 0, block: 0, ops: Vec::new() };
        // A handshake that is omitted on one side is omitted on the other too, or no plan could be accepted.
        let missing: Vec<u64> = (0..3).map(|_| generator.random.below(40)).collect();
        let relaxed: Vec<bool> = [2, 8, 4].map(|of| generator.random.below(of) == 0).into();
        let middle = generator.random.below(2) == 0;
        for rank in 0..ranks {
            for block in 0..blocks {
                (generator.rank, generator.block) = (rank, block);
                generator.handshake(missing[0], 0, relaxed[0]);
                generator.body(0);
                if packets {
                    generator.exchange_packets();
                }
                if middle {
                    generator.handshake(missing[1], 1, relaxed[1]);
                    generator.body(1);
                }
                generator.handshake(missing[2], 2, relaxed[2]);
                let ops = std::mem::take(&mut generator.ops);
                generator.plan.ranks[rank as usize].blocks[block as usize].ops = ops;
            }
        }
        (generator.plan, node)
    }

    fn is_local(&self, peer: u32) -> bool {
        peer / self.node == self.rank / self.node
    }

    /// Returns this block's channel to a peer: its kind and its position in the block's table.
    fn channel(&mut self, peer: u32) -> (ChannelKind, u32) {
        let kind = if self.is_local(peer) { ChannelKind::Memory } else { ChannelKind::Port };
        let tables = &mut self.plan.ranks[self.rank as usize];
        let first = tables.peers(kind).iter().position(|&other| other == peer).unwrap_or(0) as u32;
        (kind, in_table(&mut tables.blocks[self.block as usize].channels, kind, first + self.block))
    }

    /// Signals to all peers, then waits for all; omits one pair of ranks if its number is `missing`.
    fn handshake(&mut self, missing: u64, phase: u32, is_relaxed: bool) {
        let ranks = self.plan.ranks.len() as u32;
        let rank = self.rank;
        let keeps = |peer: &u32| u64::from(rank.min(*peer) * 4 + rank.max(*peer)) != missing;
        let peers: Vec<u32> = (0..ranks).filter(|&peer| peer != rank).filter(keeps).collect();
        if phase > 0 {
            self.ops.push(nop());
        }
        for (kind, relaxed) in [(OpKind::Signal, OpKind::RelaxedSignal), (OpKind::Wait, OpKind::RelaxedWait)] {
            for &peer in &peers {
                let (channel, number) = self.channel(peer);
                let kind = if is_relaxed && channel == ChannelKind::Memory { relaxed } else { kind };
                self.ops.push(sync(kind, Some(channel), number));
            }
        }
        if phase < 2 && self.random.below(30) > 0 {
            self.ops.push(nop());
        }
    }

    fn body(&mut self, phase: u32) {
        for number in 0..self.random.below(4) as u32 {
            let op = self.data(phase, number);
            if self.random.below(5) == 0 {
                let mut pipeline = Op::new(OpKind::Pipeline, Origin::UNKNOWN);
                let body = LoopBody { unit: 16 << self.random.below(3), num_chunks: 1, ops: vec![op, nop()] };
                pipeline.body = Some(Box::new(body));
                self.ops.push(pipeline);
            } else {
                self.ops.push(op);
            }
            if self.random.below(3) == 0 {
                self.ops.push(nop());
            }
        }
    }

    /// Sends packets to the block of the next rank of the node, and unpacks those of the previous one.
    fn exchange_packets(&mut self) {
        let (node, rank) = (self.node, self.rank);
        let first = rank / node * node;
        let [next, previous] = [1, node - 1].map(|distance| first + (rank - first + distance) % node);
        let slot = |from: u32| FIRST_PACKETS + from * self.blocks + self.block;
        let ([to, from], any) = ([rank, previous].map(slot), self.random.below(u64::from(CHUNKS)) as u32);
        let mut put = Op::new(OpKind::PutPackets, Origin::UNKNOWN);
        put.srcs.push(Operand::local(BufferKind::Input, any, 1));
        put.dsts.push(self.remote(next, BufferKind::Scratch, to));
        put.channel = Some(ChannelKind::Memory);
        let mut unpack = Op::new(OpKind::UnpackPackets, Origin::UNKNOWN);
        unpack.srcs.push(Operand::local(BufferKind::Scratch, from, 1));
        unpack.dsts.push(Operand::local(BufferKind::Output, (rank * self.blocks + self.block) * 3 + 2, 1));
        self.ops.extend([put, nop(), unpack, nop()]);
    }

    /// Returns an operation that reads any chunks and mostly writes to chunks of its own block.
    fn data(&mut self, phase: u32, number: u32) -> Op {
        use BufferKind::{Input, Output, Scratch};
        let ranks = self.plan.ranks.len() as u32;
        let peers: Vec<u32> = (0..ranks).filter(|&peer| peer != self.rank && self.is_local(peer)).collect();
        let peer = peers[self.random.below(peers.len() as u64) as usize];
        let own = if self.random.below(60) == 0 { 0 } else { (self.rank * self.blocks + self.block) * 3 + number % 3 };
        let any = self.random.below(u64::from(CHUNKS)) as u32;
        let to = if phase == 0 && self.random.below(2) == 0 { Scratch } else { Output };
        // Scratch that a peer wrote before the handshake; with double scratch, only its owner does.
        let double = self.plan.double_scratch;
        let writer = if double { self.rank } else { peer };
        let from = if phase == 1 { (writer * self.blocks + self.block) * 3 } else { any };
        let source = if phase == 1 { Scratch } else { Input };
        let [far_to, far_source] = if double { [Output, Input] } else { [to, source] };
        let mut op = Op::new(OpKind::Copy, Origin::UNKNOWN);
        let local = |buffer, index| Operand::local(buffer, index, 1);
        match self.random.below(6) {
            0 => {
                op.srcs.push(local(source, from));
                op.dsts.push(local(to, own));
            }
            1 => {
                op.kind = OpKind::Reduce;
                op.reduce = Some(ReduceOp::Sum);
                op.srcs.extend([local(Input, any), local(Input, own)]);
                op.dsts.push(local(to, own));
            }
            2 | 3 => {
                op.kind = OpKind::Put;
                op.srcs.push(local(source, from));
                op.dsts.push(self.remote(peer, far_to, own));
                op.channel = Some(ChannelKind::Memory);
            }
            4 => {
                op.kind = OpKind::Get;
                op.srcs.push(self.remote(peer, far_source, from));
                op.dsts.push(local(Output, own));
                let (channel, number) = self.channel(peer);
                (op.channel, op.ids) = (Some(channel), [number].as_slice().into());
            }
            _ => {
                op.kind = OpKind::ReadReduce;
                op.reduce = Some(ReduceOp::Sum);
                op.srcs.extend([local(Input, any), self.remote(peer, Input, any)]);
                op.dsts.push(local(Output, own));
                op.channel = Some(ChannelKind::Memory);
            }
        }
        op
    }

    fn remote(&mut self, peer: u32, buffer: BufferKind, index: u32) -> Operand {
        let tables = &mut self.plan.ranks[self.rank as usize];
        let mut block = std::mem::take(&mut tables.blocks[self.block as usize]);
        let number = remote(tables, &mut block, ChannelKind::Memory, (peer, buffer));
        tables.blocks[self.block as usize] = block;
        Operand::new(BufferRef::Remote(number), index, 1)
    }
}

#[test]
fn random_plans_run_as_proved() {
    let plans = std::env::var("MSCCLPP_RANDOM_PLANS").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    let (mut accepted, mut elided, mut double, mut packets) = (0_u64, 0_u64, 0_u64, 0_u64);
    for seed in 0..plans {
        let (plan, node) = Generator::plan(seed);
        if !check(&plan).is_empty() {
            continue;
        }
        accepted += 1;
        double += u64::from(plan.double_scratch);
        packets += u64::from(plan.protocol == Protocol::LL);
        let ranks = plan.ranks.len() as u32;
        let launches = ProcessLaunch::variants(ranks, node);
        let launch = &launches[seed as usize % launches.len()];
        let mut all = schedules(&plan, launch).expect("it is a plan");
        elided += u64::from(all.iter().any(|schedule| schedule.awaited.contains(&true)));
        validate_schedules(&plan, &mut all, launch)
            .unwrap_or_else(|invalid| panic!("seed {seed}, {launch:?}: {invalid}\n{plan:#?}"));
        if !launch.sharing.iter().flatten().any(|&sharing| sharing == Sharing::Lasting) {
            let run = as_run_by_processes(&plan, launch).expect("it is the plan");
            let outcome = ScheduleFuzzer::new(&run).run(seed).expect("it is small");
            assert!(!matches!(outcome, Outcome::Failed(_)), "seed {seed}, {launch:?}: {outcome:?}");
        }
    }
    let found = format!(
        "{accepted} of {plans} random plans accepted, {elided} of them with an opening, {double} with double scratch, \
         {packets} with packets"
    );
    println!("{found}");
    assert!(accepted > plans / 10 && elided > accepted / 2 && double.min(packets) > accepted / 50, "{found}");
}

/// A rank that exchanges packets with its peer, and then a chunk over each other's buffers.
const RANK: &str = "rank OWN (input 2, output 2, scratch 1) {
  block 0:
    ppkt memory rank PEER scratch[0] <- input[0]
    upkt output[0] <- scratch[0]
    rlxsignal memory rank PEER
    rlxwait memory rank PEER
    nop
    put memory rank PEER output[1] <- input[1]
    nop
    signal memory rank PEER
    wait memory rank PEER
}
";

/// Copies of callers' buffers are in memory of their own, which neither alternates nor contains packets.
#[test]
fn plan_with_packets_and_copies_runs_as_proved() {
    for header in ["", "double_scratch\n"] {
        let ranks = [0, 1].map(|rank| RANK.replace("OWN", &rank.to_string()).replace("PEER", &(1 - rank).to_string()));
        let text = format!("plan exchange\ncollective sendrecv\nranks 2\nprotocol LL\n{header}{}", ranks.concat());
        let plan = mscclpp_core::plan::text::parse(&text).expect("a plan");
        assert!(check(&plan).is_empty(), "{}", check(&plan));
        for launch in ProcessLaunch::variants(2, 2) {
            validate_processes(&plan, &launch).unwrap_or_else(|invalid| panic!("{header}, {launch:?}: {invalid}"));
        }
    }
}
