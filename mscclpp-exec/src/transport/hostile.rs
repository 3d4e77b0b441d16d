//! An engine in memory, for tests: it delivers late, and in any order that the contract allows.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use mscclpp_bootstrap::StreamKeys;

use super::{
    Buffer, Capabilities, Frame, FrameKind, LaunchId, Lost, Malformed, Received, RemoteAddress, Signal, Transport,
};
use crate::error::Error;

/// Messages between ranks that are not received yet, by sender and receiver, in the order in which they were passed.
#[derive(Default)]
pub(crate) struct Network {
    links: Mutex<BTreeMap<(u32, u32), Vec<Message>>>,
}

struct Message {
    frame: Frame,
    bytes: Vec<u8>,
}

/// How an engine deviates from the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Signals of channels overtake puts.
    EarlySignals,
    /// Ends overtake puts and signals.
    EarlyEnds,
}

/// The engine of one rank.
pub(crate) struct Hostile {
    network: Arc<Network>,
    rank: u32,
    flaw: Option<Flaw>,
    /// By peer: messages whose sources are in use.
    outgoing: BTreeMap<u32, Vec<Message>>,
    random: u64,
}

impl Hostile {
    pub(crate) fn new(network: &Arc<Network>, rank: u32, seed: u64, flaw: Option<Flaw>) -> Self {
        let random = (seed << 16 | u64::from(rank)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { network: Arc::clone(network), rank, flaw, outgoing: BTreeMap::new(), random }
    }

    /// Returns a number below `n` (xorshift).
    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % n
    }

    fn send(&mut self, peer: u32, launch: LaunchId, kind: FrameKind, bytes: Vec<u8>) {
        if let Some(outgoing) = self.outgoing.get_mut(&peer) {
            outgoing.push(Message { frame: Frame { launch, kind }, bytes });
        }
    }
}

/// Returns whether the contract allows receiving message `at` of a connection as the next one.
fn is_next(messages: &[Message], at: usize, flaw: Option<Flaw>) -> bool {
    let before = &messages[..at];
    match messages[at].frame.kind {
        FrameKind::Put { .. } | FrameKind::Zeros { .. } => true,
        FrameKind::Signal(Signal::Channel(_)) if flaw == Some(Flaw::EarlySignals) => true,
        FrameKind::Signal(Signal::End) if flaw == Some(Flaw::EarlyEnds) => true,
        FrameKind::Signal(Signal::Channel(_) | Signal::Call) => {
            before.iter().all(|message| matches!(message.frame.kind, FrameKind::Signal(_)))
        }
        FrameKind::Signal(Signal::End | Signal::Leave | Signal::Abort) => before.is_empty(),
    }
}

impl<B: Buffer> Transport<B> for Hostile {
    fn capabilities(&self) -> Capabilities {
        // Short puts, so that there are many.
        Capabilities { max_put_bytes: 256 }
    }

    fn open(&mut self, peer: u32, _: TcpStream, _: Option<StreamKeys>) -> Result<(), Error> {
        self.outgoing.insert(peer, Vec::new());
        Ok(())
    }

    fn is_open(&self, peer: u32) -> bool {
        self.outgoing.contains_key(&peer)
    }

    fn has_room(&self, peer: u32) -> bool {
        self.outgoing.get(&peer).is_some_and(|outgoing| outgoing.len() < 8)
    }

    fn put(&mut self, peer: u32, launch: LaunchId, to: RemoteAddress, len: u64, source: Option<B>) {
        let bytes = source.as_ref().map_or(&[][..], |source| &source.as_ref()[..len as usize]);
        let kind = if source.is_some() { FrameKind::Put { to, len } } else { FrameKind::Zeros { to, len } };
        self.send(peer, launch, kind, bytes.to_vec());
    }

    fn signal(&mut self, peer: u32, launch: LaunchId, signal: Signal) {
        self.send(peer, launch, FrameKind::Signal(signal), Vec::new());
    }

    fn is_flushed(&self, peer: u32) -> bool {
        self.outgoing.get(&peer).is_none_or(Vec::is_empty)
    }

    fn progress(&mut self) -> bool {
        let mut progress = false;
        for peer in self.outgoing.keys().copied().collect::<Vec<_>>() {
            let n = self.below(6);
            let mut links = self.network.links.lock().unwrap_or_else(PoisonError::into_inner);
            let outgoing = self.outgoing.entry(peer).or_default();
            let sent = outgoing.drain(..n.min(outgoing.len()));
            progress |= sent.len() > 0;
            links.entry((self.rank, peer)).or_default().extend(sent);
        }
        progress
    }

    fn receive(
        &mut self,
        peer: u32,
        launch: u64,
        buffer: &mut dyn FnMut(u64) -> Option<B>,
    ) -> Result<Received<B>, Malformed> {
        let network = Arc::clone(&self.network);
        let mut links = network.links.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = links.entry((peer, self.rank)).or_default();
        let may_come = |at: &usize| messages[*at].frame.launch.launch <= launch && is_next(messages, *at, self.flaw);
        let candidates: Vec<usize> = (0..messages.len()).filter(may_come).collect();
        if candidates.is_empty() || self.below(3) == 0 {
            return Ok(Received::Nothing);
        }
        let at = candidates[self.below(candidates.len())];
        let Message { frame, bytes } = &messages[at];
        let mut received = None;
        if !bytes.is_empty() {
            let Some(mut buffer) = buffer(frame.len()) else { return Ok(Received::Nothing) };
            buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
            received = Some(buffer);
        }
        let frame = messages.remove(at).frame;
        Ok(Received::Message(frame, received))
    }

    fn lost(&self, _: u32) -> Option<Lost> {
        None
    }

    fn close(&mut self, peer: u32, launch: LaunchId, last: Signal) {
        self.send(peer, launch, FrameKind::Signal(last), Vec::new());
    }
}
