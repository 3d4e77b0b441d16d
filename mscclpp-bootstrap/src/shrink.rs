//! Going on without ranks that are lost.

use std::net::TcpListener;

use super::address::Address;
use super::error::Error;
use super::group::Bootstrap;
use super::tcp;

impl Bootstrap {
    /// A new group of the ranks that are left when a group has failed, in the same order and with the same deadlines.
    ///
    /// `lost` lists who is not in it, as ranks of the job; [`Error::lost`] of the failure says so. All others call this with
    /// the same list. The first of them takes the place of rank 0, on the port on which it has listened for streams.
    /// What went on in the failed group is lost, its other handles may be dropped at any time.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] if this rank is in the list. [`Error::System`] if this is not the group of the whole job, and for
    /// threads of one process, which have nothing to come together at. As [`connect`](Self::connect), and
    /// [`Error::Differs`] if ranks have different lists: more ranks may be lost than one failure says, and then those who
    /// are left try again without them.
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
        let survivors = if rank == 0 {
            tcp::host(self.listener_at(first)?, ranks, secret, options)?
        } else {
            // Where the others have found this rank so far.
            let own = self.world[self.rank as usize].listens.map(|own| own.ip());
            tcp::join(&[first], rank as u32, ranks, secret, options, own)?
        };
        let names: Vec<_> = members.iter().map(|member| member.rank.to_string()).collect();
        survivors.agree(&[("list of remaining ranks", &names.join(", "))])?;
        Ok(survivors)
    }

    /// The port that the failed group has given back, or is about to.
    fn listener_at(&self, address: std::net::SocketAddr) -> Result<TcpListener, Error> {
        let deadline = self.options().timeout;
        Address::new(&address.ip().to_string(), address.port()).listen(deadline, deadline, false)
    }
}
