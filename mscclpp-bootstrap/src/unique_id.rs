//! A job's address and secret as text.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::str::FromStr;

use super::acceptor::extend_backlog;
use super::conn::Conn;
use super::error::Error;
use super::group::{Bootstrap, check_num_ranks};
use super::interfaces;
use super::options::Options;
use super::secret::Secret;
use super::tcp;
use crate::descriptors;

/// First part of the text: name and version of the format.
const PREFIX: &str = "mscclpp1";

/// Data that ranks need to find each other: rank 0's address and the job's secret.
///
/// [`RootListener`] creates it. It is passed as text over any channel that the processes have: a file, a pipe, another
/// library. Every process that has it can join the job.
#[derive(Clone, PartialEq, Eq)]
pub struct UniqueId {
    pub(super) address: SocketAddr,
    pub(super) secret: Secret,
}

/// A process that will be rank 0 and listens already: every process that has its [id](Self::unique_id) can join.
#[derive(Debug)]
pub struct RootListener {
    listener: TcpListener,
    id: UniqueId,
}

impl RootListener {
    /// Listens on a free port of an address that other hosts may reach; on a machine without a network, of a loopback
    /// address. `MSCCLPP_SOCKET_IFNAME` and `MSCCLPP_SOCKET_FAMILY`, or else `NCCL_SOCKET_IFNAME` and `NCCL_SOCKET_FAMILY`, name the
    /// interfaces and the IP version to choose from.
    ///
    /// # Errors
    /// [`Error::InvalidVariable`], [`Error::Bind`], and [`Error::System`] if the system provides no random numbers.
    pub fn new() -> Result<Self, Error> {
        Self::bind(interfaces::reachable()?)
    }

    /// Listens on a free port of `ip`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn bind(ip: IpAddr) -> Result<Self, Error> {
        let bind = |error: std::io::Error| {
            let bind = || Error::Bind { address: ip.to_string(), reason: error.to_string() };
            Error::of_system_or(format!("rank 0 cannot listen on {ip}"), &error, bind)
        };
        descriptors::open_standard();
        let listener = TcpListener::bind((ip, 0)).map_err(bind)?;
        extend_backlog(&listener).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        Ok(Self { listener, id: UniqueId { address, secret: Secret::random()? } })
    }

    /// Listens on a free port of `ip`, with a given secret.
    pub(super) fn with_secret(ip: IpAddr, secret: Secret) -> Result<Self, Error> {
        let mut listener = Self::bind(ip)?;
        listener.id.secret = secret;
        Ok(listener)
    }

    /// Returns the listening socket.
    pub(super) fn into_socket(self) -> TcpListener {
        self.listener
    }

    /// Returns the data that the other ranks need.
    pub fn unique_id(&self) -> &UniqueId {
        &self.id
    }

    /// Completes the rendezvous of `num_ranks` ranks, as rank 0.
    ///
    /// # Errors
    /// [`Error::JoinTimeout`] names the ranks that did not join within the timeout; the other errors name a rank that
    /// joined with a wrong configuration, or died.
    pub fn connect(self, num_ranks: u32, options: Options) -> Result<Bootstrap, Error> {
        check_num_ranks(num_ranks)?;
        tcp::host(self.listener, num_ranks, self.id.secret, options, Some(0))
    }

    /// Does what [`connect`](Self::connect) does, after a rendezvous: `conn` is rank 0's connection to it.
    pub(super) fn connect_found(self, num_ranks: u32, options: Options, conn: Conn) -> Result<Bootstrap, Error> {
        tcp::host_found(self.listener, num_ranks, self.id.secret, options, conn)
    }
}

impl UniqueId {
    /// Joins the job of this id as `rank`, which is not 0: that is the [`RootListener`].
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for rank 0 and for ranks that do not exist; otherwise as [`Bootstrap::connect`].
    pub fn join(&self, rank: u32, num_ranks: u32, options: Options) -> Result<Bootstrap, Error> {
        self.join_generation(rank, num_ranks, options, Some(0))
    }

    /// Does what [`join`](Self::join) does, in a generation of the job; `None` joins the next one that forms.
    pub(super) fn join_generation(
        &self,
        rank: u32,
        num_ranks: u32,
        options: Options,
        generation: Option<u32>,
    ) -> Result<Bootstrap, Error> {
        check_num_ranks(num_ranks)?;
        if rank == 0 || rank >= num_ranks {
            return Err(Error::NoSuchRank { rank, num_ranks });
        }
        tcp::join(&[self.address], rank, num_ranks, self.secret.clone(), options, None, generation)
    }
}

impl Display for UniqueId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}/{}/{}", self.address, self.secret.to_hex())
    }
}

/// Omits the secret, so that the contents of a log do not suffice to join.
impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueId({}, ..)", self.address)
    }
}

impl FromStr for UniqueId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unreadable = || Error::InvalidText {
            what: "unique id".into(),
            text: "…".into(),
            expected: format!("{PREFIX}/address:port/secret, as rank 0 prints it"),
        };
        let mut parts = text.trim().split('/');
        let (Some(PREFIX), Some(address), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(unreadable());
        };
        let address = address.parse().map_err(|_| unreadable())?;
        Ok(Self { address, secret: secret.parse().map_err(|_| unreadable())? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unique_id_round_trips_and_debug_omits_the_secret() {
        let host = RootListener::bind([127, 0, 0, 1].into()).unwrap();
        let text = host.unique_id().to_string();
        assert_eq!(&text.parse::<UniqueId>().unwrap(), host.unique_id());
        let secret = text.rsplit('/').next().unwrap();
        assert!(!format!("{host:?}").contains(secret));
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected(text in "(mscclpp1/)?.{0,60}") {
            let _ = text.parse::<UniqueId>();
        }
    }
}
