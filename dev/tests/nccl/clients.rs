//! Builds clients and runs them, one process per rank.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Maximum duration of a client, which waits for other ranks at most for the timeout that a test states.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A test, by name.
pub(crate) type Test = (&'static str, fn() -> Result<(), String>);

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("collectives_of_two_processes_are_right", || collectives(2, &[])),
        ("collectives_of_four_processes_are_right", || collectives(4, &[])),
        ("collectives_through_switches_are_right", || collectives(4, &[("MSCCLPP_MOCK_MULTICAST", "8")])),
        ("collectives_on_a_driver_for_cuda_12_2_are_right", || collectives(2, &[("MSCCLPP_MOCK_DRIVER", "12020")])),
        ("collectives_of_ranks_that_share_a_device_are_right", || collectives(3, &[("ONE_DEVICE", "1")])),
        ("ranks_find_each_other_by_ids_of_any_process", || all_ok(&run("rendezvous", 4, &[], &[])?)),
        ("groups_of_all_ranks_in_one_thread_are_right", || ran(&run("one_process", 1, &[], &[])?)),
        ("groups_of_two_jobs_have_one_order_on_all_ranks", || ran(&run("profiled", 1, &["threads"], &[])?)),
        ("calls_in_odd_orders_of_two_processes_are_right", || all_ok(&run("odd_orders", 2, &[], &[SHORT_WAIT])?)),
        ("calls_in_odd_orders_of_three_processes_are_right", || all_ok(&run("odd_orders", 3, &[], &[SHORT_WAIT])?)),
        ("runtime_of_simulated_devices_keeps_order_and_reports_errors", || ran(&run("runtime", 1, &[], &[])?)),
        ("communicator_of_two_processes_serves_all_ranks_after_shrinks", || all_ok(&run("shrink", 2, &[], &[])?)),
        ("communicator_of_three_processes_serves_all_ranks_after_shrinks", || all_ok(&run("shrink", 3, &[], &[])?)),
        ("graphs_and_calls_of_one_communicator_follow_one_another", || all_ok(&run("mixed_graphs", 2, &[], &[])?)),
        ("graphs_and_calls_by_compiled_kernels_follow_one_another", || {
            let outputs = run("mixed_graphs", 2, &[], &[("MSCCLPP_KERNELS", "wait"), ("NCCL_DEBUG", "INFO")])?;
            all_ok(&outputs)?;
            let is_compiled = text(&outputs[0]).contains("has a compiled kernel for i32")
                && text(&outputs[0]).contains("a kernel of the plan, compiled at run time, on ");
            is_compiled.then_some(()).ok_or_else(|| text(&outputs[0]))
        }),
        ("finalization_of_a_caller_that_does_not_wait_is_in_progress", || all_ok(&run("finalized", 2, &[], &[])?)),
        ("calls_without_elements_are_compared", || all_ok(&run("empty", 2, &[], &[("MSCCLPP_TIMEOUT", "20")])?)),
        ("standard_descriptors_that_are_closed_become_no_connections", || all_ok(&run("closed", 2, &[], &[])?)),
        ("suspended_communicator_reports_its_memory_and_continues", suspended),
        ("copy_of_a_process_gets_codes", || all_ok(&run("copied", 2, &[], &[])?)),
        ("group_with_a_failed_division_makes_its_other_calls", || {
            all_ok(&run("failed_division", 2, &[], &[("MSCCLPP_TIMEOUT", "20")])?)
        }),
        ("calls_of_every_type_and_operator_are_right", || all_ok(&run("types", 2, &[], &[])?)),
        ("smallest_maximum_of_blocks_limits_calls_of_all_ranks", smallest_maximum),
        ("random_calls_are_codes", random_calls),
        ("invalid_arguments_are_codes_with_texts", || ran(&run("arguments", 1, &[], &[])?)),
    ]
}

/// Returns why clients cannot run here.
pub(crate) fn missing() -> Option<String> {
    let compiler = Command::new("cc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !compiler.is_ok_and(|status| status.success()) {
        return Some("there is no C compiler".into());
    }
    // SAFETY: the driver's library has no effects before it is initialized.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") };
    driver.is_ok().then(|| "this machine has CUDA's driver, and the clients are made for simulated devices".into())
}

fn collectives(ranks: usize, variables: &[(&str, &str)]) -> Result<(), String> {
    all_ok(&run("collectives", ranks, &[], variables)?)
}

/// Checks that all processes succeeded, and said so at their end.
pub(crate) fn all_ok(outputs: &[Output]) -> Result<(), String> {
    ran(outputs)?;
    let is_ok = |(rank, output): &(usize, &Output)| text(output).contains(&format!("ok rank {rank}"));
    let (ok, ranks) = (outputs.iter().enumerate().filter(is_ok).count(), outputs.len());
    if ok == ranks { Ok(()) } else { Err(format!("{ok} of {ranks} ranks are right")) }
}

fn smallest_maximum() -> Result<(), String> {
    let blocks = |limits: [&str; 2]| -> Result<u32, String> {
        let outputs = run("limited", 2, &limits, &[("NCCL_DEBUG", "INFO"), ("MSCCLPP_KERNELS", "interpreter")])?;
        all_ok(&outputs)?;
        let text = text(&outputs[0]);
        let after = text.split("the interpreter, on ").nth(1).and_then(|after| after.split(" thread blocks").next());
        after.and_then(|blocks| blocks.parse().ok()).ok_or(text)
    };
    let (usual, limited) = (blocks(["0", "0"])?, blocks(["0", "3"])?);
    // Of two ranks.
    if usual > 6 && limited == 6 { Ok(()) } else { Err(format!("{usual} thread blocks, limited {limited}")) }
}

fn suspended() -> Result<(), String> {
    let outputs = run("suspended", 2, &[], &[("NCCL_DEBUG", "INFO")])?;
    all_ok(&outputs)?;
    // One line for each class of calls: the second one is made after the suspension.
    let text = text(&outputs[0]);
    if text.matches("named by the call's algSelection").count() == 2 { Ok(()) } else { Err(text) }
}

fn random_calls() -> Result<(), String> {
    let day = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
    for seed in day..day + 3 {
        println!("seed {seed} of random calls of NCCL");
        ran(&run("fuzz", 1, &[&seed.to_string()], &[])?)?;
    }
    Ok(())
}

/// Returns what a process printed.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Checks that all processes succeeded.
pub(crate) fn ran(outputs: &[Output]) -> Result<(), String> {
    let failed = outputs.iter().enumerate().filter(|(_, output)| !output.status.success());
    let report: String =
        failed.map(|(rank, output)| format!("rank {rank}: {}\n{}", output.status, text(output))).collect();
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// Folder with the libraries under the names that programs load.
pub(crate) fn libraries() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let link = || -> Result<PathBuf, String> {
        // Dependencies of this test, so they are in the same folder.
        let built = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nccl-clients");
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        for (name, library) in [
            ("libcuda.so.1", "mscclpp_mock_cuda"),
            ("libnvrtc.so", "mscclpp_mock_cuda"),
            ("libcudart.so.13", "mscclpp_mock_cudart"),
            ("libnccl.so.2", "mscclpp_nccl"),
            ("libnccl.so", "mscclpp_nccl"),
        ] {
            let library = built.with_file_name(format!("lib{library}.so"));
            if !library.is_file() {
                return Err(format!("{} is missing", library.display()));
            }
            let link = folder.join(name);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(library, link).map_err(|error| error.to_string())?;
        }
        Ok(folder)
    };
    FOLDER.get_or_init(link).as_deref().map_err(Clone::clone)
}

/// Compiles a client.
fn client(name: &str) -> Result<PathBuf, String> {
    compile(name, &[])
}

/// Compiles a source with options: a client, or a library with `-shared`.
pub(crate) fn compile(name: &str, options: &[&str]) -> Result<PathBuf, String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nccl/clients");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = libraries()?.join(format!("{name}-{}-{number}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]).args(options).arg("-o").arg(&program);
    let output =
        compiler.arg(sources.join(format!("{name}.c"))).arg("-ldl").output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(program) } else { Err(text(&output)) }
}

/// A process that is ended with this.
struct Rank(Option<Child>);

impl Drop for Rank {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// For clients whose ranks call in orders in which the first transfer of a size waits on the host in vain.
pub(crate) const SHORT_WAIT: (&str, &str) = ("MSCCLPP_FIRST_TRANSFER_WAIT", "0.02");

/// Lets waits end soon after a timeout of 3 seconds, also on a device.
pub(crate) const SHORT_TIMEOUT: [(&str, &str); 3] =
    [("MSCCLPP_TIMEOUT", "3"), ("MSCCLPP_HEARTBEAT_TIMEOUT", "20"), SHORT_PATIENCE];

/// Kernels that wait for other processes are known to wait in vain after 2 seconds.
pub(crate) const SHORT_PATIENCE: (&str, &str) = ("MSCCLPP_MOCK_PATIENCE", "2");

/// Runs a client as `ranks` processes and returns what they printed.
pub(crate) fn run(
    name: &str,
    ranks: usize,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<Vec<Output>, String> {
    let program = client(name)?;
    let outputs = run_program(&program, ranks, arguments, variables);
    let _ = fs::remove_file(program);
    outputs
}

/// Runs a program as `ranks` processes and returns what they printed.
pub(crate) fn run_program(
    program: &Path,
    ranks: usize,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<Vec<Output>, String> {
    let ids = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (name, libraries) = (program.display(), libraries()?);
    let start = |rank: usize| {
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", libraries).env("ID_FILE", ids.path().join("id"));
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
        command.env("MSCCLPP_CACHE", "").env("MSCCLPP_NVRTC", "").env("MSCCLPP_MOCK_DEVICES", "8");
        // Otherwise each plan would be compiled.
        command.env("MSCCLPP_KERNELS", "interpreter");
        if ranks > 1 {
            // Kernels of one process wait for those of others.
            command.env("MSCCLPP_MOCK_OTHERS", "1");
        }
        // The system continues suspended processes of a group when the shell that started it ends.
        command.process_group(0);
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map(|child| Rank(Some(child))).map_err(|error| error.to_string())
    };
    let mut processes = (0..ranks).map(start).collect::<Result<Vec<_>, _>>()?;
    let end = Instant::now() + TIMEOUT;
    loop {
        let mut running = Vec::new();
        for (rank, process) in processes.iter_mut().enumerate() {
            let child = process.0.as_mut().ok_or("no process")?;
            if child.try_wait().map_err(|error| error.to_string())?.is_none() {
                running.push((rank, child.id()));
            }
        }
        if running.is_empty() {
            break;
        }
        if Instant::now() > end {
            let late: Vec<_> = running.iter().map(|(rank, _)| *rank).collect();
            let others = (0..ranks).filter(|rank| !late.contains(rank));
            // The reason why one waits in vain.
            let others: String =
                others.map(|rank| format!("\nrank {rank}: {}", printed(&mut processes[rank]))).collect();
            return Err(format!("ranks {late:?} of {name} {arguments:?} did not end within {TIMEOUT:?}{others}"));
        }
        // A process that has suspended itself continues when no other one waits for it.
        if running.iter().all(|(_, process)| is_suspended(*process)) {
            running.iter().for_each(|(_, process)| resume(*process));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let mut outputs = Vec::new();
    for process in &mut processes {
        let child = process.0.take().ok_or("no process")?;
        outputs.push(child.wait_with_output().map_err(|error| error.to_string())?);
    }
    Ok(outputs)
}

/// Returns what a process that has ended printed.
fn printed(process: &mut Rank) -> String {
    let output = process.0.take().map(Child::wait_with_output);
    output.map(|output| output.map_or_else(|error| error.to_string(), |output| text(&output))).unwrap_or_default()
}

fn is_suspended(process: u32) -> bool {
    // The state follows the name, which is in parentheses.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

fn resume(process: u32) {
    if let Some(process) = rustix::process::Pid::from_raw(process as i32) {
        // A process that has ended meanwhile needs nothing.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::CONT);
    }
}
