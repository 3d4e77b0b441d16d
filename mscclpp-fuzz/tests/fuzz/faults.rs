//! Programs with one known defect each, and the nearest program without it.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BlockSync, Protocol};
use mscclpp_fuzz::{Failure, ScheduleFuzzer};

use super::runs::seeds;

/// Seeds within which a defect must be found, and with which the fixed program must pass.
const SEEDS: u64 = 60;

fn in_place(kind: CollectiveKind, ranks: u32) -> AlgoSpec {
    let mut spec = AlgoSpec::new("planted", kind, ranks);
    spec.collective.in_place = true;
    spec
}

fn packets(spec: AlgoSpec) -> AlgoSpec {
    AlgoSpec { protocol: Protocol::LL, ..spec }
}

/// Returns the plan of a program, unchecked.
pub(crate) fn plan(spec: AlgoSpec, body: impl FnOnce(&Program)) -> PlanTree {
    let program = Program::new(spec);
    body(&program);
    lower(&program.finish().expect("a program that can be recorded")).expect("one that can be lowered")
}

#[track_caller]
fn expect_failure(plan: &PlanTree) -> Failure {
    let found = ScheduleFuzzer::new(plan).find_failure(0..SEEDS).expect("it can be run");
    let (seed, failure) = found.expect("the fault is found");
    println!("seed {seed}: {failure}");
    failure
}

#[track_caller]
fn expect_pass(plan: &PlanTree) {
    let found = ScheduleFuzzer::new(plan).find_failure(0..seeds(SEEDS)).expect("it can be run");
    assert_eq!(found.map(|(seed, failure)| format!("seed {seed}: {failure}")), None);
}

/// All-gather: every rank puts its chunk to every other rank for which `puts` returns true, from the first to the
/// second.
fn all_gather(ranks: u32, before: bool, after: bool, relaxed: bool, puts: impl Fn(usize, usize) -> bool) -> PlanTree {
    plan(in_place(CollectiveKind::AllGather, ranks), |p| {
        for rank in p.ranks() {
            for peer in p.ranks().filter(|peer| peer.id() != rank.id()) {
                let channel = rank.memory_channel(peer);
                if before {
                    channel.signal(0).relaxed();
                    channel.wait(0).relaxed().sync(BlockSync::After);
                }
                if puts(rank.id(), peer.id()) {
                    channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
                }
                if after && relaxed {
                    channel.signal(0).relaxed().sync(BlockSync::Before);
                    channel.wait(0).relaxed().sync(BlockSync::After);
                } else if after {
                    channel.signal(0).sync(BlockSync::Before);
                    channel.wait(0).sync(BlockSync::After);
                }
            }
        }
    })
}

#[test]
fn missing_transfer_fails() {
    expect_pass(&all_gather(4, true, true, false, |_, _| true));
    let failure = expect_failure(&all_gather(4, true, true, false, |from, to| (from, to) != (2, 1)));
    assert!(matches!(failure, Failure::Wrong { rank: 1, chunk: 2, .. }), "{failure}");
}

#[test]
fn double_counting_fails() {
    let program = |both: bool| {
        plan(in_place(CollectiveKind::AllReduce, 2), |p| {
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                for chunk in (0..2).filter(|&chunk| both || chunk == rank.id()) {
                    channel.reduce(rank.input().chunk(chunk), [peer.input().chunk(chunk)], 0);
                    if !both {
                        channel.put(peer.input().chunk(chunk), rank.input().chunk(chunk), 0);
                    }
                }
                channel.signal(0).sync(BlockSync::Before);
                channel.wait(0).sync(BlockSync::After);
            }
        })
    };
    expect_pass(&program(false));
    expect_failure(&program(true));
}

#[test]
fn circular_wait_fails() {
    let program = |first: usize| {
        plan(in_place(CollectiveKind::AllGather, 2), |p| {
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
                if rank.id() < first {
                    channel.signal(0).sync(BlockSync::Before);
                    channel.wait(0).sync(BlockSync::After);
                } else {
                    channel.wait(0).sync(BlockSync::Both);
                    channel.signal(0).sync(BlockSync::Before);
                }
            }
        })
    };
    expect_pass(&program(2));
    expect_pass(&program(1));
    assert!(matches!(expect_failure(&program(0)), Failure::Stalled { .. }));
}

#[test]
fn crossed_channels_fail() {
    let program = |waits: [usize; 2]| {
        plan(in_place(CollectiveKind::AllGather, 2), |p| {
            for rank in p.ranks() {
                let id = rank.id();
                let peer = p.rank(1 - id);
                let channels = [rank.memory_channel(peer), rank.memory_channel(peer)];
                channels[0].signal(0).relaxed();
                channels[0].wait(0).relaxed().sync(BlockSync::After);
                channels[0].put(peer.output().chunk(id), rank.output().chunk(id), 0);
                channels[id].signal(0).sync(BlockSync::Before);
                channels[waits[id]].wait(0).sync(BlockSync::After);
            }
        })
    };
    expect_pass(&program([1, 0]));
    assert!(matches!(expect_failure(&program([1, 1])), Failure::Stalled { .. }));
}

#[test]
fn unsynchronized_blocks_fail() {
    // Two blocks put a chunk together, one of them signals.
    let group = |together: bool| {
        plan(in_place(CollectiveKind::AllGather, 2), |p| {
            let blocks = p.thread_block_group(0..2);
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                rank.barrier([0, 1]);
                channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), &blocks);
                if together {
                    rank.barrier([0, 1]);
                }
                channel.signal(0).sync(BlockSync::Before);
                channel.wait(0).sync(BlockSync::After);
            }
        })
    };
    expect_pass(&group(true));
    expect_failure(&group(false));
    // One block reduces, another one sends the sum.
    let hand_over = |ordered: bool| {
        plan(in_place(CollectiveKind::AllReduce, 2), |p| {
            let semaphores: Vec<_> = p.ranks().map(|rank| rank.semaphore(0)).collect();
            for rank in p.ranks() {
                let (id, peer) = (rank.id(), p.rank(1 - rank.id()));
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                channel.reduce(rank.input().chunk(id), [peer.input().chunk(id)], 0);
                if ordered {
                    semaphores[id].release(0).sync(BlockSync::Before);
                    semaphores[id].acquire(1).sync(BlockSync::After);
                }
                channel.put(peer.input().chunk(id), rank.input().chunk(id), 1);
                channel.signal(1).sync(BlockSync::Before);
                channel.wait(1).sync(BlockSync::After);
            }
        })
    };
    expect_pass(&hand_over(true));
    expect_failure(&hand_over(false));
}

#[test]
fn missing_handshake_fails() {
    expect_pass(&all_gather(2, true, true, false, |_, _| true));
    expect_failure(&all_gather(2, false, true, false, |_, _| true));
    expect_failure(&all_gather(2, true, false, false, |_, _| true));
    // The final signal may be relaxed: no operation reads after it in the same launch.
    expect_pass(&all_gather(3, true, true, true, |_, _| true));
}

#[test]
fn relaxed_publication_fails() {
    let program = |relaxed: bool| {
        plan(in_place(CollectiveKind::AllReduce, 2), |p| {
            let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                channel.put(scratch[peer.id()].chunk(0..2), rank.input().chunk(0..2), 0);
                if relaxed {
                    channel.signal(0).relaxed().sync(BlockSync::Before);
                    channel.wait(0).relaxed().sync(BlockSync::After);
                } else {
                    channel.signal(0).sync(BlockSync::Before);
                    channel.wait(0).sync(BlockSync::After);
                }
                rank.reduce(rank.input().chunk(0..2), [scratch[rank.id()].chunk(0..2)], 0);
            }
        })
    };
    expect_pass(&program(false));
    expect_failure(&program(true));
}

#[test]
fn packets_overwritten_by_the_next_launch_fail() {
    let one_shot = |double_scratch: bool| {
        let spec = AlgoSpec { double_scratch, ..packets(AlgoSpec::new("planted", CollectiveKind::AllReduce, 3)) };
        plan(spec, |p| {
            let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(9)).collect();
            for rank in p.ranks() {
                let mine = rank.input().chunk(0..3);
                let slot = |of: usize| 3 * of..3 * of + 3;
                let peers = || p.ranks().filter(|peer| peer.id() != rank.id());
                for peer in peers() {
                    rank.memory_channel(peer).put_packets(scratch[peer.id()].chunk(slot(rank.id())), mine, 0);
                }
                let slots: Vec<_> = peers().map(|peer| scratch[rank.id()].chunk(slot(peer.id()))).collect();
                rank.reduce_packets(mine, slots, 0).to(rank.output().chunk(0..3));
            }
        })
    };
    expect_pass(&one_shot(true));
    expect_failure(&one_shot(false));
    // The result's packet acknowledges the packets from which it was computed.
    expect_pass(&two_phase());
}

/// Every rank reduces one chunk from packets and sends the result as packets; one scratch buffer.
fn two_phase() -> PlanTree {
    plan(packets(in_place(CollectiveKind::AllReduce, 3)), |p| {
        let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(6)).collect();
        for rank in p.ranks() {
            let id = rank.id();
            let peers = || p.ranks().filter(|peer| peer.id() != id);
            for peer in peers() {
                let channel = rank.memory_channel(peer);
                channel.put_packets(scratch[peer.id()].chunk(id), rank.input().chunk(peer.id()), 0);
            }
            let parts: Vec<_> = peers().map(|peer| scratch[id].chunk(peer.id())).collect();
            rank.reduce_packets(rank.input().chunk(id), parts, 0);
            for peer in peers() {
                rank.memory_channel(peer).put_packets(scratch[peer.id()].chunk(3 + id), rank.input().chunk(id), 0);
            }
            for peer in peers() {
                rank.unpack_packets(rank.input().chunk(peer.id()), scratch[id].chunk(3 + peer.id()), 0);
            }
        }
    })
}

#[test]
fn unbalanced_counters_fail() {
    let program = |releases: usize| {
        plan(in_place(CollectiveKind::AllGather, 2), |p| {
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let semaphore = rank.semaphore(0);
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                for _ in 0..releases {
                    semaphore.release(0).sync(BlockSync::Before);
                }
                semaphore.acquire(1).sync(BlockSync::After);
                channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 1);
                channel.signal(1).sync(BlockSync::Before);
                channel.wait(1).sync(BlockSync::After);
            }
        })
    };
    expect_pass(&program(1));
    expect_failure(&program(2));
    // Signals in a loop, one wait outside of it.
    let in_loop = |both: bool| {
        let mut spec = in_place(CollectiveKind::AllGather, 2);
        spec.auto_sync = true;
        plan(spec, |p| {
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                p.pipeline(64, 1, || {
                    channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
                    channel.signal(0).sync(BlockSync::Before);
                    if both {
                        channel.wait(0).sync(BlockSync::After);
                    }
                });
                if !both {
                    channel.wait(0).sync(BlockSync::After);
                }
            }
        })
    };
    expect_pass(&in_loop(true));
    expect_failure(&in_loop(false));
}

#[test]
fn packets_overlapping_plain_data_fail() {
    // Packet chunk 0 overlaps plain chunks 0 and 1.
    let program = |plain: usize| {
        plan(packets(in_place(CollectiveKind::AllReduce, 2)), |p| {
            let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(6)).collect();
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let channel = rank.memory_channel(peer);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                channel.put_packets(scratch[peer.id()].chunk(0), rank.input().chunk(0), 0);
                channel.put(scratch[peer.id()].chunk(plain), rank.input().chunk(1), 0);
                channel.signal(0).sync(BlockSync::Before);
                channel.wait(0).sync(BlockSync::After);
                rank.reduce_packets(rank.input().chunk(0), [scratch[rank.id()].chunk(0)], 0);
                rank.reduce(rank.input().chunk(1), [scratch[rank.id()].chunk(plain)], 0);
            }
        })
    };
    expect_pass(&program(2));
    expect_failure(&program(1));
}

#[test]
fn reused_source_of_a_port_put_fails() {
    let program = |flush: bool| {
        plan(AlgoSpec::new("planted", CollectiveKind::AllReduce, 2), |p| {
            let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(4)).collect();
            for rank in p.ranks() {
                let (id, peer) = (rank.id(), p.rank(1 - rank.id()));
                let channel = rank.port_channel(peer);
                let staged = scratch[id].chunk(2);
                channel.signal(0);
                channel.wait(0).sync(BlockSync::After);
                for chunk in 0..2 {
                    rank.copy(staged, rank.input().chunk(chunk), 0);
                    channel.put_with_signal(scratch[peer.id()].chunk(chunk), staged, 0);
                    if flush || chunk == 1 {
                        channel.flush(0).sync(BlockSync::After);
                    }
                }
                for chunk in 0..2 {
                    channel.wait(0).sync(BlockSync::After);
                    rank.copy(rank.output().chunk(chunk), scratch[id].chunk(chunk), 0);
                    rank.reduce(rank.output().chunk(chunk), [rank.input().chunk(chunk)], 0);
                }
            }
        })
    };
    expect_pass(&program(true));
    expect_failure(&program(false));
}

#[test]
fn send_buffer_reused_by_the_caller_fails() {
    let program = |flush: bool| {
        plan(AlgoSpec::new("planted", CollectiveKind::SendRecv, 2), |p| {
            for rank in p.ranks() {
                let peer = p.rank(1 - rank.id());
                let channel = rank.port_channel(peer);
                channel.signal(0);
                channel.wait(0).sync(BlockSync::After);
                channel.put_with_signal(peer.output().chunk(0), rank.input().chunk(0), 0);
                if flush {
                    channel.flush(0);
                }
                channel.wait(0).sync(BlockSync::After);
            }
        })
    };
    expect_pass(&program(true));
    expect_failure(&program(false));
}

#[test]
fn same_seed_gives_the_same_result() {
    let plan = all_gather(2, false, true, false, |_, _| true);
    for seed in 0..10 {
        let fuzz = || ScheduleFuzzer::new(&plan).run(seed).expect("it can be run");
        assert_eq!(fuzz(), fuzz());
    }
}
