//! Lower bounds of the time of a collective, each with a certificate.
//!
//! Bytes that start inside of a set of elements and are needed outside of it must leave over its links: that is a bound for every set, whatever
//! the algorithm. For all-gather and reduce-scatter the set with the largest quotient is found by one maximum flow per kind of
//! rank, inside of a descent on the quotient, which ends after a few rounds and is exact.
//!
//! In an all-reduce the whole sum must enter and leave every set of elements with some but not all ranks. Where switches do not add, more is known:
//! of k classes of ranks each element is sent by classes at least 2(k−1) times, so the links out of all classes carry
//! 2(k−1) messages. In other collectives single ranks send each element k−1 times. What all messages pass on the way, such as memory of
//! the host, limits them, too. Classes are single ranks, or what slower links connect; where the switches of nodes add, whole nodes.

mod graph;
mod latency;

use mscclpp_plan::collective::CollectiveKind;
use thiserror::Error;

use self::graph::{Cut, Graph};
use self::latency::latency;
use crate::machine::{BYTES_PER_US, Machine};
use crate::topology::Topology;

/// Why a collective has no bound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BoundError {
    /// A collective whose data depends on the program.
    #[error(
        "no bound is known for `{0}`; expected allreduce, allgather, reducescatter, alltoall, broadcast, reduce or sendrecv"
    )]
    Collective(&'static str),
    /// A machine with one rank, on which no data moves.
    #[error("machine `{0}` has one rank, on which no data moves; use a machine with two ranks or more")]
    OneRank(String),
    /// More ranks than the machine has, or fewer than two.
    #[error("expected 2 to {limit} ranks on machine `{machine}`, found {found}")]
    Ranks {
        /// The machine.
        machine: String,
        /// Its ranks.
        limit: u32,
        /// The number of ranks.
        found: u32,
    },
    /// A root that is none of the ranks.
    #[error("expected a root below {ranks}, the number of ranks, found {found}; use one of the ranks")]
    Root {
        /// The number of ranks.
        ranks: u32,
        /// The root.
        found: u32,
    },
    /// Ranks with too many different links, for which bounds take too long.
    #[error(
        "expected ranks with links of at most {limit} kinds on machine `{machine}`, found {found}; use `gpu` or ranges such as `gpu0-3` in its links"
    )]
    Kinds {
        /// The machine.
        machine: String,
        /// The maximum number of kinds.
        limit: usize,
        /// The number of kinds.
        found: usize,
    },
    /// Ranks that no links connect.
    #[error(
        "the links of machine `{0}` do not connect all ranks, or connect them in one direction only; add links, or use fewer ranks"
    )]
    Disconnected(String),
}

/// In which direction data must pass the links of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From inside of the set.
    Leave,
    /// From outside of the set.
    Enter,
}

/// What proves a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The elements of a set, or the classes of ranks.
    pub sets: Vec<Vec<String>>,
    /// Whether data must leave the set or enter it; data that must leave one class enters another one.
    pub direction: Direction,
    /// Bandwidth of the links that leave or enter the set or the classes, in 10⁹ bytes per second; of classes, that of links which all
    /// paths between them pass, if that is less.
    pub gb_per_s: f64,
    /// Messages of the collective's size that these links carry at least.
    pub messages: f64,
}

/// A lower bound of the time of a collective.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The bound, in microseconds: the larger of the two below.
    pub time_us: f64,
    /// What the links require.
    pub throughput_us: f64,
    /// What latency requires.
    pub latency_us: f64,
    /// Bytes of the message over `throughput_us`, in 10⁹ bytes per second; infinite on one device.
    pub algbw_gb_per_s: f64,
    /// What proves `throughput_us`.
    pub certificate: Option<Certificate>,
    /// The bound of algorithms that do not add or multicast in switches, where the machine could.
    pub without_multicast_us: Option<f64>,
    /// The bound of an all-reduce by loads that switches of nodes reduce, which load the rank's own part, too.
    pub load_reduce_us: Option<f64>,
}

/// Maximum number of kinds of ranks.
const MAX_KINDS: usize = 256;

/// Returns a time that no algorithm for a collective is below, for messages of the given number of bytes: the larger of a
/// rank's input and output. The root of a broadcast or a reduce is rank 0; [`lower_bound_of_root`] has others.
///
/// # Cost
/// A few maximum flows per kind of rank: ranks that are ends of the same links of a node, in equal nodes, are of one kind.
///
/// # Errors
/// [`BoundError`].
pub fn lower_bound(kind: CollectiveKind, machine: &Machine, ranks: u32, bytes: u64) -> Result<Bound, BoundError> {
    lower_bound_of_root(kind, 0, machine, ranks, bytes)
}

/// Returns [`lower_bound`] for a root of a broadcast or a reduce; other collectives have none, so their bound is the same for each.
///
/// # Errors
/// [`BoundError`].
pub fn lower_bound_of_root(
    kind: CollectiveKind,
    root: u32,
    machine: &Machine,
    ranks: u32,
    bytes: u64,
) -> Result<Bound, BoundError> {
    if machine.ranks < 2 {
        return Err(BoundError::OneRank(machine.name.clone()));
    }
    if !(2..=machine.ranks).contains(&ranks) {
        return Err(BoundError::Ranks { machine: machine.name.clone(), limit: machine.ranks, found: ranks });
    }
    if root >= ranks {
        return Err(BoundError::Root { ranks, found: root });
    }
    if matches!(kind, CollectiveKind::Custom { .. } | CollectiveKind::Test { .. }) {
        return Err(BoundError::Collective(kind.name()));
    }
    let latency_us = latency(kind, machine, ranks);
    let of_latency = Bound {
        time_us: latency_us,
        throughput_us: 0.0,
        latency_us,
        algbw_gb_per_s: f64::INFINITY,
        certificate: None,
        without_multicast_us: None,
        load_reduce_us: None,
    };
    if machine.one_device {
        return Ok(of_latency);
    }
    let topology = Topology::of(machine, ranks);
    let root = if matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce) { root as usize } else { 0 };
    let graph = Graph::of(&topology);
    let reversed = graph.reversed();
    let is_connected = match kind {
        CollectiveKind::Broadcast => graph.reaches_all(root),
        CollectiveKind::Reduce => reversed.reaches_all(root),
        _ => graph.reaches_all(0) && reversed.reaches_all(0),
    };
    let disconnected = || BoundError::Disconnected(machine.name.clone());
    if !is_connected {
        return Err(disconnected());
    }
    let kinds = graph.representatives(Some(root)).len();
    if kinds > MAX_KINDS {
        return Err(BoundError::Kinds { machine: machine.name.clone(), limit: MAX_KINDS, found: kinds });
    }
    let n = f64::from(ranks);
    let mut without_multicast = None;
    let found = match kind {
        CollectiveKind::AllGather => Some(graph.gather()),
        CollectiveKind::ReduceScatter => Some(reversed.gather()),
        CollectiveKind::AllReduce => {
            let cut = graph.cut(None);
            let with = |classes| cut.clone().into_iter().chain(classes).reduce(Cut::tighter);
            if machine.multicast {
                without_multicast = with(graph.classes(false));
            }
            with(graph.classes(machine.multicast))
        }
        CollectiveKind::Broadcast => graph.cut(Some(root)),
        CollectiveKind::Reduce => reversed.cut(Some(root)),
        CollectiveKind::AllToAll | CollectiveKind::AllToAllV => graph.best_set(|inside| inside * (n - inside) / n),
        _ => graph.best_set(|_| 1.0),
    };
    let found = match kind {
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll
        | CollectiveKind::Broadcast
        | CollectiveKind::Reduce
            if !machine.multicast =>
        {
            found.map(|cut| cut.tighter(graph.copies()))
        }
        _ => found,
    };
    let certificate = match kind {
        CollectiveKind::ReduceScatter | CollectiveKind::Reduce => found.map(|cut| reversed.certificate(&cut)),
        _ => found.map(|cut| graph.certificate(&cut)),
    };
    let certificate = certificate.ok_or_else(disconnected)?;
    let us = |quotient: f64| quotient * bytes as f64 / BYTES_PER_US;
    let throughput_us = us(certificate.quotient());
    let has_loads = kind == CollectiveKind::AllReduce && machine.multicast;
    let load_reduce = has_loads.then(|| graph.to_switches()).flatten();
    let at_least = |us: f64| us.max(latency_us);
    Ok(Bound {
        time_us: at_least(throughput_us),
        throughput_us,
        algbw_gb_per_s: 1.0 / certificate.quotient(),
        without_multicast_us: without_multicast.map(|cut| at_least(us(cut.quotient()))),
        load_reduce_us: load_reduce
            .map(|(gb_per_s, of_node)| at_least(us((1.0 + 1.0 / of_node) / gb_per_s)).max(throughput_us)),
        certificate: Some(certificate),
        ..of_latency
    })
}

impl Certificate {
    /// Returns messages per bandwidth.
    fn quotient(&self) -> f64 {
        self.messages / self.gb_per_s
    }
}

#[cfg(test)]
mod tests;
