//! The rendezvous, with ranks and with foreign connections.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::Process;
use crate::rank::END;
use crate::round::{FOREVER, Round, names};
use crate::{HANG, SHORT};

pub(crate) fn nothing(round: Round) {
    for process in round.start_all(20) {
        assert_eq!(process.outcome(), "ok");
    }
}

pub(crate) fn strangers_on_the_port(mut round: Round) {
    let root = round.start(0, 20);
    let mut strangers = Vec::new();
    let until = Instant::now() + HANG;
    while strangers.len() < 40 && Instant::now() < until {
        if let Ok(mut stranger) = TcpStream::connect((Ipv4Addr::LOCALHOST, round.port.number)) {
            let length = round.random.below(200);
            // Every second one begins like a connection of a rank.
            let mut bytes = if length.is_multiple_of(2) { b"MSCB\x02\x00\x00\x00".to_vec() } else { Vec::new() };
            bytes.extend((0..length).map(|_| round.random.below(256) as u8));
            let _ = stranger.write_all(&bytes);
            strangers.push(stranger);
        }
    }
    // They continue to send slowly while the ranks join.
    let talk = thread::spawn(move || {
        for _ in 0..200 {
            strangers.iter_mut().for_each(|stranger| drop(stranger.write_all(b"M")));
            thread::sleep(Duration::from_millis(2));
        }
    });
    let others: Vec<_> = (1..round.size).map(|rank| round.start(rank, 20)).collect();
    for process in [root].into_iter().chain(others) {
        assert_eq!(process.outcome(), "ok");
    }
    talk.join().unwrap();
}

pub(crate) fn another_secret(mut round: Round) {
    (round.victim, round.timeout) = (round.victim.max(1), SHORT);
    let (size, ours) = (round.size, round.secret.clone());
    let mut start = |rank| {
        round.secret = if rank == round.victim { "0".repeat(32) } else { ours.clone() };
        round.start(rank, 1)
    };
    let mut all: Vec<_> = (0..size).map(&mut start).collect();
    let said = all.remove(round.victim as usize).outcome();
    assert!(said.contains("authentication with"), "{said}");
    round.named_by(all);
}

pub(crate) fn two_jobs_on_one_port(mut round: Round) {
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let start = |rank| Process::start_with(&round, "goes on", rank, FOREVER, &[(END, end.as_os_str())]);
    let first: Vec<_> = (0..round.size).map(start).collect();
    assert!(first[0].wait_connected());
    round.secret = "f".repeat(32);
    for (rank, process) in round.start_all(1).into_iter().enumerate() {
        let said = process.outcome();
        let expected = if rank == 0 { "another process already listens there" } else { "authentication with" };
        assert!(said.contains(expected), "rank {rank}: {said}");
    }
    std::fs::write(&end, "").unwrap();
    for process in first {
        assert_eq!(process.outcome(), "ok");
    }
}

pub(crate) fn the_same_rank_twice(mut round: Round) {
    round.victim = round.victim.max(1);
    // With one rank missing, so that both duplicates arrive before all ranks have joined.
    round.size += 1;
    round.timeout = 2 * SHORT;
    let missing = round.size - 1;
    let twin = round.start(round.victim, FOREVER);
    let all: Vec<_> = (0..missing).map(|rank| round.start(rank, FOREVER)).chain([twin]).collect();
    for process in all {
        let said = process.outcome();
        let expected = format!("two processes have rank {}", round.victim);
        // A rank that arrives after the end finds the port closed.
        assert!(said.starts_with(&expected) || said.contains("did not reach rank 0"), "{said}");
    }
}

pub(crate) fn another_size(mut round: Round) {
    (round.victim, round.timeout) = (round.victim.max(1), 2 * SHORT);
    let size = round.size;
    let mut start = |rank| {
        round.size = if rank == round.victim { size + 1 } else { size };
        round.start(rank, 1)
    };
    let all: Vec<_> = (0..size).map(&mut start).collect();
    let expected = format!("expects {} ranks, but rank 0 expects {size} ranks", size + 1);
    for process in all {
        let said = process.outcome();
        let late = said.contains("did not reach rank 0");
        assert!(late || (names(&said, &format!("rank {}", round.victim)) && said.contains(&expected)), "{said}");
    }
}

pub(crate) fn too_late(mut round: Round) {
    round.timeout = SHORT;
    let all: Vec<_> = (0..round.size).filter(|rank| *rank != round.victim).map(|rank| round.start(rank, 1)).collect();
    round.named_by(all);
    assert_ne!(round.start(round.victim, 1).outcome(), "ok");
}

pub(crate) fn without_rank_0(mut round: Round) {
    round.timeout = Duration::from_secs(1);
    for rank in 1..round.size {
        let said = round.start(rank, 1).outcome();
        assert!(said.starts_with(&format!("rank {rank} did not reach rank 0 at")), "{said}");
    }
}
