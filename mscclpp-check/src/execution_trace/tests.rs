use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;

use super::{execution_trace, mark_findings};
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::raw::{Op, OpKind, PlanTree};
use mscclpp_plan::types::BlockSync;
use mscclpp_trace::Class;

/// Returns a plan of two ranks, given the number of chunks of its input and output.
fn plan(chunks: u32, record: impl Fn(&Program)) -> PlanTree {
    let kind = CollectiveKind::Test { input: chunks, output: chunks };
    let program = Program::new(AlgoSpec::new("traced", kind, 2));
    record(&program);
    lower(&program.finish().unwrap()).unwrap()
}

/// Both ranks put a chunk into the other's output, over memory or a port, and signal.
fn swap(port: bool) -> PlanTree {
    plan(1, |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let (from, to) = (rank.input().chunk(0), peer.output().chunk(0));
            if port {
                let channel = rank.port_channel(peer);
                channel.put(to, from, 0);
                channel.signal(0);
                channel.flush(0);
                channel.wait(0).sync(BlockSync::After);
            } else {
                let channel = rank.memory_channel(peer);
                channel.put(to, from, 0);
                channel.signal(0).sync(BlockSync::Before);
                channel.wait(0).sync(BlockSync::After);
            }
        }
    })
}

/// Packets, a semaphore between two blocks, and a barrier.
fn packets() -> PlanTree {
    plan(1, |p| {
        let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            let semaphore = rank.semaphore(0);
            channel.put_packets(scratch[peer.id()].chunk(0), rank.input().chunk(0), 0);
            rank.unpack_packets(rank.output().chunk(0), scratch[rank.id()].chunk(0), 1);
            semaphore.release(1).sync(BlockSync::Before);
            semaphore.acquire(0).sync(BlockSync::After);
            rank.barrier([0, 1]);
        }
    })
}

/// A loop in two blocks, one after the other.
fn pipeline() -> PlanTree {
    plan(2, |p| {
        for rank in p.ranks() {
            let (semaphore, scratch) = (rank.semaphore(0), rank.scratch(2));
            p.pipeline(1024, 2, || {
                rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
                semaphore.release(0).sync(BlockSync::Before);
            });
            p.pipeline(1024, 2, || {
                semaphore.acquire(1).sync(BlockSync::After);
                rank.copy(scratch.chunk(..), rank.output().chunk(..), 1);
            });
        }
    })
}

/// A slice or the end of an arrow, as a viewer shows it.
#[derive(Debug)]
struct Seen {
    place: (u64, u64),
    start: u64,
    end: u64,
    category: String,
    name: String,
}

/// Returns what a viewer shows, after checking that it is complete: slices, and arrows as pairs of slices.
fn seen(plan: &PlanTree) -> (Vec<Seen>, Vec<(String, usize, usize)>) {
    let value: Value = serde_json::from_str(&serde_json::to_string(&execution_trace(plan).unwrap()).unwrap()).unwrap();
    let number = |event: &Value, key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key} of {event}"));
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_else(|| panic!("{key} of {event}")).to_owned();
    let (mut slices, mut ends, mut named) = (Vec::<Seen>::new(), BTreeMap::new(), BTreeSet::new());
    for event in value["traceEvents"].as_array().unwrap() {
        let place = (number(event, "pid"), number(event, "tid"));
        match event["ph"].as_str().unwrap() {
            "M" => drop(named.insert((text(event, "name"), place))),
            "X" => {
                let start = number(event, "ts");
                let end = start + number(event, "dur");
                for key in ["op", "source"] {
                    assert!(event["args"][key].is_string(), "{event}");
                }
                let (category, name) = (text(event, "cat"), text(event, "name"));
                slices.push(Seen { place, start, end, category, name });
            }
            phase @ ("s" | "f") => {
                assert_eq!(event["bp"] == "e", phase == "f", "{event}");
                let end = (place, number(event, "ts"), text(event, "name"));
                assert!(ends.insert((number(event, "id"), phase == "f"), end).is_none(), "two ends: {event}");
            }
            other => panic!("{other}"),
        }
    }
    for slice in &slices {
        assert!(slice.start < slice.end, "{slice:?}");
        assert!(named.contains(&("thread_name".to_owned(), slice.place)), "{slice:?}");
        assert!(named.contains(&("process_name".to_owned(), (slice.place.0, 0))), "{slice:?}");
        let beside = |other: &&Seen| other.place == slice.place && other.start < slice.end && slice.start < other.end;
        assert_eq!(slices.iter().filter(beside).count(), 1, "slices overlap: {slice:?}");
    }
    let around = |(place, ts, _): &((u64, u64), u64, String)| {
        let around = |slice: &Seen| slice.place == *place && slice.start <= *ts && *ts < slice.end;
        slices.iter().position(around).unwrap_or_else(|| panic!("an arrow hangs in the air at {place:?} {ts}"))
    };
    let mut arrows = Vec::new();
    for ((id, is_end), from) in ends.iter().filter(|((_, is_end), _)| !is_end) {
        let to = ends.get(&(*id, !is_end)).unwrap_or_else(|| panic!("arrow {id} has no end"));
        assert!(from.1 < to.1 && from.2 == to.2, "arrow {id} leads back");
        arrows.push((from.2.clone(), around(from), around(to)));
    }
    assert_eq!(ends.len(), 2 * arrows.len(), "an arrow has no start");
    (slices, arrows)
}

fn count(arrows: &[(String, usize, usize)], name: &str) -> usize {
    arrows.iter().filter(|(other, ..)| other == name).count()
}

fn operations(plan: &PlanTree) -> usize {
    plan.ranks.iter().flat_map(|rank| &rank.blocks).map(|block| block.ops.len()).sum()
}

#[test]
fn operations_have_slices_and_waits_have_arrows() {
    for (plan, expected) in [
        (swap(false), [("signal", 2), ("port", 0), ("flush", 0), ("packets", 0), ("release", 0)]),
        // Each port does a put and a signal; the wait receives the port's signal.
        (swap(true), [("signal", 2), ("port", 4), ("flush", 2), ("packets", 0), ("release", 0)]),
        (packets(), [("signal", 0), ("port", 0), ("flush", 0), ("packets", 2), ("release", 2)]),
    ] {
        let (slices, arrows) = seen(&plan);
        let of = |category: &str| slices.iter().filter(|slice| slice.category == category).count();
        assert_eq!((of("op"), of("stuck")), (operations(&plan), 0));
        for (name, expected) in expected {
            assert_eq!(count(&arrows, name), expected, "{name}: {arrows:?}");
        }
        assert_eq!(of("port"), count(&arrows, "port"));
        for (what, from, to) in &arrows {
            let (from, to) = (&slices[*from], &slices[*to]);
            let names = match what.as_str() {
                "signal" => from.name == "signal" && to.name == "wait",
                "packets" => from.name == "ppkt" && to.name == "upkt",
                "release" => from.name == "sem_release" && to.name == "sem_acquire",
                "flush" => from.category == "port" && to.name == "flush",
                _ => from.category == "op" && to.category == "port" && from.name == to.name,
            };
            assert!(names, "{what}: {from:?} {to:?}");
        }
    }
}

/// An operation begins where the previous one ends, and ends one step after what it waits for.
#[test]
fn time_is_the_depth_of_the_longest_chain() {
    for plan in [swap(false), swap(true), packets(), pipeline()] {
        let (slices, arrows) = seen(&plan);
        for (i, slice) in slices.iter().enumerate().filter(|(_, slice)| slice.category == "op") {
            let before = slices.iter().filter(|other| other.place == slice.place && other.end <= slice.start);
            assert_eq!(slice.start, before.map(|other| other.end).max().unwrap_or(0), "{slice:?}");
            let sources = arrows.iter().filter(|(.., to)| *to == i).map(|(_, from, _)| slices[*from].end);
            let ready = sources.fold(slice.start, u64::max);
            match slice.name.as_str() {
                "barrier" => assert!(slice.end >= ready + 10, "{slice:?}"),
                _ => assert_eq!(slice.end, ready + 10, "{slice:?}"),
            }
        }
    }
    // Both blocks leave their barrier at the same time.
    let (slices, _) = seen(&packets());
    let ends: BTreeSet<_> = slices.iter().filter(|slice| slice.name == "barrier").map(|slice| slice.end).collect();
    assert_eq!(ends.len(), 1, "{slices:?}");
}

#[test]
fn loops_make_a_few_numbered_iterations() {
    let plan = pipeline();
    let (slices, arrows) = seen(&plan);
    let copies = slices.iter().filter(|slice| slice.name == "copy" && slice.place == (0, 0)).count();
    assert!(copies > 1, "{slices:?}");
    assert_eq!(count(&arrows, "release"), 2 * copies);
    let text = serde_json::to_string(&execution_trace(&plan).unwrap()).unwrap();
    for iteration in 0..copies {
        assert!(text.contains(&format!("\"iteration\":{iteration},")), "{iteration}: {text}");
    }
    assert!(!text.contains(&format!("\"iteration\":{copies}")), "{text}");
}

#[test]
fn blocked_operation_extends_to_the_end_with_its_reason() {
    let mut plan = swap(false);
    let keep = |op: &Op| op.kind != OpKind::Signal;
    plan.ranks[1].blocks[0].ops.retain(keep);
    let (slices, arrows) = seen(&plan);
    let stuck: Vec<_> = slices.iter().filter(|slice| slice.category == "stuck").collect();
    assert!(stuck.len() == 1 && stuck[0].name == "stuck: wait" && stuck[0].place == (0, 0), "{stuck:?}");
    assert_eq!(stuck[0].end, slices.iter().map(|slice| slice.end).max().unwrap());
    assert_eq!(count(&arrows, "signal"), 1);
    // Operations after the wait are not executed.
    let behind = plan.ranks[0].blocks[0].ops.iter().rev().take_while(|op| op.kind != OpKind::Wait).count();
    assert_eq!(slices.len(), operations(&plan) - behind);
    let found = execution_trace(&plan).unwrap();
    assert_eq!(found.blocked(), 1);
    let text = serde_json::to_string(&found).unwrap();
    assert!(text.contains("waits for a signal of rank 1 on memory channel 0"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_tree_is_traced_or_refused(tree in crate::arbitrary::tree()) {
        match execution_trace(&tree) {
            Ok(found) => prop_assert!(serde_json::to_string(&found).is_ok()),
            Err(findings) => prop_assert!(!findings.is_empty()),
        }
    }
}

/// What chunks hold at the end.
#[test]
fn chunks_hold_what_operations_wrote() {
    for port in [false, true] {
        let trace = execution_trace(&swap(port)).unwrap();
        let memory = trace.memory.unwrap();
        let mut state = memory.initial.clone();
        for change in &memory.changes {
            // Written by the port, where one is used.
            assert_eq!(trace.slices[change.slice as usize].class == Class::Transfer, port);
            state[change.cell as usize] = change.content;
        }
        let held: Vec<_> = memory
            .cells
            .iter()
            .zip(&state)
            .map(|(cell, content)| {
                let content = &memory.contents[*content as usize];
                assert!(content.whole);
                (cell.buffer, cell.rank, content.text.as_str())
            })
            .collect();
        let expected = [
            ("input", 0, "input chunk 0 of rank 0"),
            ("input", 1, "input chunk 0 of rank 1"),
            ("output", 0, "input chunk 0 of rank 1"),
            ("output", 1, "input chunk 0 of rank 0"),
        ];
        assert_eq!(held, expected);
        assert!(memory.initial[2..].iter().all(|content| memory.contents[*content as usize].ranks.is_empty()));
    }
}

#[test]
fn findings_are_marked_at_their_operations() {
    let plan = plan(1, |p| {
        for rank in p.ranks() {
            let channel = rank.memory_channel(p.rank(1 - rank.id()));
            channel.wait(0);
            channel.signal(0);
        }
    });
    let mut trace = execution_trace(&plan).unwrap();
    assert_eq!(trace.blocked(), 2);
    let findings = crate::check(&plan);
    let unmarked = mark_findings(&mut trace, &findings);
    assert!(unmarked.is_empty(), "{unmarked:?}");
    let marked = trace.slices.iter().find(|slice| slice.details.contains_key("finding")).expect("a slice");
    assert_eq!((marked.name.as_str(), marked.class), ("wait", Class::Blocked));
}

/// A plan of a file may state any number of chunks.
#[test]
fn plan_with_billions_of_chunks_has_a_trace_without_memory() {
    let mut plan = swap(false);
    plan.ranks[0].scratch_chunks = u32::MAX;
    let trace = execution_trace(&plan).unwrap();
    assert!(trace.memory.is_none() && !trace.slices.is_empty());
}

/// The exchange of counts waits for all ranks.
#[test]
fn counted_plan_is_traced_at_full_counts() {
    let program = Program::new(AlgoSpec::new("counted", CollectiveKind::AllToAllV, 2));
    for rank in program.ranks() {
        let peer = program.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        rank.exchange_counts(0);
        channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(rank.id()), peer, rank, 0);
        rank.copy_counted(rank.output().chunk(rank.id()), rank.input().chunk(rank.id()), rank, rank, 0);
        channel.handshake(0).relaxed();
    }
    let plan = lower(&program.finish().unwrap()).unwrap();
    let trace = execution_trace(&plan).unwrap();
    assert_eq!(trace.blocked(), 0);
    // Of the exchange, and of the handshake.
    assert_eq!(trace.arrows.iter().filter(|arrow| arrow.what == "signal").count(), 4);
    let memory = trace.memory.unwrap();
    let held = memory.changes.iter().map(|change| memory.contents[change.content as usize].text.as_str());
    assert_eq!(held.collect::<std::collections::BTreeSet<_>>().len(), 4, "{memory:?}");
}
