//! Device communicators: what kernels that are compiled with NCCL's device headers need to communicate within a node.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use mscclpp_communicator::Communicator;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceSlice, DeviceVec, FlatMapping, PeerWindow};

use super::create::begin;
use super::set_up::SetUp;
use super::window::Window;
use super::{Comm, lock};
use crate::abi::Team;
use crate::device_api::{
    DeviceComm, RESOURCE_UNIT, Requirements, ResourceHandle, WindowDescriptor, WindowTable, lsa_barrier_bytes,
    resource_window,
};
use crate::entry::{Failure, Result, check_pointer, write};
use crate::open_group::Start;
use crate::{debug, params};

/// Unit of the distances of ranks' memory.
const STRIDE_UNIT: u64 = 1 << 32;

/// Unit of multicast offsets.
const MULTICAST_UNIT: u64 = 4096;

/// Distance of the base of multicast addresses from the first of them: half of what an offset can be.
const MULTICAST_REACH: u64 = MULTICAST_UNIT << 31;

/// Memory of all ranks of the node as kernels access it, and its descriptor, which they read.
pub(super) struct FlatWindow {
    mapping: FlatMapping,
    descriptor: DeviceVec<u64>,
    multicast_offset: u32,
}

impl FlatWindow {
    /// Returns the address of a rank's memory; `None` for no rank.
    pub(super) fn address(&self, rank: u32) -> Option<u64> {
        self.mapping.address(rank)
    }

    /// Returns the handle of the window: the address of its descriptor.
    pub(super) fn handle(&self) -> usize {
        self.descriptor.as_slice().address as usize
    }
}

/// The windows that kernels of a communicator look up, once there is one.
#[derive(Default)]
pub(crate) struct DeviceWindows(Mutex<State>);

#[derive(Default)]
struct State {
    table: Option<WindowTable>,
    /// Where multicast addresses are counted from.
    multicast_base: Option<u64>,
}

impl State {
    fn table(&mut self, device: &Device) -> std::result::Result<&mut WindowTable, Error> {
        Ok(match self.table.take() {
            Some(table) => self.table.insert(table),
            None => {
                let _set_up = SetUp::begin()?;
                self.table.insert(WindowTable::new(device)?)
            }
        })
    }
}

impl DeviceWindows {
    /// Adds a window that kernels can look up.
    pub(super) fn insert(&self, device: &Device, memory: DeviceSlice, handle: usize) -> Result<()> {
        let mut state = lock(&self.0);
        let table = state.table(device)?;
        let _set_up = SetUp::begin()?;
        Ok(table.insert(memory.address, memory.bytes, handle as u64)?)
    }

    /// Removes a window, if it is one.
    pub(super) fn remove(&self, handle: usize) -> Result<()> {
        let mut state = lock(&self.0);
        let Some(table) = &mut state.table else { return Ok(()) };
        let _set_up = SetUp::begin()?;
        Ok(table.remove(handle as u64)?)
    }

    /// Returns the address of the table.
    fn address(&self, device: &Device) -> Result<u64> {
        Ok(lock(&self.0).table(device)?.address())
    }

    /// Returns where multicast addresses are counted from; `None` before there is one.
    pub(super) fn multicast_base(&self) -> Option<u64> {
        lock(&self.0).multicast_base
    }

    /// Returns the offset of a multicast address in units; `None` if it is too far from the others.
    fn multicast_offset(&self, address: u64) -> Option<u32> {
        let first = address.saturating_sub(MULTICAST_REACH).max(MULTICAST_UNIT) / MULTICAST_UNIT * MULTICAST_UNIT;
        let base = *lock(&self.0).multicast_base.get_or_insert(first);
        u32::try_from(address.checked_sub(base)? / MULTICAST_UNIT).ok()
    }
}

/// Maps memory of all ranks in one range of addresses, and describes it for kernels; `None` if the ranks cannot. A call of all
/// ranks.
///
/// # Errors
/// Those of a call of all ranks.
pub(super) fn flat_window(
    comm: &Comm,
    communicator: &Communicator,
    memory: DeviceSlice,
    peers: Option<&PeerWindow>,
    flags: c_int,
) -> Result<Option<FlatWindow>> {
    match map(comm, communicator, memory, peers, flags) {
        Ok(window) => Ok(Some(window)),
        Err(error @ Error::NotShareable { .. }) => {
            debug::info(|| format!("ncclCommWindowRegister: kernels cannot access the window: {error}"));
            Ok(None)
        }
        Err(error) => comm.result(Err(error)).map(|()| None),
    }
}

fn map(
    comm: &Comm,
    communicator: &Communicator,
    memory: DeviceSlice,
    peers: Option<&PeerWindow>,
    flags: c_int,
) -> std::result::Result<FlatWindow, Error> {
    let mapping = {
        let (_calling, stream) = (comm.calling(), comm.device.stream()?);
        communicator.on(&stream).flat_mapping(memory)?
    };
    let multicast = peers.and_then(PeerWindow::multicast_address);
    let multicast_offset = multicast.and_then(|address| comm.device_windows.multicast_offset(address)).unwrap_or(0);
    let rank = communicator.rank();
    let descriptor = WindowDescriptor {
        flat_base: mapping.base(),
        stride: (mapping.stride() / STRIDE_UNIT) as u32,
        // All ranks are on one node.
        ranks: (rank, rank),
        multicast_offset,
        flags,
    };
    let _set_up = SetUp::begin()?;
    let descriptor = DeviceVec::from_slice(&comm.device, &descriptor.to_words())?;
    Ok(FlatWindow { mapping, descriptor, multicast_offset })
}

/// Creates a device communicator, now or at the end of the group, and writes its structure.
///
/// # Safety
/// `requirements` must be valid for [`Requirements::read`]; `out` and the pointers in the requirements must be valid for writes
/// until the end of the group.
pub(crate) unsafe fn create(comm: Arc<Comm>, requirements: *const c_void, out: *mut c_void) -> Result<()> {
    comm.for_call()?;
    // SAFETY: guaranteed by the caller.
    let requirements = unsafe { Requirements::read(requirements, params::version()?) }?;
    check_pointer("outDevComm", out.cast::<u64>())?;
    let (parent, out) = (Some(comm.handle), out as usize);
    let run = move || {
        let created = create_on_all(&comm, &requirements)?;
        for (unit, at) in &created.units {
            // SAFETY: guaranteed by the caller: this runs before the group ends.
            unsafe { write("outBufferHandle", *at as *mut u32, *unit)? };
        }
        for (_, at) in requirements.multimem_teams.iter().filter(|(_, at)| *at != 0) {
            // SAFETY: as above.
            unsafe { write("outMultimemHandle", *at as *mut u64, created.device.multicast_base)? };
        }
        let bytes = created.device.to_bytes(requirements.layout);
        // SAFETY: as above, and the structure of the program's version has this number of bytes.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(out as *mut u8, bytes.len()) };
        Ok(())
    };
    // The ranks wait for one another.
    begin(Start { parent, is_nonblocking: false, run: Box::new(run) })
}

/// A device communicator, with the units of its resources and where they are written.
struct Created {
    device: DeviceComm,
    units: Vec<(u32, usize)>,
}

/// Creates a device communicator. A call of all ranks, which require as many bytes.
fn create_on_all(comm: &Comm, requirements: &Requirements) -> Result<Created> {
    let communicator = comm.for_call()?;
    let (rank, num_ranks) = (communicator.rank(), communicator.num_ranks());
    let nodes = communicator.bootstrap().num_nodes();
    if nodes != 1 {
        let text = format!(
            "the ranks are on {nodes} nodes, and device communicators of this library on one; name a NCCL with {} for others",
            crate::forward::VARIABLE
        );
        return Err(Failure::usage(text));
    }
    let is_multimem = requirements.multimem || !requirements.multimem_teams.is_empty();
    let is_node = |team: &Team| {
        let Team { num_ranks: ranks, rank: own, stride } = *team;
        (ranks as u32, own as u32) == (num_ranks, rank) && (stride == 1 || num_ranks == 1)
    };
    if let Some((team, _)) = requirements.multimem_teams.iter().find(|(team, _)| !is_node(team)) {
        let Team { num_ranks: found, rank: own, stride } = *team;
        let text = format!(
            "reqs.teamRequirementsList: multicast addresses are those of all {num_ranks} ranks, found a team of {found} ranks at a \
             distance of {stride}, of which this is number {own}"
        );
        return Err(Failure::argument(text));
    }
    let mut places = Places::default();
    let mut barrier = |count: u32| {
        let unit = places.add(lsa_barrier_bytes(count, num_ranks), RESOURCE_UNIT)?;
        Ok::<_, Failure>(ResourceHandle { unit, count })
    };
    let (lsa_barrier, hybrid_barrier) = (barrier(requirements.lsa_barriers)?, barrier(requirements.hybrid_barriers)?);
    let mut units = Vec::new();
    for resource in &requirements.resources {
        let unit = places.add(resource.bytes, resource.align)?;
        units.extend((resource.out != 0).then_some((unit, resource.out)));
    }
    // Without a window there would be no multicast address.
    let bytes = places.bytes.max(if is_multimem { RESOURCE_UNIT } else { 0 });
    let mut device = DeviceComm {
        version: requirements.version,
        rank,
        num_ranks,
        local: (rank, num_ranks),
        lsa_barrier,
        hybrid_barrier,
        ..DeviceComm::default()
    };
    if bytes > 0 {
        let (memory, peers, flat) = resources(comm, &communicator, bytes, is_multimem)?;
        let (handle, mapping) = (flat.handle(), &flat.mapping);
        device.resource_window = handle as u64;
        device.flat_base = mapping.base();
        device.stride = (mapping.stride() / STRIDE_UNIT) as u32;
        device.multicast_offset = flat.multicast_offset;
        if is_multimem {
            device.multicast_base = comm.device_windows.multicast_base().unwrap_or(0);
        }
        // Kernels know the memory by its address in the range.
        let base = flat.address(rank).unwrap_or_default();
        comm.device_windows.insert(&comm.device, DeviceSlice { address: base, bytes }, handle)?;
        let (flat, resources) = (Some(flat), Some(memory));
        let window = Window { base, bytes, registered: None, flat, peers, nested: None, resources };
        lock(&comm.memories.windows).insert(handle, Arc::new(window));
    }
    device.window_table = comm.device_windows.address(&comm.device)?;
    Ok(Created { device, units })
}

/// Memory of a device communicator, as kernels access it.
type Resources = (DeviceVec<u8>, Option<PeerWindow>, FlatWindow);

/// Allocates zeroed memory of a device communicator on all ranks, and maps it. A call of all ranks.
fn resources(comm: &Comm, communicator: &Communicator, bytes: u64, is_multimem: bool) -> Result<Resources> {
    let memory = {
        let _set_up = SetUp::begin()?;
        DeviceVec::<u8>::shareable(&comm.device, bytes as usize)?
    };
    let slice = memory.as_slice();
    let refused = |error: Error| match error {
        Error::NotShareable { .. } => {
            Failure::usage(format!("the ranks cannot map the memory of one another: {error}"))
        }
        error => comm.result(Err(error)).err().unwrap_or_else(|| Failure::usage("it failed before")),
    };
    let peers = match is_multimem {
        true => {
            let (_calling, stream) = (comm.calling(), comm.device.stream()?);
            Some(communicator.on(&stream).peer_window(slice).map_err(refused)?)
        }
        false => None,
    };
    if is_multimem && peers.as_ref().and_then(PeerWindow::multicast_address).is_none() {
        let text = "lsaMultimem: the devices have no multicast addresses, which need devices with NVLink switches, one rank on each";
        return Err(Failure::argument(text));
    }
    let flat = map(comm, communicator, slice, peers.as_ref(), 0).map_err(refused)?;
    Ok((memory, peers, flat))
}

/// Places of resources, one after the other.
#[derive(Default)]
struct Places {
    bytes: u64,
}

impl Places {
    /// Returns the unit at which a resource begins.
    fn add(&mut self, bytes: u64, align: u64) -> Result<u32> {
        let begin = self.bytes.checked_next_multiple_of(align);
        let end = begin.and_then(|begin| begin.checked_add(bytes)?.checked_next_multiple_of(RESOURCE_UNIT));
        let unit = begin.and_then(|begin| u32::try_from(begin / RESOURCE_UNIT).ok());
        let (Some(end), Some(unit)) = (end.filter(|end| *end <= RESOURCE_UNIT << 32), unit) else {
            return Err(Failure::argument(format!(
                "reqs: {bytes} bytes after {} exceed the positions of resources",
                self.bytes
            )));
        };
        self.bytes = end;
        Ok(unit)
    }
}

/// Frees a device communicator.
///
/// # Errors
/// An invalid argument for one that is not, or no longer, of this communicator; NCCL's for other structures.
///
/// # Safety
/// `device` must be null or valid for reads of a device communicator of some version.
pub(crate) unsafe fn destroy(comm: &Comm, device: *const c_void) -> Result<()> {
    check_pointer("devComm", device.cast::<u64>())?;
    // SAFETY: guaranteed by the caller.
    let handle = unsafe { resource_window(device) }?;
    // It had no resources.
    if handle == 0 {
        return Ok(());
    }
    let mut windows = lock(&comm.memories.windows);
    if windows.get(&handle).is_none_or(|window| window.resources.is_none()) {
        let text =
            format!("devComm: {handle:#x} is no resource window of this communicator, or it was destroyed before");
        return Err(Failure::argument(text));
    }
    let removed = windows.remove(&handle);
    drop(windows);
    let removed_from_table = comm.device_windows.remove(handle);
    drop(removed);
    removed_from_table
}
