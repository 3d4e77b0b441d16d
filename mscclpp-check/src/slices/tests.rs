//! The kept sizes compared with all sizes.

use std::collections::BTreeSet;

use super::cut::Cut;
use super::sizes;
use crate::model::{self, Model, Size};
use crate::run::run;
use crate::testing::{ops, plan};
use crate::{Pairs, check};
use mscclpp_plan::collective::{Collective, CollectiveKind};
use mscclpp_plan::diag::{Code, Diagnostics};
use mscclpp_plan::raw::{Expectation, PlanTree};

mod random;

fn units(plan: &PlanTree) -> Vec<u64> {
    let sizes = sizes(plan.into(), None).unwrap_or_else(|finding| panic!("{finding:?}"));
    sizes.sizes.into_iter().map(|size| size.chunk() / 16).collect()
}

/// Returns the sizes that a single rank with these thread blocks needs.
fn kept(blocks: &[&str]) -> Vec<u64> {
    units(&plan(&[blocks, &[""]]))
}

/// Returns the findings of executions of a plan at the usual sizes and at some numbers of units.
fn found_at(plan: &PlanTree, units: impl Iterator<Item = u64>) -> Diagnostics {
    let pairs = Pairs::of(plan);
    let usual = model::sizes(plan.into()).expect("a plan of few pieces");
    let all = usual.into_iter().chain(units.map(|units| Size::uneven(plan, units, 16).expect("short chunks")));
    let verdict = run(all.map(|size| Model::of(plan.into(), &pairs, size)));
    verdict.in_order().into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// Slices of whole ranges lie in other chunks at other sizes; a range of sizes may exclude those at which a chunk is short.
#[test]
fn lost_slices_are_found_in_every_chunk_of_a_range() {
    let text = "plan lost\ncollective broadcast\nranks 1\nchunk_factor 6\nmin_message_size 400\n\
        rank 0 (input 6, output 6, scratch 0) {\n  block 0:\n    copy output[0..3] <- input[0..3]\n    nop\n    \
        copy output[3..6] <- input[0..3] slice 10/32\n    nop\n    copy output[0..3] <- output[3..6] slice 10/32\n    nop\n    \
        copy output[3..6] <- input[3..6]\n}\n";
    let found = check(&mscclpp_plan::text::parse(text).expect("a plan"));
    assert!(found.iter().map(|finding| finding.code).eq([Code::ShortChunk]), "{found}");
}

/// Returns a rank with the necessary thread blocks and semaphores that must copy its input to its output, and an idle
/// one.
fn program(blocks: &[String], semaphores: usize) -> PlanTree {
    let texts: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let mut plan = plan(&[&texts, &[""]]);
    plan.ranks[0].semaphores = vec![0; semaphores];
    plan
}

fn expect_copy(plan: &mut PlanTree, rank: u32, chunk: u32) {
    plan.expectations.push(Expectation {
        rank,
        chunk,
        len: 1,
        inputs: vec![(rank, chunk)],
        origin: Default::default(),
    });
}

/// Groups of `first` and of `second` members copy a chunk through scratch. Member j of the second waits for those
/// members of the first for which `waits` holds.
fn passed_on(first: u32, second: u32, waits: impl Fn(u32, u32) -> bool) -> PlanTree {
    let id = |i: u32, j: u32| i * second + j;
    let list = |ids: Vec<u32>| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let with =
        |kind: &str, ids: Vec<u32>| if ids.is_empty() { "nop".to_owned() } else { format!("{kind}#{}", list(ids)) };
    let writers = (0..first).map(|i| {
        let ids = (0..second).filter(|j| waits(i, *j)).map(|j| id(i, j)).collect();
        format!("copy/{i}:{first} i0 > s0; nop; {}", with("sem_release", ids))
    });
    let readers = (0..second).map(|j| {
        let ids = (0..first).filter(|i| waits(*i, j)).map(|i| id(i, j)).collect();
        format!("{}; nop; copy/{j}:{second} s0 > o0", with("sem_acquire", ids))
    });
    let blocks: Vec<String> = writers.chain(readers).collect();
    let mut plan = program(&blocks, (first * second) as usize);
    expect_copy(&mut plan, 0, 0);
    plan
}

/// Returns whether slices of two members of groups over one chunk overlap at a size.
fn overlap((i, first): (u32, u32), (j, second): (u32, u32), units: u64) -> bool {
    let range = |member: u32, of| {
        let cut = Cut { len: 1, of };
        cut.begin(member.into(), units)..cut.begin(u64::from(member) + 1, units)
    };
    let (one, other) = (range(i, first), range(j, second));
    one.start.max(other.start) < one.end.min(other.end)
}

fn ever_overlap(one: (u32, u32), other: (u32, u32), but: u64) -> bool {
    (1..400).any(|units| units != but && overlap(one, other, units))
}

#[test]
fn every_order_of_boundaries_occurs_below_the_bound() {
    let cuts: Vec<(u64, Cut)> =
        (0..3).flat_map(|start| (1..4).flat_map(move |len| (2..13).map(move |of| (start, Cut { len, of })))).collect();
    let mut orders = 0;
    for (number, (s, one)) in cuts.iter().enumerate() {
        for (t, other) in cuts.iter().skip(number % 7).step_by(7) {
            let order = |units: u64| {
                let boundaries = |start: u64, cut: &Cut| {
                    let cut = *cut;
                    (0..=u64::from(cut.of)).map(move |member| start * units + cut.begin(member, units))
                };
                let all: Vec<u64> =
                    boundaries(*s, one).chain(boundaries(*t, other)).chain((0..6).map(|at| at * units)).collect();
                let mut sorted = all.clone();
                sorted.sort_unstable();
                sorted.dedup();
                all.iter().map(|boundary| sorted.binary_search(boundary).unwrap() as u8).collect::<Vec<_>>()
            };
            let gcd =
                |a: u64, b: u64| (1..=a.min(b)).rev().find(|d| a.is_multiple_of(*d) && b.is_multiple_of(*d)).unwrap();
            let (p, q) = (one.period(), other.period());
            let bound = (2 + u64::from(one.of.max(other.of)) / 4) * (p / gcd(p, q) * q);
            let known: BTreeSet<_> = (1..=bound).map(order).collect();
            orders += known.len();
            assert!(
                (bound + 1..3 * bound).all(|units| known.contains(&order(units))),
                "{one:?} at {s}, {other:?} at {t}"
            );
        }
    }
    assert!(orders > 1000, "{orders}");
}

#[test]
fn new_arrangements_of_eight_and_four_members_occur_beyond_sixteen_units() {
    let order = |units: u64| {
        let of = |of: u32| (0..of).map(move |member| Cut { len: 1, of }.begin(member.into(), units));
        of(8).flat_map(|a| of(4).map(move |b| a.cmp(&b))).collect::<Vec<_>>()
    };
    let new: Vec<u64> = (1..200).filter(|units| (1..*units).all(|less| order(less) != order(*units))).collect();
    assert_eq!(new[new.len() - 3..], [19, 20, 21]);
}

#[test]
fn plans_without_uneven_slices_need_no_additional_sizes() {
    for blocks in [
        &["copy i0+2 > s0+2", "copy s0 > o0"][..],
        &["copy/0:2 i0+2 > s0+2", "copy/1:2 i0+2 > s0+2; copy s0 > o0"],
        &["copy/0:2 i0 > s0", "copy/1:2 i0 > s0; copy/1:2 i1 > s1; copy s0+2 > o0+2"],
        &["copy/0:5 i0 > s0; nop; copy/0:5 s0 > o0", "copy/4:5 i0 > s0; copy s1 > o1"],
        &["copy/0:4096 i0 > s0; nop; copy/0:4096 s0 > o0", "copy s0+2 > o0+2"],
    ] {
        assert_eq!(kept(blocks), [0; 0], "{blocks:?}");
    }
}

#[test]
fn few_sizes_represent_all() {
    // At odd sizes the second member has a unit of the second chunk.
    assert_eq!(kept(&["copy/0:4 i0+2 > s0+2", "copy s1 > o0"]).len(), 1);
    for (first, second, most) in [(2, 3, 1), (7, 3, 2), (8, 4, 3), (16, 12, 5), (5, 64, 13)] {
        let kept = units(&passed_on(first, second, |_, _| true));
        assert!(kept.len() <= most, "{first} {second}: {kept:?}");
    }
}

#[test]
fn members_that_overlap_at_one_size_only_are_found_in_plans_of_any_length() {
    // The fourth of seven and the third of three share a unit where a chunk has four.
    let needed = |i, j| ever_overlap((i, 7), (j, 3), 4);
    assert!(overlap((3, 7), (2, 3), 4) && !needed(3, 2));
    for length in [0, 3_000, 20_000] {
        let with = |waits: &dyn Fn(u32, u32) -> bool| {
            let mut plan = passed_on(7, 3, waits);
            let filler = ops("copy i1 > s1; nop");
            plan.ranks[0].blocks[0].ops.extend(filler.iter().cycle().take(length).cloned());
            check(&plan)
        };
        let found = with(&needed);
        let codes: Vec<Code> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::Race], "{length}: {found}");
        let right = with(&|i, j| needed(i, j) || (i, j) == (3, 2));
        assert!(right.is_empty(), "{length}: {right}");
    }
}

#[test]
fn members_that_write_the_next_chunk_at_odd_sizes_are_found() {
    // All ranges in scratch are cut in one way. The second of four has a unit of the second chunk where chunks have odd
    // lengths.
    let from = |first: u32, third: u32| {
        let block = |member: u32, from: u32| format!("copy/{member}:4 i{from}+2 > s0+2; nop; sem_release#{member}");
        let last = "sem_acquire#0,1,2,3; nop; copy s0+2 > o0+2".to_owned();
        let mut plan = program(&[block(0, first), block(1, first), block(2, third), block(3, third), last], 4);
        let chunk =
            |chunk, input| Expectation { rank: 0, chunk, len: 1, inputs: vec![(0, input)], origin: Default::default() };
        plan.expectations.extend([chunk(0, first), chunk(1, third + 1)]);
        plan
    };
    assert!(check(&from(0, 0)).is_empty());
    let found = check(&from(0, 2));
    assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), [Code::WrongResult], "{found}");
}

/// A reader of packets acquires their writer's earlier operations, unless there are no packets.
#[test]
fn empty_packets_order_nothing_in_plans_of_any_length() {
    for (of, length) in [(2, 0), (2, 8_300), (8, 0), (8, 4_000)] {
        let with = |slice: &str| {
            let writer = format!("copy s1 > o1; nop; cpkt{slice} i0 > s4");
            let reader = format!("upkt{slice} s4 > o0; nop; copy i1 > s1");
            let mut plan = program(&[writer, reader], 0);
            let filler = ops("copy i3 > s3; nop");
            plan.ranks[0].blocks[0].ops.extend(filler.iter().cycle().take(length).cloned());
            check(&plan)
        };
        assert!(with("").is_empty(), "{}", with(""));
        assert!(with(&format!("/0:{of}")).is_empty(), "there is always a first unit");
        let found = with(&format!("/{}:{of}", of - 1));
        assert_eq!(
            found.iter().map(|finding| finding.code).collect::<Vec<_>>(),
            [Code::Race],
            "{of} {length}: {found}"
        );
    }
}

#[test]
fn every_number_of_empty_packet_slices_is_tried() {
    let blocks: Vec<String> =
        (0..8).map(|member| format!("cpkt/{member}:8 i0 > s0; nop; upkt/{member}:8 s0 > o0")).collect();
    let plan = program(&blocks, 0);
    assert_eq!(units(&plan), [1, 2, 3, 4, 5, 6, 7]);
    // In conservative executions the usual size is enough.
    let usual = model::sizes((&plan).into()).expect("a plan of few pieces");
    let uneven = sizes((&plan).into(), None).expect("few sizes");
    assert_eq!(uneven.conservative(&plan, &usual).map(|sizes| sizes.len()), Some(1));
}

/// Returns the findings of conservative executions, if these are fewer.
fn found_conservatively(plan: &PlanTree) -> Option<Diagnostics> {
    let pairs = Pairs::of(plan);
    let usual = model::sizes(plan.into()).expect("a plan of few pieces");
    let all = sizes(plan.into(), None).ok()?.conservative(plan, &usual)?;
    let verdict = run(all.into_iter().map(|size| Model::of(plan.into(), &pairs, size)));
    Some(verdict.in_order().into_iter().find(|found| !found.is_empty()).unwrap_or_default())
}

#[test]
fn packets_of_members_that_may_be_empty_order_nothing() {
    let found = |member: u32| {
        let others = "cpkt/0:4 i2 > s6; nop; upkt/0:4 s6 > o2; nop; cpkt/3:4 i3 > s7; nop; upkt/3:4 s7 > o3";
        let writer = format!("copy s1 > o1; nop; cpkt/{member}:4 i0 > s4; {others}");
        let reader = format!("upkt/{member}:4 s4 > o0; nop; copy i1 > s1");
        let found = found_conservatively(&program(&[writer, reader], 0)).expect("sizes with empty members");
        found.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(found(0), []);
    assert_eq!(found(3), [Code::Race]);
}

#[test]
fn range_across_postconditions_is_examined_by_chunks() {
    let units = |kind, chunks: u32| {
        let blocks: Vec<String> = (0..4).map(|member| format!("copy/{member}:4 s0+2 > o0+2")).collect();
        let mut plan = program(&blocks, 0);
        plan.collective = Collective::new(kind);
        for rank in &mut plan.ranks {
            (rank.input_chunks, rank.output_chunks) = (chunks, 2);
        }
        units(&plan)
    };
    assert_eq!(units(CollectiveKind::AllReduce, 2), [0; 0]);
    assert_eq!(units(CollectiveKind::AllGather, 1), [1]);
}

#[test]
fn undecided_plans_are_rejected_with_their_cuts() {
    let found = check(&plan(&[&["copy/0:1009 i0 > s0; nop; copy/3:1013 s0 > o0"], &[""]]));
    let finding = found.iter().next().expect("a finding");
    assert_eq!(finding.code, Code::AnalysisLimit);
    assert!(finding.message.contains("1013 members over 1 chunk and of 1009 members over 1 chunk"), "{found}");
    for of in [u32::MAX, u32::MAX - 1] {
        let found = check(&plan(&[&[&format!("copy/0:{of} i0 > s0; nop; cpkt/1:{of} s0+3 > s3+3")], &[""]]));
        assert!(!found.is_empty());
    }
}

#[test]
fn huge_numbers_are_rejected_or_decided() {
    let mut plan = plan(&[&["copy/0:3 i0+8 > o0+8; copy/1:3 s0 > s4"], &[""]]);
    for rank in &mut plan.ranks {
        (rank.input_chunks, rank.output_chunks, rank.scratch_chunks) = (u32::MAX, u32::MAX, u32::MAX);
    }
    plan.collective = Collective::new(CollectiveKind::Test { input: u32::MAX, output: u32::MAX });
    let _ = check(&plan);
    for op in plan.ranks[0].blocks[0].ops.iter_mut() {
        op.srcs.iter_mut().chain(&mut op.dsts).for_each(|range| (range.index, range.size) = (0, u32::MAX - 1));
    }
    let _ = check(&plan);
    plan.buffer_alignment = 1 << 31;
    let _ = check(&plan);
}

/// Thread block 3 waits for block 2 only. With equal slices that would be enough for the second chunk.
#[test]
fn slice_that_extends_into_the_next_chunk_is_found() {
    let blocks = |order: &'static str| {
        let last = format!("copy/3:4 i0+2 > s0+2; {order}; nop; copy s1 > o0");
        let found = check(&plan(&[
            &[
                "copy/0:4 i0+2 > s0+2",
                "copy/1:4 i0+2 > s0+2; nop; sem_release#1",
                "copy/2:4 i0+2 > s0+2; nop; sem_release#0",
                &last,
            ],
            &[""],
        ]));
        found.into_iter().map(|finding| (finding.code, finding.message)).collect::<Vec<_>>()
    };
    assert_eq!(blocks("sem_acquire#0,1"), []);
    let found = blocks("sem_acquire#0; nop; copy s1 > o1; sem_acquire#1");
    assert!(found.iter().all(|(code, message)| *code == Code::Race && message.contains("thread block 1")), "{found:?}");
    assert!(!found.is_empty());
}
