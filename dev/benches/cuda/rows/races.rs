//! Races that the checker finds, on the device: measures whether launches of plans with such a bug produce wrong
//! results.

use std::time::Duration;

use mscclpp_algorithms as algorithms;
use mscclpp_core::check::Checks;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::{
    Plan,
    raw::{Op, OpKind, PlanTree},
};
use mscclpp_exec::cuda::{Executor, Options};
use mscclpp_exec::verify::PeriodicInputs;
use mscclpp_exec::{DataType, Error, Message};

use super::Verdict;
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::measure::Outcome;

const RANKS: u32 = 4;

/// The rank that has the bug.
const AT: usize = 1;

/// Plans in which bugs are injected.
const PLANS: [&str; 6] = [
    "allreduce_all_pairs",
    "allreduce_ring",
    "allgather_all_pairs",
    "allgather_ring",
    "reducescatter_all_pairs",
    "alltoall_direct",
];

/// Injected bugs: the first wait of a rank is moved to the end of its thread block, or the first block sync is removed.
/// All signals are still consumed, so no launch stalls.
const BUGS: [OpKind; 3] = [OpKind::Wait, OpKind::RelaxedWait, OpKind::Nop];

/// Injects a bug in the first operation of a kind; returns whether there is one.
fn plant(ops: &mut Vec<Op>, kind: OpKind) -> bool {
    if let Some(at) = ops.iter().position(|op| op.kind == kind) {
        let op = ops.remove(at);
        if kind != OpKind::Nop {
            ops.push(op);
        }
        return true;
    }
    ops.iter_mut().filter_map(|op| op.body.as_mut()).any(|body| plant(&mut body.ops, kind))
}

/// Returns the number of the first launch with wrong elements, and how many there are.
fn first_wrong(bench: &Bench<'_>, tree: &PlanTree) -> Outcome<Option<(u64, u64)>> {
    let (count, launches) = if bench.rehearsal { (8 * 16, 2) } else { (1 << 16, 50) };
    let options = Options::default().timeout(Duration::from_secs(5));
    let world = Executor::with_options(bench.device, RANKS, options);
    let message = Message::new(DataType::F32, count).any_size();
    let mut run = world.prepare(&Plan::new(tree), message)?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    let op = run.reduction();
    let cycles: Vec<PeriodicInputs> =
        (0..RANKS).map(|rank| PeriodicInputs::new(run.collective(), message.dtype, op, RANKS, rank)).collect();
    for launch in 1..=launches {
        for (rank, cycle) in (0..).zip(&cycles) {
            let mut input = vec![0; buffers.input(rank).bytes as usize];
            cycle.fill(launch, &mut input);
            buffers.write_input(rank, &input)?;
        }
        run.launch_buffers(&mut buffers, &stream)?;
        run.synchronize(&stream)?;
        let mut wrong = 0;
        for (rank, cycle) in (0..).zip(&cycles) {
            let mut output = vec![0; buffers.output(rank).bytes as usize];
            buffers.read_output(rank, &mut output)?;
            wrong += cycle.count_wrong(launch, &output);
        }
        if wrong > 0 {
            return Ok(Some((launch, wrong)));
        }
    }
    Ok(None)
}

pub(super) fn b12(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let (mut races, mut seen) = (0, 0);
    for name in PLANS {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let right = algorithm.compile_tree(algorithm.spec(RANKS, RANKS), &algorithm.arguments([])?)?;
        match first_wrong(bench, &right) {
            Ok(None) => {}
            Ok(Some((launch, wrong))) => {
                return Err(format!("{name} as it is: {wrong} elements are wrong in launch {launch}").into());
            }
            Err(error) => match error.downcast_ref() {
                Some(Error::NotCoResident { .. }) => {
                    bench.say(format_args!("{name}: skipped: {error}"));
                    continue;
                }
                _ => return Err(error),
            },
        }
        for kind in BUGS {
            let mut tree = right.clone();
            if !tree.ranks[AT].blocks.iter_mut().any(|block| plant(&mut block.ops, kind)) {
                continue;
            }
            let findings = Checks::default().run(&tree);
            let codes: Vec<Code> = findings.iter().map(|finding| finding.code).collect();
            let bug = format!("{name} with a {} astray", kind.name());
            if codes.is_empty() {
                bench.say(format_args!("{bug}: accepted by the checker, as another operation orders the same"));
                continue;
            }
            races += 1;
            let said = match first_wrong(bench, &tree) {
                Ok(Some((launch, wrong))) => {
                    seen += 1;
                    format!("{wrong} elements are wrong in launch {launch}")
                }
                Ok(None) => "not seen".into(),
                Err(error) => match error.downcast_ref() {
                    Some(Error::Stalled(_)) => "stalled".into(),
                    _ => return Err(error),
                },
            };
            bench.say(format_args!("{bug}: refused ({:?}); {said}", codes[0]));
        }
    }
    Ok(Some(Verdict {
        row: "B12",
        measured: format!("{seen} of {races} plans that the checker refuses give wrong results, and no right one does"),
        must: ("some, and clean under the sanitizers, which `scripts/gpu.sh` has as parts".into(), seen > 0),
        bold: ("all".into(), seen == races),
    }))
}
