//! `mscclpp machine measure`: a description of the CPU or the devices of this machine, with measured constants and the error of predictions.

mod cpu;
mod device;
mod fit;
mod points;
mod probes;

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use mscclpp_predict::{Machine, MachineError};
use serde_json::json;

use self::points::{Point, Points};
use crate::args::{Backend, MachineMeasureArgs};
use crate::error::{Error, Result};
use crate::exit;
use crate::output::{print, print_json, write_file};
use crate::size::human;
use crate::table::Columns;

/// Mean relative error in percent up to which predictions are good, and the factor of the spread between runs.
const GOAL_PERCENT: f64 = 15.0;
const GOAL_SPREADS: f64 = 1.5;

/// What is between constants and numbers of thread blocks in a description.
const BLOCKS_HEAD: &str = "\n[blocks]\n";

/// Describes the CPU or the devices of this machine.
///
/// # Errors
/// Those of runs and of the output.
pub(crate) fn measure(args: &MachineMeasureArgs) -> Result<ExitCode> {
    match args.backend {
        Backend::Cpu => cpu::measure(args),
        Backend::Cuda => device::measure(args),
    }
}

/// A description without the error of its predictions, and the times from which that follows.
struct Described {
    text: String,
    points: Points,
    /// Number of CUDA devices.
    devices: Option<u32>,
}

impl Described {
    /// Adds the error of predictions, and writes the description and what was measured.
    fn report(self, args: &MachineMeasureArgs) -> Result<ExitCode> {
        let Self { text, points, devices } = self;
        // What is written is what later commands read.
        let machine = Machine::parse(&text).map_err(invalid)?;
        let errors = points.errors(&machine, |point| point.is_held_out);
        let (mean, worst) = (100.0 * fit::mean(&errors), 100.0 * errors.iter().copied().fold(0.0, f64::max));
        let spread = 100.0 * points.spread();
        let text = text + &accuracy(&points, mean, worst);
        Machine::parse(&text).map_err(invalid)?;
        if let Some(path) = &args.output {
            write_file(path, text.as_bytes())?;
        }
        let limit = GOAL_PERCENT.max(GOAL_SPREADS * spread);
        if args.json {
            let point = |point: &Point| {
                json!({
                    "plan": point.plan, "bytes": point.bytes, "time_us": point.us, "again_us": point.again_us,
                    "predicted_us": points.predict(&machine, point), "held_out": point.is_held_out,
                })
            };
            let workers = devices.is_none().then_some(args.workers);
            print_json(&json!({
                "name": machine.name, "ranks": machine.ranks, "workers": workers, "devices": devices,
                "points": points.all.iter().map(point).collect::<Vec<_>>(),
                "spread_percent": spread, "mean_percent": mean, "worst_percent": worst, "limit_percent": limit,
            }))?;
        } else if args.output.is_none() {
            print(&text)?;
        } else {
            print(report(&machine, &points, [spread, mean, worst, limit]))?;
        }
        Ok(ExitCode::from(exit::SUCCESS))
    }
}

/// Returns the sizes from a first to a last one, each the given number of times the one before it.
fn sizes((first, last): (u64, u64), factor: u64) -> Vec<u64> {
    let all = std::iter::successors(Some(first.max(1)), |size| size.checked_mul(factor));
    all.take_while(|size| *size <= last).collect()
}

/// Returns a name of hardware as descriptions may have it.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect()
}

/// The least and the largest value that a description may have; those that were measured beyond are noise.
const VALUES: (f64, f64) = (1e-6, 1e6);

/// Returns the line of a constant.
fn constant(name: &str, value: f64, source: &str, fitted: bool) -> String {
    let value = value.clamp(VALUES.0, VALUES.1);
    let digits = (3.0 - value.log10().floor()).clamp(0.0, 6.0) as usize;
    let fitted = if fitted { ", fitted = true" } else { "" };
    format!("{name} = {{ value = {value:.digits$}, source = \"{source}\"{fitted} }}\n")
}

/// Returns the error of a description that was composed here.
fn invalid(error: MachineError) -> Error {
    Error::Usage(format!("the description is invalid: {error}; measure again, or other sizes"))
}

/// Returns the report of a fit: by algorithm the mean error of all its points, then what they have together.
fn report(machine: &Machine, points: &Points, [spread, mean, worst, limit]: [f64; 4]) -> String {
    let mut table = Columns::new(&["plan", ">points", ">smallest", ">largest", ">mean error"]);
    for (name, own) in points.by_plan() {
        let errors = points.errors(machine, |point| point.plan == name);
        table.row([
            name.to_owned(),
            own.len().to_string(),
            human(own.iter().map(|point| point.bytes).min().unwrap_or(0)),
            human(own.iter().map(|point| point.bytes).max().unwrap_or(0)),
            format!("{:.1} %", 100.0 * fit::mean(&errors)),
        ]);
    }
    let held_out = points.all.iter().filter(|point| point.is_held_out).count();
    let is_good = if mean <= limit { "within" } else { "above" };
    format!(
        "{}\n\n{} points; times of two runs differ by {spread:.1} %\nover {held_out} points that the constants were not fitted to: mean error \
         {mean:.1} %, worst {worst:.1} %; {is_good} {limit:.1} %, the larger of {GOAL_PERCENT} % and {GOAL_SPREADS} times the difference of runs\n",
        table.text(),
        points.all.len(),
    )
}

/// Returns the section of a description that states the error of predictions.
fn accuracy(points: &Points, mean: f64, worst: f64) -> String {
    let held_out = points.all.iter().filter(|point| point.is_held_out).count();
    let mut text = String::new();
    _ = write!(
        text,
        "\n[accuracy]\nmean_percent = {mean:.1}\nworst_percent = {:.1}\nheld_out = {held_out}\nusable = {}\ndate = \"{}\"\n",
        worst.max(mean),
        points.all.len(),
        today()
    );
    text
}

/// Returns the date, in UTC.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut year, mut day) = (1970, seconds / 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while month < 11 && day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, day + 1)
}
