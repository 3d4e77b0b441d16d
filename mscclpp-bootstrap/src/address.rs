//! Where rank 0 is to be found.

use std::fmt::{self, Display, Formatter};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use super::error::Error;
use crate::timeout::ActiveTimeout;

/// How long a name may take to become known: clusters start names and processes together.
const NAMING: Duration = Duration::from_secs(5);
/// How long to wait before asking for a name again.
const AGAIN: Duration = Duration::from_millis(100);
/// Longest name of a host or an interface, in bytes.
const NAME_BYTES: usize = 255;

/// Where rank 0 listens: `host:port`, or `interface:host:port`.
///
/// The host is a name, an IPv4 address, or an IPv6 address in brackets. With an interface, rank 0 listens on that interface
/// only, and the other ranks let others reach them through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's name, such as `eth0`.
    interface: Option<String>,
    /// Name or address of rank 0's host, without brackets.
    host: String,
    /// The port.
    port: u16,
}

impl Address {
    /// A host and a port.
    pub fn new(host: &str, port: u16) -> Self {
        Self { interface: None, host: host.trim_matches(['[', ']']).to_owned(), port }
    }

    /// Name or address of rank 0's host; an IPv6 address has no brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The addresses that the host's name stands for.
    ///
    /// # Errors
    /// [`Error::System`] if it stands for none.
    pub(crate) fn resolve(&self, time: Duration) -> Result<Vec<SocketAddr>, Error> {
        let mut timeout = ActiveTimeout::new(time.min(NAMING));
        loop {
            let reason = match (self.host.as_str(), self.port).to_socket_addrs() {
                Ok(found) => {
                    let found: Vec<_> = found.collect();
                    if !found.is_empty() {
                        return Ok(found);
                    }
                    "the name has no address".into()
                }
                Err(error) => error.to_string(),
            };
            if timeout.is_expired() {
                return Err(Error::System { what: format!("cannot resolve host `{}`", self.host), reason });
            }
            timeout.allow_gap(AGAIN);
            thread::sleep(AGAIN);
        }
    }

    /// Whether other hosts may know the name by another address than this one: a machine that has a name often gives it a
    /// loopback address, which on the others means themselves. Not so if it was this machine alone that was named.
    fn is_name(&self) -> bool {
        self.interface.is_none() && self.host.parse::<IpAddr>().is_err() && self.host != "localhost"
    }

    /// Listens there, as rank 0. In a job of several hosts a loopback address that the host's name stands for does not
    /// count; if it stands for no other, all interfaces are listened on.
    ///
    /// `freeing`: how long to wait for the port to become free.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), [`Error::Bind`].
    pub(crate) fn listen(
        &self,
        deadline: Duration,
        freeing: Duration,
        several_hosts: bool,
    ) -> Result<TcpListener, Error> {
        let mut addresses = self.resolve(deadline)?;
        let everywhere = everywhere(&addresses);
        if let Some(interface) = &self.interface {
            let here = addresses_of(interface)?;
            addresses.retain(|address| here.contains(&address.ip()));
            if addresses.is_empty() {
                let reason = format!("interface `{interface}` does not have that address; it has {}", listed(&here));
                return Err(Error::Bind { address: self.to_string(), reason });
            }
        }
        if several_hosts && self.is_name() {
            addresses.retain(|address| !address.ip().is_loopback());
            if addresses.is_empty() {
                addresses = vec![SocketAddr::from((everywhere, self.port))];
            }
        }
        let mut timeout = ActiveTimeout::new(freeing);
        loop {
            match TcpListener::bind(&addresses[..]) {
                Ok(listener) => return Ok(listener),
                Err(error) if error.kind() == ErrorKind::AddrInUse && !timeout.is_expired() => {
                    thread::sleep(timeout.max_sleep().min(Duration::from_millis(20)));
                }
                Err(error) => return Err(Error::Bind { address: self.to_string(), reason: why(&error) }),
            }
        }
    }

    /// Where a rank that reaches rank 0 at one of `addresses` listens, if not where it does that from: on the interface that
    /// was named; or everywhere, on the host of rank 0 if that has none but loopback addresses for its own name.
    ///
    /// # Errors
    /// [`Error::System`] if there is no such interface.
    pub(crate) fn own(&self, addresses: &[SocketAddr], several_hosts: bool) -> Result<Option<IpAddr>, Error> {
        let Some(interface) = &self.interface else {
            let inward = addresses.iter().all(|address| address.ip().is_loopback());
            return Ok((several_hosts && self.is_name() && inward).then(|| everywhere(addresses)));
        };
        let here = addresses_of(interface)?;
        // Of the kind that rank 0 has, if the interface has one.
        let like = |address: &&IpAddr| self.host.parse().is_ok_and(|root: IpAddr| root.is_ipv4() == address.is_ipv4());
        Ok(here.iter().find(like).or(here.first()).copied())
    }
}

/// All interfaces, for callers that look at `addresses`: version 6 takes both, but not every system has it.
fn everywhere(addresses: &[SocketAddr]) -> IpAddr {
    let six = !addresses.is_empty() && addresses.iter().all(SocketAddr::is_ipv6);
    if six { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// What the reasons of the system mean here.
fn why(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => "another process already listens there: another job, or another rank 0".into(),
        ErrorKind::AddrNotAvailable => {
            let all = if_addrs::get_if_addrs().unwrap_or_default();
            let all: Vec<_> = all.iter().map(if_addrs::Interface::ip).collect();
            format!("this host does not have that address; it has {}", listed(&all))
        }
        _ => error.to_string(),
    }
}

/// The addresses of an interface, at least one.
fn addresses_of(interface: &str) -> Result<Vec<IpAddr>, Error> {
    let system = |reason: String| Error::System { what: format!("cannot use interface `{interface}`"), reason };
    let all = if_addrs::get_if_addrs().map_err(|error| system(error.to_string()))?;
    let here: Vec<_> = all.iter().filter(|one| one.name == interface).map(if_addrs::Interface::ip).collect();
    if here.is_empty() {
        let names: std::collections::BTreeSet<_> = all.iter().map(|one| one.name.as_str()).collect();
        let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
        return Err(system(format!("expected an interface with an address, found {}", names.join(", "))));
    }
    Ok(here)
}

/// The interfaces of this host with their addresses; none if the system does not say.
pub fn interfaces() -> Vec<(String, IpAddr)> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    all.into_iter().map(|one| (one.name.clone(), one.ip())).collect()
}

/// An address of this host that other hosts may reach: the first that is not for this machine alone, if there is one.
pub(crate) fn reachable() -> IpAddr {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let usable = all.iter().filter(|one| !one.is_loopback() && !one.is_link_local()).map(if_addrs::Interface::ip);
    // Version 4 first: it needs no scope and no brackets.
    usable.min_by_key(IpAddr::is_ipv6).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

fn listed(addresses: &[IpAddr]) -> String {
    let all: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unreadable = || Error::InvalidText {
            what: "address".into(),
            text: super::env::shortened(text),
            expected:
                "host:port or interface:host:port with a port from 1, such as 10.0.0.1:29500 or eth0:10.0.0.1:29500"
                    .into(),
        };
        let (rest, port) = text.rsplit_once(':').ok_or_else(unreadable)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(unreadable)?;
        let (interface, host) = match rest.strip_suffix(']') {
            // Brackets hold an IPv6 address, and nothing else does.
            Some(open) => {
                let (front, host) = open.split_once('[').ok_or_else(unreadable)?;
                host.parse::<Ipv6Addr>().map_err(|_| unreadable())?;
                let interface = (!front.is_empty()).then(|| front.strip_suffix(':').unwrap_or_default());
                (interface, host)
            }
            None => match rest.split_once(':') {
                Some((interface, host)) => (Some(interface), host),
                None => (None, rest),
            },
        };
        let plain = |name: &str| {
            let fits = (1..=NAME_BYTES).contains(&name.len());
            fits && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._@".contains(c))
        };
        let is_host = plain(host) || rest.ends_with(']');
        if !is_host || !interface.is_none_or(plain) {
            return Err(unreadable());
        }
        Ok(Self { interface: interface.map(str::to_owned), host: host.to_owned(), port })
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(interface) = &self.interface {
            write!(f, "{interface}:")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_and_trios_are_read_and_written() {
        for text in ["10.0.0.1:29500", "node-1.example:1", "[::1]:29500", "eth0:10.0.0.1:29500", "eth0:[fe80::1]:29500"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("eth0:10.0.0.1:1".parse::<Address>().unwrap().interface.as_deref(), Some("eth0"));
        assert_eq!(Address::new("[::1]", 5).to_string(), "[::1]:5");
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            ":",
            "host",
            "host:",
            "host:x",
            "host:65536",
            "host:0",
            ":1",
            "::1:5",
            "a:b:c:1",
            "[::1:5",
            "x[::1]:5",
            "[a]:5",
            "ho st:5",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn who_names_this_machine_alone_is_reached_from_this_machine_alone() {
        for host in ["localhost", "127.0.0.1"] {
            let listener = Address::new(host, 0).listen(Duration::ZERO, Duration::ZERO, true).unwrap();
            assert!(listener.local_addr().unwrap().ip().is_loopback(), "{host}");
        }
    }

    #[test]
    fn a_name_that_means_loopback_here_means_something_else_on_other_hosts() {
        let name = Address::new("node-a", 5);
        let (here, there) = ([SocketAddr::from(([127, 0, 1, 1], 5))], [SocketAddr::from(([10, 0, 0, 1], 5))]);
        assert_eq!(name.own(&here, true), Ok(Some(Ipv4Addr::UNSPECIFIED.into())));
        let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 5));
        assert_eq!(name.own(&[six], true), Ok(Some(Ipv6Addr::UNSPECIFIED.into())));
        assert_eq!(name.own(&[here[0], there[0]], true), Ok(None));
        assert_eq!(name.own(&here, false), Ok(None));
        assert_eq!(name.own(&there, true), Ok(None));
        for host in ["localhost", "127.0.1.1"] {
            assert_eq!(Address::new(host, 5).own(&here, true), Ok(None), "{host}");
        }
    }

    #[test]
    fn a_port_in_use_and_a_foreign_address_are_named() {
        let at_once = Duration::ZERO;
        let taken = Address::new("127.0.0.1", 0).listen(at_once, at_once, false).unwrap().local_addr().unwrap();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let busy = Address::new("127.0.0.1", held.local_addr().unwrap().port());
        let error = busy.listen(at_once, at_once, false).unwrap_err().to_string();
        assert!(error.contains("another process already listens there"), "{error}");
        assert_ne!(taken.port(), 0);
        // An address for documentation, which no host has.
        let error = Address::new("192.0.2.1", 0).listen(at_once, at_once, false).unwrap_err().to_string();
        assert!(error.contains("it has 127.0.0.1"), "{error}");
        let error =
            "nosuch0:127.0.0.1:1".parse::<Address>().unwrap().listen(at_once, at_once, false).unwrap_err().to_string();
        assert!(error.contains("found `"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
            }
        }
    }
}
