//! Comparison with kernels that users would write.

use std::process::Command;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::PrepareOptions;

use super::Verdict;
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::compare::{self, Line};
use crate::measure::{Outcome, mean, microseconds};

/// Returns the mean and the largest of the ratios of two times.
fn summary(lines: &[Line], ratio: impl Fn(&Line) -> f64) -> (f64, f64) {
    let all: Vec<f64> = lines.iter().map(ratio).collect();
    (mean(all.iter().copied()), all.iter().copied().fold(0.0, f64::max))
}

pub(super) fn b4(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let Some(lines) = compare::lines(bench)?.filter(|lines| !lines.is_empty()) else { return Ok(None) };
    let (mean, worst) = summary(lines, |line| line.interpreted / line.by_hand);
    let faster = lines.iter().filter(|line| line.interpreted < line.by_hand).count();
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    Ok(Some(Verdict {
        row: "B4",
        measured: format!(
            "{:+.1} % on average, {:+.1} % at worst, {faster} sizes faster",
            percent(mean),
            percent(worst)
        ),
        must: ("at most 3 % and 10 %".into(), mean <= 1.03 && worst <= 1.10),
        bold: ("at most 1 % and 3 %, and some faster".into(), mean <= 1.01 && worst <= 1.03 && faster > 0),
    }))
}

pub(super) fn b5(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let Some(lines) = compare::lines(bench)?.filter(|lines| !lines.is_empty()) else { return Ok(None) };
    let [small, large]: [Vec<Line>; 2] = [
        lines.iter().filter(|line| line.bytes <= 64 << 10).cloned().collect(),
        lines.iter().filter(|line| line.bytes >= 16 << 20).cloned().collect(),
    ];
    let (gain, _) = summary(&small, |line| line.interpreted / line.specialized);
    let (_, loss) = summary(&large, |line| line.specialized / line.interpreted);
    let loss_of_large = match large.is_empty() {
        true => "no sizes from 16 MiB on".into(),
        false => format!("{loss:.3} of the interpreter's time at worst from 16 MiB on"),
    };
    Ok(Some(Verdict {
        row: "B5",
        measured: format!("{gain:.2} x up to 64 KiB, {loss_of_large}"),
        must: ("at least 1.15 x".into(), gain >= 1.15),
        // The difference between repeated runs.
        bold: ("at least 1.4 x, and no loss".into(), gain >= 1.4 && loss <= 1.01),
    }))
}

pub(super) fn b9(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    const RANKS: u32 = 8;
    let bytes = bench.sizes(&[256 << 20])[0];
    let request = bench.request(CollectiveKind::AllReduce, RANKS, bytes);
    let specialize = bench.device.compiler().is_ok();
    let Some((subject, times)) = bench.fastest(&request, PrepareOptions::default().specialize(specialize))? else {
        return Ok(None);
    };
    let ours = microseconds(times.graph);
    bench.say(format_args!("{ours:>10.1} us  {}", subject.name));
    drop(subject);
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(&python);
    command.args(["-c", include_str!("../stacked_sum.py"), &RANKS.to_string(), &bytes.to_string()]);
    let output = command.output().map_err(|error| format!("{python}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(theirs) = text.trim().parse::<f64>().ok().filter(|_| output.status.success()) else {
        let why = String::from_utf8_lossy(&output.stderr);
        bench.say(format_args!("PyTorch: skipped: {}", why.lines().last().unwrap_or("it said nothing")));
        return Ok(None);
    };
    bench.say(format_args!("{theirs:>10.1} us  PyTorch"));
    let ratio = theirs / ours;
    Ok(Some(Verdict {
        row: "B9",
        measured: format!("{ratio:.2} x"),
        must: ("at least 1.1 x".into(), ratio >= 1.1),
        bold: ("at least 1.4 x".into(), ratio >= 1.4),
    }))
}
