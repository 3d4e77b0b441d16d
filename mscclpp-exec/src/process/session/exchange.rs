//! Calls without buffers, in which ranks only meet, or tell each other something.

use std::os::fd::BorrowedFd;

use super::super::calls::BufferArgs;
use super::Session;
use super::connect::name;
use crate::error::Error;
use crate::shm::Sent;
use mscclpp_bootstrap::ActiveTimeout;

impl Session {
    /// Begins a call and waits until all peers have begun it too.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    fn meet(&mut self, id: u64) -> Result<(), Error> {
        let number = self.enter()?;
        self.announce(number, id, &BufferArgs::default());
        self.calls.unpark_peers(false);
        for place in self.peers() {
            self.wait_for(|session| {
                session.compare(place)?;
                Ok(session.is_compared(place))
            })?;
        }
        Ok(())
    }

    pub(in super::super) fn barrier(&mut self) -> Result<(), Error> {
        let id = self.id_of("barrier");
        self.meet(id)?;
        self.settle_nodes()
    }

    /// A call that all ranks of the node make, in which each tells all others something. Returns by place what each sent; the
    /// own place's is empty.
    ///
    /// # Errors
    /// As [`enter`](Self::enter); [`Error::RankLost`] if somebody does not come before the deadline.
    pub(crate) fn exchange(&mut self, text: &str, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<Vec<Sent>, Error> {
        let id = self.id_of(text);
        // Peers may still have to read what this rank called when the group broke.
        if self.broken.is_none() {
            self.calls.write_text(text);
        }
        self.meet(id)?;
        let mut result = Ok(());
        for place in self.peers() {
            result = result.and_then(|()| self.mesh.send(place, bytes, files));
        }
        let deadline = self.options.timeout;
        let mut timeout = ActiveTimeout::new(deadline);
        let mut received = Vec::new();
        for place in 0..self.locals.len() {
            let bootstrap = &self.bootstrap;
            let late = || {
                bootstrap.check_alive()?;
                let why = format!("it sent nothing for {deadline:?} in {text}");
                if timeout.is_expired() { Err(Error::RankLost { peer: place as u32, why }) } else { Ok(()) }
            };
            match result.and_then(|()| self.mesh.receive(place, late)) {
                Ok(sent) => {
                    received.push(sent);
                    result = Ok(());
                }
                Err(error) => {
                    let error = name(error, &self.locals, &self.bootstrap);
                    self.give_up(&error);
                    return Err(error);
                }
            }
        }
        self.calls.finish(self.number);
        Ok(received)
    }
}
