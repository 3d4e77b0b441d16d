//! Data-parallel training with custom kernels (`data_parallel.cu`): each rank has a part of the samples, and the gradients are
//! averaged by an all-reduce between the kernels, on the same stream.
//!
//! ```console
//! cargo run --release --example data_parallel
//! mscclpp launch -n 4 -- target/release/examples/data_parallel
//! scripts/simulated-cuda.sh -n 4 -- target/release/examples/data_parallel
//! ```
//!
//! It prints the loss of every tenth step, and that training on all samples with one rank has the same losses. Without a device, or
//! without NVRTC, it prints the reason.

use mscclpp::prelude::*;
use mscclpp::runtime::cuda::jit::{Function, Source};
use mscclpp::runtime::cuda::{Device, DeviceVec, Stream};

/// As in `data_parallel.cu`.
const INPUTS: usize = 2;
const HIDDEN: usize = 8;
const PARAMETERS: usize = INPUTS * HIDDEN + 2 * HIDDEN + 1;

/// Samples of all ranks; a multiple of the number of ranks, so that the average of the ranks' averages is that of the samples.
const SAMPLES: usize = 48;
const STEPS: usize = 30;
const RATE: f32 = 0.05;

/// Relative difference of the losses: the samples are added in another order.
const TOLERANCE: f32 = 1e-4;

/// As in `data_parallel.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Step {
    inputs: u64,
    targets: u64,
    parameters: u64,
    hidden: u64,
    errors: u64,
    gradients: u64,
    samples: u32,
    rate: f32,
}

/// The kernels of a step, in their order; the gradients are averaged between the last two.
struct Kernels([Function; 3]);

fn main() -> mscclpp::Result<()> {
    examples_cuda::on_ranks(1, |comm| {
        let Some(device) = examples_cuda::device_with_compiler(comm) else { return Ok(()) };
        let module = device.module(&Source::new("data_parallel.cu", include_str!("data_parallel.cu")))?;
        let kernels = ["forward", "backward", "update"].map(|name| module.function(name));
        let [forward, backward, update] = kernels;
        let kernels = Kernels([forward?, backward?, update?]);

        let (rank, ranks) = (comm.rank() as usize, comm.num_ranks() as usize);
        assert!(SAMPLES.is_multiple_of(ranks), "{SAMPLES} samples for {ranks} ranks");
        let part = SAMPLES / ranks;
        let stream = device.stream()?;
        let losses = train(&kernels, &device, &stream, rank * part..(rank + 1) * part, Some(comm))?;
        let alone = train(&kernels, &device, &stream, 0..SAMPLES, None)?;
        for (step, (loss, expected)) in losses.iter().zip(&alone).enumerate() {
            assert!((loss - expected).abs() <= TOLERANCE * expected, "step {step}: {loss}, alone {expected}");
            if rank == 0 && (step % 10 == 0 || step + 1 == STEPS) {
                println!("step {step:>3}: loss {loss:.6}, with one rank {expected:.6}");
            }
        }
        assert!(losses[STEPS - 1] < losses[0] / 4.0, "it learns: {losses:?}");
        Ok(())
    })
}

/// Trains on some of the samples, with the gradients averaged over the ranks of a communicator if there is one. Returns the loss
/// of each step, on the samples of all ranks.
fn train(
    kernels: &Kernels,
    device: &Device,
    stream: &Stream,
    samples: std::ops::Range<usize>,
    comm: Option<&Communicator>,
) -> mscclpp::Result<Vec<f32>> {
    let inputs: Vec<f32> = samples.clone().flat_map(input).collect();
    let targets: Vec<f32> = samples.clone().map(target).collect();
    let mut parameters: Vec<f32> = (0..PARAMETERS).map(|at| ((at * 7 + 3) % 11) as f32 / 11.0 - 0.4).collect();
    parameters[PARAMETERS - 1] = 0.0;
    let inputs = DeviceVec::from_slice(device, &inputs)?;
    let targets = DeviceVec::from_slice(device, &targets)?;
    let parameters = DeviceVec::from_slice(device, &parameters)?;
    let hidden = DeviceVec::<f32>::new(device, samples.len() * HIDDEN)?;
    let errors = DeviceVec::<f32>::new(device, samples.len())?;
    // The loss is after the gradients, so that one call averages both.
    let mut gradients = match comm {
        Some(comm) => comm.on(stream).alloc::<f32>(PARAMETERS + 1)?,
        None => DeviceVec::new(device, PARAMETERS + 1)?,
    };
    let step = Step {
        inputs: inputs.as_slice().address,
        targets: targets.as_slice().address,
        parameters: parameters.as_slice().address,
        hidden: hidden.as_slice().address,
        errors: errors.as_slice().address,
        gradients: gradients.as_slice().address,
        samples: samples.len() as u32,
        rate: RATE,
    };
    let Kernels([forward, backward, update]) = kernels;
    let blocks = |threads: usize| threads.div_ceil(256) as u32;
    let mut losses = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        // SAFETY: the kernels take such a struct, and access only the memory above, which exists until the stream is
        // synchronized below; the all-reduce is enqueued on the same stream.
        unsafe {
            forward.launch(stream, blocks(samples.len()), 256, &step)?;
            backward.launch(stream, blocks(PARAMETERS + 1), 256, &step)?;
        }
        if let Some(comm) = comm {
            comm.on(stream).all_reduce_in_place(&mut gradients, ReduceOp::Avg)?;
        }
        // SAFETY: as above.
        unsafe { update.launch(stream, blocks(PARAMETERS), 256, &step)? };
        match comm {
            Some(comm) => comm.on(stream).synchronize()?,
            None => stream.synchronize()?,
        }
        losses.push(gradients.to_vec()?[PARAMETERS]);
    }
    Ok(losses)
}

/// Returns a sample's point in the square from -1 to 1.
fn input(sample: usize) -> [f32; INPUTS] {
    [(sample * 5 % 13) as f32 / 6.0 - 1.0, (sample * 3 % 17) as f32 / 8.0 - 1.0]
}

fn target(sample: usize) -> f32 {
    let [x, y] = input(sample);
    x.abs() + 0.5 * y
}
