//! What `mscclpp bench` prints of a call on devices.

use std::time::Duration;

use mscclpp_exec::cuda::LaunchTimes;
use serde_json::json;

use super::report::Measured;
use crate::bandwidth::gigabytes_per_second;
use crate::report::three_digits;

/// A measured call on devices.
pub(super) struct MeasuredOnDevices<'a> {
    pub(super) call: Measured<'a>,
    /// The name of the first device.
    pub(super) device: Option<&'a str>,
    pub(super) num_devices: usize,
    pub(super) specialized: bool,
    /// Thread blocks of each rank, of a call with a plan.
    pub(super) blocks: Option<u32>,
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl MeasuredOnDevices<'_> {
    /// The header, for ranks and devices that are described so.
    pub(super) fn header(&self, ranks: &str) -> String {
        let Measured { call, in_place, dtype, op, .. } = self.call;
        let line = |[size, time, eager, host, algbw, busbw, wrong, blocks, plan]: [&str; 9]| {
            let times = format!("#{size:>14} {time:>11} {eager:>11} {host:>9}");
            format!("{times} {algbw:>8} {busbw:>8} {wrong:>8} {blocks:>7}  {plan}").trim_end().to_owned()
        };
        format!(
            "# {call}: {ranks}, {}, {dtype}{}\n{}\n{}\n",
            if in_place { "in place" } else { "out of place" },
            op.map_or_else(String::new, |op| format!(", {op}")),
            line(["size", "time", "eager", "host", "algbw", "busbw", "#wrong", "blocks", "plan"]),
            line(["(B)", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "", ""]),
        )
    }

    fn bandwidths(&self, times: &LaunchTimes) -> (f64, f64) {
        let algbw = gigabytes_per_second(self.call.bytes, times.graph);
        (algbw, algbw * self.call.bus_factor)
    }

    pub(super) fn row(&self, times: &LaunchTimes, wrong: Option<u64>) -> String {
        let (algbw, busbw) = self.bandwidths(times);
        let shown = |time| three_digits(microseconds(time));
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        format!(
            "{:>15} {:>11} {:>11} {:>9} {:>8} {:>8} {:>8} {:>7}  {}{}\n",
            self.call.bytes,
            shown(times.graph),
            shown(times.eager),
            shown(times.host),
            three_digits(algbw),
            three_digits(busbw),
            number(wrong),
            number(self.blocks.map(u64::from)),
            self.call.plan.unwrap_or("-"),
            if self.specialized { ", specialized" } else { "" },
        )
    }

    pub(super) fn line(&self, times: &LaunchTimes, wrong: Option<u64>) -> String {
        let (algbw, busbw) = self.bandwidths(times);
        let Measured { call, bytes, ranks, dtype, op, in_place, plan, .. } = self.call;
        let value = json!({
            "backend": "cuda",
            "device": self.device,
            "gpus": self.num_devices,
            "collective": call,
            "bytes": bytes,
            "ranks": ranks,
            "dtype": dtype.name(),
            "op": op.map(|op| op.name()),
            "in_place": in_place,
            "buffers": self.call.buffers(),
            "plan": plan,
            "specialized": self.specialized,
            "blocks": self.blocks,
            "time_us": microseconds(times.graph),
            "eager_us": microseconds(times.eager),
            "host_us": microseconds(times.host),
            "algbw_gbs": algbw,
            "busbw_gbs": busbw,
            "wrong": wrong,
        });
        format!("{value}\n")
    }
}
