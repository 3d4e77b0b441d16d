//! Plans that are proved for every number of iterations, and plans that are not.

mod ahead;
mod merged;
mod packets;
mod random;

use crate::conditions::{Condition, WITHOUT};
use crate::model::{self, Model};
use crate::testing::plan;
use crate::{Pairs, check};
use mscclpp_plan::diag::Code;
use mscclpp_plan::raw::{OpKind, PlanTree};
use random::brute_force;

const IDLE: &[&str] = &[""];

fn found(plan: &PlanTree) -> Vec<(Code, String)> {
    check(plan).into_iter().map(|finding| (finding.code, finding.message)).collect()
}

#[track_caller]
fn right(blocks: &[&str], initial: i64) {
    let mut plan = plan(&[blocks, IDLE]);
    plan.ranks[0].semaphores[0] = initial;
    assert_eq!(found(&plan), []);
}

/// Returns the message.
#[track_caller]
fn races(blocks: &[&str]) -> String {
    let found = found(&plan(&[blocks, IDLE]));
    assert_eq!(found.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [Code::Race], "{found:?}");
    found[0].1.clone()
}

/// The reader waits for two windows before its loop, so that its clock seems to be larger than it is.
const SPAN: [&str; 2] = [
    "sem_acquire#1; sem_acquire#0; nop; loop 192x3 { sem_acquire#0; nop; copy s0+3 > o0+3 }; nop",
    "copy i0 > s0; copy i2 > s2; nop; sem_release#1; loop 64x1 { copy i1 > s1; nop; sem_release#0 }; sem_release#0; nop",
];

#[test]
fn semaphore_of_one_loop_on_either_side_and_one_rate_is_steady() {
    let looped = |blocks: &[&str], is_plain: bool| {
        let plan = plan(&[blocks, IDLE]);
        let pairs = Pairs::of(&plan);
        let size = model::sizes((&plan).into()).expect("a plan of few pieces")[0];
        let model = Model::of((&plan).into(), &pairs, size);
        let (raises, lowers) = (|kind| kind == OpKind::SemaphoreRelease, |kind| kind == OpKind::SemaphoreAcquire);
        let sender = |agent, _, thread, _| (agent, thread);
        let looped = super::looped(&model, model.releases.len(), raises, lowers, sender, |_| is_plain);
        looped.into_keys().collect::<Vec<_>>()
    };
    let (release, acquire) = ("loop 64x2 { nop; sem_release#0 }", "loop 32x1 { sem_acquire#0; nop }");
    assert_eq!(looped(&[release, acquire], true), [0; 0]);
    assert_eq!(looped(&[release, acquire], false), [0]);
    assert_eq!(looped(&[release, "loop 32x1 { sem_acquire#0; nop; sem_acquire#0 }"], true), [0]);
    assert_eq!(looped(&[release, "loop 32x2 { sem_acquire#0; nop }"], true), [0]);
    for outside in
        ["sem_release#0; nop; loop 64x2 { sem_release#0 }", "loop 64x2 { sem_release#0 }; nop; sem_release#0"]
    {
        assert_eq!(looped(&[outside, acquire], true), [0]);
    }
}

#[test]
fn spans_that_differ_race_from_some_size_on() {
    assert!(races(&SPAN).ends_with(", for chunks of 272 bytes, where a loop has 5 iterations"));
}

#[test]
fn a_group_in_a_loop_races_with_a_loop_over_the_whole() {
    let member = |number: u32| format!("loop 64x1 {{ copy/{number}:2 i0 > s0; nop; sem_release#{number} }}");
    let reader = "loop 64x1 { sem_acquire#0,1; nop; copy s0 > o0 }";
    // The second half of the windows is written by the second member, after the first half of its iterations.
    right(&[&member(0), &member(1), reader], 0);
    let split = |number: u32| format!("loop 64x1 {{ sem_acquire#{number}; nop; copy/{number}:2 s0 > o0 }}");
    let writer = "loop 64x1 { copy i0 > s0; nop; sem_release#0,1 }";
    let message = races(&[writer, &split(0), &split(1)]);
    assert!(message.ends_with(" iterations"), "{message}");
    // Nor by members of another group.
    races(&[&member(0), &member(1), "loop 64x1 { sem_acquire#0,1; nop; copy/2:3 s0 > o0 }; nop; copy o0 > s0"]);
}

#[test]
fn windows_that_are_ahead_need_no_more_than_their_own_iteration() {
    for (writer, reader) in [("96x3", "32x1"), ("64x2", "32x1"), ("96x3", "64x2")] {
        let [long, short] = [writer, reader].map(|shape| shape.split_once('x').unwrap().1);
        let write = format!("loop {writer} {{ copy i0+{long} > s0+{long}; nop; sem_release#0 }}");
        let read = format!("loop {reader} {{ sem_acquire#0; nop; copy s0+{short} > o0+{short} }}");
        right(&[&write, &read], 0);
        let write = format!("loop {reader} {{ copy i0+{short} > s0+{short}; nop; sem_release#0 }}");
        let read = format!("loop {writer} {{ sem_acquire#0; nop; copy s0+{long} > o0+{long} }}");
        races(&[&write, &read]);
    }
}

#[test]
fn loops_of_different_rates_follow_each_other_as_a_whole() {
    right(&["loop 32x1 { copy i0 > s0 }; nop; sem_release#0", "sem_acquire#0; nop; loop 48x1 { copy s0 > o0 }"], 0);
    right(
        &[
            "loop 32x1 { copy i0 > s0; nop; sem_release#0 }",
            "loop 32x1 { sem_acquire#0 }; nop; loop 48x1 { copy s0 > o0 }",
        ],
        0,
    );
    races(&[
        "loop 32x1 { copy i0 > s0; nop; sem_release#0 }",
        "loop 32x1 { sem_acquire#0 }; loop 48x1 { copy s0 > o0 }",
    ]);
}

#[test]
fn a_reader_may_wait_for_a_window_ahead() {
    right(
        &[
            "loop 32x1 { copy i0 > s0; nop; sem_release#0 }; sem_release#0",
            "sem_acquire#0; loop 32x1 { sem_acquire#0; nop; copy s0 > o0 }",
        ],
        0,
    );
    // The last clock is acquired after the loop.
    right(
        &[
            "loop 32x1 { copy i0 > s0; nop; sem_release#0 }; copy i1 > s1; nop; sem_release#0",
            "sem_acquire#0; loop 32x1 { sem_acquire#0; nop; copy s0 > o0 }; copy s1 > o1",
        ],
        0,
    );
}

#[test]
fn units_from_the_start_need_no_iterations() {
    for initial in [1, 64, 1000, 4096, i32::MAX.into()] {
        right(
            &[
                "loop 32x1 { sem_acquire#0; copy i0 > s0; nop; sem_release#1 }",
                "loop 32x1 { sem_acquire#1; nop; copy s0 > o0; nop; sem_release#0 }",
            ],
            initial,
        );
    }
}

#[test]
fn access_after_a_loop_may_cover_a_part_of_it() {
    right(&["loop 96x3 { copy i0+3 > s0+3 }; nop; copy s1 > o1"], 0);
    races(&["loop 96x3 { copy i0+3 > s0+3 }; copy s1 > o1"]);
    races(&["loop 96x3 { copy i0+3 > s0+3; nop }; copy i1 > o1; loop 96x3 { copy i0+3 > s0+3 }; copy i1 > s1; nop"]);
}

#[test]
fn several_signaling_threads_are_acquired_after_the_loop() {
    let write = |chunk: u32| format!("loop 32x1 {{ copy i{chunk} > s{chunk}; nop; sem_release#0 }}");
    let read = |place: &str, behind: &str| format!("loop 32x1 {{ sem_acquire#0,0; nop{place} }}; {behind}");
    right(&[&write(0), &write(1), &read("", "copy s0+2 > o0+2")], 0);
    races(&[&write(0), &write(1), &read("; copy s0 > o0", "nop")]);
}

#[test]
fn barriers_in_loops_order_their_blocks() {
    right(&["loop 32x1 { copy i0 > s0; barrier#0=2 }", "loop 32x1 { barrier#0=2; copy s0 > o0 }"], 0);
    races(&["loop 32x1 { copy i0 > s0; barrier#0=2 }", "loop 32x1 { copy s0 > o0; barrier#0=2 }"]);
}

/// A mistake is reported only at sizes that messages have.
#[test]
fn sizes_without_messages_do_not_count() {
    let limited = |min: u64, max: u64| {
        let mut plan = plan(&[&SPAN, IDLE]);
        (plan.min_message_size, plan.max_message_size) = (min, max);
        found(&plan)
    };
    // Of 8 chunks.
    assert_eq!(limited(0, 8 * 256), []);
    assert!(limited(0, 8 * 272)[0].1.contains("272 bytes"));
    assert_eq!(limited(8 * 273, 8 * 288).len(), 1);
    assert_eq!(limited(8 * 512, u64::MAX).len(), 1);
}

/// For every condition there is a wrong program that is accepted without it.
#[test]
fn proof_without_any_condition_accepts_a_wrong_program() {
    use Condition as D;
    let cases: [(D, i64, &[&str]); 6] = [
        (
            D::Causal,
            0,
            &[
                "loop 32x1 { copy i0 > s0; nop; sem_release#0 }; sem_release#0; sem_release#0",
                "sem_acquire#0; sem_acquire#0; nop; copy s0 > o0; loop 32x1 { sem_acquire#0 }",
            ],
        ),
        (
            D::Others,
            0,
            &[
                "loop 32x1 { copy i0 > s0; nop; sem_release#0 }; sem_release#0,0",
                "loop 32x1 { sem_release#0 }",
                "sem_acquire#0; sem_acquire#0; loop 32x1 { sem_acquire#0; sem_acquire#0; nop; copy s0 > o0 }",
            ],
        ),
        (
            D::Barriers,
            0,
            &[
                "loop 32x1 { copy i0 > s0; barrier#0=2 }; barrier#0=2; barrier#0=2",
                "barrier#0=2; barrier#0=2; copy s0 > o0; loop 32x1 { barrier#0=2 }",
            ],
        ),
        (D::Mapping, 0, &["copy/1:2 s0+2 > o1+2; loop 64x2 { re/1:2 s0+2 i0+2 > s0+2 }"]),
        (
            D::Skewed,
            0,
            &["loop 32x1 { copy i1 > s1; nop; sem_release#0 }", "loop 96x3 { sem_acquire#0; nop; copy s0+3 > o0+3 }"],
        ),
        (
            D::Twice,
            0,
            &["loop 32x1 { copy i1 > s1; nop; sem_release#0 }", "loop 96x3 { sem_acquire#0; nop; copy s0+3 > o0+3 }"],
        ),
    ];
    for (condition, initial, blocks) in cases {
        let mut plan = plan(&[blocks, IDLE]);
        plan.ranks[0].semaphores[0] = initial;
        assert!(brute_force(&plan, 26).flatten().is_some(), "{condition:?}");
        assert!(!check(&plan).is_empty(), "{condition:?}");
        WITHOUT.set(Some(condition));
        let found = found(&plan);
        WITHOUT.set(None);
        assert_eq!(found, [], "{condition:?}");
    }
}

/// The length of packets that a block has read before a loop is not compared with what it writes in the loop.
#[test]
fn packets_read_before_a_loop_are_not_compared_by_length_in_it() {
    let mut plan = plan(&[
        &["ppkt.m i0 > r0:0; upkt s0 > o0; ppkt.m i1 > r0:1; loop 64x1 { ppkt.m i2 > r0:2 }"],
        &["ppkt.m i0 > r0:0; upkt s0 > o0; upkt s1 > o1; loop 64x1 { upkt s2 > o2 }"],
    ]);
    plan.double_scratch = true;
    assert_eq!(found(&plan), []);
    plan.double_scratch = false;
    assert_eq!(found(&plan).len(), 1);
}
