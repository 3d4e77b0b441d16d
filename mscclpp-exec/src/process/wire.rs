//! Port channels between nodes: proxies send over one connection of a [`Transport`] per pair of ranks.
//!
//! A message is a put of a part of a trigger's data, or a signal. It names its plan and launch. A message of a launch
//! that this rank has not started stays in the connection until the rank has.
//!
//! # No data of a launch is in flight when it has ended, unless it fails
//!
//! After the last message that a rank sends to another one in a launch it sends an *end*. A rank's launch ends only
//! when everything that it sends has been passed to the system, or to an engine that sends it without calls of this
//! rank, and when the ends of all ranks have arrived that send to it in the plan. An end is received after all messages before it, so everything that those ranks sent has arrived
//! as well, whether the plan waits for it or not. This includes puts that are only flushed, because a flush frees the
//! source and implies nothing about the destination. An end follows its last message at once, so in a plan that waits
//! for all it receives, the end arrives together with the last message. Two properties follow:
//!
//! - A rank can send even if the receiver has ended its launch and no longer reads, and outside of launches these
//!   connections need no service. Within launches, every waiting rank serves them.
//! - Data is written only while the receiver is in the launch. Data that arrives after the receiver's last operation is
//!   too late for its operations, though: in a caller's buffer this is an error, and also in scratch that the plan
//!   reads, unless the plan is proved.

mod launch_memory;
mod pool;

use std::cell::{Cell, RefCell};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, Weak};
use std::time::Duration;

use self::launch_memory::LaunchMemory;
pub(crate) use self::pool::{Pool, PooledBuffer};
use super::buffer::Shared;
use super::calls::RING;
use super::plan::{PlanState, Prepared};
use super::plan_memory::PlanMemory;
use mscclpp_base::error::{Error, LateData};
use mscclpp_base::interpret::{Launch, Remote, ResolvedPlan, Trigger};
use mscclpp_base::memory::Span;
use mscclpp_base::shm::Region;
use mscclpp_bootstrap::{self as bootstrap, StreamKeys};
use mscclpp_transport::hostile::Delay;
use mscclpp_transport::{
    Destination, Frame, FrameKind, LaunchId, Lost, Malformed, Received, RemoteAddress, Signal, Tcp, Transport,
};

/// Maximum number of bytes that a rank takes from a connection before it runs its thread blocks again.
const MAX_TAKEN_BYTES: u64 = 2 << 20;

/// How late messages of a hostile engine are. A rank polls after its thread blocks have run until they are blocked.
pub(super) const DELAY: Delay = Delay { max_polls: 6, time: Duration::ZERO };

/// Connections to ranks on other nodes.
pub(super) struct NodeConnections {
    transport: RefCell<Box<dyn Transport<PooledBuffer>>>,
    /// By rank: the last launch whose end has arrived. `None` for ranks that no plan has needed so far, and for those
    /// of this node.
    ended: Vec<Option<Cell<u64>>>,
    /// The current launch.
    id: Cell<LaunchId>,
    /// Calls of the last launches, by launch.
    history: Cell<[(u64, u64); RING as usize]>,
    /// Whether this rank's operations of the launch have finished.
    has_ended: Cell<bool>,
    pool: Pool,
    /// Memory of the current launch, if the engine uses regions.
    memory: RefCell<LaunchMemory>,
}

/// Why messages cannot be processed.
pub(super) enum WireError {
    /// A rank is lost, or sends messages that no plan contains.
    Lost(Error),
    /// A message failed authentication.
    Unauthenticated(Error),
    /// Data arrived after the last operation that could wait for it.
    Late(Error),
    /// A rank makes another call in a launch.
    Differs { peer: u32 },
}

impl NodeConnections {
    pub(super) fn new(transport: Box<dyn Transport<PooledBuffer>>) -> Self {
        Self {
            transport: RefCell::new(transport),
            ended: Vec::new(),
            id: Cell::default(),
            history: Cell::default(),
            has_ended: Cell::new(false),
            pool: Pool::default(),
            memory: RefCell::default(),
        }
    }

    /// Closes all connections. What UCX has yet to send is sent before, as far as possible.
    pub(super) fn close(&mut self) {
        *self = Self::new(Box::new(Tcp::new()));
    }

    /// Returns whether there is a connection to a rank.
    pub(super) fn has(&self, rank: u32) -> bool {
        self.ended(rank).is_some()
    }

    /// Returns whether there are no connections.
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.peers().count()
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(super) fn add(&mut self, rank: u32, (stream, keys): (TcpStream, Option<StreamKeys>)) -> Result<(), Error> {
        self.transport.get_mut().open(rank, stream, keys)?;
        if self.ended.len() <= rank as usize {
            self.ended.resize_with(rank as usize + 1, || None);
        }
        self.ended[rank as usize] = Some(Cell::new(0));
        Ok(())
    }

    /// Starts a launch with call id `call`.
    pub(super) fn begin(&self, plan: &PlanState, launch: u64, call: u64) {
        self.id.set(LaunchId { plan: plan.key(), launch, call });
        self.has_ended.set(false);
        let mut history = self.history.get();
        history[(launch % RING) as usize] = (launch, call);
        self.history.set(history);
    }

    /// Returns whether there are connections whose engine may use regions.
    pub(super) fn uses_regions(&self) -> bool {
        !self.is_empty() && self.transport.borrow().capabilities().uses_regions
    }

    /// Sets the memory of the next launch that the engine gets as regions: slices of callers, whose pages are replaced if the launch
    /// fails, and memory of plans.
    pub(super) fn set_memory<'a>(
        &self,
        buffers: impl Iterator<Item = (Weak<Shared>, Range<*const u8>)>,
        plan: impl Iterator<Item = &'a Arc<PlanMemory>>,
    ) {
        self.memory.borrow_mut().set(buffers, plan);
    }

    /// Announces this rank's call to all connected ranks, before it waits for them otherwise than for their messages.
    pub(super) fn announce_call(&self) {
        let mut transport = self.transport.borrow_mut();
        for peer in self.peers() {
            transport.signal(peer, self.id.get(), Signal::Call);
        }
        // What cannot be sent now is sent with the next message.
        transport.progress();
    }

    /// Announces to ranks that this one sends nothing more in the launch.
    pub(super) fn send_ends(&self, peers: &[u32]) {
        for &peer in peers {
            self.transport.borrow_mut().signal(peer, self.id.get(), Signal::End);
        }
    }

    /// Records that this rank's operations of the launch have finished: data that arrives from now on is late.
    pub(super) fn end(&self) {
        self.has_ended.set(true);
    }

    /// Returns the ranks among `peers` whose end of the launch has not arrived.
    pub(super) fn pending_senders<'a>(&'a self, peers: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let has_ended = |peer: u32| self.ended(peer).is_none_or(|ended| ended.get() >= self.id.get().launch);
        peers.iter().copied().filter(move |&peer| !has_ended(peer))
    }

    fn ended(&self, rank: u32) -> Option<&Cell<u64>> {
        self.ended.get(rank as usize)?.as_ref()
    }

    /// Returns the connected ranks.
    fn peers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.ended).filter_map(|(peer, ended)| ended.is_some().then_some(peer))
    }

    /// Returns this rank's call in a launch, if it is one of the last.
    fn called(&self, launch: u64) -> Option<u64> {
        let (known, call) = self.history.get()[(launch % RING) as usize];
        (known == launch).then_some(call)
    }

    /// Sends and receives as much as possible without waiting. `launch`: the current launch; `senders`: ranks that send to this one in
    /// it, in order; `plans`: all of the communicator.
    ///
    /// # Errors
    /// [`WireError::Lost`] names a rank that is lost, or that sends messages that no plan contains;
    /// [`WireError::Unauthenticated`] the connection on which a message is not the one that the peer has sent;
    /// [`WireError::Differs`] one whose first message of a launch announces another call; [`WireError::Late`] one whose
    /// data no operation waited for.
    pub(super) fn progress(
        &self,
        rank: u32,
        launch: &Launch<'_>,
        senders: &[u32],
        plans: &[Prepared],
    ) -> Result<IoProgress, WireError> {
        let mut transport = self.transport.borrow_mut();
        let mut io = IoProgress { progress: transport.progress(), sent: true };
        let current = self.id.get().launch;
        for peer in self.peers() {
            let lost = |reason: String| WireError::Lost(Error::RankLost { peer, reason });
            if let Some(Lost::Failed(reason)) = transport.lost(peer) {
                return Err(lost(format!("its connection failed: {reason}")));
            }
            io.sent &= transport.is_flushed(peer);
            // Nothing more arrives that concerns the launch.
            if self.has_ended.get() && senders.binary_search(&peer).is_err() {
                continue;
            }
            let mut taken = 0;
            // After its end, a rank sends nothing of this launch.
            while taken < MAX_TAKEN_BYTES && self.ended(peer).is_none_or(|ended| ended.get() < current) {
                let (id, pool) = (self.id.get(), &self.pool);
                let memory = senders.binary_search(&peer).is_ok().then_some(&self.memory);
                let mut incoming = Incoming { rank, id, launch, pool, memory };
                let received = transport.receive(peer, current, &mut incoming);
                let received = received.map_err(|malformed| match malformed {
                    Malformed::Unauthenticated { number } => {
                        let (from, to, frame, connection) = (peer, rank, number, "data".into());
                        let error = bootstrap::Error::FrameAuthenticationFailed { from, to, frame, connection };
                        WireError::Unauthenticated(error.into())
                    }
                    malformed => lost(malformed.to_string()),
                });
                match received? {
                    Received::Message(frame, buffer) => {
                        taken += frame.len();
                        let bytes = buffer.as_ref().map(|buffer| &buffer.as_ref()[..frame.len() as usize]);
                        if !self.accept((rank, peer), &frame, bytes, launch, plans)? {
                            return Err(lost(format!("it sent a frame that no plan expects: {frame:?}")));
                        }
                    }
                    Received::Part => {}
                    Received::Nothing => break,
                }
                io.progress = true;
            }
        }
        Ok(io)
    }

    /// Executes a message of `peer`, and returns whether it is valid. `bytes`: those of a put, unless they are in memory already.
    fn accept(
        &self,
        (rank, peer): (u32, u32),
        frame: &Frame,
        bytes: Option<&[u8]>,
        launch: &Launch<'_>,
        plans: &[Prepared],
    ) -> Result<bool, WireError> {
        let id = frame.launch;
        if self.called(id.launch).filter(|&own| own != id.call).is_some() {
            return Err(WireError::Differs { peer });
        }
        match frame.kind {
            FrameKind::Signal(Signal::Call) => Ok(true),
            FrameKind::Signal(Signal::End) => Ok(self.ended(peer).inspect(|ended| ended.set(id.launch)).is_some()),
            FrameKind::Signal(Signal::Channel(channel)) => Ok(count_signal(rank, id.plan, channel, launch, plans)),
            FrameKind::Put { to, .. } => {
                if let Some(late) = self.find_late(rank, peer, id, to, plans) {
                    return Err(WireError::Late(Error::LateData(Box::new(late))));
                }
                Ok(bytes.is_none_or(|bytes| launch.accept(rank, &trigger(to), bytes)))
            }
            FrameKind::Zeros { .. } | FrameKind::Signal(Signal::Leave | Signal::Abort) => Ok(false),
        }
    }

    /// Returns the report of data that arrives after this rank's operations have finished, if the plan is wrong because
    /// of it.
    fn find_late(&self, rank: u32, peer: u32, id: LaunchId, to: RemoteAddress, plans: &[Prepared]) -> Option<LateData> {
        let LaunchId { plan, launch, .. } = id;
        let is_current = launch == self.id.get().launch && plan == self.id.get().plan;
        if is_current && !self.has_ended.get() {
            return None;
        }
        let (instr, number) = to.operand();
        // A message of no known plan is reported elsewhere.
        let context = find_plan(plans, plan)?;
        let program = &context.program;
        let of = program.instrs.get(instr as usize)?;
        let dst = program.dsts(of).get(number as usize).filter(|dst| dst.rank == rank)?;
        if is_current && context.may_be_late(dst.space) {
            return None;
        }
        let channel = |program: &ResolvedPlan| {
            let channel = program.ids(of).get(number as usize)?;
            Some(program.channels.get(*channel as usize)?.id)
        };
        Some(LateData {
            plan: program.plan.name().to_owned(),
            launch,
            rank,
            peer,
            memory: dst.space.name(),
            sent_by: Some(program.path(instr)),
            channel: channel(program),
        })
    }
}

/// Returns the part of a trigger's data that begins at an address.
fn trigger(to: RemoteAddress) -> Trigger {
    let (instr, number) = to.operand();
    Trigger { instr, number, at: to.offset, len: 0 }
}

/// Where the bytes of messages go.
struct Incoming<'a> {
    rank: u32,
    /// The current launch.
    id: LaunchId,
    launch: &'a Launch<'a>,
    pool: &'a Pool,
    /// `None` for a rank that does not send to this one in the launch: the launch does not wait for what it sends.
    memory: Option<&'a RefCell<LaunchMemory>>,
}

impl Destination<PooledBuffer> for Incoming<'_> {
    fn buffer(&mut self, len: u64) -> Option<PooledBuffer> {
        Some(self.pool.with_len(len))
    }

    fn memory(&mut self, put: &Frame, at: u64) -> Option<Span<'_>> {
        match put.kind {
            // Anything else is not written, but examined when it is complete.
            FrameKind::Put { to, len } if put.launch == self.id => {
                self.launch.destination(self.rank, &trigger(to), at, len - at)
            }
            _ => None,
        }
    }

    fn region(&mut self, put: &Frame) -> Option<Region> {
        let memory = self.memory?;
        let span = self.memory(put, 0).filter(|span| span.len() as u64 == put.len())?;
        let addresses = span.addresses();
        memory.borrow().region(&addresses)
    }
}

/// Returns the plan with the given key.
fn find_plan(plans: &[Prepared], key: u64) -> Option<&PlanState> {
    plans.iter().map(|plan| &*plan.context).find(|context| context.key() == key)
}

/// Counts a signal, and returns whether its channel is one to this rank.
fn count_signal(rank: u32, plan: u64, to: RemoteAddress, launch: &Launch<'_>, plans: &[Prepared]) -> bool {
    let (Some(context), Ok(channel)) = (find_plan(plans, plan), u32::try_from(to.key)) else {
        return false;
    };
    let own = context.program.channels.get(channel as usize).is_some_and(|channel| channel.rank == rank);
    if own {
        launch.count(context.counters.inbound(channel), Release);
    }
    own
}

/// Result of [`NodeConnections::progress`].
pub(super) struct IoProgress {
    pub(super) progress: bool,
    /// Whether no bytes wait to be sent.
    pub(super) sent: bool,
}

impl Remote for NodeConnections {
    fn reaches(&self, rank: u32) -> bool {
        self.has(rank)
    }

    fn max_bytes(&self) -> u64 {
        self.transport.borrow().capabilities().max_put_bytes
    }

    fn has_room(&self, rank: u32) -> bool {
        self.transport.borrow().has_room(rank)
    }

    fn put(&self, rank: u32, trigger: &Trigger, at: u64, from: Span<'_>, len: u64) -> u64 {
        let to = RemoteAddress::of_operand(trigger.instr, trigger.number, at);
        let mut transport = self.transport.borrow_mut();
        let region = || self.memory.borrow().region(&from.addresses());
        if from.len() as u64 == len
            && let Some(sent) = transport.put_from(rank, self.id.get(), to, from, &region)
        {
            return sent;
        }
        let source = self.pool.filled_by(|to| from.read(len as usize, to));
        transport.put(rank, self.id.get(), to, len, Some(source));
        len
    }

    fn put_row(&self, rank: u32, trigger: &Trigger, row: &[u8]) {
        let to = RemoteAddress::of_operand(trigger.instr, trigger.number, 0);
        let source = self.pool.filled_by(|to| to.extend_from_slice(row));
        self.transport.borrow_mut().put(rank, self.id.get(), to, row.len() as u64, Some(source));
    }

    fn are_sources_read(&self, rank: u32) -> bool {
        !self.transport.borrow().keeps_regions(rank)
    }

    fn signal(&self, rank: u32, channel: u32) {
        let channel = RemoteAddress { key: u64::from(channel), offset: 0 };
        self.transport.borrow_mut().signal(rank, self.id.get(), Signal::Channel(channel));
    }
}

#[cfg(test)]
mod bandwidth;
#[cfg(test)]
mod tests;
