//! Network interfaces of this host, and which of their addresses other hosts are told.

use std::net::IpAddr;

use if_addrs::Interface;

use super::address::loopback_ip;
use super::error::{Error, shortened};
use super::variable::variable;

/// Variables with the names of the interfaces to use, of which the first one that is set counts.
const NAMES: [&str; 2] = ["MSCCLPP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"];

/// Variables with the IP version to use.
const FAMILY: [&str; 2] = ["MSCCLPP_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY"];

/// Returns the interfaces of this host with their addresses; none if the system does not list them.
pub fn interfaces() -> Vec<(String, IpAddr)> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    all.into_iter().map(|one| (one.name.clone(), one.ip())).collect()
}

/// Returns an address of this host that other hosts may reach: of the interfaces and the IP version that the environment names, or that
/// of an interface that is neither loopback nor link-local, if there is one.
///
/// # Errors
/// [`Error::InvalidVariable`] if a variable is not understood, or no interface is as they say.
pub(crate) fn reachable() -> Result<IpAddr, Error> {
    let choice = Choice::read(&variable)?;
    choice.address(&if_addrs::get_if_addrs().unwrap_or_default())
}

/// What the environment states of interfaces.
#[derive(Default)]
struct Choice {
    names: Option<Names>,
    /// Whether IP version 6 is to be used, and the variable that says so.
    is_v6: Option<(bool, Variable)>,
}

/// A variable's name and value.
type Variable = (&'static str, String);

/// A list of names: `eth,ib` is of their beginnings, `=eth0` of whole names, and `^docker` and `^=docker0` exclude what they name.
struct Names {
    variable: Variable,
    are_excluded: bool,
    are_whole: bool,
    list: Vec<String>,
}

impl Choice {
    fn read(lookup: &impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let first = |names: [&'static str; 2]| -> Option<Variable> {
            let set = |name| Some((name, lookup(name).filter(|text| !text.is_empty())?));
            names.into_iter().find_map(set)
        };
        let is_v6 = match first(FAMILY) {
            None => None,
            Some(variable) => match variable.1.as_str() {
                "AF_INET" => Some((false, variable)),
                "AF_INET6" => Some((true, variable)),
                _ => return Err(invalid(variable, "AF_INET or AF_INET6".into())),
            },
        };
        Ok(Self { names: first(NAMES).map(Names::new), is_v6 })
    }

    /// Returns the address to use. Interfaces without a link keep their addresses, and the bridge of Docker has one that every host with
    /// Docker has: they are used only where there is no other. Those of InfiniBand come first.
    fn address(self, all: &[Interface]) -> Result<IpAddr, Error> {
        let order = |one: &Interface| {
            let is_local = one.is_loopback() || one.is_link_local();
            // A link-local address of version 6 means nothing without its interface.
            let is_usable = !is_local || self.names.is_some() && (one.ip().is_ipv4() || one.is_loopback());
            let is_version = self.is_v6.as_ref().is_none_or(|(is_v6, _)| one.ip().is_ipv6() == *is_v6);
            let named = self.names.as_ref().map_or(Some(0), |names| names.position(&one.name));
            let usual = (is_local, one.name.starts_with("docker"), !one.is_oper_up(), !one.name.starts_with("ib"));
            // IPv4 first: it needs no scope and no brackets.
            named.filter(|_| is_usable && is_version).map(|named| (named, usual, one.ip().is_ipv6()))
        };
        let usable = all.iter().filter_map(|one| Some((order(one)?, one.ip())));
        if let Some((_, address)) = usable.min_by_key(|(order, _)| *order) {
            return Ok(address);
        }
        let found: Vec<_> = all.iter().map(|one| format!("{} with {}", one.name, one.ip())).collect();
        let expected = |of: &str| format!("{of} of this host: {}", found.join(", "));
        match (self.names, self.is_v6) {
            (Some(names), _) => Err(invalid(names.variable, expected("names of interfaces"))),
            (None, Some((is_v6, variable))) if loopback_ip().is_ipv6() != is_v6 => {
                Err(invalid(variable, expected("the version of an address")))
            }
            _ => Ok(loopback_ip()),
        }
    }
}

impl Names {
    fn new(variable: Variable) -> Self {
        let text = variable.1.as_str();
        let (are_excluded, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (are_whole, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        let list = text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        Self { variable, are_excluded, are_whole, list }
    }

    /// Returns the position of what names an interface in the list, if the interface can be used.
    fn position(&self, interface: &str) -> Option<usize> {
        let names =
            |name: &String| if self.are_whole { interface == name } else { interface.starts_with(name.as_str()) };
        match self.list.iter().position(names) {
            Some(_) if self.are_excluded => None,
            None if self.are_excluded => Some(0),
            position => position,
        }
    }
}

fn invalid((variable, value): Variable, expected: String) -> Error {
    Error::InvalidVariable { variable: variable.into(), value: shortened(&value), expected }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use if_addrs::{IfAddr, IfOperStatus, Ifv4Addr, Ifv6Addr};

    use super::*;

    fn interface(name: &str, address: &str, is_up: bool) -> Interface {
        let (index, oper_status) = (None, if is_up { IfOperStatus::Up } else { IfOperStatus::Down });
        let addr = match address.parse().expect("an address") {
            IpAddr::V4(ip) => {
                IfAddr::V4(Ifv4Addr { ip, netmask: Ipv4Addr::UNSPECIFIED, prefixlen: 16, broadcast: None })
            }
            IpAddr::V6(ip) => {
                IfAddr::V6(Ifv6Addr { ip, netmask: Ipv6Addr::UNSPECIFIED, prefixlen: 64, broadcast: None })
            }
        };
        Interface { name: name.into(), addr, index, oper_status, is_p2p: false }
    }

    fn host() -> Vec<Interface> {
        vec![
            interface("lo", "127.0.0.1", true),
            interface("eth1", "169.254.0.1", true),
            interface("docker0", "172.17.0.1", true),
            interface("eth0", "10.0.0.1", false),
            interface("eth1", "fd00::2", true),
            interface("eth1", "10.1.0.2", true),
            interface("eth10", "10.2.0.2", true),
            interface("ib0", "10.3.0.2", true),
        ]
    }

    /// Returns the address of an environment, or the error.
    fn chosen(variables: &[(&str, &str)], host: &[Interface]) -> Result<String, String> {
        let lookup =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let address = Choice::read(&lookup).and_then(|choice| choice.address(host));
        address.map(|address| address.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn interfaces_with_a_link_to_other_hosts_are_used_first() {
        let mut all = host();
        // The next one, if the first one is not there.
        for expected in ["10.3.0.2", "10.1.0.2", "10.2.0.2", "fd00::2", "10.0.0.1", "172.17.0.1"] {
            assert_eq!(chosen(&[], &all), Ok(expected.to_owned()));
            all.retain(|one| one.ip().to_string() != expected);
        }
        assert_eq!(chosen(&[], &all), Ok(loopback_ip().to_string()));
    }

    #[test]
    fn environment_selects_interfaces_and_version() {
        let [names, family] = ["MSCCLPP_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY"];
        for (text, expected) in [
            ("eth", "10.1.0.2"),
            ("eth10,eth1", "10.2.0.2"),
            ("=eth1", "10.1.0.2"),
            ("=eth10", "10.2.0.2"),
            ("^ib", "10.1.0.2"),
            ("^ib,eth,lo", "172.17.0.1"),
            ("^=eth1,ib0,lo", "10.2.0.2"),
            ("lo", "127.0.0.1"),
            ("docker", "172.17.0.1"),
            ("", "10.3.0.2"),
        ] {
            assert_eq!(chosen(&[(names, text)], &host()), Ok(expected.to_owned()), "{text}");
        }
        assert_eq!(chosen(&[(family, "AF_INET6")], &host()), Ok("fd00::2".to_owned()));
        assert_eq!(chosen(&[(names, "eth"), (family, "AF_INET6")], &host()), Ok("fd00::2".to_owned()));
        // That of this project precedes.
        assert_eq!(chosen(&[("NCCL_SOCKET_IFNAME", "lo"), (names, "ib")], &host()), Ok("10.3.0.2".to_owned()));
        assert_eq!(chosen(&[("NCCL_SOCKET_IFNAME", "lo")], &host()), Ok("127.0.0.1".to_owned()));
        let missing = chosen(&[(names, "=eth")], &host()).expect_err("no such interface");
        assert!(missing.contains("MSCCLPP_SOCKET_IFNAME") && missing.contains("eth0 with 10.0.0.1"), "{missing}");
        let unknown = chosen(&[(family, "AF_UNIX")], &host()).expect_err("no such version");
        assert!(unknown.contains("AF_INET or AF_INET6"), "{unknown}");
    }
}
