//! Small messages.

use mscclpp_core::collective::CollectiveKind;

use super::{Verdict, size};
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::measure::{Outcome, microseconds};

pub(super) fn b1(bench: &Bench<'_>, baselines: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let mut worst = 0.0_f64;
    for &bytes in bench.sizes(&[1 << 10, 2 << 10, 4 << 10, 8 << 10]) {
        let request = bench.request(CollectiveKind::AllReduce, 8, bytes);
        let mut best = f64::INFINITY;
        for prepare in bench.ways() {
            let Some((subject, times)) = bench.fastest(&request, prepare)? else { continue };
            bench.say(format_args!("{:>8}: {:>8.2} us  {}", size(bytes), microseconds(times.graph), subject.name));
            best = best.min(microseconds(times.graph));
        }
        worst = worst.max(best);
    }
    let Some(Baselines { node_us, hop_us, .. }) = baselines else { return Ok(None) };
    let (must, bold) = (node_us + 4.0, (node_us + 2.0 * hop_us + 0.7).min(3.0));
    Ok(Some(Verdict {
        row: "B1",
        measured: format!("{worst:.2} us at most"),
        must: (format!("at most G + 4 us = {must:.2} us"), worst <= must),
        bold: (format!("at most G + 2 F + 0.7 us and 3 us = {bold:.2} us"), worst <= bold),
    }))
}
