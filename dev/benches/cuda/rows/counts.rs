//! All-to-alls whose sizes are counts on the device, beside the one of fixed sizes: at the largest counts and at smaller ones.

use std::cell::RefCell;

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::{DeviceCounts, DeviceVec, Executor, PrepareOptions, Stream};
use mscclpp_exec::{DataType, Message};

use super::{Verdict, size};
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::measure::{Outcome, microseconds};

const RANKS: usize = 8;
const COUNTED: [&str; 2] = ["alltoallv_direct", "alltoallv_pull"];

/// What ranks send: a name, and the elements from one rank to another, of at most `most`.
type Table = (&'static str, fn(usize, usize, i64) -> i64);

/// At the largest counts; an eighth of them but for one rank; half of them; nothing.
const TABLES: [Table; 4] = [
    ("full", |_, _, most| most),
    ("8:1", |from, to, most| if (from + to) % RANKS == 1 { most } else { most / 8 }),
    ("half", |_, _, most| most / 2),
    ("zero", |_, _, _| 0),
];

pub(super) fn b14(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let mut worst = 0.0_f64;
    for &bytes in bench.sizes(&[64 << 10, 1 << 20, 16 << 20, 256 << 20]) {
        let prepare = PrepareOptions::default().specialize(bench.device.compiler().is_ok());
        let at = |bytes: u64| -> Outcome<f64> {
            let request = bench.request(CollectiveKind::AllToAll, RANKS as u32, bytes);
            Ok(microseconds(bench.usual(&request, "alltoall_direct", prepare)?.measure(bench)?.graph))
        };
        let fixed = at(bytes)?;
        for (table, count) in TABLES {
            let (name, took) = counted(bench, bytes, count, prepare)?;
            let most = bytes as i64 / 4 / RANKS as i64;
            let sent: i64 = (0..RANKS).map(|to| count(0, to, most)).sum();
            // A fixed plan for exactly these bytes; none where parts differ, or there are none.
            let exact = if table == "half" { Some(at(sent as u64 * 4)?) } else { None };
            let exact = exact.map_or_else(String::new, |exact| format!(", {exact:.2} us at exact size"));
            bench.say(format_args!(
                "{:>8} {table:<5}: {took:>9.2} us ({name}); fixed {fixed:>9.2} us{exact}",
                size(bytes)
            ));
            if table == "full" {
                worst = worst.max(took / fixed);
            }
        }
    }
    Ok(Some(Verdict {
        row: "B14",
        measured: format!("{worst:.2} of the time of the fixed plan at most"),
        must: ("at most 2".into(), worst <= 2.0),
        bold: ("at most 1.2".into(), worst <= 1.2),
    }))
}

/// Returns the fastest counted plan for a table, whose results are compared, and its time.
fn counted(
    bench: &Bench<'_>,
    bytes: u64,
    count: impl Fn(usize, usize, i64) -> i64,
    prepare: PrepareOptions,
) -> Outcome<(&'static str, f64)> {
    let most = bytes as i64 / 4 / RANKS as i64;
    let len = RANKS * most as usize;
    let element = |from: usize, to: usize, k: i64| (from * RANKS + to) as u32 * 1_000_003 + k as u32;
    let mut best: Option<(&'static str, f64)> = None;
    for name in COUNTED {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let plan = algorithm.plan(algorithm.spec(RANKS as u32, RANKS as u32), &[])?;
        let world = Executor::new(bench.device, RANKS as u32);
        let run = world.prepare_with_options(&plan, Message::new(DataType::U32, len as u64), prepare)?;
        let parts = |from: usize, to: usize| (0..count(from, to, most)).map(move |k| element(from, to, k));
        let filled = |mut values: Vec<u32>| {
            values.resize(len, 0);
            DeviceVec::from_slice(bench.device, &values)
        };
        let inputs = (0..RANKS).map(|rank| filled((0..RANKS).flat_map(|to| parts(rank, to)).collect()));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let outputs = (0..RANKS).map(|_| filled(Vec::new())).collect::<Result<Vec<_>, _>>()?;
        let row = |rank: usize| (0..RANKS).map(|to| count(rank, to, most)).collect::<Vec<_>>();
        let sent = (0..RANKS).map(|rank| DeviceVec::<i64>::from_slice(bench.device, &row(rank)));
        let sent = sent.collect::<Result<Vec<_>, _>>()?;
        let received = (0..RANKS).map(|_| DeviceVec::<i64>::new(bench.device, RANKS)).collect::<Result<Vec<_>, _>>()?;
        let binding =
            run.bind(inputs.iter().zip(&outputs).map(|(input, output)| [input.as_slice(), output.as_slice()]))?;
        let list = |(sent, received): (&DeviceVec<i64>, &DeviceVec<i64>)| DeviceCounts {
            sent: sent.as_slice(),
            received: received.as_slice(),
            dtype: DataType::I64,
            unit: 1,
        };
        let counts: Vec<_> = sent.iter().zip(&received).map(list).collect();
        let run = RefCell::new(run);
        // SAFETY: memory of the device, which lives until the last launch is complete.
        let launch = |stream: &Stream| unsafe { run.borrow_mut().launch_counted(&binding, &counts, stream) };
        let times = bench.times(launch, |stream| run.borrow().synchronize(stream))?;
        for (rank, output) in outputs.iter().enumerate() {
            let mut expected: Vec<u32> = (0..RANKS).flat_map(|from| parts(from, rank)).collect();
            expected.resize(len, 0);
            if output.to_vec()? != expected {
                return Err(format!("{name}: the output of rank {rank} is wrong").into());
            }
        }
        let took = microseconds(times.graph);
        if best.is_none_or(|(_, best)| took < best) {
            best = Some((name, took));
        }
    }
    best.ok_or_else(|| "no counted plan fits".into())
}
