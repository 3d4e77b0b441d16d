//! Host time of NCCL's calls: `cargo bench -p mscclpp-dev --bench nccl`.
//!
//! Two processes on simulated devices, and one with two ranks, call `mscclpp-nccl`, and then a library whose functions do nothing, in the same way. A library
//! before the driver skips the launches, whose kernels would run on the same cores, and measures the time of the driver's other
//! functions; what remains is the time of this library. Medians of 61 rounds.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/nccl/clients.rs"]
mod clients;

use std::fs;
use std::path::{Path, PathBuf};

use clients::{compile, libraries, ran, run_program, text};

/// Host time per call beyond the launch that is aimed at, in nanoseconds.
const TARGET: u64 = 2000;

fn main() {
    if let Some(reason) = clients::missing() {
        println!("skipped: {reason}");
        return;
    }
    if let Err(reason) = run() {
        eprintln!("{reason}");
        std::process::exit(1);
    }
}

/// Kinds of calls, and the number of processes that make them.
const KINDS: [(&str, usize); 4] = [
    ("all_reduce", 2),
    ("all_reduce_in_group_of_8", 2),
    ("send_and_recv", 2),
    ("all_reduce_of_2_ranks_in_a_thread", 1),
];

/// Times of a kind of call without its launches, in nanoseconds, and hundredths of launches.
struct Row {
    name: String,
    total: u64,
    driver: u64,
    launches: u64,
}

fn run() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let driver = renamed_driver(folder.path())?;
    let (program, nothing) = (compile("overhead", &[])?, compile("nothing", &["-shared", "-fPIC"])?);
    let timed = compile("timed", &["-shared", "-fPIC", "-Wl,--no-as-needed", &driver.display().to_string()])?;
    let ours = measure(&folder.path().join("ours"), &program, &timed, &libraries()?.join("libnccl.so.2"));
    let empty = measure(&folder.path().join("empty"), &program, &timed, &nothing);
    for built in [program, nothing, timed] {
        let _ = fs::remove_file(built);
    }
    println!("simulated devices, two processes; nanoseconds of host time per call");
    println!(
        "{:<34} {:>9} {:>9} {:>10} {:>9} {:>10}  target",
        "call", "no launch", "launches", "in driver", "the rest", "empty NCCL"
    );
    for (row, empty) in ours?.iter().zip(empty?) {
        let rest = row.total.saturating_sub(row.driver);
        let verdict = if row.total.saturating_sub(empty.total) <= TARGET { "reached" } else { "missed" };
        let Row { name, total, driver, .. } = row;
        let launches = row.launches as f64 / 100.0;
        println!("{name:<34} {total:>9} {launches:>9.2} {driver:>10} {rest:>9} {:>10}  {verdict}", empty.total);
    }
    Ok(())
}

/// Copies the driver under another name, so that the library before it can have the driver's.
fn renamed_driver(folder: &Path) -> Result<PathBuf, String> {
    const NAME: &[u8] = b"\0libcuda.so.1\0";
    let mut bytes = fs::read(libraries()?.join("libcuda.so.1")).map_err(|error| error.to_string())?;
    let at = bytes.windows(NAME.len()).position(|found| found == NAME).ok_or("the driver has no name")?;
    bytes[at + 1..][..NAME.len() - 2].copy_from_slice(b"libwcud.so.1");
    let path = folder.join("libwcud.so.1");
    fs::write(&path, bytes).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Runs the program with a driver and a NCCL; returns what rank 0 measured.
fn measure(folder: &Path, program: &Path, driver: &Path, nccl: &Path) -> Result<Vec<Row>, String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for (name, library) in [("libcuda.so.1", driver), ("libnccl.so.2", nccl)] {
        std::os::unix::fs::symlink(library, folder.join(name)).map_err(|error| error.to_string())?;
    }
    let path = format!("{}:{}", folder.display(), folder.parent().unwrap_or(folder).display());
    KINDS.iter().map(|&kind| measure_kind(program, kind, &path)).collect()
}

/// Measures a kind of call; `path`: folders with the libraries.
fn measure_kind(program: &Path, (kind, processes): (&str, usize), path: &str) -> Result<Row, String> {
    let outputs = run_program(program, processes, &[kind], &[("LD_LIBRARY_PATH", path)])?;
    ran(&outputs)?;
    let printed = text(&outputs[0]);
    let row = |line: &str| -> Option<Row> {
        let mut words = line.split(' ');
        let name = words.next()?.replace('_', " ");
        let mut number = || words.next()?.parse().ok();
        Some(Row { name, total: number()?, driver: number()?, launches: number()? })
    };
    printed.lines().find_map(row).ok_or_else(|| format!("expected a line of times, found:\n{printed}"))
}
