//! An all-reduce as a custom CUDA kernel (`native_allreduce.cu`), in a registry together with those of the library.
//!
//! `cargo run --release --example native_allreduce`. Without a device, or without NVRTC to compile the kernel, it
//! reports the reason and lets the registry select a plan for the CPU.

use mscclpp::algorithms::BufferMode;
use mscclpp::prelude::*;
use mscclpp::runtime::cuda::jit::{Function, Source};
use mscclpp::runtime::cuda::native::{NativeAlgorithm, NativeError};
use mscclpp::runtime::cuda::{Device, DeviceBuffer, DeviceSlice, Executor as CudaWorld, Stream};
use mscclpp::runtime::select::{Algorithm, Backend, Registry, Request};

const RANKS: u32 = 8;
const COUNT: usize = 100_003;

/// All data is in the kernel's argument, so nothing depends on a request.
struct OneKernel;

/// As in `native_allreduce.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Ranks {
    inputs: [u64; 16],
    outputs: [u64; 16],
    bytes: u64,
    ranks: u64,
}

impl NativeAlgorithm for OneKernel {
    type Kernels = Function;
    type Context = ();

    fn init(&self, world: &CudaWorld) -> Result<Function, NativeError> {
        let [device] = world.devices() else { return Err("its ranks share one device".into()) };
        let source = Source::new("native_allreduce.cu", include_str!("native_allreduce.cu"));
        Ok(device.module(&source)?.function("native_allreduce")?)
    }

    fn context(&self, _: &Function, _: &CudaWorld, _: &Request, _: &[[DeviceSlice; 2]]) -> Result<(), NativeError> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        kernel: &Function,
        _: &mut (),
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError> {
        let mut all = Ranks { inputs: [0; 16], outputs: [0; 16], bytes: ranks[0][0].bytes, ranks: ranks.len() as u64 };
        for (rank, [input, output]) in ranks.iter().enumerate() {
            (all.inputs[rank], all.outputs[rank]) = (input.address, output.address);
        }
        let blocks = all.bytes.div_ceil(16 * 512).clamp(1, 1024) as u32;
        // SAFETY: the kernel takes such a struct, and accesses only the caller's memory.
        unsafe { Ok(kernel.launch(stream, blocks, 512, &all)?) }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::builtin();
    let ours = Algorithm::kernels("native_allreduce", CollectiveKind::AllReduce, OneKernel);
    registry.add(ours.with_constraints(|limits| {
        limits.dtypes = Some(vec![DataType::F32]);
        limits.ops = Some(vec![ReduceOp::Sum]);
        limits.num_ranks = 1..=16;
        limits.buffer_mode = BufferMode::OutOfPlace;
    }))?;
    let inputs: Vec<Vec<f32>> =
        (0..RANKS).map(|rank| (0..COUNT).map(|i| (rank as usize + i % 7) as f32).collect()).collect();
    let bytes = (COUNT * size_of::<f32>()) as u64;
    let on_cuda =
        Request { backend: Backend::Cuda, ..Request::new(CollectiveKind::AllReduce, RANKS, DataType::F32, bytes) };
    let outputs = match on_device(&registry, &on_cuda, &inputs) {
        Ok(outputs) => outputs,
        Err(reason) => {
            println!("not on a device: {reason}\n");
            on_cpu(&registry, &Request { backend: Backend::Cpu, ..on_cuda }, &inputs)?
        }
    };
    let expected = |i: usize| (0..RANKS).map(|rank| (rank as usize + i % 7) as f32).sum::<f32>();
    let wrong = outputs.iter().flat_map(|output| (0..COUNT).filter(|&i| output[i] != expected(i))).count();
    println!("{} ranks, {COUNT} elements each, {wrong} wrong", outputs.len());
    assert_eq!(wrong, 0);
    Ok(())
}

fn on_device(
    registry: &Registry,
    request: &Request,
    inputs: &[Vec<f32>],
) -> Result<Vec<Vec<f32>>, Box<dyn std::error::Error>> {
    let device = Device::new(0)?;
    let decision = registry.select(request)?;
    println!("{request}: `{}`, since {}", decision.algorithm.name(), decision.decided_by);
    let world = CudaWorld::new(&device, RANKS);
    let mut run = decision.algorithm.prepare_on(&world, request)?;
    let mut buffers = Vec::new();
    for input in inputs {
        let [mut from, to] = run.lengths().map(|bytes| DeviceBuffer::new(&device, bytes));
        from.as_mut().map_err(|error| error.clone())?.write(bytemuck::cast_slice(input))?;
        buffers.push([from?, to?]);
    }
    let slices: Vec<_> = buffers.iter().map(|[from, to]| [from.as_slice(), to.as_slice()]).collect();
    let stream = device.stream()?;
    // SAFETY: memory of the device that exists until the stream is complete.
    unsafe { run.launch(&slices, &stream)? };
    stream.synchronize()?;
    let mut outputs = vec![vec![0_f32; COUNT]; inputs.len()];
    for (output, [_, to]) in outputs.iter_mut().zip(&buffers) {
        to.read(bytemuck::cast_slice_mut(output))?;
    }
    Ok(outputs)
}

fn on_cpu(
    registry: &Registry,
    request: &Request,
    inputs: &[Vec<f32>],
) -> Result<Vec<Vec<f32>>, Box<dyn std::error::Error>> {
    let decision = registry.select(request)?;
    println!("{request}: `{}`, since {}", decision.algorithm.name(), decision.decided_by);
    let mut outputs = vec![vec![0_f32; COUNT]; inputs.len()];
    Executor::new(RANKS).run(&registry.plan(request, &decision)?, inputs, &mut outputs)?;
    Ok(outputs)
}
