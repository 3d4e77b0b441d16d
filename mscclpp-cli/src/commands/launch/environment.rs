//! Environment of each rank.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use mscclpp_bootstrap::{Address, Secret};

use crate::args::LaunchArgs;
use crate::error::{Error, Result};

/// One rank and its variables. A variable without a value is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Environment {
    /// Its rank in the whole job.
    pub(super) rank: u32,
    /// Its variables.
    pub(super) variables: Vec<(&'static str, Option<String>)>,
    /// The processors on which it runs, such as `0-3,8`; all of the launcher's if there are none.
    pub(super) cpus: Option<String>,
}

/// What the launcher's own environment says about the job.
pub(super) struct Given {
    /// `MSCCLPP_SECRET`.
    pub(super) secret: Option<OsString>,
    /// `MSCCLPP_MASTER_ADDR` and `MSCCLPP_MASTER_PORT`, if both are set: programs of MSCCL++ read them. A launcher around this one sets one
    /// of them alone.
    pub(super) rendezvous: Option<(String, String)>,
}

impl Given {
    pub(super) fn from_env() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let rendezvous = text("MSCCLPP_MASTER_ADDR").zip(text("MSCCLPP_MASTER_PORT"));
        Self { secret: std::env::var_os("MSCCLPP_SECRET"), rendezvous }
    }
}

/// Returns the environments of all ranks that this launcher starts. Variables that are given stay as they are, unless an option says
/// something else.
///
/// # Errors
/// Those of [`LaunchArgs::layout`]; [`Error::Usage`] for an invalid secret, and for several launchers without one;
/// [`Error::NoPort`] and [`Error::NoSecret`] if the system provides none.
pub(super) fn of_all(args: &LaunchArgs, given: Given) -> Result<Vec<Environment>> {
    let layout = args.layout()?;
    // Programs may have a rendezvous of their own at `MASTER_PORT`, as PyTorch has: ranks meet at another port then, if this launcher
    // chooses it.
    let (address, port, several) = match &args.address {
        Some(address) => (address.clone(), None, layout.world > args.ranks),
        None => {
            let [address, other] = free_addresses(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])?;
            (address, Some(other.port()), false)
        }
    };
    let secret = match given.secret {
        Some(text) => {
            let secret = text.to_string_lossy().parse::<Secret>();
            secret.map_err(|error| Error::Usage(format!("MSCCLPP_SECRET: {error}")))?
        }
        // Several launchers share no secret except the given one.
        None if several => {
            return Err(Error::Usage(
                "MSCCLPP_SECRET is not set: ranks on several hosts authenticate each other with it; set it to the \
                 same value on all hosts, such as the output of `openssl rand -hex 16`"
                    .into(),
            ));
        }
        None => Secret::random().map_err(|error| Error::NoSecret(error.to_string()))?,
    };
    let own = (args.address.as_ref().map(ToString::to_string), port.map(|port| port.to_string()));
    let (host_of_ranks, port_of_ranks) = match given.rendezvous.filter(|_| args.address.is_none()) {
        Some((host, port)) => (Some(host), Some(port)),
        None => own,
    };
    let of = |index: u32| {
        let rank = layout.first + index;
        let local = index % layout.per_host;
        let host = args.hosts.map(|_| format!("host {}", index / layout.per_host));
        let mut variables = vec![
            ("RANK", Some(rank.to_string())),
            ("WORLD_SIZE", Some(layout.world.to_string())),
            ("LOCAL_RANK", Some(local.to_string())),
            ("LOCAL_WORLD_SIZE", Some(layout.per_host.to_string())),
            ("MASTER_ADDR", Some(address.host().to_owned())),
            ("MASTER_PORT", Some(address.port().to_string())),
            // The whole address with its interface, if it has one; an inherited variable would take precedence over
            // `MASTER_ADDR`.
            ("MSCCLPP_MASTER_ADDR", host_of_ranks.clone()),
            ("MSCCLPP_MASTER_PORT", port_of_ranks.clone()),
            // How often this launcher has restarted the rank, which another launcher may have set.
            ("MSCCLPP_RESTART", None),
            ("MSCCLPP_SECRET", Some(secret.to_hex())),
        ];
        if host.is_some() {
            variables.push(("MSCCLPP_HOST_ID", host));
        }
        Environment { rank, variables, cpus: None }
    };
    Ok((0..args.ranks).map(of).collect())
}

/// Returns two ports without a listener, at the first of the addresses that this machine has.
fn free_addresses(loopback: &[IpAddr]) -> Result<[Address; 2]> {
    let addresses: Vec<_> = loopback.iter().map(|ip| SocketAddr::from((*ip, 0))).collect();
    let bind = || TcpListener::bind(&addresses[..]).map_err(Error::NoPort);
    // Both exist at once, so that the ports differ.
    let (first, second) = (bind()?, bind()?);
    let address = |listener: &TcpListener| -> Result<Address> {
        let found = listener.local_addr().map_err(Error::NoPort)?;
        Ok(Address::new(&found.ip().to_string(), found.port()))
    };
    Ok([address(&first)?, address(&second)?])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    const SECRET: &str = "00112233445566778899aabbccddeeff";

    fn args(arguments: &str) -> LaunchArgs {
        let words = ["mscclpp", "launch"].into_iter().chain(arguments.split(' '));
        let Command::Launch(args) = Cli::try_parse_from(words).unwrap().command else { panic!("{arguments}") };
        args
    }

    fn environments(arguments: &str) -> Vec<BTreeMap<&'static str, String>> {
        with_rendezvous(arguments, None)
    }

    fn with_rendezvous(arguments: &str, rendezvous: Option<(String, String)>) -> Vec<BTreeMap<&'static str, String>> {
        let all = of_all(&args(arguments), Given { secret: Some(SECRET.into()), rendezvous }).unwrap();
        let set =
            |one: Environment| one.variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        all.into_iter().map(set).collect()
    }

    #[test]
    fn several_hosts_need_a_secret_and_one_gets_its_own() {
        let secret = |arguments: &str, given: Option<&str>| {
            of_all(&args(arguments), Given { secret: given.map(OsString::from), rendezvous: None }).map(|all| {
                let [.., (name, value)] = &all[0].variables[..] else { panic!("no variables") };
                assert_eq!(*name, "MSCCLPP_SECRET");
                value.clone().unwrap()
            })
        };
        let several = "-n 1 --nodes 2 --node 0 --address h:9 prog";
        assert_eq!(secret(several, Some(SECRET)).unwrap(), SECRET);
        assert!(secret(several, None).unwrap_err().to_string().starts_with("MSCCLPP_SECRET is not set"));
        assert!(secret("-n 2 prog", Some("abc")).unwrap_err().to_string().starts_with("MSCCLPP_SECRET: cannot parse"));
        assert_ne!(secret("-n 2 prog", None).unwrap(), secret("-n 2 --address h:9 prog", None).unwrap());
    }

    #[test]
    fn machine_without_an_address_uses_the_next_one() {
        // An address reserved for documentation, which no machine has.
        let missing: IpAddr = [192, 0, 2, 1].into();
        let [found, _] = free_addresses(&[missing, Ipv4Addr::LOCALHOST.into()]).unwrap();
        assert_eq!(found.host(), "127.0.0.1");
        match free_addresses(&[missing, Ipv6Addr::LOCALHOST.into()]) {
            Ok([found, _]) => assert_eq!(found.host(), "::1"),
            Err(error) => assert!(matches!(error, Error::NoPort(_)), "{error}"),
        }
        assert!(matches!(free_addresses(&[missing]), Err(Error::NoPort(_))));
    }

    #[test]
    fn ranks_differ_in_their_numbers_only() {
        let all = environments("-n 3 prog");
        for (rank, mut one) in all.clone().into_iter().enumerate() {
            assert_eq!(one.remove("RANK"), Some(rank.to_string()));
            assert_eq!(one.remove("LOCAL_RANK"), Some(rank.to_string()));
            assert!(all[0].iter().filter(|(name, _)| !name.ends_with("RANK")).eq(&one));
        }
        assert_eq!(all[0]["MASTER_ADDR"], "127.0.0.1");
    }

    #[test]
    fn rendezvous_port_of_ranks_differs_from_that_of_the_program() {
        let all = environments("-n 2 prog");
        assert_ne!(all[0]["MASTER_PORT"], all[0]["MSCCLPP_MASTER_PORT"]);
        let given = environments("-n 2 --nodes 2 --node 1 --address 10.0.0.1:9 prog");
        assert_eq!((given[0]["MASTER_PORT"].as_str(), given[0].get("MSCCLPP_MASTER_PORT")), ("9", None));
    }

    #[test]
    fn address_of_the_environment_stays_unless_an_option_has_another_one() {
        let rendezvous = Some(("10.0.0.7".to_owned(), "29500".to_owned()));
        let of = |arguments: &str| {
            let all = with_rendezvous(arguments, rendezvous.clone());
            [all[0].get("MSCCLPP_MASTER_ADDR").cloned(), all[0].get("MSCCLPP_MASTER_PORT").cloned()]
        };
        assert_eq!(of("-n 2 prog"), [Some("10.0.0.7".into()), Some("29500".into())]);
        assert_eq!(of("-n 2 --address 10.0.0.1:9 prog"), [Some("10.0.0.1:9".into()), None]);
    }

    #[test]
    fn simulated_hosts_have_names_and_local_ranks() {
        let all = environments("-n 4 --hosts 2 prog");
        let of = |name: &str| all.iter().map(|one| one[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("LOCAL_RANK"), ["0", "1", "0", "1"]);
        assert_eq!(of("MSCCLPP_HOST_ID"), ["host 0", "host 0", "host 1", "host 1"]);
    }

    #[test]
    fn second_node_continues_rank_numbers() {
        let all = environments("-n 2 --nodes 2 --node 1 --address eth0:10.0.0.1:9 prog");
        assert_eq!((all[0]["RANK"].as_str(), all[1]["WORLD_SIZE"].as_str()), ("2", "4"));
        assert_eq!((all[0]["MASTER_ADDR"].as_str(), all[0]["MASTER_PORT"].as_str()), ("10.0.0.1", "9"));
        assert_eq!(all[0]["MSCCLPP_MASTER_ADDR"], "eth0:10.0.0.1:9");
    }
}
