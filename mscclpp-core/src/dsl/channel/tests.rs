use crate::check::check;
use crate::collective::CollectiveKind;
use crate::diag::{Code, Diagnostic, Site};
use crate::dsl::{Channels, MemoryChannel, Program, Rank};
use crate::lower::lower;
use crate::plan::{OpKind, PlanTree};
use crate::spec::AlgoSpec;
use crate::trace::Trace;
use crate::types::{BlockSync, ChannelKind};

fn program(ranks: u32) -> Program {
    Program::new(AlgoSpec::new("t", CollectiveKind::AllGather, ranks))
}

fn record(ranks: u32, body: impl FnOnce(&Program)) -> Trace {
    let program = program(ranks);
    body(&program);
    program.finish().expect("the program is right")
}

fn plan(ranks: u32, body: impl FnOnce(&Program)) -> PlanTree {
    lower(&record(ranks, body)).expect("the trace is right")
}

fn refused(ranks: u32, body: impl FnOnce(&Program)) -> Vec<Diagnostic> {
    let program = program(ranks);
    body(&program);
    program.finish().expect_err("the program is wrong").into_iter().collect()
}

fn others<'p>(p: &'p Program, rank: Rank<'p>) -> impl Iterator<Item = Rank<'p>> {
    p.ranks().filter(move |peer| *peer != rank)
}

/// Kind, channel type, number of the channel, block sync, thread block.
type Recorded = (OpKind, Option<ChannelKind>, u32, BlockSync, u32);

fn recorded(trace: &Trace) -> Vec<Recorded> {
    let ops = trace.ops.iter();
    ops.map(|traced| (traced.op.kind, traced.op.channel, traced.op.ids[0], traced.op.sync, traced.block)).collect()
}

fn line(diagnostic: &Diagnostic) -> u32 {
    let Site::Source(location) = &diagnostic.site else { panic!("{diagnostic} has no location") };
    assert!(location.file.ends_with("tests.rs"), "{location}");
    location.line
}

#[test]
fn handshake_signals_all_channels_and_then_waits_for_all() {
    let (memory, port) = (Some(ChannelKind::Memory), Some(ChannelKind::Port));
    let trace = record(3, |p| _ = p.rank(0).memory_channels([1, 2]).handshake(5));
    let expected = [
        (OpKind::Signal, memory, 0, BlockSync::Before, 5),
        (OpKind::Signal, memory, 1, BlockSync::Before, 5),
        (OpKind::Wait, memory, 0, BlockSync::Both, 5),
        (OpKind::Wait, memory, 1, BlockSync::Both, 5),
    ];
    assert_eq!(recorded(&trace), expected);
    let trace = record(3, |p| _ = p.rank(0).port_channel(2).handshake(1).sync(BlockSync::After));
    let expected = [(OpKind::Signal, port, 0, BlockSync::None, 1), (OpKind::Wait, port, 0, BlockSync::After, 1)];
    assert_eq!(recorded(&trace), expected);
    let trace = record(3, |p| _ = [p.rank(1).memory_channel(0)].handshake(0).sync(BlockSync::Both).relaxed());
    let expected = [
        (OpKind::RelaxedSignal, memory, 0, BlockSync::Before, 0),
        (OpKind::RelaxedWait, memory, 0, BlockSync::After, 0),
    ];
    assert_eq!(recorded(&trace), expected);
}

#[test]
fn handshakes_lower_to_the_plan_of_their_signals_and_waits() {
    let short = plan(4, |p| {
        for rank in p.ranks() {
            let channels = rank.memory_channels(others(p, rank));
            channels.handshake(0).relaxed();
            for channel in &channels {
                channel.put(channel.peer().output().chunk(rank.id()), rank.input().chunk(0), 0);
            }
            rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
            channels.handshake(0);
        }
    });
    let long = plan(4, |p| {
        for rank in p.ranks() {
            let peers: Vec<_> = others(p, rank).collect();
            let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
            for channel in &channels {
                channel.signal(0).relaxed();
            }
            for channel in &channels {
                channel.wait(0).relaxed().sync(BlockSync::After);
            }
            for (channel, peer) in channels.iter().zip(&peers) {
                channel.put(peer.output().chunk(rank.id()), rank.input().chunk(0), 0);
            }
            rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
            for channel in &channels {
                channel.signal(0).sync(BlockSync::Before);
            }
            for channel in &channels {
                channel.wait(0);
            }
        }
    });
    assert_eq!(short, long);
    assert!(check(&short).is_empty(), "{}", check(&short));
}

#[test]
fn handshake_without_block_syncs_is_a_signal_and_a_wait_without_them() {
    for sync in [BlockSync::None, BlockSync::Before, BlockSync::After, BlockSync::Both] {
        let short = plan(2, |p| _ = p.rank(0).memory_channel(1).handshake(0).sync(sync));
        let long = plan(2, |p| {
            let channel = p.rank(0).memory_channel(1);
            channel.signal(0).sync(sync.without(BlockSync::After));
            channel.wait(0).sync(sync.without(BlockSync::Before));
        });
        assert_eq!(short, long, "{sync:?}");
    }
}

#[test]
fn handshake_over_no_channels_records_nothing() {
    let trace = record(2, |p| {
        let none: Vec<MemoryChannel<'_>> = p.rank(0).memory_channels(Vec::<usize>::new());
        none.handshake(0).relaxed().sync(BlockSync::None);
        assert!(p.rank(0).port_channels(0..0).is_empty());
    });
    assert!(trace.ops.is_empty());
}

#[test]
fn channel_that_is_listed_twice_is_signaled_twice() {
    let trace = record(2, |p| {
        let channel = p.rank(0).memory_channel(1);
        [channel, channel].handshake(0);
    });
    let kinds: Vec<_> = trace.ops.iter().map(|traced| traced.op.kind).collect();
    assert_eq!(kinds, [OpKind::Signal, OpKind::Signal, OpKind::Wait, OpKind::Wait]);
}

#[test]
fn handshake_over_channels_of_two_ranks_is_refused() {
    let mut here = 0;
    let found = refused(3, |p| {
        let (a, b) = (p.rank(0).memory_channel(1), p.rank(2).memory_channel(1));
        here = line!() + 1;
        [a, b].handshake(0).relaxed();
    });
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].code, line(&found[0])), (Code::WrongRank, here));
    let message = "found a memory channel of rank 0 to rank 1 and a memory channel of rank 2 to rank 1";
    assert!(found[0].to_string().contains(message), "{}", found[0]);
}

#[test]
fn invalid_peers_and_blocks_are_reported_once_each() {
    let mut here = 0;
    let found = refused(3, |p| {
        here = line!() + 1;
        let channels = p.rank(1).memory_channels((0..4).map(|id| if id == 0 { p.rank(0).id() } else { id }));
        assert_eq!(channels.len(), 4);
        channels.handshake(0);
        channels.handshake(1 << 20).sync(BlockSync::None);
    });
    let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::SelfChannel, Code::RankOutOfRange, Code::ThreadBlockOutOfRange]);
    assert_eq!(found.iter().map(line).collect::<Vec<_>>(), [here, here, here + 3]);
}

#[test]
fn call_inside_a_list_of_peers_does_not_move_the_finding() {
    let mut here = 0;
    let found = refused(2, |p| {
        let ids = [0, 9].map(|id| move || id);
        here = line!() + 1;
        p.rank(0).memory_channels(ids.iter().map(|id| {
            p.rank(1).input();
            id()
        }));
    });
    assert_eq!(found.iter().map(line).collect::<Vec<_>>(), [here, here]);
}

#[test]
fn channel_of_another_program_is_refused() {
    let other = program(2);
    let found = refused(2, |p| _ = [p.rank(0).memory_channel(1), other.rank(0).memory_channel(1)].handshake(0));
    assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), [Code::ForeignHandle]);
}

#[test]
fn handshake_that_the_peer_does_not_make_is_reported_at_its_line() {
    let mut here = 0;
    let trace = record(2, |p| {
        let (to_b, _to_a) = (p.rank(0).memory_channel(1), p.rank(1).memory_channel(0));
        here = line!() + 1;
        to_b.handshake(0);
    });
    let tree = lower(&trace).expect("the trace is right");
    let found = check(&tree);
    let unmatched = found.iter().find(|finding| finding.code == Code::UnmatchedWait).expect("no peer signals");
    assert_eq!(line(unmatched), here, "{unmatched}");
}
