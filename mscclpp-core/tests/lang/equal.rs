//! Whole programs in both APIs.

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::{MemoryChannel, Program};
use mscclpp_core::lang::ChannelType::Sm;
use mscclpp_core::lang::{Buffer, Collective, MscclppProgram};
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::trace::Trace;
use mscclpp_core::types::{BlockSync, Protocol};

use super::others;

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
                channel.signal(0).sync(BlockSync::Before);
            }
        }
        for r in p.ranks() {
            for peer in p.ranks().filter(|peer| *peer != r) {
                channels[&(r.id(), peer.id())].wait(0).sync(BlockSync::After);
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
                channel(rank, next).signal(0).sync(BlockSync::Before);
                channel(rank, prev).wait(0).sync(BlockSync::After);
                channel(rank, prev).reduce(input(rank, last), input(prev, last), 0);
            }
        }
        for step in 0..n - 1 {
            for index in 0..n {
                let rank = (index + step + n - 1) % n;
                let (next, prev) = ((rank + 1) % n, (rank + n - 1) % n);
                channel(rank, next).put(input(next, index), input(rank, index), 0);
                channel(rank, next).signal(0).sync(BlockSync::Before);
                channel(rank, prev).wait(0).sync(BlockSync::After);
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
