//! Calls without buffers, in which ranks only synchronize or exchange data.

use std::time::{Duration, Instant};

use super::super::calls::BufferArgs;
use super::Session;
use super::connect::name_rank;
use super::history::BARRIER;
use mscclpp_base::error::Error;
use mscclpp_base::shm::Sent;
use mscclpp_bootstrap::{self as bootstrap, ActiveTimeout, Bootstrap, place};

impl Session {
    /// Starts a call and waits until all peers have started it too.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    fn synchronize(&mut self, id: u64) -> Result<(), Error> {
        let number = self.enter()?;
        self.announce(number, id, &BufferArgs::default());
        self.calls.unpark_peers(false);
        for local_rank in self.peers() {
            self.wait_for(|session| {
                session.compare(local_rank)?;
                Ok(session.is_compared(local_rank))
            })?;
        }
        Ok(())
    }

    pub(in super::super) fn barrier(&mut self) -> Result<(), Error> {
        self.synchronize(BARRIER.0)?;
        self.synchronize_nodes()?;
        self.leave_call()
    }

    /// Synchronizes with the ranks of other nodes.
    pub(in super::super) fn synchronize_nodes(&mut self) -> Result<(), Error> {
        if !self.has_several_nodes() {
            return Ok(());
        }
        self.wait_for_nodes(|session, timeout, find_cause| session.bootstrap.barrier_within(timeout, find_cause))
    }

    /// Returns the data of all ranks, in a call that the ranks of this node have started.
    pub(in super::super) fn gather_on_nodes(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.wait_for_nodes(|session, timeout, find_cause| {
            session.bootstrap.all_gather_within(bytes, timeout, find_cause)
        })
    }

    /// Waits in a call of the control plane for the ranks of other nodes, which may wait for other ranks of their nodes.
    fn wait_for_nodes<T>(
        &mut self,
        call: impl FnOnce(&Self, Duration, &dyn Fn() -> Option<bootstrap::Error>) -> Result<T, bootstrap::Error>,
    ) -> Result<T, Error> {
        let timeout = self.options.timeout;
        self.history.wait_in(self.number);
        let result = {
            let _part = place::enter_call(self.history.program_number(self.number), || self.call_name(self.number));
            call(self, timeout, &|| self.find_late_ranks(timeout, Instant::now()))
        };
        self.history.wait_in(0);
        result.map_err(|error| self.abort(error.into()))
    }

    /// Makes a call of the control plane as one of this communicator's calls, so that a rank that makes another call is noticed
    /// at once.
    pub(in super::super) fn control<T>(
        &mut self,
        text: &str,
        call: impl FnOnce(&Bootstrap) -> Result<T, bootstrap::Error>,
    ) -> Result<T, Error> {
        self.start(text)?;
        // The call itself names all ranks that have not entered it, also those that wait for others.
        self.synchronize_nodes()?;
        let result = call(&self.bootstrap);
        // Also after an error of this rank alone, such as an invalid argument, the communicator can be used.
        self.history.end(self.number);
        Ok(result?)
    }

    /// Ends a call in which this rank's part is done.
    #[inline]
    pub(in super::super) fn leave_call(&mut self) -> Result<(), Error> {
        self.history.end(self.number);
        self.check()
    }

    /// Exchanges data between all ranks of the node, in a call of all of them. Returns the received data by local rank;
    /// that of this rank is empty.
    ///
    /// # Errors
    /// As [`enter`](Self::enter); [`Error::RankLost`] if a rank does not make the call within the timeout.
    pub(crate) fn exchange(&mut self, text: &str, own: &Sent) -> Result<Vec<Sent>, Error> {
        self.start(text)?;
        self.exchange_started(text, own)
    }

    /// Starts a call of all ranks of the node, and waits until they have started it.
    pub(in super::super) fn start(&mut self, text: &str) -> Result<(), Error> {
        let id = self.id_of(text);
        self.synchronize(id)
    }

    /// Exchanges data in a call that all ranks of the node have started.
    pub(in super::super) fn exchange_started(&mut self, text: &str, own: &Sent) -> Result<Vec<Sent>, Error> {
        let mut result = Ok(());
        for local_rank in self.peers() {
            result = result.and_then(|()| self.mesh.send(local_rank, own));
        }
        let deadline = self.options.timeout;
        let mut timeout = ActiveTimeout::new(deadline);
        let mut received = Vec::new();
        for local_rank in 0..self.locals.len() {
            let bootstrap = &self.bootstrap;
            let late = || {
                bootstrap.check_alive()?;
                let reason = format!("it sent nothing for {deadline:?} in {text}");
                if timeout.is_expired() { Err(Error::RankLost { peer: local_rank as u32, reason }) } else { Ok(()) }
            };
            match result.and_then(|()| self.mesh.receive(local_rank, late)) {
                Ok(sent) => {
                    received.push(sent);
                    result = Ok(());
                }
                Err(error) => {
                    let error = name_rank(error, &self.locals, &self.bootstrap);
                    return Err(self.abort(error));
                }
            }
        }
        self.calls.finish(self.number);
        // All data has arrived: a rank that has failed since then is the cause of later calls.
        self.history.end(self.number);
        Ok(received)
    }
}
