//! Windows: memory that all ranks have registered, and where the ranks of the node access it.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mscclpp_exec::Error;
use mscclpp_exec::cuda::{DeviceSlice, DeviceVec, PeerWindow, Registered};

use super::create::begin;
use super::device_comm::FlatWindow;
use super::memory::{Memories, Raw, new_handle};
use super::{Comm, all, lock, signals};
use crate::abi::{WINDOW_ALIGNMENT, WINDOW_FLAGS, WINDOW_SYMMETRIC};
use crate::entry::{Failure, Result, write};
use crate::open_group::Start;

/// Memory that all ranks have registered.
pub(crate) struct Window {
    pub(super) base: u64,
    pub(super) bytes: u64,
    /// Registered, if its offsets are the same on all ranks in each call and the memory can be shared.
    pub(super) registered: Option<Registered<Raw>>,
    /// Where kernels access it, if it is symmetric and physical memory. Then its handle is the address of its descriptor.
    pub(super) flat: Option<FlatWindow>,
    /// The memory of the other ranks, if it is registered.
    pub(super) peers: Option<PeerWindow>,
    /// Its handle of the real NCCL, if that has it as well.
    pub(super) nested: Option<usize>,
    /// The memory, if it is of a device communicator.
    pub(super) resources: Option<DeviceVec<u8>>,
}

impl Window {
    /// Returns the address of a rank's memory from an offset on; `None` for a rank on another node.
    ///
    /// # Errors
    /// An invalid argument for bytes beyond the window; an invalid usage for a window that was not registered as symmetric, or
    /// whose memory the ranks cannot share.
    pub(super) fn address(&self, comm: &Comm, peer: u32, offset: u64, bytes: u64) -> Result<Option<u64>> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let size = self.bytes;
            return Err(Failure::argument(format!(
                "offset: {bytes} bytes from {offset} on exceed the window's {size} bytes"
            )));
        }
        let own = comm.ready()?.rank();
        let base = match (&self.peers, &self.flat) {
            _ if peer == own => Some(self.base),
            (Some(peers), _) => peers.address(peer),
            (None, Some(flat)) => flat.address(peer),
            (None, None) => {
                let text =
                    "win: other ranks do not access it: register memory of ncclMemAlloc with NCCL_WIN_COLL_SYMMETRIC";
                return Err(Failure::usage(text));
            }
        };
        Ok(base.map(|base| base + offset))
    }
}

impl Memories {
    /// Returns the real NCCL's handle of a window, if it has it; `None` for a handle that is no window of this communicator.
    pub(crate) fn nested_window(&self, window: usize) -> Option<Option<usize>> {
        lock(&self.windows).get(&window).map(|window| window.nested)
    }
}

/// Registers memory on all ranks, now or at the end of the group, and writes the window's handle.
///
/// # Safety
/// `out` must be valid for writes until the end of the group.
pub(crate) unsafe fn register_window(
    comm: Arc<Comm>,
    at: *mut c_void,
    bytes: usize,
    out: *mut *mut c_void,
    flags: i32,
) -> Result<()> {
    comm.for_call()?;
    if flags & !WINDOW_FLAGS != 0 {
        return Err(Failure::argument(format!("winFlags: {flags:#x} has unknown flags")));
    }
    if at.is_null() || bytes == 0 {
        return Err(Failure::argument(format!("buff is {at:p} and size {bytes}, expected memory")));
    }
    let base = at as u64;
    if base.checked_add(bytes as u64).is_none() {
        return Err(Failure::argument(format!("size: {bytes} bytes from {at:p} exceed the address space")));
    }
    if flags & WINDOW_SYMMETRIC != 0 && !base.is_multiple_of(WINDOW_ALIGNMENT) {
        return Err(Failure::argument(format!("buff is {at:p}, expected a multiple of {WINDOW_ALIGNMENT} bytes")));
    }
    // Other ranks would learn of it at their first access.
    if !comm.device.is_allocated(DeviceSlice { address: base, bytes: bytes as u64 }) {
        let end = base + bytes as u64;
        return Err(Failure::argument(format!(
            "buff: {base:#x} to {end:#x} is no memory that CUDA has allocated; pass memory of ncclMemAlloc"
        )));
    }
    let (parent, out) = (Some(comm.handle), out as usize);
    let run = move || {
        let handle = register(&comm, base, bytes as u64, flags)?;
        // SAFETY: guaranteed by the caller: this runs before the group ends.
        unsafe { write("win", out as *mut *mut c_void, handle as *mut c_void) }
    };
    // The ranks wait for one another.
    begin(Start { parent, is_nonblocking: false, run: Box::new(run) })
}

/// Registers memory on all ranks, with the real NCCL as well if there is one. With `NCCL_WIN_COLL_SYMMETRIC` calls use it in place,
/// if all ranks can share theirs.
fn register(comm: &Comm, base: u64, bytes: u64, flags: i32) -> Result<usize> {
    let communicator = comm.for_call()?;
    let (is_symmetric, memory) = (flags & WINDOW_SYMMETRIC != 0, DeviceSlice { address: base, bytes });
    let registered = match is_symmetric && communicator.num_ranks() > 1 {
        true => {
            let (_calling, stream) = (comm.calling(), comm.device.stream()?);
            let on = communicator.on(&stream);
            match on.register::<u8, Raw>(Raw(memory)) {
                Ok(registered) => {
                    let peers = on.peer_window(memory).and_then(|peers| signals::set_up(comm, on).map(|()| peers));
                    match peers {
                        Ok(peers) => Some((registered, peers)),
                        Err(error) => return comm.result(Err(error)).map(|()| 0),
                    }
                }
                Err(refused) if matches!(refused.error, Error::NotShareable { .. }) => {
                    crate::debug::info(|| format!("ncclCommWindowRegister: calls copy the window: {}", refused.error));
                    None
                }
                Err(refused) => return comm.result(Err(refused.error)).map(|()| 0),
            }
        }
        false => None,
    };
    let (registered, peers) = registered.unzip();
    let nested =
        comm.nested().map_or(Ok(None), |nested| nested.register_window(base as *mut c_void, bytes as usize, flags))?;
    // All ranks have registered it or none, and forward to a real NCCL or not.
    let has_flat = is_symmetric && nested.is_none() && (registered.is_some() || communicator.num_ranks() == 1);
    let flat = match has_flat {
        true => super::device_comm::flat_window(comm, &communicator, memory, peers.as_ref(), flags)?,
        false => None,
    };
    // Kernels that use the real NCCL's device interface take its handle.
    let handle = nested.or(flat.as_ref().map(FlatWindow::handle)).unwrap_or_else(new_handle);
    if flat.is_some() {
        comm.device_windows.insert(&comm.device, memory, handle)?;
    }
    let window = Window { base, bytes, registered, flat, peers, nested, resources: None };
    lock(&comm.memories.windows).insert(handle, Arc::new(window));
    Ok(handle)
}

/// Ends the registration of a window.
pub(crate) fn deregister_window(comm: &Comm, window: *mut c_void) -> Result<()> {
    let removed = lock(&comm.memories.windows).remove(&(window as usize)).ok_or_else(|| no_window(window))?;
    comm.device_windows.remove(window as usize)?;
    match (removed.nested, comm.nested()) {
        (Some(handle), Some(nested)) => nested.deregister_window(handle),
        _ => Ok(()),
    }
}

/// Returns a window of a communicator.
///
/// # Errors
/// An invalid argument for another handle.
pub(super) fn find_window(comm: &Comm, window: *mut c_void) -> Result<Arc<Window>> {
    lock(&comm.memories.windows).get(&(window as usize)).cloned().ok_or_else(|| no_window(window))
}

/// Returns the memory of a window.
pub(crate) fn user_pointer(comm: &Comm, window: *mut c_void) -> Result<u64> {
    Ok(find_window(comm, window)?.base)
}

/// Which of the addresses of a window is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// A rank of the communicator.
    Peer(c_int),
    /// A rank of the node, by its number there.
    Local(c_int),
    /// All ranks of the node, by multicast.
    All,
    /// As well, of the addresses that begin at a base.
    AllFrom(u64),
}

/// Returns the address at which this rank's device accesses memory of a window; `None` for a rank on another node, and without
/// multicast objects.
///
/// # Errors
/// An invalid argument for no window, no rank and an offset beyond the window; as for a window that is not symmetric.
pub(crate) fn device_pointer(window: *mut c_void, offset: usize, of: Of) -> Result<Option<u64>> {
    let find = |comm: Arc<Comm>| find_window(&comm, window).ok().map(|window| (comm, window));
    let (comm, found) = all().into_iter().find_map(find).ok_or_else(|| no_window(window))?;
    let (own, local) = (comm.ready()?.rank() as c_int, super::team_lsa(&comm)?);
    let (name, peer, below) = match of {
        Of::Peer(peer) => ("peer", peer, comm.ready()?.num_ranks() as c_int),
        Of::Local(rank) => ("lsaRank", rank, local.num_ranks),
        Of::All | Of::AllFrom(_) => ("peer", own, c_int::MAX),
    };
    if !(0..below).contains(&peer) {
        return Err(Failure::argument(format!("{name}: expected a rank below {below}, found {peer}")));
    }
    let peer = if matches!(of, Of::Local(_)) { own - local.rank + peer } else { peer };
    let address = found.address(&comm, peer as u32, offset as u64, 0)?;
    match of {
        Of::AllFrom(base) if comm.device_windows.multicast_base() != Some(base) => Err(Failure::argument(format!(
            "multimem: {base:#x} is no base of multicast addresses of the window's communicator"
        ))),
        Of::All | Of::AllFrom(_) => {
            let multicast = found.peers.as_ref().and_then(PeerWindow::multicast_address);
            Ok(multicast.map(|address| address + offset as u64))
        }
        _ => Ok(address),
    }
}

fn no_window(window: *mut c_void) -> Failure {
    Failure::argument(format!("win is {window:p}, no window of this communicator"))
}
