//! The backend of `torch.distributed` on stock PyTorch: jobs in `tests/jobs`, each of which compares its results with what PyTorch
//! computes, two of them run by torchrun (`scripts/full.sh python` runs all so), and failures of ranks. Where the Python environment
//! of a version is missing (`scripts/python-env.sh` creates it), its tests are ignored, and the reason is printed.

mod environment;
mod ranks;
mod types;

// How many tests run at a time.
#[path = "../../../mscclpp-exec/tests/common/arguments.rs"]
mod arguments;

// Ports that are otherwise unused.
#[path = "../../../mscclpp-exec/tests/common/port.rs"]
mod port;

#[path = "../common/preload.rs"]
mod preload;

use std::collections::BTreeSet;

use libtest_mimic::{Failed, Trial};

use environment::Python;
use ranks::Rank;

/// Versions of PyTorch: the backend is a class of `Backend` in the first, and a process group in the second.
const VERSIONS: [&str; 2] = ["2.15.0", "2.11.0"];

/// Jobs, with their number of tests.
const JOBS: [(&str, usize); 10] = [
    ("collectives", 38),
    ("fusion", 8),
    ("empty", 2),
    ("lists", 10),
    ("transfers", 15),
    ("programs", 1),
    ("training", 9),
    ("groups", 1),
    ("selection", 14),
    ("restarts", 1),
];

/// Jobs that print digests of the results that gloo has too.
const ALSO_ON_GLOO: [&str; 3] = ["collectives", "lists", "training"];

/// Failures, and how many of three ranks remain to learn of it; none where all calls succeed.
const FAILURES: [(&str, usize); 30] = [
    ("killed", 2),
    ("killed_in_started_calls", 2),
    ("killed_in_a_transfer", 1),
    ("killed_before_it_receives", 1),
    ("uncaught_exception_while_sends_are_buffered", 2),
    ("late_behind_buffered_sends", 1),
    ("stopped", 2),
    ("late", 3),
    ("late_and_all_ranks_end_at_once", 3),
    ("late_for_the_timeout_of_a_call", 3),
    ("late_for_a_new_group", 3),
    ("late_ranks_of_a_new_group", 3),
    ("late_first_rank_of_a_new_group", 3),
    ("mismatched", 3),
    ("mismatched_sizes", 3),
    ("mismatched_with_an_empty_tensor", 3),
    ("mismatched_lists", 3),
    ("mismatched_splits", 3),
    ("mismatched_scatter", 3),
    ("mismatched_roots", 3),
    ("mismatched_types", 3),
    ("aborted", 3),
    ("failure_of_a_sub_group_is_its_own", 3),
    ("interrupted", 2),
    ("interrupted_wait_of_a_started_call", 0),
    ("wait_with_a_timeout_raises_and_the_call_is_still_made", 0),
    ("late_for_a_receive_from_any_rank", 0),
    ("mismatched_sparse_shapes", 3),
    ("invalid_arguments_leave_the_group_usable", 0),
    ("shrunk", 2),
];

/// Failures that both versions have in each run of the tests; `scripts/full.sh` runs the others on the second, which are ignored.
const FAILURES_OF_BOTH: [&str; 5] = ["killed", "late", "mismatched", "aborted", "interrupted"];

/// What a test does with a Python.
type Test = Box<dyn FnOnce(&Python) -> Result<(), Failed> + Send>;

fn main() {
    libtest_mimic::run(&arguments::arguments(), VERSIONS.iter().flat_map(|version| of_version(version)).collect())
        .exit();
}

fn of_version(version: &'static str) -> Vec<Trial> {
    let python = Python::find(version);
    if let Err(reason) = &python {
        println!("tests of PyTorch {version} are ignored: {reason}");
    }
    let is_newest = version == VERSIONS[0];
    let mut trials = Vec::new();
    let mut add_unless = |is_ignored: bool, name: String, test: Test| {
        let python = python.clone();
        let is_ignored = is_ignored || python.is_err();
        let run = move || test(&python?);
        trials.push(Trial::test(format!("pytorch_{version}_{name}"), run).with_ignored_flag(is_ignored));
    };
    for (mode, remaining) in FAILURES {
        let is_ignored = !is_newest && !FAILURES_OF_BOTH.contains(&mode);
        let test = move |python: &Python| fail(python, mode, remaining);
        add_unless(is_ignored, format!("{mode}_is_reported_alike"), Box::new(test));
    }
    for (job, tests) in JOBS {
        // With two ranks, `scripts/full.sh` runs them.
        for (ranks, is_ignored) in [(2, true), (4, false)] {
            let test = move |python: &Python| run(python, job, tests, ranks);
            add_unless(is_ignored, format!("{job}_of_{ranks}_ranks_are_right"), Box::new(test));
        }
    }
    let mut add = |name: String, test: Test| add_unless(false, name, test);
    add("copies_of_the_process_are_refused".into(), Box::new(|python| fail(python, "forked", 0)));
    if is_newest {
        trials.extend(types::tests(&python));
    }
    trials
}

/// Runs a job and checks that every rank ran all its tests, with the results of gloo where gloo has them too.
fn run(python: &Python, job: &str, tests: usize, ranks: usize) -> Result<(), Failed> {
    let output = python.run(job, "mscclpp", ranks)?;
    let found = output.lines().filter(|line| line.starts_with("ok ")).count();
    if found != tests * ranks {
        return Err(format!("expected {tests} tests of {ranks} ranks each, found {found} in all:\n{output}").into());
    }
    if !ALSO_ON_GLOO.contains(&job) {
        return Ok(());
    }
    let (own, of_gloo) = (digests(&output), digests(&python.run(job, "gloo", ranks)?));
    if own.len() > 3 && own == of_gloo {
        return Ok(());
    }
    Err(format!("expected the digests of gloo {of_gloo:#?}, found {own:#?}").into())
}

/// Returns the digests of results that a job has printed.
fn digests(output: &str) -> BTreeSet<String> {
    output.lines().filter(|line| line.starts_with("digest ")).map(str::to_owned).collect()
}

/// Makes a failure of three ranks happen. The ranks that remain must end well, and as many as expected must learn the same.
fn fail(python: &Python, mode: &str, remaining: usize) -> Result<(), Failed> {
    let port = port::Port::new();
    let ranks: Vec<Rank> = (0..3)
        .map(|rank| python.rank("failures", "mscclpp", Some(mode), (rank, 3), port.number))
        .collect::<Result<_, _>>()?;
    let is_expected_to_end = !(mode.starts_with("killed")
        || matches!(mode, "stopped" | "shrunk" | "uncaught_exception_while_sends_are_buffered"));
    let mut causes = Vec::new();
    for (number, rank) in ranks.into_iter().enumerate() {
        if number == 2 && !is_expected_to_end {
            // Ends it where it was stopped.
            drop(rank);
            continue;
        }
        let output = rank.output()?;
        if !output.lines().any(|line| line == "ok") {
            return Err(format!("rank {number} of {mode} failed:\n{output}").into());
        }
        causes.extend(output.lines().find(|line| line.starts_with("cause ")).map(str::to_owned));
    }
    let kinds: BTreeSet<&String> = causes.iter().collect();
    if causes.len() == remaining && kinds.len() == usize::from(remaining > 0) {
        return Ok(());
    }
    Err(format!("expected one cause on {remaining} ranks, found {causes:#?}").into())
}
