//! State of a plan on one device: tables in one allocation, which is filled by one copy.

use std::sync::Arc;

use super::PlanState;
use crate::cuda::counts::CountReports;
use crate::cuda::executor::Inner;
use crate::cuda::ipc::IpcGroup;
use crate::cuda::nodes::{Ends, Markers, NodeConnections, Traffic};
use crate::cuda::packet_areas::PacketAreas;
use crate::cuda::proxy::Proxies;
use crate::cuda::ranges;
use crate::cuda::records::Layout;
use crate::cuda::specialize::SpecializedKernels;
use crate::cuda::switch::Groups;
use crate::cuda::tables::{Counters, Tables};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::{Params, ResolvedPlan};
use mscclpp_cuda::abi;
use mscclpp_cuda::device::Device;
use mscclpp_cuda::driver;
use mscclpp_cuda::memory::{DeviceMemory, MappedMemory, Storage};
use mscclpp_cuda::slice::DeviceSlice;

/// State of a plan on one device.
pub(in crate::cuda) struct DevicePlanState {
    // Stopped before the memory that they copy to is freed.
    pub(in crate::cuda) proxies: Option<Proxies>,
    pub(super) packets: PacketAreas,
    pub(in crate::cuda) tables: DeviceTables,
}

/// The tables of a plan on a device, and the memory for them.
pub(in crate::cuda) struct DeviceTables {
    pub(in crate::cuda) device: Device,
    /// The device's thread blocks, by their numbers in the resolved plan, ascending.
    pub(in crate::cuda) numbers: Vec<u32>,
    pub(in crate::cuda) specialized: SpecializedKernels,
    blocks: Vec<abi::Block>,
    /// Number of ranks that have a queue to the host's proxy.
    queues: usize,
    records: Layout,
    offsets: Offsets,
    memory: DeviceMemory,
    /// The counters, if ranks of other processes open them: these get nothing else.
    counters: Option<Storage>,
}

/// Byte offsets of the tables in their allocation.
#[derive(Default)]
struct Offsets {
    counters: u64,
    /// Number of launches that each thread block has finished.
    launches: u64,
    state: u64,
    reports: u64,
    packets: u64,
    /// The first table of scratch.
    scratch: u64,
    records: u64,
    instrs: u64,
    operands: u64,
    ids: u64,
    /// Of a plan with counts.
    counts: Option<u64>,
    /// Where they end.
    bytes: u64,
}

/// What the tables of a device have before the first launch.
pub(super) struct Contents<'a> {
    pub(super) instrs: &'a [abi::Instr],
    pub(super) operands: &'a [abi::Operand],
    pub(super) ids: &'a [abi::Id],
    pub(super) counters: &'a [u64],
    /// None without counts.
    pub(super) counts: &'a [u64],
    pub(super) scratch: &'a [u64],
    /// Other memory that is cleared: addresses and bytes.
    pub(super) zeros: &'a [(u64, u64)],
}

/// How a device's rank reaches the ranks of other nodes.
pub(super) struct NodeLinks<'a> {
    pub(super) group: &'a IpcGroup,
    pub(super) peers: Vec<u32>,
    pub(super) markers: Markers,
}

impl Offsets {
    /// Adds a table, at an offset that is a multiple of what one request reads.
    fn add<T>(&mut self, len: usize) -> u64 {
        const ALIGNMENT: u64 = 256;
        let at = self.bytes;
        self.bytes = (at + (len * size_of::<T>()) as u64).next_multiple_of(ALIGNMENT);
        at
    }
}

impl DeviceTables {
    /// Allocates the tables of a device.
    pub(super) fn new(
        world: &Inner,
        program: &ResolvedPlan,
        groups: &Groups,
        number: u32,
        device: &Device,
    ) -> driver::Result<Self> {
        let is_here = |rank: u32| world.device_of[rank as usize] == number;
        let agents = (0..).zip(&program.agents).filter(|(_, code)| is_here(code.rank));
        let numbers: Vec<u32> = agents.map(|(number, _)| number).collect();
        let queues: Vec<u32> = program.proxies.iter().copied().filter(|&rank| is_here(rank)).collect();
        let mut blocks = Tables::blocks(program, &numbers, &queues);
        let specialized = SpecializedKernels::new(program, groups, &mut blocks);
        let records = Layout::new(&blocks);
        let (mut at, counters) = (Offsets::default(), Counters::new(program).bytes());
        at.counters = at.add::<u8>(if world.group.is_none() { counters as usize } else { 0 });
        at.launches = at.add::<u64>(numbers.len());
        at.state = at.add::<abi::LaunchState>(1);
        at.reports = at.add::<abi::WaitReport>(numbers.len());
        at.packets = at.add::<u8>(PacketAreas::bytes(world.local().filter(|&(rank, _)| is_here(rank)).count()));
        at.scratch = at.add::<u64>(2 * world.ranks as usize + abi::Distances::default().len());
        at.records = at.add::<u8>(records.bytes(blocks.len()));
        at.instrs = at.add::<abi::Instr>(program.instrs.len());
        at.operands = at.add::<abi::Operand>(program.operands.len());
        at.ids = at.add::<abi::Id>(program.ids.len());
        at.counts = program.is_counted.then(|| at.add::<u64>(CountReports::table_len(world.ranks)));
        Ok(Self {
            memory: DeviceMemory::new(device.driver(), at.bytes)?,
            counters: world.group.as_ref().map(|_| world.alloc_internal(device, counters)).transpose()?,
            device: device.clone(),
            queues: queues.len(),
            offsets: at,
            numbers,
            blocks,
            specialized,
            records,
        })
    }

    /// Returns the address of the counters.
    pub(super) fn counters(&self) -> u64 {
        self.counters.as_ref().map_or_else(|| self.at(self.offsets.counters), Storage::address)
    }

    /// Returns the allocation that ranks of other processes open.
    pub(super) fn shared(&self) -> Option<DeviceSlice> {
        self.counters.as_ref().map(Storage::as_slice)
    }

    fn at(&self, offset: u64) -> u64 {
        self.memory.address() + offset
    }

    /// Fills the tables and clears other memory.
    fn write(&self, contents: &Contents<'_>, areas: &[[u64; 2]]) -> driver::Result<()> {
        let Contents { instrs, operands, ids, counters, counts, scratch, zeros } = *contents;
        let (at, counters) = (&self.offsets, bytemuck::cast_slice(counters));
        let mut bytes = vec![0; at.bytes as usize];
        let tables: [(u64, &[u8]); 6] = [
            (at.packets, bytemuck::cast_slice(areas)),
            (at.scratch, bytemuck::cast_slice(scratch)),
            (at.instrs, bytemuck::cast_slice(instrs)),
            (at.operands, bytemuck::cast_slice(operands)),
            (at.ids, bytemuck::cast_slice(ids)),
            (at.counts.unwrap_or_default(), bytemuck::cast_slice(counts)),
        ];
        for (at, table) in tables {
            bytes[at as usize..][..table.len()].copy_from_slice(table);
        }
        self.records.write(&self.blocks, (instrs, operands, ids), &mut bytes[at.records as usize..at.instrs as usize]);
        let own = match &self.counters {
            None => {
                bytes[at.counters as usize..][..counters.len()].copy_from_slice(counters);
                None
            }
            Some(shared) => Some((shared.address(), counters)),
        };
        let copies: Vec<(u64, &[u8])> = [(self.memory.address(), &bytes[..])].into_iter().chain(own).collect();
        self.device.driver().initialize(zeros, &copies)
    }
}

impl DevicePlanState {
    /// Creates the state of a device; `areas`: the packets of its ranks.
    pub(super) fn new(
        tables: DeviceTables,
        program: &ResolvedPlan,
        contents: &Contents<'_>,
        areas: impl Iterator<Item = DeviceSlice>,
        flags: &Arc<MappedMemory>,
        ways: Option<NodeLinks<'_>>,
    ) -> Result<Self, Error> {
        let device = &tables.device;
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
        let (packets, areas) = PacketAreas::new(device.driver(), tables.at(tables.offsets.packets), areas);
        tables.write(contents, &areas)?;
        let proxies = match tables.queues {
            0 => None,
            count => Some(Proxies::new(device, count, flags, wires)?),
        };
        Ok(Self { proxies, packets, tables })
    }

    /// Returns the address of the first table of scratch.
    pub(super) fn first_scratch_table(&self) -> u64 {
        self.tables.at(self.tables.offsets.scratch)
    }

    /// Returns address and bytes of the reports of the thread blocks.
    pub(super) fn reports(&self) -> (u64, u64) {
        (self.tables.at(self.tables.offsets.reports), (self.tables.numbers.len() * size_of::<abi::WaitReport>()) as u64)
    }

    /// Sets the state to that after a number of launches.
    pub(super) fn skip_to(&self, launches: u64, counters: &[u64]) -> driver::Result<()> {
        let state: abi::LaunchState = bytemuck::Zeroable::zeroed();
        let launches = vec![launches; self.tables.numbers.len()];
        let copies: [(u64, &[u8]); 3] = [
            (self.tables.counters(), bytemuck::cast_slice(counters)),
            (self.tables.at(self.tables.offsets.state), bytemuck::bytes_of(&state)),
            (self.tables.at(self.tables.offsets.launches), bytemuck::cast_slice(&launches)),
        ];
        self.tables.device.driver().initialize(&[], &copies)
    }

    /// Sets the kernel parameters that are the same for all launches of the plan with a message.
    pub(in crate::cuda) fn fill(&self, context: &PlanState, params: &Params, launch: &mut abi::LaunchParams) {
        let DeviceTables { offsets: at, blocks, records, numbers, .. } = &self.tables;
        ranges::fill(&context.program, params, blocks, launch);
        records.fill(self.tables.at(at.records), launch);
        launch.launches = self.tables.at(at.launches);
        launch.packets = self.packets.address();
        launch.instrs = self.tables.at(at.instrs);
        launch.operands = self.tables.at(at.operands);
        launch.ids = self.tables.at(at.ids);
        launch.counts = at.counts.map_or(0, |at| self.tables.at(at));
        launch.fifos = self.proxies.as_ref().map_or(0, Proxies::table);
        launch.state = self.tables.at(at.state);
        launch.reports = self.tables.at(at.reports);
        launch.abort_flags = context.flags.device(0);
        launch.num_blocks = numbers.len() as u32;
        launch.num_ranks = context.program.shape.ranks;
        // Counters that the host stores and data that it copies come from outside the device.
        launch.system_scope = u32::from(context.spans || self.proxies.is_some());
    }
}
