//! What goes between nodes without anybody waiting for it: four ranks on two nodes.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::vocab::Sync;
use mscclpp_exec::process::Transport;
use mscclpp_exec::{Error, Message};

use crate::spawn::Job;

/// A plan that is checked by nobody: ranks 0 and 1 are on a node, 2 and 3 on the other one.
fn unchecked(body: impl FnOnce(&Program)) -> Plan {
    let kind = CollectiveKind::Custom { input: 1, output: 1 };
    let program = Program::new(AlgoSpec { ranks_per_node: 2, ..AlgoSpec::new("plan", kind, 4) });
    body(&program);
    Plan::new(&lower(&program.finish().expect("a program")).expect("a plan"))
}

/// Rank 0 puts to rank 2 and flushes. That it did so rank 2 hears by another way.
fn flushed(role: &str) -> Plan {
    unchecked(|p| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|rank| p.rank(rank));
        let (ac, ca) = (a.port_channel(c), c.port_channel(a));
        ca.signal(0);
        ac.wait(0).sync(Sync::After);
        let (scratch, output) = (c.scratch(1).chunk(0), c.output().chunk(0));
        if role == "scratch" {
            ac.put(scratch, a.input().chunk(0), 0);
        } else {
            ac.put(output, a.input().chunk(0), 0);
        }
        ac.flush(0);
        match role {
            // Through the neighbour of the rank that puts.
            "third rank" => {
                let (ab, ba) = (a.memory_channel(b), b.memory_channel(a));
                let (bc, cb) = (b.port_channel(c), c.port_channel(b));
                ab.signal(0).sync(Sync::Before);
                ba.wait(0).sync(Sync::After);
                bc.signal(0).sync(Sync::Before);
                cb.wait(0).sync(Sync::After);
            }
            // Through the neighbour of the rank to which it puts, which waits for that as the last thing.
            _ => {
                let (ad, da) = (a.port_channel(d), d.port_channel(a));
                let (cd, dc) = (c.memory_channel(d), d.memory_channel(c));
                ad.signal(0).sync(Sync::Before);
                da.wait(0).sync(Sync::After);
                dc.signal(0).sync(Sync::Before);
                cd.wait(0).sync(Sync::After);
            }
        }
        if role == "scratch" {
            c.copy(output, scratch, 0);
        }
    })
}

/// Rank 0 puts to rank 2 what nobody reads, then to rank 3, which tells rank 2. What that waits for is left to the executor.
fn dead_put() -> Plan {
    unchecked(|p| {
        let [a, _, c, d] = [0, 1, 2, 3].map(|rank| p.rank(rank));
        let (ac, ca) = (a.port_channel(c), c.port_channel(a));
        let (ad, da) = (a.port_channel(d), d.port_channel(a));
        let (cd, dc) = (c.memory_channel(d), d.memory_channel(c));
        ca.signal(0);
        da.signal(0);
        ac.wait(0);
        ad.wait(0).sync(Sync::After);
        ac.put(c.scratch(1).chunk(0), a.input().chunk(0), 0);
        ac.flush(0);
        ad.put_with_signal_and_flush(d.output().chunk(0), a.input().chunk(0), 0);
        da.wait(0).sync(Sync::After);
        dc.signal(0).sync(Sync::Before);
        cd.wait(0).sync(Sync::After);
    })
}

/// Elements of 4 MiB.
const COUNT: usize = 1 << 20;

/// Launches until `most` of them went well or one fails. `receiver`: whose output is rank 0's input.
fn launch(transport: &Transport, plan: &Plan, receiver: u32, most: u32) -> Result<(), Error> {
    let mut x = transport.prepare(plan, Message::of::<u32>(COUNT)).expect("all are there");
    let (mut input, mut output) = (vec![0; COUNT], vec![0; COUNT]);
    for launch in 1..=most {
        input.fill(16 * launch + transport.rank());
        output.fill(0);
        x.launch(&input, &mut output)?;
        if transport.rank() == receiver {
            let wrong = output.iter().filter(|found| **found != 16 * launch).count();
            assert_eq!(wrong, 0, "launch {launch} left so many elements wrong");
        }
    }
    Ok(())
}

/// What a rank does in a role of this file, if it is one.
pub fn play(role: &str, transport: &Transport) -> bool {
    match role {
        "dead put" => {
            let launches = std::env::var("MSCCLPP_SOAK").ok().and_then(|launches| launches.parse().ok()).unwrap_or(30);
            launch(transport, &dead_put(), 3, launches).expect("whoever waits keeps the connections moving");
            println!("all right");
        }
        "third rank" | "neighbour" | "scratch" => {
            let error = launch(transport, &flushed(role), 2, 200).expect_err("data is late sooner or later");
            if transport.rank() == 2 {
                let Error::LateData(late) = &error else { panic!("{error}") };
                assert_eq!((late.rank, late.peer, error.code()), (2, 0, Code::OpenEnd), "{error}");
                assert!(error.diagnostic().to_string().contains("behind the put"), "{}", error.diagnostic());
            }
            println!("{error}");
            assert!(matches!(transport.barrier(), Err(Error::Broken { .. })));
        }
        _ => return false,
    }
    true
}

/// Nothing is dropped, and nothing is written to memory that its caller has back.
#[test]
fn data_that_was_flushed_and_not_waited_for_is_an_error_of_all_ranks() {
    for (role, memory) in [("third rank", "output"), ("neighbour", "output"), ("scratch", "scratch")] {
        let said = format!(
            "data from rank 0 for the {memory} of rank 2 arrived after the operations of rank 2 had ended; it was sent by \
             rank 0 / thread block 0 / operation "
        );
        for (rank, text) in Job::start(role, 4, 2).succeed().iter().enumerate() {
            assert!(text.contains(&said), "{role}, rank {rank}: {text}");
        }
    }
}

/// A rank that waits for its neighbour takes what is sent to it meanwhile: the sender gets to its next operation only then.
/// `MSCCLPP_SOAK` is the number of launches.
#[test]
fn a_rank_that_waits_keeps_its_connections_moving() {
    for text in Job::start("dead put", 4, 2).succeed() {
        assert!(text.contains("all right"), "{text}");
    }
}
