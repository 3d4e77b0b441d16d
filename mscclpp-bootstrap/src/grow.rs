//! Adds ranks to a communicator: new processes, or restarted ones.

use std::net::IpAddr;

use super::address;
use super::env::Environment;
use super::error::Error;
use super::group::{Bootstrap, check_num_ranks};
use super::interfaces;
use super::options::Options;
use super::tcp;
use super::unique_id::{RootListener, UniqueId};

impl Bootstrap {
    /// Listens for processes that join this communicator when its ranks call [`grow`](Self::grow). They need the
    /// [id](RootListener::unique_id), which contains the secret of this job.
    ///
    /// # Errors
    /// As [`RootListener::new`].
    pub fn listen_for_newcomers(&self) -> Result<RootListener, Error> {
        let Some(secret) = self.link.secret() else { return RootListener::bind(address::loopback_ip()) };
        let own = self.own_info().address.map(|own| own.ip());
        let ip: IpAddr = own.filter(|ip| !ip.is_unspecified()).map_or_else(interfaces::reachable, Ok)?;
        RootListener::with_secret(ip, secret)
    }

    /// Creates a communicator of these ranks and new ones. All ranks call this; rank 0 passes the listener whose id the new
    /// processes have, the others `None`. Each new process calls [`join_grown`](Self::join_grown).
    ///
    /// `newcomers` lists the ranks of the new processes in the new communicator, the same on all ranks. These ranks keep
    /// their order and take the other ranks, so rank 0 stays rank 0. The new communicator is a job of its own, with the
    /// timeouts of this one; drop this one after that.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] and [`Error::TooManyRanks`] for invalid lists; [`Error::ConfigMismatch`] for different ones;
    /// [`Error::JoinTimeout`] names the ranks of the new communicator that did not join within
    /// [`rendezvous_timeout`](Options::rendezvous_timeout).
    pub fn grow(&self, newcomers: &[u32], listener: Option<RootListener>) -> Result<Self, Error> {
        let num_ranks = self.num_ranks().saturating_add(u32::try_from(newcomers.len()).unwrap_or(u32::MAX));
        check_num_ranks(num_ranks)?;
        let is_repeated = |index: usize| newcomers[..index].contains(&newcomers[index]);
        if let Some(index) =
            (0..newcomers.len()).find(|&at| newcomers[at] == 0 || newcomers[at] >= num_ranks || is_repeated(at))
        {
            return Err(Error::NoSuchRank { rank: newcomers[index], num_ranks });
        }
        let names: Vec<_> = newcomers.iter().map(ToString::to_string).collect();
        self.compare(&[("list of new ranks", &names.join(", "))])?;
        // An empty text means that rank 0 has no listener.
        let text = listener.as_ref().map(|listener| self.address_text(listener)).unwrap_or_default();
        let text = String::from_utf8(self.broadcast(0, text.as_bytes())?).unwrap_or_default();
        let rank = (0..num_ranks).filter(|rank| !newcomers.contains(rank)).nth(self.rank() as usize).unwrap_or(0);
        let (options, generation) = (self.options(), Some(self.generation() + 1));
        match (listener, self.parse_address(&text)) {
            (Some(listener), Some(id)) => tcp::host(listener.into_socket(), num_ranks, id.secret, options, generation),
            (None, Some(id)) => id.join_generation(rank, num_ranks, options, generation),
            _ => Err(Error::System {
                what: "cannot grow the communicator".into(),
                reason: "rank 0 did not pass a listener of `listen_for_newcomers`".into(),
            }),
        }
    }

    /// Joins a communicator that grows, as `rank` of `num_ranks` in the new communicator; see [`grow`](Self::grow). A
    /// process that arrives before its ranks call `grow` waits.
    ///
    /// # Errors
    /// As [`UniqueId::join`].
    pub fn join_grown(id: &UniqueId, rank: u32, num_ranks: u32, options: Options) -> Result<Self, Error> {
        id.join_generation(rank, num_ranks, options, None)
    }

    /// Creates a communicator of all ranks of the launcher's job again, after a failure or a [`shrink`](Self::shrink): with
    /// those that remain, and with those that the launcher has restarted, such as `mscclpp launch --restarts`. All
    /// remaining ranks call this; a restarted one calls [`from_env`](Self::from_env), as at the first start.
    ///
    /// The ranks are those that the launcher has given: they join at the address of rank 0, and if rank 0 was lost, the
    /// restarted one listens there.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env). [`Error::JoinTimeout`] names the ranks that are neither restarted nor call this
    /// within [`rendezvous_timeout`](Options::rendezvous_timeout).
    pub fn grow_from_env(&self) -> Result<Self, Error> {
        let mut environment = Environment::read()?;
        environment.options = self.options();
        environment.rejoin(self)
    }

    /// Returns where rank 0 listens, as the other ranks read it. Ranks of one job have its secret already; threads of one
    /// process have none.
    fn address_text(&self, listener: &RootListener) -> String {
        let id = listener.unique_id();
        match self.link.secret() {
            Some(secret) if secret != id.secret => String::new(),
            Some(_) => id.address.to_string(),
            None => id.to_string(),
        }
    }

    fn parse_address(&self, text: &str) -> Option<UniqueId> {
        match self.link.secret() {
            Some(secret) => Some(UniqueId { address: text.parse().ok()?, secret }),
            None => text.parse().ok(),
        }
    }
}
