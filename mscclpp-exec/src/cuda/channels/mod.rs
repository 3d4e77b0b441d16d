//! Channels for user-supplied kernels: a kernel of one rank writes to the memory of the others, and synchronizes with their kernels.
//!
//! `OnStream::channels` connects all ranks over memory that each of them has allocated. The result returns
//! plain structs, which a kernel takes as parts of its argument and which `mscclpp_channels.h` declares for the device:
//!
//! | on the host | on the device | operations |
//! |---|---|---|
//! | [`DeviceMemoryChannel`] | `mscclpp::MemoryChannel` | `put`, `get`, `signal`, `relaxed_signal`, `wait`, `put_packets`, `unpack_packets` |
//! | [`DevicePortChannel`] | `mscclpp::PortChannel` | `put`, `signal`, `put_with_signal`, `put_with_signal_and_flush`, `flush`, `wait`: a thread of the host, the proxy, copies |
//! | [`DeviceSwitchChannel`] | `mscclpp::SwitchChannel` | `broadcast`, `reduce`: by a multicast object where there is one, otherwise member by member |
//! | [`DeviceBarrier`] | `mscclpp::DeviceBarrier` | `sync` of the blocks of a kernel |
//!
//! Ranks on different nodes have port channels only: the proxy sends the data to that of the peer, through page-locked memory. Their memory
//! channels, and switch channels over them, are refused.
//!
//! Kernels are not checked. Their waits are bounded by the timeout of the call: they return false, the kernel exits, and
//! [`Channels::synchronize`] reports what it was waiting for.

mod handles;
mod peers;
mod status;

pub use self::handles::{DeviceBarrier, DeviceMemoryChannel, DevicePortChannel, DeviceSwitchChannel};
pub use mscclpp_base::error::channel::ChannelError;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mscclpp_bootstrap::Bootstrap;

use self::handles::{Counter, Wait};
use self::peers::PeerWatch;
use self::status::{ChannelId, Kind, Status};
use super::executor::Executor;
use super::ipc::PeerMemory;
use super::multicast::{self, MulticastObject, MulticastUnavailable};
use super::proxy::{Failure, Proxies};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_cuda::abi;
use mscclpp_cuda::device::stream::Stream;
use mscclpp_cuda::memory::DeviceMemory;
use mscclpp_cuda::slice::DeviceSlice;
use mscclpp_cuda::vector::{DeviceVec, bytes_of};

/// Numbers of channels of each rank with each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// Memory channels with each rank: usually one for each thread block that synchronizes with one of the peer. 1 by default.
    pub num_memory: u32,
    /// Port channels with each rank. 0 by default: then there is no proxy.
    pub num_port: u32,
    /// Barriers of the rank's own blocks. 0 by default.
    pub num_barriers: u32,
    /// Whether to create a multicast object for the switch channel, if possible. False by default.
    pub multicast: bool,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self { num_memory: 1, num_port: 0, num_barriers: 0, multicast: false }
    }
}

impl fmt::Display for ChannelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { num_memory, num_port, num_barriers, multicast } = self;
        let switch = if *multicast { ", with a multicast object" } else { "" };
        write!(f, "{num_memory} memory and {num_port} port channels with each rank, {num_barriers} barriers{switch}")
    }
}

impl ChannelOptions {
    /// Returns these options with another number of memory channels.
    #[must_use]
    pub const fn num_memory(self, num_memory: u32) -> Self {
        Self { num_memory, ..self }
    }

    /// Returns these options with another number of port channels.
    #[must_use]
    pub const fn num_port(self, num_port: u32) -> Self {
        Self { num_port, ..self }
    }

    /// Returns these options with another number of barriers.
    #[must_use]
    pub const fn num_barriers(self, num_barriers: u32) -> Self {
        Self { num_barriers, ..self }
    }

    /// Returns these options with or without a multicast object.
    #[must_use]
    pub const fn multicast(self, multicast: bool) -> Self {
        Self { multicast, ..self }
    }

    /// Returns the number of counters that peers increment, on each rank.
    #[doc(hidden)]
    pub fn num_counters(self, num_ranks: u32) -> usize {
        (self.num_memory as usize + self.num_port as usize) * num_ranks as usize
    }

    fn num_of(self, kind: Kind) -> u32 {
        match kind {
            Kind::Memory => self.num_memory,
            Kind::Port => self.num_port,
            Kind::Barrier => self.num_barriers,
        }
    }
}

/// The channels of a rank with all ranks, itself included, over memory of each of them.
///
/// It owns the memory and everything that the channels use; dropping it stops the waits of kernels and waits for the device. Other ranks
/// may access the memory until they have dropped theirs.
pub struct Channels<T> {
    // Dropped first: the proxy uses the memory.
    proxies: Option<Proxies>,
    object: Result<Option<MulticastObject>, MulticastUnavailable>,
    memory: DeviceVec<T>,
    counters: DeviceVec<u64>,
    /// Number of waits for each counter, then the arrivals of each barrier.
    waits: DeviceMemory,
    /// Addresses of the memory of every rank.
    members: DeviceMemory,
    status: Status,
    /// Addresses of memory and counters of every rank.
    peers: Vec<[u64; 2]>,
    /// Node of every rank.
    nodes: Vec<u32>,
    bootstrap: Arc<Bootstrap>,
    _mappings: Vec<PeerMemory>,
    rank: u32,
    options: ChannelOptions,
    timeout: Duration,
}

/// Memory of this rank for channels.
struct Own {
    waits: DeviceMemory,
    members: DeviceMemory,
    status: Status,
    proxies: Option<Proxies>,
}

impl<T: Element> Channels<T> {
    /// Connects the ranks of an executor over `memory`. A call of all ranks. `counters`: registered, [`ChannelOptions::num_counters`].
    #[doc(hidden)]
    pub fn new(
        executor: &Executor,
        memory: Result<DeviceVec<T>, Error>,
        counters: DeviceVec<u64>,
        options: ChannelOptions,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let (inner, group) = (&executor.inner, executor.group()?);
        let (rank, num_ranks) = (group.rank, inner.ranks);
        let (memory, slices) = match memory {
            Ok(memory) => {
                let slices = vec![memory.as_slice(), counters.as_slice()];
                (Some(memory), Ok(slices))
            }
            Err(error) => (None, Err(error)),
        };
        let (all, mappings) = group.register(slices)?;
        let memory = memory.ok_or_else(|| Error::Internal("channels without memory".into()))?;
        let mut peers = Vec::with_capacity(all.len());
        for (peer, slices) in (0_u32..).zip(&all) {
            // Their sizes are equal, because the calls are.
            let [shared, counters] = slices[..] else { return Err(group.malformed(peer)) };
            peers.push([shared.address, counters.address]);
        }
        let own = Own::new(executor, options, &peers);
        // Ranks of one node have compared the options already.
        let own = inner.agree(&format!("channels: {options}"), own)?;
        let Own { waits, members, status, proxies } = own;
        if group.remote_regions.is_some() && options.num_port > 0 {
            group.connect_nodes(proxies.as_ref())?;
        }
        let object = if options.multicast && inner.options.multicast && memory.as_slice().bytes > 0 {
            let request = multicast::Request {
                members: (0..num_ranks).collect(),
                bytes: memory.as_slice().bytes,
                own: vec![(rank, memory.as_slice())],
            };
            // All ranks know the devices of all, and so decide alike.
            let elsewhere = (0..num_ranks).find(|&peer| group.nodes[peer as usize] != group.nodes[rank as usize]);
            match (elsewhere, executor.has_multicast()) {
                (Some(peer), _) => Err(MulticastUnavailable::OtherNode { ranks: [rank, peer] }),
                (None, true) => multicast::make(inner, "switch channel", &[request])?.pop().unwrap_or(Ok(None)),
                (None, false) => Err(unavailable(group)),
            }
        } else {
            Err(MulticastUnavailable::Off)
        };
        Ok(Self {
            proxies,
            object,
            memory,
            counters,
            waits,
            members,
            status,
            peers,
            nodes: group.nodes.clone(),
            bootstrap: Arc::clone(group.bootstrap()),
            _mappings: mappings,
            rank,
            options,
            timeout,
        })
    }

    /// Returns the number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.peers.len() as u32
    }

    /// Returns the shared memory of this rank.
    pub fn local(&self) -> &DeviceVec<T> {
        &self.memory
    }

    /// Returns the shared memory of this rank for writing by the host. No kernel may use it meanwhile.
    pub fn local_mut(&mut self) -> &mut DeviceVec<T> {
        &mut self.memory
    }

    /// Returns the shared memory of a rank at its address in this process, for kernels of this rank.
    ///
    /// # Errors
    /// [`ChannelError::NoSuchChannel`]; [`Error::CrossNodeAccess`] for a rank on another node.
    pub fn remote(&self, peer: u32) -> Result<DeviceSlice, Error> {
        let Some([address, _]) = self.peers.get(peer as usize) else {
            return Err(self.no_such(ChannelId { kind: Kind::Memory, peer, index: 0 }));
        };
        self.check_node(peer, || format!("shared memory of rank {peer}"))?;
        Ok(DeviceSlice { address: *address, ..self.memory.as_slice() })
    }

    /// Returns a memory channel with a rank: the peer's channel with the same number is its other end.
    ///
    /// # Errors
    /// [`ChannelError::NoSuchChannel`]; [`Error::CrossNodeAccess`] for a rank on another node, which has port channels only.
    pub fn memory(&self, peer: u32, index: u32) -> Result<DeviceMemoryChannel, Error> {
        let id = ChannelId { kind: Kind::Memory, peer, index };
        let (counter, outbound, limit) = self.connection(id)?;
        self.check_node(peer, || id.describe())?;
        let (remote, shared) = (self.peers[peer as usize][0], self.memory.as_slice().address);
        Ok(DeviceMemoryChannel { remote, source: shared, shared, outbound, counter, limit })
    }

    /// Returns a port channel with a rank: the peer's channel with the same number is its other end.
    ///
    /// # Errors
    /// [`ChannelError::NoSuchChannel`]; [`ChannelError::Stopped`] after [`stop_proxy`](Self::stop_proxy).
    pub fn port(&self, peer: u32, index: u32) -> Result<DevicePortChannel, Error> {
        let (counter, outbound, limit) = self.connection(ChannelId { kind: Kind::Port, peer, index })?;
        let stopped = || Error::KernelChannel(Box::new(ChannelError::Stopped { rank: self.rank }));
        let queue = self.proxies.as_ref().ok_or_else(stopped)?.table();
        let (remote, source) = (self.peers[peer as usize][0], self.memory.as_slice().address);
        Ok(DevicePortChannel { remote, source, outbound, queue, counter, limit })
    }

    /// Returns the switch channel over the shared memory of all ranks.
    ///
    /// # Errors
    /// [`Error::CrossNodeAccess`] if a rank is on another node.
    pub fn switch(&self) -> Result<DeviceSwitchChannel, Error> {
        (0..self.num_ranks()).try_for_each(|peer| self.check_node(peer, || "switch channel".into()))?;
        let own = self.memory.as_slice().address;
        let distance = self.object.as_ref().ok().and_then(Option::as_ref).map_or(0, |object| object.distance(own));
        let multicast = if distance == 0 { 0 } else { own.wrapping_add(distance) };
        let (members, num_members) = (self.members.address(), self.peers.len() as u64);
        Ok(DeviceSwitchChannel { multicast, members, num_members })
    }

    /// Returns whether the switch channel uses a multicast object, or the reason why not.
    ///
    /// # Errors
    /// The reason.
    #[doc(hidden)]
    pub fn multicast(&self) -> Result<(), MulticastUnavailable> {
        self.object.as_ref().map(drop).map_err(Clone::clone)
    }

    /// Returns a barrier of blocks of this rank's kernels.
    ///
    /// # Errors
    /// [`ChannelError::NoSuchChannel`].
    pub fn barrier(&self, index: u32) -> Result<DeviceBarrier, Error> {
        let id = ChannelId { kind: Kind::Barrier, peer: self.rank, index };
        if index >= self.options.num_barriers {
            return Err(self.no_such(id));
        }
        let arrivals = self.waits.address() + 8 * (self.counters.len() as u64 + u64::from(index));
        Ok(DeviceBarrier { arrivals, limit: self.limit(id) })
    }

    /// Waits until all work on a stream is complete and the proxy has no more requests, and reports whether kernels have waited longer than
    /// the timeout. If another rank is lost, has failed, or has left a second ago, the waits of this rank's kernels end.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] with the rank that is lost; [`ChannelError::Stalled`], [`ChannelError::Stopped`]; [`Error::Driver`], also of the
    /// proxy.
    pub fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        let mut peers = PeerWatch::new(&self.bootstrap);
        // Kernels wait for signals that no rank sends any more.
        let mut watched = Ok(());
        let synchronized = stream.synchronize_watching(|| {
            if watched.is_ok() {
                watched = peers.check().inspect_err(|_| self.status.stop());
            }
        });
        let drained = self.drain();
        synchronized?;
        watched?;
        drained?;
        self.status.check(self.rank)
    }

    /// Reports whether kernels have waited longer than the timeout so far, without waiting for them.
    ///
    /// # Errors
    /// [`ChannelError::Stalled`], [`ChannelError::Stopped`].
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Error> {
        self.status.check(self.rank)
    }

    /// Makes all waits of this rank's kernels return false, now and later.
    #[doc(hidden)]
    pub fn stop(&self) {
        self.status.stop();
    }

    /// Waits until the proxy has no more requests, and ends it. No kernel may use port channels any more.
    ///
    /// # Errors
    /// [`Error::Driver`] of the proxy.
    #[doc(hidden)]
    pub fn stop_proxy(&mut self) -> Result<(), Error> {
        let drained = self.drain();
        self.proxies = None;
        drained
    }

    fn drain(&self) -> Result<(), Error> {
        let drained =
            self.proxies.as_ref().map_or(Ok(()), |proxies| proxies.drain(self.timeout, || self.status.is_stopped()));
        drained.map_err(|failure| match failure {
            Failure::Error(error) => error,
            Failure::Cause(cause) => cause.into(),
        })
    }

    /// Returns the counter of a channel, the address of its other end's counter, and its waits.
    fn connection(&self, id: ChannelId) -> Result<(Counter, u64, Wait), Error> {
        let ChannelId { kind, peer, index } = id;
        let (available, num_ranks) = (self.options.num_of(kind), self.peers.len() as u32);
        if peer >= num_ranks || index >= available {
            return Err(self.no_such(id));
        }
        let first = if kind == Kind::Port { u64::from(self.options.num_memory) * u64::from(num_ranks) } else { 0 };
        let of = |rank: u32| 8 * (first + u64::from(rank) * u64::from(available) + u64::from(index));
        let counter =
            Counter { inbound: self.counters.as_slice().address + of(peer), waits: self.waits.address() + of(peer) };
        Ok((counter, self.peers[peer as usize][1] + of(self.rank), self.limit(id)))
    }

    /// Checks that kernels of this rank can access the memory of a rank.
    fn check_node(&self, peer: u32, path: impl FnOnce() -> String) -> Result<(), Error> {
        let [node, peer_node] = [self.rank, peer].map(|rank| self.nodes[rank as usize]);
        match node == peer_node {
            true => Ok(()),
            false => Err(Error::CrossNodeAccess { path: path(), rank: self.rank, node, peer, peer_node }),
        }
    }

    fn limit(&self, id: ChannelId) -> Wait {
        let timeout_ns = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX >> 1);
        Wait { status: self.status.address(), timeout_ns, channel: id.encode() }
    }

    fn no_such(&self, id: ChannelId) -> Error {
        let (available, num_ranks) = (self.options.num_of(id.kind), self.peers.len() as u32);
        let (rank, channel) = (self.rank, id.describe());
        Error::KernelChannel(Box::new(ChannelError::NoSuchChannel { rank, channel, available, num_ranks }))
    }
}

impl Own {
    fn new(executor: &Executor, options: ChannelOptions, peers: &[[u64; 2]]) -> Result<Self, Error> {
        let device = executor.devices().first().ok_or_else(|| Error::Internal("ranks without a device".into()))?;
        let driver = device.driver();
        let words = options.num_counters(peers.len() as u32) as u64 + u64::from(options.num_barriers);
        let members: Vec<u64> = peers.iter().map(|[address, _]| *address).collect();
        let status = Status::new(driver)?;
        let flags = &status.0;
        let wires = || executor.group()?.connections_of_channels();
        let proxies = (options.num_port > 0).then(|| Proxies::new(device, 1, flags, wires()?)).transpose()?;
        proxies.iter().for_each(Proxies::expect_unannounced_launches);
        Ok(Self {
            waits: DeviceMemory::zeroed(driver, 8 * words)?,
            members: DeviceMemory::holding(driver, &members)?,
            status,
            proxies,
        })
    }
}

impl Executor {
    /// Allocates `len` shared elements on each rank, zero at first, and connects kernels of all ranks by channels over them: for
    /// native algorithms. A call of all ranks with the same arguments. Waits of kernels have the
    /// executor's [timeout](Self::timeout). No rank may drop the result while kernels of other ranks may access its memory.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect); [`ChannelError::NotConnected`] for an executor whose ranks are all in this process;
    /// [`Error::Driver`].
    pub fn channels<T: Element>(&self, len: usize, options: ChannelOptions) -> Result<Channels<T>, Error> {
        if self.inner.group.is_none() {
            return Err(Error::KernelChannel(Box::new(ChannelError::NotConnected)));
        }
        self.inner.refuse_in_capture("cannot connect channels")?;
        let bytes = bytes_of::<T>(len);
        let memory = self.alloc_on_all(&format!("channels over {bytes} bytes on devices, {options}"), bytes)?;
        let num_counters = options.num_counters(self.num_ranks());
        let counters = self.alloc_on_all("counters of channels", bytes_of::<u64>(num_counters.max(1)))?;
        let counters = DeviceVec::of(Arc::new(counters), num_counters, None);
        Channels::new(self, Ok(DeviceVec::of(Arc::new(memory), len, None)), counters, options, self.timeout())
    }
}

/// Returns why there can be no multicast object.
fn unavailable(group: &super::ipc::IpcGroup) -> MulticastUnavailable {
    let ranks = 0..group.nodes.len() as u32;
    for rank in ranks {
        if let Some(other) = (0..rank).find(|&other| group.on_one_device(rank, other)) {
            return MulticastUnavailable::OneDevice { ranks: [other, rank] };
        }
        if let (device, false) = group.multicast(rank) {
            return MulticastUnavailable::NoHardware { rank, device };
        }
    }
    MulticastUnavailable::Off
}

impl<T> Drop for Channels<T> {
    fn drop(&mut self) {
        // Otherwise kernels would wait for as long as the timeout, and the memory for the kernels.
        self.status.stop();
    }
}

impl<T> fmt::Debug for Channels<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, options, peers, .. } = self;
        f.debug_struct("Channels")
            .field("rank", rank)
            .field("num_ranks", &peers.len())
            .field("options", options)
            .finish()
    }
}

const _: () = assert!(size_of::<abi::Fifo>() == 32 && size_of::<abi::Trigger>() == 64, "as in `mscclpp_channels.h`");
