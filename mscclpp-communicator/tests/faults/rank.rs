//! The work of a rank, in a separate process.

use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mscclpp_bootstrap as bootstrap;
use mscclpp_bootstrap::Bootstrap;
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Error;

use crate::causes;
use crate::round::FOREVER;

/// Environment variable for the file whose existence ends the role `goes on`.
pub(crate) const END: &str = "FAULT_END";
/// Environment variable with which the role `recovers` grows.
pub(crate) const GROWS: &str = "FAULT_GROWS";

/// One rank. Started by the test below, which sets its environment.
#[test]
#[ignore = "a rank of the fault tests, which start it"]
fn one_of_a_job() {
    let before = census();
    let outcome = match std::env::var("FAULT_WORK").as_deref() {
        Ok("collectives") => collectives(),
        Ok("survive") => survive(),
        Ok("recovers") => recovers(),
        Ok("one case") => return one_case(),
        Ok("forks") => forks(),
        Ok("goes on") => goes_on(),
        Ok(other) if other != "messages" => otherwise(other),
        _ => messages(),
    };
    // The shutdown has ended by now, or its time limit has expired; a thread may still be exiting.
    let until = Instant::now() + Duration::from_secs(60);
    while census() != before && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    if census() != before {
        say(&format!("leak: {before:?} file descriptors and threads became {:?}", census()));
    }
    match outcome {
        Ok(()) => say("end: ok"),
        Err(error) => say(&format!("end: {error}")),
    }
}

/// Makes calls, in the middle of which the rank that `FAULT_CALLS` names makes a copy of its process. The copy's calls are
/// refused, and do not affect those of the job, also while the copy lives.
fn forks() -> Result<(), Error> {
    let comm = Communicator::from_env()?;
    let (rank, ranks) = (comm.rank(), comm.num_ranks());
    let mut registered = comm.alloc::<u32>(1 << 12)?;
    let make = |buffer: &mut [u32], round: u32| {
        buffer.fill(round + rank);
        comm.all_reduce_in_place(buffer, ReduceOp::Sum)?;
        let sum = ranks * round + (0..ranks).sum::<u32>();
        assert!(buffer.iter().all(|found| *found == sum), "{sum}, {:?}", &buffer[..7]);
        Ok::<_, Error>(())
    };
    (0..20).try_for_each(|round| make(&mut registered, round))?;
    let mut copy = None;
    if rank == rounds() {
        // SAFETY: the copy uses no other thread, and ends by `_exit`.
        let process = unsafe { libc::fork() };
        if process == 0 {
            let calls = [make(&mut [0; 7], 0), comm.barrier(), comm.agree(true).map(drop)];
            let refused = calls
                .iter()
                .all(|call| call.as_ref().is_err_and(|error| error.to_string().contains("is a fork of rank")));
            drop((comm, registered));
            thread::sleep(Duration::from_millis(200));
            // SAFETY: it ends this process at once.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) };
        }
        copy = Some(process);
    }
    (0..200).try_for_each(|round| make(&mut registered, round))?;
    if let Some(process) = copy {
        let mut status = 0;
        // SAFETY: `status` is a place for the result.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        assert_eq!(status, 0, "the copy's calls are refused");
    }
    comm.barrier()
}

/// Makes the calls of a case, and prints the root cause.
fn one_case() {
    let seed = std::env::var(causes::SEED).unwrap().parse().unwrap();
    let (comm, error) = match Communicator::from_env() {
        Ok(comm) => {
            let error = causes::case(seed).run(&comm, causes::strike);
            (Some(comm), error)
        }
        Err(error) => (None, Some(error)),
    };
    match error.as_ref().map(|error| (error.root_cause(), error)) {
        None => say("end: ok"),
        Some((Some(cause), _)) => say(&format!("end: root cause {cause}")),
        Some((None, error)) => say(&format!("end: no root cause: {error}")),
    }
    if error.is_some() && causes::leaves_at_once(seed) {
        // SAFETY: it ends this process, of which nothing is needed any more.
        unsafe { libc::_exit(0) };
    }
    drop(comm);
}

/// Prints a line for the test, separate from the output of the test harness.
fn say(line: &str) {
    println!("\n@{line}");
}

/// Returns the numbers of file descriptors and threads of this process.
fn census() -> (usize, usize) {
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).map_or(0, Iterator::count);
    (count("fd"), count("task"))
}

/// Returns the number of calls that the environment sets.
fn rounds() -> u32 {
    std::env::var("FAULT_CALLS").unwrap().parse().unwrap()
}

/// Makes all kinds of calls of a bootstrap.
fn messages() -> Result<(), Error> {
    let group = Bootstrap::from_env()?;
    say("connected");
    talk(&group, rounds())
}

/// Makes all kinds of calls, until a file exists.
fn goes_on() -> Result<(), Error> {
    let group = Bootstrap::from_env()?;
    say("connected");
    let file = std::env::var_os(END).unwrap();
    loop {
        talk(&group, 10)?;
        // One rank's check decides for all.
        if group.broadcast(0, &[u8::from(fs::exists(&file).unwrap())])? == [1] {
            return Ok(());
        }
    }
}

/// Makes a different call than the other ranks, which make all kinds of calls.
fn otherwise(what: &str) -> Result<(), Error> {
    let group = Bootstrap::from_env()?;
    say("connected");
    talk(&group, 3)?;
    match what {
        "leaves" => return Ok(()),
        "gives up" => group.abort("on purpose"),
        "calls something else" => drop(group.all_gather(&[])?),
        // The others' failure is how it is informed.
        "misses a call" => {
            while group.check_alive().is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        }
        other => panic!("nobody does `{other}`"),
    }
    group.check_alive()?;
    Ok(())
}

/// Makes calls until a rank is lost, then continues without it.
fn survive() -> Result<(), Error> {
    let group = Bootstrap::from_env()?;
    say("connected");
    let Err(Error::Bootstrap(failure)) = talk(&group, FOREVER) else { unreachable!("the calls go on until they fail") };
    let survivors = group.shrink(&failure.lost())?;
    assert_eq!(survivors.num_ranks() + 1, group.num_ranks());
    drop(group);
    talk(&survivors, rounds())
}

/// Makes collective calls until a rank is lost, then without it, and then with the restarted one if the environment says
/// so. Prints when it noticed the loss and when its first call without the rank had ended, and how long it took to grow.
fn recovers() -> Result<(), Error> {
    let comm = Communicator::from_env()?;
    if std::env::var_os("MSCCLPP_RESTART").is_some() {
        // As the others after they have grown.
        return sums(&comm, 1).and_then(|()| sums(&comm, rounds() - 1));
    }
    sums(&comm, 10)?;
    say("connected");
    let Err(mut failure) = sums(&comm, FOREVER) else { unreachable!("the calls go on until they fail") };
    let noticed = since_epoch();
    let shrunk = loop {
        match comm.shrink(&failure.lost()) {
            Ok(shrunk) => break shrunk,
            Err(Error::Bootstrap(error)) if !matches!(*error, bootstrap::Error::Excluded { .. }) => {
                failure = (*error).into();
            }
            Err(error) => return Err(error),
        }
    };
    let formed = since_epoch();
    assert_eq!(shrunk.num_ranks() + 1, comm.num_ranks(), "{failure}");
    sums(&shrunk, 1)?;
    say(&format!("times {noticed:.6} {formed:.6} {:.6}", since_epoch()));
    drop(comm);
    sums(&shrunk, rounds())?;
    if std::env::var_os(GROWS).is_some() {
        let start = Instant::now();
        let grown = shrunk.grow_from_env()?;
        assert_eq!(grown.num_ranks(), shrunk.num_ranks() + 1);
        drop(shrunk);
        sums(&grown, 1)?;
        say(&format!("grown {:.6}", start.elapsed().as_secs_f64()));
        return sums(&grown, rounds() - 1);
    }
    Ok(())
}

fn since_epoch() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

fn sums(comm: &Communicator, rounds: u32) -> Result<(), Error> {
    let ranks = comm.num_ranks();
    for _ in 0..rounds {
        let mut x = [comm.rank() + 1; 300];
        comm.all_reduce_in_place(&mut x, ReduceOp::Sum)?;
        assert_eq!(x, [ranks * (ranks + 1) / 2; 300]);
    }
    comm.bootstrap().barrier().map_err(Error::from)
}

fn talk(group: &Bootstrap, rounds: u32) -> Result<(), Error> {
    let (rank, ranks) = (group.rank(), group.num_ranks());
    for round in 0..rounds {
        group.barrier()?;
        let parts = group.all_gather(&[rank as u8, round as u8])?;
        assert!(parts.iter().enumerate().all(|(rank, part)| part[..] == [rank as u8, round as u8]), "{parts:?}");
        group.send((rank + 1) % ranks, 5, &round.to_le_bytes())?;
        assert_eq!(group.recv((rank + ranks - 1) % ranks, 5)?, round.to_le_bytes());
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Makes collective calls, on private and on shared memory, short and long.
fn collectives() -> Result<(), Error> {
    let comm = Communicator::from_env()?;
    let (rank, ranks) = (comm.rank(), comm.num_ranks());
    let mut shared = comm.alloc::<u32>(1 << 16)?;
    say("connected");
    for round in 0..rounds() {
        let mut private = vec![round + rank; if round % 2 == 0 { 7 } else { 30_001 }];
        comm.all_reduce_in_place(&mut private, ReduceOp::Sum)?;
        let sum = ranks * round + (0..ranks).sum::<u32>();
        assert!(private.iter().all(|found| *found == sum), "{sum}, {:?}", &private[..7]);
        shared.fill(round);
        comm.all_reduce_in_place(&mut shared, ReduceOp::Max)?;
        assert!(shared.iter().all(|found| *found == round));
    }
    comm.barrier()
}
