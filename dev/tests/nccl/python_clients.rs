//! Clients in Python that call NCCL without PyTorch's backend: the wrappers of SGLang and vLLM, and NVIDIA's bindings nccl4py. Where one
//! is missing (`scripts/python-client.sh` installs it), its tests are ignored, and the reason is printed.

use libtest_mimic::Trial;

use crate::pytorch::{installed, python, run_job};

/// The version of PyTorch in whose environment the clients run.
const PYTORCH: &str = "2.15.0";

/// Clients, each with its job and the job's number of tests.
const CLIENTS: [(&str, &str, usize); 3] =
    [("sglang", "wrappers", 14), ("vllm", "wrappers", 14), ("nccl4py", "bindings", 12)];

pub(crate) fn tests(clients_are_missing: bool) -> Vec<Trial> {
    CLIENTS.iter().flat_map(|client| of_client(client, clients_are_missing)).collect()
}

fn of_client(&(client, job, tests): &'static (&str, &str, usize), clients_are_missing: bool) -> Vec<Trial> {
    let found = python(PYTORCH).and_then(|python| Ok((python, installed("python-client.sh", client)?)));
    if let Err(reason) = &found {
        println!("tests of {client} are ignored: {reason}");
    }
    let is_ignored = found.is_err() || clients_are_missing;
    let (python, folder) = found.unwrap_or_default();
    let trial = |ranks: usize| {
        let (python, folder) = (python.clone(), folder.clone());
        let run = move || {
            let variables = [("PYTHONPATH", &*folder.to_string_lossy()), ("CLIENT", client)];
            run_job(&python, job, tests, ranks, &variables)
        };
        Trial::test(format!("{client}_{job}_of_{ranks}_ranks_equal_those_of_the_cpu"), run)
            .with_ignored_flag(is_ignored)
    };
    [2, 4].map(trial).into()
}
