//! Targets for one device, by their numbers: each is measured together with the best times of the device, and reported
//! as reached or not. These are numbers of one device's memory, not of links between devices.

mod bandwidth;
mod calls;
mod counts;
mod latency;
mod norms;
mod peers;
mod races;
mod stalls;

use std::fmt;

use crate::baselines::{self, Baselines};
use crate::bench::Bench;
use crate::measure::Outcome;
use crate::stamps;

/// A measurement, and whether it reaches its targets.
pub(crate) struct Verdict {
    row: &'static str,
    measured: String,
    /// The requirement, as text, and whether it is met.
    must: (String, bool),
    /// The aim, as text, and whether it is met.
    bold: (String, bool),
}

/// A target: its number, its subject, and its measurement. `None`: it cannot be measured, and the reason was reported.
type Row = (&'static str, &'static str, fn(&Bench<'_>, Option<&Baselines>) -> Outcome<Option<Verdict>>);

pub(crate) const ROWS: [Row; 14] = [
    ("b1", "all-reduce of 1 to 8 KiB, 8 ranks", latency::b1),
    ("b2", "all-reduce of 64 MiB and 1 GiB, 8 ranks", bandwidth::b2),
    ("b3", "all-gather, reduce-scatter, all-to-all of 256 MiB, 4 and 8 ranks", bandwidth::b3),
    ("b4", "the interpreter beside a kernel written by hand, 1 KiB to 1 GiB", peers::b4),
    ("b5", "the specialized kernel beside the interpreter", peers::b5),
    ("b6", "what an eager call costs the host", calls::b6),
    ("b7", "first call, and call of another size", calls::b7),
    ("b8", "kernels loaded before the first collective", calls::b8),
    ("b9", "PyTorch on the same buffers, 8 ranks, 256 MiB", peers::b9),
    ("b10", "thread blocks for 90 % of the bandwidth bound", bandwidth::b10),
    ("b11", "how soon a stuck wait is reported", stalls::b11),
    ("b12", "races that the checker finds, on the device", races::b12),
    ("b13", "all-reduce and norm of rows in one launch, 8 ranks", norms::b13),
    ("b14", "all-to-all with counts on the device, 8 ranks", counts::b14),
];

/// Measures some rows in this order, given by their numbers, in one run. Each verdict is printed when it is available,
/// and once more below all rows; an error ends only its row. Returns the rows of which there is a verdict.
///
/// # Errors
/// The first error of a row, after the last row; those of the baselines.
pub(crate) fn run(bench: &Bench<'_>, wanted: &[&str]) -> Outcome<Vec<&'static str>> {
    let baselines = baselines::or_reason(baselines::measure(bench))?;
    match &baselines {
        Ok(baselines) => bench.say(format_args!("{baselines}")),
        Err(reason) => bench.say(format_args!("without what the device can do at best: {reason}")),
    }
    let (mut verdicts, mut failed) = (Vec::new(), None);
    for (number, what, measure) in wanted.iter().filter_map(|wanted| ROWS.iter().find(|(row, ..)| row == wanted)) {
        bench.say(format_args!("\n{} {what}", number.to_uppercase()));
        match measure(bench, baselines.as_ref().ok()) {
            Ok(Some(verdict)) => {
                bench.say(&verdict);
                verdicts.push(verdict);
            }
            Ok(None) => bench.say(format_args!("{}: no verdict", number.to_uppercase())),
            Err(error) => {
                bench.say(format_args!("{} FAILED: {error}", number.to_uppercase()));
                failed.get_or_insert(error);
            }
        }
        if let Err(error) = stamps::say(bench, number) {
            bench.say(format_args!("stamps of the clock FAILED: {error}"));
            failed.get_or_insert(error);
        }
    }
    bench.say(format_args!("\n{:<5} {:<9} {:<9} measured; must; aimed at", "row", "must", "aimed at"));
    verdicts.iter().for_each(|verdict| bench.say(verdict));
    match failed {
        Some(error) => Err(error),
        None => Ok(verdicts.iter().map(|verdict| verdict.row).collect()),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, measured, must, bold } = self;
        let said = |is: bool| if is { "reached" } else { "MISSED" };
        write!(f, "{row:<5} {:<9} {:<9} {measured}; {}; {}", said(must.1), said(bold.1), must.0, bold.0)
    }
}

/// Formats a number of bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}
