//! Data between nodes that no operation waits for.

use std::time::Duration;

use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_exec::process::{Executor, PreparedPlan};
use mscclpp_exec::{Error, Message};

use super::spawn::Job;
use crate::common::flushed::{News, dead_put, flushed, used_first_thing};

/// Elements of 4 MiB.
const COUNT: usize = 1 << 20;

fn prepare(transport: &Executor, plan: &Plan, count: usize) -> PreparedPlan {
    transport.prepare(plan, Message::of::<u32>(count)).expect("all are there")
}

/// A launch after which `receiver` must have the input of rank `from`.
fn launch(transport: &Executor, x: &mut PreparedPlan, (from, receiver): (u32, u32), number: u32) -> Result<(), Error> {
    let input = vec![16 * number + transport.rank(); x.input_len()];
    let mut output = vec![0; x.output_len()];
    x.launch(&input, &mut output)?;
    if transport.rank() == receiver {
        let wrong = output.iter().filter(|found| **found != 16 * number + from).count();
        assert_eq!(wrong, 0, "launch {number} left so many elements wrong");
    }
    Ok(())
}

/// Launches until one fails, and checks the error.
fn data_is_late(transport: &Executor, news: News) {
    let mut x = prepare(transport, &flushed(news), COUNT);
    // Which arrives first depends on timing; usually one of the first launches fails.
    let failed = (1..=5000).find_map(|number| launch(transport, &mut x, (0, 2), number % 100).err());
    let error = failed.expect("data is late sooner or later");
    if transport.rank() == 2 {
        let Error::LateData(late) = &error else { panic!("{error}") };
        assert_eq!((late.rank, late.peer, error.code()), (2, 0, Code::LateAccess), "{error}");
        assert!(error.diagnostic().to_string().contains("after the put"), "{}", error.diagnostic());
    }
    println!("{error}");
    assert!(matches!(launch(transport, &mut x, (0, 2), 0), Err(Error::Bootstrap(_))));
    // The exit of a rank would hide the cause: the others must receive its error first.
    if transport.rank() == 2 {
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Runs the part of a rank in a role of this file; returns whether the role is one.
pub fn play(role: &str, transport: &Executor) -> bool {
    match role {
        "by third rank" => data_is_late(transport, News::ByThirdRank),
        "by neighbour" => data_is_late(transport, News::ByNeighbour),
        "for scratch" => data_is_late(transport, News::ForScratch),
        "dead put" => {
            let launches = std::env::var("MSCCLPP_SOAK").ok().and_then(|launches| launches.parse().ok()).unwrap_or(20);
            let mut x = prepare(transport, &dead_put(), COUNT);
            for number in 1..=launches {
                launch(transport, &mut x, (0, 3), number).expect("whoever waits keeps the connections moving");
            }
            println!("all right");
        }
        "sizes" => {
            let plan = used_first_thing();
            let mut all = [COUNT, 1000, COUNT / 4, 3 * COUNT / 4].map(|count| prepare(transport, &plan, count));
            for number in 1..=24 {
                // Equal sizes and others in sequence, growing and shrinking.
                let x = &mut all[[0, 0, 1, 2, 0, 3, 2, 2][number as usize % 8]];
                launch(transport, x, (2, 2), number).expect("no launch reaches into another one");
            }
            println!("all right");
        }
        _ => return false,
    }
    true
}

/// No data is dropped, and none is written to memory after its launch has returned.
#[test]
fn flushed_data_without_wait_is_an_error_on_all_ranks() {
    for (role, memory) in [("by third rank", "output"), ("by neighbour", "output"), ("for scratch", "scratch")] {
        let said = format!(
            "data from rank 0 for the {memory} of rank 2 arrived after the operations of rank 2 had finished; it was \
             sent by \
             rank 0 / thread block 0 / operation "
        );
        for (rank, text) in Job::start(role, 4, 2).succeed().iter().enumerate() {
            assert!(text.contains(&said), "{role}, rank {rank}: {text}");
        }
    }
}

/// A rank that waits for its neighbor receives the data that is sent to it meanwhile: the sender reaches its next
/// operation only then. `MSCCLPP_SOAK` is the number of launches.
#[test]
fn waiting_rank_serves_its_connections() {
    for text in Job::start("dead put", 4, 2).succeed() {
        assert!(text.contains("all right"), "{text}");
    }
}

/// A late put of one launch does not change the scratch of the next launch, whatever size it has.
#[test]
fn launches_of_different_sizes_do_not_interfere() {
    for text in Job::start("sizes", 4, 2).succeed() {
        assert!(text.contains("all right"), "{text}");
    }
}
