//! Which call comes next, and whether all call the same.

use super::super::calls::{AHEAD, BufferArgs, RING};
use super::super::wire::WireError;
use super::Session;
use crate::error::Error;

/// Kinds of calls whose texts are kept.
const TEXTS: usize = 512;

impl Session {
    /// Remembers a text and returns the id that it has on all ranks.
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

    /// The number of the next call; waits if this rank is too far ahead. What this rank handed in [`RING`] calls before, and
    /// all peers have finished, it may use again.
    ///
    /// # Errors
    /// [`Error::CommunicatorFailed`], [`Error::CallMismatch`] for one of the last calls, [`Error::Lost`] if a peer is gone.
    #[inline]
    pub(in super::super) fn enter(&mut self) -> Result<u64, Error> {
        if let Some(why) = &self.broken {
            return Err(Error::CommunicatorFailed { why: why.clone() });
        }
        let number = self.number + 1;
        if number > AHEAD {
            let least = number - AHEAD;
            for place in self.peers() {
                if self.compared[place] < least {
                    self.wait_for(|session| {
                        session.compare(place)?;
                        Ok(session.compared[place] >= least)
                    })?;
                }
            }
        }
        Ok(number)
    }

    /// Says what this rank calls in the call that it has entered.
    #[inline]
    pub(in super::super) fn announce(&mut self, number: u64, id: u64, handed: &BufferArgs) {
        self.number = number;
        self.history[(number % RING) as usize] = (number, id);
        self.calls.begin(number, id, handed);
    }

    /// Compares the calls that a peer has begun with the own ones.
    ///
    /// # Errors
    /// [`Error::CallMismatch`].
    #[inline]
    pub(in super::super) fn compare(&mut self, place: usize) -> Result<(), Error> {
        while self.compared[place] < self.number {
            let number = self.compared[place] + 1;
            let Some((other, _)) = self.calls.begun(place, number) else {
                break;
            };
            let own = self.history[(number % RING) as usize].1;
            if own != other {
                return Err(self.mismatch(place, number, own, other));
            }
            self.compared[place] = number;
        }
        Ok(())
    }

    /// Whether a peer is known to have begun the call at hand, the same one.
    #[inline]
    pub(in super::super) fn is_compared(&self, place: usize) -> bool {
        self.compared[place] == self.number
    }

    #[cold]
    fn mismatch(&mut self, place: usize, number: u64, own: u64, other: u64) -> Error {
        // What is not known here the peer may have written down.
        let text = Some(self.calls.text(place)).filter(|text| fnv(text.as_bytes()) == other);
        self.differ(self.locals[place], number, own, other, text)
    }

    /// Ends the group because a peer calls something else; `text` is what it calls, if it has said so.
    fn differ(&mut self, peer: u32, number: u64, own: u64, other: u64, text: Option<String>) -> Error {
        let unknown = |id: u64| format!("a plan that only this rank prepared (call id {id:x})");
        let call = self.text_of(own).unwrap_or_else(|| unknown(own));
        let other = self.text_of(other).or(text).unwrap_or_else(|| unknown(other));
        let error = Error::CallMismatch { number, rank: self.rank(), call, peer, other };
        self.give_up(&error);
        error
    }

    /// Ends the group because of what a rank of another node sent.
    #[cold]
    pub(in super::super) fn in_trouble(&mut self, trouble: WireError) -> Error {
        match trouble {
            WireError::Lost(error) => {
                self.give_up(&error);
                error
            }
            WireError::Late(error) => {
                self.give_up(&error);
                // The ranks of other nodes learn what went wrong, not only that this one is gone.
                self.bootstrap.abort(&error.to_string());
                error
            }
            WireError::Differs { peer, own, other } => {
                let error = self.differ(peer, self.number, own, other, None);
                // Ranks that send to this node and wait for nobody there hear of it too.
                self.bootstrap.abort(&error.to_string());
                error
            }
        }
    }
}

/// The id of a text: the same on all machines (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
