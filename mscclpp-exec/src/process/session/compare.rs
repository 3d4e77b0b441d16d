//! Numbers this rank's calls, and compares them with those of its peers.

use super::super::calls::{AHEAD, BufferArgs, RING};
use super::super::wire::WireError;
use super::Session;
use crate::error::Error;

/// Number of call kinds whose texts are kept.
const TEXTS: usize = 512;

impl Session {
    /// Records a text and returns its id, which is the same on all ranks.
    pub(in super::super) fn id_of(&mut self, text: &str) -> u64 {
        let id = fnv(text.as_bytes());
        if self.texts.iter().all(|(known, _)| *known != id) {
            if self.texts.len() >= TEXTS {
                self.texts.pop_front();
            }
            self.texts.push_back((id, text.into()));
        }
        id
    }

    pub(super) fn text_of(&self, id: u64) -> Option<String> {
        self.texts.iter().find(|(known, _)| *known == id).map(|(_, text)| text.to_string())
    }

    /// Returns the number of the next call; waits if this rank is too far ahead. Memory that this rank passed [`RING`]
    /// calls before, and that all peers have finished with, may be reused.
    ///
    /// # Errors
    /// [`Error::CommunicatorFailed`], [`Error::CallMismatch`] for one of the last calls, [`Error::RankLost`] if a peer
    /// is lost.
    #[inline]
    pub(in super::super) fn enter(&mut self) -> Result<u64, Error> {
        if let Some(why) = &self.broken {
            return Err(Error::CommunicatorFailed { why: why.clone() });
        }
        let number = self.number + 1;
        if number > AHEAD {
            let least = number - AHEAD;
            for local_rank in self.peers() {
                if self.compared[local_rank] < least {
                    self.wait_for(|session| {
                        session.compare(local_rank)?;
                        Ok(session.compared[local_rank] >= least)
                    })?;
                }
            }
        }
        Ok(number)
    }

    /// Records this rank's call.
    #[inline]
    pub(in super::super) fn announce(&mut self, number: u64, id: u64, handed: &BufferArgs) {
        self.number = number;
        self.history[(number % RING) as usize] = (number, id);
        self.calls.begin(number, id, handed);
    }

    /// Compares the calls that a peer has started with this rank's.
    ///
    /// # Errors
    /// [`Error::CallMismatch`].
    #[inline]
    pub(in super::super) fn compare(&mut self, local_rank: usize) -> Result<(), Error> {
        while self.compared[local_rank] < self.number {
            let number = self.compared[local_rank] + 1;
            let Some((other, _)) = self.calls.begun(local_rank, number) else {
                break;
            };
            let own = self.history[(number % RING) as usize].1;
            if own != other {
                return Err(self.mismatch(local_rank, number, own, other));
            }
            self.compared[local_rank] = number;
        }
        Ok(())
    }

    /// Returns whether a peer has started the current call and its call is the same.
    #[inline]
    pub(in super::super) fn is_compared(&self, local_rank: usize) -> bool {
        self.compared[local_rank] == self.number
    }

    #[cold]
    fn mismatch(&mut self, local_rank: usize, number: u64, own: u64, other: u64) -> Error {
        // A text that this rank does not have may be in the peer's lines.
        let text = Some(self.calls.text(local_rank)).filter(|text| fnv(text.as_bytes()) == other);
        self.differ(self.locals[local_rank], number, own, other, text)
    }

    /// Fails the communicator because a peer makes another call; `text` describes that call, if the peer has recorded
    /// it.
    fn differ(&mut self, peer: u32, number: u64, own: u64, other: u64, text: Option<String>) -> Error {
        let unknown = |id: u64| format!("a plan that only this rank prepared (call id {id:x})");
        let call = self.text_of(own).unwrap_or_else(|| unknown(own));
        let other = self.text_of(other).or(text).unwrap_or_else(|| unknown(other));
        let error = Error::CallMismatch { number, rank: self.rank(), call, peer, other };
        self.abort(&error);
        error
    }

    /// Fails the communicator because of a message from another node.
    #[cold]
    pub(in super::super) fn fail_on_wire_error(&mut self, error: WireError) -> Error {
        match error {
            WireError::Lost(error) => {
                self.abort(&error);
                error
            }
            WireError::Late(error) => {
                self.abort(&error);
                // The ranks of other nodes receive the error, instead of noticing only that this rank is lost.
                self.bootstrap.abort(&error.to_string());
                error
            }
            WireError::Differs { peer, own, other } => {
                let error = self.differ(peer, self.number, own, other, None);
                // Ranks that send to this node without waiting for any rank there receive the error too.
                self.bootstrap.abort(&error.to_string());
                error
            }
        }
    }
}

/// Returns the id of a text, which is the same on all machines (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
