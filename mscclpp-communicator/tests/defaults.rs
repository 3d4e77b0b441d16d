//! What a process sets for its communicators, in a process of its own, whose other tests would follow it.

use std::sync::Mutex;

use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Error;
use mscclpp_select::tuning::{CandidateTime, MachineInfo, TuningEntry, TuningTable};
use mscclpp_select::{Algorithm, Choice, Config, OrderPolicy, Registry, RegistryError, Request, defaults};

#[path = "../../mscclpp-exec/tests/common/ranks.rs"]
mod ranks;

use ranks::on_ranks;

const LEN: usize = 3000;
const ALL_PAIRS: &str = "allreduce_all_pairs";

/// Lets one test at a time set what holds for the process.
static SET: Mutex<()> = Mutex::new(());

/// Returns the request of an all-reduce of two ranks, in place.
fn request(bytes: u64) -> Request {
    Request { in_place: true, ..Request::new(CollectiveKind::AllReduce, 2, mscclpp_exec::DataType::U32, bytes) }
}

/// Returns the plan of an algorithm for two ranks, in place.
fn plan() -> Plan {
    let (registry, request) = (Registry::builtin(), request(4 * LEN as u64));
    let decision = registry.decision(&request, &Choice::named(ALL_PAIRS)).expect("built in");
    registry.plan(&request, &decision).expect("built in")
}

fn reduce(comm: &Communicator) -> Result<(), Error> {
    let mut x = vec![1_u32; LEN];
    comm.all_reduce_in_place(&mut x, ReduceOp::Sum)?;
    assert_eq!(x, vec![comm.num_ranks(); LEN]);
    Ok(())
}

/// Returns the algorithms that have served calls.
fn served(comm: &Communicator) -> Vec<String> {
    comm.call_counts().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn each_source_of_a_plan_serves_its_calls_and_no_others() {
    let _set = SET.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.plan");
    std::fs::write(&path, plan().to_bytes(mscclpp_core::plan::Format::Text)).expect("written");
    let table = || {
        let fastest = CandidateTime { algorithm: "allreduce_ring".into(), blocks: None, threads: None, time_us: 1.0 };
        let mut table = TuningTable::new(MachineInfo::current());
        table.entries.push(TuningEntry::new(&request(1 << 14), fastest, Vec::new()));
        table
    };
    type Change<'a> = Box<dyn Fn(&mut Registry) -> Result<(), RegistryError> + Sync + 'a>;
    let file = || Algorithm::load(&path).expect("a plan").with_name("file");
    let sources: [(&str, &str, Change<'_>); 4] = [
        ("memory", "memory", Box::new(|registry| registry.add(Algorithm::plan(plan()).with_name("memory")))),
        ("file", "file", Box::new(|registry| registry.add(file()))),
        (
            "folder",
            "allreduce_all_pairs (mine.plan)",
            Box::new(|registry| {
                registry.add_directory(folder.path());
                Ok(())
            }),
        ),
        (
            "table",
            "allreduce_ring",
            Box::new(|registry| {
                registry.set_table(Some(table()));
                Ok(())
            }),
        ),
    ];
    for (source, expected, change) in &sources {
        on_ranks(2, |comm| {
            comm.configure(change).expect("all ranks").expect("another name");
            reduce(comm).expect("all ranks");
            comm.all_gather(&[comm.rank()], &mut [0; 2]).expect("all ranks");
            let served = served(comm);
            assert!(served.len() == 2 && served.iter().any(|name| name == expected), "{source}: {served:?}");
        });
    }
    assert_eq!(defaults::register_plan(plan(), Some("registered")).as_deref(), Ok("registered"));
    let on_registered = |expected: &str| {
        on_ranks(2, |comm| {
            reduce(comm).expect("all ranks");
            assert_eq!(served(comm), [expected]);
        });
    };
    on_registered("registered");
    defaults::set_selector(|call| {
        Ok(call.candidates.iter().any(|of| of.name() == "registered").then(|| Choice::named("allreduce_ring")))
    });
    on_registered("allreduce_ring");
    defaults::clear_selector();
    let again = defaults::register_plan(plan(), Some("registered"));
    assert!(matches!(again, Err(RegistryError::Duplicate { .. })), "{again:?}");
    assert!(matches!(defaults::register_plan(plan(), Some("\n")), Err(RegistryError::Name { .. })));
    assert!(defaults::remove_plan("registered") && !defaults::remove_plan("registered"));
}

#[test]
fn selector_is_asked_for_each_call() {
    let _set = SET.lock();
    let names = ["allreduce_ring", ALL_PAIRS, "allreduce_ring", ALL_PAIRS];
    on_ranks(2, |comm| {
        // One of two threads sets it, between calls of both.
        for (number, name) in names.into_iter().enumerate() {
            comm.barrier().expect("all ranks");
            if comm.rank() == 0 {
                defaults::set_selector(move |call| Ok((call.request.bytes > 8).then(|| Choice::named(name))));
            }
            comm.barrier().expect("all ranks");
            reduce(comm).expect("all ranks");
            let counts = comm.call_counts();
            let of = counts.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
            assert_eq!(of, Some(number as u64 / 2 + 1), "{counts:?}");
        }
        // A choice of the caller precedes it.
        comm.force_algorithm(Some((CollectiveKind::AllReduce, Choice::named("allreduce_ring")))).expect("no call");
        reduce(comm).expect("all ranks");
        let counts = comm.call_counts();
        let of = |name| counts.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
        assert_eq!([of("allreduce_ring"), of(ALL_PAIRS)], [Some(3), Some(2)], "{counts:?}");
    });
    defaults::clear_selector();
}

#[test]
fn thread_is_in_the_selector_while_it_is_asked() {
    let _set = SET.lock();
    let ask = || defaults::ask(&Registry::builtin(), &request(64), std::iter::empty(), false);
    for fails in [false, true] {
        defaults::set_selector(move |_| {
            assert!(defaults::is_in_selector() && !fails, "out of range");
            Ok(None)
        });
        assert!(!defaults::is_in_selector());
        assert_eq!(ask().is_err(), fails);
        assert!(!defaults::is_in_selector());
    }
    defaults::clear_selector();
}

#[test]
fn candidates_serve_all_pieces_of_a_call() {
    let _set = SET.lock();
    let mut registry = Registry::builtin();
    let long = Algorithm::plan(plan()).with_name("long").with_constraints(|of| of.bytes = 64..=u64::MAX);
    registry.add(long).expect("another name");
    defaults::set_selector(|call| {
        Ok(call.candidates.iter().any(|of| of.name() == "long").then(|| Choice::named("long")))
    });
    let asked = |pieces: &[u64]| {
        defaults::ask(&registry, &request(96), pieces.iter().copied().map(request), false).expect("no error")
    };
    assert_eq!(asked(&[]), Some(Choice::named("long")));
    assert_eq!(asked(&[64]), Some(Choice::named("long")));
    assert_eq!(asked(&[64, 32]), None);
    defaults::clear_selector();
}

#[test]
fn failures_of_selectors_are_those_of_all_ranks() {
    let _set = SET.lock();
    // Panics and errors of one rank, by the number of the call.
    for panics in [false, true] {
        let asked = Mutex::new(0);
        defaults::set_selector(move |_| {
            let number = {
                let mut asked = asked.lock().expect("no panic");
                *asked += 1;
                *asked
            };
            match number {
                4 if panics => panic!("out of range"),
                4 => Err("out of range".into()),
                _ => Ok(None),
            }
        });
        on_ranks(2, |comm| {
            reduce(comm).expect("all ranks");
            comm.barrier().expect("all ranks");
            let error = reduce(comm).expect_err("one of the selectors failed").to_string();
            assert!(error.contains("the selector failed: ") && error.contains("out of range"), "{error}");
            assert!(error.contains("allreduce") && !error.contains("barrier"), "not in the call before: {error}");
        });
        defaults::clear_selector();
    }
    defaults::set_selector(|_| Ok(Some(Choice { config: Config::default(), ..Choice::named("fastest") })));
    on_ranks(2, |comm| {
        let error = reduce(comm).expect_err("there is none").to_string();
        assert!(error.contains("the selector selected `fastest`") && error.contains("`allreduce_ring`"), "{error}");
        comm.force_algorithm(Some((CollectiveKind::AllReduce, Choice::named("allreduce_ring")))).expect("no call");
        reduce(comm).expect("the communicator continues");
    });
    defaults::clear_selector();
}

#[test]
fn order_is_that_of_the_process_and_of_the_communicator_that_was_divided() {
    let _set = SET.lock();
    defaults::set_order_policy(Some(OrderPolicy::RankOrder));
    on_ranks(2, |comm| {
        assert_eq!(comm.order_policy(), OrderPolicy::RankOrder);
        comm.set_order_policy(OrderPolicy::SameOnAllRanks);
        let part = comm.split(Some(0), comm.rank()).expect("all ranks").expect("a part");
        let of_list = comm.subgroup(&[0, 1]).expect("all ranks").expect("a part");
        assert_eq!([part.order_policy(), of_list.order_policy()], [OrderPolicy::SameOnAllRanks; 2]);
    });
    defaults::set_order_policy(None);
    on_ranks(2, |comm| {
        assert_eq!(comm.order_policy(), OrderPolicy::InSwitch);
        assert_eq!(comm.with_order_at_least(OrderPolicy::SameOnAllRanks).order_policy(), OrderPolicy::SameOnAllRanks);
        assert_eq!(comm.with_order_at_least(OrderPolicy::Any).order_policy(), OrderPolicy::InSwitch);
        // An order that only one rank demands is an error of all, which names both.
        let least = if comm.rank() == 0 { OrderPolicy::Any } else { OrderPolicy::RankOrder };
        let error = reduce(&comm.with_order_at_least(least)).expect_err("ranks differ").to_string();
        assert!(error.contains("in-switch") && error.contains("rank-order"), "{error}");
    });
}
