//! `mscclpp machine measure`: a description of the CPU of this machine, with constants that are fitted to measured times of plans.

mod fit;
mod points;

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use mscclpp_predict::Machine;
use mscclpp_select::tuning::MachineInfo;
use serde_json::json;

use self::points::{Point, Points};
use crate::args::MachineMeasureArgs;
use crate::error::{Error, Result};
use crate::exit;
use crate::output::{print, print_json, write_file};
use crate::size::human;
use crate::table::Columns;

/// The constants that are fitted, with the values from which the search begins.
const START: [(&str, f64); 13] = [
    ("launch_us", 0.5),
    ("op_us", 0.05),
    ("sync_us", 0.01),
    ("signal_us", 0.05),
    ("packet_us", 0.05),
    ("load_us", 0.02),
    ("local_us", 0.02),
    ("block_put_gb_per_s", 10.0),
    ("block_get_gb_per_s", 10.0),
    ("block_local_gb_per_s", 20.0),
    ("block_packet_gb_per_s", 1.0),
    ("block_sum_gb_per_s", 5.0),
    ("memory_gb_per_s", 20.0),
];
/// Constants of the cache, which are fitted as well.
const CACHE: [(&str, f64); 2] = [("cache_mib", 8.0), ("cache_gb_per_s", 40.0)];

/// Mean relative error in percent up to which predictions are good, and the factor of the spread between runs.
const GOAL_PERCENT: f64 = 15.0;
const GOAL_SPREADS: f64 = 1.5;

/// Measures plans, fits the constants to one half of the times, and compares predictions with the other half.
///
/// # Errors
/// Those of runs and of the output.
pub(crate) fn measure(args: &MachineMeasureArgs) -> Result<ExitCode> {
    let points = Points::measure(args)?;
    let info = MachineInfo::current();
    let mut machine = describe(args, &info, &points)?;
    let keys: Vec<&str> = START.iter().chain(&CACHE).map(|(name, _)| *name).collect();
    fit::fit(&mut machine, &keys, |machine| points.cost(machine));
    let errors = points.errors(&machine, |point| point.is_held_out);
    let (mean, worst) = (100.0 * fit::mean(&errors), 100.0 * errors.iter().copied().fold(0.0, f64::max));
    let spread = 100.0 * points.spread();
    let text = file(&machine, &points, mean, worst);
    // What is written is what later commands read.
    let machine =
        Machine::parse(&text).map_err(|error| Error::Usage(format!("the description is invalid: {error}")))?;
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
        print_json(&json!({
            "name": machine.name, "ranks": machine.ranks, "workers": args.workers, "points": points.all.iter().map(point).collect::<Vec<_>>(),
            "spread_percent": spread, "mean_percent": mean, "worst_percent": worst, "limit_percent": limit,
        }))?;
    } else if args.output.is_none() {
        print(&text)?;
    } else {
        print(report(&machine, &points, [spread, mean, worst, limit]))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
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

/// Returns the text of a description up to its constants.
fn head(name: &str, description: &str, ranks: u32, processors: u32) -> String {
    format!(
        "name = \"{name}\"\ndescription = \"{description}\"\nranks = {ranks}\nranks_per_node = {ranks}\nmulticast = false\n\
         one_device = true\ncpu = true\nprocessors = {processors}\n\n[constant]\n"
    )
}

/// Returns a description before the fit.
fn describe(args: &MachineMeasureArgs, info: &MachineInfo, points: &Points) -> Result<Machine> {
    let (ranks, workers) = (args.ranks, args.workers);
    let threads = if workers == 1 { "one thread".to_owned() } else { format!("{workers} threads") };
    let printable: String = info.processor.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
    let description = format!("{ranks} ranks as tasks of {threads} on {printable}");
    let mut text = head(&args.name, &description, ranks, workers);
    let source = format!("fitted to {} times that were measured on this machine", points.all.len().div_ceil(2));
    for (name, value) in START.iter().chain(&CACHE) {
        _ = writeln!(text, "{name} = {{ value = {value}, source = \"{source}\", fitted = true }}");
    }
    text += "\n[blocks]\ndefault = 1\n";
    Machine::parse(&text).map_err(|error| Error::Usage(error.to_string()))
}

/// Returns the text of a description with its fitted constants and their error.
fn file(machine: &Machine, points: &Points, mean: f64, worst: f64) -> String {
    let mut text = head(&machine.name, &machine.description, machine.ranks, machine.processors.unwrap_or(1));
    for (name, constant) in &machine.constants.0 {
        let digits = (3.0 - constant.value.log10().floor()).clamp(0.0, 6.0) as usize;
        let source = &constant.source;
        _ = writeln!(text, "{name} = {{ value = {:.digits$}, source = \"{source}\", fitted = true }}", constant.value);
    }
    let held_out = points.all.iter().filter(|point| point.is_held_out).count();
    let usable = points.all.len();
    _ = write!(
        text,
        "\n[blocks]\ndefault = 1\n\n[accuracy]\nmean_percent = {mean:.1}\nworst_percent = {:.1}\nheld_out = {held_out}\nusable = {usable}\ndate = \"{}\"\n",
        worst.max(mean),
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
