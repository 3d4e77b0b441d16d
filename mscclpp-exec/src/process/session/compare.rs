//! Numbers this rank's calls, and compares them with those of its peers.

use super::super::calls::{AHEAD, BufferArgs};
use super::super::wire::WireError;
use super::Session;
use mscclpp_base::error::Error;
use mscclpp_bootstrap::{CAUSE_GRACE_PERIOD, place};

impl Session {
    /// Records the text of a kind of call and returns its id, which is the same on all ranks. Messages show the program's call of
    /// which it is a part.
    pub(in super::super) fn id_of(&self, text: &str) -> u64 {
        let call = place::call();
        self.history.id_of(text, call.as_deref().unwrap_or(text), call.is_some())
    }

    /// Returns the number of the next call; waits if this rank is too far ahead. Memory that this rank passed [`RING`]
    /// calls before, and that all peers have finished with, may be reused.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] if the communicator has failed, a peer is lost, or made another one of the last calls.
    #[inline]
    pub(in super::super) fn enter(&mut self) -> Result<u64, Error> {
        if self.mark.is_copy() {
            return Err(self.bootstrap.check_process().err().map_or(Error::Busy, Error::from));
        }
        if let Some(cause) = &self.cause {
            return Err(cause.clone().into());
        }
        self.check()?;
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

    /// Returns whether [`enter`](Self::enter) would wait for no peer in the next `calls` calls.
    pub(in super::super) fn is_near(&self, calls: u64) -> bool {
        // Calls that this rank has not compared yet may have been started.
        let has_started = |local_rank: usize, number| {
            self.compared[local_rank] >= number || self.calls.begun(local_rank, number).is_some()
        };
        let least = (self.number + calls).saturating_sub(AHEAD);
        self.peers().all(|local_rank| least == 0 || has_started(local_rank, least))
    }

    /// Returns whether a rank of this node has started the next call.
    pub(in super::super) fn has_started(&self, rank: u32) -> bool {
        let local_rank = self.locals.iter().position(|local| *local == rank);
        local_rank.is_some_and(|local_rank| self.calls.begun(local_rank, self.number + 1).is_some())
    }

    /// Records this rank's call.
    #[inline]
    pub(in super::super) fn announce(&mut self, number: u64, id: u64, handed: &BufferArgs) {
        self.number = number;
        // First what peers wait for.
        self.calls.begin(number, id, handed);
        self.history.begin(number, id, self.place.map(|(_, number)| number));
    }

    /// Compares the calls that a peer has started with this rank's.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] with the mismatch.
    #[inline]
    pub(in super::super) fn compare(&mut self, local_rank: usize) -> Result<(), Error> {
        while self.compared[local_rank] < self.number {
            let number = self.compared[local_rank] + 1;
            let Some((other, _)) = self.calls.begun(local_rank, number) else {
                break;
            };
            let own = self.history.id(number);
            if own != other {
                return Err(self.mismatch(number, self.locals[local_rank]));
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

    /// Fails the communicator because a peer makes another call.
    #[cold]
    pub(in super::super) fn mismatch(&mut self, number: u64, peer: u32) -> Error {
        let cause = self.find_mismatch(number, peer);
        self.fail(cause).into()
    }

    /// Fails the communicator because of a message from another node.
    #[cold]
    pub(in super::super) fn fail_on_wire_error(&mut self, error: WireError) -> Error {
        match error {
            // A rank that ended because of a failure has told rank 0 before.
            WireError::Lost(error) => match self.bootstrap.failure_within(CAUSE_GRACE_PERIOD) {
                Some(cause) => self.fail(cause).into(),
                None => self.abort(error),
            },
            WireError::Late(error) | WireError::Unauthenticated(error) => self.abort(error),
            WireError::Differs { peer } => self.mismatch(self.number, peer),
        }
    }
}
