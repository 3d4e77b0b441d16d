//! What `mscclpp bench` prints of a call on the CPU.

use mscclpp_communicator::tune::Measurement;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;
use mscclpp_select::Request;
use serde_json::json;

use crate::bandwidth::{bus_factor, gigabytes_per_second};
use crate::report::three_digits;

/// A measured call.
pub(super) struct Measured<'a> {
    pub(super) call: &'a str,
    pub(super) bytes: u64,
    pub(super) ranks: u32,
    /// Whether the ranks are tasks of this process.
    pub(super) virtually: bool,
    pub(super) dtype: DataType,
    pub(super) op: Option<ReduceOp>,
    pub(super) in_place: bool,
    pub(super) registered: bool,
    /// The name of the plan, of a call that has one.
    pub(super) plan: Option<&'a str>,
    /// Ratio of bus bandwidth to algorithm bandwidth.
    pub(super) bus_factor: f64,
}

impl<'a> Measured<'a> {
    pub(super) fn new(request: &Request, plan: Option<&'a str>) -> Self {
        Self {
            call: request.collective.name(),
            bytes: request.bytes,
            ranks: request.num_ranks,
            virtually: request.virtual_ranks,
            dtype: request.dtype,
            op: request.op,
            in_place: request.in_place,
            registered: request.registered,
            plan,
            bus_factor: bus_factor(request.collective, request.num_ranks),
        }
    }

    pub(super) fn header(&self) -> String {
        let line = |[size, time, algbw, busbw, wrong, plan]: [&str; 6]| {
            format!("#{size:>14} {time:>11} {algbw:>8} {busbw:>8} {wrong:>8}  {plan}").trim_end().to_owned()
        };
        format!(
            "# {}: {} {}{}, {}, {} buffers, {}{}\n{}\n{}\n",
            self.call,
            self.ranks,
            if self.virtually { "virtual " } else { "" },
            if self.ranks == 1 { "rank" } else { "ranks" },
            if self.in_place { "in place" } else { "out of place" },
            self.buffers(),
            self.dtype,
            self.op.map_or_else(String::new, |op| format!(", {op}")),
            line(["size", "time", "algbw", "busbw", "#wrong", "plan"]),
            line(["(B)", "(us)", "(GB/s)", "(GB/s)", "", ""]),
        )
    }

    pub(super) fn buffers(&self) -> &'static str {
        if self.registered { "registered" } else { "unregistered" }
    }

    fn bandwidths(&self, measured: &Measurement) -> (f64, f64) {
        let algbw = gigabytes_per_second(self.bytes, measured.slowest);
        (algbw, algbw * self.bus_factor)
    }

    pub(super) fn row(&self, measured: &Measurement) -> String {
        let (algbw, busbw) = self.bandwidths(measured);
        format!(
            "{:>15} {:>11} {:>8} {:>8} {:>8}  {}\n",
            self.bytes,
            three_digits(measured.slowest.as_secs_f64() * 1e6),
            three_digits(algbw),
            three_digits(busbw),
            measured.wrong.map_or_else(|| "-".to_owned(), |wrong| wrong.to_string()),
            self.plan.unwrap_or("-"),
        )
    }

    pub(super) fn line(&self, measured: &Measurement) -> String {
        let (algbw, busbw) = self.bandwidths(measured);
        let value = json!({
            "collective": self.call,
            "bytes": self.bytes,
            "ranks": self.ranks,
            "virtual": self.virtually,
            "dtype": self.dtype.name(),
            "op": self.op.map(|op| op.name()),
            "in_place": self.in_place,
            "buffers": self.buffers(),
            "plan": self.plan,
            "time_us": measured.slowest.as_secs_f64() * 1e6,
            "algbw_gbs": algbw,
            "busbw_gbs": busbw,
            "wrong": measured.wrong,
        });
        format!("{value}\n")
    }
}
