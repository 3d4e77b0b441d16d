//! Custom kernels, in a registry and on an executor: those of the example.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::Failed;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::DataType;
use mscclpp_exec::cuda::jit::{Function, Source};
use mscclpp_exec::cuda::{DeviceBuffer, DeviceSlice, Executor, Stream};
use mscclpp_select::kernels::{ContextKey, NativeAlgorithm, NativeError, NativeRun};
use mscclpp_select::{Algorithm, Backend, Registry, Request};

use super::{Rig, Test};
use crate::hand_written::HandWritten;

pub(crate) fn tests() -> Vec<Test> {
    let tests = [
        Test::new("native::the_example_sums", the_example_sums),
        Test::new("native::compile_error_is_reported", compile_error_is_reported),
        Test::new("native::unsupported_request_is_rejected", unsupported_request_is_rejected),
        Test::new("native::requests_share_the_context_of_their_key", requests_share_the_context_of_their_key),
        Test::new("native::contexts_per_allocation_follow_the_memory", contexts_per_allocation_follow_the_memory),
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

    fn context(
        &self,
        _: &Function,
        _: &Executor,
        request: &Request,
        _: &[[DeviceSlice; 2]],
    ) -> Result<u32, NativeError> {
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

/// The example's kernel with contexts that have keys.
struct Keyed {
    key: fn(&Request) -> ContextKey,
    /// Contexts that were created, and dropped.
    contexts: Calls,
}

/// The allocations that it was created for.
struct KeyedContext {
    allocations: Vec<[DeviceSlice; 2]>,
    contexts: Calls,
}

impl Drop for KeyedContext {
    fn drop(&mut self) {
        self.contexts[1].fetch_add(1, Ordering::Relaxed);
    }
}

impl NativeAlgorithm for Keyed {
    type Kernels = Function;
    type Context = KeyedContext;

    fn init(&self, world: &Executor) -> Result<Function, NativeError> {
        Ok(world.devices()[0].module(&Source::new("sum.cu", EXAMPLE))?.function("native_allreduce")?)
    }

    fn context_key(&self, request: &Request) -> ContextKey {
        (self.key)(request)
    }

    fn context(
        &self,
        _: &Function,
        _: &Executor,
        _: &Request,
        allocations: &[[DeviceSlice; 2]],
    ) -> Result<KeyedContext, NativeError> {
        self.contexts[0].fetch_add(1, Ordering::Relaxed);
        Ok(KeyedContext { allocations: allocations.to_vec(), contexts: self.contexts.clone() })
    }

    unsafe fn launch(
        &self,
        kernel: &Function,
        context: &mut KeyedContext,
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError> {
        let contains = |whole: DeviceSlice, part: DeviceSlice| {
            whole.address <= part.address && part.address + part.bytes <= whole.address + whole.bytes
        };
        for (allocations, slices) in context.allocations.iter().zip(ranks) {
            if !allocations.iter().zip(slices).all(|(whole, part)| contains(*whole, *part)) {
                return Err(format!("{allocations:x?} do not contain {slices:x?}").into());
            }
        }
        let mut all = Ranks { inputs: [0; 16], outputs: [0; 16], bytes: ranks[0][0].bytes, ranks: ranks.len() as u64 };
        for (rank, [input, output]) in ranks.iter().enumerate() {
            (all.inputs[rank], all.outputs[rank]) = (input.address, output.address);
        }
        // SAFETY: the kernel takes such a struct, and accesses only the caller's memory.
        unsafe { Ok(kernel.launch(stream, 1, 512, &all)?) }
    }
}

impl Keyed {
    fn algorithm(key: fn(&Request) -> ContextKey) -> (Algorithm, Calls) {
        let contexts = Calls::default();
        let keyed = Self { key, contexts: contexts.clone() };
        (Algorithm::kernels("keyed", CollectiveKind::AllReduce, keyed), contexts)
    }
}

/// Returns an error unless so many contexts were created and dropped.
fn expect_contexts(what: &str, contexts: &Calls, expected: [u32; 2]) -> Result<(), Failed> {
    let found = contexts.each_ref().map(|count| count.load(Ordering::Relaxed));
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} contexts created and dropped, expected {expected:?}").into()),
    }
}

/// Launches an all-reduce of two ranks, and waits for it.
fn launch(rig: &Rig, run: &mut NativeRun, slices: &[[DeviceSlice; 2]; 2]) -> Result<(), Failed> {
    let stream = rig.device.stream()?;
    // SAFETY: memory that exists until the stream is complete.
    unsafe { run.launch(slices, &stream)? };
    Ok(stream.synchronize()?)
}

/// Two requests of one key share a context, on one executor; it exists as long as one of the runs.
fn requests_share_the_context_of_their_key(rig: &Rig) -> Result<(), Failed> {
    let (keyed, contexts) = Keyed::algorithm(|request| ContextKey::new(request.bytes.div_ceil(256)));
    let worlds = [Executor::new(&rig.device, 2), Executor::new(&rig.device, 2)];
    let [short, long, longer] = [8, 64, 100].map(|count| request(2, count));
    let mut first = keyed.prepare_on(&worlds[0], &short)?;
    let second = keyed.prepare_on(&worlds[0], &long)?;
    expect_contexts("two requests of one key", &contexts, [1, 0])?;
    let other_key = keyed.prepare_on(&worlds[0], &longer)?;
    let other_executor = keyed.prepare_on(&worlds[1], &short)?;
    expect_contexts("another key and another executor", &contexts, [3, 0])?;
    let mut ones = DeviceBuffer::new(&rig.device, 32)?;
    ones.write(bytemuck::cast_slice(&[1_f32; 8]))?;
    let outputs = [DeviceBuffer::new(&rig.device, 32)?, DeviceBuffer::new(&rig.device, 32)?];
    let slices = outputs.each_ref().map(|output| [ones.as_slice(), output.as_slice()]);
    launch(rig, &mut first, &slices)?;
    let mut found = [0_f32; 8];
    outputs[1].read(bytemuck::cast_slice_mut(&mut found))?;
    if found != [2.0; 8] || first.num_contexts() != 1 {
        return Err(format!("{found:?} with {} contexts", first.num_contexts()).into());
    }
    drop((other_key, first));
    expect_contexts("one of two runs dropped", &contexts, [3, 1])?;
    drop((second, other_executor));
    expect_contexts("all runs dropped", &contexts, [3, 3])?;
    let _again = keyed.prepare_on(&worlds[0], &short)?;
    expect_contexts("prepared again", &contexts, [4, 3])?;
    // By default a request is its own key.
    let (own, contexts) = Keyed::algorithm(ContextKey::of_request);
    let _runs = [&short, &long, &short].map(|request| own.prepare_on(&worlds[0], request));
    expect_contexts("keys of requests", &contexts, [2, 0])
}

/// Slices of one allocation share a context, other allocations have another one, and memory at the address of freed memory as well.
fn contexts_per_allocation_follow_the_memory(rig: &Rig) -> Result<(), Failed> {
    let (keyed, contexts) = Keyed::algorithm(|request| ContextKey::of_request(request).per_allocation());
    let world = Executor::new(&rig.device, 2);
    let mut run = keyed.prepare_on(&world, &request(2, 8))?;
    expect_contexts("before the first call", &contexts, [0, 0])?;
    let memory = || DeviceBuffer::new(&rig.device, 256);
    let (inputs, outputs) = (memory()?, memory()?);
    let slices = |inputs: &DeviceBuffer, outputs: &DeviceBuffer, at: u64| {
        let [input, output] = [inputs, outputs].map(|memory| memory.slice(at..at + 32).unwrap_or(DeviceSlice::EMPTY));
        [[input, output]; 2]
    };
    launch(rig, &mut run, &slices(&inputs, &outputs, 0))?;
    launch(rig, &mut run, &slices(&inputs, &outputs, 64))?;
    expect_contexts("slices of the same allocations", &contexts, [1, 0])?;
    launch(rig, &mut run, &slices(&outputs, &inputs, 64))?;
    expect_contexts("input and output exchanged", &contexts, [2, 0])?;
    drop(inputs);
    let inputs = memory()?;
    launch(rig, &mut run, &slices(&inputs, &outputs, 0))?;
    expect_contexts("memory that was freed and allocated again", &contexts, [3, 0])?;

    // New memory in a capture: an error, unless the context exists.
    let (stream, mut captured) = (rig.device.stream()?, memory()?);
    let of_capture = slices(&captured, &outputs, 0);
    let mut failed = None;
    let _empty = stream.capture(|stream| {
        // SAFETY: nothing is launched.
        failed = unsafe { run.launch(&of_capture, stream) }.err();
        Ok(())
    })?;
    let text = failed.ok_or("the context of new memory was created in a capture")?.to_string();
    if !text.contains("NativeRun::prepare") {
        return Err(text.into());
    }
    run.prepare(&of_capture)?;
    expect_contexts("prepared", &contexts, [4, 0])?;
    captured.write(bytemuck::cast_slice(&[1_f32; 64]))?;
    let mut launched = Ok(());
    let graph = stream.capture(|stream| {
        // SAFETY: memory that exists until the graph is complete.
        launched = unsafe { run.launch(&of_capture, stream) };
        Ok(())
    })?;
    launched?;
    // SAFETY: as above.
    unsafe { graph.launch(&stream)? };
    stream.synchronize()?;
    let mut found = [0_f32; 64];
    outputs.read(bytemuck::cast_slice_mut(&mut found))?;
    if found[..8] != [2.0; 8] {
        return Err(format!("captured: {found:?}").into());
    }
    drop(run);
    expect_contexts("the run was dropped", &contexts, [4, 4])
}

const EXAMPLE: &str = include_str!("../../../examples/cuda/native_allreduce.cu");

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
        if decision.algorithm.name() != "ours" || decision.algorithm.has_plans() {
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
    let expect = |what: &str, found: Option<mscclpp_select::CallError>| {
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
