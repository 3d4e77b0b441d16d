//! Port channels between nodes: what proxies send goes over a TCP connection per pair of ranks, in order.
//!
//! A message is a trigger with the bytes that it moves, or a signal. It says which plan and launch it belongs to; one of a
//! launch that this rank has not begun is left in the connection until it has.

use std::cell::{Cell, RefCell};
use std::net::TcpStream;

use bytemuck::{Pod, Zeroable};

use super::calls::RING;
use super::connection::{self, Connection};
use super::plan::{PlanContext, Prepared};
use crate::error::Error;
use crate::interpret::{Launch, Remote, Trigger};

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

/// Connections to ranks on other nodes.
#[derive(Default)]
pub(super) struct Wires {
    /// By rank; `None` for ranks that no plan has needed so far, and those of this node.
    wires: Vec<Option<RefCell<Connection<Header>>>>,
    /// Half the hash of the plan at hand, the launch and the call.
    plan: Cell<u64>,
    launch: Cell<u64>,
    call: Cell<u64>,
    /// What the last launches called, by launch.
    history: Cell<[(u64, u64); RING as usize]>,
}

/// Why messages cannot be taken.
pub(super) enum Trouble {
    /// A rank is gone, or sends what no plan says.
    Lost(Error),
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
        self.wires.get(rank as usize).is_some_and(Option::is_some)
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
        self.wires[rank as usize] = Some(RefCell::new(connection));
        Ok(())
    }

    /// Begins a launch, a call `call`.
    pub(super) fn begin(&self, plan: &PlanContext, launch: u64, call: u64) {
        self.plan.set(plan.key());
        self.launch.set(launch);
        self.call.set(call);
        let mut history = self.history.get();
        history[(launch % RING) as usize] = (launch, call);
        self.history.set(history);
    }

    /// Says to all what this rank calls, where it is about to wait for them otherwise than for their messages.
    pub(super) fn greet(&self) {
        for (peer, wire) in (0..).zip(&self.wires) {
            self.send(peer, self.header(GREETING, 0, 0), &mut |_| {});
            if let Some(wire) = wire {
                // What cannot be sent now goes with what follows, and who is gone is seen then.
                let _ = wire.borrow_mut().write();
            }
        }
    }

    /// What this rank called in a launch, if it is one of the last.
    fn called(&self, launch: u64) -> Option<u64> {
        let (known, call) = self.history.get()[(launch % RING) as usize];
        (known == launch).then_some(call)
    }

    /// Sends and receives as much as goes without waiting. `launch`: the one at hand; `plans`: all of the group.
    ///
    /// # Errors
    /// [`Trouble::Lost`] names a rank that is gone, or that sends what no plan says; [`Trouble::Differs`] one whose first
    /// message of a launch says that it calls something else.
    pub(super) fn pump(&self, rank: u32, launch: &Launch<'_>, plans: &[Prepared]) -> Result<Pumped, Trouble> {
        let mut pumped = Pumped { progress: false, sent: true };
        for (peer, wire) in (0..).zip(&self.wires) {
            let Some(mut wire) = wire.as_ref().map(RefCell::borrow_mut) else {
                continue;
            };
            let lost = |why: String| Trouble::Lost(Error::Lost { peer, why });
            pumped.progress |= wire.write().map_err(|why| lost(format!("its connection failed: {why}")))?;
            pumped.sent &= wire.waiting() == 0;
            pumped.progress |= wire.fill(2 * MOST_BYTES as usize);
            let mut used = 0;
            while let Some((header, bytes)) = wire.message(used, MOST_BYTES).map_err(lost)? {
                if header.launch > self.launch.get() {
                    break;
                }
                if let Some(own) = self.called(header.launch).filter(|&own| own != header.call) {
                    return Err(Trouble::Differs { peer, own, other: header.call });
                }
                if !self.accept(rank, &header, bytes, launch, plans) {
                    return Err(lost(format!("it sent a message that no plan has: {header:?}")));
                }
                used += size_of::<Header>() + bytes.len();
                pumped.progress = true;
            }
            wire.understood(used);
        }
        Ok(pumped)
    }

    /// Does what a message says; whether that can be.
    fn accept(&self, rank: u32, header: &Header, bytes: &[u8], launch: &Launch<'_>, plans: &[Prepared]) -> bool {
        let Header { plan, number, instr, at, .. } = *header;
        if instr == GREETING {
            return true;
        }
        if instr == SIGNAL {
            let mut plans = plans.iter().map(|plan| &plan.context);
            let Some(context) = plans.find(|context| context.key() == plan) else {
                return false;
            };
            let channels = &context.program.channels;
            let own = channels.get(number as usize).is_some_and(|channel| channel.rank == rank);
            if own {
                launch.count(context.counters.inbound(number), std::sync::atomic::Ordering::Release);
            }
            return own;
        }
        // Data of a launch that is over is data that nobody waited for.
        let current = header.launch == self.launch.get() && plan == self.plan.get();
        !current || launch.accept(rank, &Trigger { instr, number, at, len: 0 }, bytes)
    }

    /// The header of a message of this launch.
    fn header(&self, instr: u32, number: u32, at: u64) -> Header {
        Header { plan: self.plan.get(), launch: self.launch.get(), call: self.call.get(), instr, number, at, len: 0 }
    }

    fn send(&self, rank: u32, header: Header, bytes: &mut dyn FnMut(&mut Vec<u8>)) {
        if let Some(wire) = self.wires.get(rank as usize).and_then(Option::as_ref) {
            let mut message = vec![0; size_of::<Header>()];
            bytes(&mut message);
            let header = Header { len: (message.len() - size_of::<Header>()) as u64, ..header };
            message[..size_of::<Header>()].copy_from_slice(bytemuck::bytes_of(&header));
            wire.borrow_mut().push(message);
        }
    }
}

/// What a pump has done.
pub(super) struct Pumped {
    pub(super) progress: bool,
    /// Nothing waits to be sent.
    pub(super) sent: bool,
}

impl Remote for Wires {
    fn reaches(&self, rank: u32) -> bool {
        self.has(rank)
    }

    fn has_room(&self, rank: u32) -> bool {
        let wire = self.wires.get(rank as usize).and_then(Option::as_ref);
        wire.is_none_or(|wire| wire.borrow().waiting() < MOST_WAITING)
    }

    fn put(&self, rank: u32, trigger: &Trigger, at: u64, bytes: &mut dyn FnMut(&mut Vec<u8>)) {
        let Trigger { instr, number, .. } = *trigger;
        self.send(rank, self.header(instr, number, at), bytes);
    }

    fn signal(&self, rank: u32, channel: u32) {
        self.send(rank, self.header(SIGNAL, channel, 0), &mut |_| {});
    }
}
