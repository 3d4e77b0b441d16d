//! Address at which rank 0 listens.

use std::fmt::{self, Display, Formatter};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixDatagram;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use if_addrs::Interface;
use rustix::net::netdevice::name_to_index;

use super::acceptor::extend_backlog;
use super::error::{Error, shortened};
use crate::descriptors;
use crate::timeout::ActiveTimeout;

/// Maximum time to resolve a host name: clusters register names and start processes at the same time.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before a host name is resolved again.
const RESOLVE_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum length of a host's or an interface's name, in bytes.
const NAME_BYTES: usize = 255;

/// Address at which rank 0 listens: `host:port`, or `interface:host:port`.
///
/// The host is a name, an IPv4 address, or an IPv6 address in brackets. With an interface, rank 0 listens on that
/// interface only, and the other ranks accept connections on it. A link-local address of IPv6 has a zone, the name or number of the
/// interface on each host: `[fe80::1%eth0]:29500`.
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
    /// Creates an address from a host and a port.
    pub fn new(host: &str, port: u16) -> Self {
        Self { interface: None, host: host.trim_matches(['[', ']']).to_owned(), port }
    }

    /// Returns the name or address of rank 0's host; an IPv6 address has no brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Resolves the host's name to its addresses.
    ///
    /// # Errors
    /// [`Error::System`] if it has none.
    pub(crate) fn resolve(&self, time: Duration) -> Result<Vec<SocketAddr>, Error> {
        if let Some(address) = self.link_local()? {
            return Ok(vec![address]);
        }
        let mut timeout = ActiveTimeout::new(time.min(RESOLVE_TIMEOUT));
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
            timeout.allow_gap(RESOLVE_RETRY_DELAY);
            thread::sleep(RESOLVE_RETRY_DELAY);
        }
    }

    /// Returns the address if it is a link-local one of IPv6, which means nothing without the interface.
    ///
    /// # Errors
    /// [`Error::System`] if there is no such interface, or none is named.
    fn link_local(&self) -> Result<Option<SocketAddr>, Error> {
        let (ip, zone) = split_zone(&self.host);
        let Some(ip) = ip.parse::<Ipv6Addr>().ok().filter(Ipv6Addr::is_unicast_link_local) else { return Ok(None) };
        let Some(zone) = zone.or(self.interface.as_deref()) else {
            let (what, port) = (format!("cannot use the link-local address `{ip}`"), self.port);
            let reason = format!("expected an interface of this host with it, as in `[{ip}%eth0]:{port}`");
            return Err(Error::System { what, reason });
        };
        let scope = match zone.parse() {
            Ok(number) => number,
            Err(_) => number_of(zone)?,
        };
        Ok(Some(SocketAddrV6::new(ip, self.port, 0, scope).into()))
    }

    fn is_link_local(&self) -> bool {
        split_zone(&self.host).0.parse().is_ok_and(|ip: Ipv6Addr| ip.is_unicast_link_local())
    }

    /// Returns whether other hosts may resolve the host's name to another address than this host does. A machine often
    /// resolves its own name to a loopback address, which on other machines means those machines themselves. This does
    /// not apply to addresses and to `localhost`.
    fn is_name(&self) -> bool {
        self.interface.is_none() && split_zone(&self.host).0.parse::<IpAddr>().is_err() && self.host != "localhost"
    }

    /// Listens at this address, as rank 0. In a job of several hosts, loopback addresses of the host's name are
    /// ignored; if it has no others, rank 0 listens on all interfaces.
    ///
    /// `port_timeout`: how long to wait for the port to become free.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), [`Error::Bind`].
    pub(crate) fn listen(
        &self,
        resolve_timeout: Duration,
        port_timeout: Duration,
        several_hosts: bool,
    ) -> Result<TcpListener, Error> {
        descriptors::open_standard();
        let mut addresses = self.resolve(resolve_timeout)?;
        let unspecified_ip = unspecified_ip(&addresses);
        // A link-local address has the interface in itself.
        if let Some(interface) = self.interface.as_ref().filter(|_| !self.is_link_local()) {
            let here = addresses_of(interface)?;
            addresses.retain(|address| here.contains(&address.ip()));
            if addresses.is_empty() {
                let reason =
                    format!("interface `{interface}` does not have that address; it has {}", format_list(&here));
                return Err(Error::Bind { address: self.to_string(), reason });
            }
        }
        if several_hosts && self.is_name() {
            addresses.retain(|address| !address.ip().is_loopback());
            if addresses.is_empty() {
                addresses = vec![SocketAddr::from((unspecified_ip, self.port))];
            }
        }
        let mut timeout = ActiveTimeout::new(port_timeout);
        loop {
            match TcpListener::bind(&addresses[..]) {
                Ok(listener) => {
                    // Ranks may connect before rank 0 accepts; without it a large job only starts later.
                    let _ = extend_backlog(&listener);
                    return Ok(listener);
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse && !timeout.is_expired() => {
                    thread::sleep(timeout.max_sleep().min(Duration::from_millis(20)));
                }
                Err(error) => {
                    let bind = || Error::Bind { address: self.to_string(), reason: bind_error_reason(&error) };
                    return Err(Error::of_system_or(format!("rank 0 cannot listen on {self}"), &error, bind));
                }
            }
        }
    }

    /// Returns the address at which a rank listens that reaches rank 0 at one of `addresses`: that of the given
    /// interface, if there is one; all interfaces, if the host's name has only loopback addresses here, as on rank 0's
    /// host. `None` means the local address of the rank's connection to rank 0.
    ///
    /// # Errors
    /// [`Error::System`] if there is no such interface.
    pub(crate) fn listen_ip(&self, addresses: &[SocketAddr], several_hosts: bool) -> Result<Option<IpAddr>, Error> {
        let Some(interface) = &self.interface else {
            let is_loopback = addresses.iter().all(|address| address.ip().is_loopback());
            return Ok((several_hosts && self.is_name() && is_loopback).then(|| unspecified_ip(addresses)));
        };
        if self.is_link_local() {
            // The connection to rank 0 is on the interface.
            return Ok(None);
        }
        let here = addresses_of(interface)?;
        // An address of the same IP version as rank 0's, if the interface has one.
        let same_version = |address: &&IpAddr| {
            split_zone(&self.host).0.parse().is_ok_and(|root: IpAddr| root.is_ipv4() == address.is_ipv4())
        };
        Ok(here.iter().find(same_version).or(here.first()).copied())
    }
}

/// Returns the unspecified address for callers that connect to `addresses`: the one of version 6 accepts both versions,
/// but not every system supports it.
fn unspecified_ip(addresses: &[SocketAddr]) -> IpAddr {
    let is_v6 = !addresses.is_empty() && addresses.iter().all(SocketAddr::is_ipv6);
    if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Returns the reason of a failed `bind`, with details for common errors.
fn bind_error_reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => "another process already listens there: another job, or another rank 0".into(),
        ErrorKind::AddrNotAvailable => {
            let all = if_addrs::get_if_addrs().unwrap_or_default();
            let all: Vec<_> = all.iter().map(Interface::ip).collect();
            format!("this host does not have that address; it has {}", format_list(&all))
        }
        _ => error.to_string(),
    }
}

/// Divides the text of an IPv6 address into the address and its zone.
pub(crate) fn split_zone(host: &str) -> (&str, Option<&str>) {
    host.split_once('%').map_or((host, None), |(ip, zone)| (ip, Some(zone)))
}

/// Returns whether a text is an IPv6 address, with a zone or without.
pub(crate) fn is_v6(host: &str) -> bool {
    let (ip, zone) = split_zone(host);
    ip.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(is_plain)
}

/// Returns whether a text may be the name of a host or an interface.
fn is_plain(name: &str) -> bool {
    let fits = (1..=NAME_BYTES).contains(&name.len());
    fits && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._@".contains(c))
}

/// Returns the number of an interface.
fn number_of(interface: &str) -> Result<u32, Error> {
    let number = UnixDatagram::unbound().and_then(|socket| Ok(name_to_index(socket, interface)?));
    number.map_err(|error| Error::of_system(format!("cannot use interface `{interface}`"), &error))
}

/// Returns the addresses of an interface, at least one.
fn addresses_of(interface: &str) -> Result<Vec<IpAddr>, Error> {
    let system = |reason: String| Error::System { what: format!("cannot use interface `{interface}`"), reason };
    let all = if_addrs::get_if_addrs().map_err(|error| system(error.to_string()))?;
    let here: Vec<_> = all.iter().filter(|one| one.name == interface).map(Interface::ip).collect();
    if here.is_empty() {
        let names: std::collections::BTreeSet<_> = all.iter().map(|one| one.name.as_str()).collect();
        let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
        return Err(system(format!("expected an interface with an address, found {}", names.join(", "))));
    }
    Ok(here)
}

/// Returns the loopback address of this machine: that of IPv4, if it has one.
pub(crate) fn loopback_ip() -> IpAddr {
    first_ip(&loopback())
}

/// Returns the first of some addresses at which a socket can listen; the first of all if there is none.
fn first_ip(addresses: &[SocketAddr]) -> IpAddr {
    let here = TcpListener::bind(addresses).and_then(|listener| listener.local_addr());
    here.map_or_else(|_| addresses.first().map_or(Ipv4Addr::LOCALHOST.into(), SocketAddr::ip), |here| here.ip())
}

/// Returns the loopback addresses of both IP versions with any port. A machine may have only one of them.
pub(crate) fn loopback() -> [SocketAddr; 2] {
    [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))]
}

fn format_list(addresses: &[IpAddr]) -> String {
    let all: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unreadable = || Error::InvalidText {
            what: "address".into(),
            text: shortened(text),
            expected:
                "host:port or interface:host:port with a port from 1, such as 10.0.0.1:29500 or eth0:10.0.0.1:29500"
                    .into(),
        };
        let (rest, port) = text.rsplit_once(':').ok_or_else(unreadable)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(unreadable)?;
        let (interface, host) = match rest.strip_suffix(']') {
            // Brackets enclose an IPv6 address, and nothing else does.
            Some(open) => {
                let (front, host) = open.split_once('[').ok_or_else(unreadable)?;
                if !is_v6(host) {
                    return Err(unreadable());
                }
                let interface = (!front.is_empty()).then(|| front.strip_suffix(':').unwrap_or_default());
                (interface, host)
            }
            None => match rest.split_once(':') {
                Some((interface, host)) => (Some(interface), host),
                None => (None, rest),
            },
        };
        let is_host = is_plain(host) || rest.ends_with(']');
        if !is_host || !interface.is_none_or(is_plain) {
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
    use crate::rank_info::in_zone_of;

    #[test]
    fn address_with_or_without_interface_round_trips() {
        for text in [
            "10.0.0.1:29500",
            "node-1.example:1",
            "[::1]:29500",
            "eth0:10.0.0.1:29500",
            "eth0:[fe80::1]:29500",
            "[fe80::1%eth0]:29500",
            "[fe80::1%2]:29500",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("eth0:10.0.0.1:1".parse::<Address>().unwrap().interface.as_deref(), Some("eth0"));
        assert_eq!(Address::new("[::1]", 5).to_string(), "[::1]:5");
    }

    #[test]
    fn invalid_address_is_rejected() {
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
            "[fe80::1%]:5",
            "[fe80::1%a b]:5",
            "fe80::1%eth0:5",
            "ho st:5",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn link_local_address_has_the_zone_of_its_interface() {
        let resolve = |text: &str| text.parse::<Address>().unwrap().resolve(Duration::ZERO);
        let scoped = |scope| vec![SocketAddrV6::new("fe80::1".parse().unwrap(), 5, 0, scope).into()];
        // The loopback interface is the first one.
        for (text, scope) in [("[fe80::1%lo]:5", 1), ("lo:[fe80::1]:5", 1), ("[fe80::1%7]:5", 7)] {
            assert_eq!(resolve(text), Ok(scoped(scope)), "{text}");
        }
        let error = resolve("[fe80::1]:5").unwrap_err().to_string();
        assert!(error.contains("as in `[fe80::1%eth0]:5`"), "{error}");
        let error = resolve("[fe80::1%nosuch0]:5").unwrap_err().to_string();
        assert!(error.starts_with("cannot use interface `nosuch0`: No such device"), "{error}");
        // Other hosts send addresses without a zone.
        let [own, global]: [SocketAddr; 2] = ["[fe80::2]:6", "[fd00::2]:6"].map(|text| text.parse().unwrap());
        assert_eq!(in_zone_of(own, scoped(3)[0]).to_string(), "[fe80::2%3]:6");
        assert_eq!(in_zone_of(global, scoped(3)[0]), global);
    }

    #[test]
    fn first_address_of_this_machine_is_used() {
        // Reserved for documentation, so that no machine has it.
        let missing = SocketAddr::from(([192, 0, 2, 1], 0));
        let [four, six] = loopback();
        assert_eq!(first_ip(&[missing, four]), four.ip());
        assert_eq!(first_ip(&[four, missing]), four.ip());
        assert_eq!(first_ip(&[missing]), missing.ip());
        if TcpListener::bind(six).is_ok() {
            assert_eq!(first_ip(&[missing, six, four]), six.ip());
        }
    }

    #[test]
    fn loopback_address_listens_on_loopback_only() {
        for host in ["localhost", "127.0.0.1"] {
            let listener = Address::new(host, 0).listen(Duration::ZERO, Duration::ZERO, true).unwrap();
            assert!(listener.local_addr().unwrap().ip().is_loopback(), "{host}");
        }
    }

    #[test]
    fn name_with_loopback_address_listens_on_all_interfaces() {
        let name = Address::new("node-a", 5);
        let (here, there) = ([SocketAddr::from(([127, 0, 1, 1], 5))], [SocketAddr::from(([10, 0, 0, 1], 5))]);
        assert_eq!(name.listen_ip(&here, true), Ok(Some(Ipv4Addr::UNSPECIFIED.into())));
        let is_v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 5));
        assert_eq!(name.listen_ip(&[is_v6], true), Ok(Some(Ipv6Addr::UNSPECIFIED.into())));
        assert_eq!(name.listen_ip(&[here[0], there[0]], true), Ok(None));
        assert_eq!(name.listen_ip(&here, false), Ok(None));
        assert_eq!(name.listen_ip(&there, true), Ok(None));
        for host in ["localhost", "127.0.1.1"] {
            assert_eq!(Address::new(host, 5).listen_ip(&here, true), Ok(None), "{host}");
        }
    }

    #[test]
    fn bind_to_used_port_or_foreign_address_is_explained() {
        let at_once = Duration::ZERO;
        let taken = Address::new("127.0.0.1", 0).listen(at_once, at_once, false).unwrap().local_addr().unwrap();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let busy = Address::new("127.0.0.1", held.local_addr().unwrap().port());
        let error = busy.listen(at_once, at_once, false).unwrap_err().to_string();
        assert!(error.contains("another process already listens there"), "{error}");
        assert_ne!(taken.port(), 0);
        // An address reserved for documentation, which no host has.
        let error = Address::new("192.0.2.1", 0).listen(at_once, at_once, false).unwrap_err().to_string();
        assert!(error.contains("it has 127.0.0.1"), "{error}");
        let error =
            "nosuch0:127.0.0.1:1".parse::<Address>().unwrap().listen(at_once, at_once, false).unwrap_err().to_string();
        assert!(error.contains("found `"), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected(text in ".{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
            }
        }
    }
}
