//! Divisions of communicators: random ones of processes and of threads, compared with a model, and one that its rank aborts.
//!
//! Each seed is one job. `MSCCLPP_NCCL_DIVISION_ROUNDS=1000` runs that number, `MSCCLPP_NCCL_DIVISION_SEED` repeats one.

use std::process::Output;
use std::sync::{Mutex, PoisonError};

use crate::clients::{Test, all_ok, run, text};
use crate::exchanges::reports;
use crate::rounds;

/// Number of jobs at a time.
const AT_ONCE: usize = 2;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("random_divisions_have_the_ranks_of_the_model_and_right_sums", random),
        ("abort_ends_a_division_of_another_thread_on_all_ranks", || abort("single")),
        ("abort_ends_a_division_in_a_group_on_all_ranks", || abort("group")),
        ("abort_ends_a_division_that_is_polled_on_all_ranks", || abort("polls")),
    ]
}

/// Runs the job of a seed: of 2 to 5 ranks, which are processes or threads.
fn round(seed: u64) -> Result<(), String> {
    let (ranks, are_threads) = (2 + (seed / 2 % 4) as usize, seed % 2 == 1);
    let variables = [("MSCCLPP_TIMEOUT", "60"), ("MSCCLPP_HEARTBEAT_TIMEOUT", "60")];
    let seed = seed.to_string();
    match are_threads {
        true => all_ok(&run("divisions", 1, &["random", &seed, &ranks.to_string()], &variables)?),
        false => all_ok(&run("divisions", ranks, &["random", &seed, "0"], &variables)?),
    }
}

fn random() -> Result<(), String> {
    let failed = Mutex::new(Vec::new());
    rounds::run("NCCL_DIVISION", rounds::fresh_seed(), 8, AT_ONCE, |seed| {
        if let Err(error) = round(seed) {
            failed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(format!("MSCCLPP_NCCL_DIVISION_SEED={seed}: {error}"));
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n\n")) }
}

/// Rank 1 aborts while it and rank 2 wait for rank 0 in a division: all of them learn of it, rank 0 without a call.
fn abort(form: &str) -> Result<(), String> {
    let variables = [("MSCCLPP_TIMEOUT", "60"), ("MSCCLPP_HEARTBEAT_TIMEOUT", "60")];
    let outputs = run("divisions", 3, &["abort", form], &variables)?;
    reports(&outputs, &[0, 1, 2], 6)?;
    let names = |output: &Output| {
        let text = text(output);
        text.split_once("rank 1 (pid ").is_some_and(|(_, rest)| rest.contains(" aborted: ncclCommAbort"))
    };
    if outputs.iter().all(names) { Ok(()) } else { Err(outputs.iter().map(text).collect()) }
}
