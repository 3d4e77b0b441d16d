//! Arguments of `mscclpp status`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mscclpp_bootstrap::Address;

use super::seconds;

/// Arguments of `mscclpp status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp status                                   the job of `mscclpp launch` that runs on this machine
  mscclpp status 4711 --watch 2                    one of several, every 2 seconds
  mscclpp status --address 10.0.0.1:29500          any job, with its secret in the environment
  mscclpp status --dump dumps                      write a dump of each rank, for `mscclpp analyze dumps`
  mscclpp status --metrics                         counters of all ranks in the format of Prometheus
  mscclpp status --listen 9400                     the same at http://127.0.0.1:9400/metrics

The ranks answer also while they compute, and the job does not wait for this command.

Exit codes: 0 all ranks progress, 1 the verdict names a problem, 2 there is no such job, 3 the job does not answer")]
pub(crate) struct StatusArgs {
    /// Process of the launcher, if several jobs run on this machine
    #[arg(value_name = "JOB", conflicts_with = "address")]
    pub(crate) job: Option<u32>,
    /// Address of rank 0; the secret of the job is in MSCCLPP_SECRET
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<Address>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["dump", "metrics", "listen"])]
    pub(crate) json: bool,
    /// Print the status every S seconds, until the job ends
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with_all = ["dump", "metrics", "listen"])]
    pub(crate) watch: Option<Duration>,
    /// Request a dump from each rank, and write them to a folder of this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["metrics", "listen"])]
    pub(crate) dump: Option<PathBuf>,
    /// Print the metrics of all ranks in the text format of Prometheus
    #[arg(long, conflicts_with = "listen")]
    pub(crate) metrics: bool,
    /// Serve the metrics over HTTP at /metrics of this port, on the loopback address if none is given
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
}

/// Reads an address with a port, or a port of the loopback address.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "expected a port, or an IP address with a port".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_alone_is_one_of_the_loopback_address() {
        assert_eq!(listen_address("9400"), Ok(SocketAddr::from(([127, 0, 0, 1], 9400))));
        assert_eq!(listen_address("0.0.0.0:1"), Ok(SocketAddr::from(([0, 0, 0, 0], 1))));
        assert_eq!(listen_address("[::1]:2").map(|at| at.port()), Ok(2));
        assert!(listen_address("x").is_err() && listen_address("70000").is_err());
    }
}
