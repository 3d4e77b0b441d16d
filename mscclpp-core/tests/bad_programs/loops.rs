//! 10a: loops that run over the end of what is in them.

use mscclpp_core::collective::CollectiveKind::AllReduce;
use mscclpp_core::compile;
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::raw::{LoopBody, OpKind};

use super::{operation, plan, refused, say, spec};

/// What the authoring API says of a program.
#[track_caller]
fn recorded(body: impl FnOnce(&Program), words: &[&str]) {
    let found = compile(spec(AllReduce, 4), body).expect_err("the program is wrong");
    say(&found, "bad-pipeline", words);
}

/// What the check says of a plan whose loop has been changed.
#[track_caller]
fn loaded(group: bool, change: impl FnOnce(&mut LoopBody), words: &[&str]) {
    let mut plan = plan(spec(AllReduce, 4), |p| {
        let (rank, both) = (p.rank(0), p.thread_block_group(0..2));
        let (to, from) = (rank.scratch(1).chunk(0), rank.input().chunk(0));
        p.pipeline(1024, 1, || if group { rank.copy(to, from, &both) } else { rank.copy(to, from, 0) });
    });
    let op = operation(&mut plan, |op| op.kind == OpKind::Pipeline);
    change(op.body.as_mut().expect("a loop has a body"));
    refused(&plan, "bad-loop", words);
}

#[test]
fn a_loop_over_four_chunks_around_a_copy_of_one() {
    let words = ["expected `copy` over 4 chunks, the span of its loop, found 1"];
    recorded(
        |p| p.pipeline(1024, 4, || p.rank(0).copy(p.rank(0).output().chunk(0), p.rank(0).input().chunk(0), 0)),
        &words,
    );
    loaded(
        false,
        |body| body.num_chunks = 4,
        &["`copy` (rank 0, thread block 0) has an operand of 1 chunk in a loop with a span of 4"],
    );
}

#[test]
fn the_same_with_a_thread_block_group() {
    let words = ["expected `copy` over 4 chunks, the span of its loop, found 1"];
    recorded(
        |p| {
            let both = p.thread_block_group(0..2);
            p.pipeline(1024, 4, || p.rank(0).copy(p.rank(0).output().chunk(0), p.rank(0).input().chunk(0), &both));
        },
        &words,
    );
    loaded(
        true,
        |body| body.num_chunks = 4,
        &["`copy` (rank 0, thread block 0) has an operand of 1 chunk in a loop with a span of 4"],
    );
}

#[test]
fn a_unit_that_cuts_vectors() {
    recorded(|p| p.pipeline(1000, 1, || ()), &["a positive multiple of 16 bytes, found 1000 bytes", "write `1008`"]);
    loaded(false, |body| body.unit = 1000, &["has a unit of 1000 bytes, expected a positive multiple of 16"]);
}
