//! Port channels between nodes: what proxies send goes over a TCP connection per pair of ranks, in order.
//!
//! A message is a trigger with the bytes that it moves, or a signal. It says which plan and launch it belongs to; one of a
//! launch that this rank has not begun is left in the connection until it has.
//!
//! # Nothing of a launch is under way when it has ended
//!
//! Behind the last message that a rank sends to another one in a launch goes an *end*, and a rank's launch ends only when all
//! that it sends has left, and when the ends have come of all ranks that the plan lets send to it. Messages arrive in order, so
//! all that these sent has come too, whether the plan waits for it or not: also what is flushed only, as a flush frees the
//! source and says nothing of the destination. An end follows its last message at once, so in a plan that waits for what it is
//! sent it is there as soon as that is. Two things follow:
//!
//! - No rank is kept from sending because another one has ended its launch and reads no more, and outside of launches nobody
//!   needs to move these connections. Inside, whoever waits does.
//! - Data is written while its rank is in the launch, and at no other time. What comes when the rank's operations have ended is
//!   too late for them, though: in what its caller handed in it is an error, and in scratch that the plan reads, unless the plan
//!   is proved.

use std::cell::{Cell, RefCell};
use std::net::TcpStream;

use bytemuck::{Pod, Zeroable};

use super::calls::RING;
use super::connection::{self, Connection};
use super::plan::{PlanState, Prepared};
use crate::error::{Error, LateData};
use crate::interpret::{Launch, Remote, ResolvedPlan, Trigger};

/// Bytes that may wait to be sent to a rank before its proxy is held up.
const MOST_WAITING: usize = 1 << 20;

/// Most bytes of a message: more than a piece has with its flags.
const MOST_BYTES: u64 = 1 << 20;

/// What goes before the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Header {
    /// Half of the plan's hash, launch of the group, and what the sender calls in it. Nodes need not have the same plans: a
    /// preparation can fail on one.
    plan: u64,
    launch: u64,
    call: u64,
    /// The trigger, and where its bytes begin; of a signal [`SIGNAL`] and the channel.
    instr: u32,
    number: u32,
    at: u64,
    /// Bytes that follow.
    len: u64,
}

impl connection::Header for Header {
    fn bytes(&self) -> u64 {
        self.len
    }
}

/// The instruction of a signal.
const SIGNAL: u32 = u32::MAX;

/// The instruction of a message that only says what a rank calls.
const GREETING: u32 = u32::MAX - 1;

/// The instruction of a message that says that its rank sends nothing more in its launch.
const END: u32 = u32::MAX - 2;

/// Connections to ranks on other nodes.
#[derive(Default)]
pub(super) struct Wires {
    /// By rank; `None` for ranks that no plan has needed so far, and those of this node.
    wires: Vec<Option<Wire>>,
    /// Half the hash of the plan at hand, the launch and the call.
    plan: Cell<u64>,
    launch: Cell<u64>,
    call: Cell<u64>,
    /// What the last launches called, by launch.
    history: Cell<[(u64, u64); RING as usize]>,
    /// Whether the own operations of the launch have ended.
    has_ended: Cell<bool>,
}

/// A connection to a rank.
struct Wire {
    connection: RefCell<Connection<Header>>,
    /// The last launch of which its end has come.
    ended: Cell<u64>,
}

/// Why messages cannot be taken.
pub(super) enum WireError {
    /// A rank is gone, or sends what no plan says.
    Lost(Error),
    /// Data arrived after the last operation that could wait for it.
    Late(Error),
    /// A rank calls something else in a launch.
    Differs {
        peer: u32,
        /// Ids of the calls.
        own: u64,
        other: u64,
    },
}

impl Wires {
    /// Whether there is a connection to a rank.
    pub(super) fn has(&self, rank: u32) -> bool {
        self.wire(rank).is_some()
    }

    /// Whether there is none at all.
    pub(super) fn is_empty(&self) -> bool {
        self.wires.is_empty()
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(super) fn add(&mut self, rank: u32, stream: TcpStream) -> Result<(), Error> {
        let connection = Connection::new(rank, stream)?;
        if self.wires.len() <= rank as usize {
            self.wires.resize_with(rank as usize + 1, || None);
        }
        self.wires[rank as usize] = Some(Wire { connection: RefCell::new(connection), ended: Cell::new(0) });
        Ok(())
    }

    /// Begins a launch, a call `call`.
    pub(super) fn begin(&self, plan: &PlanState, launch: u64, call: u64) {
        self.plan.set(plan.key());
        self.launch.set(launch);
        self.call.set(call);
        self.has_ended.set(false);
        let mut history = self.history.get();
        history[(launch % RING) as usize] = (launch, call);
        self.history.set(history);
    }

    /// Says to all what this rank calls, where it is about to wait for them otherwise than for their messages.
    pub(super) fn announce_call(&self) {
        for (peer, wire) in (0..).zip(&self.wires) {
            self.send(peer, self.header(GREETING, 0, 0), &mut |_| {});
            if let Some(wire) = wire {
                // What cannot be sent now goes with what follows, and who is gone is seen then.
                let _ = wire.connection.borrow_mut().write();
            }
        }
    }

    /// Says to ranks that this one sends nothing more in the launch.
    pub(super) fn send_ends(&self, peers: &[u32]) {
        for &peer in peers {
            self.send(peer, self.header(END, 0, 0), &mut |_| {});
        }
    }

    /// Says that the own operations of the launch have ended: data that comes now is late.
    pub(super) fn end(&self) {
        self.has_ended.set(true);
    }

    /// Whether they have.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Ranks, of some, whose end of the launch has not come.
    pub(super) fn unended<'a>(&'a self, peers: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let ended = |peer: u32| self.wire(peer).is_none_or(|wire| wire.ended.get() >= self.launch.get());
        peers.iter().copied().filter(move |&peer| !ended(peer))
    }

    fn wire(&self, rank: u32) -> Option<&Wire> {
        self.wires.get(rank as usize)?.as_ref()
    }

    /// What this rank called in a launch, if it is one of the last.
    fn called(&self, launch: u64) -> Option<u64> {
        let (known, call) = self.history.get()[(launch % RING) as usize];
        (known == launch).then_some(call)
    }

    /// Sends and receives as much as goes without waiting. `launch`: the one at hand; `plans`: all of the group.
    ///
    /// # Errors
    /// [`WireError::RankLost`] names a rank that is gone, or that sends what no plan says; [`WireError::Differs`] one whose first
    /// message of a launch says that it calls something else; [`WireError::Late`] one whose data nobody waited for.
    pub(super) fn pump(&self, rank: u32, launch: &Launch<'_>, plans: &[Prepared]) -> Result<IoProgress, WireError> {
        let mut pumped = IoProgress { progress: false, sent: true };
        for (peer, wire) in (0..).zip(&self.wires) {
            let Some(Wire { connection, ended }) = wire else {
                continue;
            };
            let mut wire = connection.borrow_mut();
            let lost = |why: String| WireError::Lost(Error::RankLost { peer, why });
            pumped.progress |= wire.write().map_err(|why| lost(format!("its connection failed: {why}")))?;
            pumped.sent &= wire.waiting() == 0;
            pumped.progress |= wire.fill(2 * MOST_BYTES as usize);
            let mut used = 0;
            while let Some((header, bytes)) = wire.message(used, MOST_BYTES).map_err(lost)? {
                if header.launch > self.launch.get() {
                    break;
                }
                if let Some(own) = self.called(header.launch).filter(|&own| own != header.call) {
                    return Err(WireError::Differs { peer, own, other: header.call });
                }
                match header.instr {
                    GREETING => {}
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
                pumped.progress = true;
            }
            wire.consume(used);
        }
        Ok(pumped)
    }

    /// Does what a message says; whether that can be.
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

    /// What there is to say of data that comes when the own operations of its launch have ended, if that makes its plan wrong.
    fn find_late(&self, rank: u32, peer: u32, header: &Header, plans: &[Prepared]) -> Option<LateData> {
        let Header { plan, launch, instr, number, .. } = *header;
        let is_current = launch == self.launch.get() && plan == self.plan.get();
        if instr == SIGNAL || is_current && !self.has_ended.get() {
            return None;
        }
        // What no plan has is said elsewhere.
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

    /// The header of a message of this launch.
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

/// The plan that ranks of other nodes call so.
fn find_plan(plans: &[Prepared], key: u64) -> Option<&PlanState> {
    plans.iter().map(|plan| &*plan.context).find(|context| context.key() == key)
}

/// What a pump has done.
pub(super) struct IoProgress {
    pub(super) progress: bool,
    /// Nothing waits to be sent.
    pub(super) sent: bool,
}

impl Remote for Wires {
    fn reaches(&self, rank: u32) -> bool {
        self.has(rank)
    }

    fn has_room(&self, rank: u32) -> bool {
        self.wire(rank).is_none_or(|wire| wire.connection.borrow().waiting() < MOST_WAITING)
    }

    fn put(&self, rank: u32, trigger: &Trigger, at: u64, bytes: &mut dyn FnMut(&mut Vec<u8>)) {
        let Trigger { instr, number, .. } = *trigger;
        self.send(rank, self.header(instr, number, at), bytes);
    }

    fn signal(&self, rank: u32, channel: u32) {
        self.send(rank, self.header(SIGNAL, channel, 0), &mut |_| {});
    }
}
