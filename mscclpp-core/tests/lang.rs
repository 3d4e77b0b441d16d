//! The older API records what the newer one does.

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::{Code, Diagnostics};
use mscclpp_core::dsl::{MemoryChannel, Program};
use mscclpp_core::lang::ChannelType::{Proxy, Sm};
use mscclpp_core::lang::{Buffer, Collective, Context, DataFormat, MscclppProgram, PacketOptions};
use mscclpp_core::lower::lower;
use mscclpp_core::plan::{OpKind, Plan};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_core::vocab::{BufferKind, Protocol, Sync};

/// What the newer API records under the same specification as `trace`.
fn newer(trace: &Trace, body: impl FnOnce(&Program)) -> Trace {
    let program = Program::new(trace.spec.clone());
    body(&program);
    program.finish().expect("the newer program is right")
}

/// Both programs record the same and lower to one plan.
fn same(old: &Trace, new: &Trace) {
    assert_eq!(old, new);
    let [old, new] = [old, new].map(|trace| Plan::new(&lower(trace).expect("a right program lowers")));
    assert_eq!(old.image(), new.image());
}

fn others(ranks: usize, rank: usize) -> impl Iterator<Item = usize> {
    (0..ranks).filter(move |other| *other != rank)
}

/// Channels between pairs of ranks, both ends of a pair made together, by owner and peer.
fn channels(
    p: &Program,
    pairs: impl IntoIterator<Item = (usize, usize)>,
) -> BTreeMap<(usize, usize), MemoryChannel<'_>> {
    let mut channels = BTreeMap::new();
    for (a, b) in pairs {
        channels.insert((a, b), p.rank(a).memory_channel(b));
        channels.insert((b, a), p.rank(b).memory_channel(a));
    }
    channels
}

#[test]
fn an_allgather_equals_the_newer_one() {
    let n = 4;
    let old = MscclppProgram::new("allgather", Collective::all_gather(4, 1, true), 4, 1)
        .record(|p| {
            for r in 0..n {
                for peer in others(n, r) {
                    let c = p.chunk(r, Buffer::Input, 0, 1);
                    c.put(peer, Buffer::Output, r, 0, Sm);
                    c.signal(peer, Buffer::Output, r, 0, Sm);
                }
            }
            for r in 0..n {
                for peer in others(n, r) {
                    p.chunk(r, Buffer::Output, peer, 1).wait(peer, Buffer::Input, 0, 0, Sm);
                }
            }
        })
        .expect("a right program");
    let new = newer(&old, |p| {
        let channels = channels(p, (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))));
        for r in p.ranks() {
            for peer in p.ranks().filter(|peer| *peer != r) {
                let channel = channels[&(r.id(), peer.id())];
                channel.put(peer.output().chunk(r.id()), r.output().chunk(r.id()), 0);
                channel.signal(0).sync(Sync::Before);
            }
        }
        for r in p.ranks() {
            for peer in p.ranks().filter(|peer| *peer != r) {
                channels[&(r.id(), peer.id())].wait(0).sync(Sync::After);
            }
        }
    });
    assert_eq!(old.spec.collective.kind, CollectiveKind::AllGather);
    same(&old, &new);
}

/// The ring of the original's examples: reduce around, then pass the results on.
#[test]
fn an_allreduce_ring_equals_the_newer_one() {
    let n = 4;
    let old = MscclppProgram::new("ring", Collective::all_reduce(4, 4, true), 4, 1)
        .record(|p| {
            for step in 0..n - 1 {
                for index in 0..n {
                    let rank = (index + step) % n;
                    let (next, prev, last) = ((rank + 1) % n, (rank + n - 1) % n, (index + n - 1) % n);
                    p.chunk(rank, Buffer::Input, index, 1).signal(next, Buffer::Input, index, 0, Sm);
                    let c = p.chunk(rank, Buffer::Input, last, 1);
                    c.wait(prev, Buffer::Input, last, 0, Sm);
                    c.reduce(p.chunk(prev, Buffer::Input, last, 1), 0, Sm);
                }
            }
            for step in 0..n - 1 {
                for index in 0..n {
                    let rank = (index + step + n - 1) % n;
                    let (next, prev, last) = ((rank + 1) % n, (rank + n - 1) % n, (index + n - 1) % n);
                    let c = p.chunk(rank, Buffer::Output, index, 1);
                    c.put(next, None, -1, 0, Sm);
                    c.signal(next, Buffer::Input, index, 0, Sm);
                    p.chunk(rank, Buffer::Input, last, 1).wait(prev, Buffer::Input, last, 0, Sm);
                }
            }
        })
        .expect("a right program");
    let new = newer(&old, |p| {
        // Made in the order in which the older program comes to need them: 0-1, 3-0, 1-2, 2-3.
        let channels = channels(p, [(0, 1), (0, 3), (1, 2), (2, 3)]);
        let channel = |a: usize, b: usize| channels[&(a, b)];
        let input = |rank: usize, index: usize| p.rank(rank).input().chunk(index);
        for step in 0..n - 1 {
            for index in 0..n {
                let rank = (index + step) % n;
                let (next, prev, last) = ((rank + 1) % n, (rank + n - 1) % n, (index + n - 1) % n);
                channel(rank, next).signal(0).sync(Sync::Before);
                channel(rank, prev).wait(0).sync(Sync::After);
                channel(rank, prev).reduce(input(rank, last), input(prev, last), 0);
            }
        }
        for step in 0..n - 1 {
            for index in 0..n {
                let rank = (index + step + n - 1) % n;
                let (next, prev) = ((rank + 1) % n, (rank + n - 1) % n);
                channel(rank, next).put(input(next, index), input(rank, index), 0);
                channel(rank, next).signal(0).sync(Sync::Before);
                channel(rank, prev).wait(0).sync(Sync::After);
            }
        }
    });
    assert_eq!(old.spec.collective.chunk_factor, 1);
    same(&old, &new);
}

/// All pairs with packets: scatter, reduce, gather, unpack.
#[test]
fn an_allreduce_with_packets_equals_the_newer_one() {
    let n = 3;
    let old = MscclppProgram::new("packets", Collective::all_reduce(3, 9, true), 3, 2)
        .protocol(Protocol::LL)
        .use_double_scratch_buffer(true)
        .record(|p| {
            for r in 0..n {
                for peer in others(n, r) {
                    p.chunk(r, Buffer::Input, peer * n, n).put_packet(peer, Buffer::Scratch, r * n, peer, Sm);
                }
            }
            for r in 0..n {
                for index in 0..n {
                    let c = p.chunk(r, Buffer::Input, r * n + index, 1);
                    for peer in others(n, r) {
                        c.reduce_packet(p.chunk(r, Buffer::Scratch, peer * n + index, 1), index);
                    }
                    for peer in others(n, r) {
                        c.packet_put(peer, Buffer::Scratch, n * n + r * n + index, index, Sm);
                    }
                }
            }
            for r in 0..n {
                for peer in others(n, r) {
                    let c = p.chunk(r, Buffer::Scratch, n * n + peer * n, n);
                    c.copy_packet(r, Buffer::Input, peer * n, peer);
                }
            }
        })
        .expect("a right program");
    let new = newer(&old, |p| {
        let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * n * n)).collect();
        // One channel per pair and thread block, in the order in which the older program comes to need them.
        let mut channels = BTreeMap::new();
        let mut channel = |a: usize, b: usize, block: usize| {
            if let Some(channel) = channels.get(&(a, b, block)) {
                return *channel;
            }
            let (low, high) = (a.min(b), a.max(b));
            channels.insert((low, high, block), p.rank(low).memory_channel(high));
            channels.insert((high, low, block), p.rank(high).memory_channel(low));
            channels[&(a, b, block)]
        };
        for r in 0..n {
            for peer in others(n, r) {
                let source = p.rank(r).input().chunk(peer * n..(peer + 1) * n);
                channel(r, peer, peer).put_packets(scratch[peer].chunk(r * n..(r + 1) * n), source, peer);
            }
        }
        for r in 0..n {
            for index in 0..n {
                let mine = p.rank(r).input().chunk(r * n + index);
                for peer in others(n, r) {
                    p.rank(r).reduce_packets(mine, scratch[r].chunk(peer * n + index), index);
                }
                for peer in others(n, r) {
                    let there = scratch[peer].chunk(n * n + r * n + index);
                    channel(r, peer, index).put_packets(there, mine, index);
                }
            }
        }
        for r in p.ranks() {
            for peer in others(n, r.id()) {
                let from = n * n + peer * n;
                let there = r.input().chunk(peer * n..(peer + 1) * n);
                r.unpack_packets(there, scratch[r.id()].chunk(from..from + n), peer);
            }
        }
    });
    same(&old, &new);
}

fn kinds(trace: &Trace) -> Vec<OpKind> {
    trace.ops.iter().map(|recorded| recorded.op.kind).collect()
}

#[test]
fn a_proxy_makes_its_packets_in_own_scratch() {
    let trace = MscclppProgram::new("send_recv", Collective::send_recv(2, 1, false), 2, 1)
        .protocol(Protocol::LL)
        .record(|p| {
            for r in 0..2 {
                let temp = PacketOptions { temp_buffer: Some(Buffer::Scratch), temp_buffer_index: 0, ..Proxy.into() };
                p.chunk(r, Buffer::Input, 0, 1).put_packet(1 - r, Buffer::Scratch, 1, 0, temp);
                p.chunk(r, Buffer::Scratch, 1, 1).copy_packet(r, Buffer::Output, 0, 0);
            }
        })
        .expect("a right program");
    let one = [OpKind::CopyPackets, OpKind::PutPackets, OpKind::UnpackPackets];
    assert_eq!(kinds(&trace), [one, one].concat());
    assert_eq!(trace.ranks[0].scratch_chunks, 2);
}

#[test]
fn copy_packet_goes_both_ways_and_packets_are_forwarded() {
    let trace = MscclppProgram::new("both", Collective::all_gather(2, 1, false), 2, 1)
        .record(|p| {
            let made = p.chunk(0, Buffer::Input, 0, 1).copy_packet(0, Buffer::Scratch, -1, 0);
            let packets =
                |chan_type| PacketOptions { src_format: DataFormat::Packet, ..PacketOptions::from(chan_type) };
            assert_eq!((made.rank(), made.buffer(), made.index(), made.size()), (0, BufferKind::Scratch, 0, 1));
            let there = made.put_packet(1, Buffer::Scratch, -1, 0, packets(Sm));
            made.put_packet(1, Buffer::Scratch, -1, 0, packets(Proxy));
            there.copy_packet(1, Buffer::Output, 0, 0);
        })
        .expect("a right program");
    let expected = [OpKind::CopyPackets, OpKind::ReadPutPackets, OpKind::ReadPutPackets, OpKind::UnpackPackets];
    assert_eq!(kinds(&trace), expected);
    assert_eq!(trace.ranks[1].scratch_chunks, 2, "an index of -1 in scratch goes behind what was used");
}

#[test]
fn port_operations_share_a_channel_and_flush_waits_for_the_source() {
    let trace = MscclppProgram::new("send_recv", Collective::send_recv(2, 1, false), 2, 1)
        .record(|p| {
            for r in 0..2 {
                let c = p.chunk(r, Buffer::Input, 0, 1);
                c.put(1 - r, Buffer::Scratch, 0, 0, Proxy);
                c.signal(1 - r, Buffer::Scratch, 0, 0, Proxy);
                c.flush(1 - r, Buffer::Scratch, 0, 0, Proxy);
            }
            for r in 0..2 {
                let c = p.chunk(r, Buffer::Scratch, 0, 1);
                c.wait(1 - r, Buffer::Input, 0, 0, Proxy);
                c.copy(r, Buffer::Output, 0, 0);
                p.rank(r).barrier([0]);
            }
        })
        .expect("a right program");
    assert_eq!(trace.ranks[0].channels.len(), 1);
    assert!(trace.ops.iter().all(|recorded| recorded.op.ids.iter().all(|id| *id == 0)));
    let syncs: Vec<_> = trace.ops[..3].iter().map(|recorded| recorded.op.sync).collect();
    assert_eq!(syncs, [Sync::None, Sync::Before, Sync::After]);
}

/// Signals for different buffers must not be taken for each other.
#[test]
fn channels_differ_by_thread_block_kind_and_buffers() {
    let trace = MscclppProgram::new("many", Collective::all_gather(2, 1, false), 2, 1)
        .record(|p| {
            let c = p.chunk(0, Buffer::Input, 0, 1);
            c.signal(1, Buffer::Output, 0, 0, Sm);
            c.signal(1, Buffer::Scratch, 0, 0, Sm);
            c.signal(1, Buffer::Output, 0, 1, Sm);
            c.signal(1, Buffer::Output, 0, 0, Proxy);
            // The other end names them in another order.
            p.chunk(1, Buffer::Output, 0, 1).wait(0, Buffer::Input, 0, 1, Sm);
            p.chunk(1, Buffer::Scratch, 0, 1).wait(0, Buffer::Input, 0, 0, Sm);
            p.chunk(1, Buffer::Output, 0, 1).wait(0, Buffer::Input, 0, 0, Proxy);
            p.chunk(1, Buffer::Output, 0, 1).wait(0, Buffer::Input, 0, 0, Sm);
        })
        .expect("a right program");
    let ids: Vec<_> = trace.ops.iter().map(|recorded| (recorded.op.channel, recorded.op.ids[0])).collect();
    let (signals, waits) = ids.split_at(4);
    assert_eq!(signals[2..], [waits[0], waits[2]]);
    assert_eq!([signals[1], signals[0]], [waits[1], waits[3]]);
    assert_eq!(signals.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [0, 1, 2, 0]);
}

#[test]
fn the_switch_is_made_once_for_a_place_and_its_ranks() {
    let n = 3;
    let trace = MscclppProgram::new("nvls", Collective::all_reduce(3, 3, true), 3, 1)
        .record(|p| {
            for r in 0..n {
                let c = p.chunk(r, Buffer::Input, r, 1);
                let others: Vec<_> = others(n, r).collect();
                let chunks: Vec<_> = others.iter().map(|&peer| p.chunk(peer, Buffer::Input, r, 1)).collect();
                c.group_load_reduce(&chunks, 0).group_store(&others, 0);
            }
        })
        .expect("a right program");
    assert_eq!(kinds(&trace), [[OpKind::SwitchReduce, OpKind::SwitchBroadcast]; 3].concat());
    assert!(trace.ranks.iter().all(|rank| rank.channels.len() == 1));
}

#[test]
fn in_place_names_are_one_memory_and_copies_onto_themselves_vanish() {
    let record = |collective| {
        MscclppProgram::new("t", collective, 2, 1).record(|p| {
            let input = p.chunk(1, Buffer::Input, 0, 1);
            assert_eq!(input.index(), 1);
            assert_eq!(input.copy(1, Buffer::Output, 1, 0), input);
        })
    };
    assert_eq!(record(Collective::all_gather(2, 1, true)).map(|trace| trace.ops.len()), Ok(0));
    let trace = MscclppProgram::new("t", Collective::reduce_scatter(2, 2, true), 2, 1)
        .record(|p| assert_eq!(p.chunk(1, Buffer::Output, 1, 1), p.chunk(1, Buffer::Input, 3, 1)));
    assert!(trace.is_ok());
    let trace = MscclppProgram::new("t", Collective::all_reduce(2, 2, true), 2, 1)
        .record(|p| assert_eq!(p.chunk(1, Buffer::Output, 1, 1), p.chunk(1, Buffer::Input, 1, 1)));
    assert!(trace.is_ok());
}

#[test]
fn chunk_counts_that_are_no_multiple_of_the_ranks_are_cut_finer() {
    let trace = MscclppProgram::new("t", Collective::all_reduce(4, 2, false), 4, 1)
        .record(|p| _ = p.chunk(3, Buffer::Input, 1, 1).copy(3, Buffer::Scratch, -1, 0).copy(3, Buffer::Output, 1, 0))
        .expect("a right program");
    let spans: Vec<_> =
        trace.ops.iter().map(|recorded| (recorded.op.srcs[0].index, recorded.op.srcs[0].size)).collect();
    assert_eq!(spans, [(2, 2), (0, 2)]);
    assert_eq!((trace.ranks[3].input_chunks, trace.ranks[3].scratch_chunks), (4, 2));
}

#[test]
fn fusion_and_the_other_settings_reach_the_specification() {
    let trace = MscclppProgram::new("t", Collective::broadcast(4, 1, false, 2), 4, 3)
        .instr_fusion(false)
        .num_threads_per_block(512)
        .num_ranks_per_node(2)
        .min_message_size(16)
        .max_message_size(1 << 20)
        .record(|p| assert_eq!(p.num_ranks(), 4))
        .expect("a right program");
    let spec = AlgoSpec {
        fuse: false,
        threads_per_block: 512,
        ranks_per_node: 2,
        min_message_size: 16,
        max_message_size: 1 << 20,
        instances: 3,
        collective: trace.spec.collective,
        ..AlgoSpec::new("t", CollectiveKind::Broadcast, 4)
    };
    assert_eq!(trace.spec, spec);
    assert_eq!(trace.spec.collective.root, 2);
}

fn codes(body: impl FnOnce(&Context<'_>)) -> Vec<Code> {
    let found: Diagnostics =
        MscclppProgram::new("t", Collective::all_gather(2, 2, false), 2, 1).record(body).err().unwrap_or_default();
    for diagnostic in found.iter() {
        assert!(diagnostic.site.to_string().contains("tests/lang.rs"), "{diagnostic}");
    }
    found.into_iter().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn mistakes_are_collected_with_their_places() {
    let found = codes(|p| {
        let c = p.chunk(0, Buffer::Input, 0, 2);
        p.chunk(2, Buffer::Input, 0, 1).put(0, None, -1, 0, Sm);
        p.chunk(0, Buffer::Input, 2, 1);
        p.chunk(0, Buffer::Output, -1, 1);
        p.chunk(0, Buffer::Scratch, u64::MAX, 1);
        p.chunk(0, Buffer::Input, 0, 0);
        c.put(0, Buffer::Output, 0, 0, Sm);
        c.put(1, Buffer::Output, 3, 0, Sm);
        c.copy(1, Buffer::Output, 0, 0);
        c.get(1, Buffer::Input, 0, 0, Proxy);
        c.flush(1, Buffer::Input, 0, 0, Sm);
        c.reduce(p.chunk(1, Buffer::Input, 0, 2), 0, Proxy);
        c.reduce(p.chunk(1, Buffer::Input, 0, 1), 0, Sm);
        c.split(3);
        c.split(0);
        c.group(p.chunk(0, Buffer::Output, 0, 1));
        p.chunk(0, Buffer::Output, 0, 1).group(p.chunk(0, Buffer::Output, 2, 1));
        c.put_packet(1, Buffer::Output, 0, 0, Sm);
        c.put_packet(1, Buffer::Scratch, 0, 0, Proxy);
        c.copy_packet(0, Buffer::Output, 0, 0);
        c.reduce_packet(p.chunk(1, Buffer::Scratch, 0, 2), 0);
        c.reduce_packet(p.chunk(0, Buffer::Output, 0, 2), 0);
        c.group_load_reduce(&[p.chunk(1, Buffer::Output, 0, 2)], 0);
        c.copy(0, Buffer::Output, 0, 1 << 16);
        p.rank(0).barrier([1, 1]);
    });
    use Code::*;
    let expected = [
        RankOutOfRange,
        ChunkOutOfRange,
        ChunkOutOfRange,
        ChunkOutOfRange,
        EmptyChunk,
        SelfChannel,
        ChunkOutOfRange,
        WrongRank,
        WrongChannel,
        WrongChannel,
        WrongChannel,
        SizeMismatch,
        SizeMismatch,
        SizeMismatch,
        ChunksApart,
        ChunksApart,
        NotScratch,
        NotScratch,
        NotScratch,
        WrongRank,
        NotScratch,
        ChunksApart,
        BlockOutOfRange,
        BadBarrier,
    ];
    assert_eq!(found, expected);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |collective, ranks, instances| {
        let result = MscclppProgram::new("t", collective, ranks, instances).record(|_| ());
        result.err().into_iter().flatten().map(|diagnostic| diagnostic.code).collect::<Vec<_>>()
    };
    assert_eq!(refused(Collective::all_reduce(0, 1, false), 0, 1), [Code::NoRanks]);
    assert_eq!(refused(Collective::all_reduce(4, 4, false), 8, 1), [Code::BadSpec]);
    assert_eq!(refused(Collective::all_reduce(4, 4, false), 4, 0), [Code::BadSpec]);
    assert_eq!(refused(Collective::all_reduce(4, u32::MAX, false), 4, 4), [Code::TooLarge]);
    assert_eq!(refused(Collective::all_reduce(65521, 100_003, false), 65521, 1), [Code::TooLarge]);
}
