//! Best times of the device, measured in the same run as the results that are compared with them.

use std::time::Duration;

use cudarc::driver::CudaContext;
use cudarc::driver::result::memcpy_dtod_async;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::jit::{Function, Module, Source};
use mscclpp_exec::cuda::{Device, DeviceBuffer, Stream};

use crate::bench::Bench;
use crate::measure::{Outcome, median, microseconds};

/// Times of an empty kernel and of a signal, and the rate of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baselines {
    /// L: host time of the launch of an empty kernel.
    pub(crate) launch_us: f64,
    /// G: time of an empty kernel in a graph.
    pub(crate) node_us: f64,
    /// C: bytes read and written per second, in GB/s.
    pub(crate) copy_gbs: f64,
    /// F: time from a store on one multiprocessor until another one reads it.
    pub(crate) hop_us: f64,
}

#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Hops {
    words: u64,
    before: u64,
    rounds: u64,
}

#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    vectors: u64,
}

#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Nothing {
    word: u64,
}

/// Measures all four.
///
/// # Errors
/// [`Error::Jit`] without a compiler at run time.
pub(crate) fn measure(bench: &Bench<'_>) -> Outcome<Baselines> {
    let module = bench.device.module(&Source::new("baselines.cu", include_str!("baselines.cu")))?;
    let (launch_us, node_us) = empty(bench, &module.function("nothing")?)?;
    let copy_gbs = copy(bench, &module)?;
    Ok(Baselines { launch_us, node_us, copy_gbs, hop_us: hop(bench, &module)? })
}

/// Measures an empty kernel with as many blocks and threads as the executor uses for eight ranks.
fn empty(bench: &Bench<'_>, nothing: &Function) -> Outcome<(f64, f64)> {
    let times = bench.times(
        // SAFETY: the kernel takes such a struct, and reads and writes nothing.
        |stream| unsafe { nothing.launch(stream, 64, 1024, &Nothing { word: 0 }) },
        Stream::synchronize,
    )?;
    Ok((microseconds(times.host), microseconds(times.graph)))
}

fn hop(bench: &Bench<'_>, module: &Module) -> Outcome<f64> {
    let kernel = module.function("hops")?;
    let (words, stream) = (DeviceBuffer::new(bench.device, 256)?, bench.device.stream()?);
    let rounds = if bench.rehearsal { 10 } else { 10_000 };
    let mut times = Vec::new();
    for turn in 0..10 {
        let hops = Hops { words: words.as_slice().address, before: turn * rounds, rounds };
        let begin = stream.event()?;
        // SAFETY: the kernel takes such a struct; the words exist until the stream is complete, and two blocks are
        // co-resident.
        unsafe { kernel.launch(&stream, 2, 32, &hops)? };
        let end = stream.event()?;
        stream.synchronize()?;
        times.push(end.microseconds_since(&begin)? / (2 * rounds) as f64);
    }
    let mut found = [0; 256];
    words.read(&mut found)?;
    let counted = 10 * rounds;
    match [0, 128].iter().all(|&at| found[at..at + 8] == counted.to_le_bytes()) {
        true => Ok(median(&mut times)),
        false => Err(format!("hops: counted {:?}, expected {counted}", &found[..8]).into()),
    }
}

/// Measures the better one of a kernel and the driver's own copy, of 1 GiB.
fn copy(bench: &Bench<'_>, module: &Module) -> Outcome<f64> {
    let kernel = module.function("copy")?;
    let bytes: u64 = if bench.rehearsal { 1 << 12 } else { 1 << 30 };
    let mut from = DeviceBuffer::new(bench.device, bytes)?;
    let to = DeviceBuffer::new(bench.device, bytes)?;
    let data: Vec<u8> = (0..bytes).map(|at| (at ^ at >> 8 ^ at >> 17) as u8).collect();
    from.write(&data)?;
    let argument = Copy { to: to.as_slice().address, from: from.as_slice().address, vectors: bytes / 16 };
    let mut best = Duration::MAX;
    for each in [1, 2] {
        let blocks = each * bench.device.properties().multiprocessors;
        // SAFETY: the kernel takes such a struct, and the memory exists until the stream is complete.
        let launch = |stream: &Stream| unsafe { kernel.launch(stream, blocks, 1024, &argument) };
        best = best.min(bench.times(launch, Stream::synchronize)?.graph);
    }
    let mut found = vec![0; bytes as usize];
    to.read(&mut found)?;
    if found != data {
        return Err("the copy differs".into());
    }
    if !bench.rehearsal {
        best = best.min(driver_copy(bench.device, &argument)?);
    }
    Ok(2.0 * bytes as f64 / best.as_secs_f64() / 1e9)
}

/// Measures consecutive calls of `cuMemcpyDtoDAsync`.
fn driver_copy(device: &Device, copy: &Copy) -> Outcome<Duration> {
    const EACH: u32 = 10;
    let theirs = CudaContext::new(device.ordinal() as usize)?.new_stream()?;
    // SAFETY: a stream of the primary context, which exists until the end.
    let stream = unsafe { Stream::from_raw(device, theirs.cu_stream() as usize) };
    let mut best = Duration::MAX;
    for _ in 0..9 {
        let begin = stream.event()?;
        for _ in 0..EACH {
            // SAFETY: memory of the device, which exists until the stream is complete.
            unsafe { memcpy_dtod_async(copy.to, copy.from, 16 * copy.vectors as usize, theirs.cu_stream())? };
        }
        let end = stream.event()?;
        stream.synchronize()?;
        best = best.min(Duration::from_secs_f64(end.microseconds_since(&begin)? / 1e6 / f64::from(EACH)));
    }
    Ok(best)
}

impl std::fmt::Display for Baselines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { launch_us, node_us, copy_gbs, hop_us } = self;
        write!(
            f,
            "L {launch_us:.2} us (launch of an empty kernel, on the host), G {node_us:.2} us (the same in a graph), \
             C {copy_gbs:.0} GB/s (copy, bytes read and written), F {hop_us:.3} us (a flag through the L2 cache)"
        )
    }
}

/// Converts the error for a missing compiler to a reason, and returns any other error.
pub(crate) fn or_reason(measured: Outcome<Baselines>) -> Outcome<Result<Baselines, String>> {
    match measured {
        Ok(baselines) => Ok(Ok(baselines)),
        Err(error) => match error.downcast_ref::<Error>() {
            Some(Error::Jit(reason)) => Ok(Err(reason.to_string())),
            _ => Err(error),
        },
    }
}
