//! Clients in Python that call NCCL without PyTorch's backend: the wrappers of SGLang and vLLM, and NVIDIA's bindings nccl4py. Where one
//! is missing (`scripts/python-client.sh` installs it), its tests are ignored, and the reason is printed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use mscclpp_nccl::FUNCTIONS;

use crate::pytorch::{installed, python, run_job};
use crate::symbols::called;

/// The version of PyTorch in whose environment the clients run.
const PYTORCH: &str = "2.15.0";

/// Clients, each with its job and the job's number of tests.
const CLIENTS: [(&str, &str, usize); 3] =
    [("sglang", "wrappers", 14), ("vllm", "wrappers", 14), ("nccl4py", "bindings", 12)];

/// Where clients look the functions of NCCL up by their names.
const WRAPPERS: [(&str, &str); 2] = [
    ("sglang", "sglang/srt/distributed/device_communicators/pynccl_wrapper.py"),
    ("vllm", "vllm/distributed/device_communicators/pynccl_wrapper.py"),
];

pub(crate) fn tests(clients_are_missing: bool) -> Vec<Trial> {
    CLIENTS.iter().flat_map(|client| of_client(client, clients_are_missing)).collect()
}

fn of_client(&(client, job, tests): &'static (&str, &str, usize), clients_are_missing: bool) -> Vec<Trial> {
    let found = python(PYTORCH).and_then(|python| Ok((python, installed("python-client.sh", client)?)));
    if let Err(reason) = &found {
        println!("tests of {client} are ignored: {reason}");
    }
    let is_ignored = found.is_err() || clients_are_missing;
    let (python, folder) = found.clone().unwrap_or_default();
    let trial = |ranks: usize| {
        let (python, folder) = (python.clone(), folder.clone());
        let run = move || {
            let variables = [("PYTHONPATH", &*folder.to_string_lossy()), ("CLIENT", client)];
            run_job(&python, job, tests, ranks, &variables)
        };
        Trial::test(format!("{client}_{job}_of_{ranks}_ranks_equal_those_of_the_cpu"), run)
            .with_ignored_flag(is_ignored)
    };
    let jobs = [2, 4].map(trial);
    let listed = WRAPPERS.iter().find(|(name, _)| *name == client).map(|(_, path)| {
        let wrapper = folder.join(path);
        Trial::test(format!("{client}_calls_the_functions_of_its_list"), move || functions_are_listed(client, &wrapper))
            .with_ignored_flag(found.is_err())
    });
    jobs.into_iter().chain(listed).collect()
}

/// Compares the list of a client's functions with what its wrapper looks up.
fn functions_are_listed(client: &str, wrapper: &Path) -> Result<(), Failed> {
    let source = fs::read_to_string(wrapper)?;
    let is_function = |name: &&str| FUNCTIONS.iter().any(|function| function.name == *name);
    let found: BTreeSet<&str> = source.split('"').filter(is_function).collect();
    let listed: BTreeSet<&str> = called(client).collect();
    let different: Vec<_> = found.symmetric_difference(&listed).collect();
    if different.is_empty() { Ok(()) } else { Err(format!("the list or the wrapper lacks {different:?}").into()) }
}
