//! Executed instructions of a launch: how often the simulator executes each source line, times the instructions of the line in the machine
//! code of the same sources. `instructions.txt` has these figures, so that none grows unnoticed.

mod estimate;
mod executed_lines;
mod machine_code;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::plan::Plan;
use mscclpp_dev::{Options, Step, Trace, TracedObject, simulator};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{Device, Executor, PrepareOptions};
use mscclpp_exec::{DataType, Message};

use self::executed_lines::Object;

/// Version of the compiler whose machine code is counted.
const VERSION: &str = "V13.0.88";

/// Returns the test, which is ignored without a simulator, or without what compiles for devices.
pub(crate) fn tests(no_simulator: bool) -> Vec<Trial> {
    let is_missing = no_simulator
        || [("nvcc", Some(VERSION)), ("nvdisasm", None), ("objdump", None)].iter().any(|(tool, version)| {
            let output = Command::new(tool).arg("--version").output();
            !output.is_ok_and(|output| {
                version.is_none_or(|version| String::from_utf8_lossy(&output.stdout).contains(version))
            })
        });
    let test =
        Trial::test("sim::instructions::executed_instructions_are_those_of_the_table", executed_are_those_of_the_table);
    vec![test.with_ignored_flag(is_missing)]
}

/// Algorithms that the default rules select for 1 KiB on the devices of a node, and one with handshakes, which they select for longer messages.
const PLANS: [&str; 4] =
    ["allreduce_one_shot_packets", "allgather_packets", "reducescatter_packets", "allreduce_all_pairs"];

const RANKS: u32 = 8;

/// Names of the sources of the interpreter and of specialized kernels.
const EXECUTOR: &str = "executor.cu";
const SPECIALIZED: &str = "specialized.cu";

/// Devices whose machine code is counted, all of them if `MSCCLPP_ALL` is set, otherwise the first one.
const ARCHS: [&str; 2] = ["sm_90", "sm_100"];

/// Instructions of a warp: to its first store that other threads see, and of the launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    to_store: u64,
    all: u64,
}

fn executed_are_those_of_the_table() -> Result<(), Failed> {
    let archs = if std::env::var_os("MSCCLPP_ALL").is_some() { &ARCHS[..] } else { &ARCHS[..1] };
    let mut rows = BTreeMap::new();
    let trace: &'static Trace = Box::leak(Box::new(Trace::new(RANKS)));
    let cache = tempfile::tempdir()?;
    let mut compiled = BTreeMap::new();
    // Machine code with more instructions, which must be counted.
    let mut planted = None;
    for (number, name) in PLANS.into_iter().enumerate() {
        for (kernel, specialize) in [("interpreter", false), ("specialized", true)] {
            let steps = run(name, specialize, trace, cache.path())?;
            for object in trace.take_objects() {
                let codes = archs.iter().map(|arch| Ok((*arch, machine_code(&object, arch)?)));
                let codes = codes.collect::<Result<Vec<_>, Failed>>()?;
                if number == 0 && specialize {
                    planted = Some(machine_code(&with_another_end(&object), archs[0])?);
                }
                compiled.insert(object.name.clone(), (Object::read(&object)?, codes));
            }
            let source = if specialize { SPECIALIZED } else { EXECUTOR };
            let (object, codes) = compiled.get(source).ok_or_else(|| format!("{name}: {source} was not compiled"))?;
            for (arch, code) in codes {
                rows.insert((number, kernel, *arch), most(&steps, object, code));
            }
            if let Some(planted) = planted.take() {
                let (found, more) = (rows[&(number, kernel, archs[0])], most(&steps, object, &planted));
                assert!(
                    more.all > found.all && more.to_store == found.to_store,
                    "{found:?}, with another end {more:?}"
                );
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/instructions.txt");
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(&path, page(&rows)?)?;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let expected =
        expected.lines().filter(|line| !ARCHS.iter().any(|arch| line.contains(arch) && !archs.contains(arch)));
    let found = page(&rows)?;
    if found.lines().eq(expected) {
        return Ok(());
    }
    Err(format!(
        "expected what {} has; use `kernels/check.sh --bless` and look at the change. Found:\n{found}",
        path.display()
    )
    .into())
}

/// Figures by number of a plan, kernel and device.
type Rows = BTreeMap<(usize, &'static str, &'static str), Counts>;

fn page(rows: &Rows) -> Result<String, Failed> {
    let mut page = String::from(
        "; Instructions that the first warp of a thread block executes in a launch of 1 KiB of f32 on 8 ranks, for the thread block of rank 0 for
; which they are most: to its first store that others see, and in all. Estimated from the simulator's executions of source lines and
; the machine code of nvcc 13.0.88 (tests/device/instructions/estimate.rs); no device has counted them.
; Written by `kernels/check.sh --bless`.

plan                          kernel       device  to first store  in all
",
    );
    for ((number, kernel, arch), Counts { to_store, all }) in rows {
        writeln!(page, "{:<30}{kernel:<13}{arch:<8}{to_store:>14}{all:>8}", PLANS[*number])?;
    }
    Ok(page)
}

/// Runs a plan, and returns the steps of its launch.
fn run(name: &str, specialize: bool, trace: &'static Trace, cache: &Path) -> Result<Vec<Step>, Failed> {
    // As many threads as messages of 1 KiB have; those of other ranks run first, so that few polls are repeated.
    let options =
        Options { threads: 128, trace: Some(trace), old: true, weak: false, stop_at_one_of: 1, ..Options::default() };
    let device = Device::with_cache(simulator(options)?, Cache::at(cache));
    let algorithm = mscclpp_algorithms::find(name).ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(RANKS, RANKS), &algorithm.arguments([])?)?);
    let world = Executor::new(&device, RANKS);
    let stream = world.stream()?;
    let message = Message::new(DataType::F32, 256).any_size();
    let mut prepared = world.prepare_with_options(&plan, message, PrepareOptions::default().specialize(specialize))?;
    if specialize {
        prepared.specialized().map_err(|reason| format!("{name} is not specialized: {reason}"))?;
    }
    let mut buffers = prepared.buffers()?;
    trace.take_steps();
    prepared.launch_buffers(&mut buffers, &stream)?;
    prepared.synchronize(&stream)?;
    Ok(trace.take_steps())
}

/// Returns a specialized source that ends the launch twice.
fn with_another_end(object: &TracedObject) -> TracedObject {
    const END: &str = "mscclpp::finish_launch(launch);";
    assert_eq!(object.text.matches(END).count(), 1, "{}", object.name);
    TracedObject { text: object.text.replace(END, &format!("{END} {END}")), ..object.clone() }
}

/// Compiles a source for a device, with the lines of its instructions, and returns its functions.
fn machine_code(object: &TracedObject, arch: &str) -> Result<Vec<machine_code::Function>, Failed> {
    let folder = tempfile::tempdir()?;
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels");
    let (source, cubin): (PathBuf, PathBuf) = (folder.path().join(&object.name), folder.path().join("kernel.cubin"));
    std::fs::write(&source, &object.text)?;
    let mut nvcc = Command::new("nvcc");
    nvcc.args(["-x", "cu", "-std=c++17", "-fmad=false", "-cubin", "-lineinfo", "-arch", arch, "-I"]).arg(kernels);
    nvcc.args(object.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    text_of(nvcc.arg("-o").arg(&cubin).arg(&source))?;
    let text = text_of(Command::new("nvdisasm").args(["-c", "-gi"]).arg(&cubin))?;
    let kernel = if object.name == EXECUTOR { "mscclpp_execute" } else { "mscclpp_specialized" };
    Ok(machine_code::functions(&text, kernel))
}

/// Returns what a program prints.
fn text_of(command: &mut Command) -> Result<String, Failed> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Returns the counts of the thread block for which they are most.
fn most(steps: &[Step], object: &Object, code: &[machine_code::Function]) -> Counts {
    let mut blocks: BTreeMap<u32, Vec<&Step>> = BTreeMap::new();
    steps.iter().for_each(|step| blocks.entry(step.block).or_default().push(step));
    let mut most = Counts::default();
    for steps in blocks.into_values() {
        let [to_store, all] = [true, false].map(|to_store| {
            let executions = object.executions(steps.iter().copied(), to_store);
            estimate::executed(code, &executions)
        });
        most = Counts { to_store: most.to_store.max(to_store), all: most.all.max(all) };
    }
    most
}
