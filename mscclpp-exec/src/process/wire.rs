//! Port channels between nodes: proxies send over one TCP connection per pair of ranks, in order.
//!
//! A message is a trigger with the bytes that it moves, or a signal. It names its plan and launch. A message of a
//! launch that this rank has not started stays in the connection until the rank has.
//!
//! # No data of a launch is in flight when it has ended
//!
//! After the last message that a rank sends to another one in a launch it sends an *end*. A rank's launch ends only
//! when everything that it sends has been passed to the system, and when the ends of all ranks have arrived that send
//! to it in the plan. Messages arrive in order, so everything that those ranks sent has arrived as well, whether the
//! plan waits for it or not. This includes puts that are only flushed, because a flush frees the source and implies
//! nothing about the destination. An end follows its last message at once, so in a plan that waits for all it receives,
//! the end arrives together with the last message. Two properties follow:
//!
//! - A rank can send even if the receiver has ended its launch and no longer reads, and outside of launches these
//!   connections need no service. Within launches, every waiting rank serves them.
//! - Data is written only while the receiver is in the launch. Data that arrives after the receiver's last operation is
//!   too late for its operations, though: in a caller's buffer this is an error, and also in scratch that the plan
//!   reads, unless the plan is proved.

use std::cell::{Cell, RefCell};
use std::net::TcpStream;

use bytemuck::{Pod, Zeroable};

use super::calls::RING;
use super::connection::{self, Connection};
use super::plan::{PlanState, Prepared};
use crate::error::{Error, LateData};
use crate::interpret::{Launch, Remote, ResolvedPlan, Trigger};

/// Number of queued bytes for a rank above which its proxy waits.
const MAX_WAITING: usize = 1 << 20;

/// Maximum number of bytes of a message: more than one slice of a put has, including its flags.
const MAX_BYTES: u64 = 1 << 20;

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Header {
    /// Half of the plan's hash, number of the launch in the communicator, and id of the sender's call. Nodes need not
    /// have the same plans, because a preparation can fail on one of them.
    plan: u64,
    launch: u64,
    call: u64,
    /// The trigger, and where its bytes begin; for a signal [`SIGNAL`] and the channel.
    instr: u32,
    number: u32,
    at: u64,
    /// Number of bytes after the header.
    len: u64,
}

impl connection::Header for Header {
    fn bytes(&self) -> u64 {
        self.len
    }
}

/// The instruction of a signal.
const SIGNAL: u32 = u32::MAX;

/// The instruction of a message that only announces the sender's call.
const CALL: u32 = u32::MAX - 1;

/// The instruction of a message that announces that its sender sends nothing more in its launch.
const END: u32 = u32::MAX - 2;

/// Connections to ranks on other nodes.
#[derive(Default)]
pub(super) struct NodeConnections {
    /// By rank; `None` for ranks that no plan has needed so far, and for those of this node.
    connections: Vec<Option<NodeConnection>>,
    /// Half of the current plan's hash, the launch and the call.
    plan: Cell<u64>,
    launch: Cell<u64>,
    call: Cell<u64>,
    /// Calls of the last launches, by launch.
    history: Cell<[(u64, u64); RING as usize]>,
    /// Whether this rank's operations of the launch have finished.
    has_ended: Cell<bool>,
}

/// A connection to a rank.
struct NodeConnection {
    connection: RefCell<Connection<Header>>,
    /// The last launch whose end has arrived.
    ended: Cell<u64>,
}

/// Why messages cannot be processed.
pub(super) enum WireError {
    /// A rank is lost, or sends messages that no plan contains.
    Lost(Error),
    /// Data arrived after the last operation that could wait for it.
    Late(Error),
    /// A rank makes another call in a launch.
    Differs {
        peer: u32,
        /// Ids of the calls.
        own: u64,
        other: u64,
    },
}

impl NodeConnections {
    /// Returns whether there is a connection to a rank.
    pub(super) fn has(&self, rank: u32) -> bool {
        self.wire(rank).is_some()
    }

    /// Returns whether there are no connections.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(super) fn add(&mut self, rank: u32, stream: TcpStream) -> Result<(), Error> {
        let connection = Connection::new(rank, stream)?;
        if self.connections.len() <= rank as usize {
            self.connections.resize_with(rank as usize + 1, || None);
        }
        self.connections[rank as usize] =
            Some(NodeConnection { connection: RefCell::new(connection), ended: Cell::new(0) });
        Ok(())
    }

    /// Starts a launch with call id `call`.
    pub(super) fn begin(&self, plan: &PlanState, launch: u64, call: u64) {
        self.plan.set(plan.key());
        self.launch.set(launch);
        self.call.set(call);
        self.has_ended.set(false);
        let mut history = self.history.get();
        history[(launch % RING) as usize] = (launch, call);
        self.history.set(history);
    }

    /// Announces this rank's call to all connected ranks, before it waits for them otherwise than for their messages.
    pub(super) fn announce_call(&self) {
        for (peer, wire) in (0..).zip(&self.connections) {
            self.send(peer, self.header(CALL, 0, 0), &mut |_| {});
            if let Some(wire) = wire {
                // What cannot be sent now is sent with the next message, which also detects a lost rank.
                let _ = wire.connection.borrow_mut().write();
            }
        }
    }

    /// Announces to ranks that this one sends nothing more in the launch.
    pub(super) fn send_ends(&self, peers: &[u32]) {
        for &peer in peers {
            self.send(peer, self.header(END, 0, 0), &mut |_| {});
        }
    }

    /// Records that this rank's operations of the launch have finished: data that arrives from now on is late.
    pub(super) fn end(&self) {
        self.has_ended.set(true);
    }

    /// Returns whether this rank's operations of the launch have finished.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Returns the ranks among `peers` whose end of the launch has not arrived.
    pub(super) fn pending_senders<'a>(&'a self, peers: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let ended = |peer: u32| self.wire(peer).is_none_or(|wire| wire.ended.get() >= self.launch.get());
        peers.iter().copied().filter(move |&peer| !ended(peer))
    }

    fn wire(&self, rank: u32) -> Option<&NodeConnection> {
        self.connections.get(rank as usize)?.as_ref()
    }

    /// Returns this rank's call in a launch, if it is one of the last.
    fn called(&self, launch: u64) -> Option<u64> {
        let (known, call) = self.history.get()[(launch % RING) as usize];
        (known == launch).then_some(call)
    }

    /// Sends and receives as much as possible without waiting. `launch`: the current launch; `plans`: all of the
    /// communicator.
    ///
    /// # Errors
    /// [`WireError::Lost`] names a rank that is lost, or that sends messages that no plan contains;
    /// [`WireError::Differs`] one whose first message of a launch announces another call; [`WireError::Late`] one whose
    /// data no operation waited for.
    pub(super) fn progress(&self, rank: u32, launch: &Launch<'_>, plans: &[Prepared]) -> Result<IoProgress, WireError> {
        let mut io = IoProgress { progress: false, sent: true };
        for (peer, wire) in (0..).zip(&self.connections) {
            let Some(NodeConnection { connection, ended }) = wire else {
                continue;
            };
            let mut wire = connection.borrow_mut();
            let lost = |why: String| WireError::Lost(Error::RankLost { peer, why });
            io.progress |= wire.write().map_err(|why| lost(format!("its connection failed: {why}")))?;
            io.sent &= wire.waiting() == 0;
            io.progress |= wire.fill(2 * MAX_BYTES as usize);
            let mut used = 0;
            while let Some((header, bytes)) = wire.message(used, MAX_BYTES).map_err(lost)? {
                if header.launch > self.launch.get() {
                    break;
                }
                if let Some(own) = self.called(header.launch).filter(|&own| own != header.call) {
                    return Err(WireError::Differs { peer, own, other: header.call });
                }
                match header.instr {
                    CALL => {}
                    END => ended.set(header.launch),
                    _ => {
                        if let Some(late) = self.find_late(rank, peer, &header, plans) {
                            return Err(WireError::Late(Error::LateData(Box::new(late))));
                        }
                        if !self.accept(rank, &header, bytes, launch, plans) {
                            return Err(lost(format!("it sent a frame that no plan expects: {header:?}")));
                        }
                    }
                }
                used += size_of::<Header>() + bytes.len();
                io.progress = true;
            }
            wire.consume(used);
        }
        Ok(io)
    }

    /// Executes a message, and returns whether it is valid.
    fn accept(&self, rank: u32, header: &Header, bytes: &[u8], launch: &Launch<'_>, plans: &[Prepared]) -> bool {
        let Header { plan, number, instr, at, .. } = *header;
        if instr == SIGNAL {
            let Some(context) = find_plan(plans, plan) else {
                return false;
            };
            let channels = &context.program.channels;
            let own = channels.get(number as usize).is_some_and(|channel| channel.rank == rank);
            if own {
                launch.count(context.counters.inbound(number), std::sync::atomic::Ordering::Release);
            }
            return own;
        }
        launch.accept(rank, &Trigger { instr, number, at, len: 0 }, bytes)
    }

    /// Returns the report of data that arrives after this rank's operations have finished, if the plan is wrong because
    /// of it.
    fn find_late(&self, rank: u32, peer: u32, header: &Header, plans: &[Prepared]) -> Option<LateData> {
        let Header { plan, launch, instr, number, .. } = *header;
        let is_current = launch == self.launch.get() && plan == self.plan.get();
        if instr == SIGNAL || is_current && !self.has_ended.get() {
            return None;
        }
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
            place: Some(program.path(instr)),
            channel: channel(program),
        })
    }

    /// Returns the header of a message of this launch.
    fn header(&self, instr: u32, number: u32, at: u64) -> Header {
        Header { plan: self.plan.get(), launch: self.launch.get(), call: self.call.get(), instr, number, at, len: 0 }
    }

    fn send(&self, rank: u32, header: Header, bytes: &mut dyn FnMut(&mut Vec<u8>)) {
        if let Some(wire) = self.wire(rank) {
            let mut message = vec![0; size_of::<Header>()];
            bytes(&mut message);
            let header = Header { len: (message.len() - size_of::<Header>()) as u64, ..header };
            message[..size_of::<Header>()].copy_from_slice(bytemuck::bytes_of(&header));
            wire.connection.borrow_mut().push(message);
        }
    }
}

/// Returns the plan with the given key.
fn find_plan(plans: &[Prepared], key: u64) -> Option<&PlanState> {
    plans.iter().map(|plan| &*plan.context).find(|context| context.key() == key)
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

    fn has_room(&self, rank: u32) -> bool {
        self.wire(rank).is_none_or(|wire| wire.connection.borrow().waiting() < MAX_WAITING)
    }

    fn put(&self, rank: u32, trigger: &Trigger, at: u64, bytes: &mut dyn FnMut(&mut Vec<u8>)) {
        let Trigger { instr, number, .. } = *trigger;
        self.send(rank, self.header(instr, number, at), bytes);
    }

    fn signal(&self, rank: u32, channel: u32) {
        self.send(rank, self.header(SIGNAL, channel, 0), &mut |_| {});
    }
}
