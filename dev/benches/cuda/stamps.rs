//! Breakdown of the time of launches of small messages, by the device's clock, which the kernels of `stamps.cu` read
//! when their first thread block starts, when one first stores anything, and when the last one has finished. They are
//! compiled on request, and used on a separately opened device: the rows measure the usual kernels.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::jit::Source;
use mscclpp_exec::cuda::{Device, DeviceBuffer, PrepareOptions};
use mscclpp_exec::{AccumType, DataType};

use crate::bench::Bench;
use crate::calls::NAMES;
use crate::measure::{Outcome, median};

/// Number of launches whose stamps are kept, as in the source.
const LAUNCHES: usize = 64;

/// Rows of small messages: plans, and bytes of a rank's buffer.
const ROWS: [(&str, &[&str], &[u64]); 6] = [
    ("b1", &["allreduce_one_shot_packets", "allreduce_packets"], &[1 << 10, 2 << 10, 4 << 10, 8 << 10]),
    ("b4", &["allreduce_one_shot_packets", "allreduce_packets", "allreduce_all_pairs"], &[1 << 10, 4 << 10, 64 << 10]),
    ("b6", &NAMES, &[256 << 10]),
    ("b7", &NAMES, &[256 << 10]),
    ("b8", &["allreduce_packets"], &[4 << 10]),
    ("b11", &["allreduce_all_pairs"], &[1 << 10]),
];

/// Number of ranks of all of them.
const RANKS: u32 = 8;

/// Prints stamps of a row's plans, if it is one of small messages.
///
/// # Errors
/// Those of a device that is opened, and of launches; stamps that are not in order. A missing compiler is reported and
/// is no error.
pub(crate) fn say(bench: &Bench<'_>, row: &str) -> Outcome<()> {
    let Some((_, names, sizes)) = ROWS.iter().find(|(number, ..)| *number == row) else { return Ok(()) };
    if let Err(reason) = bench.device.compiler() {
        bench.say(format_args!("without stamps of the clock: {reason}"));
        return Ok(());
    }
    let (device, mut memory) = stamped(bench)?;
    let stamped = Bench { device: &device, ..Bench::new(&device, bench.fresh) };
    let stamped = Bench { quiet: bench.quiet, rehearsal: bench.rehearsal, ..stamped };
    bench.say(format_args!(
        "{:<40} {:>8} {:>12} {:>12} {:>12}   us by the device's clock, interpreted, in a graph; medians (least to most)",
        "stamps", "bytes", "to store", "to finish", "to next"
    ));
    for name in *names {
        for &bytes in bench.sizes(sizes) {
            let mut subject = stamped.usual(
                &bench.request(CollectiveKind::AllReduce, RANKS, bytes),
                name,
                PrepareOptions::default(),
            )?;
            subject.measure(&stamped)?;
            let stream = device.stream()?;
            let graph = subject.graph(&stream, if bench.rehearsal { 3 } else { LAUNCHES })?;
            // Repeated after a launch that loads everything that is loaded lazily.
            for _ in 0..2 {
                memory.write(bytemuck::cast_slice(&[[u64::MAX, u64::MAX, 0]; LAUNCHES]))?;
                // SAFETY: the subject exists until the stream is complete.
                unsafe { graph.launch(&stream)? };
                subject.run.synchronize(&stream)?;
            }
            let mut found = [[0_u64; 3]; LAUNCHES];
            memory.read(bytemuck::cast_slice_mut(&mut found))?;
            bench.say(format_args!("{:<40} {bytes:>8} {}", subject.name, summary(&found)?));
        }
    }
    Ok(())
}

/// Opens a device with such kernels for f32, and allocates the memory of their stamps.
fn stamped(bench: &Bench<'_>) -> Outcome<(Device, DeviceBuffer)> {
    let device = (bench.fresh)()?;
    let source = Source::new("stamps.cu", include_str!("stamps.cu"));
    let source = source.define("MSCCLPP_T", "float").define("MSCCLPP_A", "float");
    let set_stamps = device.module(&source)?.function("set_stamps")?;
    let memory = DeviceBuffer::new(&device, size_of::<[[u64; 3]; LAUNCHES]>() as u64)?;
    let stream = device.stream()?;
    // SAFETY: the kernel takes an address; no pending work on the device uses it.
    unsafe { set_stamps.launch(&stream, 1, 1, &memory.as_slice().address)? };
    stream.synchronize()?;
    // SAFETY: the interpreter's kernels, which in addition access stamps; the caller uses the device only while it has
    // these.
    unsafe { device.replace_kernels(DataType::F32, AccumType::Native, &source)? };
    Ok((device, memory))
}

/// Summarizes the times from the first thread block's start to the first store, from there to the finish, and from
/// there to the next launch's start.
pub(crate) fn summary(stamps: &[[u64; 3]]) -> Outcome<String> {
    let mut launches: Vec<[u64; 3]> = stamps.iter().copied().filter(|[.., finish]| *finish != 0).collect();
    launches.sort_unstable();
    if launches.is_empty() || launches.iter().any(|[start, store, finish]| start > store || store > finish) {
        return Err(format!("stamps that are not in order: {launches:?}").into());
    }
    let us = |from: u64, to: u64| (to as f64 - from as f64) / 1e3;
    let steps: [Vec<f64>; 3] = [
        launches.iter().map(|[start, store, _]| us(*start, *store)).collect(),
        launches.iter().map(|[_, store, finish]| us(*store, *finish)).collect(),
        launches.windows(2).map(|two| us(two[0][2], two[1][0])).collect(),
    ];
    let texts = steps.map(|mut step| match step.is_empty() {
        true => format!("{:>12}", "-"),
        false => {
            let middle = median(&mut step);
            format!("{middle:>12.2} ({:.2} to {:.2})", step[0], step[step.len() - 1])
        }
    });
    Ok(texts.join(" "))
}
