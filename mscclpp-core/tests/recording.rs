//! Recording through the public API: what the calls put into the trace, and what they refuse.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::{Code, Diagnostics};
use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::{Expectation, OpKind};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_core::types::{BlockSync, BufferKind, ReduceOp};

fn record(spec: AlgoSpec, f: impl FnOnce(&Program)) -> Result<Trace, Diagnostics> {
    let program = Program::new(spec);
    f(&program);
    program.finish()
}

fn all_reduce(ranks: u32) -> AlgoSpec {
    AlgoSpec::new("t", CollectiveKind::AllReduce, ranks)
}

fn codes(result: Result<Trace, Diagnostics>) -> Vec<Code> {
    result.err().into_iter().flatten().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn quick_start_records_five_operations_a_rank() {
    let mut spec = AlgoSpec::new("simple_allgather", CollectiveKind::AllGather, 2);
    spec.collective.in_place = true;
    let trace = record(spec, |p| {
        for rank in p.ranks() {
            let mine = rank.output().chunk(rank.id());
            let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
            channels.handshake(0).relaxed();
            for channel in &channels {
                channel.put(channel.peer().output().chunk(rank.id()), mine, 0);
            }
            channels.handshake(0);
        }
    })
    .expect("the quick start is right");
    let kinds: Vec<_> = trace.ops.iter().map(|recorded| recorded.op.kind).collect();
    let one = [OpKind::RelaxedSignal, OpKind::RelaxedWait, OpKind::Put, OpKind::Signal, OpKind::Wait];
    assert_eq!(kinds, [one, one].concat());
    assert_eq!(trace.ops[1].op.sync, BlockSync::Both);
    let place = trace.origins.get(trace.ops[2].op.origin).expect("a native call has a place");
    assert!(place.file.ends_with("recording.rs") && place.line > 30, "{place}");
}

#[test]
fn programs_say_what_they_expect() {
    let mut spec = AlgoSpec::new("t", CollectiveKind::Custom { input: 4, output: 2 }, 2);
    spec.instances = 2;
    let trace = record(spec, |p| {
        let (a, b) = (p.rank(0), p.rank(1));
        p.expect(a.output().chunk(..), b.input().chunk(2..4));
        p.expect(b.output().chunk(1), [a.input().chunk(3), b.input().chunk(0)]);
    })
    .expect("both are right");
    let said = |plan: &[Expectation]| -> Vec<_> {
        plan.iter().map(|said| (said.rank, said.chunk, said.len, said.inputs.clone())).collect()
    };
    assert_eq!(said(&trace.expectations), [(0, 0, 2, vec![(1, 2)]), (1, 1, 1, vec![(0, 3), (1, 0)])]);
    // Two instances cut every chunk in two.
    let plan = lower(&trace).expect("it has no operations");
    assert_eq!(said(&plan.expectations), [(0, 0, 4, vec![(1, 4)]), (1, 2, 2, vec![(0, 6), (1, 0)])]);
    let found = codes(record(all_reduce(2), |p| {
        let (a, b) = (p.rank(0), p.rank(1));
        p.expect(a.output().chunk(0), b.input().chunk(..));
        p.expect(a.output().chunk(0), Vec::new());
        p.expect(a.output().chunk(0), [b.input().chunk(1), p.rank(2).input().chunk(0)]);
    }));
    assert_eq!(found, [Code::SizeMismatch, Code::EmptyList, Code::RankOutOfRange]);
}

#[test]
fn a_reduction_can_be_sent_elsewhere_and_changed() {
    let trace = record(all_reduce(2), |p| {
        let rank = p.rank(0);
        let (input, output) = (rank.input(), rank.output());
        let group = p.thread_block_group(0..2);
        rank.reduce(input.chunk(0), [input.chunk(1)], &group).to(output.chunk(1)).op(ReduceOp::Max);
        rank.reduce(input.chunk(0), vec![input.chunk(1).to_any(), output.chunk(0).to_any()], 3);
    })
    .expect("both are right");
    assert_eq!(trace.ops.len(), 3);
    for recorded in &trace.ops[..2] {
        assert_eq!(recorded.op.reduce, Some(ReduceOp::Max));
        assert_eq!(recorded.op.dsts[0].local_buffer(), Some(BufferKind::Output));
        assert_eq!(recorded.op.slice.map(|slice| slice.count), Some(2));
    }
    assert_eq!(trace.ops[2].op.srcs.len(), 3);
    assert_eq!(trace.ranks[0].num_blocks, 4);
}

#[test]
fn mistakes_are_collected_and_do_not_breed() {
    let found = codes(record(all_reduce(2), |p| {
        let (a, b) = (p.rank(0), p.rank(1));
        let ghost = p.rank(7);
        ghost.copy(ghost.input().chunk(0), ghost.output().chunk(3), 0);
        a.memory_channel(ghost).signal(0);
        a.copy(a.output().chunk(0), a.input().chunk(2), 0);
        #[allow(clippy::reversed_empty_ranges)]
        a.input().chunk(2..1);
        a.input().chunk(1..1);
        a.copy(b.output().chunk(0), a.input().chunk(0), 0);
        a.copy(a.output().chunk(..), a.input().chunk(0), 0);
        a.copy(a.input().chunk(0), a.input().chunk(0), 0);
        a.reduce(a.input().chunk(0), &[] as &[mscclpp_core::dsl::Chunk<'_, mscclpp_core::dsl::Input>], 0);
        a.copy(a.output().chunk(0), a.input().chunk(0), -1);
        p.thread_block_group([1, 1]);
        a.barrier([0, 0]);
        a.memory_channel(a);
        p.switch_channel([0, 0], BufferKind::Input);
        p.switch_channel([0], BufferKind::Input).at(1);
        p.pipeline(16, 1, || p.pipeline(16, 1, || ()));
        p.pipeline(1000, 1, || ());
        p.pipeline(32, 2, || a.copy(a.output().chunk(1), a.input().chunk(1), 0));
        a.scratch(0);
        a.scratch(usize::MAX);
    }));
    assert_eq!(
        found,
        [
            Code::RankOutOfRange,
            Code::ChunkOutOfRange,
            Code::ReversedSlice,
            Code::EmptyChunk,
            Code::WrongRank,
            Code::SizeMismatch,
            Code::OverlappingCopy,
            Code::EmptyList,
            Code::ThreadBlockOutOfRange,
            Code::BadGroup,
            Code::BadBarrier,
            Code::SelfChannel,
            Code::BadGroup,
            Code::NotAMember,
            Code::NestedPipeline,
            Code::BadPipeline,
            Code::BadPipeline,
            Code::EmptyChunk,
            Code::TooLarge,
        ]
    );
}

#[test]
fn bad_specifications_are_refused_without_recording() {
    assert_eq!(codes(record(all_reduce(0), |p| assert_eq!(p.ranks().count(), 0))), [Code::NoRanks]);
    assert_eq!(codes(record(all_reduce(u32::MAX), |_| ())), [Code::BadSpecification]);
    // A loop over the ranks of a typing error ends.
    assert_eq!(
        codes(record(all_reduce(u32::MAX), |p| assert_eq!(p.ranks().count(), 1 << 16))),
        [Code::BadSpecification]
    );
    let mut spec = all_reduce(4);
    spec.collective.chunk_factor = u32::MAX;
    assert_eq!(codes(record(spec, |p| _ = p.rank(0).input().chunk(0))), [Code::TooLarge]);
    let mut spec = all_reduce(4);
    (spec.instances, spec.replication) = (2, mscclpp_core::types::Replication::None);
    spec.threads_per_block = 4096;
    spec.buffer_alignment = 3;
    (spec.min_message_size, spec.max_message_size) = (2, 1);
    spec.ranks_per_node = 3;
    assert_eq!(codes(record(spec, |_| ())), [Code::BadSpecification; 5]);
}

#[test]
fn numbers_that_no_rank_has_are_findings_up_to_the_largest() {
    for number in [2, u32::MAX as usize - 1, u32::MAX as usize, usize::MAX] {
        let range = |f: &dyn Fn(&Program)| codes(record(all_reduce(2), f));
        assert_eq!(range(&|p| p.rank(number).barrier([0, 1])), [Code::RankOutOfRange], "{number}");
        assert_eq!(range(&|p| _ = p.rank(0).port_channel(number)), [Code::RankOutOfRange], "{number}");
        let members = |p: &Program| _ = p.switch_channel([0, 1, number], BufferKind::Input);
        assert_eq!(range(&members), [Code::RankOutOfRange], "{number}");
        let view = record(all_reduce(2), |p| _ = p.switch_channel(p.ranks(), BufferKind::Input).at(number));
        let found: Vec<_> = view.expect_err("no member").into_iter().map(|found| (found.code, found.message)).collect();
        let text = format!("rank {number} is not a member of the switch channel over ranks [0, 1]");
        assert_eq!(found, [(Code::NotAMember, text)]);
    }
}

#[test]
fn no_call_panics_after_a_refused_specification() {
    let mut spec = all_reduce(4);
    spec.instances = u32::MAX;
    let found = codes(record(spec, |p| {
        let switch = p.switch_channel(p.ranks(), BufferKind::Input);
        let group = p.thread_block_group([0, 1]);
        for rank in p.ranks() {
            let (mine, peer) = (rank.input().chunk(0), p.rank(rank.id() ^ 1));
            let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
            channels.handshake(0).relaxed();
            rank.port_channel(peer).put(peer.output().chunk(0), mine, 0);
            rank.memory_channel(peer).put(peer.output().chunk(0), mine, &group);
            rank.copy(rank.scratch(1).chunk(0), mine, 0);
            rank.reduce(mine, [rank.output().chunk(0)], 0);
            rank.semaphore(1).acquire(0);
            rank.barrier([0, 1]);
            switch.at(rank).broadcast(0..1, mine, 0);
            p.expect(rank.output().chunk(0), mine);
            p.pipeline(16, 1, || rank.copy(rank.output().chunk(0), mine, 0));
        }
    }));
    assert_eq!(found, [Code::TooLarge]);
}

#[test]
fn handles_of_another_program_are_refused() {
    let other = Program::new(all_reduce(2));
    let found = codes(record(all_reduce(2), |p| {
        p.rank(0).copy(other.rank(0).output().chunk(0), p.rank(0).input().chunk(0), 0);
    }));
    assert_eq!(found, [Code::ForeignHandle]);
}
