//! What the environment says: who this rank is, where rank 0 is, and what the job's secret is.

mod launcher;
mod read;
mod slurm;

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::address::Address;
use super::error::Error;
use super::group::Bootstrap;
use super::options::Options;
use super::secret::Secret;

/// How long a port may take to become free: another process may hold it for a moment.
const FREEING: Duration = Duration::from_secs(1);

pub(crate) use read::shortened;

/// What a launcher said through the environment, resolved.
///
/// [`Display`] shows all of it but the secret, with where each part comes from: the line to read when ranks do not find
/// each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// Whose names were found: `torchrun`, `Open MPI`, `Slurm` or `PMI`.
    pub launcher: &'static str,
    /// This rank.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// This rank among those of its host, if the launcher says so.
    pub local_rank: Option<u32>,
    /// Number of ranks of this host, if the launcher says so.
    pub local_ranks: Option<u32>,
    /// Where rank 0 is, and which variable said so; a single rank needs no address.
    pub address: Option<(Address, String)>,
    /// The job's secret.
    pub secret: Secret,
    /// Where the secret comes from.
    pub secret_from: &'static str,
    /// Deadlines.
    pub options: Options,
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// [`Error::NotInEnvironment`], [`Error::Environment`] and [`Error::Contradiction`], each with the variables' names
    /// and values.
    pub fn read() -> Result<Self, Error> {
        Self::from_lookup(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// Reads another environment: `lookup` is asked for variables by name.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        read::environment(&lookup)
    }

    /// The launcher whose names this process has, be it all of them or some; `None` if no launcher has started it.
    pub fn launcher() -> Option<&'static str> {
        read::find(&|name| std::env::var_os(name).map(|_| String::new())).ok().map(|launcher| launcher.name)
    }

    /// Joins the job.
    ///
    /// # Errors
    /// As [`Bootstrap::connect`].
    pub fn connect(&self) -> Result<Bootstrap, Error> {
        let Some((address, _)) = &self.address else {
            // A single rank has nobody to look for.
            return Bootstrap::local_with(self.ranks, self.options)?
                .pop()
                .ok_or(Error::NoSuchRank { rank: 0, ranks: 0 });
        };
        let several = self.local_ranks.is_none_or(|here| here < self.ranks);
        Bootstrap::connect_as(address, self.rank, self.ranks, &self.secret, self.options, several)
    }
}

impl Display for Environment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} (variables of {}", self.rank, self.ranks, self.launcher)?;
        if let Some(local) = self.local_rank {
            write!(f, ", local rank {local}")?;
        }
        if let Some(local) = self.local_ranks {
            write!(f, " of {local}")?;
        }
        f.write_str(")")?;
        if let Some((address, from)) = &self.address {
            write!(f, ", rank 0 at {address} ({from})")?;
        }
        write!(f, ", secret from {}", self.secret_from)?;
        write!(f, ", timeout {} s", self.options.timeout.as_secs_f64())?;
        match self.options.heartbeat_timeout {
            Some(heartbeat_timeout) => write!(f, ", heartbeat timeout {} s", heartbeat_timeout.as_secs_f64()),
            None => f.write_str(", no heartbeat timeout"),
        }
    }
}

impl Bootstrap {
    /// Joins the job that the environment describes; `docs/launching.md` lists the variables. What was found is logged at
    /// info.
    ///
    /// # Errors
    /// As [`Environment::read`] and [`connect`](Self::connect).
    pub fn from_env() -> Result<Self, Error> {
        let environment = Environment::read()?;
        log::info!("{environment}");
        environment.connect()
    }

    /// Joins the job of `ranks` ranks as `rank`. Rank 0 listens at `address`; the others look for it there.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] and [`Error::TooManyRanks`]. On rank 0 [`Error::Bind`], and on the others
    /// [`Error::Unreachable`] and [`Error::WrongSecret`]. On all ranks [`Error::Missing`], with the names of those that did
    /// not come before the deadline, and the errors of those who came and were not fit, or died.
    pub fn connect(address: &Address, rank: u32, ranks: u32, secret: &Secret, options: Options) -> Result<Self, Error> {
        Self::connect_as(address, rank, ranks, secret, options, true)
    }

    fn connect_as(
        address: &Address,
        rank: u32,
        ranks: u32,
        secret: &Secret,
        options: Options,
        several_hosts: bool,
    ) -> Result<Self, Error> {
        super::group::check_size(ranks)?;
        if rank >= ranks {
            return Err(Error::NoSuchRank { rank, ranks });
        }
        let options = options.bounded();
        if rank == 0 {
            let listener = address.listen(options.timeout, FREEING.min(options.timeout), several_hosts)?;
            return super::tcp::host(listener, ranks, secret.clone(), options);
        }
        let addresses = address.resolve(options.timeout)?;
        super::tcp::join(&addresses, rank, ranks, secret.clone(), options, address.own(&addresses, several_hosts)?)
    }
}
