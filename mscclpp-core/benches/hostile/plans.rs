//! Plans that are made to take long: each family grows with one number.

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::raw::{
    BufferRef, ChannelTable, LoopBody, Op, OpKind, Operand, PlanTree, RankPlan, RemoteBuffer, Slice, ThreadBlock,
};
use mscclpp_core::types::{BufferKind, ChannelKind, Protocol, ReduceOp};

use BufferKind::{Input, Output, Scratch};
use OpKind as K;

/// A family of plans, by name.
pub(crate) type Family = (&'static str, fn(u32) -> PlanTree);

pub(crate) const FAMILIES: &[Family] = &[
    ("semaphore: operations of 1000 acquires, blocks of 1000 releases", |n| {
        let acquires = (0..n).flat_map(|_| [ids(K::SemaphoreAcquire, vec![0; 1000]), op(K::Nop)]).collect();
        let release = || vec![ids(K::SemaphoreRelease, vec![0; 1000])];
        one_rank(std::iter::once(acquires).chain((0..n).map(|_| release())).collect(), 1)
    }),
    ("semaphore: one block acquires what many release", |n| {
        let acquires = (0..n).flat_map(|_| [ids(K::SemaphoreAcquire, vec![0]), op(K::Nop)]).collect();
        let release = || vec![ids(K::SemaphoreRelease, vec![0])];
        one_rank(std::iter::once(acquires).chain((0..n).map(|_| release())).collect(), 1)
    }),
    ("semaphore: one operation acquires what many release", |n| {
        let acquires = vec![ids(K::SemaphoreAcquire, vec![0; n as usize])];
        let release = || vec![ids(K::SemaphoreRelease, vec![0])];
        one_rank(std::iter::once(acquires).chain((0..n).map(|_| release())).collect(), 1)
    }),
    ("semaphore: many acquire what one releases", |n| {
        let releases = (0..n).map(|_| ids(K::SemaphoreRelease, vec![0])).collect();
        let acquire = || vec![ids(K::SemaphoreAcquire, vec![0])];
        one_rank(std::iter::once(releases).chain((0..n).map(|_| acquire())).collect(), 1)
    }),
    ("semaphore: many acquire from a high initial value", |n| {
        let both = || vec![ids(K::SemaphoreAcquire, vec![0]), op(K::Nop), ids(K::SemaphoreRelease, vec![0])];
        let mut plan = one_rank((0..n).map(|_| both()).collect(), 1);
        plan.ranks[0].semaphores[0] = i64::from(n) + 1;
        plan
    }),
    ("semaphores: a chain of thread blocks", |n| {
        let block = |i: u32| {
            let acquire = (i > 0).then(|| ids(K::SemaphoreAcquire, vec![i - 1]));
            let release = (i + 1 < n).then(|| ids(K::SemaphoreRelease, vec![i]));
            acquire.into_iter().chain([op(K::Nop)]).chain(release).collect()
        };
        one_rank((0..n).map(block).collect(), n)
    }),
    ("channel: one operation of many ids", |n| {
        pair(1, |_| vec![vec![on(K::Signal, vec![0; n as usize]), on(K::Wait, vec![0; n as usize]), op(K::Nop)]])
    }),
    ("channel: many blocks signal, one waits", |n| {
        pair(1, |rank| match rank {
            0 => (0..n).map(|_| vec![on(K::Signal, vec![0])]).collect(),
            _ => vec![(0..n).flat_map(|_| [on(K::Wait, vec![0]), op(K::Nop)]).collect()],
        })
    }),
    ("channels: one operation signals on all", |n| {
        pair(n, |_| vec![vec![on(K::Signal, (0..n).collect()), on(K::Wait, (0..n).collect()), op(K::Nop)]])
    }),
    ("channels: as many waits as signals on none", |n| {
        pair(n, |rank| match rank {
            0 => vec![vec![on(K::Signal, (0..n).collect())]],
            _ => vec![vec![op(K::Nop)]],
        })
    }),
    ("deadlock: a long ring of blocks", |n| {
        let block =
            |i| vec![ids(K::SemaphoreAcquire, vec![i]), op(K::Nop), ids(K::SemaphoreRelease, vec![(i + 1) % n])];
        one_rank((0..n).map(block).collect(), n)
    }),
    ("deadlock: nobody releases first", |n| {
        let acquires = (0..n).map(|i| ids(K::SemaphoreAcquire, vec![i])).collect();
        let block = |i| vec![ids(K::SemaphoreAcquire, vec![n + i]), ids(K::SemaphoreRelease, vec![i])];
        let mut blocks: Vec<Vec<Op>> = vec![acquires];
        blocks.extend((0..n).map(block));
        blocks[0].extend((0..n).map(|i| ids(K::SemaphoreRelease, vec![n + i])));
        one_rank(blocks, 2 * n)
    }),
    ("barrier: all blocks, several times", |n| one_rank((0..n).map(|_| vec![barrier(0, n); 8]).collect(), 1)),
    ("barriers: pairs of blocks, row by row", |n| {
        let n = n.next_multiple_of(2);
        let pairs = |i: u32| {
            (0..8).map(move |row| {
                let first = if row % 2 == 0 { i / 2 * 2 } else { i.div_ceil(2) * 2 % n };
                barrier(row * n + first, 2)
            })
        };
        one_rank((0..n).map(|i| pairs(i).collect()).collect(), 1)
    }),
    ("copies: nested ranges of one buffer", |n| {
        let copy = |i| copy(local(Input, i, n - i), local(Output, i, n - i));
        chunks(n, vec![(0..n).map(copy).collect()])
    }),
    ("copies: every block reads everything", |n| {
        let read = |i: u32| vec![copy(local(Input, 0, n), local(Scratch, i * n, n))];
        let mut plan = chunks(n, (0..n).map(read).collect());
        plan.ranks[0].scratch_chunks = n * n;
        plan
    }),
    ("copies: single chunks, then readers of all", |n| {
        let write = |i| vec![copy(local(Input, i, 1), local(Scratch, i, 1)), barrier(0, n)];
        let read = |i: u32| [copy(local(Scratch, 0, n), local(Scratch, n + i * n, n))];
        let mut plan = chunks(n, (0..n).map(|i| write(i).into_iter().chain(read(i)).collect()).collect());
        plan.ranks[0].scratch_chunks = n * n + n;
        plan
    }),
    ("copies: races", |n| {
        let race =
            |i| vec![copy(local(Input, i, 1), local(Scratch, i, 1)), copy(local(Input, i, 1), local(Scratch, i, 1))];
        let mut plan = chunks(n, (0..2).map(|_| (0..n).flat_map(race).collect()).collect());
        plan.ranks[0].scratch_chunks = n;
        plan
    }),
    ("copies: one block behind the other", |n| {
        let copy = |i| [copy(local(Scratch, i, 1), local(Scratch, i + 1, 1)), op(K::Nop)];
        let first = [super::plans::copy(local(Input, 0, 1), local(Scratch, 0, 1)), op(K::Nop)];
        let mut plan = chunks(1, vec![first.into_iter().chain((0..n).flat_map(copy)).collect()]);
        plan.ranks[0].scratch_chunks = n + 1;
        plan
    }),
    ("reduce: sums of sums", |n| {
        let sum = |i: u32| [reduce(local(Scratch, i, 1), local(Scratch, i, 1), local(Scratch, i + 1, 1)), op(K::Nop)];
        let first = [copy(local(Input, 0, 1), local(Scratch, 0, 1)), op(K::Nop)];
        let mut plan = chunks(1, vec![first.into_iter().chain((0..n).flat_map(sum)).collect()]);
        plan.ranks[0].scratch_chunks = n + 1;
        plan
    }),
    ("reduce: one result of all inputs, again and again", |n| {
        let all = |i: u32| {
            let mut op = reduce(local(Scratch, 0, 1), local(Input, i, 1), local(Scratch, 0, 1));
            op.dsts = [local(Scratch, 0, 1)].into_iter().collect();
            [op, copy(local(Scratch, 0, 1), local(Output, i, 1))]
        };
        let first = [copy(local(Input, 0, 1), local(Scratch, 0, 1))];
        let mut plan = chunks(n, vec![first.into_iter().chain((0..n).flat_map(all)).collect()]);
        plan.ranks[0].scratch_chunks = 1;
        plan
    }),
    ("packets: one block reads and writes in turns", |n| {
        packets(n, |_| {
            vec![(0..n).flat_map(|i| [put_packets(local(Input, i, 1), i), unpack(i, 1, local(Output, i, 1))]).collect()]
        })
    }),
    ("packets: one block writes, then reads, then writes", |n| {
        packets(2 * n, |_| {
            let first = (0..n).map(|i| put_packets(local(Input, i, 1), i));
            let middle = (0..n).map(|i| unpack(i, 1, local(Output, i, 1)));
            let last = (0..n).map(|i| put_packets(local(Input, i, 1), n + i));
            vec![
                first.chain(middle).chain(last).collect(),
                (0..n).map(|i| unpack(n + i, 1, local(Output, n + i, 1))).collect(),
            ]
        })
    }),
    ("packets: many blocks write, many read all", |n| {
        packets(n, |_| {
            (0..n).map(|i| vec![put_packets(local(Input, i, 1), i), unpack(0, n, local(Output, 0, n))]).collect()
        })
    }),
    ("packets: ranges that shrink", |n| {
        packets(n, |_| {
            vec![
                (0..n).rev().map(|i| put_packets(local(Input, i, 1), i)).collect(),
                (0..n).map(|i| unpack(i, n - i, local(Output, i, n - i))).collect(),
            ]
        })
    }),
    ("packets: answers to parts of a range", |n| {
        packets(2 * n, |rank| match rank {
            0 => vec![
                vec![put_range(local(Input, 0, n), 0, n)],
                (0..n).map(|i| unpack(n + i, 1, local(Input, i, 1))).collect(),
            ],
            _ => (0..n)
                .map(|i| vec![unpack(i, 1, local(Output, i, 1)), put_packets(local(Output, i, 1), n + i)])
                .collect(),
        })
    }),
    ("port: many blocks give one port work", |n| {
        pair(1, |rank| match rank {
            0 => (0..n).map(|_| vec![port(K::Signal, vec![0])]).collect(),
            _ => vec![(0..n).flat_map(|_| [port(K::Wait, vec![0]), op(K::Nop)]).collect()],
        })
    }),
    ("port: one operation of many puts", |n| {
        pair(1, |rank| {
            let mut put = port(K::PutWithSignal, vec![0; n as usize]);
            put.srcs = (0..n).map(|i| local(Input, i, 1)).collect();
            put.dsts = (0..n).map(|i| Operand::new(BufferRef::Remote(0), i, 1)).collect();
            match rank {
                0 => vec![vec![put]],
                _ => vec![vec![port(K::Wait, vec![0; n as usize]), op(K::Nop)]],
            }
        })
        .with_chunks(n)
    }),
    ("switch: every rank of a large group reduces and stores", |n| {
        let group = (0..n).collect::<Vec<_>>();
        let rank = |rank: u32| {
            let mut both = op(K::SwitchReduceBroadcast);
            both.channel = Some(ChannelKind::Switch);
            both.reduce = Some(ReduceOp::Sum);
            both.srcs = [Operand::new(BufferRef::Switch(0), rank, 1)].into_iter().collect();
            both.dsts = both.srcs.clone();
            RankPlan {
                input_chunks: n,
                output_chunks: n,
                blocks: vec![ThreadBlock {
                    ops: vec![both],
                    channels: vec![(ChannelKind::Switch, vec![0].into())].into(),
                    ..ThreadBlock::default()
                }],
                channels: vec![ChannelTable::Switch { buffer: Input, groups: vec![group.clone()] }],
                ..RankPlan::default()
            }
        };
        tree((0..n).map(rank).collect(), n)
    }),
    ("groups: a slice of every size", |n| {
        let slice = |i: u32| Op {
            slice: Some(Slice { index: i % (i + 1), count: i + 1 }),
            ..copy(local(Input, i, 1), local(Output, i, 1))
        };
        chunks(n, vec![(0..n).map(slice).collect()])
    }),
    ("groups: one wide group", |n| {
        let slice = |i: u32| {
            vec![Op { slice: Some(Slice { index: i, count: n }), ..copy(local(Input, 0, 1), local(Output, 0, 1)) }]
        };
        chunks(1, (0..n).map(slice).collect())
    }),
    ("loops: units of every size", |n| {
        let unit = |i: u32| looped(64 * u64::from(i + 1), 1, vec![copy(local(Input, i, 1), local(Output, i, 1))]);
        chunks(n, vec![(0..n).map(unit).collect()])
    }),
    ("names that lead nowhere", |n| {
        chunks(1, vec![(0..n).map(|i| copy(local(Input, i + 1, 1), local(Output, i + 1, 1))).collect()])
    }),
    ("ranks: all signal all", |n| {
        let rank = |rank: u32| {
            let peers: Vec<u32> = (0..n).filter(|peer| *peer != rank).collect();
            let all: Vec<u32> = (0..n - 1).collect();
            RankPlan {
                input_chunks: 1,
                output_chunks: 1,
                blocks: vec![ThreadBlock {
                    ops: vec![on(K::Signal, all.clone()), on(K::Wait, all.clone()), op(K::Nop)],
                    channels: vec![(ChannelKind::Memory, all.into())].into(),
                    ..ThreadBlock::default()
                }],
                channels: vec![ChannelTable::Memory(peers)],
                ..RankPlan::default()
            }
        };
        tree((0..n.max(2)).map(rank).collect(), 1)
    }),
];

fn op(kind: OpKind) -> Op {
    Op::new(kind, Origin::UNKNOWN)
}

fn ids(kind: OpKind, ids: Vec<u32>) -> Op {
    Op { ids: ids.into(), ..op(kind) }
}

fn on(kind: OpKind, list: Vec<u32>) -> Op {
    Op { channel: Some(ChannelKind::Memory), ..ids(kind, list) }
}

fn port(kind: OpKind, list: Vec<u32>) -> Op {
    Op { channel: Some(ChannelKind::Port), ..ids(kind, list) }
}

fn barrier(number: u32, blocks: u32) -> Op {
    Op { num_blocks: blocks, ..ids(K::Barrier, vec![number]) }
}

fn local(buffer: BufferKind, index: u32, size: u32) -> Operand {
    Operand::local(buffer, index, size)
}

fn copy(src: Operand, dst: Operand) -> Op {
    Op { srcs: [src].into_iter().collect(), dsts: [dst].into_iter().collect(), ..op(K::Copy) }
}

fn reduce(first: Operand, second: Operand, dst: Operand) -> Op {
    let srcs = [first, second].into_iter().collect();
    Op { srcs, dsts: [dst].into_iter().collect(), reduce: Some(ReduceOp::Sum), ..op(K::Reduce) }
}

fn put_packets(src: Operand, index: u32) -> Op {
    put_range(src, index, 1)
}

fn put_range(src: Operand, index: u32, size: u32) -> Op {
    let dst = Operand::new(BufferRef::Remote(0), index, size);
    let (srcs, dsts) = ([src].into_iter().collect(), [dst].into_iter().collect());
    Op { channel: Some(ChannelKind::Memory), srcs, dsts, ..op(K::PutPackets) }
}

fn unpack(index: u32, size: u32, dst: Operand) -> Op {
    let srcs = [local(Scratch, index, size)].into_iter().collect();
    Op { srcs, dsts: [dst].into_iter().collect(), ..op(K::UnpackPackets) }
}

fn looped(unit: u64, num_chunks: u32, ops: Vec<Op>) -> Op {
    Op { body: Some(Box::new(LoopBody { unit, num_chunks, ops })), ..op(K::Pipeline) }
}

fn tree(ranks: Vec<RankPlan>, chunks: u32) -> PlanTree {
    PlanTree {
        name: "hostile".to_owned(),
        collective: Collective::new(CollectiveKind::Custom { input: chunks, output: chunks }),
        protocol: Protocol::Simple,
        reuse_resources: false,
        threads_per_block: 1024,
        double_scratch: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: u64::MAX,
        ranks_per_node: ranks.len() as u32,
        tags: Default::default(),
        ranks,
        expectations: Vec::new(),
        origins: Default::default(),
    }
}

/// One rank of these blocks.
fn one_rank(blocks: Vec<Vec<Op>>, semaphores: u32) -> PlanTree {
    let mut plan = chunks(1, blocks);
    plan.ranks[0].semaphores = vec![0; semaphores as usize];
    plan
}

/// One rank of these blocks, with so many chunks of input and output.
fn chunks(chunks: u32, blocks: Vec<Vec<Op>>) -> PlanTree {
    let block = |ops| ThreadBlock { ops, ..ThreadBlock::default() };
    let blocks = blocks.into_iter().map(block).collect();
    tree(vec![RankPlan { input_chunks: chunks, output_chunks: chunks, blocks, ..RankPlan::default() }], chunks)
}

/// Two ranks with so many channels of each kind between them; remote buffer 0 is the other rank's scratch.
fn pair(channels: u32, blocks: impl Fn(u32) -> Vec<Vec<Op>>) -> PlanTree {
    let rank = |rank: u32| {
        let block = |ops| ThreadBlock {
            ops,
            channels: [ChannelKind::Memory, ChannelKind::Port]
                .map(|kind| (kind, (0..channels).collect()))
                .into_iter()
                .collect(),
            remote_buffers: [ChannelKind::Memory, ChannelKind::Port]
                .map(|kind| (kind, vec![0].into()))
                .into_iter()
                .collect(),
        };
        let peers = vec![1 - rank; channels as usize];
        RankPlan {
            input_chunks: 1,
            output_chunks: 1,
            scratch_chunks: 1,
            blocks: blocks(rank).into_iter().map(block).collect(),
            channels: vec![ChannelTable::Memory(peers.clone()), ChannelTable::Port(peers)],
            remote_buffers: vec![RemoteBuffer { rank: 1 - rank, buffer: Scratch, memory: true, port: true }],
            ..RankPlan::default()
        }
    };
    tree((0..2).map(rank).collect(), 1)
}

/// Two ranks that send packets to each other's scratch, of so many chunks.
fn packets(chunks: u32, blocks: impl Fn(u32) -> Vec<Vec<Op>>) -> PlanTree {
    let mut plan = pair(1, blocks).with_chunks(chunks);
    plan.protocol = Protocol::LL;
    plan.double_scratch = true;
    plan
}

trait WithChunks {
    fn with_chunks(self, chunks: u32) -> Self;
}

impl WithChunks for PlanTree {
    fn with_chunks(mut self, chunks: u32) -> Self {
        for rank in &mut self.ranks {
            (rank.input_chunks, rank.output_chunks, rank.scratch_chunks) = (chunks, chunks, chunks);
        }
        self.collective.kind = CollectiveKind::Custom { input: chunks, output: chunks };
        self
    }
}
