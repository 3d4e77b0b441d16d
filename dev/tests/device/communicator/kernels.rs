//! Kernels in a communicator's registry: they serve the calls for which they are selected.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytemuck::Zeroable;
use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, KernelPolicy};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::Options;
use mscclpp_exec::cuda::channels::{ChannelOptions, Channels, DevicePortChannel};
use mscclpp_exec::cuda::jit::{Cache, Function, Source};
use mscclpp_exec::cuda::{Device, DeviceSlice, DeviceVec, Executor, KernelTier, Stream};
use mscclpp_exec::error::ErrorKind;
use mscclpp_exec::{DataType, Element};
use mscclpp_select::kernels::{ContextKey, NativeAlgorithm, NativeError};
use mscclpp_select::{Algorithm, Choice, Request};

use super::{errors, group_options, in_threads};
use crate::CACHE;
use crate::processes::machine_options;

/// Maximum bytes of a call, for which the ranks have slots.
const SLOT: u64 = 1 << 16;

/// The kernel of the example: each rank puts its input into slots of the others.
struct OverPorts {
    text: &'static str,
}

struct Context {
    channels: Channels<u8>,
    rank: u32,
    launches: u64,
}

/// As in `port_allreduce.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct AllReduce {
    peers: [DevicePortChannel; 8],
    input: u64,
    output: u64,
    shared: u64,
    bytes: u64,
    first_slot: u64,
    rank: u32,
    ranks: u32,
}

impl NativeAlgorithm for OverPorts {
    type Kernels = Function;
    type Context = Context;

    fn init(&self, world: &Executor) -> Result<Function, NativeError> {
        Ok(world.devices()[0].module(&Source::new("port_allreduce.cu", self.text))?.function("port_allreduce")?)
    }

    fn context_key(&self, _: &Request) -> ContextKey {
        ContextKey::new(0)
    }

    fn context(
        &self,
        _: &Function,
        world: &Executor,
        request: &Request,
        _: &[[DeviceSlice; 2]],
    ) -> Result<Context, NativeError> {
        let options = ChannelOptions::default().num_memory(0).num_port(1);
        let bytes = 2 * SLOT * u64::from(request.num_ranks);
        Ok(Context { channels: world.channels(bytes as usize, options)?, rank: world.local_ranks()[0], launches: 0 })
    }

    unsafe fn launch(
        &self,
        kernel: &Function,
        Context { channels, rank, launches }: &mut Context,
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError> {
        let ([input, output], num_ranks) = (ranks[0], channels.num_ranks());
        let mut peers: [DevicePortChannel; 8] = Zeroable::zeroed();
        for (peer, channel) in (0..num_ranks).zip(&mut peers) {
            *channel = channels.port(peer, 0)?.with_source(input);
        }
        let all = AllReduce {
            peers,
            input: input.address,
            output: output.address,
            shared: channels.local().as_slice().address,
            bytes: input.bytes,
            first_slot: *launches % 2 * SLOT * u64::from(num_ranks),
            rank: *rank,
            ranks: num_ranks,
        };
        *launches += 1;
        // SAFETY: the kernel takes such a struct, and accesses the caller's memory and the slots of all ranks.
        unsafe { Ok(kernel.launch(stream, 1, 256, &all)?) }
    }
}

const KERNEL: &str = include_str!("../../../../examples/cuda/port_allreduce.cu");

fn add_kernels(comm: &Communicator, text: &'static str) -> Result<(), Failed> {
    let ours = Algorithm::kernels("ours", CollectiveKind::AllReduce, OverPorts { text });
    let ours = ours.with_constraints(|limits| {
        limits.dtypes = Some(vec![DataType::F32]);
        limits.ops = Some(vec![ReduceOp::Sum]);
        limits.bytes = 0..=SLOT;
        limits.buffer_mode = mscclpp_algorithms::BufferMode::OutOfPlace;
    });
    Ok(comm.configure(|registry| registry.add(ours))??)
}

/// All-reduces on a stream, and compares the result and who served the call.
fn sums<T: Element + From<u8> + PartialEq + std::fmt::Debug>(
    comm: &Communicator,
    device: &Device,
    stream: &Stream,
    len: usize,
    expected: &str,
) -> Result<(), Failed> {
    let value = |rank: u32, at: usize| (rank as usize * 3 + at % 7) as u8;
    let input: Vec<T> = (0..len).map(|at| value(comm.rank(), at).into()).collect();
    let input = DeviceVec::from_slice(device, &input)?;
    let mut output = DeviceVec::<T>::new(device, len)?;
    comm.on(stream).all_reduce(&input, &mut output, ReduceOp::Sum)?;
    let served = comm.on(stream).last_call()?.and_then(|call| call.algorithm).unwrap_or_default();
    comm.on(stream).synchronize()?;
    let sum = |at| (0..comm.num_ranks()).map(|rank| value(rank, at)).sum::<u8>().into();
    let right: Vec<T> = (0..len).map(sum).collect();
    let found = output.to_vec()?;
    let is_served = served == expected || expected.is_empty() && served != "ours";
    match found == right && is_served {
        true => Ok(()),
        false => Err(format!("{len} elements by `{served}`, expected `{expected}`: {found:?}, {right:?}").into()),
    }
}

/// Calls that are selected for them, of all sizes, on two streams; others are served by plans. One that they serve whole is not made in pieces.
pub(super) fn selected_kernels_serve_calls(seed: u64) -> Result<(), Failed> {
    let run = |comm: &Communicator, device: &Device| {
        add_kernels(comm, KERNEL)?;
        comm.set_device_staging_limit(4096)?;
        let streams = [device.stream()?, device.stream()?];
        for (number, len) in [1, 7, 1003, 5000, 7, 0].into_iter().enumerate() {
            let served = if len == 0 { "" } else { "ours" };
            sums::<f32>(comm, device, &streams[number % 2], len, served)?;
            sums::<i32>(comm, device, &streams[number % 2], len.min(100), "")?;
        }
        // More than the kernels serve is made in pieces. Then what the program chooses for itself.
        sums::<f32>(comm, device, &streams[0], SLOT as usize, "ours")?;
        comm.configure(|registry| registry.set_selector(|_, _| Some(Choice::named("allreduce_packets"))))?;
        sums::<f32>(comm, device, &streams[0], 64, "allreduce_packets")?;
        // No rank frees its slots while another one may still write to them.
        Ok(comm.barrier()?)
    };
    compiling(seed, run).into_iter().collect()
}

/// A kernel that does not compile is an error of the call, on all ranks, which names the algorithm and the place in its source.
pub(super) fn kernels_that_do_not_compile_are_reported(seed: u64) -> Result<(), Failed> {
    let results = compiling(seed, |comm, device| {
        add_kernels(comm, "KERNEL(1) port_allreduce() { no_such_name(); }")?;
        let error = {
            let stream = device.stream()?;
            let (input, mut output) = (DeviceVec::<f32>::new(device, 4)?, DeviceVec::<f32>::new(device, 4)?);
            comm.on(&stream).all_reduce(&input, &mut output, ReduceOp::Sum).expect_err("no kernel")
        };
        assert!(error.kind() != ErrorKind::Timeout, "{error}");
        Err(error.into())
    });
    let found = errors(&results);
    let right = |text: &String| text.contains("`ours`") && text.contains("no_such_name");
    if found.len() == 2 && found.iter().all(right) { Ok(()) } else { Err(format!("{found:?}").into()) }
}

/// Calls that are prepared after a plan's kernel was compiled run it, on each rank for itself, also where the others interpret plans; what
/// was prepared or captured before stays as it was.
pub(super) fn kernels_of_plans_are_compiled_meanwhile(seed: u64) -> Result<(), Failed> {
    let (all, is_compiled) = (Barrier::new(2), AtomicBool::new(false));
    let run = |comm: &Communicator, device: &Device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        comm.set_kernel_policy([KernelPolicy::Background, KernelPolicy::Interpreter][rank as usize]);
        let on = comm.on(&stream);
        let call = |round: u32, len: usize, op| -> Result<bool, Failed> {
            let (mut input, mut output) = (on.alloc::<f32>(len)?, on.alloc::<f32>(len)?);
            input.write(&vec![(round + rank) as f32; len])?;
            on.all_reduce(&input, &mut output, op)?;
            let call = on.last_call()?.ok_or("no call")?;
            on.synchronize()?;
            let expected = if op == ReduceOp::Sum { 2 * round + 1 } else { round + 1 };
            assert_eq!(output.to_vec()?, vec![expected as f32; len], "{call:?}");
            Ok(call.kernel.is_specialized())
        };
        let mut captured = on.alloc::<f32>(64)?;
        on.all_reduce_in_place(&mut captured, ReduceOp::Sum)?;
        let graph = stream.capture(|stream| comm.on(stream).all_reduce_in_place(&mut captured, ReduceOp::Sum))?;
        // It may have been compiled by an earlier run of the test.
        let first = call(0, 64, ReduceOp::Sum)?;
        // How long the compiler takes is not known.
        let mut round = 1;
        while !is_compiled.load(SeqCst) {
            let is_specialized = call(round, 64 + 16 * round as usize, ReduceOp::Sum)?;
            assert!(!is_specialized || rank == 0, "rank 1 was to interpret plans");
            // Both have made the call, and both read what it was.
            all.wait();
            is_compiled.fetch_or(is_specialized, SeqCst);
            all.wait();
            round += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        for more in 0..5 {
            captured.write(&[(more + rank) as f32; 64])?;
            // SAFETY: memory and communicator exist until the stream is synchronized.
            unsafe { graph.launch(&stream)? };
            assert_eq!(call(more, 48 + 16 * round as usize, ReduceOp::Sum)?, rank == 0);
            assert_eq!(call(more, 64, ReduceOp::Sum)?, first, "it was prepared before");
            assert_eq!(captured.to_vec()?, [(2 * more + 1) as f32; 64]);
        }
        drop(graph);
        // For a policy that changes, and for another reduction.
        comm.set_kernel_policy([KernelPolicy::Interpreter, KernelPolicy::Wait][rank as usize]);
        for round in 0..3 {
            assert_eq!(call(round, 64, ReduceOp::Max)?, rank == 1);
        }
        Ok(comm.barrier()?)
    };
    compiling(seed, run).into_iter().collect()
}

/// Calls of default plans run kernels that were compiled ahead of time from the first one on, without a compiler, in and out of place and with
/// one and several thread blocks; calls whose plans have none are interpreted. Ranks whose driver refuses them interpret all.
pub(super) fn kernels_compiled_ahead_of_time_run_first_calls(seed: u64) -> Result<(), Failed> {
    let old = Options { ahead_of_time: false, ..machine_options(seed, 0, false) };
    let new = Options { ahead_of_time: true, ..old };
    let run = |comm: &Communicator, device: &Device, has_them: bool| {
        let stream = device.stream()?;
        comm.set_kernel_policy(KernelPolicy::AheadOfTime);
        let on = comm.on(&stream);
        let expected = if has_them { KernelTier::AheadOfTime } else { KernelTier::Interpreter };
        for (len, in_place) in [(256, false), (2048, true)] {
            let mut output = on.alloc::<f32>(len)?;
            match in_place {
                true => {
                    output.write(&vec![1.0 + comm.rank() as f32; len])?;
                    on.all_reduce_in_place(&mut output, ReduceOp::Sum)?;
                }
                false => {
                    let input = DeviceVec::from_slice(device, &vec![1.0 + comm.rank() as f32; len])?;
                    on.all_reduce(&input, &mut output, ReduceOp::Sum)?;
                }
            }
            let call = on.last_call()?.ok_or("no call")?;
            on.synchronize()?;
            assert_eq!(call.kernel, expected, "{call:?}");
            assert_eq!(output.to_vec()?, vec![3.0; len], "{call:?}");
        }
        // No kernel of this type was compiled.
        let mut other = on.alloc::<i64>(64)?;
        on.all_reduce_in_place(&mut other, ReduceOp::Sum)?;
        assert_eq!(on.last_call()?.map(|call| call.kernel), Some(KernelTier::Interpreter));
        Ok(comm.barrier()?)
    };
    for options in [[new; 2], [new, old]] {
        let machines = options.map(|options| mscclpp_dev::machine(options, 2));
        let device =
            |rank: u32| Ok(Device::with_cache(machines[rank as usize].clone()?[rank as usize].clone(), Cache::NONE));
        let run = |comm: &Communicator, device: &Device| run(comm, device, options[comm.rank() as usize].ahead_of_time);
        in_threads(2, group_options(120), device, run).into_iter().collect::<Result<(), Failed>>()?;
    }
    Ok(())
}

/// Runs two ranks in threads on devices that compile kernels.
fn compiling(seed: u64, run: impl Fn(&Communicator, &Device) -> Result<(), Failed> + Sync) -> Vec<Result<(), Failed>> {
    let all = mscclpp_dev::machine(machine_options(seed, 0, false), 2);
    let device = |rank: u32| {
        let driver = all.clone()?[rank as usize].clone();
        Ok(Device::with_cache(driver, Cache::at(CACHE)))
    };
    in_threads(2, group_options(120), device, run)
}
