//! Custom kernels, in a registry and on an executor: those of the example.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::Failed;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::DataType;
use mscclpp_exec::cuda::jit::{Function, Source};
use mscclpp_exec::cuda::native::{NativeAlgorithm, NativeError};
use mscclpp_exec::cuda::{DeviceBuffer, DeviceSlice, Executor, Stream};
use mscclpp_exec::select::{Algorithm, Backend, Registry, Request};

use super::{Rig, Test};
use crate::hand_written::HandWritten;

pub(crate) fn tests() -> Vec<Test> {
    let tests = [
        Test::new("native::the_example_sums", the_example_sums),
        Test::new("native::compile_error_is_reported", compile_error_is_reported),
        Test::new("native::unsupported_request_is_rejected", unsupported_request_is_rejected),
        Test::new("native::benchmark_kernels_are_correct", benchmark_kernels_are_correct),
    ];
    tests.map(Test::that_compiles).into()
}

/// The example's kernel, with counts of the calls of its functions.
struct Counted {
    text: &'static str,
    calls: Arc<[AtomicU32; 2]>,
}

/// As in the source.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Ranks {
    inputs: [u64; 16],
    outputs: [u64; 16],
    bytes: u64,
    ranks: u64,
}

impl NativeAlgorithm for Counted {
    type Kernels = Function;
    type Context = u32;

    fn init(&self, world: &Executor) -> Result<Function, NativeError> {
        self.calls[0].fetch_add(1, Ordering::Relaxed);
        Ok(world.devices()[0].module(&Source::new("sum.cu", self.text))?.function("native_allreduce")?)
    }

    fn context(&self, _: &Function, _: &Executor, request: &Request) -> Result<u32, NativeError> {
        self.calls[1].fetch_add(1, Ordering::Relaxed);
        Ok(request.bytes.div_ceil(1024).max(1) as u32)
    }

    unsafe fn launch(
        &self,
        kernel: &Function,
        blocks: &mut u32,
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError> {
        let mut all = Ranks { inputs: [0; 16], outputs: [0; 16], bytes: ranks[0][0].bytes, ranks: ranks.len() as u64 };
        for (rank, [input, output]) in ranks.iter().enumerate() {
            (all.inputs[rank], all.outputs[rank]) = (input.address, output.address);
        }
        // SAFETY: the kernel takes such a struct, and accesses only the caller's memory.
        unsafe { Ok(kernel.launch(stream, *blocks, 512, &all)?) }
    }
}

const EXAMPLE: &str = include_str!("../../../examples/native_allreduce.cu");

type Calls = Arc<[AtomicU32; 2]>;

fn registry(text: &'static str) -> Result<(Registry, Calls), Failed> {
    let calls = Calls::default();
    let mut registry = Registry::builtin();
    let counted = Counted { text, calls: calls.clone() };
    registry.add(
        Algorithm::kernels("ours", CollectiveKind::AllReduce, counted)
            .with_constraints(|limits| limits.dtypes = Some(vec![DataType::F32])),
    )?;
    Ok((registry, calls))
}

fn request(ranks: u32, count: u64) -> Request {
    Request { backend: Backend::Cuda, ..Request::new(CollectiveKind::AllReduce, ranks, DataType::F32, 4 * count) }
}

fn the_example_sums(rig: &Rig) -> Result<(), Failed> {
    let (registry, calls) = registry(EXAMPLE)?;
    let world = Executor::new(&rig.device, 4);
    for (number, count) in (1..).zip([1_u64, 4, 37, 1000, 1003]) {
        let request = request(4, count);
        let decision = registry.select(&request)?;
        if decision.algorithm.name() != "ours" || !decision.algorithm.is_kernels() {
            return Err(format!("`{}` was chosen", decision.algorithm.name()).into());
        }
        let mut run = decision.algorithm.prepare_on(&world, &request)?;
        let mut memories = Vec::new();
        for rank in 0..4 {
            let mut input = DeviceBuffer::new(&rig.device, 4 * count)?;
            let values: Vec<f32> = (0..count).map(|i| (rank as u64 * 1000 + i) as f32).collect();
            input.write(bytemuck::cast_slice(&values))?;
            memories.push([input, DeviceBuffer::new(&rig.device, 4 * count)?]);
        }
        let slices: Vec<_> = memories.iter().map(|[input, output]| [input.as_slice(), output.as_slice()]).collect();
        let stream = rig.device.stream()?;
        // SAFETY: memory that exists until the stream is complete.
        unsafe { run.launch(&slices, &stream)? };
        stream.synchronize()?;
        for [_, output] in &memories {
            let mut found = vec![0_f32; count as usize];
            output.read(bytemuck::cast_slice_mut(&mut found))?;
            let expected: Vec<f32> = (0..count).map(|i| (6000 + 4 * i) as f32).collect();
            if found != expected {
                return Err(format!("{count} elements: {found:?}").into());
            }
        }
        let found = calls.each_ref().map(|count| count.load(Ordering::Relaxed));
        if found != [1, number] {
            return Err(format!("initialised and bound {found:?} times, expected once and {number} times").into());
        }
    }
    Ok(())
}

fn compile_error_is_reported(rig: &Rig) -> Result<(), Failed> {
    let (registry, _) = registry("#include \"reduce.h\"\n\nint native_allreduce = no_such_thing;\n")?;
    let world = Executor::new(&rig.device, 4);
    let request = request(4, 4);
    let failed =
        registry.select(&request)?.algorithm.prepare_on(&world, &request).err().ok_or("it does not compile")?;
    let text = failed.to_string();
    let has = |what: &str| text.contains(what);
    if has("`ours`") && has("sum.cu") && has("no_such_thing") && (has(":3:") || has("(3)")) {
        return Ok(());
    }
    Err(text.into())
}

fn unsupported_request_is_rejected(rig: &Rig) -> Result<(), Failed> {
    let (registry, calls) = registry(EXAMPLE)?;
    let (world, request) = (Executor::new(&rig.device, 4), request(4, 100));
    let ours = registry.find("ours").ok_or("it was added")?;
    let expect = |what: &str, found: Option<mscclpp_exec::select::CallError>| {
        let text = found.map_or("nothing".to_owned(), |error| error.to_string());
        if text.contains(what) { Ok(()) } else { Err(Failed::from(format!("{text}, expected `{what}`"))) }
    };
    expect("f16", ours.prepare_on(&world, &Request { dtype: DataType::F16, ..request }).err())?;
    expect("runs only on cuda", ours.prepare_on(&world, &Request { backend: Backend::Cpu, ..request }).err())?;
    expect(
        "4 ranks",
        ours.prepare_on(&Executor::new(&rig.device, 4), &Request { num_ranks: 3, ranks_per_node: 3, ..request }).err(),
    )?;
    let ring = registry.find("allreduce_ring").ok_or("it is in the library")?;
    expect("prepare its plan", ring.prepare_on(&world, &request).err())?;
    if calls[0].load(Ordering::Relaxed) != 0 {
        return Err("compiled for what was refused".into());
    }
    let mut run = ours.prepare_on(&world, &request)?;
    let memory = DeviceBuffer::new(&rig.device, 400)?;
    let (slice, stream) = (memory.as_slice(), rig.device.stream()?);
    let short = memory.slice(0..396).ok_or("inside")?;
    // SAFETY: nothing is launched.
    let mut launch = |ranks: &[[DeviceSlice; 2]]| unsafe { run.launch(ranks, &stream) }.err();
    expect("3", launch(&[[slice, slice]; 3]))?;
    expect("396", launch(&[[slice, slice], [slice, slice], [slice, short], [slice, slice]]))
}

/// Tests the benchmarks' kernels.
fn benchmark_kernels_are_correct(rig: &Rig) -> Result<(), Failed> {
    for name in ["all_pairs", "one_shot"] {
        let mut kernel = HandWritten::new(&rig.device, name, 3, 16 * 53, 6, 512)?;
        for turn in 0..3 {
            kernel.check(&rig.device, turn).map_err(|error| format!("{name}, launch {turn}: {error}"))?;
        }
    }
    Ok(())
}
