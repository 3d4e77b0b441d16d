//! Arguments of `mscclpp launch`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use mscclpp_bootstrap::{Address, MAX_RANKS};

use super::seconds;
use crate::error::{Error, Result};

/// Most ranks that are started on one host.
const MOST: u32 = 1024;

/// Arguments of `mscclpp launch`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp launch -n 4 -- ./train --epochs 3
  mscclpp launch -n 4 --hosts 2 -- ./train              simulate 2 hosts, for tests
  mscclpp launch -n 4 --restarts 3 -- ./train           start a failed rank again, up to 3 times
  mscclpp launch -n 8 --bind -- ./train                 each rank on processors near its GPU
  mscclpp launch -n 8 --nodes 2 --node 0 --address 10.0.0.1:29500 -- ./train
                                                        on the first of 2 hosts; use --node 1 on the other

Every rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and MSCCLPP_SECRET, which is
generated for the job; with several --nodes it must be set to the same value on all of them.
A restarted rank gets MSCCLPP_RESTART, the number of its restarts; the others keep running and can grow with it.
SIGINT, SIGTERM and SIGHUP are forwarded to all ranks, which are killed after --grace seconds, at least 2.
Exit code: 0 if all ranks exit with 0; otherwise that of the first rank that failed, or 128 + the number of the signal
that ended it; 128 + the number of a forwarded signal, regardless of the exit codes of the ranks")]
pub(crate) struct LaunchArgs {
    /// Number of ranks to start here
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    pub(crate) ranks: u32,
    /// Simulate N hosts; consecutive ranks are divided evenly among them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["nodes", "node", "address"])]
    pub(crate) hosts: Option<u32>,
    /// Number of hosts on which this command is run, each with the same number of ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)), requires_all = ["node", "address"])]
    pub(crate) nodes: Option<u32>,
    /// Number of this host, starting from 0
    #[arg(long, value_name = "I", requires = "nodes")]
    pub(crate) node: Option<u32>,
    /// Address of rank 0 (host:port, on the host of node 0) [default: a free port of 127.0.0.1, or of ::1]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<Address>,
    /// Write the ranks' output unchanged, without the rank number before each line
    #[arg(long)]
    pub(crate) no_prefix: bool,
    /// Seconds after which ranks are killed that have not exited after the failure of another rank or after a signal
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    pub(crate) grace: Duration,
    /// Number of times that a failed rank is started again, all ranks started here together, while the others run
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) restarts: u32,
    /// Bind each rank to processors of its own, of the NUMA node of its GPU if there are several nodes
    #[arg(long)]
    pub(crate) bind: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Arguments of the step between launcher and program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  mscclpp launch -n 4 -- ./train  starts this command")]
pub(crate) struct GuardArgs {
    /// The launcher's process
    pub(crate) launcher: u32,
    /// The processors on which the program may run
    #[arg(long)]
    pub(crate) cpus: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Where the ranks started here stand in the whole job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// Rank of the first rank started here.
    pub(crate) first: u32,
    /// Ranks of the whole job.
    pub(crate) world: u32,
    /// Ranks of each host, pretended or not.
    pub(crate) per_host: u32,
}

impl LaunchArgs {
    /// Where the ranks started here stand in the whole job.
    ///
    /// # Errors
    /// [`Error::Usage`] if the ranks do not divide into hosts, there is no such node, or there are too many ranks.
    pub(crate) fn layout(&self) -> Result<Nodes> {
        let ranks = self.ranks;
        if let Some(hosts) = self.hosts {
            if !ranks.is_multiple_of(hosts) {
                return Err(Error::Usage(format!(
                    "expected a multiple of {hosts} ranks for {hosts} hosts, found {ranks}"
                )));
            }
            return Ok(Nodes { first: 0, world: ranks, per_host: ranks / hosts });
        }
        let (nodes, node) = (self.nodes.unwrap_or(1), self.node.unwrap_or(0));
        if node >= nodes {
            return Err(Error::Usage(format!("--node {node} of {nodes} nodes: expected 0 to {}", nodes - 1)));
        }
        if nodes * ranks > MAX_RANKS {
            let found = nodes * ranks;
            return Err(Error::Usage(format!("expected at most {MAX_RANKS} ranks, found {found} on {nodes} nodes")));
        }
        Ok(Nodes { first: node * ranks, world: nodes * ranks, per_host: ranks })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn parse(arguments: &str) -> std::result::Result<LaunchArgs, clap::Error> {
        match Cli::try_parse_from(["mscclpp", "launch"].into_iter().chain(arguments.split(' ')))?.command {
            Command::Launch(launch) => Ok(launch),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranks_are_counted_over_hosts() {
        let layout = |arguments: &str| parse(arguments).unwrap().layout();
        assert_eq!(layout("-n 4 a").unwrap(), Nodes { first: 0, world: 4, per_host: 4 });
        assert_eq!(layout("-n 4 --hosts 2 a").unwrap(), Nodes { first: 0, world: 4, per_host: 2 });
        let second = layout("-n 2 --nodes 3 --node 1 --address h:1 a").unwrap();
        assert_eq!(second, Nodes { first: 2, world: 6, per_host: 2 });
        assert!(layout("-n 3 --hosts 2 a").is_err());
        assert!(layout("-n 3 --nodes 2 --node 2 --address h:1 a").is_err());
        assert!(layout("-n 1024 --nodes 16 --node 0 --address h:1 a").is_ok());
        let many = layout("-n 1024 --nodes 17 --node 0 --address h:1 a").unwrap_err().to_string();
        assert!(many.contains("expected at most 16384 ranks, found 17408 on 17 nodes"), "{many}");
    }

    #[test]
    fn arguments_after_program_belong_to_it() {
        let found = parse("-n 2 -- prog -n 7 --json").unwrap();
        assert_eq!((found.ranks, found.command), (2, ["prog", "-n", "7", "--json"].map(OsString::from).to_vec()));
        assert_eq!(parse("-n 2 prog --grace 1").unwrap().command.len(), 3);
    }

    #[test]
    fn incomplete_layout_is_rejected() {
        for arguments in [
            "-n 0 a",
            "-n 2000 a",
            "-n 1",
            "a",
            "-n 1 --nodes 2 a",
            "-n 1 --node 0 a",
            "-n 1 --address h a",
            "-n 1 --grace -1 a",
        ] {
            assert!(parse(arguments).is_err(), "{arguments}");
        }
    }
}
