//! Data that a proxy sends to ranks on other nodes, and receives from them: each plan has a connection of a
//! [`Transport`] to each of these ranks, and so have the channels of user-supplied kernels ([`Traffic`]).
//!
//! Data is copied from the device to a staging buffer in page-locked memory, sent over the connection to such a buffer
//! on the other side, and copied from there to the device. If the user has chosen so and the transport can access memory of the device,
//! staging buffers of long messages are there; each side decides for itself. Each side has two buffers for each direction, so that copies
//! and the network work at the same time. A signal is received after the data before it, and written after it on the
//! same stream.
//!
//! Messages contain the number of their launch. A message of a launch that the receiver's device has not begun stays in
//! the connection. A launch ends when no more messages of it can arrive, at the latest when the ends of all senders
//! have arrived (`ends`), and until then all messages are received. So a rank's memory is written only while the rank
//! is in the launch, and no sender is blocked by a rank that has ended it. Data that arrives after the device's
//! operations have ended is written to scratch, where it does no harm; buffers of callers are never written then: that
//! is an error.

mod receive;
mod send;
mod traffic;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::sync::{Arc, Once};
use std::time::Duration;

pub(in crate::cuda) use self::send::Put;
pub(in crate::cuda) use self::traffic::{Markers, Traffic};
use self::wire::{LostRank, NodeConnection};
use super::memory::RegionTable;
use super::staging::{MessageBuffer, StagingBuffer, Stagings};
use crate::cuda::proxy::Failure;
use mscclpp_base::error::Error;
use mscclpp_bootstrap::{self as bootstrap, ActiveTimeout, Bootstrap, ErrorKind, NodeTransport, StreamKeys};
use mscclpp_cuda::device::Device;
use mscclpp_cuda::driver;
use mscclpp_cuda::driver::calls::Priority;
use mscclpp_cuda::driver::{Handle, SharedDriver};
use mscclpp_cuda::event_pool::EventPool;
use mscclpp_transport::hostile::Delay;
use mscclpp_transport::{LaunchId, Lost, Signal, Transport};

/// Interval at which the time without progress is counted; any time counts in which other processes can run.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// How late messages of a hostile engine are: a device that does not wait for them ends its launch before, on a busy machine too.
const DELAY: Delay = Delay { max_polls: 11, time: Duration::from_millis(20) };

/// Connections to the ranks of other nodes that one rank communicates with in a plan, or by channels of kernels.
pub(in crate::cuda) struct NodeConnections {
    driver: SharedDriver,
    bootstrap: Arc<Bootstrap>,
    memories: Arc<RegionTable>,
    /// Stream for copies of received data.
    stream: Handle,
    traffic: Traffic,
    /// Launches that the device has begun, and finished. Channels of kernels are in one launch that does not end.
    begun: u64,
    ended: u64,
    /// Whether the device has finished its part of a launch that has not ended.
    is_closing: bool,
    transport: Box<dyn Transport<MessageBuffer>>,
    wires: Vec<NodeConnection>,
    /// Work on the stream, in its order: an event after it, or none if it could not be recorded, and the staging buffer that it copies from.
    arriving: VecDeque<(Option<Handle>, Option<StagingBuffer>)>,
    events: EventPool,
    /// Signals that were written to each counter.
    signalled: BTreeMap<u64, u64>,
    /// Whether the other ranks were informed that this rank sends nothing more.
    is_over: bool,
    /// Time for which nothing was sent or received.
    idle: ActiveTimeout,
}

impl NodeConnections {
    /// Creates connections to `peers`, which are connected later.
    ///
    /// # Errors
    /// Those of the driver and of [`transport::engine`].
    pub(in crate::cuda) fn new(
        device: &Device,
        bootstrap: &Arc<Bootstrap>,
        (memories, stagings): (&Arc<RegionTable>, &Stagings),
        traffic: Traffic,
        peers: &[u32],
    ) -> Result<Self, Error> {
        let driver = device.driver().clone();
        let options = bootstrap.options();
        let transport = mscclpp_transport::engine(options.transport, bootstrap.rank(), DELAY)?;
        let uses_device_memory = transport.capabilities().uses_device_memory;
        let has_device = options.ucx_device_memory && uses_device_memory && !options.authenticate_data;
        if options.ucx_device_memory {
            report_device_memory(&options, uses_device_memory);
        }
        let wire = |&peer: &u32| {
            Ok(NodeConnection {
                peer,
                staging: stagings.of(peer, &driver, has_device)?,
                outgoing: VecDeque::new(),
                ended: 0,
                has_left: false,
                lost: None,
            })
        };
        let wires = peers.iter().map(wire).collect::<driver::Result<_>>()?;
        Ok(Self {
            stream: driver.create_priority_stream(Priority::Highest)?,
            events: EventPool::new(&driver),
            driver,
            bootstrap: Arc::clone(bootstrap),
            memories: Arc::clone(memories),
            begun: traffic.first_launch(),
            traffic,
            ended: 0,
            is_closing: false,
            transport,
            wires,
            arriving: VecDeque::new(),
            signalled: BTreeMap::new(),
            is_over: false,
            idle: ActiveTimeout::new(IDLE_INTERVAL),
        })
    }

    /// Returns the ranks that have no connection yet, ascending.
    pub(in crate::cuda) fn unconnected(&self) -> Vec<u32> {
        self.wires.iter().map(|wire| wire.peer).filter(|&peer| !self.transport.is_open(peer)).collect()
    }

    /// Sets the connection to a rank.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(in crate::cuda) fn connect(
        &mut self,
        peer: u32,
        (stream, keys): (TcpStream, Option<StreamKeys>),
    ) -> Result<(), Error> {
        self.transport.open(peer, stream, keys)
    }

    /// Handles a signal that is one of the markers; returns whether it is complete, or `None` for another signal. The
    /// end of a launch is complete when no more messages of it can arrive.
    pub(in crate::cuda) fn mark(&mut self, signal: u64) -> Option<bool> {
        let Traffic::Plan { markers, .. } = &self.traffic else { return None };
        let Markers { begin, end } = *markers;
        if signal == begin {
            self.begun += 1;
            self.idle = ActiveTimeout::new(IDLE_INTERVAL);
            return Some(true);
        }
        if signal != end {
            return None;
        }
        if !std::mem::replace(&mut self.is_closing, true) {
            self.send_ends();
        }
        let Traffic::Plan { ends, .. } = &self.traffic else { return None };
        let is_ended = |wire: &NodeConnection| wire.ended >= self.begun || !ends.from.contains(&wire.peer);
        let done = self.wires.iter().all(is_ended) && (ends.from.is_empty() || self.arriving.is_empty());
        if done {
            (self.ended, self.is_closing) = (self.begun, false);
        }
        Some(done)
    }

    /// Returns the current launch, as messages name it.
    fn launch_id(&self) -> LaunchId {
        LaunchId { plan: self.traffic.key(), launch: self.begun, call: 0 }
    }

    /// Returns whether the device is in a launch.
    pub(in crate::cuda) fn is_in_launch(&self) -> bool {
        self.begun > self.ended
    }

    /// Sends and receives as much as possible without waiting; returns whether it made progress. `done`: batches of the
    /// proxy whose copies are complete.
    pub(in crate::cuda) fn progress(&mut self, done: u64) -> Result<bool, Failure> {
        let mut progress = self.complete_receives()?;
        loop {
            for wire in &mut self.wires {
                progress |= wire.send(&mut *self.transport, done);
            }
            if !self.transport.progress() {
                break;
            }
            progress = true;
        }
        for at in 0..self.wires.len() {
            let wire = &mut self.wires[at];
            if let Some(Lost::Failed(_)) = self.transport.lost(wire.peer) {
                wire.lose(LostRank::Gone);
            }
            // Between launches there is nothing to receive.
            if self.is_in_launch() {
                progress |= self.take(at)?;
            }
        }
        if progress {
            self.idle = ActiveTimeout::new(IDLE_INTERVAL);
        } else if self.is_in_launch() || !self.is_idle() {
            self.idle.update();
            self.check_peers()?;
        }
        Ok(progress)
    }

    /// Returns an error if a rank that is needed to continue is lost or has aborted.
    fn check_peers(&mut self) -> Result<(), Failure> {
        if let Err(error) = self.bootstrap.check_alive() {
            return Err(Failure::Cause(error));
        }
        // The error must name the rank that failed, not the rank that noticed it first.
        let late = |wire: &mut NodeConnection| {
            let (timeout, how) = wire.lost.as_mut()?;
            timeout.is_expired().then_some((wire.peer, *how))
        };
        match self.wires.iter_mut().find_map(late) {
            Some((peer, LostRank::Aborted)) => Err(Failure::Cause(self.lost(peer, "it aborted"))),
            Some((peer, LostRank::Gone)) => Err(Failure::Cause(self.lost(peer, "its connection was closed"))),
            None => Ok(()),
        }
    }

    /// Returns the failure of a rank that no longer takes part.
    fn lost(&self, peer: u32, reason: &str) -> bootstrap::Error {
        let (who, call) = (Box::new(self.bootstrap.member(peer)), self.call());
        bootstrap::Error::CallFailed { who, call, kind: ErrorKind::RankLost, reason: reason.to_owned() }
    }

    /// Returns the text of the current call.
    fn call(&self) -> String {
        self.traffic.call(self.begun)
    }

    /// Returns whether all data is sent, and all received data is on the device.
    pub(in crate::cuda) fn is_idle(&self) -> bool {
        self.arriving.is_empty() && self.wires.iter().all(|wire| wire.is_idle(&*self.transport))
    }

    /// Returns the cause of a timeout if data is pending and nothing was sent or received for this long.
    pub(in crate::cuda) fn find_timeout(&self, timeout: Duration) -> Option<bootstrap::Error> {
        let late = self.idle.elapsed() > timeout;
        let wire = self.wires.iter().find(|wire| late && !wire.is_idle(&*self.transport))?;
        let (ranks, waiting) = (vec![self.bootstrap.member(wire.peer)], vec![self.bootstrap.rank()]);
        Some(bootstrap::Error::NoProgress { call: self.call(), ranks, waiting, waited: timeout })
    }

    /// Informs the other ranks that this rank sends nothing more: that it leaves, if all work is complete, or that it
    /// aborted.
    pub(in crate::cuda) fn finish(&mut self, in_order: bool) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let last = if in_order && self.is_idle() { Signal::Leave } else { Signal::Abort };
        let launch = self.launch_id();
        for wire in &self.wires {
            self.transport.close(wire.peer, launch, last);
        }
    }
}

/// Logs whether UCX accesses memory of the device, as the user has chosen; once per process.
fn report_device_memory(options: &bootstrap::Options, uses_device_memory: bool) {
    static REPORTED: Once = Once::new();
    let reason = match (options.authenticate_data, options.transport, uses_device_memory) {
        (true, ..) => "data is authenticated (MSCCLPP_AUTHENTICATE_DATA=1)",
        (_, NodeTransport::Tcp, _) => "UCX is not used (MSCCLPP_TRANSPORT=tcp)",
        (_, _, false) => "no UCX that supports CUDA was loaded; `mscclpp doctor` says what was found",
        (false, _, true) => {
            return REPORTED.call_once(|| {
                log::info!("UCX accesses memory of the device for long messages to other nodes, and from them");
            });
        }
    };
    REPORTED.call_once(|| {
        log::warn!(
            "UCX does not access memory of the device, though MSCCLPP_UCX_DEVICE_MEMORY=1 asks for it: {reason}"
        );
    });
}

impl Drop for NodeConnections {
    fn drop(&mut self) {
        // A destructor cannot report a failure.
        let _ = self.driver.synchronize(self.stream);
        let Self { arriving, events, .. } = self;
        arriving.drain(..).filter_map(|(event, _)| event).for_each(|event| events.release(event));
        let _ = self.driver.destroy_stream(self.stream);
    }
}
