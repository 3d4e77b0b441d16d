//! Stock PyTorch, whose collective calls run on simulated devices, by NCCL's interface or the backend of `mscclpp-python`: jobs in
//! `tests/python`, each of which compares every result with that of the CPU. Where the Python environment of a version is missing (`scripts/python-env.sh` creates it), its tests are ignored,
//! and the reason is printed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libtest_mimic::{Failed, Trial};

use crate::clients::{libraries, ran, run_program, text};
use crate::port::Port;
use crate::preload::preloaded;
use crate::symbols::called;

/// Versions of PyTorch, each with the values of `TORCH_DIST_USE_NCCL2`: its default, and 0 for the older backend of those that have two.
const VERSIONS: [(&str, &[Option<&str>]); 2] = [("2.15.0", &[None, Some("0")]), ("2.11.0", &[None])];

/// Jobs, with their number of tests.
const JOBS: [(&str, usize); 10] = [
    ("kernels", 6),
    ("programs", 1),
    ("reductions", 13),
    ("gathers", 10),
    ("exchanges", 8),
    ("groups", 8),
    ("ddp", 4),
    ("fsdp", 4),
    ("memory", 5),
    ("graphs", 3),
];

/// Jobs that run with four ranks, on the newest version. With two, `scripts/full.sh` runs them there; the older backend always does.
const OF_FOUR_RANKS: [&str; 4] = ["programs", "exchanges", "groups", "fsdp"];

/// Jobs that also run on the backend of `mscclpp-python`.
const OF_OWN_BACKEND: [(&str, usize); 8] = [
    ("programs", 1),
    ("reductions", 12),
    ("gathers", 10),
    ("exchanges", 10),
    ("groups", 8),
    ("ddp", 4),
    ("fsdp", 4),
    ("graphs", 3),
];

/// Variables of PyTorch's backends that jobs set, each with another value than its default.
const VARIABLES: [(&str, &str); 9] = [
    ("TORCH_DIST_USE_NCCL2", "0"),
    ("TORCH_NCCL_BLOCKING_WAIT", "1"),
    ("TORCH_NCCL_USE_COMM_NONBLOCKING", "1"),
    ("TORCH_NCCL_HIGH_PRIORITY", "1"),
    ("TORCH_NCCL_ENABLE_MONITORING", "0"),
    ("TORCH_NCCL_AVOID_RECORD_STREAMS", "1"),
    ("TORCH_NCCL_CUDA_EVENT_CACHE", "0"),
    ("TORCH_NCCL_ENABLE_TIMING", "1"),
    ("NCCL_DEBUG", "INFO"),
];

/// The job whose processes import PyTorch themselves, as those of users; others are copies of one that has done so.
const ON_ITS_OWN: &str = "groups";

pub(crate) fn tests(clients_are_missing: bool) -> Vec<Trial> {
    VERSIONS.iter().flat_map(|(version, backends)| of_version(version, backends, clients_are_missing)).collect()
}

fn of_version(version: &'static str, backends: &'static [Option<&str>], clients_are_missing: bool) -> Vec<Trial> {
    let python = python(version);
    if let Err(reason) = &python {
        println!("tests of PyTorch {version} are ignored: {reason}");
    }
    let is_ignored = python.is_err() || clients_are_missing;
    let python = python.unwrap_or_default();
    let mut trials = Vec::new();
    for backend in backends {
        for (job, tests) in JOBS {
            let is_newest = version == VERSIONS[0].0 && backend.is_none();
            for (ranks, is_repeated) in numbers_of_ranks(is_newest, job) {
                let older = if backend.is_some() { "older_backend_" } else { "" };
                let name = format!("pytorch_{version}_{older}{job}_of_{ranks}_ranks_equal_those_of_the_cpu");
                let python = python.clone();
                let trial = Trial::test(name, move || run(&python, job, tests, ranks, *backend));
                trials.push((trial, is_repeated));
            }
        }
    }
    for (job, tests) in OF_OWN_BACKEND {
        for (ranks, is_repeated) in numbers_of_ranks(version == VERSIONS[0].0, job) {
            let name = format!("pytorch_{version}_own_backend_{job}_of_{ranks}_ranks_equal_those_of_the_cpu");
            let python = python.clone();
            trials.push((Trial::test(name, move || run_on_own_backend(&python, job, tests, ranks)), is_repeated));
        }
    }
    let name = format!("pytorch_{version}_groups_under_variables_of_its_backends_equal_those_of_the_cpu");
    let under_variables = python.clone();
    let mut trials: Vec<Trial> =
        trials.into_iter().map(|(trial, is_repeated)| trial.with_ignored_flag(is_ignored || is_repeated)).collect();
    let mut add = |trial: Trial| trials.push(trial.with_ignored_flag(is_ignored));
    add(Trial::test(name, move || run_job(&under_variables, "groups", 8, 2, &VARIABLES)));
    for (backend, older) in [(None, ""), (Some("0"), "older_backend_")] {
        // The rendezvous of PyTorch 2.11 ends with a kernel, after it has created a device communicator.
        let tests = if version == VERSIONS[0].0 { 4 } else { 1 };
        if backend.is_none() || backends.contains(&backend) {
            let name = format!("pytorch_{version}_{older}symmetric_memory_has_windows_and_device_communicators");
            let python = python.clone();
            add(Trial::test(name, move || run(&python, "symmetric", tests, 2, backend)));
        }
    }
    for (backend, variables) in
        [("nccl", &[][..]), ("nccl", &[("TORCH_DIST_USE_NCCL2", "0")][..]), ("mscclpp", &[][..])]
    {
        let older = if variables.is_empty() { "" } else { "_older" };
        if variables.is_empty() || backends.len() > 1 {
            let name = format!("pytorch_{version}{older}_{backend}_follows_plans_selector_and_order_of_python");
            let python = python.clone();
            add(Trial::test(name, move || follow_python(&python, backend, variables)));
        }
    }
    if version == VERSIONS[0].0 {
        for (ranks, with) in [(2, ""), (4, "_with_multicast_objects")] {
            let name = format!("pytorch_{version}_own_backend_has_symmetric_memory{with}");
            let python = python.clone();
            add(Trial::test(name, move || run_on_own_backend(&python, "symmetric_memory", 12, ranks)));
        }
        let name = format!("pytorch_{version}_own_backend_normalizes_rows_as_on_the_cpu");
        let of_rows = python.clone();
        add(Trial::test(name, move || run_on_own_backend(&of_rows, "fusion", 6, 2)));
        let name = format!("pytorch_{version}_own_backend_brings_tokens_to_experts_as_on_the_cpu");
        let of_experts = python.clone();
        add(Trial::test(name, move || run_on_own_backend(&of_experts, "experts", 3, 2)));
        let name = format!("pytorch_{version}_own_backend_sums_in_switches_unless_algorithms_are_deterministic");
        let of_sums = python.clone();
        add(Trial::test(name, move || run_on_own_backend(&of_sums, "deterministic", 3, 2)));
    }
    let name = format!("pytorch_{version}_exchanges_of_communicators_of_pairs_equal_those_of_the_cpu");
    let of_pairs = python.clone();
    add(Trial::test(name, move || run_job(&of_pairs, "exchanges", 8, 2, &[("LAZY", "1")])));
    let name = format!("pytorch_{version}_finds_all_functions_of_the_runtime");
    let of_runtime = python.clone();
    add(Trial::test(name, move || all_functions_are_defined(&of_runtime)));
    let name = format!("pytorch_{version}_calls_only_listed_functions_of_nccl");
    add(Trial::test(name, move || all_functions_are_listed(&python)));
    trials
}

/// Returns the numbers of ranks with which a job runs, and whether only `scripts/full.sh` runs it so.
fn numbers_of_ranks(is_newest: bool, job: &str) -> Vec<(usize, bool)> {
    match is_newest && OF_FOUR_RANKS.contains(&job) {
        true => vec![(2, true), (4, false)],
        false => vec![(2, false)],
    }
}

/// Returns the path of the Python that has a version of PyTorch.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn python(version: &str) -> Result<PathBuf, String> {
    installed("python-env.sh", version)
}

/// Returns the path that a script prints for what it has installed.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn installed(script: &str, name: &str) -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(script);
    let output = Command::new(script).arg(name).env("MSCCLPP_PYTHON_INSTALL", "0").output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
        false => Err(text(&output).trim().into()),
    }
}

fn run(python: &Path, job: &str, tests: usize, ranks: usize, backend: Option<&str>) -> Result<(), Failed> {
    let variables = backend.map(|value| ("TORCH_DIST_USE_NCCL2", value));
    run_job(python, job, tests, ranks, &variables.into_iter().collect::<Vec<_>>())
}

/// Runs a job on the backend of `mscclpp-python`.
fn run_on_own_backend(python: &Path, job: &str, tests: usize, ranks: usize) -> Result<(), Failed> {
    let package = own_package()?;
    run_job(python, job, tests, ranks, &[("BACKEND", "mscclpp"), ("PYTHONPATH", &package)])
}

/// Runs the job that registers plans and a selector.
fn follow_python(python: &Path, backend: &str, variables: &[(&str, &str)]) -> Result<(), Failed> {
    let package = own_package()?;
    let variables = [variables, &[("BACKEND", backend), ("PYTHONPATH", &package)]].concat();
    run_job(python, "selection", 7, 2, &variables)
}

/// Makes the Python package of this checkout, once for all tests.
fn own_package() -> Result<String, String> {
    static FOLDER: OnceLock<Result<String, String>> = OnceLock::new();
    let make = || {
        // A dependency of this test, so it is in the same folder.
        let library = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("libmscclpp_rs.so");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/python-package.sh");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mscclpp-python-simulated");
        let output = Command::new(script).arg(library).arg(folder).output().map_err(|error| error.to_string())?;
        let printed = text(&output).trim().to_owned();
        if output.status.success() { Ok(printed) } else { Err(printed) }
    };
    FOLDER.get_or_init(make).clone()
}

pub(crate) fn run_job(
    python: &Path,
    job: &str,
    tests: usize,
    ranks: usize,
    others: &[(&str, &str)],
) -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/python/{job}.py"));
    let port = Port::new();
    let number = port.number.to_string();
    let mut variables = vec![
        // PyTorch's own libraries are found by their DT_RPATH, unless others of their names are loaded already.
        ("LD_PRELOAD", "libcudart.so.13:libnccl.so.2"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", &*number),
        // PyTorch 2.11 has a memory pool of NCCL's only on devices with multicast objects; windows of this backend have them as well.
        (
            "MSCCLPP_MOCK_MULTICAST",
            match job {
                "memory" | "deterministic" => "8",
                "symmetric_memory" if ranks == 4 => "8",
                _ => "0",
            },
        ),
    ];
    variables.extend(others);
    let mut arguments = vec![path.to_string_lossy().into_owned()];
    if job != ON_ITS_OWN {
        // What is read while PyTorch is imported.
        let is_read = |(name, _): &(&str, &str)| matches!(*name, "LD_PRELOAD" | "PYTHONPATH");
        let folder = libraries()?.to_string_lossy();
        let others = [("LD_LIBRARY_PATH", &*folder), ("OMP_NUM_THREADS", "1")];
        let of_process: Vec<_> = variables.iter().copied().filter(is_read).chain(others).collect();
        arguments.splice(0..0, preloaded(&[python], &of_process)?);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outputs = run_program(python, ranks, &arguments, &variables)?;
    ran(&outputs)?;
    for (rank, output) in outputs.iter().enumerate() {
        let found = text(output).lines().filter(|line| line.starts_with("ok ")).count();
        if found != tests {
            return Err(format!("rank {rank}: expected {tests} tests, found {found}:\n{}", text(output)).into());
        }
    }
    Ok(())
}

/// Returns what `nm` prints about the dynamic symbols of libraries.
fn symbols(kind: &str, libraries: &[PathBuf]) -> Result<String, Failed> {
    let output = Command::new("nm").args(["-D", kind]).args(libraries).output()?;
    if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into()) } else { Err(text(&output).into()) }
}

/// Returns the symbols that PyTorch's libraries need of others.
fn needed(python: &Path) -> Result<String, Failed> {
    let folder =
        Command::new(python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).output()?;
    let folder = Path::new(text(&folder).trim()).join("torch/lib");
    let names = ["c10_cuda", "torch_cpu", "torch_cuda", "torch_cuda_linalg", "torch_nvshmem", "torch_python"];
    symbols("--undefined-only", &names.map(|name| folder.join(format!("lib{name}.so"))))
}

fn all_functions_are_listed(python: &Path) -> Result<(), Failed> {
    let needed = needed(python)?;
    let needed: BTreeSet<&str> = needed.split_whitespace().filter(|symbol| symbol.starts_with("nccl")).collect();
    let listed: BTreeSet<&str> = called("pytorch").collect();
    let missing: Vec<_> = needed.difference(&listed).collect();
    match (needed.len() > 30, missing.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("expected more than 30 functions that PyTorch needs, found {needed:?}").into()),
        (true, false) => Err(format!("functions that PyTorch needs and the list lacks: {missing:?}").into()),
    }
}

/// The loader looks functions up when they are called, so a program may run for a long time without one that is missing.
fn all_functions_are_defined(python: &Path) -> Result<(), Failed> {
    let needed = needed(python)?;
    let needed: BTreeSet<&str> = needed
        .split_whitespace()
        .filter_map(|symbol| symbol.strip_suffix("@libcudart.so.13"))
        .map(|symbol| symbol.trim_end_matches('@'))
        .collect();
    let defined = symbols("--defined-only", &[libraries()?.join("libcudart.so.13")])?;
    let defined: BTreeSet<&str> =
        defined.split_whitespace().filter_map(|symbol| symbol.strip_suffix("@@libcudart.so.13")).collect();
    let missing: Vec<_> = needed.difference(&defined).collect();
    match (needed.len() > 80, missing.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("expected more than 80 functions that PyTorch needs, found {needed:?}").into()),
        (true, false) => Err(format!("functions that PyTorch needs and dev/cudart lacks: {missing:?}").into()),
    }
}
