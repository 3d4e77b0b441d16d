//! Scratch of a plan, and how it grows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use super::PlanState;
use crate::cuda::executor::Inner;
use crate::cuda::ipc::PeerMemory;
use crate::cuda::switch::{Groups, MulticastBuffer, Multicasts, SwitchPath};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::Space;
use mscclpp_base::random::Random;
use mscclpp_cuda::abi;
use mscclpp_cuda::capture::is_captured_set_up;
use mscclpp_cuda::driver;
use mscclpp_cuda::memory::{DeviceMemory, Storage};
use mscclpp_cuda::slice::DeviceSlice;
use mscclpp_cuda::unused::Unused;

pub(super) struct Scratch {
    // Dropped before the memory that it maps.
    pub(super) multicasts: Multicasts,
    pub(super) own: ScratchMemory,
    /// Mapped scratch of the ranks of other processes.
    pub(super) peers: Vec<Vec<PeerMemory>>,
    /// Of each device: address of the table of all ranks' scratch, and distances to multicast addresses. A table keeps its
    /// address when the scratch in it is replaced.
    pub(super) tables: Vec<u64>,
    /// The tables, unless they are the first ones.
    pub(super) own_tables: Vec<DeviceMemory>,
    /// Bytes of plain scratch and of packets of each rank: the same on all ranks, as the halves of double scratch are.
    pub(super) sizes: [u64; 2],
    pub(super) places: Arc<Places>,
    /// Scratch with tables of its own that graphs may use, and plans that were prepared before it was replaced.
    pub(super) retired: Vec<Scratch>,
}

/// Where launches find scratch. It depends on the allocations, not on the message: launches of different sizes that overlap use
/// different halves.
#[derive(Default)]
pub(in crate::cuda) struct Places {
    /// Number of changes.
    version: AtomicU64,
    present: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// Addresses of every rank's plain scratch and packets, if there are at most `INLINE_RANKS` ranks.
    bases: Vec<u64>,
    /// Distances from the first half to the second one of plain scratch and of packets.
    halves: [u64; 2],
}

impl Places {
    /// Replaces addresses and sizes of all ranks' scratch.
    pub(super) fn set(&self, addresses: &[u64], sizes: [u64; 2]) {
        let bases = if addresses.len() <= 2 * abi::INLINE_RANKS as usize { addresses.to_vec() } else { Vec::new() };
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *present = Place { bases, halves: sizes.map(|bytes| bytes / 2) };
        self.version.fetch_add(1, Release);
    }

    /// Sets kernel parameters, unless they are those of the present version. `has_halves`: whether launches alternate between halves.
    pub(in crate::cuda) fn fill<'a>(
        &self,
        version: &mut u64,
        has_halves: bool,
        launches: impl Iterator<Item = &'a mut abi::LaunchParams>,
    ) {
        if *version == self.version.load(Acquire) {
            return;
        }
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *version = self.version.load(Relaxed);
        for launch in launches {
            launch.scratch_bases[..present.bases.len()].copy_from_slice(&present.bases);
            [launch.half_scratch, launch.half_packets] = if has_halves { present.halves } else { [0; 2] };
        }
    }
}

/// Returns the bytes to allocate for scratch, so that it need not grow again for each larger message.
pub(super) fn allocation_size(bytes: u64) -> u64 {
    /// Sizes that the driver maps.
    const MIN: u64 = 64 << 10;
    const UNIT: u64 = 2 << 20;
    match bytes {
        0 => 0,
        1..UNIT => bytes.max(MIN).next_power_of_two(),
        _ => bytes.checked_next_multiple_of(UNIT).unwrap_or(bytes),
    }
}

/// Memory for the scratch of this process' ranks.
#[derive(Default)]
pub(super) struct ScratchMemory {
    /// By device all of it, in a group at most one; or by rank both areas, where switch channels may go through them.
    storages: Vec<Storage>,
    /// Plain scratch and packets of every rank of this process.
    pub(super) areas: Vec<[DeviceSlice; 2]>,
}

impl ScratchMemory {
    /// Allocates uninitialized areas of these sizes for every rank. `windows`: switch channels over scratch.
    pub(super) fn new(world: &Inner, windows: &[MulticastBuffer], sizes: [u64; 2]) -> driver::Result<Self> {
        let mut own = Self::default();
        if windows.iter().any(MulticastBuffer::is_possible) {
            for (_, device) in world.local() {
                let mut areas = [DeviceSlice::EMPTY; 2];
                for (at, space) in [Space::Scratch, Space::Packets].into_iter().enumerate() {
                    let is_bound = windows.iter().any(|window| window.space == space && window.is_possible());
                    let storage = match is_bound {
                        true => Storage::shared(device.driver(), sizes[at], &world.others(device))?,
                        false => world.alloc_internal(device, sizes[at])?,
                    };
                    areas[at] = DeviceSlice { bytes: sizes[at], ..storage.as_slice() };
                    own.storages.push(storage);
                }
                own.areas.push(areas);
            }
            return Ok(own);
        }
        let each = sizes[0].saturating_add(sizes[1]);
        let here = |number: u32| world.local().filter(move |&(rank, _)| world.device_of[rank as usize] == number);
        own.areas = vec![[DeviceSlice::EMPTY; 2]; world.local().count()];
        for (&number, device) in world.numbers.iter().zip(&world.devices).filter(|_| each > 0) {
            let storage = world.alloc_internal(device, each.saturating_mul(here(number).count() as u64))?;
            let mut address = storage.address();
            let on_device = world.local().map(|(rank, _)| world.device_of[rank as usize] == number);
            for (areas, _) in own.areas.iter_mut().zip(on_device).filter(|(_, is_here)| *is_here) {
                let [plain, packets] = [(address, sizes[0]), (address + sizes[0], sizes[1])];
                *areas = [plain, packets].map(|(address, bytes)| DeviceSlice { address, bytes });
                address += each;
            }
            own.storages.push(storage);
        }
        Ok(own)
    }

    /// Returns the allocations, which ranks of other processes open.
    pub(super) fn shared(&self) -> impl Iterator<Item = DeviceSlice> {
        self.storages.iter().map(Storage::as_slice)
    }

    /// Returns the addresses of every rank's plain scratch and packets. `peers`: in a group the [`shared`](Self::shared)
    /// allocations of every rank.
    pub(super) fn addresses(&self, world: &Inner, peers: &[Vec<PeerMemory>], plain: u64) -> Result<Vec<u64>, Error> {
        let Some(group) = &world.group else {
            return Ok(self.areas.iter().flatten().map(|area| area.address).collect());
        };
        let mut addresses = Vec::with_capacity(2 * peers.len());
        for (rank, memories) in (0..).zip(peers) {
            addresses.extend(match memories.as_slice() {
                memories if memories.len() != self.storages.len() => return Err(group.malformed(rank)),
                [] => [0; 2],
                [both] => [both.address(), both.address() + plain],
                [plain, packets, ..] => [plain.address(), packets.address()],
            });
        }
        Ok(addresses)
    }

    /// Returns the packets of the ranks on a device.
    pub(super) fn packets<'a>(&'a self, world: &'a Inner, number: u32) -> impl Iterator<Item = DeviceSlice> + 'a {
        let of_ranks = world.local().zip(&self.areas);
        let here = of_ranks.filter(move |((rank, _), _)| world.device_of[*rank as usize] == number);
        here.map(|(_, [_, packets])| *packets)
    }

    /// Returns the ranges on a device, as few as possible.
    pub(super) fn ranges(&self, world: &Inner, number: u32) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let here = world.local().zip(&self.areas).filter(|((rank, _), _)| world.device_of[*rank as usize] == number);
        for area in here.flat_map(|(_, areas)| areas).filter(|area| area.bytes > 0) {
            match ranges.last_mut() {
                Some((first, bytes)) if *first + *bytes == area.address => *bytes += area.bytes,
                _ => ranges.push((area.address, area.bytes)),
            }
        }
        ranges
    }
}

/// Creates the multicast objects of scratch. `addresses`: of every rank's areas.
pub(super) fn multicasts(
    world: &Inner,
    groups: &Groups,
    windows: &[MulticastBuffer],
    addresses: &[u64],
    sizes: [u64; 2],
) -> Result<Multicasts, Error> {
    let slice = |window: &MulticastBuffer, rank: u32| {
        let number = window.space as usize % 2;
        DeviceSlice { address: addresses[2 * rank as usize + number], bytes: sizes[number].max(1) }
    };
    Multicasts::new(world, groups, "scratch", windows, slice)
}

/// Returns a device's table of scratch.
pub(super) fn table(addresses: &[u64], distances: &abi::Distances) -> Vec<u64> {
    addresses.iter().chain(distances).copied().collect()
}

impl PlanState {
    /// Grows every rank's plain scratch and packets to at least these sizes. Pending launches may use the present
    /// scratch, so it is replaced only after they are complete. If a graph may use it on any rank, it is kept beside the
    /// new one on all ranks: plans that were prepared before use it also in launches that are not captured, because the launch
    /// of another rank that they belong to may be in a graph.
    pub(in crate::cuda) fn grow_scratch(&self, world: &Inner, [plain, packets]: [u64; 2]) -> Result<(), Error> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if plain <= scratch.sizes[0] && packets <= scratch.sizes[1] {
            return Ok(());
        }
        let windows = self.groups.windows([Space::Scratch, Space::Packets]);
        let sizes = [plain.max(scratch.sizes[0]), packets.max(scratch.sizes[1])].map(allocation_size);
        // All that is allocated is there before anything is replaced.
        let num_areas = (scratch.retired.len() + 2) * world.ranks as usize;
        let grow = || -> Result<_, Error> {
            let own = ScratchMemory::new(world, &windows, sizes)?;
            for (&number, device) in world.numbers.iter().zip(&world.devices) {
                device.driver().initialize(&own.ranges(world, number), &[])?;
            }
            let areas = self.parts.iter().map(|part| part.packets.table(num_areas)).collect::<driver::Result<_>>()?;
            Ok((own, areas))
        };
        let grown: Result<(ScratchMemory, Vec<DeviceMemory>), Error> = grow();
        // A captured call cannot wait for launches.
        let is_captured = is_captured_set_up() || self.is_captured.load(Relaxed);
        let ((own, areas), peers, keeps) = match &world.group {
            None => (grown?, Vec::new(), is_captured),
            Some(group) => {
                let slices = grown.as_ref().map(|(own, _)| own.shared().collect());
                let (shared, is_captured) = group.share_with("scratch", slices.map_err(Clone::clone), is_captured)?;
                (grown?, shared, is_captured)
            }
        };
        if !keeps {
            world.wait_for_launches()?;
        }
        let _unused = Unused::begin();
        let addresses = own.addresses(world, &peers, sizes[0])?;
        let multicasts = multicasts(world, &self.groups, &windows, &addresses, sizes)?;
        let (mut tables, mut own_tables) = (Vec::new(), Vec::new());
        for (at, (part, distances)) in self.parts.iter().zip(&multicasts.distances).enumerate() {
            let (driver, table) = (part.tables.device.driver(), table(&addresses, distances));
            if keeps {
                let memory = DeviceMemory::holding(driver, &table)?;
                tables.push(memory.address());
                own_tables.push(memory);
            } else {
                driver.memcpy_to_device(scratch.tables[at], bytemuck::cast_slice(&table))?;
            }
        }
        {
            let kept = scratch.retired.iter().chain(keeps.then_some(&*scratch)).map(|scratch| &scratch.own);
            let all: Vec<&ScratchMemory> = kept.chain([&own]).collect();
            for ((&number, part), table) in world.numbers.iter().zip(&self.parts).zip(areas) {
                part.packets.set(table, all.iter().flat_map(|own| own.packets(world, number)))?;
            }
        }
        // Plans that were prepared before use this scratch too, unless they keep theirs.
        let places: Arc<Places> = if keeps { Arc::default() } else { Arc::clone(&scratch.places) };
        places.set(&addresses, sizes);
        let grown = Scratch { multicasts, own, peers, tables, own_tables, sizes, places, retired: Vec::new() };
        let mut old = std::mem::replace(&mut *scratch, grown);
        scratch.retired = std::mem::take(&mut old.retired);
        // Its memory is freed at the end of this function.
        let _old = if keeps {
            scratch.retired.push(old);
            None
        } else {
            scratch.tables = std::mem::take(&mut old.tables);
            scratch.own_tables = std::mem::take(&mut old.own_tables);
            drop((std::mem::take(&mut old.multicasts), std::mem::take(&mut old.peers)));
            Some(old)
        };
        // CUDA does not specify what happens to memory that is freed before other processes have unmapped it.
        match &world.group {
            Some(group) => group.agree("scratch given back", Ok(())),
            None => Ok(()),
        }
    }

    /// Returns the address of a device's table of the present scratch.
    pub(in crate::cuda) fn scratch_table(&self, part: usize) -> u64 {
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.tables.get(part).copied().unwrap_or(0)
    }

    /// Returns where the present scratch is, also after it grows.
    pub(in crate::cuda) fn scratch_places(&self) -> Arc<Places> {
        Arc::clone(&self.scratch.lock().unwrap_or_else(PoisonError::into_inner).places)
    }

    /// Returns the bytes of the present scratch of this process' ranks.
    pub(in crate::cuda) fn scratch_bytes(&self) -> u64 {
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.own.storages.iter().map(Storage::bytes).sum()
    }

    /// Returns the switch channels over scratch.
    pub(in crate::cuda) fn switch_paths(&self) -> Vec<SwitchPath> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).multicasts.switches.clone()
    }

    /// Overwrites the plain scratch of this process' ranks with pseudo-random bytes. The devices are idle.
    pub(in crate::cuda) fn scramble_scratch(&self, world: &Inner, seed: u64) -> Result<(), Error> {
        // The pattern is one megabyte and repeats; its words differ, so the repetition does no harm.
        let (mut random, mut pattern) = (Random(seed), Vec::new());
        pattern.resize_with(1 << 17, || random.next());
        let pattern: &[u8] = bytemuck::cast_slice(&pattern);
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        for ((_, device), &[DeviceSlice { address, bytes }, _]) in world.local().zip(&scratch.own.areas) {
            for at in (0..bytes).step_by(pattern.len()) {
                let len = (bytes - at).min(pattern.len() as u64) as usize;
                device.driver().memcpy_to_device(address + at, &pattern[..len])?;
            }
        }
        Ok(())
    }
}
