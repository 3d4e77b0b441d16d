//! An engine that delivers messages of another engine at the last moment, and in any order that the contract allows.
//!
//! Plans, executors and engines that rely on more than the contract work over TCP, which keeps the order of all messages,
//! and fail over this one:
//!
//! - A put is sent some calls later, and its source is read only then.
//! - A message is received some polls later, and in every second launch after [`Delay::time`], when a rank that does not wait for
//!   it has gone on.
//! - Of the messages that may be next, a random one is received: puts overtake each other and signals, signals overtake
//!   signals.
//!
//! All choices are those of the seed and the ranks. When messages arrive is not: so a seed gives the same choices, and not
//! always the same order.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mscclpp_bootstrap::StreamKeys;

use super::{
    Buffer, Capabilities, Destination, Frame, FrameKind, LaunchId, Lost, Malformed, Received, Signal, Transport,
};
use mscclpp_base::error::Error;

/// Environment variable with the seed, any text. [`super::engine`] puts this engine over another one if it is set.
const SEED: &str = "MSCCLPP_HOSTILE";

/// Maximum number of bytes that were received and are not delivered, per peer.
const MAX_HELD_BYTES: u64 = 64 << 20;

/// Maximum number of messages that wait to be sent before there is no room, per peer.
const MAX_OUTGOING: usize = 8;

/// Returns the seed that the environment sets.
pub(super) fn seed() -> Option<u64> {
    let text = std::env::var(SEED).ok().filter(|text| !text.is_empty())?;
    Some(text.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(251).wrapping_add(byte.into())))
}

/// How an engine deviates from the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests construct one"))]
pub enum Flaw {
    /// Signals of channels overtake puts.
    EarlySignals,
    /// Ends overtake puts and signals.
    EarlyEnds,
}

/// How late messages are received.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// Maximum number of polls between two messages, as a power of two; at least 1.
    pub max_polls: usize,
    /// Time for which each message of every second launch is held after it was received and after the signal before it was
    /// delivered, for executors whose operations continue while a thread polls.
    pub time: Duration,
}

/// The engine of one rank.
pub struct Hostile<B> {
    engine: Box<dyn Transport<Vec<u8>>>,
    links: BTreeMap<u32, Link<B>>,
    flaw: Option<Flaw>,
    random: Random,
    max_put_bytes: u64,
    delay: Delay,
    /// Whether the launches with odd numbers are those whose messages are held.
    is_odd_late: bool,
}

/// The messages from and to a peer.
struct Link<B> {
    /// Messages that are not passed to the engine; a put with its source, if it has one.
    outgoing: Vec<(Frame, Option<B>)>,
    /// Received messages, in the order in which they were sent.
    held: Vec<Held>,
    /// Number of polls until one of them is delivered.
    polls: usize,
    /// When the last signal was delivered, after which the rank may have gone on.
    signalled: Instant,
}

/// A message that was received from the engine and is not delivered.
struct Held {
    frame: Frame,
    bytes: Vec<u8>,
    since: Instant,
}

struct Random(u64);

impl Random {
    /// Returns a number below `n` (xorshift).
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    /// Returns a number below two to the power of `max`, each power of two as often as the next one.
    fn delay(&mut self, max: usize) -> usize {
        let power = self.below(max) + 1;
        self.below(1 << power)
    }
}

impl<B: Buffer> Hostile<B> {
    /// Creates the engine of a rank.
    pub fn new(engine: Box<dyn Transport<Vec<u8>>>, rank: u32, seed: u64, delay: Delay) -> Self {
        let mut random = Random((seed << 16 | u64::from(rank)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(1);
        // Short puts, so that there are many.
        let max_put_bytes = engine.capabilities().max_put_bytes.min([256, 4096, u64::MAX][random.below(3)]);
        let is_odd_late = random.below(2) == 1;
        Self { engine, links: BTreeMap::new(), flaw: None, random, max_put_bytes, delay, is_odd_late }
    }

    pub fn with_flaw(mut self, flaw: Option<Flaw>) -> Self {
        self.flaw = flaw;
        self
    }

    /// Passes the first messages for a peer to the engine.
    fn pass(&mut self, peer: u32, n: usize) -> bool {
        let Some(link) = self.links.get_mut(&peer) else { return false };
        let n = n.min(link.outgoing.len());
        for (Frame { launch, kind }, source) in link.outgoing.drain(..n) {
            let len = Frame { launch, kind }.len() as usize;
            self.engine.send(peer, launch, kind, source.map(|source| source.as_ref()[..len].to_vec()));
        }
        n > 0
    }
}

impl<B> Link<B> {
    /// Takes what has arrived.
    fn hold(&mut self, engine: &mut dyn Transport<Vec<u8>>, peer: u32, launch: u64) -> Result<(), Malformed> {
        let mut bytes: u64 = self.held.iter().map(|held| held.bytes.len() as u64).sum();
        while bytes < MAX_HELD_BYTES {
            match engine.receive(peer, launch, &mut |len| Some(vec![0; len as usize]))? {
                Received::Message(frame, buffer) => {
                    bytes += frame.len();
                    self.held.push(Held { frame, bytes: buffer.unwrap_or_default(), since: Instant::now() });
                }
                Received::Part => {}
                Received::Nothing => break,
            }
        }
        Ok(())
    }
}

/// Returns whether the contract allows receiving message `at` of a connection as the next one.
fn is_next(messages: &[Held], at: usize, flaw: Option<Flaw>) -> bool {
    let before = &messages[..at];
    match messages[at].frame.kind {
        FrameKind::Put { .. } | FrameKind::Zeros { .. } => true,
        FrameKind::Signal(Signal::Channel(_)) if flaw == Some(Flaw::EarlySignals) => true,
        FrameKind::Signal(Signal::End) if flaw == Some(Flaw::EarlyEnds) => true,
        FrameKind::Signal(Signal::Channel(_) | Signal::Call) => {
            before.iter().all(|held| matches!(held.frame.kind, FrameKind::Signal(_)))
        }
        FrameKind::Signal(Signal::End | Signal::Leave | Signal::Abort) => before.is_empty(),
    }
}

impl<B: Buffer> Transport<B> for Hostile<B> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { max_put_bytes: self.max_put_bytes, uses_regions: false, uses_device_memory: false }
    }

    fn open(&mut self, peer: u32, stream: TcpStream, keys: Option<StreamKeys>) -> Result<(), Error> {
        self.engine.open(peer, stream, keys)?;
        let polls = self.random.delay(self.delay.max_polls);
        self.links.insert(peer, Link { outgoing: Vec::new(), held: Vec::new(), polls, signalled: Instant::now() });
        Ok(())
    }

    fn is_open(&self, peer: u32) -> bool {
        self.engine.is_open(peer)
    }

    fn has_room(&self, peer: u32) -> bool {
        self.engine.has_room(peer) && self.links.get(&peer).is_some_and(|link| link.outgoing.len() < MAX_OUTGOING)
    }

    fn send(&mut self, peer: u32, launch: LaunchId, kind: FrameKind, source: Option<B>) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.outgoing.push((Frame { launch, kind }, source));
        }
    }

    fn is_flushed(&self, peer: u32) -> bool {
        self.links.get(&peer).is_none_or(|link| link.outgoing.is_empty()) && self.engine.is_flushed(peer)
    }

    fn progress(&mut self) -> bool {
        let mut progress = false;
        for peer in self.links.keys().copied().collect::<Vec<_>>() {
            let n = self.random.below(6);
            progress |= self.pass(peer, n);
        }
        self.engine.progress() || progress
    }

    fn receive(
        &mut self,
        peer: u32,
        launch: u64,
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed> {
        let Self { engine, links, flaw, random, delay, is_odd_late, .. } = self;
        let Some(link) = links.get_mut(&peer) else { return Ok(Received::Nothing) };
        link.hold(&mut **engine, peer, launch)?;
        let messages = &link.held;
        if messages.is_empty() {
            return Ok(Received::Nothing);
        }
        if link.polls > 0 {
            link.polls -= 1;
            return Ok(Received::Nothing);
        }
        let is_late = |held: &Held| {
            (held.frame.launch.launch % 2 == 1) == *is_odd_late && held.since.max(link.signalled).elapsed() < delay.time
        };
        let may_come = |at: &usize| {
            let held = &messages[*at];
            held.frame.launch.launch <= launch && is_next(messages, *at, *flaw) && !is_late(held)
        };
        let candidates: Vec<usize> = (0..messages.len()).filter(may_come).collect();
        if candidates.is_empty() {
            return Ok(Received::Nothing);
        }
        let at = candidates[random.below(candidates.len())];
        let Held { frame, bytes, .. } = &messages[at];
        let mut received = None;
        if !bytes.is_empty() {
            let Some(mut buffer) = destination.buffer(frame.len()) else { return Ok(Received::Nothing) };
            buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
            received = Some(buffer);
        }
        link.polls = random.delay(delay.max_polls);
        let frame = link.held.remove(at).frame;
        if matches!(frame.kind, FrameKind::Signal(_)) {
            link.signalled = Instant::now();
        }
        Ok(Received::Message(frame, received))
    }

    fn lost(&self, peer: u32) -> Option<Lost> {
        let is_held = self.links.get(&peer).is_some_and(|link| !link.held.is_empty());
        self.engine.lost(peer).filter(|lost| *lost != Lost::Closed || !is_held)
    }

    fn close(&mut self, peer: u32, launch: LaunchId, last: Signal) {
        self.pass(peer, usize::MAX);
        self.engine.close(peer, launch, last);
    }
}
