//! Device code under ThreadSanitizer, with a thread of the operating system for every CUDA thread.
//!
//! Only the device code is instrumented, so the library is compiled here. The sanitizer is loaded by `LD_PRELOAD`, so
//! every case is a separate process, which runs this program with the case's name in its environment.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::BuiltinAlgorithm;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_dev::{Options, ThreadedKernels, simulator};
use mscclpp_exec::cuda::{self, Device, Executor};
use mscclpp_exec::{DataType, Message};

use super::bits::Pair;

/// Names of the environment variables with the case and with the library.
const CASE: &str = "MSCCLPP_THREADS_CASE";
const LIBRARY: &str = "MSCCLPP_THREADS_LIBRARY";

/// Exit status of a process in which the sanitizer found an error.
const FOUND: i32 = 66;

/// Modules of the library.
const TYPES: [&str; 3] = ["f32", "f16_f32", "u8"];

/// Injected bugs that leave accesses unordered.
const BUGS: [&str; 3] = ["relaxed_signal", "no_block_sync", "wait_for_one_less"];

/// Runs the case of this process, if its environment names one, and exits.
pub(crate) fn run_case() {
    let (Ok(case), Some(library)) = (std::env::var(CASE), std::env::var_os(LIBRARY)) else { return };
    let code = match run(&case, Path::new(&library)) {
        Ok(()) => 0,
        Err(failed) => {
            eprintln!("{}", failed.message().unwrap_or("no message"));
            1
        }
    };
    std::process::exit(code);
}

/// Runs a case: an algorithm, and after a colon the bug.
fn run(case: &str, library: &Path) -> Result<(), Failed> {
    let (name, bug) = case.split_once(':').map_or((case, None), |(name, bug)| (name, Some(bug)));
    let bug = BUGS.into_iter().find(|known| Some(*known) == bug);
    // SAFETY: compiled by `library` below.
    let threaded = Some(unsafe { ThreadedKernels::load(library) }?);
    let device = Device::with_driver(simulator(Options { threads: 4, threaded, bug, ..Options::default() })?);
    let plan = plan(name)?;
    let ranks = plan.ranks.len() as u32;
    let plan = Plan::new(&plan);
    let options = cuda::Options::default().timeout(Duration::from_secs(120));
    let world = Executor::with_options(&device, ranks, options);
    let types: &[DataType] = if bug.is_some() { &[DataType::F32] } else { &[DataType::F32, DataType::U8] };
    for &dtype in types {
        for each in [40, 17] {
            let message = Message::new(dtype, each * u64::from(ranks)).any_size();
            Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?.check(2)?;
        }
    }
    Ok(())
}

/// Returns the algorithms whose plans have operations that no earlier algorithm's plan has; all where several seeds are asked for.
fn cases() -> Vec<&'static str> {
    let is_all = std::env::var_os("MSCCLPP_NUM_SEEDS").is_some();
    let mut kinds = HashSet::new();
    let adds_kind = |algorithm: &&BuiltinAlgorithm| {
        let ops = plan(algorithm.name()).map(|plan| plan.ranks.into_iter().flat_map(|rank| rank.blocks));
        let ops = ops.into_iter().flatten().flat_map(|block| block.ops);
        let ops = ops.flat_map(|op| {
            op.body.iter().flat_map(|body| body.ops.iter()).map(|op| op.kind).chain([op.kind]).collect::<Vec<_>>()
        });
        ops.fold(is_all, |adds, kind| kinds.insert(kind) || adds)
    };
    algorithms::all().iter().filter(adds_kind).map(|algorithm| algorithm.name()).collect()
}

/// Returns the plan of an algorithm.
fn plan(name: &str) -> Result<PlanTree, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let machines = [(3, 3), (2, 2), (4, 2), (2, 1)];
    let &(ranks, node) =
        machines.iter().find(|machine| algorithm.supports(machine.0, machine.1)).ok_or("no machine")?;
    // Several thread blocks per peer, and barriers between them, if the algorithm supports that.
    let arguments = algorithm.arguments([("group", 2)]).or_else(|_| algorithm.arguments([]))?;
    Ok(algorithm.compile_tree(algorithm.spec(ranks, node), &arguments)?)
}

/// One trial for each of these algorithms, and for each bug.
pub(crate) fn tests(no_simulator: Option<&String>) -> Vec<Trial> {
    let reason = match no_simulator {
        Some(reason) => Err(reason.clone()),
        None => sanitizer().map(|_| ()),
    };
    match &reason {
        Ok(()) => println!("threads: under ThreadSanitizer"),
        Err(reason) => println!("threads: ignored: {reason}"),
    }
    let clean = cases().into_iter().map(|name| {
        Trial::test(format!("threads::{name}"), move || {
            let output = start(name)?;
            match output.status.success() {
                true => Ok(()),
                false => Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into()),
            }
        })
    });
    let found = BUGS.into_iter().map(|bug| {
        Trial::test(format!("threads::bugs::{bug}"), move || {
            for name in ["allreduce_all_pairs", "allreduce_one_shot", "allreduce_ring", "allgather_node_ring"] {
                if start(&format!("{name}:{bug}"))?.status.code() == Some(FOUND) {
                    return Ok(());
                }
            }
            Err("not found".into())
        })
    });
    clean.chain(found).map(|trial| trial.with_ignored_flag(reason.is_err())).collect()
}

/// Runs a case in a separate process.
fn start(case: &str) -> Result<Output, Failed> {
    let options = format!("exitcode={FOUND} halt_on_error=1 ignore_noninstrumented_modules=1");
    let mut command = Command::new(std::env::current_exe()?);
    command.env(CASE, case).env(LIBRARY, library()?).env("LD_PRELOAD", sanitizer()?).env("TSAN_OPTIONS", options);
    Ok(command.output()?)
}

/// Returns the sanitizer's library, if there is one that works.
fn sanitizer() -> Result<&'static Path, String> {
    static SANITIZER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || {
        let output = Command::new(compiler()).arg("-print-file-name=libtsan.so").output();
        let output = output.map_err(|error| format!("no C++ compiler: {error}"))?;
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if !path.is_absolute() {
            return Err("the C++ compiler comes without ThreadSanitizer".to_owned());
        }
        let works = Command::new("true").env("LD_PRELOAD", &path).output().map_err(|error| error.to_string())?;
        match works.status.success() && works.stderr.is_empty() {
            true => Ok(path),
            false => Err(format!("ThreadSanitizer does not work here: {}", String::from_utf8_lossy(&works.stderr))),
        }
    };
    SANITIZER.get_or_init(find).as_deref().map_err(Clone::clone)
}

fn compiler() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "c++".into())
}

/// Returns the library; the first call compiles it.
fn library() -> Result<&'static Path, String> {
    static COMPILED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    COMPILED.get_or_init(compile).as_deref().map_err(Clone::clone)
}

fn compile() -> Result<PathBuf, String> {
    let (here, copies) = (Path::new(env!("CARGO_MANIFEST_DIR")), Path::new(env!("OUT_DIR")));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("threads");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let names: Vec<String> =
        TYPES.iter().map(|name| (*name).to_owned()).chain(BUGS.iter().map(|bug| format!("f32_with_{bug}"))).collect();
    let tables: String =
        names.iter().map(|name| format!("extern \"C\" const SimKernel sim_kernels_{name}[];\n")).collect();
    let rows: String = names.iter().map(|name| format!("  {{\"{name}\", sim_kernels_{name}}},\n")).collect();
    let modules = folder.join("modules.cc");
    let text = format!(
        "#include \"dev.h\"\n{tables}extern \"C\" const SimModule sim_modules[] = {{\n{rows}  {{nullptr, nullptr}},\n}};\n"
    );
    std::fs::write(&modules, text).map_err(|error| error.to_string())?;
    let library = folder.join(format!("{}.so", std::process::id()));
    let mut command = Command::new(compiler());
    command.args(["-std=c++17", "-O1", "-g", "-w", "-fPIC", "-shared", "-fsanitize=thread", "-ffp-contract=off"]);
    command
        .args(["-DDEV_SIM", "-DDEV_THREADS", "-I", env!("SIM_SOURCES"), "-I"])
        .arg(here)
        .arg("-o")
        .arg(&library)
        .arg(&modules);
    command.arg(here.join("sim/threads.cc")).args(names.iter().map(|name| copies.join(format!("{name}.cc"))));
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(library),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
