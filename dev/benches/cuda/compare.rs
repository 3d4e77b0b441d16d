//! Compares the interpreter and the specialized kernel with a hand-written kernel.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::{PrepareOptions, Stream};
use mscclpp_select::Request;

use crate::bench::{Bench, is_of_memory};
use crate::hand_written::HandWritten;
use crate::measure::{Outcome, mean, microseconds};

const RANKS: u32 = 8;

/// Hand-written kernel, its algorithm in the library, and the sizes that it supports.
const ALGORITHMS: [(&str, &str, &[u64]); 3] = [
    ("one_shot", "allreduce_one_shot_packets", &[1 << 10, 4 << 10, 16 << 10, 64 << 10]),
    ("packets", "allreduce_packets", &[1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]),
    (
        "all_pairs",
        "allreduce_all_pairs",
        &[1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30],
    ),
];

/// Microseconds in a graph of one size.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) bytes: u64,
    pub(crate) by_hand: f64,
    pub(crate) interpreted: f64,
    pub(crate) specialized: f64,
}

/// Measures all sizes, once; `None` if there is no compiler, which is reported.
pub(crate) fn lines<'a>(bench: &'a Bench<'_>) -> Outcome<Option<&'a [Line]>> {
    if let Err(reason) = bench.device.compiler() {
        bench.say(format_args!("hand-written and specialized kernels: skipped: {reason}"));
        return Ok(None);
    }
    if let Some(lines) = bench.compared.get() {
        bench.say(format_args!("(as above)"));
        return Ok(Some(lines));
    }
    bench.say(format_args!(
        "{RANKS} ranks, f32 sums in place, microseconds in a graph; shares are of the hand-written kernel's time"
    ));
    bench.say(format_args!(
        "{:<28} {:>11} {:>6} {:>8} {:>9} {:>12} {:>6} {:>12} {:>6} {:>10}",
        "plan", "bytes", "blocks", "threads", "by hand", "interpreted", "", "specialized", "", "of interp."
    ));
    let mut all = Vec::new();
    for (kernel, name, sizes) in ALGORITHMS.into_iter().filter(|(_, name, _)| bench.is_wanted(name)) {
        for &bytes in bench.sizes(sizes) {
            match line(bench, kernel, name, bytes) {
                Err(error) if error.downcast_ref().is_some_and(is_of_memory) => {
                    bench.say(format_args!("{name:<28} {bytes:>11} skipped: {error}"));
                }
                line => all.push(line?),
            }
        }
    }
    Ok(Some(bench.compared.get_or_init(|| all)))
}

fn line(bench: &Bench<'_>, kernel: &str, name: &str, bytes: u64) -> Outcome<Line> {
    let request = Request { in_place: true, ..bench.request(CollectiveKind::AllReduce, RANKS, bytes) };
    let mut times = [0.0; 2];
    let mut facts = (0, 0);
    for (time, specialize) in times.iter_mut().zip([false, true]) {
        let mut subject = bench.usual(&request, name, PrepareOptions::default().specialize(specialize))?;
        if let (true, Err(reason)) = (specialize, subject.run.specialized()) {
            return Err(format!("{name}: not specialized: {reason}").into());
        }
        facts = (subject.run.num_blocks(), subject.run.threads_per_block());
        *time = microseconds(subject.measure(bench)?.graph);
    }
    let [interpreted, specialized] = times;
    let (blocks, threads) = facts;
    let mut by_hand = HandWritten::new(bench.device, kernel, RANKS, bytes, blocks, threads)?;
    by_hand.check(bench.device, 0)?;
    let time = microseconds(bench.times(|stream| by_hand.launch(stream), Stream::synchronize)?.graph);
    by_hand.check(bench.device, 1)?;
    bench.say(format_args!(
        "{name:<28} {bytes:>11} {blocks:>6} {threads:>8} {time:>9.2} {interpreted:>12.2} {:>6.2} {specialized:>12.2} {:>6.2} {:>10.2}",
        interpreted / time,
        specialized / time,
        interpreted / specialized
    ));
    Ok(Line { bytes, by_hand: time, interpreted, specialized })
}

pub(crate) fn run(bench: &Bench<'_>) -> Outcome<()> {
    bench.say("");
    let Some(lines) = lines(bench)? else { return Ok(()) };
    for (what, time) in
        [("interpreted", (|line| line.interpreted) as fn(&Line) -> f64), ("specialized", |line| line.specialized)]
    {
        let shares = || lines.iter().map(|line| time(line) / line.by_hand);
        let worst = shares().fold(0.0, f64::max);
        bench.say(format_args!(
            "{what}: {:+.1} % on average, {:+.1} % at worst",
            100.0 * (mean(shares()) - 1.0),
            100.0 * (worst - 1.0)
        ));
    }
    Ok(())
}
