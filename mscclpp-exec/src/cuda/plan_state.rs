//! State of a plan on the devices of an executor.

mod device;
mod scratch;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(super) use self::device::DevicePlanState;
use self::device::{Contents, DeviceTables, NodeLinks};
pub(super) use self::scratch::Places;
use self::scratch::{Scratch, ScratchMemory, allocation_size};
use super::counts::CountReports;
use super::executor::Inner;
use super::ipc::PeerMemory;
use super::nodes::Markers;
use super::proxy::{Failure, Proxies};
use super::switch::Groups;
use super::tables::{Counters, Tables};
use mscclpp_base::error::{CountOverflow, Error, LaunchAborted, Stall};
use mscclpp_base::interpret::check_nodes;
use mscclpp_base::interpret::{ResolvedPlan, Space};
use mscclpp_base::passes::insert_launch_barriers::{
    LaunchBarriers, Placement, insert_launch_barriers, needed_barriers,
};
use mscclpp_cuda::abi;
use mscclpp_cuda::driver;
use mscclpp_cuda::memory::MappedMemory;
use mscclpp_cuda::slice::DeviceSlice;

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
    /// Of a plan with counts.
    counts: Option<CountReports>,
    /// Whether other devices take part.
    spans: bool,
    /// This process' rank in its group; 0 without a group.
    rank: u32,
    scratch: Mutex<Scratch>,
    /// Whether a launch was captured, so that a graph may use the present scratch at any time.
    is_captured: AtomicBool,
    pub(super) groups: Groups,
    /// Mapped counters of other processes' ranks.
    _peers: Vec<PeerMemory>,
}

/// Signals by which a device announces the beginning of a launch.
struct Begin {
    /// Address of the counter that they increment, which also counts the signals for the end of a launch, if any.
    counter: u64,
    /// Ranks of that device.
    ranks: Vec<u32>,
}

impl PlanState {
    /// Creates the state of a plan, with scratch of at least these sizes of plain scratch and packets: one allocation for all
    /// tables of a device and one for its scratch, filled by one call of the driver, which waits once.
    pub(super) fn new(world: &Inner, mut program: ResolvedPlan, sizes: [u64; 2]) -> Result<Self, Error> {
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
        let (tables, groups) = (Tables::new(&program), Groups::new(&program, world));
        let windows = groups.windows([Space::Scratch, Space::Packets]);
        let sizes = sizes.map(allocation_size);
        let allocate = || -> driver::Result<_> {
            let devices = world.numbers.iter().zip(&world.devices);
            let of_devices =
                devices.map(|(&number, device)| DeviceTables::new(world, &program, &groups, number, device));
            Ok((of_devices.collect::<driver::Result<Vec<_>>>()?, ScratchMemory::new(world, &windows, sizes)?))
        };
        let allocated = allocate().map_err(Error::from);
        let ((memories, own), counters_of, peers) = match &world.group {
            None => (allocated?, Vec::new(), Vec::new()),
            Some(group) => {
                let slices = |(memories, own): &(Vec<DeviceTables>, ScratchMemory)| {
                    memories.iter().filter_map(DeviceTables::shared).chain(own.shared()).collect()
                };
                let text = format!("memory of plan `{}`", program.plan.name());
                let slices = allocated.as_ref().map(slices).map_err(Clone::clone);
                let mut shared = group.share(&text, slices)?;
                let first = |(rank, memories): (u32, &mut Vec<PeerMemory>)| match memories.is_empty() {
                    true => Err(group.malformed(rank)),
                    false => Ok(memories.remove(0)),
                };
                let counters = (0..).zip(&mut shared).map(first).collect::<Result<Vec<_>, Error>>()?;
                (allocated?, counters, shared)
            }
        };
        let counters_at: Vec<u64> = match &world.group {
            None => world.device_of.iter().map(|&device| memories[device as usize].counters()).collect(),
            Some(_) => counters_of.iter().map(PeerMemory::address).collect(),
        };
        let addresses = own.addresses(world, &peers, sizes[0])?;
        let multicasts = scratch::multicasts(world, &groups, &windows, &addresses, sizes)?;
        let counters = Counters::new(&program);
        let initial = counters.initial(&program);
        let parts = || -> Result<_, Error> {
            let flags = Arc::new(MappedMemory::new(world.devices[0].driver(), 64)?);
            let reports = program.is_counted.then(|| CountReports::new(world.devices[0].driver(), world.ranks));
            let reports = reports.transpose()?;
            let areas = (0..).zip(&counters_at).map(|(rank, of)| of + counters.count_area(rank));
            let counts: Vec<u64> = areas.chain(reports.iter().flat_map(CountReports::addresses)).collect();
            let counts = &counts[..if program.is_counted { counts.len() } else { 0 }];
            let part = |((&number, memory), distances): ((&u32, DeviceTables), &abi::Distances)| {
                let mark = marks.get(number as usize).copied().flatten();
                let markers = mark.map(|mark| mark.map(|mark| memory.counters() + counters.inbound(mark)));
                let ways = markers.zip(several).map(|([begin, end], group)| {
                    let is_here = |rank: u32| world.device_of[rank as usize] == number;
                    let peers = links.iter().filter(|&&(rank, _)| is_here(rank)).map(|&(_, peer)| peer).collect();
                    NodeLinks { group, peers, markers: Markers { begin, end } }
                });
                let mut instrs = tables.instrs.clone();
                groups.mark(world, number, &mut instrs);
                let contents = Contents {
                    instrs: &instrs,
                    operands: &tables.operands,
                    ids: &tables.ids(&program, &counters, &memory.numbers, memory.counters(), |rank| {
                        counters_at[rank as usize]
                    }),
                    counters: &initial,
                    counts,
                    scratch: &scratch::table(&addresses, distances),
                    zeros: &own.ranges(world, number),
                };
                DevicePlanState::new(memory, &program, &contents, own.packets(world, number), &flags, ways)
            };
            let devices = world.numbers.iter().zip(memories).zip(&multicasts.distances);
            let parts = devices.map(part).collect::<Result<Vec<_>, Error>>()?;
            Ok((parts, flags, reports))
        };
        let (parts, flags, reports) = world.agree(&format!("tables of plan `{}`", program.plan.name()), parts())?;
        if let Some(group) = several {
            group.connect_nodes(parts.iter().find_map(|part: &DevicePlanState| part.proxies.as_ref()))?;
        }
        let places = Arc::new(Places::default());
        places.set(&addresses, sizes);
        let scratch = Scratch {
            multicasts,
            own,
            peers,
            tables: parts.iter().map(DevicePlanState::first_scratch_table).collect(),
            own_tables: Vec::new(),
            sizes,
            places,
            retired: Vec::new(),
        };
        let rank = world.group.as_ref().map_or(0, |group| group.rank);
        let ranks_beside = |peer: u32| {
            let device = world.device_of[peer as usize];
            (0..world.ranks).filter(|&rank| world.device_of[rank as usize] == device).collect()
        };
        let of_part = |(&number, part): (&u32, &DevicePlanState)| {
            let channels = begins.get(number as usize).into_iter().flatten();
            let begin = |&channel: &u32| Begin {
                counter: part.tables.counters() + counters.inbound(channel),
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
            counts: reports,
            spans,
            rank,
            scratch: Mutex::new(scratch),
            is_captured: AtomicBool::new(false),
            groups,
            _peers: counters_of,
            counters,
            program: Arc::new(program),
        })
    }

    /// Records that a launch was captured: its scratch is kept.
    pub(super) fn keep_for_graphs(&self) {
        self.is_captured.store(true, Relaxed);
    }

    /// Returns the counts of the first launch in which they exceeded what it had room for, since the last call.
    pub(super) fn take_overflow(&self) -> Option<CountOverflow> {
        self.counts.as_ref().and_then(CountReports::take)
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
            let mut reports = vec![<abi::WaitReport as bytemuck::Zeroable>::zeroed(); part.tables.numbers.len()];
            part.tables.device.driver().memcpy_to_host(bytemuck::cast_slice_mut(&mut reports), part.reports().0)?;
            all.extend(part.tables.numbers.iter().copied().zip(reports).filter(|(_, report)| report.state != 0));
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
                part.tables.device.driver().memcpy_to_host(bytemuck::bytes_of_mut(&mut signals), *counter)?;
                if signals < begun {
                    absent.extend(ranks);
                }
            }
        }
        Ok(absent.into_iter().collect())
    }

    /// Sets the state to that after a number of launches. No launch is pending.
    pub(super) fn skip_to(&self, launches: u64) -> Result<(), Error> {
        let counters = self.counters.after(&self.program, launches);
        Ok(self.parts.iter().try_for_each(|part| part.skip_to(launches, &counters))?)
    }

    /// Restores the state before the first launch. No launch is pending.
    pub(super) fn reset(&self, world: &Inner) -> Result<(), Error> {
        self.skip_to(0)?;
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        for (&number, part) in world.numbers.iter().zip(&self.parts) {
            // Flags restart, so packets of earlier launches must be cleared. They also restart after 2^32 - 1 launches, before
            // which launches clear old packets themselves.
            let all = scratch.retired.iter().chain([&*scratch]);
            let packets = all.flat_map(|scratch| scratch.own.packets(world, number));
            let packets = packets.map(|DeviceSlice { address, bytes }| (address, bytes));
            let zeros: Vec<(u64, u64)> = packets.chain([part.reports()]).collect();
            part.tables.device.driver().initialize(&zeros, &[])?;
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
