//! Configuration of a rank from the environment: its rank, rank 0's address and the job's secret.

mod launcher;
mod read;
mod slurm;

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, TcpListener};
use std::sync::Once;
use std::time::Duration;

use super::address::Address;
use super::error::Error;
use super::group::{Bootstrap, check_num_ranks};
use super::options::{NodeTransport, Options};
use super::secret::Secret;
use super::tcp;
use super::variable::variable;

/// How long to wait for the port, which another process may hold for a moment.
const PORT_TIMEOUT: Duration = Duration::from_secs(1);

/// A rank's configuration, resolved from the variables of a launcher.
///
/// [`Display`] shows all of it except the secret, with the source of each part: the line to read when ranks do not find
/// each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// The launcher whose variables were found: `torchrun`, `Open MPI`, `Slurm` or `PMI`.
    pub launcher: &'static str,
    /// This rank.
    pub rank: u32,
    /// Number of ranks.
    pub num_ranks: u32,
    /// This rank among those of its host, if the launcher provides it.
    pub local_rank: Option<u32>,
    /// Number of ranks of this host, if the launcher provides it.
    pub num_local_ranks: Option<u32>,
    /// Rank 0's address, and the variable that it is from; a single rank needs no address.
    pub address: Option<(Address, String)>,
    /// The job's secret.
    pub secret: Secret,
    /// Source of the secret.
    pub secret_source: &'static str,
    /// Whether the secret is derived from values that other users can guess, instead of given. Ranks with such a secret
    /// use loopback addresses only, unless `allow_derived_secret` is set.
    pub has_derived_secret: bool,
    /// Whether a derived secret is sufficient for ranks on several hosts (`MSCCLPP_ALLOW_DERIVED_SECRET=1`).
    pub allow_derived_secret: bool,
    /// How often the launcher has restarted this rank; 0 at the first start.
    pub restarts: u32,
    /// Timeouts.
    pub options: Options,
}

impl Options {
    /// Returns the options that the environment states, for jobs that find each other without a launcher's variables:
    /// `MSCCLPP_TIMEOUT`, `MSCCLPP_RENDEZVOUS_TIMEOUT`, `MSCCLPP_HEARTBEAT_TIMEOUT`, `MSCCLPP_AUTHENTICATE_DATA`,
    /// `MSCCLPP_TRANSPORT`, `MSCCLPP_UCX_DEVICE_MEMORY`.
    ///
    /// # Errors
    /// [`Error::InvalidVariable`].
    pub fn from_env() -> Result<Self, Error> {
        read::options(&variable)
    }
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// [`Error::MissingVariable`], [`Error::InvalidVariable`] and [`Error::ConflictingVariables`], each with the
    /// variables' names and values.
    pub fn read() -> Result<Self, Error> {
        Self::from_lookup(variable)
    }

    /// Reads another environment, whose variables `lookup` returns by name.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        read::environment(&lookup)
    }

    /// Returns the launcher of which this process has any variable; `None` if no launcher has started it.
    pub fn launcher() -> Option<&'static str> {
        read::find(&|name| std::env::var_os(name).map(|_| String::new())).ok().map(|launcher| launcher.name)
    }

    /// Joins the job. A derived secret is logged at level warn.
    ///
    /// # Errors
    /// As [`Bootstrap::connect`], and [`Error::DerivedSecret`] if another host could reach this rank with a derived secret.
    pub fn connect(&self) -> Result<Bootstrap, Error> {
        let Some((address, _)) = &self.address else {
            // A single rank connects to no other.
            return Bootstrap::local_with_options(self.num_ranks, self.options)?
                .pop()
                .ok_or(Error::NoSuchRank { rank: 0, num_ranks: 0 });
        };
        // A restarted rank does not know how often the others have continued.
        let generation = (self.restarts == 0).then_some(0);
        self.connect_at(address, generation, None)
    }

    /// Joins the next generation of the job, of which `old` is a communicator.
    pub(super) fn rejoin(&self, old: &Bootstrap) -> Result<Bootstrap, Error> {
        let Some((address, _)) = &self.address else { return self.connect() };
        let listener = if self.rank == 0 { old.take_listener(address.port()) } else { None };
        self.connect_at(address, Some(old.generation() + 1), listener)
    }

    fn connect_at(
        &self,
        address: &Address,
        generation: Option<u32>,
        listener: Option<TcpListener>,
    ) -> Result<Bootstrap, Error> {
        let (secret, options) = (&self.secret, self.options);
        let several_hosts = self.num_local_ranks.is_none_or(|here| here < self.num_ranks);
        let source = match (self.has_derived_secret, self.allow_derived_secret) {
            (false, _) => SecretSource::Given,
            (true, false) => SecretSource::DerivedForLoopback,
            (true, true) => SecretSource::Derived,
        };
        let rendezvous = Rendezvous { address, secret, source, options, several_hosts, generation };
        rendezvous.connect(self.rank, self.num_ranks, listener)
    }
}

/// Where a secret is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretSource {
    Given,
    /// Other users can guess it.
    Derived,
    /// Other users can guess it, so no other host may reach the rank.
    DerivedForLoopback,
}

impl SecretSource {
    /// Checks that a rank with such a secret may use these addresses, and warns if other users can guess it.
    fn check(self, rank: u32, mut addresses: impl Iterator<Item = IpAddr>) -> Result<(), Error> {
        static WARNING: Once = Once::new();
        if self == Self::DerivedForLoopback
            && let Some(address) = addresses.find(|ip| !ip.to_canonical().is_loopback())
        {
            return Err(Error::DerivedSecret { rank, address });
        }
        if self != Self::Given {
            WARNING.call_once(|| {
                log::warn!(
                    "rank {rank}: the secret of the job is derived from its name, port and size, which other users can \
                     guess; set MSCCLPP_SECRET to the same value on all ranks, such as the output of `openssl rand -hex 16`"
                );
            });
        }
        Ok(())
    }
}

impl Display for Environment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} (variables of {}", self.rank, self.num_ranks, self.launcher)?;
        if let Some(local) = self.local_rank {
            write!(f, ", local rank {local}")?;
        }
        if let Some(local) = self.num_local_ranks {
            write!(f, " of {local}")?;
        }
        f.write_str(")")?;
        if let Some((address, from)) = &self.address {
            write!(f, ", rank 0 at {address} ({from})")?;
        }
        write!(f, ", secret from {}", self.secret_source)?;
        if self.restarts > 0 {
            write!(f, ", restart {}", self.restarts)?;
        }
        write!(f, ", timeout {} s", self.options.timeout.as_secs_f64())?;
        write!(f, ", rendezvous timeout {} s", self.options.rendezvous_timeout.as_secs_f64())?;
        match self.options.heartbeat_timeout {
            Some(heartbeat_timeout) => write!(f, ", heartbeat timeout {} s", heartbeat_timeout.as_secs_f64())?,
            None => f.write_str(", no heartbeat timeout")?,
        }
        if self.options.authenticate_data {
            f.write_str(", data authenticated")?;
        }
        if self.options.transport != NodeTransport::Auto {
            write!(f, ", {} between nodes", self.options.transport.name())?;
        }
        if self.options.ucx_device_memory {
            f.write_str(", UCX accesses memory of devices")?;
        }
        Ok(())
    }
}

impl Bootstrap {
    /// Joins the job that the environment describes; `docs/launching.md` lists the variables. The configuration is
    /// logged at level info.
    ///
    /// # Errors
    /// As [`Environment::read`] and [`Environment::connect`].
    pub fn from_env() -> Result<Self, Error> {
        let environment = Environment::read()?;
        log::info!("{environment}");
        environment.connect()
    }

    /// Joins the job of `num_ranks` ranks as `rank`. Rank 0 listens at `address`; the others connect to it there.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] and [`Error::TooManyRanks`]. On rank 0 [`Error::Bind`], and on the others
    /// [`Error::Unreachable`] and [`Error::AuthenticationFailed`]. On all ranks [`Error::JoinTimeout`], with the ranks
    /// that did not join within the timeout, and the errors of ranks that joined with a wrong configuration, or died.
    pub fn connect(
        address: &Address,
        rank: u32,
        num_ranks: u32,
        secret: &Secret,
        options: Options,
    ) -> Result<Self, Error> {
        let source = SecretSource::Given;
        let rendezvous = Rendezvous { address, secret, source, options, several_hosts: true, generation: Some(0) };
        rendezvous.connect(rank, num_ranks, None)
    }
}

/// Where and how the ranks of a job find each other.
struct Rendezvous<'a> {
    address: &'a Address,
    secret: &'a Secret,
    source: SecretSource,
    options: Options,
    several_hosts: bool,
    generation: Option<u32>,
}

impl Rendezvous<'_> {
    /// Joins as `rank`; rank 0 listens with `listener`, if there is one.
    fn connect(self, rank: u32, num_ranks: u32, listener: Option<TcpListener>) -> Result<Bootstrap, Error> {
        let Self { address, secret, source, several_hosts, generation, .. } = self;
        check_num_ranks(num_ranks)?;
        if rank >= num_ranks {
            return Err(Error::NoSuchRank { rank, num_ranks });
        }
        let (options, secret) = (self.options.bounded(), secret.clone());
        let timeout = options.rendezvous_timeout;
        if rank == 0 {
            let listen = || address.listen(timeout, PORT_TIMEOUT.min(timeout), several_hosts);
            let listener = listener.map_or_else(listen, Ok)?;
            let here = listener.local_addr().map_err(tcp::system("cannot get the address of a socket"))?;
            source.check(rank, [here.ip()].into_iter())?;
            return tcp::host(listener, num_ranks, secret, options, generation);
        }
        let addresses = address.resolve(timeout)?;
        let listen = address.listen_ip(&addresses, several_hosts)?;
        source.check(rank, addresses.iter().map(|address| address.ip()).chain(listen))?;
        tcp::join(&addresses, rank, num_ranks, secret, options, listen, generation)
    }
}
