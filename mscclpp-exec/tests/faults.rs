//! Processes that die, stop, come late, come twice or never, and strangers on the port: every rank that can still say
//! something says who it was, nobody hangs, nothing is left behind.
//!
//! One round of each kind; `MSCCLPP_FAULT_ROUNDS=200` runs as many in all. `MSCCLPP_FAULT_SEED` repeats one.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_core::vocab::ReduceOp;
use mscclpp_exec::bootstrap::Bootstrap;
use mscclpp_exec::comm::Communicator;
use mscclpp_exec::group::{Error, Group};
use rustix::process::{Pid, Signal, kill_process};

/// How long ranks wait for each other here, in seconds.
const TIMEOUT: f64 = 3.0;
/// After how many seconds a silent rank counts as dead here.
const LIVENESS: f64 = 1.0;
/// What takes longer than this hangs.
const HANG: Duration = Duration::from_secs(60);

// ---- A rank ----

/// One rank. Started by the test below, which sets its environment.
#[test]
#[ignore = "a rank of the fault tests, which start it"]
fn rank() {
    let before = census();
    let outcome = match std::env::var("FAULT_WORK").as_deref() {
        Ok("collectives") => collectives(),
        Ok("survive") => survive(),
        Ok(other) if other != "messages" => otherwise(other),
        _ => messages(),
    };
    // The goodbye has ended by now, or its second is over; a thread may still be on its way out.
    let until = Instant::now() + Duration::from_secs(5);
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

/// A line for the test, apart from those of the test harness.
fn say(line: &str) {
    println!("\n@{line}");
}

/// File descriptors and threads of this process.
fn census() -> (usize, usize) {
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).map_or(0, Iterator::count);
    (count("fd"), count("task"))
}

/// How often the environment says that ranks call.
fn rounds() -> u32 {
    std::env::var("FAULT_CALLS").unwrap().parse().unwrap()
}

/// All kinds of calls of a bootstrap.
fn messages() -> Result<(), Error> {
    let group = Bootstrap::from_env()?;
    say("connected");
    talk(&group, rounds())
}

/// Does something else than the others, which make all kinds of calls.
fn otherwise(what: &str) -> Result<(), Error> {
    let group = Bootstrap::from_env()?;
    say("connected");
    talk(&group, 3)?;
    match what {
        "leaves" => return Ok(()),
        "gives up" => group.abort("on purpose"),
        "calls something else" => drop(group.all_gather(&[])?),
        // The others' failure is how it learns of that.
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

/// Calls until somebody is lost, then goes on without.
fn survive() -> Result<(), Error> {
    let group = Bootstrap::from_env()?;
    say("connected");
    let Err(Error::Bootstrap(failure)) = talk(&group, FOREVER) else { unreachable!("the calls go on until they fail") };
    let survivors = group.survive(&failure.lost())?;
    assert_eq!(survivors.num_ranks() + 1, group.num_ranks());
    drop(group);
    talk(&survivors, rounds())
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

/// Collective calls, of private and of shared memory, short and long.
fn collectives() -> Result<(), Error> {
    let communicator = Communicator::from_env()?;
    let mut group = Group::new(communicator)?;
    let (rank, ranks) = (group.rank(), group.size());
    let mut shared = group.alloc::<u32>(1 << 16)?;
    say("connected");
    for round in 0..rounds() {
        let mut private = vec![round + rank; if round % 2 == 0 { 7 } else { 30_001 }];
        group.all_reduce(&mut private, ReduceOp::Sum)?;
        let sum = ranks * round + (0..ranks).sum::<u32>();
        assert!(private.iter().all(|found| *found == sum), "{sum}, {:?}", &private[..7]);
        shared.fill(round);
        group.all_reduce(&mut shared, ReduceOp::Max)?;
        assert!(shared.iter().all(|found| *found == round));
    }
    group.barrier()
}

// ---- A job ----

/// One process.
struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a rank.
    fn start(rank: u32, size: u32, port: u16, calls: u32, secret: &str) -> Self {
        Self::start_as("messages", rank, size, port, calls, secret)
    }

    fn start_as(work: &str, rank: u32, size: u32, port: u16, calls: u32, secret: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["rank", "--exact", "--ignored", "--nocapture"])
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", size.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string())
            .env("MSCCLPP_SECRET", secret)
            .env("MSCCLPP_TIMEOUT", TIMEOUT.to_string())
            .env("MSCCLPP_LIVENESS", LIVENESS.to_string())
            .env("FAULT_WORK", work)
            .env("FAULT_CALLS", calls.to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process starts");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix('@') {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { name: format!("rank {rank}"), child, lines }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).expect("a child that was not waited for takes signals");
    }

    /// Waits until it is connected; `false` if it ended before.
    fn wait_connected(&self) -> bool {
        self.lines.recv_timeout(HANG).is_ok_and(|line| line == "connected")
    }

    /// Waits until it has ended in order, and returns how.
    fn outcome(mut self) -> String {
        let until = Instant::now() + HANG;
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            assert!(!line.starts_with("leak"), "{}: {line}", self.name);
            if let Some(said) = line.strip_prefix("end: ") {
                let status = self.child.wait().unwrap();
                assert!(status.success(), "{} {status} after {said}", self.name);
                return said.to_owned();
            }
        }
        let _ = self.child.kill();
        let output = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap_or_default();
        panic!("{} hangs or died: {output}", self.name);
    }
}

/// Whatever it does, it ends.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// ---- Rounds ----

/// A small generator of numbers: rounds have to be repeatable, nothing else.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a round has to itself.
struct Round {
    random: Random,
    size: u32,
    /// The rank to which it happens.
    victim: u32,
    port: u16,
    secret: String,
}

const FOREVER: u32 = 1 << 20;

impl Round {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| _ = random.below(2));
        let size = 2 + random.below(3) as u32;
        let victim = random.below(u64::from(size)) as u32;
        // Below the ports that the system gives to callers, so that nobody else gets it meanwhile.
        let port = loop {
            let port = 20000 + random.below(12000) as u16;
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                break port;
            }
        };
        let mut secret = String::new();
        (0..32).for_each(|_| write!(secret, "{:x}", random.below(16)).unwrap());
        Self { random, size, victim, port, secret }
    }

    fn start(&self, rank: u32, calls: u32) -> Process {
        Process::start(rank, self.size, self.port, calls, &self.secret)
    }

    /// All ranks, which make collective calls.
    fn start_collectives(&self, calls: u32) -> Vec<Process> {
        let start = |rank| Process::start_as("collectives", rank, self.size, self.port, calls, &self.secret);
        (0..self.size).map(start).collect()
    }

    fn start_all(&self, calls: u32) -> Vec<Process> {
        (0..self.size).map(|rank| self.start(rank, calls)).collect()
    }

    /// Every survivor names the victim.
    fn named_by(&self, survivors: Vec<Process>) {
        let name = format!("rank {}", self.victim);
        for process in survivors {
            let who = process.name.clone();
            let said = process.outcome();
            assert!(names(&said, &name), "{who} does not name {name}: {said}");
        }
    }

    fn pause(&mut self, most: Duration) {
        thread::sleep(Duration::from_micros(self.random.below(most.as_micros() as u64)));
    }
}

/// Whether a sentence names a rank, and not one whose number begins alike.
fn names(said: &str, rank: &str) -> bool {
    said.match_indices(rank).any(|(at, _)| !said[at + rank.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

fn nothing(round: Round) {
    for process in round.start_all(20) {
        assert_eq!(process.outcome(), "ok");
    }
}

/// Somewhere between its first instruction and its first calls.
fn killed_while_it_starts(mut round: Round) {
    let mut all = round.start_all(FOREVER);
    round.pause(Duration::from_millis(30));
    let victim = all.remove(round.victim as usize);
    drop(victim);
    round.named_by(all);
}

fn killed_while_it_works(mut round: Round) {
    let mut all = round.start_all(FOREVER);
    let victim = all.remove(round.victim as usize);
    assert!(victim.wait_connected());
    round.pause(Duration::from_millis(10));
    drop(victim);
    round.named_by(all);
}

/// It has been taken in, and others are still missing.
fn killed_while_it_waits_for_others(mut round: Round) {
    round.size += 1;
    round.victim = round.victim.max(1);
    let late = round.size - 1;
    let mut all: Vec<_> = (0..late).map(|rank| round.start(rank, FOREVER)).collect();
    thread::sleep(Duration::from_millis(200));
    let victim = if round.victim == late { late - 1 } else { round.victim };
    round.victim = victim;
    drop(all.remove(victim as usize));
    round.named_by(all);
}

/// Stopped before it is in, or while it works. It ends when it is woken up.
fn stopped(mut round: Round, connected: bool) {
    let mut all = round.start_all(FOREVER);
    let victim = all.remove(round.victim as usize);
    if connected {
        assert!(victim.wait_connected());
    }
    round.pause(Duration::from_millis(20));
    victim.signal(Signal::STOP);
    round.named_by(all);
    victim.signal(Signal::CONT);
    let said = victim.outcome();
    assert_ne!(said, "ok");
}

fn strangers_on_the_port(mut round: Round) {
    let root = round.start(0, 20);
    let mut strangers = Vec::new();
    let until = Instant::now() + HANG;
    while strangers.len() < 40 && Instant::now() < until {
        if let Ok(mut stranger) = TcpStream::connect((Ipv4Addr::LOCALHOST, round.port)) {
            let length = round.random.below(200);
            // Every second one begins like one of us.
            let mut bytes = if length.is_multiple_of(2) { b"MSCB\x02\x00\x00\x00".to_vec() } else { Vec::new() };
            bytes.extend((0..length).map(|_| round.random.below(256) as u8));
            let _ = stranger.write_all(&bytes);
            strangers.push(stranger);
        }
    }
    // They go on talking slowly while the ranks meet.
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

fn another_secret(mut round: Round) {
    round.victim = round.victim.max(1);
    let secret = |rank| if rank == round.victim { "0".repeat(32) } else { round.secret.clone() };
    let mut all: Vec<_> =
        (0..round.size).map(|rank| Process::start(rank, round.size, round.port, 1, &secret(rank))).collect();
    let said = all.remove(round.victim as usize).outcome();
    assert!(said.contains("has another secret"), "{said}");
    round.named_by(all);
}

fn two_jobs_on_one_port(round: Round) {
    // Longer than the second one tries.
    let first = round.start_all(2500);
    assert!(first[0].wait_connected());
    let second: Vec<_> =
        (0..round.size).map(|rank| Process::start(rank, round.size, round.port, 1, &"f".repeat(32))).collect();
    for (rank, process) in second.into_iter().enumerate() {
        let said = process.outcome();
        let expected = if rank == 0 { "another process listens there" } else { "has another secret" };
        assert!(said.contains(expected), "rank {rank}: {said}");
    }
    for process in first {
        assert_eq!(process.outcome(), "ok");
    }
}

fn the_same_rank_twice(mut round: Round) {
    round.victim = round.victim.max(1);
    // With one rank missing, so that both come before all are there.
    round.size += 1;
    let missing = round.size - 1;
    let twin = round.start(round.victim, FOREVER);
    let all: Vec<_> = (0..missing).map(|rank| round.start(rank, FOREVER)).chain([twin]).collect();
    for process in all {
        let said = process.outcome();
        let expected = format!("two processes say that they are rank {}", round.victim);
        // Who comes after the end finds the port closed.
        assert!(said.starts_with(&expected) || said.contains("did not reach rank 0"), "{said}");
    }
}

fn another_size(mut round: Round) {
    round.victim = round.victim.max(1);
    let size = |rank| if rank == round.victim { round.size + 1 } else { round.size };
    let all: Vec<_> =
        (0..round.size).map(|rank| Process::start(rank, size(rank), round.port, 1, &round.secret)).collect();
    let expected = format!("expects {} ranks, rank 0 expects {} ranks", round.size + 1, round.size);
    for process in all {
        let said = process.outcome();
        let late = said.contains("did not reach rank 0");
        assert!(late || (names(&said, &format!("rank {}", round.victim)) && said.contains(&expected)), "{said}");
    }
}

fn too_late(round: Round) {
    let all: Vec<_> = (0..round.size).filter(|rank| *rank != round.victim).map(|rank| round.start(rank, 1)).collect();
    thread::sleep(Duration::from_secs_f64(TIMEOUT + 1.0));
    let late = round.start(round.victim, 1);
    round.named_by(all);
    assert_ne!(late.outcome(), "ok");
}

fn without_rank_0(round: Round) {
    for rank in 1..round.size {
        let said = round.start(rank, 1).outcome();
        assert!(said.starts_with(&format!("rank {rank} did not reach rank 0 at")), "{said}");
    }
}

/// One does something else than the others, and all say who and what.
fn otherwise_than_the_others(round: Round, what: &str, expected: &str) {
    let work = |rank| if rank == round.victim { what } else { "messages" };
    let start = |rank| Process::start_as(work(rank), rank, round.size, round.port, FOREVER, &round.secret);
    let all: Vec<_> = (0..round.size).map(start).collect();
    let victim = format!("rank {}", round.victim);
    for process in all {
        let itself = process.name == victim;
        let said = process.outcome();
        // Who leaves in order has nothing to complain of.
        if !(itself && what == "leaves") {
            assert!(names(&said, &victim) && said.contains(expected), "{said}");
        }
    }
}

fn collective_calls(round: Round) {
    for process in round.start_collectives(50) {
        assert_eq!(process.outcome(), "ok");
    }
}

fn killed_in_a_collective(mut round: Round) {
    let mut all = round.start_collectives(FOREVER);
    let victim = all.remove(round.victim as usize);
    assert!(victim.wait_connected());
    round.pause(Duration::from_millis(30));
    drop(victim);
    round.named_by(all);
}

/// Somewhere between its first instruction and its first calls: while memory is shared.
fn killed_while_it_prepares(mut round: Round) {
    let mut all = round.start_collectives(FOREVER);
    round.pause(Duration::from_millis(60));
    drop(all.remove(round.victim as usize));
    round.named_by(all);
}

fn stopped_in_a_collective(mut round: Round) {
    let mut all = round.start_collectives(FOREVER);
    let victim = all.remove(round.victim as usize);
    assert!(victim.wait_connected());
    round.pause(Duration::from_millis(30));
    victim.signal(Signal::STOP);
    round.named_by(all);
    victim.signal(Signal::CONT);
    assert_ne!(victim.outcome(), "ok");
}

fn survivors_go_on(mut round: Round) {
    round.size = round.size.max(3);
    let start = |rank| Process::start_as("survive", rank, round.size, round.port, 20, &round.secret);
    let mut all: Vec<_> = (0..round.size).map(start).collect();
    assert!(all.iter().all(Process::wait_connected));
    drop(all.remove(round.victim as usize));
    for process in all {
        let who = process.name.clone();
        assert_eq!(process.outcome(), "ok", "{who} without rank {}", round.victim);
    }
}

type Kind = (&'static str, fn(Round));

const KINDS: [Kind; 22] = [
    ("nothing", nothing),
    ("killed while it starts", killed_while_it_starts),
    ("killed while it works", killed_while_it_works),
    ("killed while it waits for others", killed_while_it_waits_for_others),
    ("stopped while it starts", |round| stopped(round, false)),
    ("stopped while it works", |round| stopped(round, true)),
    ("strangers on the port", strangers_on_the_port),
    ("another secret", another_secret),
    ("two jobs on one port", two_jobs_on_one_port),
    ("the same rank twice", the_same_rank_twice),
    ("another size", another_size),
    ("too late", too_late),
    ("without rank 0", without_rank_0),
    ("misses a call", |round| otherwise_than_the_others(round, "misses a call", "did not come to barrier (call")),
    ("calls something else", |round| otherwise_than_the_others(round, "calls something else", "make different calls")),
    ("gives up", |round| otherwise_than_the_others(round, "gives up", "aborted: on purpose")),
    ("leaves", |round| otherwise_than_the_others(round, "leaves", "has left the group")),
    ("collective calls", collective_calls),
    ("killed in a collective", killed_in_a_collective),
    ("killed while it prepares", killed_while_it_prepares),
    ("stopped in a collective", stopped_in_a_collective),
    ("survivors go on", survivors_go_on),
];

#[test]
fn faults_are_named_and_nobody_hangs() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, rounds) = match number("MSCCLPP_FAULT_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("MSCCLPP_FAULT_ROUNDS").unwrap_or(KINDS.len() as u64)),
    };
    for seed in first..first + rounds {
        let (kind, run) = KINDS[(seed % KINDS.len() as u64) as usize];
        let start = Instant::now();
        println!("MSCCLPP_FAULT_SEED={seed}: {kind}");
        run(Round::new(seed));
        println!("  {:.1} s", start.elapsed().as_secs_f64());
    }
}
