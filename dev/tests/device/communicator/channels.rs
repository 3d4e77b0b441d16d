//! Channels for user-supplied kernels, between ranks in threads on devices of one host or on separate ones, and in processes.

use std::time::Duration;

use half::{bf16, f16};
use libtest_mimic::Failed;
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, machine, simulator};
use mscclpp_exec::cuda::channels::{
    ChannelError, ChannelOptions, Channels, DeviceBarrier, DeviceMemoryChannel, DevicePortChannel, DeviceSwitchChannel,
};
use mscclpp_exec::cuda::jit::{Cache, Module, Source};
use mscclpp_exec::cuda::{Device, DeviceVec, Stream};
use mscclpp_exec::error::ErrorKind;
use mscclpp_exec::{DataType, Element, Error};

use super::{Rank, failure, group_options, in_threads};
use crate::CACHE;
use crate::processes::machine_options;

/// As in `channels.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
pub(super) struct Gather {
    memory: [DeviceMemoryChannel; 4],
    port: [DevicePortChannel; 4],
    all: DeviceSwitchChannel,
    barrier: DeviceBarrier,
    bytes: u64,
    rank: u32,
    ranks: u32,
    flag: u32,
    reserved: u32,
}

pub(super) fn options() -> ChannelOptions {
    ChannelOptions::default().num_memory(2).num_port(1).num_barriers(1).multicast(true)
}

pub(super) fn module(device: &Device) -> Result<Module, Error> {
    device.module(&Source::new("channels.cu", include_str!("channels.cu")))
}

impl Gather {
    /// Passes all channels to the kernels.
    pub(super) fn new<T: Element>(
        comm: &Communicator,
        channels: &Channels<T>,
        bytes: u64,
        flag: u32,
    ) -> Result<Self, Error> {
        let (rank, ranks) = (comm.rank(), comm.num_ranks());
        // Kernels use those of existing ranks only.
        let (mut memory, mut port): ([DeviceMemoryChannel; 4], [DevicePortChannel; 4]) =
            (bytemuck::Zeroable::zeroed(), bytemuck::Zeroable::zeroed());
        for peer in 0..ranks {
            (memory[peer as usize], port[peer as usize]) = (channels.memory(peer, 1)?, channels.port(peer, 0)?);
        }
        let (all, barrier) = (channels.switch()?, channels.barrier(0)?);
        Ok(Self { memory, port, all, barrier, bytes, rank, ranks, flag, reserved: 0 })
    }

    /// Passes port channels only.
    pub(super) fn of_ports<T: Element>(comm: &Communicator, channels: &Channels<T>, bytes: u64) -> Result<Self, Error> {
        let mut port: [DevicePortChannel; 4] = bytemuck::Zeroable::zeroed();
        for (peer, port) in (0..comm.num_ranks()).zip(&mut port) {
            *port = channels.port(peer, 0)?;
        }
        let (all, barrier) = (bytemuck::Zeroable::zeroed(), channels.barrier(0)?);
        let (rank, ranks) = (comm.rank(), comm.num_ranks());
        Ok(Self { memory: bytemuck::Zeroable::zeroed(), port, all, barrier, bytes, rank, ranks, flag: 0, reserved: 0 })
    }

    pub(super) fn launch(&self, module: &Module, kernel: &str, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the kernels take such a struct, and use the shared memory of all ranks, which exists until the stream has been
        // synchronized on all of them.
        unsafe { module.function(kernel)?.launch(stream, 2, 256, self) }
    }
}

pub(super) fn element(rank: u32, at: usize) -> u32 {
    rank * 1000 + at as u32
}

/// Gathers by every kernel at several sizes, twice.
pub(super) fn work(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let (rank, ranks) = (comm.rank(), comm.num_ranks());
    let stream = device.stream()?;
    let module = module(device)?;
    for len in [1_usize, 4, 26, 64] {
        let all = len * ranks as usize;
        // Packets take twice the bytes.
        let memory = comm.on(&stream).alloc::<u32>(3 * all + 4)?;
        let mut channels = comm.on(&stream).channels(memory, options())?;
        for (number, kernel) in (1..).zip([
            "by_put",
            "by_get",
            "by_packets",
            "by_port",
            "by_short_packets",
            "by_broadcast",
            "by_put",
            "by_port",
        ]) {
            let multiple = match kernel {
                "by_packets" => 2,
                "by_broadcast" => 4,
                _ => 1,
            };
            if !len.is_multiple_of(multiple) {
                continue;
            }
            let mut before = vec![0_u32; 3 * all + 4];
            for (at, value) in before[rank as usize * len..][..len].iter_mut().enumerate() {
                *value = element(rank, at);
            }
            comm.barrier()?;
            channels.local_mut().write(&before)?;
            comm.barrier()?;
            Gather::new(comm, &channels, 4 * len as u64, number)?.launch(&module, kernel, &stream)?;
            channels.synchronize(&stream)?;
            let found = channels.local().to_vec()?;
            let expected: Vec<u32> = (0..ranks).flat_map(|rank| (0..len).map(move |at| element(rank, at))).collect();
            if found[..all] != expected {
                return Err(format!("{kernel} of {len} elements: {:?}, expected {expected:?}", &found[..all]).into());
            }
        }
        comm.barrier()?;
        reductions(comm, &mut channels, &module, &stream, len / 4 * 4)?;
    }
    Ok(())
}

/// The reductions of `by_reduction`, by flag.
const REDUCTIONS: [(DataType, ReduceOp); 13] = [
    (DataType::U32, ReduceOp::Sum),
    (DataType::I32, ReduceOp::Min),
    (DataType::U32, ReduceOp::Max),
    (DataType::F32, ReduceOp::Sum),
    (DataType::F32, ReduceOp::Max),
    (DataType::F16, ReduceOp::Sum),
    (DataType::F16, ReduceOp::Min),
    (DataType::BF16, ReduceOp::Sum),
    (DataType::BF16, ReduceOp::Max),
    (DataType::I64, ReduceOp::Max),
    (DataType::U64, ReduceOp::Sum),
    (DataType::F64, ReduceOp::Sum),
    (DataType::F64, ReduceOp::Min),
];

/// Returns the bytes of a small integer in a type.
fn bytes_of(dtype: DataType, value: i64) -> Vec<u8> {
    match dtype {
        DataType::F16 => f16::from_f64(value as f64).to_le_bytes().to_vec(),
        DataType::BF16 => bf16::from_f64(value as f64).to_le_bytes().to_vec(),
        DataType::F32 => (value as f32).to_le_bytes().to_vec(),
        DataType::F64 => (value as f64).to_le_bytes().to_vec(),
        _ => value.to_le_bytes()[..dtype.size()].to_vec(),
    }
}

/// Reduces the elements of all ranks by the switch channel: small integers in every type, so that sums are exact in any order.
fn reductions(
    comm: &Communicator,
    channels: &mut Channels<u32>,
    module: &Module,
    stream: &Stream,
    len: usize,
) -> Result<(), Failed> {
    let (rank, ranks) = (comm.rank(), comm.num_ranks());
    let (all, total) = (len * ranks as usize, channels.local().len());
    for (flag, (dtype, op)) in (0..).zip(REDUCTIONS) {
        // Only what every type has.
        let lowest = if matches!(dtype, DataType::U32 | DataType::U64) { 0 } else { -10 };
        let value = |rank: u32, at: usize| (at as i64 * 5 + i64::from(rank) * 17) % 31 + lowest;
        let words = |value: &dyn Fn(usize) -> i64, words: usize| -> Vec<u32> {
            let bytes: Vec<u8> = (0..4 * words / dtype.size()).flat_map(|at| bytes_of(dtype, value(at))).collect();
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
        };
        let mut own = words(&|at| value(rank, at), total);
        own.resize(total, 0);
        channels.local_mut().write(&own)?;
        comm.barrier()?;
        Gather::new(comm, channels, 4 * len as u64, flag)?.launch(module, "by_reduction", stream)?;
        channels.synchronize(stream)?;
        let found = channels.local().to_vec()?;
        let reduced = |at: usize| {
            let values = (0..ranks).map(|rank| value(rank, at));
            match op {
                ReduceOp::Min => values.min(),
                ReduceOp::Max => values.max(),
                _ => Some(values.sum()),
            }
            .unwrap_or_default()
        };
        let expected = words(&reduced, all);
        if found[..all] != expected {
            let what = format!("{op} of {len} words of {dtype}");
            return Err(format!("{what}: {:?}, expected {expected:?}", &found[..all]).into());
        }
        comm.barrier()?;
    }
    Ok(())
}

/// Runs ranks on devices of one host, whose images are cached.
pub(super) fn on_devices(seed: u64, ranks: u32, devices: u32, run: impl Rank) -> Result<(), Failed> {
    on_machine(machine_options(seed, 0, false), ranks, devices, run)
}

fn on_machine(options: Options, ranks: u32, devices: u32, run: impl Rank) -> Result<(), Failed> {
    let all: Result<Vec<Device>, String> = machine(options, devices.max(2))
        .map(|all| all.into_iter().map(|driver| Device::with_cache(driver, Cache::at(CACHE))).collect());
    let device = |rank: u32| Ok(all.clone()?[(rank % devices) as usize].clone());
    in_threads(ranks, group_options(120), device, run).into_iter().collect()
}

pub(super) fn gathered_and_summed(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 3, 3, work)?;
    on_devices(seed, 2, 1, work)
}

pub(super) fn on_separate_hosts(seed: u64) -> Result<(), Failed> {
    let device = |rank| Ok(Device::with_cache(simulator(machine_options(seed, rank, true))?, Cache::at(CACHE)));
    in_threads(2, group_options(120), device, work).into_iter().collect()
}

pub(super) fn wait_without_signal_is_reported(seed: u64) -> Result<(), Failed> {
    let of_machine = Options { patience: Duration::from_secs(2), ..machine_options(seed, 0, false) };
    on_machine(of_machine, 2, 2, |comm, device| {
        let comm = &comm.with_timeout(Duration::from_millis(200));
        let stream = device.stream()?;
        let module = module(device)?;
        let channels = comm.on(&stream).channels(comm.on(&stream).alloc::<u32>(8)?, options())?;
        Gather::new(comm, &channels, 4, 1)?.launch(&module, "wait_alone", &stream)?;
        let found = channels.synchronize(&stream);
        let (rank, channel) = (comm.rank(), format!("memory channel 1 with rank {}", 1 - comm.rank()));
        let expected = ChannelError::Stalled { rank, channel, expected: 1, found: 0 };
        match found {
            Err(Error::KernelChannel(error)) if *error == expected => Ok(()),
            other => Err(format!("{other:?}, expected {expected:?}").into()),
        }
    })
}

/// Memory of other sizes, and other numbers of channels whose sum is the same.
pub(super) fn different_channels_are_reported(seed: u64) -> Result<(), Failed> {
    let swapped = ChannelOptions::default().num_memory(options().num_port).num_port(options().num_memory);
    for (len, of_rank_1, part) in [(12, options(), "over 48 bytes"), (8, swapped, "1 memory and 2 port channels")] {
        on_devices(seed, 2, 2, |comm, device| {
            let stream = device.stream()?;
            let on = comm.on(&stream);
            let [short, long] = [on.alloc::<u32>(8)?, on.alloc::<u32>(len)?];
            let (memory, options) = if comm.rank() == 0 { (short, options()) } else { (long, of_rank_1) };
            let error = failure(on.channels(memory, options))?;
            let text = error.to_string();
            let parts = [part, "channels over 32 bytes", "2 memory and 1 port channels", "channels.rs:"];
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn misuse_is_rejected(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let rank = comm.rank();
        // Memory of one rank that is not registered: all ranks get the same error and continue.
        let memory = on.alloc::<u32>(8)?;
        let memory = if rank == 1 { DeviceVec::new(device, 8)? } else { memory };
        match on.channels(memory, options()) {
            Err(Error::NotShareable { rank: 1, .. }) => {}
            other => return Err(format!("unregistered memory: {other:?}").into()),
        }
        let mut channels = on.channels(on.alloc::<u32>(8)?, options())?;
        for found in [
            channels.memory(2, 0).err(),
            channels.memory(0, 2).err(),
            channels.port(0, 1).err(),
            channels.barrier(1).err(),
        ] {
            if !matches!(&found, Some(Error::KernelChannel(error)) if matches!(**error, ChannelError::NoSuchChannel { .. }))
            {
                return Err(format!("a channel that does not exist: {found:?}").into());
            }
        }
        channels.stop_proxy()?;
        match channels.port(0, 0) {
            Err(Error::KernelChannel(error)) if *error == (ChannelError::Stopped { rank }) => {}
            other => return Err(format!("a port without a proxy: {other:?}").into()),
        }
        channels.stop();
        match channels.synchronize(&stream) {
            Err(Error::KernelChannel(error)) if *error == (ChannelError::Stopped { rank }) => Ok(()),
            other => Err(format!("stopped channels: {other:?}").into()),
        }
    })
}
