//! Continues a job without its lost ranks.

use std::net::TcpListener;

use super::address::Address;
use super::error::Error;
use super::group::Bootstrap;
use super::tcp;

impl Bootstrap {
    /// Creates a new communicator of the remaining ranks after a communicator has failed, in the same order and with
    /// the same timeouts.
    ///
    /// `lost` lists the excluded ranks, as ranks of the job; [`Error::lost`] of the failure returns them. All other
    /// ranks call this with the same list. The first of them becomes rank 0, on the port on which it has listened for
    /// streams. Pending calls and messages of the failed communicator are lost; its other handles may be dropped at any
    /// time.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] if this rank is in the list. [`Error::System`] if this is not the communicator of the
    /// whole job, and for threads of one process, which have no address for the rendezvous. As
    /// [`connect`](Self::connect), and [`Error::ConfigMismatch`] if ranks pass different lists: more ranks may be lost
    /// than one failure reports, and then the remaining ranks retry without those.
    pub fn shrink(&self, lost: &[u32]) -> Result<Self, Error> {
        let cannot =
            |reason: &str| Error::System { what: "cannot shrink the communicator".into(), reason: reason.into() };
        if self.context != 0 {
            return Err(cannot("it contains a part of the job; shrink the communicator of the whole job instead"));
        }
        let none = || Error::NoSuchRank { rank: self.rank, ranks: self.num_ranks() };
        let members: Vec<_> = self.world.iter().filter(|member| !lost.contains(&member.rank)).collect();
        let rank = members.iter().position(|member| member.rank == self.rank).ok_or_else(none)?;
        let threads = || cannot("the ranks are threads of one process");
        let secret = self.link.secret().ok_or_else(threads)?;
        let (ranks, options) = (members.len() as u32, self.options());
        let first = members[0].listens.ok_or_else(threads)?;
        let shrunk = if rank == 0 {
            tcp::host(self.listener_at(first)?, ranks, secret, options)?
        } else {
            // The IP address at which the other ranks have reached this rank so far.
            let own = self.world[self.rank as usize].listens.map(|own| own.ip());
            tcp::join(&[first], rank as u32, ranks, secret, options, own)?
        };
        let names: Vec<_> = members.iter().map(|member| member.rank.to_string()).collect();
        shrunk.compare(&[("list of remaining ranks", &names.join(", "))])?;
        Ok(shrunk)
    }

    /// Listens on the port that the failed communicator has freed or is about to free.
    fn listener_at(&self, address: std::net::SocketAddr) -> Result<TcpListener, Error> {
        let timeout = self.options().timeout;
        Address::new(&address.ip().to_string(), address.port()).listen(timeout, timeout, false)
    }
}
