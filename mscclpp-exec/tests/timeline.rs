//! Timelines of launches on the CPU.

use std::collections::BTreeMap;
use std::fs;

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::process::TimelineFile;
use mscclpp_exec::timeline::{Event, Timeline};
use mscclpp_exec::{DataType, Message};

fn plan(name: &str) -> Plan {
    let algorithm = algorithms::find(name).expect("a built-in algorithm");
    algorithm.plan(algorithm.spec(4, 4), &[]).expect("four ranks")
}

/// Records one launch after another that is not recorded.
fn record(plan: &Plan, options: Options, count: u64) -> Timeline {
    let executor = Executor::with_options(plan.num_ranks(), options);
    let mut run = executor.prepare(plan, Message::new(DataType::I32, count).any_size()).expect("a message");
    let mut buffers = run.buffers().expect("memory");
    run.launch_buffers(&mut buffers).expect("it runs");
    run.start_timeline();
    run.launch_buffers(&mut buffers).expect("it runs");
    let timeline = run.take_timeline();
    run.launch_buffers(&mut buffers).expect("it runs");
    assert!(run.take_timeline().events.is_empty(), "{}: a launch that is not recorded", plan.name());
    timeline
}

/// Events by rank and thread block.
fn by_block(timeline: &Timeline) -> BTreeMap<(u32, u32), Vec<&Event>> {
    let mut blocks = BTreeMap::<_, Vec<_>>::new();
    for event in &timeline.events {
        blocks.entry((event.rank, event.block)).or_default().push(event);
    }
    blocks
}

#[test]
fn each_executed_operation_has_one_stamp_in_order() {
    let options = Options::default();
    let all = [
        options,
        options.workers(Some(3)).parallel_from(0),
        options.schedule(Schedule::Seeded(1)),
        options.schedule(Schedule::Seeded(2)),
    ];
    for algorithm in algorithms::all().iter().filter(|algorithm| algorithm.kind() == CollectiveKind::AllReduce) {
        let Ok(plan) = algorithm.plan(algorithm.spec(4, 4), &[]) else { continue };
        for options in all {
            let timeline = record(&plan, options, 4 * 555);
            let name = plan.name();
            assert_eq!((timeline.plan.as_str(), timeline.dropped), (name, 0));
            let blocks = by_block(&timeline);
            for rank in 0..plan.num_ranks() {
                let rank_view = plan.rank(rank).expect("a rank");
                for block in 0..rank_view.num_blocks() {
                    let ops = rank_view.block(block).expect("a thread block").num_ops();
                    let events = blocks.get(&(rank, block)).map_or(&[][..], Vec::as_slice);
                    let mut iterations = BTreeMap::<u32, Vec<u64>>::new();
                    for event in events {
                        iterations.entry(event.op).or_default().push(event.iteration);
                        assert!(event.waited <= event.end - event.begin, "{name}: {event:?}");
                        assert_eq!(event.launch, 2, "{name}");
                    }
                    assert!(events.windows(2).all(|two| two[0].end <= two[1].begin), "{name}: rank {rank}, {block}");
                    assert_eq!(iterations.keys().copied().collect::<Vec<_>>(), (0..ops).collect::<Vec<_>>(), "{name}");
                    for (op, found) in iterations {
                        let expected: Vec<u64> = (0..found.len() as u64).collect();
                        assert_eq!(found, expected, "{name}: rank {rank}, {block}, operation {op}");
                    }
                }
            }
        }
    }
}

#[test]
fn waits_and_sources_are_recorded() {
    let timeline = record(&plan("allreduce_ring"), Options::default().workers(Some(1)), 64);
    // One worker runs rank 0 first, which waits for the others.
    assert!(timeline.events.iter().any(|event| event.kind == OpKind::Wait && event.waited > 0), "{timeline:?}");
    let located = |event: &Event| event.location.as_ref().is_some_and(|at| at.file.ends_with(".rs") && at.line > 0);
    assert!(timeline.events.iter().all(located), "{timeline:?}");
}

#[test]
fn trace_has_what_viewers_require() {
    let timeline = record(&plan("allreduce_ring"), Options::default(), 64);
    let mut operations = 0;
    for event in timeline.trace_events() {
        for key in ["ts", "dur", "pid", "tid"] {
            assert!(event[key].is_number(), "{key}: {event}");
        }
        match event["ph"].as_str() {
            Some("X") => operations += 1,
            Some("M") => assert!(event["args"]["name"].is_string(), "{event}"),
            _ => panic!("{event}"),
        }
        assert!(event["name"].is_string(), "{event}");
    }
    assert_eq!(operations, timeline.events.len());
}

/// A program may end without destroying what records its launches.
#[test]
fn file_is_complete_after_each_timeline() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let mut file = TimelineFile::new(&path, 1, "rank 1".into());
    file.add(&Timeline::default());
    assert!(!path.exists(), "nothing was recorded");
    let timeline = record(&plan("allreduce_ring"), Options::default(), 64);
    for number in 1..4 {
        file.add(&timeline);
        let events: Vec<serde_json::Value> =
            serde_json::from_slice(&fs::read(&path).expect("a file")).expect("a trace");
        let count = |name: &str| events.iter().filter(|event| event["name"] == name).count();
        let operations = events.iter().filter(|event| event["ph"] == "X").count();
        assert_eq!(operations, number * timeline.events.len());
        assert_eq!((count("process_sort_index"), count("process_name")), (1, 1));
    }
    let before = fs::read(&path).expect("a file");
    TimelineFile::new(&path, 1, "rank 1".into()).add(&timeline);
    assert_eq!(fs::read(&path).expect("a file"), before, "a file that exists is left as it is");
}
