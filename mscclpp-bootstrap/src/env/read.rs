//! Reads the configuration from the environment.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::launcher::{self, Launcher};
use super::{Environment, slurm};
use crate::address::{Address, is_v6, loopback_ip};
use crate::error::{Error, shortened};
use crate::frame::MAX_RANKS;
use crate::options::{MAX_TIMEOUT, NodeTransport, Options};
use crate::secret::Secret;

/// Base and number of the ports for jobs without one: below the ephemeral range of common systems.
const DERIVED_PORTS: (u16, u16) = (20000, 12000);

/// Variable of the secret.
const SECRET_VARIABLE: &str = "MSCCLPP_SECRET";

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the whole configuration.
pub(super) fn environment(lookup: Lookup) -> Result<Environment, Error> {
    let launcher = find(lookup)?;
    let rank = required(lookup, launcher.rank)?;
    let (ranks_name, num_ranks) = ranks(lookup, launcher)?;
    let said = |name: &str, value: u32| format!("{name}={value}");
    let contradiction = |first: String, second: String, reason: &str| Error::ConflictingVariables {
        first,
        second,
        reason: reason.into(),
    };
    if num_ranks == 0 || num_ranks > MAX_RANKS {
        let expected = format!("a number of ranks from 1 to {MAX_RANKS}");
        return Err(Error::InvalidVariable { variable: ranks_name.into(), value: num_ranks.to_string(), expected });
    }
    if rank >= num_ranks {
        let reason = "expected a rank below the number of ranks";
        return Err(contradiction(said(launcher.rank, rank), said(ranks_name, num_ranks), reason));
    }
    let local_rank = number(lookup, launcher.local_rank)?;
    let num_local_ranks = launcher.local_ranks.map_or(Ok(None), |name| number(lookup, name))?;
    if let (Some(name), Some(local)) = (launcher.local_ranks, num_local_ranks) {
        if local == 0 || local > num_ranks {
            let reason = "expected at least 1 local rank and at most the number of ranks";
            return Err(contradiction(said(name, local), said(ranks_name, num_ranks), reason));
        }
        if let Some(rank) = local_rank.filter(|rank| *rank >= local) {
            let reason = "expected a local rank below the number of local ranks";
            return Err(contradiction(said(launcher.local_rank, rank), said(name, local), reason));
        }
    }
    let hosts = launcher.hosts.iter().find_map(|name| number(lookup, name).transpose()).transpose()?;
    let num_local_ranks = num_local_ranks.or((hosts == Some(1)).then_some(num_ranks));
    let job = job(lookup, launcher);
    let given_secret = given_secret(lookup)?;
    let address = match num_ranks {
        1 => None,
        _ => {
            let (mut address, mut from) = address(lookup, launcher, &job, num_local_ranks == Some(num_ranks))?;
            // Of a host's own addresses only the loopback address excludes other hosts, whose users can guess the secret.
            if given_secret.is_none() && num_local_ranks == Some(num_ranks) && from.starts_with("MASTER_ADDR") {
                address = Address::new(&loopback_ip().to_string(), address.port());
                from = format!("all ranks of {} are on this host, port of {from}", launcher.name);
            }
            Some((address, from))
        }
    };
    let has_derived_secret = given_secret.is_none();
    let (secret, secret_source) = match given_secret {
        Some(secret) => (secret, SECRET_VARIABLE),
        None => {
            // The host is not included, because hosts may have different names for rank 0's host.
            let port = address.as_ref().map(|(address, _)| address.port().to_string()).unwrap_or_default();
            let secret = Secret::derived(&[launcher.name, &job, &port, &num_ranks.to_string()]);
            (secret, "the name of the job, which other users can guess")
        }
    };
    let allow_derived_secret = flag(lookup, "MSCCLPP_ALLOW_DERIVED_SECRET")?;
    let options = options(lookup)?;
    let restarts = number(lookup, "MSCCLPP_RESTART")?.unwrap_or(0);
    Ok(Environment {
        launcher: launcher.name,
        rank,
        num_ranks,
        local_rank,
        num_local_ranks,
        address,
        secret,
        secret_source,
        has_derived_secret,
        allow_derived_secret,
        restarts,
        options,
    })
}

/// Returns the first launcher of which a variable is set.
pub(super) fn find(lookup: Lookup) -> Result<&'static Launcher, Error> {
    let says = |launcher: &&Launcher| {
        lookup(launcher.rank).is_some()
            || (launcher.name == "torchrun" && launcher.ranks.iter().any(|name| lookup(name).is_some()))
    };
    launcher::ALL.iter().find(says).ok_or_else(|| {
        let names: Vec<_> = launcher::ALL.iter().map(|launcher| launcher.rank).collect();
        Error::MissingVariable { what: "the rank of this process".into(), looked_for: names.join(" or ") }
    })
}

fn ranks(lookup: Lookup, launcher: &Launcher) -> Result<(&'static str, u32), Error> {
    for name in launcher.ranks {
        if let Some(ranks) = number(lookup, name)? {
            return Ok((name, ranks));
        }
    }
    let looked_for = format!("{}, since {} is set", launcher.ranks.join(" or "), launcher.rank);
    Err(Error::MissingVariable { what: "the number of ranks".into(), looked_for })
}

/// Returns the identity of the job; empty if no variable has one.
fn job(lookup: Lookup, launcher: &Launcher) -> String {
    let parts: Vec<_> = launcher.job.iter().filter_map(|name| lookup(name)).collect();
    parts.join(".")
}

fn address(lookup: Lookup, launcher: &Launcher, job: &str, one_host: bool) -> Result<(Address, String), Error> {
    let missing =
        |what: &str, looked_for: &str| Error::MissingVariable { what: what.into(), looked_for: looked_for.into() };
    let set = |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, lookup(name)?)));
    let port = match set(["MSCCLPP_MASTER_PORT", "MASTER_PORT"]) {
        Some((name, text)) => Some((name, port(name, &text)?)),
        None => None,
    };
    let (host_name, host) = match set(["MSCCLPP_MASTER_ADDR", "MASTER_ADDR"]) {
        Some((name, host)) => (name.to_owned(), host),
        None if one_host => (format!("all ranks of {} are on this host", launcher.name), loopback_ip().to_string()),
        None if launcher.name == "Slurm" => {
            let looked_for = "MSCCLPP_MASTER_ADDR or MASTER_ADDR or SLURM_STEP_NODELIST";
            let (name, list) = set(["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"])
                .ok_or_else(|| missing("the address of rank 0", looked_for))?;
            let host = slurm::first_host(&list).ok_or_else(|| Error::InvalidVariable {
                variable: name.into(),
                value: shortened(&list),
                expected: "a list of hosts, such as node[001-004]".into(),
            })?;
            (format!("first of {name}"), host)
        }
        None => return Err(missing("the address of rank 0", "MSCCLPP_MASTER_ADDR or MASTER_ADDR")),
    };
    // One variable may contain the whole address, as `interface:ip:port`.
    let whole = host.parse::<Address>().ok().filter(|_| host.matches(':').count() <= 2 || host.contains('['));
    if let Some(whole) = whole {
        // Only the variable of the same launcher can contradict it.
        return match port {
            Some((name, port)) if name == "MSCCLPP_MASTER_PORT" && port != whole.port() => {
                Err(Error::ConflictingVariables {
                    first: format!("{host_name}={whole}"),
                    second: format!("{name}={port}"),
                    reason: "the ports differ".into(),
                })
            }
            _ => Ok((whole, host_name)),
        };
    }
    let unreadable = || Error::InvalidVariable {
        variable: host_name.clone(),
        value: shortened(&host),
        expected: "the name or address of rank 0's host, or host:port or interface:host:port with a port from 1".into(),
    };
    let bare = host.trim_matches(['[', ']']);
    if host.contains(':') && !is_v6(bare) {
        return Err(unreadable());
    }
    let (port_name, port) = match port {
        Some((name, port)) => (name.to_owned(), port),
        None if !job.is_empty() => (format!("port from the name of the {} job", launcher.name), derived_port(job)),
        None => return Err(missing("the port of rank 0", "MSCCLPP_MASTER_PORT or MASTER_PORT")),
    };
    let text = if host.contains(':') { format!("[{bare}]:{port}") } else { format!("{host}:{port}") };
    let address = text.parse().map_err(|_| unreadable())?;
    Ok((address, format!("{host_name}, {port_name}")))
}

fn port(variable: &str, text: &str) -> Result<u16, Error> {
    text.trim().parse().ok().filter(|port| *port != 0).ok_or_else(|| Error::InvalidVariable {
        variable: variable.into(),
        value: shortened(text),
        expected: "a port from 1 to 65535".into(),
    })
}

fn derived_port(job: &str) -> u16 {
    let digest: [u8; 32] = Sha256::digest(job.as_bytes()).into();
    DERIVED_PORTS.0 + u16::from_le_bytes([digest[0], digest[1]]) % DERIVED_PORTS.1
}

fn given_secret(lookup: Lookup) -> Result<Option<Secret>, Error> {
    let Some(text) = lookup(SECRET_VARIABLE) else { return Ok(None) };
    match text.parse() {
        Ok(secret) => Ok(Some(secret)),
        // The error never contains the value.
        Err(Error::InvalidText { text: value, expected, .. }) => {
            Err(Error::InvalidVariable { variable: SECRET_VARIABLE.into(), value, expected })
        }
        Err(other) => Err(other),
    }
}

/// Returns whether a variable is 1; without the variable, it is not.
fn flag(lookup: Lookup, name: &str) -> Result<bool, Error> {
    match lookup(name).as_deref().map(str::trim) {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => {
            Err(Error::InvalidVariable { variable: name.into(), value: shortened(other), expected: "0 or 1".into() })
        }
    }
}

/// Returns what carries data between nodes.
fn transport(lookup: Lookup) -> Result<NodeTransport, Error> {
    const NAME: &str = "MSCCLPP_TRANSPORT";
    match lookup(NAME).as_deref().map(str::trim) {
        None | Some("") => Ok(NodeTransport::Auto),
        Some("tcp") => Ok(NodeTransport::Tcp),
        Some("ucx") => Ok(NodeTransport::Ucx),
        Some(other) => Err(Error::InvalidVariable {
            variable: NAME.into(),
            value: shortened(other),
            expected: "tcp or ucx".into(),
        }),
    }
}

pub(super) fn options(lookup: Lookup) -> Result<Options, Error> {
    let mut options = Options::default().authenticate_data(flag(lookup, "MSCCLPP_AUTHENTICATE_DATA")?);
    options.transport = transport(lookup)?;
    options.ucx_device_memory = flag(lookup, "MSCCLPP_UCX_DEVICE_MEMORY")?;
    if let Some(seconds) = seconds(lookup, "MSCCLPP_TIMEOUT", 0.001)? {
        options = options.timeout(seconds);
    }
    if let Some(seconds) = seconds(lookup, "MSCCLPP_RENDEZVOUS_TIMEOUT", 0.001)? {
        options.rendezvous_timeout = seconds;
    }
    if let Some(seconds) = seconds(lookup, "MSCCLPP_HEARTBEAT_TIMEOUT", 0.0)? {
        options.heartbeat_timeout = (!seconds.is_zero()).then_some(seconds);
    }
    Ok(options.bounded())
}

fn seconds(lookup: Lookup, name: &str, least: f64) -> Result<Option<Duration>, Error> {
    let Some(text) = lookup(name) else { return Ok(None) };
    let longest = MAX_TIMEOUT.as_secs_f64();
    let value = text.trim().parse::<f64>().ok().filter(|value| (least..=longest).contains(value));
    value.map(|value| Some(Duration::from_secs_f64(value))).ok_or_else(|| Error::InvalidVariable {
        variable: name.into(),
        value: shortened(&text),
        expected: format!("a number of seconds from {least} to {longest}"),
    })
}

fn required(lookup: Lookup, name: &'static str) -> Result<u32, Error> {
    number(lookup, name)?
        .ok_or_else(|| Error::MissingVariable { what: "the rank of this process".into(), looked_for: name.into() })
}

fn number(lookup: Lookup, name: &str) -> Result<Option<u32>, Error> {
    let Some(text) = lookup(name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| Error::InvalidVariable {
        variable: name.into(),
        value: shortened(&text),
        expected: format!("an integer from 0 to {}", u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, Error> {
        let map: BTreeMap<_, _> = variables.iter().copied().collect();
        Environment::from_lookup(|name| map.get(name).map(|value| (*value).to_owned()))
    }

    const TORCHRUN: [(&str, &str); 6] = [
        ("RANK", "3"),
        ("WORLD_SIZE", "8"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "10.0.0.1"),
        ("MASTER_PORT", "29500"),
    ];

    fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        TORCHRUN.into_iter().chain(more.iter().copied()).collect()
    }

    fn address(environment: &Environment) -> String {
        environment.address.as_ref().unwrap().0.to_string()
    }

    #[test]
    fn torchrun_names_have_priority_and_own_address_overrides() {
        let found = read(&with(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")])).unwrap();
        assert_eq!((found.launcher, found.rank, found.num_ranks), ("torchrun", 3, 8));
        assert_eq!((found.local_rank, found.num_local_ranks), (Some(1), Some(2)));
        assert_eq!(address(&found), "10.0.0.1:29500");
        let found = read(&with(&[("MSCCLPP_MASTER_PORT", "5")])).unwrap();
        assert_eq!(address(&found), "10.0.0.1:5");
        let found = read(&with(&[("MSCCLPP_MASTER_ADDR", "eth1:10.1.0.1:7")])).unwrap();
        assert_eq!(address(&found), "eth1:10.1.0.1:7");
        let text = found.to_string();
        assert!(text.contains("rank 3 of 8 (variables of torchrun, local rank 1 of 2)"), "{text}");
        assert!(text.contains("eth1:10.1.0.1:7 (MSCCLPP_MASTER_ADDR)"), "{text}");
    }

    #[test]
    fn other_launchers_are_recognized() {
        let mpi = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "12345.1"),
        ];
        let found = read(&mpi).unwrap();
        assert_eq!((found.launcher, found.rank), ("Open MPI", 1));
        let (at, _) = found.address.unwrap();
        assert!(at.host() == "127.0.0.1" && (20000..32000).contains(&at.port()), "{at}");

        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_NTASKS", "64"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_STEP_NODELIST", "node[07-10]"),
            ("SLURM_JOB_ID", "99"),
            ("SLURM_STEP_ID", "0"),
        ];
        let found = read(&slurm).unwrap();
        assert_eq!((found.launcher, found.rank, found.num_ranks), ("Slurm", 5, 8));
        assert!(address(&found).starts_with("node07:"));

        let pmi = [("PMI_RANK", "0"), ("PMI_SIZE", "4"), ("MASTER_ADDR", "::1"), ("MASTER_PORT", "9")];
        let found = read(&pmi).unwrap();
        assert_eq!((found.launcher, address(&found).as_str()), ("PMI", "[::1]:9"));
    }

    #[test]
    fn single_rank_needs_no_address() {
        let found = read(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap();
        assert_eq!(found.address, None);
        assert_eq!(found.connect().unwrap().num_ranks(), 1);
    }

    #[test]
    fn secrets_differ_between_jobs() {
        let secret = |more: &[(&'static str, &'static str)]| read(&with(more)).unwrap().secret;
        assert_eq!(secret(&[]), secret(&[("MSCCLPP_TIMEOUT", "5")]));
        assert_ne!(secret(&[]), secret(&[("TORCHELASTIC_RUN_ID", "b")]));
        assert_ne!(secret(&[]), secret(&[("MSCCLPP_MASTER_PORT", "5")]));
        let given = "00112233445566778899aabbccddeeff";
        assert_eq!(secret(&[("MSCCLPP_SECRET", given)]).to_hex(), given);
    }

    #[test]
    fn derived_secret_is_distinguished_from_a_given_one() {
        let found = read(&TORCHRUN).unwrap();
        assert!(found.has_derived_secret && !found.allow_derived_secret);
        assert!(read(&with(&[("MSCCLPP_ALLOW_DERIVED_SECRET", "1")])).unwrap().allow_derived_secret);
        let given = ("MSCCLPP_SECRET", "00112233445566778899aabbccddeeff");
        assert!(!read(&with(&[given])).unwrap().has_derived_secret);
        let error = read(&with(&[("MSCCLPP_ALLOW_DERIVED_SECRET", "yes")])).unwrap_err().to_string();
        assert_eq!(error, "MSCCLPP_ALLOW_DERIVED_SECRET=yes: expected 0 or 1");
    }

    #[test]
    fn derived_secret_is_refused_beyond_loopback_on_all_ranks() {
        // An address reserved for documentation; rank 0 listens at all addresses.
        for (rank, host) in [("0", "0.0.0.0"), ("1", "192.0.2.1"), ("1", "[::ffff:192.0.2.1]")] {
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
            let address = [("MASTER_ADDR", host), ("MASTER_PORT", &*port)];
            let variables = [&address[..], &[("RANK", rank), ("WORLD_SIZE", "2"), ("MSCCLPP_TIMEOUT", "0.2")]].concat();
            let error = read(&variables).unwrap().connect().unwrap_err();
            assert!(matches!(error, Error::DerivedSecret { .. }), "{error}");
            assert_eq!(error.rank(), rank.parse().ok());
            let help = error.help().unwrap();
            assert!(
                help.contains("set MSCCLPP_SECRET to") && help.contains("MSCCLPP_ALLOW_DERIVED_SECRET=1"),
                "{help}"
            );
            for more in [("MSCCLPP_ALLOW_DERIVED_SECRET", "1"), ("MSCCLPP_SECRET", "00112233445566778899aabbccddeeff")]
            {
                let error = read(&[&variables[..], &[more]].concat()).unwrap().connect().unwrap_err();
                assert!(matches!(error, Error::JoinTimeout { .. } | Error::Unreachable { .. }), "{error}");
            }
        }
        for host in ["localhost", "127.0.0.1"] {
            let variables = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", host), ("MASTER_PORT", "1")];
            let error = read(&[&variables[..], &[("MSCCLPP_TIMEOUT", "0.2")]].concat()).unwrap().connect().unwrap_err();
            assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        }
    }

    #[test]
    fn ranks_of_one_host_use_loopback_with_a_derived_secret() {
        let one_host = [("LOCAL_WORLD_SIZE", "8"), ("LOCAL_RANK", "3")];
        assert_eq!(address(&read(&with(&one_host)).unwrap()), "127.0.0.1:29500");
        let given = ("MSCCLPP_SECRET", "00112233445566778899aabbccddeeff");
        assert_eq!(address(&read(&with(&[one_host[0], one_host[1], given])).unwrap()), "10.0.0.1:29500");
        let chosen = ("MSCCLPP_MASTER_ADDR", "10.0.0.2");
        assert_eq!(address(&read(&with(&[one_host[0], one_host[1], chosen])).unwrap()), "10.0.0.2:29500");
        let slurm = |hosts: &'static str| {
            [
                ("SLURM_PROCID", "1"),
                ("SLURM_NTASKS", "2"),
                ("SLURM_STEP_NODELIST", "node07"),
                ("SLURM_JOB_ID", "99"),
                ("SLURM_NNODES", "2"),
                ("SLURM_STEP_NUM_NODES", hosts),
            ]
        };
        let found = read(&slurm("1")).unwrap();
        assert!(address(&found).starts_with("127.0.0.1:") && found.num_local_ranks == Some(2), "{found}");
        assert!(address(&read(&slurm("2")).unwrap()).starts_with("node07:"));
    }

    #[test]
    fn invalid_and_conflicting_variables_are_reported() {
        let text = |more: &[(&'static str, &'static str)]| read(&with(more)).unwrap_err().to_string();
        for (name, value, said) in [
            ("RANK", "three", "RANK=three: expected an integer from 0 to 4294967295"),
            ("RANK", "-1", "RANK=-1: expected an integer from 0 to 4294967295"),
            ("RANK", "4294967296", "RANK=4294967296: expected an integer from 0 to 4294967295"),
            ("RANK", "8", "RANK=8 conflicts with WORLD_SIZE=8"),
            ("WORLD_SIZE", "0", "WORLD_SIZE=0: expected a number of ranks from 1"),
            ("WORLD_SIZE", "99999999", "WORLD_SIZE=99999999: expected a number of ranks from 1 to 16384"),
            ("LOCAL_RANK", "2", "LOCAL_RANK=2 conflicts with LOCAL_WORLD_SIZE=2"),
            ("LOCAL_WORLD_SIZE", "9", "LOCAL_WORLD_SIZE=9 conflicts with WORLD_SIZE=8"),
            ("MASTER_PORT", "65536", "MASTER_PORT=65536: expected a port"),
            ("MASTER_ADDR", "no host", "MASTER_ADDR=no host: expected the name"),
            ("MSCCLPP_TIMEOUT", "nan", "MSCCLPP_TIMEOUT=nan: expected a number of seconds"),
            ("MSCCLPP_TIMEOUT", "1e300", "MSCCLPP_TIMEOUT=1e300: expected"),
            ("MSCCLPP_SECRET", "short", "MSCCLPP_SECRET=…: expected 32 hexadecimal digits"),
            ("MASTER_ADDR", "a:b:c:d", "MASTER_ADDR=a:b:c:d: expected the name"),
            ("MSCCLPP_MASTER_ADDR", "h:0", "MSCCLPP_MASTER_ADDR=h:0: expected the name"),
        ] {
            let found = text(&[(name, value)]);
            assert!(found.starts_with(said), "{found}");
        }
        let found = text(&[("MSCCLPP_MASTER_ADDR", "h:1"), ("MSCCLPP_MASTER_PORT", "2")]);
        assert!(found.contains("the ports differ"), "{found}");
        let found = read(&[]).unwrap_err().to_string();
        assert!(found.contains("RANK or OMPI_COMM_WORLD_RANK"), "{found}");
        let found = read(&[("RANK", "0")]).unwrap_err().to_string();
        assert!(found.contains("WORLD_SIZE, since RANK is set"), "{found}");
        let long = "9".repeat(500);
        let found = read(&[("RANK", &long), ("WORLD_SIZE", "1")]).unwrap_err().to_string();
        assert!(found.len() < 200 && found.contains('…'), "{found}");
    }

    #[test]
    fn heartbeat_timeout_of_zero_disables_it() {
        assert_eq!(read(&with(&[("MSCCLPP_HEARTBEAT_TIMEOUT", "0")])).unwrap().options.heartbeat_timeout, None);
        let half = Some(Duration::from_millis(500));
        assert_eq!(read(&with(&[("MSCCLPP_HEARTBEAT_TIMEOUT", "0.5")])).unwrap().options.heartbeat_timeout, half);
    }

    #[test]
    fn data_is_authenticated_on_request() {
        assert!(!read(&TORCHRUN).unwrap().options.authenticate_data);
        assert!(read(&with(&[("MSCCLPP_AUTHENTICATE_DATA", "1")])).unwrap().options.authenticate_data);
    }

    #[test]
    fn ucx_accesses_memory_of_devices_on_request() {
        assert!(!read(&TORCHRUN).unwrap().options.ucx_device_memory);
        let environment = read(&with(&[("MSCCLPP_UCX_DEVICE_MEMORY", "1")])).unwrap();
        assert!(environment.options.ucx_device_memory);
        assert!(environment.to_string().ends_with(", UCX accesses memory of devices"), "{environment}");
    }

    #[test]
    fn transport_is_one_of_two_words() {
        assert_eq!(read(&TORCHRUN).unwrap().options.transport, NodeTransport::Auto);
        for (word, transport) in [("tcp", NodeTransport::Tcp), ("ucx", NodeTransport::Ucx), ("", NodeTransport::Auto)] {
            assert_eq!(read(&with(&[("MSCCLPP_TRANSPORT", word)])).unwrap().options.transport, transport);
        }
        let found = read(&with(&[("MSCCLPP_TRANSPORT", "UCX")])).unwrap_err().to_string();
        assert!(found.contains("MSCCLPP_TRANSPORT=UCX: expected tcp or ucx"), "{found}");
    }

    #[test]
    fn rendezvous_has_a_separate_timeout() {
        let options = |more: &[(&'static str, &'static str)]| read(&with(more)).unwrap().options;
        let times = |options: Options| (options.timeout.as_secs(), options.rendezvous_timeout.as_secs());
        assert_eq!(times(options(&[])), (600, 300));
        assert_eq!(times(options(&[("MSCCLPP_TIMEOUT", "5")])), (5, 5));
        assert_eq!(times(options(&[("MSCCLPP_TIMEOUT", "5"), ("MSCCLPP_RENDEZVOUS_TIMEOUT", "7")])), (5, 7));
        assert_eq!(read(&with(&[("MSCCLPP_RESTART", "2")])).unwrap().restarts, 2);
    }

    /// All variables that are ever looked up.
    const NAMES: [&str; 32] = [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "MSCCLPP_MASTER_ADDR",
        "MSCCLPP_MASTER_PORT",
        "MSCCLPP_SECRET",
        "MSCCLPP_ALLOW_DERIVED_SECRET",
        "MSCCLPP_AUTHENTICATE_DATA",
        "MSCCLPP_TRANSPORT",
        "MSCCLPP_UCX_DEVICE_MEMORY",
        "MSCCLPP_TIMEOUT",
        "MSCCLPP_HEARTBEAT_TIMEOUT",
        "MSCCLPP_RENDEZVOUS_TIMEOUT",
        "MSCCLPP_RESTART",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMIX_NAMESPACE",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_LOCALID",
        "SLURM_STEP_NODELIST",
        "SLURM_JOB_ID",
        "SLURM_STEP_NUM_NODES",
        "SLURM_NNODES",
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALNRANKS",
    ];

    proptest! {
        #[test]
        fn arbitrary_environment_is_read_or_rejected(
            values in proptest::collection::vec(prop_oneof![
                3 => Just(None),
                2 => "[0-9]{1,3}".prop_map(Some),
                1 => "[a-z0-9:.\\[\\],-]{0,12}".prop_map(Some),
                1 => ".{0,12}".prop_map(Some),
            ], NAMES.len()),
        ) {
            let lookup = |name: &str| {
                let index = NAMES.iter().position(|known| *known == name)?;
                values[index].clone()
            };
            if let Ok(found) = Environment::from_lookup(lookup) {
                prop_assert!(found.rank < found.num_ranks);
                prop_assert_eq!(found.address.is_none(), found.num_ranks == 1);
                prop_assert!(!found.to_string().is_empty());
            }
        }
    }
}
