//! Identity of a rank: what other ranks need to name it, and to determine whether they can share memory with it.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::variable::variable;

/// Maximum length of a host's name, in bytes.
const NAME_BYTES: usize = 255;

/// Identity of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankInfo {
    /// Its rank in the whole job.
    pub rank: u32,
    /// Its process id.
    pub pid: u32,
    /// Its host's name, for display.
    pub hostname: String,
    /// Identifies the host: equal on ranks that can share memory.
    pub host: String,
    /// Address at which the rank accepts direct connections; `None` within one process. The IP address is unspecified
    /// where a rank describes itself and listens on all its host's interfaces.
    pub address: Option<SocketAddr>,
}

impl RankInfo {
    /// Returns the identity of this process as `rank`.
    pub(crate) fn this(rank: u32, address: Option<SocketAddr>) -> Self {
        Self { rank, pid: std::process::id(), hostname: hostname(), host: host_identity(), address }
    }

    /// Returns an identity without process and host.
    pub fn unnamed(rank: u32) -> Self {
        Self { rank, pid: 0, hostname: String::new(), host: String::new(), address: None }
    }

    /// Returns this identity as seen by a rank that reaches rank 0 at `root`: a rank that listens on all interfaces is
    /// on rank 0's host.
    pub(crate) fn with_root_ip(mut self, root: IpAddr) -> Self {
        if let Some(address) = self.address.as_mut().filter(|at| at.ip().is_unspecified()) {
            address.set_ip(root);
        }
        self
    }

    /// Returns this identity, whose address is in the zone of another one of the same network.
    pub(crate) fn in_zone_of(mut self, other: SocketAddr) -> Self {
        self.address = self.address.map(|address| in_zone_of(address, other));
        self
    }

    /// Returns process and host, without the rank: `pid 4711 on node-a`.
    pub(crate) fn place(&self) -> String {
        format!("pid {} on {}", self.pid, self.hostname)
    }

    /// Returns whether the lengths of the received fields are within their limits.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.hostname.len() <= NAME_BYTES && self.host.len() <= 4 * NAME_BYTES
    }
}

impl Display for RankInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.pid {
            0 => write!(f, "rank {}", self.rank),
            _ => write!(f, "rank {} ({})", self.rank, self.place()),
        }
    }
}

/// Returns an address in the zone of another one, through which this host has reached it or learned of it: link-local addresses that other
/// hosts send have no zone here.
pub(crate) fn in_zone_of(address: SocketAddr, other: SocketAddr) -> SocketAddr {
    match (address, other) {
        (SocketAddr::V6(mut own), SocketAddr::V6(other)) if own.ip().is_unicast_link_local() => {
            own.set_scope_id(other.scope_id());
            own.into()
        }
        _ => address,
    }
}

fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    truncate(name, NAME_BYTES)
}

/// Returns a text that is equal exactly where two processes can map each other's memory: same boot of the same kernel,
/// and the same mounts, shared-memory objects and abstract sockets.
///
/// `MSCCLPP_HOST_ID` (`MSCCLPP_HOSTID` is the name in MSCCL++) is prepended, to divide the ranks of one machine on purpose.
fn host_identity() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| hostname());
    let mut identity = ["MSCCLPP_HOST_ID", "MSCCLPP_HOSTID"]
        .into_iter()
        .find_map(variable)
        .map(|id| format!("{} ", truncate(id, NAME_BYTES)))
        .unwrap_or_default();
    identity.push_str(boot.trim());
    for namespace in ["ipc", "mnt", "net"] {
        // The link's text is `ipc:[4026531839]`. Without the link, namespaces do not exist and cannot differ.
        if let Ok(link) = fs::read_link(format!("/proc/self/ns/{namespace}")) {
            identity.push(' ');
            identity.push_str(&link.to_string_lossy());
        }
    }
    identity
}

fn truncate(mut text: String, bytes: usize) -> String {
    while text.len() > bytes {
        text.pop();
    }
    text
}

/// Returns the node of each rank. Nodes are numbered in the order of their first rank.
pub(crate) fn nodes(members: &[RankInfo]) -> Vec<u32> {
    let mut hosts: Vec<&str> = Vec::new();
    members
        .iter()
        .map(|member| {
            let found = hosts.iter().position(|host| *host == member.host);
            found.unwrap_or_else(|| {
                hosts.push(&member.host);
                hosts.len() - 1
            }) as u32
        })
        .collect()
}

/// Returns the number of ranks per node, if all nodes have equally many ranks and the ranks of each node are
/// consecutive; otherwise 1.
pub fn ranks_per_node(nodes: &[u32]) -> u32 {
    let first = nodes.iter().take_while(|node| **node == 0).count().max(1);
    let regular = nodes.len().is_multiple_of(first)
        && nodes.iter().enumerate().all(|(rank, node)| *node as usize == rank / first);
    if regular { first as u32 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_first_rank() {
        let on = |host: &str| RankInfo { host: host.into(), ..RankInfo::this(0, None) };
        assert_eq!(nodes(&[on("b"), on("a"), on("b")]), [0, 1, 0]);
    }

    #[test]
    fn who_listens_everywhere_is_where_rank_0_is() {
        let at =
            |at: &str| RankInfo::this(1, Some(at.parse().unwrap())).with_root_ip([10, 0, 0, 1].into()).address.unwrap();
        assert_eq!(at("0.0.0.0:7"), "10.0.0.1:7".parse().unwrap());
        assert_eq!(at("[::]:7"), "10.0.0.1:7".parse().unwrap());
        assert_eq!(at("10.0.0.2:7"), "10.0.0.2:7".parse().unwrap());
    }

    #[test]
    fn irregular_placement_has_one_rank_per_node() {
        assert_eq!(ranks_per_node(&[0, 0, 1, 1]), 2);
        assert_eq!(ranks_per_node(&[0, 0, 0]), 3);
        assert_eq!(ranks_per_node(&[0, 1, 0, 1]), 1);
        assert_eq!(ranks_per_node(&[0, 0, 1]), 1);
        assert_eq!(ranks_per_node(&[0, 1, 2]), 1);
    }

    #[test]
    fn host_identity_of_this_process_is_stable() {
        assert_eq!(RankInfo::this(0, None).host, RankInfo::this(1, None).host);
        assert!(RankInfo::this(0, None).is_within_limits());
    }
}
