//! A custom all-reduce of ranks in several processes, registered like those of the library and selected for calls of the
//! communicator: a kernel (`port_allreduce.cu`) whose data is
//! copied by the host's proxies through port channels.
//!
//! ```console
//! mscclpp launch -n 2 -- target/release/examples/port_allreduce
//! scripts/simulated-cuda.sh -n 4 -- target/release/examples/port_allreduce
//! ```
//!
//! It prints the selected algorithm and the number of wrong elements of a few calls; without a device, or without NVRTC, the reason.

use mscclpp::ErrorKind;
use mscclpp::algorithms::BufferMode;
use mscclpp::prelude::*;
use mscclpp::runtime::cuda::channels::{ChannelOptions, Channels, DevicePortChannel};
use mscclpp::runtime::cuda::jit::{Function, Source};
use mscclpp::runtime::cuda::native::{ContextKey, NativeAlgorithm, NativeError};
use mscclpp::runtime::cuda::{Device, DeviceSlice, DeviceVec, Executor as CudaWorld, Stream};
use mscclpp::runtime::select::{Algorithm, Request};

/// Elements of the calls, whose requests share one set of channels.
const COUNTS: [usize; 2] = [1003, 250];
const LAUNCHES: usize = 3;

struct OverPorts;

/// What calls with one key share.
struct Context {
    channels: Channels<u8>,
    /// Bytes of the slots of a launch.
    half: u64,
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

    fn init(&self, world: &CudaWorld) -> Result<Function, NativeError> {
        let [device] = world.devices() else { return Err("a rank has one device".into()) };
        let source = Source::new("port_allreduce.cu", include_str!("port_allreduce.cu"));
        Ok(device.module(&source)?.function("port_allreduce")?)
    }

    /// Calls of up to 4 KiB share one context, calls of more the one of their power of two.
    fn context_key(&self, request: &Request) -> ContextKey {
        ContextKey::new(slot_bytes(request))
    }

    fn context(
        &self,
        _: &Function,
        world: &CudaWorld,
        request: &Request,
        _: &[[DeviceSlice; 2]],
    ) -> Result<Context, NativeError> {
        let [rank] = world.local_ranks()[..] else { return Err("a process has one rank".into()) };
        let half = slot_bytes(request) * u64::from(request.num_ranks);
        let options = ChannelOptions::default().num_memory(0).num_port(1);
        Ok(Context { channels: world.channels(2 * half as usize, options)?, half, rank, launches: 0 })
    }

    unsafe fn launch(
        &self,
        kernel: &Function,
        context: &mut Context,
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError> {
        let Context { channels, half, rank, launches } = context;
        let [[input, output]] = *ranks else { return Err("a process has one rank".into()) };
        let num_ranks = channels.num_ranks();
        let mut peers: [DevicePortChannel; 8] = bytemuck::Zeroable::zeroed();
        for (peer, channel) in (0..num_ranks).zip(&mut peers) {
            *channel = channels.port(peer, 0)?.with_source(input);
        }
        let all = AllReduce {
            peers,
            input: input.address,
            output: output.address,
            shared: channels.local().as_slice().address,
            bytes: input.bytes,
            first_slot: *launches % 2 * *half,
            rank: *rank,
            ranks: num_ranks,
        };
        *launches += 1;
        // SAFETY: the kernel takes such a struct. It accesses the caller's memory, and the slots of all ranks.
        unsafe { Ok(kernel.launch(stream, 1, 256, &all)?) }
    }
}

/// Returns the bytes of a slot of the context that serves a request.
fn slot_bytes(request: &Request) -> u64 {
    request.bytes.next_power_of_two().max(4096)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let comm = match Communicator::from_env() {
        Err(error) if error.kind() == ErrorKind::NotLaunched => Communicator::local(1)?.remove(0),
        comm => comm?,
    };
    let Some(device) = examples_cuda::device_with_compiler(&comm) else { return Ok(()) };
    run(&comm, &device)
}

fn run(comm: &Communicator, device: &Device) -> Result<(), Box<dyn std::error::Error>> {
    let (rank, ranks) = (comm.rank(), comm.num_ranks());
    let ours = Algorithm::kernels("port_allreduce", CollectiveKind::AllReduce, OverPorts);
    let ours = ours.with_constraints(|limits| {
        limits.dtypes = Some(vec![DataType::F32]);
        limits.ops = Some(vec![ReduceOp::Sum]);
        limits.num_ranks = 1..=8;
        limits.buffer_mode = BufferMode::OutOfPlace;
    });
    comm.configure(|registry| registry.add(ours))??;
    let stream = device.stream()?;
    let mut wrong = 0;
    for launch in 0..LAUNCHES {
        let value = |rank: u32, at: usize| (rank as usize * 3 + launch + at % 7) as f32;
        for count in COUNTS {
            let input: Vec<f32> = (0..count).map(|at| value(rank, at)).collect();
            let (input, mut output) = (DeviceVec::from_slice(device, &input)?, DeviceVec::<f32>::new(device, count)?);
            // The first call connects the channels of the ranks.
            comm.on(&stream).all_reduce(&input, &mut output, ReduceOp::Sum)?;
            comm.on(&stream).synchronize()?;
            if rank == 0 && launch == 0 {
                let call = comm.on(&stream).last_call()?.ok_or("no call")?;
                println!("{}: `{}`", call.request, call.algorithm.unwrap_or_default());
            }
            let expected = |at| (0..ranks).map(|rank| value(rank, at)).sum::<f32>();
            wrong += output.to_vec()?.iter().enumerate().filter(|(at, found)| **found != expected(*at)).count();
        }
    }
    // No rank frees its slots while another one may still write to them.
    comm.barrier()?;
    if rank == 0 {
        println!("{ranks} ranks, {LAUNCHES} calls of {COUNTS:?} elements, {wrong} wrong");
    }
    assert_eq!(wrong, 0, "rank {rank}");
    Ok(())
}
