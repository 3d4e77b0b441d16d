//! Memory and streams of other libraries: cudarc's slices, its streams, and graphs that it captures from them.

use cudarc::driver::{CudaContext, CudaSlice, sys};
use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{DeviceSlice, Executor, Stream};
use mscclpp_exec::{DataType, Error, Message};

use super::{Rig, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new("streams::of_cudarc", of_cudarc).that_calls_cuda()]
}

/// Every rank's input.
fn input(rank: u64, round: u64) -> Vec<f32> {
    (0..100).map(|at| (at + 1000 * rank + 7 * round) as f32).collect()
}

/// Launches on cudarc's slices in the order of its stream, eagerly and in a graph that it captures.
fn of_cudarc(Rig { device, .. }: &Rig) -> Result<(), Failed> {
    let context = CudaContext::new(device.ordinal() as usize)?;
    let theirs = context.new_stream()?;
    // SAFETY: a stream of the primary context, which exists until the end.
    let stream = unsafe { Stream::from_raw(device, theirs.cu_stream() as usize) };
    let algorithm = algorithms::find("allreduce_packets").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(2, 2);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let mut run = Executor::new(device, 2).prepare(&plan, Message::new(DataType::F32, 100).any_size())?;
    let mut inputs: Vec<CudaSlice<f32>> =
        (0..2).map(|rank| theirs.clone_htod(&input(rank, 0))).collect::<Result<_, _>>()?;
    let outputs: Vec<CudaSlice<f32>> = (0..2).map(|_| theirs.alloc_zeros(100)).collect::<Result<_, _>>()?;
    let slices: Vec<[DeviceSlice; 2]> = inputs
        .iter()
        .zip(&outputs)
        .map(|(input, output)| [input, output].map(|slice| DeviceSlice::of_cudarc(slice, &theirs)))
        .collect();
    assert!(slices.iter().flatten().all(|slice| slice.bytes == 400), "{slices:?}");
    // SAFETY: the slices exist until their last launch is complete.
    let mut launch = || unsafe { run.launch(slices.iter().copied(), &stream) };
    theirs.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let recorded = launch();
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = theirs.end_capture(flags)?.ok_or("nothing was captured")?;
    recorded?;
    for round in 1..6 {
        for (rank, slice) in (0..).zip(&mut inputs) {
            theirs.memcpy_htod(&input(rank, round), slice)?;
        }
        if round % 2 == 1 {
            graph.launch()?
        } else {
            launch()?
        }
        for output in &outputs {
            let found = theirs.clone_dtoh(output)?;
            theirs.synchronize()?;
            let expected: Vec<f32> = (0..100).map(|at| (2 * at + 1000 + 14 * round) as f32).collect();
            if found != expected {
                return Err(format!("round {round}: {found:?}").into());
            }
        }
    }
    // A call that cannot be captured returns a typed error in a capture of cudarc's as well.
    theirs.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let refused = stream.synchronize();
    let spoilt = theirs.end_capture(flags).map(drop);
    match (refused, spoilt) {
        (Err(Error::Capturing { .. }), Err(_)) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}
