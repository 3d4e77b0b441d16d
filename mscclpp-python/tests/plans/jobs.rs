//! Jobs of several ranks: on the CPU, and on simulated devices (`scripts/simulated-cuda.sh`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use libtest_mimic::{Failed, Trial};

use crate::package::sources;
use crate::port::Port;
use crate::preload::preloaded;
use crate::scripts::{VERSIONS, installed, python_of};

/// Examples that run on the CPU and on simulated devices.
const EXAMPLES: [&str; 4] = ["default_algorithms", "dsl_algorithm", "tuning", "registered_plans"];

/// Examples that need devices.
const ON_DEVICES: [&str; 3] = ["plan_for_nccl", "native_algorithm", "native_modules"];

/// Seconds after which a job has failed.
const TIMEOUT: &str = "600";

/// Engines, and where each has its wrappers of communication libraries.
const CLIENTS: [(&str, &str); 2] =
    [("sglang", "sglang/srt/distributed/device_communicators"), ("vllm", "vllm/distributed/device_communicators")];

/// Returns the folder of the reference system's documents.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn documents() -> Result<PathBuf, String> {
    let folder = std::env::var_os("MSCCLPP_SEEDS").map(|folder| sources().join("..").join(folder));
    folder
        .filter(|folder| folder.is_dir())
        .ok_or_else(|| "MSCCLPP_SEEDS does not name the folder of the documents".into())
}

/// Returns the tests of jobs.
pub(crate) fn tests(package: &Result<PathBuf, String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for version in VERSIONS {
        let python = python_of(version);
        let example = |name: &str| sources().join(format!("examples/{name}.py"));
        for name in EXAMPLES {
            let of = format!("example_{name}_on_the_cpu_with_pytorch_{version}");
            trials.push(on_cpu(of, &python, package, example(name), &[], 2));
        }
        let of = format!("example_executor_test_on_the_cpu_with_pytorch_{version}");
        let options = [
            "-path",
            &sources().join("../mscclpp-core/filetests/operations/get.plan").to_string_lossy(),
            "--size",
            "64K",
            "--in_place",
        ]
        .map(String::from);
        trials.push(on_cpu(of, &python, package, example("executor_test"), &options, 2));
        for ranks in [2, 4] {
            let of = format!("example_tensor_parallel_of_{ranks}_ranks_with_pytorch_{version}");
            trials.push(on_cpu(of, &python, package, example("tensor_parallel"), &[], ranks));
        }
        for ranks in [2, 3] {
            let script = sources().join("tests/python/calls.py");
            trials.push(on_cpu(
                format!("calls_of_{ranks}_ranks_with_pytorch_{version}"),
                &python,
                package,
                script,
                &[],
                ranks,
            ));
        }
    }
    let python = devices().and_then(|()| python_of(VERSIONS[0]));
    if let Err(reason) = &python {
        println!("tests of plans from Python on simulated devices are ignored: {reason}");
    }
    for name in EXAMPLES.into_iter().chain(ON_DEVICES) {
        let script = sources().join(format!("examples/{name}.py"));
        trials.push(on_devices(format!("example_{name}_on_simulated_devices"), &python, package, script, None, 2, 1));
    }
    // More ranks than a node usually has take a minute.
    for (ranks, is_repeated) in [(4, false), (18, true)] {
        let name = format!("example_native_modules_of_{ranks}_ranks_on_simulated_devices");
        let script = sources().join("examples/native_modules.py");
        let trial = on_devices(name, &python, package, script, None, ranks, 1);
        trials.push(if is_repeated { trial.with_ignored_flag(true) } else { trial });
    }
    for (script, name) in [
        ("errors", "failures_of_native_algorithms_arrive_by_name_on_simulated_devices"),
        ("kernels", "kernels_of_native_algorithms_on_simulated_devices"),
        ("plain", "kernels_of_plain_sources_on_simulated_devices"),
        ("default_algorithms", "default_algorithms_differ_on_simulated_devices"),
    ] {
        let script = sources().join(format!("tests/native/{script}.py"));
        trials.push(on_devices(name.into(), &python, package, script, None, 2, 1));
    }
    for (ranks, is_repeated) in [(2, false), (4, true), (8, true)] {
        let name = format!("documents_of_{ranks}_ranks_run_on_simulated_devices");
        let script = sources().join("tests/documents/devices.py");
        let python = documents().and_then(|_| python.clone());
        let trial = on_devices(name, &python, package, script, None, ranks, 1);
        // More ranks take minutes.
        trials.push(if is_repeated { trial.with_ignored_flag(true) } else { trial });
    }
    let checkout = std::env::var_os("MSCCLPP_EXAMPLES").ok_or("MSCCLPP_EXAMPLES does not name a checkout");
    // As cargo runs tests in the folder of their package, other than the workspace.
    let checkout = checkout.map(|path| sources().join("..").join(path)).map_err(String::from);
    for (name, ranks, is_repeated) in
        [("examples_of_the_reference", 2, false), ("example_of_8_ranks_of_the_reference", 8, true)]
    {
        let script = sources().join("tests/python/reference_examples.py");
        let python = checkout.clone().and(python.clone());
        let trial = on_devices(format!("{name}_run_on_simulated_devices"), &python, package, script, None, ranks, 1);
        // That of eight ranks takes a minute.
        trials.push(if is_repeated { trial.with_ignored_flag(true) } else { trial });
    }
    for plan in ["allgather_pkt", "allreduce"] {
        trials.push(executor_test(plan, &checkout, package));
    }
    trials.extend(CLIENTS.iter().flat_map(|client| of_client(client, &python, package)));
    trials
}

/// Returns the tests of an engine's wrappers.
fn of_client(
    &(name, wrappers): &'static (&str, &str),
    python: &Result<PathBuf, String>,
    package: &Result<PathBuf, String>,
) -> Vec<Trial> {
    let client = installed("python-client.sh", name);
    if let Err(reason) = &client {
        println!("tests of {name} are ignored: {reason}");
    }
    let python = client.clone().and(python.clone());
    let client = client.ok().map(|folder| Client { wrappers: folder.join(wrappers), folder });
    let script = |name: &str| sources().join(format!("tests/python/{name}.py"));
    let fused = script(&format!("{name}_fusion"));
    let of_devices = format!("{name}_fused_calls_on_simulated_devices");
    let mut trials = vec![on_devices(of_devices, &python, package, fused.clone(), client.clone(), 2, 1)];
    if name == "sglang" {
        let arguments: Vec<String> = client.iter().map(|client| client.wrappers.display().to_string()).collect();
        trials.push(on_cpu("sglang_fused_calls_of_2_ranks".into(), &python, package, fused, &arguments, 2));
        for hosts in [1, 2] {
            let name = format!("sglang_on_4_simulated_devices_of_{hosts}_hosts");
            trials.push(on_devices(name, &python, package, script("sglang"), client.clone(), 4, hosts));
        }
    }
    trials
}

/// Returns whether there are simulated devices, or the reason why not.
fn devices() -> Result<(), String> {
    let compiler = Command::new("c++").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !compiler.is_ok_and(|status| status.success()) {
        return Err("there is no C++ compiler".into());
    }
    let libraries = Command::new("ldconfig").arg("-p").output();
    match libraries.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libcuda.so.1")) {
        true => Err("this machine has CUDA's driver".into()),
        false => Ok(()),
    }
}

/// A test that runs a script on the CPU, in a process for each rank.
fn on_cpu(
    name: String,
    python: &Result<PathBuf, String>,
    package: &Result<PathBuf, String>,
    script: PathBuf,
    arguments: &[String],
    ranks: usize,
) -> Trial {
    let (is_ignored, python, package) = (python.is_err(), python.clone(), package.clone());
    let arguments = arguments.to_vec();
    let test = move || {
        let (python, package) = (python?, package?);
        let (first, second) = (Port::new(), Port::new());
        let is_read = [("PYTHONPATH", &*package.to_string_lossy()), ("OMP_NUM_THREADS", "1")];
        let run = preloaded(&[&python], &is_read)?;
        let start = |rank: usize| {
            // A rank that waits forever ends the job.
            Command::new("timeout")
                .arg(TIMEOUT)
                .arg(&python)
                .args(&run)
                .arg(&script)
                .args(&arguments)
                .env("PYTHONPATH", &package)
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env("OMP_NUM_THREADS", "1")
                .envs([("RANK", rank.to_string()), ("LOCAL_RANK", rank.to_string()), ("WORLD_SIZE", ranks.to_string())])
                .envs([("MASTER_ADDR", "127.0.0.1"), ("MSCCLPP_MASTER_ADDR", "127.0.0.1")])
                .env("MASTER_PORT", first.number.to_string())
                .env("MSCCLPP_MASTER_PORT", second.number.to_string())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        };
        let started: Vec<Child> = (0..ranks).map(start).collect::<Result<_, _>>()?;
        let outputs: Vec<Output> = started.into_iter().map(Child::wait_with_output).collect::<Result<_, _>>()?;
        for (rank, output) in outputs.iter().enumerate() {
            let text = text(output);
            let is_ok = output.status.success() && (text.contains(&format!("ok rank {rank}")) || text.contains("\nOK"));
            if !is_ok {
                return Err(Failed::from(format!("rank {rank}: {}\n{text}", output.status)));
            }
        }
        Ok(())
    };
    Trial::test(name, test).with_ignored_flag(is_ignored)
}

/// Files of an engine.
#[derive(Clone)]
struct Client {
    /// Where it is, with what it needs.
    folder: PathBuf,
    /// Where its wrappers are: the script's argument.
    wrappers: PathBuf,
}

/// A test that runs a script on simulated devices, of which each rank has one. `client`: the engine whose files it runs; `hosts`: the
/// machines that the ranks pretend to be on.
fn on_devices(
    name: String,
    python: &Result<PathBuf, String>,
    package: &Result<PathBuf, String>,
    script: PathBuf,
    client: Option<Client>,
    ranks: usize,
    hosts: usize,
) -> Trial {
    let (is_ignored, python, package) = (python.is_err(), python.clone(), package.clone());
    let test = move || {
        let (python, package) = (python?, package?);
        let mut path = package.into_os_string();
        client.iter().for_each(|client| path.push(format!(":{}", client.folder.display())));
        let port = Port::new();
        // One rank compiles, the others find what it has made.
        let cache = tempfile::tempdir()?;
        let command = format!(
            "export MSCCLPP_MASTER_ADDR=127.0.0.1 MSCCLPP_MASTER_PORT={} MSCCLPP_CACHE='{}'; {}exec \"$0\" \"$@\"",
            port.number,
            cache.path().display(),
            if hosts > 1 {
                format!("export MSCCLPP_HOST_ID=host$((RANK * {hosts} / WORLD_SIZE)); ")
            } else {
                String::new()
            }
        );
        let simulated = sources().join("../scripts/simulated-cuda.sh");
        let is_read = [("PYTHONPATH", &*path.to_string_lossy()), ("OMP_NUM_THREADS", "1"), ("PROFILE", "dev")];
        let run = preloaded(&[&simulated, Path::new("--nccl"), Path::new("--"), &python], &is_read)?;
        let output = Command::new("timeout")
            .arg(TIMEOUT)
            .arg(simulated)
            .args(["-n", &ranks.to_string(), "--devices", &ranks.max(8).to_string()])
            .args(["--nccl", "--multicast", "8", "--", "bash", "-c", &command])
            .arg(&python)
            .args(run)
            .arg(&script)
            .args(client.map(|client| client.wrappers))
            .envs([("PROFILE", "dev"), ("PYTHONDONTWRITEBYTECODE", "1")])
            .env("PYTHONPATH", path)
            .output()?;
        let text = text(&output);
        let right = (0..ranks).filter(|rank| text.contains(&format!("ok rank {rank}"))).count();
        match output.status.success() && right == ranks {
            true => Ok(()),
            false => Err(Failed::from(format!("{right} of {ranks} ranks are right, {}:\n{text}", output.status))),
        }
    };
    Trial::test(name, test).with_ignored_flag(is_ignored)
}

/// A test that runs the reference's `executor_test.py` as it stands, under `mpirun` on simulated devices, with what a program of the
/// reference prints. `MSCCLPP_CUPY` names a Python with cupy, whose runtime is shared, and mpi4py.
fn executor_test(plan: &'static str, checkout: &Result<PathBuf, String>, package: &Result<PathBuf, String>) -> Trial {
    let python = std::env::var_os("MSCCLPP_CUPY").ok_or("MSCCLPP_CUPY does not name a Python with cupy and mpi4py");
    let python = devices().and(python.map(PathBuf::from).map_err(String::from));
    let needed = checkout.clone().and_then(|checkout| Ok((checkout, python?, package.clone()?)));
    let is_ignored = needed.is_err();
    let test = move || {
        let (checkout, python, package) = needed?;
        let made = tempfile::tempdir()?;
        let command = r#"set -e
            plan=$3/plan.json
            "$0" "$1/python/mscclpp/language/tests/single_node/$2.py" --name "$2" --num_gpus 2 >"$plan"
            exec mpirun --allow-run-as-root --oversubscribe -np 2 "$0" "$1/python/test/executor_test.py" \
                -path "$plan" --size 64K --in_place --n_iters 2 --n_graph_iters 2"#;
        let output = Command::new("timeout")
            .arg(TIMEOUT)
            .arg(sources().join("../scripts/simulated-cuda.sh"))
            .args(["--nccl", "--", "bash", "-c", command])
            .args([&python, &checkout, Path::new(plan), made.path()])
            .envs([("PROFILE", "dev"), ("PYTHONDONTWRITEBYTECODE", "1")])
            .env("PYTHONPATH", package)
            .output()?;
        let text = text(&output);
        // A wrong result ends a rank by an assertion of its kernel.
        match output.status.success() && text.matches("Execution time: ").count() == 2 {
            true => Ok(()),
            false => Err(Failed::from(format!("{}:\n{text}", output.status))),
        }
    };
    Trial::test(format!("executor_test_of_the_reference_runs_{plan}"), test).with_ignored_flag(is_ignored)
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns whether there is a script of an example that no test runs.
pub(crate) fn examples_are_run() -> Result<(), Failed> {
    let others = ["job", "programs", "tensor_parallel", "executor_test"];
    for entry in Path::new(&sources().join("examples")).read_dir()? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let is_known = EXAMPLES.contains(&name) || ON_DEVICES.contains(&name) || others.contains(&name);
        if path.extension().is_some_and(|extension| extension == "py") && !is_known {
            return Err(format!("no test runs {}", path.display()).into());
        }
    }
    Ok(())
}
