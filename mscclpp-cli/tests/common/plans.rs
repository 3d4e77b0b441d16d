//! Small plans that are right or wrong in a known way.

use mscclpp_core::check::{Checks, Level};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::compile_tree;
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::{
    json,
    raw::{OpKind, PlanTree},
};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BlockSync, ReduceOp};

/// Two ranks swap their inputs through channels; `also` adds to the program.
fn swap(kind: CollectiveKind, also: impl FnOnce(&Program)) -> PlanTree {
    let program = Program::new(AlgoSpec::new("swap", kind, 2));
    for rank in program.ranks() {
        let peer = program.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put(peer.output().chunk(0), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
    also(&program);
    compile_tree(program, &mscclpp_core::check::Checks::default()).expect("a good program")
}

/// Two ranks swap their inputs: what a send-receive of two ranks does.
pub(crate) fn good() -> PlanTree {
    swap(CollectiveKind::SendRecv, |_| ())
}

/// The same with one rank per node, though its channels are memory channels.
pub(crate) fn across_nodes() -> PlanTree {
    PlanTree { ranks_per_node: 1, ..good() }
}

/// The same, but the last signals and waits are relaxed.
pub(crate) fn relaxed_close() -> PlanTree {
    let mut plan = good();
    for op in plan.ranks.iter_mut().flat_map(|rank| &mut rank.blocks[0].ops) {
        op.kind = match op.kind {
            OpKind::Signal => OpKind::RelaxedSignal,
            OpKind::Wait => OpKind::RelaxedWait,
            other => other,
        };
    }
    plan
}

/// The same under the name `test`, which promises nothing.
pub(crate) fn unverified() -> PlanTree {
    swap(CollectiveKind::Test { input: 1, output: 1 }, |_| ())
}

/// The same as a custom collective, whose program says that rank 1's input comes to rank 0, and what to rank 1.
pub(crate) fn custom(from: u32) -> PlanTree {
    let mut plan = swap(CollectiveKind::Custom { input: 1, output: 1 }, |program| {
        program.expect(program.rank(0).output().chunk(0), program.rank(1).input().chunk(0));
        program.expect(program.rank(1).output().chunk(0), program.rank(0).input().chunk(0));
    });
    plan.expectations[1].inputs[0].0 = from;
    plan
}

/// The same, but rank 1 forgets its last signal, so rank 0 waits for ever.
pub(crate) fn stalling() -> PlanTree {
    let mut plan = good();
    let ops = &mut plan.ranks[1].blocks[0].ops;
    let last = ops.iter().rposition(|op| op.kind == OpKind::Signal).expect("a signal");
    ops.remove(last);
    plan
}

/// An all-gather in which every rank keeps its part to itself.
pub(crate) fn wrong() -> PlanTree {
    let program = Program::new(AlgoSpec::new("selfish", CollectiveKind::AllGather, 2));
    for rank in program.ranks() {
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
    }
    unchecked(program).expect("a good program")
}

/// Two ranks that take the larger of their inputs: a plan with a reduction of its own.
pub(crate) fn max() -> PlanTree {
    let mut spec = AlgoSpec::new("larger", CollectiveKind::AllReduce, 2);
    spec.max_message_size = 1 << 20;
    let program = Program::new(spec);
    for rank in program.ranks() {
        let peer = program.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
        channel.reduce(rank.output().chunk(..), peer.input().chunk(..), 0).op(ReduceOp::Max);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
    unchecked(program).expect("a good program")
}

/// Every rank copies its input through scratch, which launches of all sizes share.
pub(crate) fn pooled() -> PlanTree {
    let mut spec = AlgoSpec::new("through", CollectiveKind::Custom { input: 1, output: 1 }, 2);
    spec.reuse_resources = true;
    let program = Program::new(spec);
    for rank in program.ranks() {
        let scratch = rank.scratch(1);
        rank.copy(scratch.chunk(0), rank.input().chunk(0), 0);
        rank.copy(rank.output().chunk(0), scratch.chunk(0), 0);
    }
    compile_tree(program, &Checks::default()).expect("a good program")
}

/// A plan as the text of a file.
pub(crate) fn text(plan: &PlanTree) -> String {
    json::write(plan, json::Style::Pretty)
}

/// A recorded program as a plan: checking it is what the tests are about.
fn unchecked(program: Program) -> Result<PlanTree, Diagnostics> {
    compile_tree(program, &Checks { level: Level::Off, ..Checks::default() })
}
