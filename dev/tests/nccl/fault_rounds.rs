//! Rounds of faults: one rank of a job is killed, suspended, late, ends, aborts, makes another call or makes none. Every other rank gets
//! NCCL's code of the fault and the same root cause, which names the rank, and all processes end.
//!
//! A round of each fault; `MSCCLPP_NCCL_FAULT_ROUNDS=200` runs that number in total. `MSCCLPP_NCCL_FAULT_SEED` repeats one.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::Mutex;

use crate::clients::{SHORT_PATIENCE, Test, ran, run, text};
use crate::rounds;

/// Number of concurrent rounds: most of them spend most of their time waiting.
const AT_ONCE: usize = 3;

/// A fault, and what the other ranks get: the code, and the beginning of the root cause after the rank; none without a failure.
struct Fault {
    name: &'static str,
    expected: Option<(u32, &'static str)>,
}

const fn fault(name: &'static str, code: u32, cause: &'static str) -> Fault {
    Fault { name, expected: Some((code, cause)) }
}

const FAULTS: [Fault; 11] = [
    fault("kill", 6, "died"),
    fault("kill_in_flight", 6, "died"),
    fault("exit", 6, "died"),
    fault("stop", 6, "no answer from"),
    fault("stop_in_flight", 6, "no answer from"),
    Fault { name: "short_stop", expected: None },
    fault("late", 8, "did not enter"),
    fault("timeout", 8, "did not enter"),
    fault("mismatch", 5, "make different calls"),
    fault("abort", 6, "aborted"),
    fault("shrink", 5, "revoked the communicator"),
];

const OPERATIONS: [&str; 7] = ["all_reduce", "reduce_scatter", "broadcast", "reduce", "all_to_all", "group", "ring"];

/// A round, determined by its seed.
#[derive(Debug)]
struct Round {
    fault: usize,
    ranks: u64,
    victim: u64,
    operation: &'static str,
    before: u64,
    count: u64,
    pause: u64,
    other_call: u64,
}

impl Round {
    fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        (0..8).for_each(|_| _ = below(2));
        let fault = (seed % FAULTS.len() as u64) as usize;
        let name = FAULTS[fault].name;
        let ranks = 2 + below(3);
        let operation = match name {
            // Roots differ in calls that have one.
            "mismatch" => OPERATIONS[below(5) as usize],
            _ => OPERATIONS[below(OPERATIONS.len() as u64) as usize],
        };
        let has_root = ["broadcast", "reduce"].contains(&operation);
        let other_call = [0, 1, 3, 2][below(if has_root { 4 } else { 3 }) as usize];
        let count = [1, 250, 3_001, 40_000][below(4) as usize];
        // The first call prepares, for which all ranks meet: it cannot be pending.
        let before = if name == "abort" { 1 + below(3) } else { below(4) };
        Self { fault, ranks, victim: below(ranks), operation, before, count, pause: below(30_000), other_call }
    }

    fn run(&self) -> Result<(), String> {
        let Fault { name, expected } = &FAULTS[self.fault];
        let arguments = [
            (*name).to_owned(),
            self.victim.to_string(),
            self.operation.to_owned(),
            self.before.to_string(),
            self.count.to_string(),
            self.pause.to_string(),
            self.other_call.to_string(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let waits = ["late", "timeout"].contains(name);
        let stops = ["stop", "stop_in_flight"].contains(name);
        let variables = [
            ("MSCCLPP_TIMEOUT", if waits { "4" } else { "60" }),
            ("MSCCLPP_HEARTBEAT_TIMEOUT", if stops { "10" } else { "60" }),
            if waits { SHORT_PATIENCE } else { ("MSCCLPP_MOCK_PATIENCE", "10") },
        ];
        let outputs = run("fault_round", self.ranks as usize, &arguments, &variables)?;
        let mut causes = Vec::new();
        for (rank, output) in outputs.iter().enumerate() {
            let is_victim = rank as u64 == self.victim;
            if is_victim && name.starts_with("kill") {
                if output.status.signal() != Some(9) {
                    return Err(format!("rank {rank} was not killed: {}\n{}", output.status, text(output)));
                }
                continue;
            }
            ran(std::slice::from_ref(output)).map_err(|error| format!("rank {rank}: {error}"))?;
            match expected {
                None => contains(rank, output, "right")?,
                Some(_) if is_victim => self.check_victim(name, rank, output)?,
                Some(_) if self.is_chain() => self.check_chain(rank, output)?,
                Some((code, cause)) => {
                    causes.push(self.cause(rank, output, *code, cause)?);
                    if *name == "shrink" {
                        contains(rank, output, "shrunk")?;
                    }
                }
            }
        }
        causes.dedup();
        if causes.len() <= 1 { Ok(()) } else { Err(format!("expected one root cause, found {causes:#?}")) }
    }

    /// Checks what the rank with the fault has printed: it gets a failure too, unless it has ended.
    fn check_victim(&self, name: &str, rank: usize, output: &Output) -> Result<(), String> {
        match name {
            "exit" => Ok(()),
            "abort" => contains(rank, output, "aborted"),
            _ => failure(rank, output).map(drop),
        }
    }

    /// Returns whether ranks wait for others that wait for the late one: a transfer has two ranks, which know of no others.
    fn is_chain(&self) -> bool {
        self.operation == "ring" && ["late", "timeout"].contains(&FAULTS[self.fault].name)
    }

    /// Checks what a rank of a chain has printed: a timeout of its own, or that a rank after one has left.
    fn check_chain(&self, rank: usize, output: &Output) -> Result<(), String> {
        self.check_calls(rank, output)?;
        let (code, line) = failure(rank, output)?;
        let is_right = [6, 8].contains(&code) && line.contains("rank ");
        if is_right { Ok(()) } else { Err(format!("rank {rank}: expected code 6 or 8, found {code}: {line}")) }
    }

    /// Returns NCCL's functions that the ranks call.
    fn functions(&self) -> &'static [&'static str] {
        match self.operation {
            "all_reduce" => &["ncclAllReduce"],
            "reduce_scatter" => &["ncclReduceScatter"],
            "broadcast" => &["ncclBroadcast"],
            "reduce" => &["ncclReduce"],
            "all_to_all" => &["ncclAlltoAll"],
            "group" => &["ncclAllReduce", "ncclBroadcast"],
            _ => &["ncclSend", "ncclRecv"],
        }
    }

    /// Checks that a rank has printed what it has called itself.
    fn check_calls(&self, rank: usize, output: &Output) -> Result<(), String> {
        let text = text(output);
        let is_named = |function: &&str| text.contains(&format!(" of rank {rank}, its last one, is {function}"));
        // A rank that makes no call learns of the failure as well.
        if self.functions().iter().any(is_named) || text.contains(&format!("rank {rank} had made no call")) {
            return Ok(());
        }
        Err(format!("rank {rank}: expected its last call, one of {:?}, found:\n{text}", self.functions()))
    }

    /// Returns the root cause that a rank has printed.
    fn cause(&self, rank: usize, output: &Output, code: u32, cause: &str) -> Result<String, String> {
        let (found, line) = failure(rank, output)?;
        if FAULTS[self.fault].name != "mismatch" {
            self.check_calls(rank, output)?;
        }
        let victim = match FAULTS[self.fault].name {
            // The rank that revokes is the next one.
            "shrink" => (self.victim + 1) % self.ranks,
            _ => self.victim,
        };
        let named = format!("rank {victim} ");
        let invalid = || format!("rank {rank}: expected code {code}, `{named}` and `{cause}`, found {found}: {line}");
        if found != code || !line.contains(&named) {
            return Err(invalid());
        }
        // All ranks have the same text from there on, except for the time that each has measured.
        let end = if cause == "no answer from" { line.find(" for ").unwrap_or(line.len()) } else { line.len() };
        line.find(cause).map(|at| line[at..end].to_owned()).ok_or_else(invalid)
    }
}

fn contains(rank: usize, output: &Output, what: &str) -> Result<(), String> {
    let (expected, text) = (format!("rank {rank}: {what}"), text(output));
    if text.contains(&expected) { Ok(()) } else { Err(format!("expected `{expected}`, found:\n{text}")) }
}

/// Returns the code and the first line of the failure that a rank has printed.
fn failure(rank: usize, output: &Output) -> Result<(u32, String), String> {
    let (text, begin) = (text(output), format!("rank {rank}: code "));
    let line = text.lines().find_map(|line| line.strip_prefix(&begin));
    let line = line.and_then(|line| line.split_once(": "));
    let found = line.and_then(|(code, line)| Some((code.parse().ok()?, line.to_owned())));
    found
        .filter(|(code, line)| *code != 0 && !line.is_empty())
        .ok_or_else(|| format!("rank {rank}: no failure:\n{text}"))
}

pub(crate) fn tests() -> Vec<Test> {
    vec![("faults_in_random_calls_have_a_code_and_one_cause_on_all_ranks", all)]
}

fn all() -> Result<(), String> {
    let failed = Mutex::new(Vec::new());
    rounds::run("NCCL_FAULT", 0, FAULTS.len() as u64, AT_ONCE, |seed| {
        let round = Round::new(seed);
        if let Err(error) = round.run() {
            let report = format!("MSCCLPP_NCCL_FAULT_SEED={seed} ({} {round:?}): {error}", FAULTS[round.fault].name);
            println!("{report}");
            failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(report);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n\n")) }
}
