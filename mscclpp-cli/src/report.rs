//! Report of a run: the columns of nccl-tests, or JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bandwidth::gigabytes_per_second;

/// Properties that all rows of a run share.
#[derive(Debug)]
pub(crate) struct Header {
    /// Name of the plan.
    pub(crate) plan: String,
    /// Name of the collective.
    pub(crate) collective: &'static str,
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// Backend that ran the plan: `CPU` or `CUDA`.
    pub(crate) executor: &'static str,
    /// Whether input and output were one buffer.
    pub(crate) in_place: bool,
    /// Type of the elements.
    pub(crate) dtype: &'static str,
    /// The reduction; `none` if nothing is reduced.
    pub(crate) op: &'static str,
    /// The type in which an operation combines its sources.
    pub(crate) accumulate: &'static str,
    /// The root, if the collective has one.
    pub(crate) root: Option<u32>,
    /// Timed launches per size.
    pub(crate) iters: u32,
    /// Launches before them.
    pub(crate) warmup: u32,
    /// Seed of the inputs.
    pub(crate) seed: u64,
    /// Bus bandwidth over algorithm bandwidth.
    pub(crate) bus_factor: f64,
}

/// One size.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Bytes of the larger of a rank's input and output.
    pub(crate) bytes: u64,
    /// Elements of the larger of a rank's input and output.
    pub(crate) count: u64,
    /// Mean time of a launch.
    pub(crate) mean: Duration,
    /// Shortest time of a launch.
    pub(crate) min: Duration,
    /// Wrong elements over all ranks; `None` if there is no expected result.
    pub(crate) wrong: Option<u64>,
}

impl Row {
    /// Returns whether no element is known to be wrong.
    pub(crate) fn is_right(&self) -> bool {
        self.wrong.unwrap_or(0) == 0
    }
}

impl Header {
    /// Formats the lines above the rows.
    pub(crate) fn text(&self) -> String {
        let accumulated = match self.accumulate {
            "native" => String::new(),
            other => format!(", reductions in {other}"),
        };
        let mut text = format!(
            "# {}: {}, {} {}, {}, {} executor{}, {} warm-up and {} timed {}, seed {}\n#\n",
            self.plan,
            self.collective,
            self.ranks,
            if self.ranks == 1 { "rank" } else { "ranks" },
            if self.in_place { "in place" } else { "out of place" },
            self.executor,
            accumulated,
            self.warmup,
            self.iters,
            if self.iters == 1 { "launch" } else { "launches" },
            self.seed,
        );
        let line = |cells: [&str; 9]| {
            let [size, count, dtype, op, root, time, algbw, busbw, wrong] = cells;
            format!(
                "#{size:>14} {count:>14} {dtype:>8} {op:>7} {root:>5} {time:>11} {algbw:>8} {busbw:>8} {wrong:>12}\n"
            )
        };
        text += &line(["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"]);
        text += line(["(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", ""]).trim_end();
        text.push('\n');
        text
    }

    /// Formats one row.
    pub(crate) fn row(&self, row: &Row) -> String {
        let root = self.root.map_or(-1, i64::from);
        let wrong = row.wrong.map_or_else(|| "not verified".into(), |wrong| wrong.to_string());
        let (algbw, busbw) = self.bandwidths(row);
        format!(
            "{:>15} {:>14} {:>8} {:>7} {:>5} {:>11} {:>8} {:>8} {:>12}\n",
            row.bytes,
            row.count,
            self.dtype,
            self.op,
            root,
            three_digits(row.mean.as_secs_f64() * 1e6),
            three_digits(algbw),
            three_digits(busbw),
            wrong
        )
    }

    /// Formats the lines below the rows; `failed` if the run ended before its last row.
    pub(crate) fn closing(&self, rows: &[Row], failed: bool) -> String {
        let mut text = String::new();
        let wrong: u64 = rows.iter().filter_map(|row| row.wrong).fold(0, u64::saturating_add);
        let unverified = rows.iter().any(|row| row.wrong.is_none());
        let _ = match (wrong, unverified) {
            (0, _) if failed => writeln!(text, "# Wrong elements    : unknown, the run did not finish FAILED"),
            (0, false) => writeln!(text, "# Wrong elements    : 0 OK"),
            (0, true) => writeln!(text, "# Wrong elements    : not verified, the plan has no expectations"),
            (wrong, _) => writeln!(text, "# Wrong elements    : {wrong} FAILED"),
        };
        let _ = writeln!(text, "# Avg bus bandwidth : {} GB/s", three_digits(self.average(rows)));
        text
    }

    /// Formats everything as JSON. `failure` is the error that ended the run before its last row.
    pub(crate) fn json(&self, rows: &[Row], failure: Option<Value>) -> Value {
        let values: Vec<_> = rows.iter().map(|row| self.row_json(row)).collect();
        let verified = !rows.is_empty() && rows.iter().all(|row| row.wrong.is_some());
        let right = rows.iter().all(Row::is_right);
        json!({
            "plan": self.plan,
            "collective": self.collective,
            "ranks": self.ranks,
            "in_place": self.in_place,
            "executor": self.executor.to_ascii_lowercase(),
            "dtype": self.dtype,
            "redop": self.op,
            "accumulate": self.accumulate,
            "root": self.root,
            "warmup": self.warmup,
            "iters": self.iters,
            "seed": self.seed,
            "rows": values,
            "avg_busbw_gbps": self.average(rows),
            "verified": verified,
            "ok": right && failure.is_none(),
            "failure": failure,
        })
    }

    fn row_json(&self, row: &Row) -> Value {
        let (algbw, busbw) = self.bandwidths(row);
        json!({
            "size": row.bytes,
            "count": row.count,
            "time_us": row.mean.as_secs_f64() * 1e6,
            "min_time_us": row.min.as_secs_f64() * 1e6,
            "algbw_gbps": algbw,
            "busbw_gbps": busbw,
            "wrong": row.wrong,
        })
    }

    fn bandwidths(&self, row: &Row) -> (f64, f64) {
        let algbw = gigabytes_per_second(row.bytes, row.mean);
        (algbw, algbw * self.bus_factor)
    }

    /// Returns the mean bus bandwidth over the rows; 0 without any.
    fn average(&self, rows: &[Row]) -> f64 {
        // An empty `sum` would be -0.
        rows.iter().fold(0.0, |sum, row| sum + self.bandwidths(row).1) / rows.len().max(1) as f64
    }
}

/// Formats a number with as many decimals as three significant digits need, at least none and at most three.
pub(crate) fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        v if v < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Backend;

    fn header() -> Header {
        Header {
            plan: "ring".into(),
            collective: "allreduce",
            ranks: 8,
            executor: "CPU",
            in_place: false,
            dtype: "f32",
            op: "sum",
            accumulate: "native",
            root: None,
            iters: 5,
            warmup: 1,
            seed: 0,
            bus_factor: 1.75,
        }
    }

    fn row(wrong: Option<u64>) -> Row {
        Row {
            bytes: 1 << 20,
            count: 1 << 18,
            mean: Duration::from_micros(1000),
            min: Duration::from_micros(900),
            wrong,
        }
    }

    #[test]
    fn the_table_has_the_columns_of_nccl_tests() {
        assert_eq!(
            header().text() + &header().row(&row(Some(0))) + &header().closing(&[row(Some(0))], false),
            "\
# ring: allreduce, 8 ranks, out of place, CPU executor, 1 warm-up and 5 timed launches, seed 0
#
#          size          count     type   redop  root        time    algbw    busbw       #wrong
#           (B)     (elements)                               (us)   (GB/s)   (GB/s)
        1048576         262144      f32     sum    -1        1000    1.049    1.835            0
# Wrong elements    : 0 OK
# Avg bus bandwidth : 1.835 GB/s
"
        );
    }

    #[test]
    fn wrong_and_unverified_rows_are_marked() {
        let header = header();
        assert!(header.row(&row(Some(3))).ends_with(" 3\n"));
        assert!(header.closing(&[row(Some(3)), row(Some(4))], false).contains("7 FAILED"));
        assert!(header.row(&row(None)).ends_with(" not verified\n"));
        assert!(header.closing(&[row(None)], false).contains("not verified"));
        assert!(header.closing(&[row(Some(0))], true).contains("did not finish"));
    }

    #[test]
    fn json_names_the_executor() {
        for executor in [Backend::Cpu, Backend::Cuda] {
            let header = Header { executor: executor.name(), ..header() };
            assert_eq!(header.json(&[], None)["executor"], executor.name().to_lowercase());
        }
    }

    #[test]
    fn json_is_ok_only_when_all_is_right() {
        let header = header();
        let ok = header.json(&[row(Some(0))], None);
        assert_eq!((&ok["ok"], &ok["verified"], &ok["rows"][0]["wrong"]), (&json!(true), &json!(true), &json!(0)));
        assert_eq!(header.json(&[row(Some(1))], None)["ok"], false);
        assert_eq!(header.json(&[row(None)], None)["verified"], false);
        assert_eq!(header.json(&[], Some(json!("stalled")))["ok"], false);
        assert_eq!(header.json(&[], None)["avg_busbw_gbps"].to_string(), "0.0");
    }
}
