//! Checks the network for ranks on several hosts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use mscclpp_bootstrap::interfaces;

use super::finding::{Finding, State};

/// How long a connection on this host may take.
const CONNECT_TIME: Duration = Duration::from_secs(1);

pub(super) fn findings() -> Vec<Finding> {
    vec![loopback(), reachable(interfaces())]
}

/// Checks whether ranks on this host can connect at all.
fn loopback() -> Finding {
    const NAME: &str = "loopback";
    let both = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].map(|ip| SocketAddr::from((ip, 0)));
    // A socket can listen also where the interface is down, and no other one can connect.
    let connect = |to: SocketAddr| -> io::Result<IpAddr> {
        let listener = TcpListener::bind(to)?;
        TcpStream::connect_timeout(&listener.local_addr()?, CONNECT_TIME)?;
        Ok(to.ip())
    };
    match connect(both[0]).or_else(|first| connect(both[1]).map_err(|_| first)) {
        Ok(here) => Finding::good(NAME, format!("sockets can connect on {here}")),
        Err(error) => {
            let help = "bring the loopback interface up: `ip link set lo up`";
            Finding::bad(NAME, State::Missing, format!("127.0.0.1, ::1: {error}"), help)
        }
    }
}

/// Checks the addresses at which ranks of other hosts can reach this one.
fn reachable(interfaces: Vec<(String, IpAddr)>) -> Finding {
    const NAME: &str = "interfaces";
    let outward: Vec<_> = interfaces
        .iter()
        .filter(|(_, address)| !address.is_loopback())
        .map(|(name, address)| format!("{name} {address}"))
        .collect();
    if outward.is_empty() {
        let help = "ranks on this host can connect to each other; ranks on other hosts need a network";
        return Finding::bad(NAME, State::Absent, "only loopback", help);
    }
    Finding::good(NAME, outward.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_alone_is_insufficient() {
        let lo = ("lo".to_owned(), IpAddr::from([127, 0, 0, 1]));
        let eth = ("eth0".to_owned(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!(reachable(vec![lo.clone()]).state, State::Absent);
        assert_eq!(reachable(vec![lo, eth]).found, "eth0 10.0.0.1");
    }
}
