//! The communicators of this process, for threads that write dumps on a signal and metrics at intervals.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use mscclpp_core::threads;
use serde_json::json;
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::observed::Observed;
use crate::flight_recorder::{DumpSignal, FOLDER_VARIABLE, SIGNAL_VARIABLE, folder};

/// The variable that names the file or folder for metrics.
const METRICS_VARIABLE: &str = "MSCCLPP_METRICS";
/// The variable that has the seconds between two lines of a rank.
const INTERVAL_VARIABLE: &str = "MSCCLPP_METRICS_INTERVAL";
/// Seconds between two lines of a rank by default.
const INTERVAL: f64 = 10.0;

static COMMUNICATORS: Mutex<Vec<Weak<Observed>>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Weak<Observed>>> {
    COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the communicators of this process.
fn communicators() -> Vec<Arc<Observed>> {
    lock().iter().filter_map(Weak::upgrade).collect()
}

/// Adds a communicator. The first one starts the threads that the environment asks for.
pub(super) fn register(observed: &Arc<Observed>) {
    static START: OnceLock<()> = OnceLock::new();
    let mut all = lock();
    all.retain(|known| known.strong_count() > 0);
    all.push(Arc::downgrade(observed));
    drop(all);
    START.get_or_init(|| {
        if let Err(error) = dump_on_signal() {
            log::warn!("no dumps on a signal: {error}");
        }
        if let Some(file) = metrics_file() {
            let interval = std::env::var(INTERVAL_VARIABLE).ok();
            let interval = interval.map_or(Ok(INTERVAL), |text| text.trim().parse().map_err(|_| text));
            let interval =
                interval.and_then(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| seconds.to_string()));
            match interval {
                Ok(interval) => spawn("mscclpp metrics", move || write_at_intervals(file, interval)),
                Err(found) => log::warn!(
                    "{INTERVAL_VARIABLE}={found}: expected a number of seconds; metrics are written at the end only"
                ),
            }
        }
    });
}

/// Writes the last line of a communicator.
pub(super) fn finish(observed: &Observed) {
    // A copy of the process, made by `fork`, is no rank.
    if let Some(file) = metrics_file().filter(|_| observed.rank.process == std::process::id()) {
        write_metrics(file, observed);
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    if let Err(error) = threads::named(name).spawn(body) {
        log::warn!("cannot start the thread `{name}`: {error}");
    }
}

/// Writes dumps of all communicators when the process receives the signal that the environment names.
fn dump_on_signal() -> Result<(), String> {
    let expected = |found| format!("{SIGNAL_VARIABLE}={found}: expected USR1 or USR2");
    let Some(signal) = DumpSignal::from_env().map_err(expected)? else { return Ok(()) };
    let number = if signal == DumpSignal::Usr1 { SIGUSR1 } else { SIGUSR2 };
    // The handler writes to a pipe, from which the thread reads.
    let mut signals = Signals::new([number]).map_err(|error| error.to_string())?;
    spawn("mscclpp dumps", move || {
        for _ in signals.forever() {
            match folder() {
                Some(folder) => communicators().iter().for_each(|observed| observed.dump().write_to(&folder)),
                None => log::warn!("no dump was written: {FOLDER_VARIABLE} is not set"),
            }
        }
    });
    Ok(())
}

/// Returns the file for the metrics of this process.
fn metrics_file() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let path = PathBuf::from(std::env::var_os(METRICS_VARIABLE).filter(|path| !path.is_empty())?);
        let name = format!("mscclpp-metrics-{}.jsonl", std::process::id());
        Some(if path.is_dir() { path.join(name) } else { path })
    };
    FILE.get_or_init(find).as_deref()
}

fn write_at_intervals(file: &'static Path, interval: Duration) {
    loop {
        thread::sleep(interval.max(Duration::from_millis(10)));
        communicators().iter().for_each(|observed| write_metrics(file, observed));
    }
}

/// Appends a line. Several ranks may append to one file, because each line is written at once.
fn write_metrics(file: &Path, observed: &Observed) {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let rank = &observed.rank;
    let group = rank.group.as_ref().map(|group| &group.name);
    let identity =
        json!({ "time": time, "process": rank.process, "rank": rank.rank, "ranks": rank.num_ranks, "group": group });
    let mut line = identity;
    if let (Some(line), Ok(serde_json::Value::Object(metrics))) =
        (line.as_object_mut(), serde_json::to_value(observed.metrics()))
    {
        line.extend(metrics);
    }
    let append = || -> io::Result<()> {
        // Opening a pipe could wait for its reader.
        if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("expected a regular file or a folder"));
        }
        fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(format!("{line}\n").as_bytes())
    };
    if let Err(error) = append() {
        log::warn!("rank {} cannot write its metrics to {}: {error}", rank.rank, file.display());
    }
}
