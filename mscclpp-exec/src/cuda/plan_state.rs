//! State of a plan on the devices of an executor.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::executor::Inner;
use super::ipc::{IpcGroup, PeerMemory};
use super::nodes::{Ends, Markers, NodeConnections, Traffic};
use super::packet_areas::PacketAreas;
use super::proxy::{Failure, Proxies};
use super::ranges;
use super::records::Records;
use super::specialize::SpecializedKernels;
use super::switch::{Groups, MulticastBuffer, Multicasts, SwitchPath};
use super::tables::{Counters, Tables};
use mscclpp_base::error::{Error, LaunchAborted, Stall};
use mscclpp_base::interpret::check_nodes;
use mscclpp_base::interpret::{Params, ResolvedPlan, Space};
use mscclpp_base::passes::insert_launch_barriers::{
    LaunchBarriers, Placement, insert_launch_barriers, needed_barriers,
};
use mscclpp_base::random::Random;
use mscclpp_cuda::abi;
use mscclpp_cuda::capture::is_captured_set_up;
use mscclpp_cuda::device::Device;
use mscclpp_cuda::driver;
use mscclpp_cuda::memory::{DeviceMemory, MappedMemory, Storage};
use mscclpp_cuda::slice::DeviceSlice;
use mscclpp_cuda::unused::Unused;

/// State of a plan on the devices of an executor. Launches of all sizes share it, one at a time.
pub(super) struct PlanState {
    pub(super) program: Arc<ResolvedPlan>,
    counters: Counters,
    /// State of each device.
    pub(super) parts: Vec<DevicePlanState>,
    /// By device: the other devices of its node, whose launches it does not wait for at its beginning.
    begins: Vec<Vec<Begin>>,
    /// Number of signals of a launch on each channel of `begins`.
    signals: u64,
    /// The `AbortFlags`.
    flags: Arc<MappedMemory>,
    /// Whether other devices take part.
    spans: bool,
    /// This process' rank in its group; 0 without a group.
    rank: u32,
    scratch: Mutex<Scratch>,
    /// Whether a launch was captured, so that a graph may use the present scratch at any time.
    is_captured: AtomicBool,
    pub(super) groups: Groups,
    /// Mapped counters of other processes' ranks.
    _peers: Vec<Vec<PeerMemory>>,
}

/// Signals by which a device announces the beginning of a launch.
struct Begin {
    /// Address of the counter that they increment, which also counts the signals for the end of a launch, if any.
    counter: u64,
    /// Ranks of that device.
    ranks: Vec<u32>,
}

#[derive(Default)]
struct Scratch {
    // Dropped before the memory that it maps.
    multicasts: Multicasts,
    /// Plain scratch and packets of every rank of this process.
    own: Vec<[Storage; 2]>,
    /// Mapped scratch of the ranks of other processes.
    _peers: Vec<Vec<PeerMemory>>,
    /// Of each device: addresses of all ranks' scratch, and distances to multicast addresses. A table keeps its address when
    /// the scratch in it is replaced.
    tables: Vec<DeviceMemory>,
    /// Bytes of plain scratch and of packets of each rank: the same on all ranks, as the halves of double scratch are.
    sizes: [u64; 2],
    halves: Arc<Halves>,
    /// Scratch with tables of its own that graphs may use, and plans that were prepared before it was replaced.
    retired: Vec<Scratch>,
}

/// Distances from the first half to the second one of plain scratch and of packets. They depend on the allocations, not on the
/// message: launches of different sizes that overlap use different memory.
#[derive(Default)]
pub(super) struct Halves([AtomicU64; 2]);

impl Halves {
    fn set(&self, sizes: [u64; 2]) {
        self.0.iter().zip(sizes).for_each(|(half, bytes)| half.store(bytes / 2, Relaxed));
    }

    pub(super) fn get(&self) -> [u64; 2] {
        [self.0[0].load(Relaxed), self.0[1].load(Relaxed)]
    }
}

/// Returns the bytes to allocate for scratch, so that it need not grow again for each larger message.
fn allocation_size(bytes: u64) -> u64 {
    /// Sizes that the driver maps.
    const MIN: u64 = 64 << 10;
    const UNIT: u64 = 2 << 20;
    match bytes {
        0 => 0,
        1..UNIT => bytes.max(MIN).next_power_of_two(),
        _ => bytes.checked_next_multiple_of(UNIT).unwrap_or(bytes),
    }
}

/// State of a plan on one device.
pub(super) struct DevicePlanState {
    pub(super) device: Device,
    // Stopped before the memory that they copy to is freed.
    pub(super) proxies: Option<Proxies>,
    /// The device's thread blocks, by their numbers in the resolved plan, ascending.
    pub(super) numbers: Vec<u32>,
    counters: Storage,
    blocks: Vec<abi::Block>,
    records: Records,
    /// Number of launches that each thread block has finished.
    launches: DeviceMemory,
    packets: PacketAreas,
    instrs: DeviceMemory,
    operands: DeviceMemory,
    ids: DeviceMemory,
    state: DeviceMemory,
    reports: DeviceMemory,
    pub(super) specialized: SpecializedKernels,
}

impl PlanState {
    pub(super) fn new(world: &Inner, mut program: ResolvedPlan) -> Result<Self, Error> {
        let spans = world.spans();
        let several = world.group.as_ref().filter(|group| group.remote_regions.is_some());
        let mut links = BTreeSet::new();
        let mut barriers = LaunchBarriers { marks: Vec::new(), begins: Vec::new(), signals: 0 };
        if let Some(group) = several {
            check_nodes(&program, &group.nodes)?;
            links = mscclpp_base::interpret::links(&program, &group.nodes);
        }
        if spans {
            let remote: BTreeSet<u32> = links.iter().map(|&(rank, _)| rank).collect();
            let remote: Vec<u32> = remote.into_iter().collect();
            // In a group every rank has its own device; without a group all ranks are on one node.
            let node_of = several.map_or_else(|| vec![0; world.device_of.len()], |group| group.nodes.clone());
            let placement = Placement { device_of: &world.device_of, node_of: &node_of, far: &remote };
            let needed = needed_barriers(&program, &placement);
            barriers = insert_launch_barriers(&mut program, &placement, needed);
        }
        let LaunchBarriers { marks, begins, signals } = barriers;
        let counters = Counters::new(&program);
        let initial = counters.initial(&program);
        let hold = |device: &Device| -> Result<Storage, Error> {
            let bytes: &[u8] = bytemuck::cast_slice(&initial);
            let memory = world.alloc_internal(device, bytes.len() as u64)?;
            device.driver().memcpy_to_device(memory.address(), bytes)?;
            Ok(memory)
        };
        let memories = world.devices.iter().map(hold).collect::<Result<Vec<_>, Error>>();
        let (memories, shared) = match &world.group {
            None => (memories?, Vec::new()),
            Some(group) => {
                let slices = memories.as_ref().map(|own| own.iter().map(Storage::as_slice).collect());
                let text = format!("counters of plan `{}`", program.plan.name());
                let shared = group.share(&text, slices.map_err(Clone::clone))?;
                (memories?, shared)
            }
        };
        let counters_of: Vec<u64> = match &world.group {
            None => world.device_of.iter().map(|&device| memories[device as usize].address()).collect(),
            Some(_) => shared.iter().flatten().map(PeerMemory::address).collect(),
        };
        let tables = Tables::new(&program);
        let groups = Groups::new(&program, world);
        let parts = || -> Result<_, Error> {
            let flags = Arc::new(MappedMemory::new(world.devices[0].driver(), 64)?);
            let part = |((&number, device), memory): ((&u32, &Device), Storage)| {
                let is_here = |rank: u32| world.device_of[rank as usize] == number;
                let mark = marks.get(number as usize).copied().flatten();
                let markers = mark.map(|mark| mark.map(|mark| memory.address() + counters.inbound(mark)));
                let ways = markers.zip(several).map(|([begin, end], group)| {
                    let peers = links.iter().filter(|&&(rank, _)| is_here(rank)).map(|&(_, peer)| peer).collect();
                    NodeLinks { group, peers, markers: Markers { begin, end } }
                });
                let mut instrs = tables.instrs.clone();
                groups.mark(world, number, &mut instrs);
                DevicePlanState::new(
                    device,
                    &program,
                    (&tables, &instrs, &groups),
                    &counters,
                    (memory, &counters_of),
                    &flags,
                    is_here,
                    ways,
                )
            };
            let devices = world.numbers.iter().zip(&world.devices);
            let parts = devices.zip(memories).map(part).collect::<Result<Vec<_>, Error>>()?;
            Ok((parts, flags))
        };
        let (parts, flags) = world.agree(&format!("tables of plan `{}`", program.plan.name()), parts())?;
        if let Some(group) = several {
            group.connect_nodes(parts.iter().find_map(|part: &DevicePlanState| part.proxies.as_ref()))?;
        }
        let rank = world.group.as_ref().map_or(0, |group| group.rank);
        let ranks_beside = |peer: u32| {
            let device = world.device_of[peer as usize];
            (0..world.ranks).filter(|&rank| world.device_of[rank as usize] == device).collect()
        };
        let of_part = |(&number, part): (&u32, &DevicePlanState)| {
            let channels = begins.get(number as usize).into_iter().flatten();
            let begin = |&channel: &u32| Begin {
                counter: part.counters.address() + counters.inbound(channel),
                ranks: ranks_beside(program.channels[channel as usize].peer),
            };
            channels.map(begin).collect()
        };
        let begins = world.numbers.iter().zip(&parts).map(of_part).collect();
        Ok(Self {
            parts,
            begins,
            signals,
            flags,
            spans,
            rank,
            scratch: Mutex::default(),
            is_captured: AtomicBool::new(false),
            groups,
            _peers: shared,
            counters,
            program: Arc::new(program),
        })
    }

    /// Grows every rank's plain scratch and packets to at least these sizes. Pending launches may use the present
    /// scratch, so it is replaced only after they are complete. If a graph may use it on any rank, it is kept beside the
    /// new one on all ranks: plans that were prepared before use it also in launches that are not captured, because the launch
    /// of another rank that they belong to may be in a graph.
    pub(super) fn grow_scratch(&self, world: &Inner, [plain, packets]: [u64; 2]) -> Result<(), Error> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let windows = self.groups.windows([Space::Scratch, Space::Packets]);
        if !scratch.own.is_empty() && plain <= scratch.sizes[0] && packets <= scratch.sizes[1] {
            return Ok(());
        }
        let sizes = [plain.max(scratch.sizes[0]), packets.max(scratch.sizes[1])].map(allocation_size);
        let [plain, packets] = sizes;
        let grow = |(_, device): (u32, &Device)| {
            let memory = |space, bytes| match windows.iter().any(|window| window.space == space && window.is_possible())
            {
                true => Ok(Storage::shared(device.driver(), bytes, &world.others(device))?),
                false => world.alloc_internal(device, bytes),
            };
            Ok([memory(Space::Scratch, plain)?, memory(Space::Packets, packets)?])
        };
        // All that is allocated is there before anything is replaced.
        let num_areas = (scratch.retired.len() + 2) * world.ranks as usize;
        let grown = world.local().map(grow).collect::<Result<Vec<_>, Error>>().and_then(|own| {
            let areas =
                self.parts.iter().map(|part| part.packets.table(num_areas)).collect::<driver::Result<Vec<_>>>()?;
            Ok((own, areas))
        });
        // A captured call cannot wait for launches.
        let is_captured = is_captured_set_up() || self.is_captured.load(Relaxed);
        let ((grown, areas), shared, is_captured) = match &world.group {
            None => (grown?, Vec::new(), is_captured),
            Some(group) => {
                let slices = grown.as_ref().map(|(own, _)| own.iter().flatten().map(Storage::as_slice).collect());
                let (shared, is_captured) = group.share_with("scratch", slices.map_err(Clone::clone), is_captured)?;
                (grown?, shared, is_captured)
            }
        };
        let keeps = is_captured && !scratch.own.is_empty();
        if !scratch.own.is_empty() && !keeps {
            world.wait_for_launches()?;
        }
        let _unused = Unused::begin();
        let addresses: Vec<u64> = match &world.group {
            None => grown.iter().flatten().map(Storage::address).collect(),
            Some(_) => shared.iter().flatten().map(PeerMemory::address).collect(),
        };
        let slice = |window: &MulticastBuffer, rank: u32| {
            let number = window.space as usize % 2;
            DeviceSlice { address: addresses[2 * rank as usize + number], bytes: [plain, packets][number].max(1) }
        };
        let multicasts = Multicasts::new(world, &self.groups, "scratch", &windows, slice)?;
        let table = |distances: &abi::Distances| addresses.iter().chain(distances).copied().collect::<Vec<u64>>();
        let parts = self.parts.iter().zip(&multicasts.distances);
        let mut retired = std::mem::take(&mut scratch.retired);
        let mut tables = Vec::new();
        if keeps || scratch.tables.is_empty() {
            let hold = |(part, distances): (&DevicePlanState, _)| {
                DeviceMemory::holding(part.device.driver(), &table(distances))
            };
            tables = parts.map(hold).collect::<driver::Result<_>>()?;
        } else {
            for ((part, distances), memory) in parts.zip(&scratch.tables) {
                let table = table(distances);
                part.device.driver().memcpy_to_device(memory.address(), bytemuck::cast_slice(&table))?;
            }
        }
        {
            let owns = retired.iter().chain(keeps.then_some(&*scratch)).map(|scratch| &scratch.own).chain([&grown]);
            self.set_packet_areas(world, areas, &owns.collect::<Vec<_>>())?;
        }
        let mut old = std::mem::take(&mut *scratch);
        if tables.is_empty() {
            tables = std::mem::take(&mut old.tables);
        }
        let had_scratch = !old.own.is_empty();
        let Scratch { multicasts: old_multicasts, own: _own, _peers: mapped, halves: old_halves, .. } = match keeps {
            true => {
                retired.push(old);
                Scratch::default()
            }
            false => old,
        };
        // Plans that were prepared before use these halves too, unless they keep their scratch.
        let halves = old_halves;
        halves.set(sizes);
        *scratch = Scratch { multicasts, own: grown, _peers: shared, tables, sizes, halves, retired };
        drop((old_multicasts, mapped));
        // CUDA does not specify what happens to memory that is freed before other processes have unmapped it.
        match &world.group {
            Some(group) if had_scratch => group.agree("scratch given back", Ok(())),
            _ => Ok(()),
        }
    }

    /// Lets launches search the packets in this scratch of this process' ranks for old ones.
    fn set_packet_areas(
        &self,
        world: &Inner,
        tables: Vec<DeviceMemory>,
        owns: &[&Vec<[Storage; 2]>],
    ) -> Result<(), Error> {
        for ((&number, part), table) in world.numbers.iter().zip(&self.parts).zip(tables) {
            let of_ranks = owns.iter().flat_map(|own| world.local().zip(*own));
            let here = of_ranks.filter(|((rank, _), _)| world.device_of[*rank as usize] == number);
            part.packets.set(table, here.map(|(_, [_, packets])| packets.as_slice()))?;
        }
        Ok(())
    }

    /// Returns the address of a device's table of the present scratch.
    pub(super) fn scratch_table(&self, part: usize) -> u64 {
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.tables.get(part).map_or(0, DeviceMemory::address)
    }

    /// Returns the halves of the present scratch, also after it grows.
    pub(super) fn scratch_halves(&self) -> Arc<Halves> {
        Arc::clone(&self.scratch.lock().unwrap_or_else(PoisonError::into_inner).halves)
    }

    /// Returns the bytes of the present scratch of this process' ranks.
    pub(super) fn scratch_bytes(&self) -> u64 {
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.own.iter().flatten().map(Storage::bytes).sum()
    }

    /// Records that a launch was captured: its scratch is kept.
    pub(super) fn keep_for_graphs(&self) {
        self.is_captured.store(true, Relaxed);
    }

    /// Returns the switch channels over scratch.
    pub(super) fn switch_paths(&self) -> Vec<SwitchPath> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).multicasts.switches.clone()
    }

    /// Returns whether a launch aborted.
    pub(super) fn has_aborted(&self) -> bool {
        self.flags.word(abi::AbortFlags::DEVICE).load(Acquire) != 0
    }

    /// Requests a pending launch to abort.
    pub(super) fn abort(&self) {
        self.flags.word(abi::AbortFlags::HOST).store(1, Relaxed);
    }

    /// Returns whether an abort was requested.
    pub(super) fn is_abort_requested(&self) -> bool {
        self.flags.word(abi::AbortFlags::HOST).load(Acquire) != 0
    }

    /// Withdraws the abort request, after launches that have not aborted.
    pub(super) fn clear_abort(&self) {
        self.flags.word(abi::AbortFlags::HOST).store(0, Relaxed);
    }

    /// Waits until port channels have drained: no copy is pending any more. The devices are idle. `timeout` limits how
    /// long a rank on another node may make no progress in receiving.
    pub(super) fn drain(&self, timeout: Duration) -> Result<(), Error> {
        let aborted = self.has_aborted();
        let rest = |proxies: &Proxies| if aborted { Ok(proxies.reset()?) } else { proxies.drain(timeout, || false) };
        let settled = self.parts.iter().filter_map(|part| part.proxies.as_ref()).try_for_each(rest);
        settled.map_err(|failure| match failure {
            Failure::Error(error) => error,
            Failure::Cause(cause) => {
                let (plan, blocks) = (self.program.plan.name().to_owned(), self.program.agents.len());
                let rank = self.rank;
                let stall = Stall { plan, launch: 0, num_blocks: blocks, blocked: Vec::new() };
                Error::Interrupted(Box::new(LaunchAborted { rank, cause: Box::new(cause), stall }))
            }
        })
    }

    /// Returns what every thread block that aborted was waiting for, by its number in the resolved plan.
    pub(super) fn reports(&self) -> Result<Vec<(u32, abi::WaitReport)>, Error> {
        let mut all = Vec::new();
        for part in &self.parts {
            let mut reports = vec![<abi::WaitReport as bytemuck::Zeroable>::zeroed(); part.numbers.len()];
            part.device.driver().memcpy_to_host(bytemuck::cast_slice_mut(&mut reports), part.reports.address())?;
            all.extend(part.numbers.iter().copied().zip(reports).filter(|(_, report)| report.state != 0));
        }
        all.sort_by_key(|(number, _)| *number);
        Ok(all)
    }

    /// Returns the ranks that have not begun a launch, counted from 1, as far as the devices of this process can tell;
    /// none where a barrier at the beginning of the launch names them.
    pub(super) fn absent(&self, launch: u64) -> Result<Vec<u32>, Error> {
        // The first signal of a launch announces its beginning.
        let begun = (self.signals * launch + 1).saturating_sub(self.signals);
        let mut absent = BTreeSet::new();
        for (part, begins) in self.parts.iter().zip(&self.begins) {
            for Begin { counter, ranks } in begins {
                let mut signals = 0_u64;
                part.device.driver().memcpy_to_host(bytemuck::bytes_of_mut(&mut signals), *counter)?;
                if signals < begun {
                    absent.extend(ranks);
                }
            }
        }
        Ok(absent.into_iter().collect())
    }

    /// Overwrites the plain scratch of this process' ranks with pseudo-random bytes. The devices are idle.
    pub(super) fn scramble_scratch(&self, seed: u64) -> Result<(), Error> {
        // The pattern is one megabyte and repeats; its words differ, so the repetition does no harm.
        let (mut random, mut pattern) = (Random(seed), Vec::new());
        pattern.resize_with(1 << 17, || random.next());
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(scratch.own.iter().try_for_each(|[plain, _]| plain.tile(bytemuck::cast_slice(&pattern)))?)
    }

    /// Sets the state to that after a number of launches. No launch is pending.
    pub(super) fn skip_to(&self, launches: u64) -> Result<(), Error> {
        let counters = self.counters.after(&self.program, launches);
        let state: abi::LaunchState = bytemuck::Zeroable::zeroed();
        for part in &self.parts {
            let driver = part.device.driver();
            driver.memcpy_to_device(part.counters.address(), bytemuck::cast_slice(&counters))?;
            driver.memcpy_to_device(part.state.address(), bytemuck::bytes_of(&state))?;
            let launches = vec![launches; part.numbers.len()];
            driver.memcpy_to_device(part.launches.address(), bytemuck::cast_slice(&launches))?;
        }
        Ok(())
    }

    /// Restores the state before the first launch. No launch is pending.
    pub(super) fn reset(&self) -> Result<(), Error> {
        self.skip_to(0)?;
        for part in &self.parts {
            part.reports.clear()?;
        }
        // Flags restart, so packets of earlier launches must be cleared. They also restart after 2^32 - 1 launches, before
        // which launches clear old packets themselves.
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        for [_, packets] in scratch.retired.iter().chain([&*scratch]).flat_map(|scratch| &scratch.own) {
            packets.clear()?;
        }
        drop(scratch);
        for proxies in self.parts.iter().filter_map(|part| part.proxies.as_ref()) {
            proxies.reset()?;
        }
        self.flags.word(abi::AbortFlags::HOST).store(0, Relaxed);
        self.flags.word(abi::AbortFlags::DEVICE).store(0, Relaxed);
        Ok(())
    }
}

/// How a device's rank reaches the ranks of other nodes.
struct NodeLinks<'a> {
    group: &'a IpcGroup,
    peers: Vec<u32>,
    markers: Markers,
}

impl DevicePlanState {
    /// Creates the state of a device; `memory` is its counters and the addresses of those of every rank.
    #[expect(clippy::too_many_arguments, reason = "all of it is the caller's")]
    fn new(
        device: &Device,
        program: &ResolvedPlan,
        (tables, instrs, groups): (&Tables, &[abi::Instr], &Groups),
        counters: &Counters,
        (memory, of): (Storage, &[u64]),
        flags: &Arc<MappedMemory>,
        is_here: impl Fn(u32) -> bool,
        ways: Option<NodeLinks<'_>>,
    ) -> Result<Self, Error> {
        let driver = device.driver();
        let agents = (0..).zip(&program.agents).filter(|(_, code)| is_here(code.rank));
        let numbers: Vec<u32> = agents.map(|(number, _)| number).collect();
        let queues: Vec<u32> = program.proxies.iter().copied().filter(|&rank| is_here(rank)).collect();
        let ids = tables.ids(program, counters, &numbers, memory.address(), |rank| of[rank as usize]);
        let mut blocks = Tables::blocks(program, &numbers, &queues);
        let specialized = SpecializedKernels::new(program, groups, &mut blocks);
        let wires = match ways {
            Some(NodeLinks { group, peers, markers }) => {
                let regions =
                    group.remote_regions.as_ref().ok_or_else(|| Error::Internal("markers on one node".into()))?;
                let ends = Ends::new(program, &group.nodes, group.rank);
                let memories = (regions, &group.stagings);
                let traffic = Traffic::Plan { plan: program.plan.clone(), markers, ends };
                Some(NodeConnections::new(device, group.bootstrap(), memories, traffic, &peers)?)
            }
            None => None,
        };
        Ok(Self {
            records: Records::new(device, &blocks, (instrs, &tables.operands, &ids))?,
            launches: DeviceMemory::zeroed(driver, (numbers.len() * size_of::<u64>()) as u64)?,
            packets: PacketAreas::new(driver)?,
            instrs: DeviceMemory::holding(driver, instrs)?,
            operands: DeviceMemory::holding(driver, &tables.operands)?,
            ids: DeviceMemory::holding(driver, &ids)?,
            state: DeviceMemory::zeroed(driver, size_of::<abi::LaunchState>() as u64)?,
            reports: DeviceMemory::zeroed(driver, (numbers.len() * size_of::<abi::WaitReport>()) as u64)?,
            proxies: match queues.len() {
                0 => None,
                count => Some(Proxies::new(device, count, flags, wires)?),
            },
            specialized,
            blocks,
            counters: memory,
            numbers,
            device: device.clone(),
        })
    }

    /// Sets the kernel parameters that are the same for all launches of the plan with a message.
    pub(super) fn fill(&self, context: &PlanState, params: &Params, launch: &mut abi::LaunchParams) {
        ranges::fill(&context.program, params, &self.blocks, launch);
        self.records.fill(launch);
        launch.launches = self.launches.address();
        launch.packets = self.packets.address();
        launch.instrs = self.instrs.address();
        launch.operands = self.operands.address();
        launch.ids = self.ids.address();
        launch.fifos = self.proxies.as_ref().map_or(0, Proxies::table);
        launch.state = self.state.address();
        launch.reports = self.reports.address();
        launch.abort_flags = context.flags.device(0);
        launch.num_blocks = self.numbers.len() as u32;
        launch.num_ranks = context.program.shape.ranks;
        // Counters that the host stores and data that it copies come from outside the device.
        launch.system_scope = u32::from(context.spans || self.proxies.is_some());
    }
}
