//! Values that plans compute, and findings about plans that compute other values.

use super::reduction_order;
use crate::run::verdict;
use crate::testing;
use mscclpp_plan::collective::{Collective, CollectiveKind};
use mscclpp_plan::diag::{Code, Diagnostics};
use mscclpp_plan::raw::{Expectation, PlanTree};

/// Returns a plan of a collective. Remote buffers 0, 1, 2 are the next rank's scratch, input, output.
fn plan(kind: CollectiveKind, in_place: bool, ranks: &[&[&str]]) -> PlanTree {
    let mut plan = testing::plan(ranks);
    plan.collective = Collective { in_place, ..Collective::new(kind) };
    let (input, output) = plan.collective.chunks(ranks.len() as u32).expect("few chunks");
    for rank in &mut plan.ranks {
        (rank.input_chunks, rank.output_chunks) = (input, output);
    }
    plan
}

fn found(plan: &PlanTree) -> Diagnostics {
    verdict(plan).results
}

#[track_caller]
fn fine(plan: &PlanTree) {
    let found = found(plan);
    assert!(found.is_empty(), "{found}");
}

/// Returns the only finding: its code, its message, and the other places.
#[track_caller]
fn wrong(plan: &PlanTree) -> (Code, String, Vec<String>) {
    let found = found(plan);
    let list: Vec<_> = found.iter().collect();
    assert_eq!(list.len(), 1, "{found}");
    let also = list[0].notes.iter().map(|(what, site)| format!("{what} at {site}")).collect();
    (list[0].code, list[0].message.clone(), also)
}

use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, Custom, Reduce, ReduceScatter, SendRecv, Test};

/// Both ranks send their chunks to the other's scratch and add.
const ADD: &str = "put.m i0+2 > r0:0+2; nop; signal.m#0; wait.m#0; nop; re i0+2 s0+2 > i0+2";

#[test]
fn correct_plans_of_every_collective_are_accepted() {
    fine(&plan(AllReduce, true, &[&[ADD], &[ADD]]));
    let gather = "put.m o0 > r2:0; signal.m#0; wait.m#0";
    fine(&plan(AllGather, true, &[&[gather], &["put.m o1 > r2:1; signal.m#0; wait.m#0"]]));
    let gather = |own: u32| format!("copy i0 > o{own}; put.m i0 > r2:{own}; nop; signal.m#0; wait.m#0");
    fine(&plan(AllGather, false, &[&[&gather(0)], &[&gather(1)]]));
    let scatter = |own: u32| format!("put.m i{} > r0:0; nop; signal.m#0; wait.m#0; nop; re i{own} s0 > o0", 1 - own);
    fine(&plan(ReduceScatter, false, &[&[&scatter(0)], &[&scatter(1)]]));
    fine(&plan(ReduceScatter, true, &[&[&scatter(0)], &[&scatter(1)]]));
    let exchange = |own: u32| format!("copy i{own} > o{own}; put.m i{} > r2:{own}; nop; signal.m#0; wait.m#0", 1 - own);
    fine(&plan(AllToAll, false, &[&[&exchange(0)], &[&exchange(1)]]));
    let send = "put.m i0 > r2:0; signal.m#0; wait.m#0";
    fine(&plan(SendRecv, false, &[&[send], &[send], &[send]]));
    fine(&plan(Broadcast, false, &[&["copy i0+2 > o0+2; put.m i0+2 > r2:0+2; signal.m#0"], &["wait.m#0"]]));
    let reduce = "wait.m#0; nop; re i0+2 s0+2 > o0+2";
    fine(&plan(Reduce, false, &[&[reduce], &["put.m i0+2 > r0:0+2; nop; signal.m#0"]]));
    fine(&plan(Custom { input: 1, output: 1 }, false, &[&[""], &[""]]));
    fine(&plan(Test { input: 8, output: 8 }, false, &[&["copy s0 > i0"], &[""]]));
    fine(&plan(AllReduce, false, &[&["copy i0 > o0"]]));
}

#[test]
fn parts_of_chunks_are_tracked() {
    let looped = "loop 64x2 { put.m i0+2 > r0:0+2; nop; signal.m#0; wait.m#0; nop; re i0+2 s0+2 > i0+2 }";
    fine(&plan(AllReduce, true, &[&[looped], &[looped]]));
    let half = |i| format!("put.m/{i}:2 i0+2 > r0:0+2; nop; signal.m#{i}; wait.m#{i}; nop; re/{i}:2 i0+2 s0+2 > i0+2");
    let [one, two] = [half(0), half(1)];
    fine(&plan(AllReduce, true, &[&[&one, &two], &[&one, &two]]));
    let unread = "put.m/1:2 i0+2 > r0:0+2; nop; signal.m#1; wait.m#1";
    let (code, message, _) = wrong(&plan(AllReduce, true, &[&[&one, &two], &[&one, unread]]));
    assert_eq!(code, Code::WrongResult);
    let lacking = "output chunk 1 of rank 1 lacks input chunk 1 of rank 0; its last copy is in scratch chunk 1 of \
        rank 1, which is never read";
    assert_eq!(message, lacking);
    let third = "put.m/0:3 i0 > r2:0; signal.m#0; wait.m#0";
    let (_, message, also) = wrong(&plan(SendRecv, false, &[&[third], &[third]]));
    assert_eq!(
        message,
        "a part of output chunk 0 of rank 0 is never written, expected input chunk 0 of rank 1 (and 1 similar)"
    );
    assert_eq!(also, [""; 0]);
}

#[test]
fn output_that_is_never_written_is_reported() {
    let ring = |next: &str| format!("{next}; nop; signal.m#0; wait.m#0");
    let [all, none] = [ring("copy i0 > o0; put.m i0 > r2:0"), ring("copy i0 > o1")];
    let (code, message, also) = wrong(&plan(AllGather, false, &[&[&all], &[&none]]));
    assert_eq!(code, Code::WrongResult);
    assert_eq!(message, "output chunk 1 of rank 0 is never written, expected input chunk 0 of rank 1");
    assert_eq!(also, ["it is written to output chunk 1 of rank 1 at rank 1 / thread block 0 / operation 0 (copy)"]);
    let (_, message, also) = wrong(&plan(Reduce, false, &[&[""], &[""]]));
    assert_eq!(
        message,
        "output chunk 0 of rank 0 is never written, expected the reduction of input chunk 0 of all ranks (and 1 \
         similar)"
    );
    assert_eq!(also, [""; 0]);
}

#[test]
fn lost_contribution_is_reported_with_its_last_location() {
    let put = "put.m i0+2 > r0:0+2; nop; signal.m#0; wait.m#0; nop; re i0 s0 > i0";
    let (code, message, also) = wrong(&plan(AllReduce, true, &[&[put], &[ADD]]));
    assert_eq!(code, Code::WrongResult);
    assert_eq!(
        message,
        "output chunk 1 of rank 0 lacks input chunk 1 of rank 1; its last copy is in scratch chunk 1 of rank 0, which \
         is never read"
    );
    assert_eq!(
        also,
        [
            "`put` (rank 1, thread block 0) writes scratch chunk 1 of rank 0 at rank 1 / thread block 0 / operation 0 (put)"
        ]
    );
    let over = "put.m i0+2 > r0:0+2; nop; signal.m#0; wait.m#0; nop; copy i0+2 > s0+2; nop; re i0+2 s0+2 > i0+2";
    let lost = found(&plan(AllReduce, true, &[&[over], &[ADD]]));
    let lost = lost.iter().next().expect("a finding");
    assert_eq!(
        lost.message,
        "output chunk 0 of rank 0 lacks input chunk 0 of rank 1; its last copy is in scratch chunk 0 of rank 0, which \
         is overwritten before it is read (and 1 similar)"
    );
    assert_eq!(lost.notes.len(), 2);
    let alone = found(&plan(Reduce, false, &[&["copy i0+2 > o0+2"], &[""]]));
    let message =
        "output chunk 0 of rank 0 lacks input chunk 0 of rank 1; input chunk 0 of rank 1 is never read (and 1 similar)";
    assert_eq!(alone.iter().next().expect("a finding").message, message);
}

#[test]
fn duplicate_contribution_is_reported_with_its_paths() {
    let twice = "put.m i0+2 > r0:0+2; nop; signal.m#0; wait.m#0; nop; re i0+2 s0+2 > i0+2; re i1 s1 > i1";
    let (code, message, also) = wrong(&plan(AllReduce, true, &[&[twice], &[ADD]]));
    assert_eq!(code, Code::DoubleCounted);
    assert_eq!(
        message,
        "output chunk 1 of rank 0 includes input chunk 1 of rank 1 twice; `re` (rank 0, thread block 0) reduces input \
         chunk 1 of \
         rank 0 and scratch chunk 1 of rank 0, which both include it"
    );
    assert_eq!(
        also,
        [
            "`re` (rank 0, thread block 0) writes input chunk 1 of rank 0 at rank 0 / thread block 0 / operation 5 (re)",
            "`put` (rank 1, thread block 0) writes scratch chunk 1 of rank 0 at rank 1 / thread block 0 / operation 0 (put)"
        ]
    );
    let largest = twice.replace("re ", "re~max ");
    fine(&plan(AllReduce, true, &[&[&largest], &[&ADD.replace("re ", "re~max ")]]));
}

#[test]
fn wrong_chunks_are_reported() {
    let exchange = |own, from| format!("copy i{own} > o{own}; put.m i{from} > r2:{own}; nop; signal.m#0; wait.m#0");
    let (code, message, _) = wrong(&plan(AllToAll, false, &[&[&exchange(0, 0)], &[&exchange(1, 0)]]));
    assert_eq!(code, Code::WrongResult);
    assert_eq!(message, "output chunk 0 of rank 1 holds input chunk 0 of rank 0, expected input chunk 1 of rank 0");
    let around =
        |own| format!("copy i{own} > o{own}; put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; copy s0 > o{}", 1 - own);
    let (_, message, also) = wrong(&plan(AllToAll, false, &[&[&around(0)], &[&around(1)]]));
    assert_eq!(message, "output chunk 0 of rank 1 holds input chunk 0 of rank 0, expected input chunk 1 of rank 0");
    assert_eq!(
        also,
        [
            "`put` (rank 0, thread block 0) reads it from input chunk 0 of rank 0 at rank 0 / thread block 0 / \
             operation 1 (put)",
            "`copy` (rank 1, thread block 0) reads it from scratch chunk 0 of rank 1 at rank 1 / thread block 0 / \
             operation 6 (copy)"
        ]
    );
    let other = ADD.replace("re i0+2 s0+2 > i0+2", "re i0 s1 > i0; re i1 s1 > i1");
    let (_, message, _) = wrong(&plan(AllReduce, true, &[&[&other], &[ADD]]));
    assert_eq!(
        message,
        "output chunk 0 of rank 0 lacks input chunk 0 of rank 1, and holds input chunk 1 of rank 1 instead; its last \
         copy is in scratch chunk 0 of rank 0, which is never read"
    );
    let more = ADD.replace("re i0+2 s0+2 > i0+2", "re i0 s0 s1 > i0; re i1 s1 > i1");
    let (_, message, _) = wrong(&plan(AllReduce, true, &[&[&more], &[ADD]]));
    assert_eq!(message, "output chunk 0 of rank 0 also includes input chunk 1 of rank 1, which is not expected");
    let sum = "put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; re i0 s0 > o0";
    let found = found(&plan(SendRecv, false, &[&[sum], &[sum]]));
    let message = "the plan computes an all-reduce, expected a send-receive: output chunk 0 of rank 0 holds the sum of input \
                   chunk 0 of rank 0 and input chunk 0 of rank 1, expected input chunk 0 of rank 1";
    assert_eq!(found.iter().next().expect("a finding").message, message);
}

#[test]
fn reduction_of_equal_chunks_in_place_of_a_copy_is_reported_as_one() {
    let largest = "put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; re~max s0 s0 > o0";
    let found = found(&plan(SendRecv, false, &[&[largest], &[largest]]));
    let finding = found.iter().next().expect("a finding");
    assert!(
        finding.message.starts_with(
            "output chunk 0 of rank 0 holds the max of input chunk 0 of rank 1, expected input chunk 0 of rank 1"
        ),
        "{finding}"
    );
    assert_eq!(finding.help.as_deref(), Some("copy the chunk without reducing it"));
}

#[test]
fn two_kinds_of_reduction_do_not_mix() {
    let (code, message, _) = wrong(&plan(AllReduce, true, &[&[ADD], &[&ADD.replace("re ", "re~max ")]]));
    assert_eq!(code, Code::WrongResult);
    assert_eq!(message, "output chunk 0 of rank 1 is reduced with max, and other outputs with sum (and 1 similar)");
}

#[test]
fn uninitialized_read_is_reported() {
    let early = plan(Custom { input: 1, output: 1 }, false, &[&["copy s0 > o0; nop; copy i0 > s0"]]);
    let (code, message, also) = wrong(&early);
    assert_eq!(code, Code::UninitializedRead);
    assert_eq!(message, "`copy` (rank 0, thread block 0) reads scratch chunk 0 of rank 0, which is uninitialized");
    assert_eq!(
        also,
        ["`copy` (rank 0, thread block 0) writes it later at rank 0 / thread block 0 / operation 2 (copy)"]
    );
    // Consequences of it are not reported again.
    let scratch = "put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; re i0+2 s0+2 > i0+2; put.m i1 > r0:7";
    let (_, message, _) = wrong(&plan(AllReduce, true, &[&[ADD], &[scratch]]));
    assert!(message.contains("reads scratch chunk 1 of rank 0"), "{message}");
}

/// Two quarters are a half, unless there are six units.
#[test]
fn unequal_slices_are_tracked() {
    let quarters = "copy/0:2 i0+3 > s0+3; nop; copy/0:4 s0+3 > o0+3; copy/1:4 s0+3 > o0+3";
    let found = crate::check(&plan(Custom { input: 3, output: 3 }, false, &[&[quarters], &[""]]));
    let first = found.iter().next().expect("a finding");
    assert_eq!(first.code, Code::UninitializedRead);
    assert!(
        first.message.ends_with("at message sizes that do not divide equally among the members of a group"),
        "{first}"
    );
    let halves = "copy/0:2 i0+3 > s0+3; nop; copy/0:2 s0+3 > o0+3";
    let found = crate::check(&plan(Custom { input: 3, output: 3 }, false, &[&[halves], &[""]]));
    assert!(found.is_empty(), "{found}");
}

#[test]
fn overwritten_inputs_are_reported() {
    let (code, message, _) = wrong(&plan(Custom { input: 2, output: 1 }, false, &[&["re i1 i0 > i1; copy i0 > o0"]]));
    assert_eq!(code, Code::ClobberedInput);
    assert_eq!(
        message,
        "`re` (rank 0, thread block 0) overwrites input chunk 1 of rank 0, but the plan is not in place"
    );
    fine(&plan(Custom { input: 2, output: 1 }, true, &[&["re i1 i0 > i1"]]));
}

/// Returns a custom plan of two chunks each that states the contributions of rank 0's first output.
fn expecting(inputs: &[(u32, u32)], ranks: &[&[&str]]) -> PlanTree {
    let mut plan = plan(Custom { input: 2, output: 2 }, false, ranks);
    let origin = plan.origins.add(std::panic::Location::caller().into());
    plan.expectations = vec![Expectation { rank: 0, chunk: 0, len: 1, inputs: inputs.to_vec(), origin }];
    plan
}

#[test]
fn expectations_are_met_by_one_reduction() {
    let of_both = |ops: &str| {
        let mut plan = expecting(&[(0, 0), (0, 1)], &[&[ops], &[""]]);
        let second = Expectation { chunk: 1, ..plan.expectations[0].clone() };
        plan.expectations.push(second);
        plan
    };
    fine(&of_both("re~max i0 i1 > o0; re~max i0 i1 > o1"));
    let (code, message, _) = wrong(&of_both("re~max i0 i1 > o0; re i0 i1 > o1"));
    assert_eq!(code, Code::WrongResult);
    assert_eq!(message, "output chunk 1 of rank 0 is reduced with sum, and other outputs with max");
    // An output that nothing is expected of may hold anything.
    fine(&expecting(&[(0, 0), (0, 1)], &[&["re~max i0 i1 > o0; re i0 i1 > o1"], &[""]]));
}

#[test]
fn plan_that_averages_has_only_averages() {
    let average = "re~avg i0 i1 > o0";
    fine(&expecting(&[(0, 0), (0, 1)], &[&[average], &[""]]));
    // The two outputs of one rank, and the outputs of two.
    for ranks in [[["re~avg i0 i1 > o0; re~max i0 i1 > o1"], [""]], [[average], ["re i0 i1 > o0"]]] {
        let found = crate::check(&expecting(&[(0, 0), (0, 1)], &[&ranks[0], &ranks[1]]));
        let first = found.iter().next().expect("executors cannot run it");
        assert_eq!(first.code, Code::MixedAverage);
        assert!(first.message.contains("and `re` (rank 0, thread block 0) with `avg`, which divides"), "{first}");
        assert_eq!(first.notes.len(), 1);
    }
    // Executors divide copies, too, also for a reduction that no output needs.
    for ops in ["re~avg i0 i1 > o1; copy i1 > o0", "re~avg i0 i1 > s0; copy i1 > o0"] {
        let (code, message, _) = wrong(&expecting(&[(0, 1)], &[&[ops], &[""]]));
        assert_eq!(code, Code::MixedAverage);
        assert_eq!(
            message,
            "output chunk 0 of rank 0 holds input chunk 1 of rank 0, which is divided by the number of ranks because the \
             plan averages"
        );
    }
}

#[test]
fn expectations_of_programs_are_checked() {
    let fetch = "put.m i1 > r0:0; signal.m#0; wait.m#0; nop; re i0 s0 > o0";
    let both: &[&[&str]] = &[&[fetch], &[fetch]];
    fine(&expecting(&[(1, 1), (0, 0)], both));
    fine(&expecting(&[(0, 0), (0, 0)], &[&["re i0 i0 > o0"], &[""]]));
    fine(&expecting(&[(0, 0), (0, 0), (0, 1)], &[&["re~max i0 i1 > o0"], &[""]]));
    fine(&expecting(&[(0, 1)], &[&["copy i1 > o0"], &[""]]));
    for (inputs, ops, code, message) in [
        (
            vec![(1, 0), (0, 0)],
            fetch,
            Code::WrongResult,
            "output chunk 0 of rank 0 lacks input chunk 0 of rank 1, and holds input chunk 1 of rank 1 instead; it is \
             copied no further than output chunk 0 of rank 1",
        ),
        (
            vec![(0, 0), (1, 1), (1, 0), (1, 0)],
            fetch,
            Code::WrongResult,
            "output chunk 0 of rank 0 lacks input chunk 0 of rank 1; it is copied no further than output chunk 0 of \
             rank \
             1",
        ),
        (
            vec![(1, 1)],
            fetch,
            Code::WrongResult,
            "output chunk 0 of rank 0 holds the sum of input chunk 0 of rank 0 and input chunk 1 of rank 1, expected input \
             chunk 1 of rank 1",
        ),
        (
            vec![(0, 0), (1, 1)],
            "put.m i1 > r0:0; signal.m#0; wait.m#0; nop; re i0 s0 s0 > o0",
            Code::DoubleCounted,
            "output chunk 0 of rank 0 includes input chunk 1 of rank 1 twice; `re` (rank 0, thread block 0) reduces \
             scratch chunk \
             0 of rank 0 and scratch chunk 0 of rank 0, which both include it",
        ),
        (
            vec![(0, 0), (1, 1)],
            "put.m i1 > r0:0; signal.m#0; wait.m#0",
            Code::WrongResult,
            "output chunk 0 of rank 0 is never written, expected the reduction of input chunk 0 of rank 0 and input chunk 1 \
             of rank 1",
        ),
    ] {
        let (found, said, also) = wrong(&expecting(&inputs, &[&[ops], &[ops]]));
        assert_eq!((found, said.as_str()), (code, message));
        assert!(also.last().is_some_and(|place| place.starts_with("the expectation at ")), "{also:?}");
    }
    // A fragment that states an expectation is checked.
    let mut fragment = expecting(&[(0, 1)], &[&["copy i0 > o0"], &[""]]);
    fragment.collective.kind = Test { input: 2, output: 2 };
    assert_eq!(wrong(&fragment).0, Code::WrongResult);
}

#[test]
fn hostile_plans_take_no_longer_than_others() {
    let double = vec!["re i0 i0 > i0"; 300].join("; ");
    let found = found(&plan(AllReduce, true, &[&[&double], &[""]]));
    let first = found.iter().next().expect("a finding");
    assert_eq!(first.code, Code::WrongResult);
    assert!(first.message.contains("lacks input chunk 0 of rank 1"), "{first}");
    // Every round doubles the ranges that the next one has to move.
    let mut pieces = plan(Custom { input: 1, output: 1 }, true, &[&[""]]);
    pieces.ranks[0].input_chunks = 1 << 31;
    let mut ops: Vec<_> = (0..30).map(|i| format!("copy i0+{} > i{}+{}", 1 << i, 1 << i, 1 << i)).collect();
    ops.insert(1, "re i0 i1 > i0".to_owned());
    pieces.ranks[0].blocks[0].ops = testing::ops(&ops.join("; "));
    assert_eq!(wrong(&pieces).0, Code::AnalysisLimit);
}

#[test]
fn missing_root_does_not_panic() {
    for kind in [Broadcast, Reduce] {
        let mut plan = plan(kind, false, &[&["copy i0+2 > o0+2"], &[""]]);
        plan.collective.root = 7;
        assert_eq!(found(&plan).is_empty(), kind == Reduce);
        plan.ranks[1].blocks.clear();
        let _ = (crate::check(&plan), reduction_order(&plan));
    }
}

#[test]
fn reduction_orders_are_distinguished() {
    let both = reduction_order(&plan(AllReduce, true, &[&[ADD], &[ADD]])).expect("it reduces");
    assert_eq!((both.num_orders, both.differing_ranks.as_slice()), (2, &[1][..]));
    assert!(!both.is_same_on_all_ranks() && both.same_for_all_sizes && both.whole_chunks && !both.is_rank_order);
    let send = "put.m i0+2 > r0:0+2; nop; signal.m#0; wait.m#0";
    let one = "wait.m#0; nop; re i0+2 s0+2 > i0+2; put.m i0+2 > r1:0+2; nop; signal.m#0";
    let one = reduction_order(&plan(AllReduce, true, &[&[one], &[send]])).expect("it reduces");
    assert!(one.is_same_on_all_ranks() && one.same_for_all_sizes && one.is_rank_order);
    assert_ne!(one.fingerprint, both.fingerprint);
    let scatter =
        |own: u32, sum: &str| format!("put.m i{} > r0:0; nop; signal.m#0; wait.m#0; nop; re {sum} > o0", 1 - own);
    let scattered = plan(ReduceScatter, false, &[&[&scatter(0, "i0 s0")], &[&scatter(1, "i1 s0")]]);
    let scattered = reduction_order(&scattered).expect("it reduces");
    assert!(scattered.is_same_on_all_ranks() && !scattered.same_for_all_sizes && scattered.num_orders == 2);
    let sorted = plan(ReduceScatter, false, &[&[&scatter(0, "i0 s0")], &[&scatter(1, "s0 i1")]]);
    let sorted = reduction_order(&sorted).expect("it reduces");
    assert!(sorted.same_for_all_sizes && sorted.is_rank_order);
    let swapped = plan(ReduceScatter, false, &[&[&scatter(0, "s0 i0")], &[&scatter(1, "i1 s0")]]);
    let swapped = reduction_order(&swapped).expect("it reduces");
    assert!(swapped.same_for_all_sizes && !swapped.is_rank_order && swapped.fingerprint != sorted.fingerprint);
    let half = |i, sum| format!("put.m/{i}:2 i0+2 > r0:0+2; nop; signal.m#{i}; wait.m#{i}; nop; re/{i}:2 {sum} > o0+2");
    let [ab, ba] = [half(0, "i0+2 s0+2"), half(1, "s0+2 i0+2")];
    let halves = reduction_order(&plan(AllReduce, false, &[&[&ab, &ba], &[&ab, &ba]])).expect("it reduces");
    assert!(!halves.same_for_all_sizes && halves.whole_chunks);
    assert_eq!(reduction_order(&plan(Broadcast, false, &[&["copy i0+2 > o0+2"], &[""]])), None);
    assert_eq!(reduction_order(&plan(AllReduce, true, &[&["wait.m#0"], &[""]])), None);
}

/// Chunk 0 of the output is staged in chunk 1 of 3.
const STAGED: &str = "copy i0 > o1; nop; copy o1 > o0; nop; copy i1+2 > o1+2";

#[test]
fn data_that_passes_through_a_shorter_chunk_is_lost() {
    let (code, message, also) = wrong(&with_chunks(plan(Broadcast, false, &[&[STAGED]]), 3, 3));
    assert_eq!(code, Code::ShortChunk);
    let what = "`copy` (rank 0, thread block 0) stores input chunk 0 of rank 0, which output chunk 0 of rank 0 requires, in output \
        chunk 1 of rank 0, which is shorter at counts that do not divide evenly: at 1 element, elements of it are lost";
    assert_eq!(message, what);
    assert_eq!(
        also,
        [
            "`copy` (rank 0, thread block 0) writes output chunk 0 of rank 0 at rank 0 / thread block 0 / operation 2 (copy)"
        ]
    );
    // The other way around, chunk 1 passes through chunk 0, which is never shorter.
    let right = "copy i1 > o0; nop; copy o0 > o1; nop; copy i0 > o0; copy i2 > o2";
    fine(&with_chunks(plan(Broadcast, false, &[&[right]]), 3, 3));
    // A sum is lost as its terms are.
    let sum = "copy i0 > o0; copy i0 > o2; nop; re o0 i0 > o1; nop; copy o1 > o0; nop; copy i1+2 > o1+2";
    let mut sum = with_chunks(plan(Custom { input: 3, output: 3 }, false, &[&[sum]]), 3, 3);
    let inputs = vec![(0, 0), (0, 0)];
    sum.expectations =
        vec![Expectation { rank: 0, chunk: 0, len: 1, inputs, origin: mscclpp_plan::origin::Origin::UNKNOWN }];
    assert_eq!(wrong(&sum).0, Code::ShortChunk);
}

#[test]
fn chunk_that_is_never_shorter_in_the_range_of_sizes_is_no_finding() {
    let staged = with_chunks(plan(Broadcast, false, &[&[STAGED]]), 3, 3);
    // Chunk 1 of 3 is shorter for lengths below 64 bytes only: with strides of 32 bytes, it ends at 64.
    for (min, found) in [(0, true), (63, true), (64, false)] {
        let sized = PlanTree { min_message_size: min, ..staged.clone() };
        assert_eq!(self::found(&sized).is_empty(), !found, "from {min} bytes");
    }
    // The range counts the bytes of the larger buffer: 64 of the output, of which chunk 0 of the input is a third.
    let mut longer = with_chunks(
        plan(
            Custom { input: 1, output: 3 },
            false,
            &[&["copy i0 > o1; nop; copy o1 > o0; copy i0 > o2; nop; copy i0 > o1"]],
        ),
        1,
        3,
    );
    let holds = |chunk| Expectation {
        rank: 0,
        chunk,
        len: 1,
        inputs: vec![(0, 0)],
        origin: mscclpp_plan::origin::Origin::UNKNOWN,
    };
    longer.expectations = (0..3).map(holds).collect();
    for (min, found) in [(63, true), (64, false)] {
        longer.min_message_size = min;
        assert_eq!(!self::found(&longer).is_empty(), found, "from {min} bytes of the output");
    }
    assert!(found(&PlanTree { collective: Collective { dividing: true, ..staged.collective }, ..staged }).is_empty());
}

#[test]
fn inputs_that_pass_through_a_shorter_chunk_do_not_keep_their_values() {
    let clobbered = "copy i0 > o0; nop; copy i0 > o1; nop; copy o1 > i0; nop; copy i1 > o1";
    let (code, message, _) = wrong(&with_chunks(plan(Broadcast, false, &[&[clobbered]]), 2, 2));
    assert_eq!(code, Code::ShortChunk);
    assert!(message.contains("which input chunk 0 of rank 0 requires, in output chunk 1 of rank 0"), "{message}");
    // Chunk 0 is never shorter.
    fine(&with_chunks(
        plan(Broadcast, false, &[&["copy i1 > o0; nop; copy o0 > i1; nop; copy i0 > o0; copy i1 > o1"]]),
        2,
        2,
    ));
}

/// A plan of few operations with billions of chunks.
#[test]
fn chunks_are_examined_within_a_budget() {
    let chunks = u32::MAX;
    let shifted = format!("copy i0+{} > o1+{}", chunks - 1, chunks - 1);
    let mut plan = plan(Broadcast, false, &[&[&shifted]]);
    plan.collective.chunk_factor = chunks;
    let found = crate::check(&with_chunks(plan, chunks, chunks));
    assert!(!found.is_empty());
}

#[test]
fn numbers_of_chunks_count_within_the_parts_of_ranks() {
    // Chunk 2 of the output is chunk 0 of rank 1's part, so it is as long as chunk 0; chunk 3 is shorter.
    let gather = |through: u32| {
        let first = format!("copy i0 > o{through}; nop; copy o{through} > o0; copy i1 > o1; nop");
        let put = |own: u32| format!("put.m i0+2 > r2:{}+2; nop; signal.m#0; wait.m#0", 2 * own);
        let handshake = "rlxsignal.m#0; rlxwait.m#0; nop";
        let (zero, one) =
            (format!("{first}; {handshake}; {}", put(0)), format!("copy i0+2 > o2+2; {handshake}; {}", put(1)));
        with_chunks(plan(AllGather, false, &[&[&zero], &[&one]]), 2, 4)
    };
    fine(&gather(2));
    assert_eq!(wrong(&gather(3)).0, Code::ShortChunk);
}

fn with_chunks(mut plan: PlanTree, input: u32, output: u32) -> PlanTree {
    for rank in &mut plan.ranks {
        (rank.input_chunks, rank.output_chunks) = (input, output);
    }
    plan
}

#[test]
fn other_collective_is_recognized() {
    let gather =
        |from: u32, own: u32| format!("copy i{from} > o{own}; put.m i{from} > r2:{own}; nop; signal.m#0; wait.m#0");
    let gathered = |kind, parts| plan(kind, false, &[&[&gather(0, 0)], &[&gather(parts, 1)]]);
    let begin = |plan: &PlanTree| wrong(plan).1.split(':').next().map(str::to_owned).unwrap_or_default();
    for parts in [0, 1] {
        assert_eq!(begin(&gathered(AllReduce, parts)), "the plan computes an all-gather, expected an all-reduce");
    }
    let (root, other) = ("copy i0+2 > o0+2; put.m i0+2 > r2:0+2; signal.m#0", "wait.m#0");
    let sent = plan(AllReduce, false, &[&[root], &[other]]);
    assert_eq!(begin(&sent), "the plan computes a broadcast with root 0, expected an all-reduce");
}
