//! Large messages: fractions of the bound by the memory's bandwidth. A copy of a byte counts twice, for its read and
//! its write.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::PrepareOptions;

use super::{Verdict, size};
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::measure::{Outcome, microseconds};

/// Returns the microseconds that a collective needs if it reads and writes every byte of all ranks' buffers once.
fn bound(collective: CollectiveKind, ranks: u32, bytes: u64, baselines: &Baselines) -> f64 {
    let (ranks, bytes) = (f64::from(ranks), bytes as f64);
    let moved = match collective {
        // On each rank one buffer is a fraction of the size of the other.
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => (1.0 + ranks) * bytes,
        _ => 2.0 * ranks * bytes,
    };
    moved / baselines.copy_gbs / 1e3
}

/// Returns the fraction of the bound that the fastest plan reaches; `None` if none supports the request.
fn share(
    bench: &Bench<'_>,
    (collective, ranks, bytes): (CollectiveKind, u32, u64),
    baselines: Option<&Baselines>,
) -> Outcome<Option<f64>> {
    let request = bench.request(collective, ranks, bytes);
    let mut best: Option<f64> = None;
    for prepare in bench.ways() {
        let Some((subject, times)) = bench.fastest(&request, prepare)? else { continue };
        let time = microseconds(times.graph);
        let share = baselines.map(|baselines| bound(collective, ranks, bytes, baselines) / time);
        bench.say(format_args!(
            "{:<14} {ranks} ranks {:>8}: {time:>10.1} us {:>8.1} GB/s {:>6}  {}",
            collective.name(),
            size(bytes),
            bytes as f64 / time / 1e3,
            share.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share)),
            subject.name
        ));
        best = share.into_iter().chain(best).reduce(f64::max);
    }
    Ok(best)
}

fn verdict(row: &'static str, shares: &[f64], bold: f64) -> Option<Verdict> {
    let worst = shares.iter().copied().reduce(f64::min)?;
    Some(Verdict {
        row,
        measured: format!("{:.1} % of the bound at least", 100.0 * worst),
        must: ("at least 80 %".into(), worst >= 0.8),
        bold: (format!("at least {:.0} %", 100.0 * bold), worst >= bold),
    })
}

pub(super) fn b2(bench: &Bench<'_>, baselines: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let mut shares = Vec::new();
    for &bytes in bench.sizes(&[64 << 20, 1 << 30]) {
        shares.extend(share(bench, (CollectiveKind::AllReduce, 8, bytes), baselines)?);
    }
    Ok(verdict("B2", &shares, 0.93))
}

pub(super) fn b3(bench: &Bench<'_>, baselines: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let mut shares = Vec::new();
    for collective in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllToAll] {
        for ranks in [4, 8] {
            for &bytes in bench.sizes(&[256 << 20]) {
                shares.extend(share(bench, (collective, ranks, bytes), baselines)?);
            }
        }
    }
    Ok(verdict("B3", &shares, 0.92))
}

/// Measures with as many multiprocessors as thread blocks, but not more than there are.
pub(super) fn b10(bench: &Bench<'_>, baselines: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let bytes = bench.sizes(&[64 << 20])[0];
    let request = bench.request(CollectiveKind::AllReduce, 8, bytes);
    let specialize = bench.device.compiler().is_ok();
    let mut all = Vec::new();
    for choice in bench.choices(&request) {
        let Some(mut subject) = bench.subject(&request, &choice, PrepareOptions::default().specialize(specialize))?
        else {
            continue;
        };
        let blocks = subject.run.num_blocks().min(bench.device.properties().multiprocessors);
        all.push((blocks, subject.quickly(bench)?, choice, subject.name));
    }
    let Some(baselines) = baselines else { return Ok(None) };
    let limit = bound(CollectiveKind::AllReduce, 8, bytes, baselines);
    all.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).unwrap_or(std::cmp::Ordering::Equal));
    // The smallest number that a quick measurement finds sufficient and a full one confirms.
    for (blocks, quick, choice, name) in &all {
        bench.say(format_args!("{blocks:>4} multiprocessors: {:>6.1} %  {name}", 100.0 * limit / quick));
        // Maximum error of a quick measurement.
        if limit / quick < 0.88 {
            continue;
        }
        let Some(mut subject) = bench.subject(&request, choice, PrepareOptions::default().specialize(specialize))?
        else {
            continue;
        };
        let share = limit / microseconds(subject.measure(bench)?.graph);
        if share >= 0.9 {
            return Ok(Some(Verdict {
                row: "B10",
                measured: format!("{blocks} multiprocessors, {:.1} %, {name}", 100.0 * share),
                must: ("at most 64".into(), *blocks <= 64),
                bold: ("at most 32".into(), *blocks <= 32),
            }));
        }
    }
    let best = all.iter().map(|(_, quick, ..)| limit / quick).fold(0.0, f64::max);
    Ok(Some(Verdict {
        row: "B10",
        measured: format!("none reaches 90 %, the best {:.1} %", 100.0 * best),
        must: ("at most 64 multiprocessors".into(), false),
        bold: ("at most 32".into(), false),
    }))
}
