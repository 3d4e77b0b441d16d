//! What a proxy sends to ranks on other nodes, and takes from them: for each plan a TCP connection to each of them.
//!
//! Data goes from the device to a piece of page-locked memory, over the connection, to such a piece on the other side, and from
//! there to the device; each side has two pieces for each way, so that copies and the network work at the same time. All that
//! is sent to a rank arrives in the order of the requests, and a signal is written behind the data on the same stream.
//!
//! Messages say to which launch they belong. What belongs to a launch that the own device has not begun stays in the connection;
//! data of one that it has finished is thrown away, as nobody waited for it. So a rank's memory is written to while it is in
//! the launch, and at no other time.

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};

use super::memory::{Memories, Target};
use super::staging::{PIECE, Piece, Staging, Stagings, Way};
use crate::bootstrap::Bootstrap;
use crate::cuda::device::Device;
use crate::cuda::driver::{self, Handle, SharedDriver};
use crate::cuda::proxy::Failure;
use crate::error::{Cause, Error};
use crate::process::{Connection, Header};

/// Requests that may wait for a rank before the queue is held up.
const MOST_WAITING: usize = 1024;

/// Bytes that go with their header at once.
const SMALL: usize = 1 << 14;

/// How long after a connection's end its reason may take to arrive here.
const HEARSAY: Duration = Duration::from_millis(200);

/// What goes before the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Frame {
    /// Half of the plan's hash.
    plan: u64,
    /// Launch of the plan, counted from 1.
    launch: u64,
    kind: u64,
    /// The receiver's number of a memory, the first byte in it, and how many.
    memory: u64,
    at: u64,
    bytes: u64,
}

/// Kinds of messages.
mod kind {
    /// Bytes that follow.
    pub(super) const DATA: u64 = 1;
    /// Zeros, which do not.
    pub(super) const ZEROS: u64 = 2;
    /// One more on a counter.
    pub(super) const SIGNAL: u64 = 3;
    /// The sender has all that it needs.
    pub(super) const LEAVES: u64 = 4;
    /// The sender cannot go on.
    pub(super) const GIVES_UP: u64 = 5;
}

impl Header for Frame {
    fn bytes(&self) -> u64 {
        if self.kind == kind::DATA { self.bytes } else { 0 }
    }
}

/// Addresses that the device signals when it begins a launch and when it has finished its part.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct Markers {
    pub(in crate::cuda) begin: u64,
    pub(in crate::cuda) end: u64,
}

/// A way to the ranks of other nodes that one rank sends to in a plan.
pub(in crate::cuda) struct Wires {
    driver: SharedDriver,
    bootstrap: Arc<Bootstrap>,
    memories: Arc<Memories>,
    /// What arrives is copied here.
    stream: Handle,
    plan: u64,
    markers: Markers,
    /// Launches that the device has begun, and finished.
    begun: u64,
    ended: u64,
    wires: Vec<Wire>,
    /// Copies to the device, in their order: what is done after them, and from which piece.
    arriving: VecDeque<(Handle, Piece)>,
    /// Signals that were written to each counter.
    signalled: BTreeMap<u64, u64>,
    /// Whether others were told that this rank sends nothing more.
    is_over: bool,
    /// When something was sent or taken last.
    moved: Instant,
}

/// A connection and its pieces.
struct Wire {
    peer: u32,
    connection: Option<Connection<Frame>>,
    staging: Arc<Staging>,
    outgoing: VecDeque<Outgoing>,
    incoming: Option<Incoming>,
    /// The rank has left in order.
    has_left: bool,
    /// When it was seen that the rank has given up, or is gone.
    lost: Option<(Instant, Lost)>,
}

/// What is known of a rank that sends nothing more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    GaveUp,
    Gone,
}

/// A message to send.
struct Outgoing {
    frame: Frame,
    /// Holds its bytes.
    piece: Option<Piece>,
    /// The batch of the proxy after which it may go.
    after: u64,
    begun: bool,
    sent: usize,
}

/// A message of which the header has come.
struct Incoming {
    frame: Frame,
    piece: Option<Piece>,
    taken: usize,
}

/// The rest of a copy to another node.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct Put {
    /// 0: zeros.
    src: u64,
    bytes: u64,
    wire: usize,
    target: Target,
}

impl Put {
    pub(in crate::cuda) fn is_staged(&self) -> bool {
        self.bytes == 0
    }
}

impl Wires {
    /// Ways to `peers`, which are connected later.
    pub(in crate::cuda) fn new(
        device: &Device,
        bootstrap: &Arc<Bootstrap>,
        (memories, stagings): (&Arc<Memories>, &Stagings),
        plan: u64,
        markers: Markers,
        peers: &[u32],
    ) -> driver::Result<Self> {
        let driver = device.driver().clone();
        let wire = |&peer: &u32| {
            Ok(Wire {
                peer,
                connection: None,
                staging: stagings.of(peer, &driver)?,
                outgoing: VecDeque::new(),
                incoming: None,
                has_left: false,
                lost: None,
            })
        };
        let wires = peers.iter().map(wire).collect::<driver::Result<_>>()?;
        Ok(Self {
            stream: driver.create_stream()?,
            driver,
            bootstrap: Arc::clone(bootstrap),
            memories: Arc::clone(memories),
            plan,
            markers,
            begun: 0,
            ended: 0,
            wires,
            arriving: VecDeque::new(),
            signalled: BTreeMap::new(),
            is_over: false,
            moved: Instant::now(),
        })
    }

    /// Ranks that have no connection yet, ascending.
    pub(in crate::cuda) fn unconnected(&self) -> Vec<u32> {
        self.wires.iter().filter(|wire| wire.connection.is_none()).map(|wire| wire.peer).collect()
    }

    /// The connection to a rank.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(in crate::cuda) fn connect(&mut self, peer: u32, stream: TcpStream) -> Result<(), Error> {
        let connection = Connection::new(peer, stream)?;
        if let Some(wire) = self.wires.iter_mut().find(|wire| wire.peer == peer) {
            wire.connection = Some(connection);
        }
        Ok(())
    }

    /// If a signal is one of the markers, notes what it says.
    pub(in crate::cuda) fn mark(&mut self, signal: u64) -> bool {
        if signal == self.markers.begin {
            self.begun += 1;
            self.moved = Instant::now();
        } else if signal == self.markers.end {
            self.ended = self.begun;
        } else {
            return false;
        }
        true
    }

    /// Whether the device is in a launch.
    fn is_in_launch(&self) -> bool {
        self.begun > self.ended
    }

    fn wire_to(&self, address: u64) -> Result<(usize, Target), Failure> {
        let target = self.memories.find(address);
        let found = target.and_then(|target| {
            let wire = self.wires.iter().position(|wire| wire.peer == target.rank)?;
            Some((wire, target))
        });
        found.ok_or_else(|| Error::Internal(format!("a request for {address:#x}, which is nowhere")).into())
    }

    fn frame(&self, kind: u64, target: Target, bytes: u64) -> Frame {
        Frame { plan: self.plan, launch: self.begun, kind, memory: target.number, at: target.at, bytes }
    }

    /// A copy to memory of another node, none of which is staged yet.
    pub(in crate::cuda) fn put(&self, src: u64, dst: u64, bytes: u64) -> Result<Put, Failure> {
        let (wire, target) = self.wire_to(dst)?;
        if target.room < bytes {
            let text = format!("a request for {bytes} bytes where rank {} has {}", target.rank, target.room);
            return Err(Error::Internal(text).into());
        }
        Ok(Put { src, bytes, wire, target })
    }

    /// Copies as much of it as there are pieces for, on the proxy's stream. `after`: the batch to which that belongs. Whether
    /// that was anything.
    pub(in crate::cuda) fn stage(&mut self, put: &mut Put, after: u64, stream: Handle) -> driver::Result<bool> {
        let before = put.bytes;
        while put.bytes > 0 && self.wires[put.wire].outgoing.len() < MOST_WAITING {
            let (mut piece, mut n, mut kind) = (None, put.bytes, kind::ZEROS);
            if put.src != 0 {
                let Some(free) = self.wires[put.wire].staging.take(Way::Out) else { break };
                n = n.min(PIECE);
                self.driver.copy(free.device(), put.src, n, stream)?;
                put.src += n;
                (piece, kind) = (Some(free), kind::DATA);
            }
            let frame = self.frame(kind, put.target, n);
            self.wires[put.wire].outgoing.push_back(Outgoing { frame, piece, after, begun: false, sent: 0 });
            put.target.at += n;
            put.bytes -= n;
        }
        Ok(put.bytes < before)
    }

    /// Sends a signal behind everything before it; whether there was room.
    pub(in crate::cuda) fn signal(&mut self, signal: u64, after: u64) -> Result<bool, Failure> {
        let (wire, target) = self.wire_to(signal)?;
        let frame = self.frame(kind::SIGNAL, target, 8);
        let outgoing = &mut self.wires[wire].outgoing;
        let has_room = outgoing.len() < MOST_WAITING;
        if has_room {
            outgoing.push_back(Outgoing { frame, piece: None, after, begun: false, sent: 0 });
        }
        Ok(has_room)
    }

    /// Sends and takes as much as goes without waiting; whether that was anything. `done`: batches of the proxy whose copies
    /// are done.
    pub(in crate::cuda) fn pump(&mut self, done: u64) -> Result<bool, Failure> {
        let mut progress = self.land()?;
        for at in 0..self.wires.len() {
            let wire = &mut self.wires[at];
            match wire.send(done) {
                Ok(sent) => progress |= sent,
                Err(_) => wire.lose(Lost::Gone),
            }
            // Between launches there is nothing to take.
            if self.is_in_launch() {
                progress |= self.take(at)?;
            }
        }
        if progress {
            self.moved = Instant::now();
        } else if self.is_in_launch() || !self.is_idle() {
            self.look()?;
        }
        Ok(progress)
    }

    /// Makes pieces free whose bytes are on the device.
    fn land(&mut self) -> driver::Result<bool> {
        let mut progress = false;
        while let Some(&(event, _)) = self.arriving.front() {
            if !self.driver.is_done(event)? {
                break;
            }
            self.arriving.pop_front();
            self.driver.destroy_event(event)?;
            progress = true;
        }
        Ok(progress)
    }

    /// Looks whether somebody is gone without whom there is no going on.
    fn look(&self) -> Result<(), Failure> {
        if let Err(error) = self.bootstrap.check_alive() {
            return Err(Failure::Cause(Cause::Group(Box::new(error))));
        }
        // Who died is to be named, not who noticed it first.
        let late =
            |wire: &Wire| wire.lost.filter(|(since, _)| since.elapsed() > HEARSAY).map(|(_, how)| (wire.peer, how));
        match self.wires.iter().find_map(late) {
            Some((peer, Lost::GaveUp)) => Err(Failure::Cause(Cause::GaveUp { peer })),
            Some((peer, Lost::Gone)) => Err(Failure::Cause(Cause::Gone { peer })),
            None => Ok(()),
        }
    }

    /// Takes what has come from a rank for launches that the device has begun.
    fn take(&mut self, at: usize) -> Result<bool, Failure> {
        let mut progress = false;
        loop {
            let wire = &mut self.wires[at];
            let Some(connection) = &mut wire.connection else { break };
            if wire.incoming.is_none() {
                match connection.take_header() {
                    Some(frame) => wire.incoming = Some(Incoming { frame, piece: None, taken: 0 }),
                    None => {
                        if connection.is_closed() && !wire.has_left {
                            wire.lose(Lost::Gone);
                        }
                        break;
                    }
                }
            }
            let Some(incoming) = &mut wire.incoming else { break };
            let frame = incoming.frame;
            if frame.plan != self.plan || frame.bytes() > PIECE {
                return Err(malformed(wire.peer, &frame));
            }
            if frame.launch > self.begun {
                break;
            }
            if frame.kind == kind::DATA {
                if incoming.piece.is_none() {
                    incoming.piece = wire.staging.take(Way::In);
                }
                let Some(piece) = &mut incoming.piece else { break };
                // SAFETY: the piece was free, so no copy from it is under way, and the next one begins when it is full.
                let to = unsafe { piece.bytes_mut(frame.bytes) };
                let n = connection.take_bytes(&mut to[incoming.taken..]);
                incoming.taken += n;
                progress |= n > 0;
                if incoming.taken < frame.bytes as usize {
                    if n > 0 {
                        continue;
                    }
                    if connection.is_closed() {
                        wire.lose(Lost::Gone);
                    }
                    break;
                }
            }
            let piece = incoming.piece.take();
            wire.incoming = None;
            self.accept(at, frame, piece)?;
            progress = true;
        }
        Ok(progress)
    }

    /// Does what a message says, whose bytes are in a piece.
    fn accept(&mut self, at: usize, frame: Frame, piece: Option<Piece>) -> Result<(), Failure> {
        let Frame { kind, launch, memory, at: first, bytes, .. } = frame;
        let peer = self.wires[at].peer;
        let malformed = || malformed(peer, &frame);
        let is_late = launch <= self.ended;
        match kind {
            // Nobody has waited for it.
            kind::DATA | kind::ZEROS if is_late => {}
            kind::DATA => {
                let to = self.memories.resolve(memory, first, bytes).ok_or_else(malformed)?;
                let piece = piece.ok_or_else(malformed)?;
                let event = self.driver.create_event()?;
                let copied = self.driver.copy(to, piece.device(), bytes, self.stream);
                let copied = copied.and_then(|()| self.driver.record(event, self.stream));
                // Not free for others, even if it is not known when it is done.
                self.arriving.push_back((event, piece));
                copied?;
            }
            kind::ZEROS => {
                let to = self.memories.resolve(memory, first, bytes).ok_or_else(malformed)?;
                self.driver.zero_on(to, bytes, self.stream)?;
            }
            kind::SIGNAL => {
                let counter = self.memories.resolve(memory, first, 8).filter(|counter| counter.is_multiple_of(8));
                let counter = counter.ok_or_else(malformed)?;
                // Only one channel signals a counter.
                let signals = self.signalled.entry(counter).or_default();
                *signals += 1;
                self.driver.write_value(counter, *signals, self.stream)?;
            }
            kind::LEAVES => self.wires[at].has_left = true,
            kind::GIVES_UP => self.wires[at].lose(Lost::GaveUp),
            _ => return Err(malformed()),
        }
        Ok(())
    }

    /// Whether all is sent, and what came is on the device.
    pub(in crate::cuda) fn is_idle(&self) -> bool {
        self.arriving.is_empty() && self.wires.iter().all(Wire::is_idle)
    }

    /// If something is to be sent and nothing went for so long: why there is no more waiting.
    pub(in crate::cuda) fn find_late(&self, patience: Duration) -> Option<Cause> {
        let late = self.moved.elapsed() > patience;
        let wire = self.wires.iter().find(|wire| late && !wire.is_idle())?;
        Some(Cause::Deadline { after: patience, absent: vec![wire.peer], silent: Vec::new() })
    }

    /// Tells the others that this rank sends nothing more: that it leaves, if all is done, or cannot go on.
    pub(in crate::cuda) fn finish(&mut self, in_order: bool) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let kind = if in_order && self.is_idle() { kind::LEAVES } else { kind::GIVES_UP };
        let frame = Frame { plan: self.plan, launch: self.begun, kind, memory: 0, at: 0, bytes: 0 };
        for wire in &mut self.wires {
            let Some(connection) = &mut wire.connection else { continue };
            // Behind a part of a message nothing can be said; who reads there finds the end.
            if wire.outgoing.front().is_none_or(|first| !first.begun) {
                connection.push(bytemuck::bytes_of(&frame).iter().copied());
                let _ = connection.write();
            }
            connection.finish();
        }
    }
}

impl Wire {
    fn lose(&mut self, how: Lost) {
        self.lost.get_or_insert_with(|| (Instant::now(), how));
    }

    fn is_idle(&self) -> bool {
        let sent = self.connection.as_ref().is_none_or(|connection| connection.waiting() == 0);
        self.lost.is_some() || self.outgoing.is_empty() && sent
    }

    /// Sends what may go; whether that was anything.
    fn send(&mut self, done: u64) -> std::io::Result<bool> {
        let Some(connection) = self.connection.as_mut().filter(|_| self.lost.is_none()) else { return Ok(false) };
        let mut progress = connection.write()?;
        while let Some(first) = self.outgoing.front_mut().filter(|first| first.after < done) {
            let bytes = match &first.piece {
                // SAFETY: the batch with the copy into the piece is done.
                Some(piece) => unsafe { piece.bytes(first.frame.bytes) },
                None => &[],
            };
            if !first.begun {
                connection.push(bytemuck::bytes_of(&first.frame).iter().copied());
                (first.begun, progress) = (true, true);
                if bytes.len() <= SMALL {
                    connection.push(bytes.iter().copied());
                    first.sent = bytes.len();
                }
            }
            if first.sent < bytes.len() {
                connection.write()?;
                let n = connection.send_now(&bytes[first.sent..])?;
                first.sent += n;
                progress |= n > 0;
                if first.sent < bytes.len() {
                    break;
                }
            }
            self.outgoing.pop_front();
        }
        progress |= connection.write()?;
        Ok(progress)
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        // Failures cannot be mended here.
        let _ = self.driver.synchronize(self.stream);
        for (event, _) in self.arriving.drain(..) {
            let _ = self.driver.destroy_event(event);
        }
        let _ = self.driver.destroy_stream(self.stream);
    }
}

fn malformed(peer: u32, frame: &Frame) -> Failure {
    Error::Lost { peer, why: format!("it sent a message that no plan has: {frame:?}") }.into()
}
