//! Lower bounds of the time of a collective, each with a certificate.
//!
//! Bytes that start inside of a set of elements and are needed outside of it must leave over its links: that is a bound for every set, whatever
//! the algorithm. For all-gather and reduce-scatter the set with the largest quotient is found by one maximum flow per rank
//! inside of a descent on the quotient, which ends after a few rounds and is exact.
//!
//! In an all-reduce the whole sum must enter and leave every set of elements with some but not all ranks. Where switches do not add, more is known:
//! of k classes of ranks each element is sent by classes at least 2(k−1) times, so the links out of all classes carry
//! 2(k−1) messages. Classes are single ranks, or what slower links connect.

use mscclpp_plan::collective::CollectiveKind;
use thiserror::Error;

use crate::flow::Network;
use crate::machine::Machine;
use crate::topology::Topology;

/// Why a collective has no bound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BoundError {
    /// A collective whose data depends on the program.
    #[error(
        "no bound is known for `{0}`; expected allreduce, allgather, reducescatter, alltoall, broadcast, reduce or sendrecv"
    )]
    Collective(&'static str),
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
    /// Ranks that no links connect.
    #[error("the links of machine `{0}` do not connect all ranks, or connect them in one direction only")]
    Disconnected(String),
}

/// What proves a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The elements of a set, or the classes of ranks.
    pub sets: Vec<Vec<String>>,
    /// Bandwidth of the links that leave the set or the classes, in 10⁹ bytes per second.
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
    /// The bound of an all-reduce by loads that a switch reduces, which load the rank's own part, too.
    pub load_reduce_us: Option<f64>,
}

const BYTES_PER_US: f64 = 1000.0;

/// Returns a time that no algorithm for a collective is below, for messages of the given number of bytes: the larger of a
/// rank's input and output.
///
/// # Errors
/// [`BoundError`].
pub fn bound(kind: CollectiveKind, machine: &Machine, ranks: u32, bytes: u64) -> Result<Bound, BoundError> {
    if !(2..=machine.ranks).contains(&ranks) {
        return Err(BoundError::Ranks { machine: machine.name.clone(), limit: machine.ranks, found: ranks });
    }
    let topology = Topology::of(machine, ranks);
    let latency_us = latency(kind, machine, ranks);
    if machine.one_device {
        let none = Bound {
            time_us: latency_us,
            throughput_us: 0.0,
            latency_us,
            algbw_gb_per_s: f64::INFINITY,
            certificate: None,
            without_multicast_us: None,
            load_reduce_us: None,
        };
        return Ok(none);
    }
    let n = f64::from(ranks);
    let graph = Graph::of(&topology);
    let disconnected = || BoundError::Disconnected(machine.name.clone());
    let gather = |graph: &Graph| graph.gather().ok_or_else(disconnected);
    let cut = |from: Option<usize>| graph.cut(from).ok_or_else(disconnected);
    let mut without_multicast = None;
    let certificate = match kind {
        CollectiveKind::AllGather => gather(&graph)?,
        CollectiveKind::ReduceScatter => gather(&graph.reversed())?,
        CollectiveKind::AllReduce => {
            let cut = cut(None)?;
            let classes = graph.classes();
            let best = classes.into_iter().chain([cut.clone()]).max_by(|a, b| a.quotient().total_cmp(&b.quotient()));
            match (machine.multicast, best) {
                (true, best) => {
                    without_multicast = best.map(|best| best.quotient());
                    cut
                }
                (false, best) => best.unwrap_or(cut),
            }
        }
        CollectiveKind::Broadcast => cut(Some(0))?,
        CollectiveKind::Reduce => graph.reversed().cut(Some(0)).ok_or_else(disconnected)?,
        CollectiveKind::AllToAll => {
            let pairs = |inside: f64| inside * (n - inside) / n;
            graph.best_set(pairs).ok_or_else(disconnected)?
        }
        CollectiveKind::SendRecv => {
            graph.best_set(|_| 0.0).map(|one| Certificate { messages: 1.0, ..one }).ok_or_else(disconnected)?
        }
        CollectiveKind::Custom { .. } | CollectiveKind::Test { .. } => return Err(BoundError::Collective(kind.name())),
    };
    let us = |quotient: f64| quotient * bytes as f64 / BYTES_PER_US;
    let throughput_us = us(certificate.quotient());
    let load_reduce = (kind == CollectiveKind::AllReduce && machine.multicast).then(|| throughput_us * (1.0 + 1.0 / n));
    Ok(Bound {
        time_us: throughput_us.max(latency_us),
        throughput_us,
        latency_us,
        algbw_gb_per_s: 1.0 / certificate.quotient(),
        certificate: Some(certificate),
        without_multicast_us: without_multicast.map(us),
        load_reduce_us: load_reduce,
    })
}

/// Returns the latency of the shortest exchange: one store between ranks of a node, and one round over the network for
/// every doubling of the nodes. A sum is not complete before the last input has arrived, in one step as well.
fn latency(kind: CollectiveKind, machine: &Machine, ranks: u32) -> f64 {
    let us = |name: &str| machine.constants.get(name).unwrap_or(0.0);
    let nodes = ranks.div_ceil(machine.ranks_per_node);
    let store = if machine.ranks_per_node > 1 {
        us("signal_us").min(machine.constants.get("packet_us").unwrap_or(f64::INFINITY))
    } else {
        0.0
    };
    match kind {
        CollectiveKind::SendRecv if nodes == 1 => store,
        CollectiveKind::SendRecv => us("network_us"),
        _ => store + f64::from(nodes.next_power_of_two().trailing_zeros()) * us("network_us"),
    }
}

impl Certificate {
    /// Returns messages per bandwidth.
    fn quotient(&self) -> f64 {
        self.messages / self.gb_per_s
    }
}

/// Elements and capacities of a topology.
struct Graph<'t> {
    topology: &'t Topology,
    edges: Vec<(usize, usize, f64)>,
}

impl<'t> Graph<'t> {
    fn of(topology: &'t Topology) -> Self {
        Self { topology, edges: topology.edges.iter().map(|edge| (edge.from, edge.to, edge.gb_per_s)).collect() }
    }

    fn reversed(&self) -> Self {
        Self { topology: self.topology, edges: self.edges.iter().map(|&(from, to, rate)| (to, from, rate)).collect() }
    }

    fn elements(&self) -> usize {
        self.topology.names.len()
    }

    fn network(&self, more: usize) -> Network {
        let mut network = Network::new(self.elements() + more);
        self.edges.iter().for_each(|&(from, to, rate)| network.add(from, to, rate));
        network
    }

    /// Returns the bandwidth out of a set of elements.
    fn egress(&self, set: &[bool]) -> f64 {
        self.edges.iter().filter(|(from, to, _)| set[*from] && !set[*to]).map(|(.., rate)| rate).sum()
    }

    fn ranks_in(&self, set: &[bool]) -> f64 {
        set[..self.topology.ranks].iter().filter(|inside| **inside).count() as f64
    }

    fn certificate(&self, sets: &[&[bool]], gb_per_s: f64, messages: f64) -> Certificate {
        let names = |set: &&[bool]| {
            let inside = set.iter().zip(&self.topology.names).filter(|(inside, _)| **inside);
            inside.map(|(_, name)| name.clone()).collect()
        };
        Certificate { sets: sets.iter().map(names).collect(), gb_per_s, messages }
    }

    /// Returns the set with the largest quotient of its ranks and its egress, among sets without some rank. `None` if some
    /// rank cannot reach another one.
    fn gather(&self) -> Option<Certificate> {
        let (ranks, elements) = (self.topology.ranks, self.elements());
        let source = elements;
        // Every rank but one, and all else.
        let mut best = vec![true; elements];
        best[0] = false;
        let mut rate = self.egress(&best) / (ranks as f64 - 1.0);
        loop {
            let mut improved = false;
            for sink in 0..ranks {
                let mut network = self.network(1);
                (0..ranks).for_each(|rank| network.add(source, rank, rate));
                let (flow, mut set) = network.max_flow(source, sink);
                set.truncate(elements);
                let inside = self.ranks_in(&set);
                if flow < rate * ranks as f64 * (1.0 - 1e-7) && inside > 0.0 {
                    let smaller = self.egress(&set) / inside;
                    if smaller < rate * (1.0 - 1e-9) {
                        (rate, best, improved) = (smaller, set, true);
                    }
                }
            }
            if !improved {
                break;
            }
        }
        let (egress, inside) = (self.egress(&best), self.ranks_in(&best));
        (egress > 0.0).then(|| self.certificate(&[&best], egress, inside / ranks as f64))
    }

    /// Returns the set with the least egress that has some rank, or one rank, and lacks another one: a whole message must
    /// leave it.
    fn cut(&self, from: Option<usize>) -> Option<Certificate> {
        let ranks = 0..self.topology.ranks;
        let first = from.unwrap_or(0);
        let others = ranks.filter(|rank| *rank != first);
        let pairs = others
            .flat_map(|rank| [(first, rank), (rank, first)])
            .filter(|(one, _)| from.is_none_or(|from| from == *one));
        let best = pairs.map(|(from, to)| self.network(0).max_flow(from, to)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 > 0.0).then(|| self.certificate(&[&best.1], best.0, 1.0))
    }

    /// Returns the connected parts over links of at least a bandwidth that have ranks; switches belong to the part of their ranks.
    fn parts(&self, least: f64) -> Vec<Vec<bool>> {
        let mut parts: Vec<Vec<bool>> = Vec::new();
        for rank in 0..self.topology.ranks {
            if parts.iter().any(|part| part[rank]) {
                continue;
            }
            let mut part = vec![false; self.elements()];
            let mut open = vec![rank];
            while let Some(at) = open.pop() {
                if std::mem::replace(&mut part[at], true) {
                    continue;
                }
                let strong = self.edges.iter().filter(|(.., rate)| *rate >= least);
                open.extend(strong.filter_map(|&(from, to, _)| {
                    if from == at {
                        Some(to)
                    } else if to == at {
                        Some(from)
                    } else {
                        None
                    }
                }));
            }
            parts.push(part);
        }
        parts
    }

    /// Returns the partitions that slower and slower links connect, single ranks first.
    fn partitions(&self) -> Vec<Vec<Vec<bool>>> {
        let single = |rank: usize| (0..self.elements()).map(|element| element == rank).collect();
        let mut partitions = vec![(0..self.topology.ranks).map(single).collect()];
        let mut rates: Vec<f64> = self.edges.iter().map(|(.., rate)| *rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        partitions.extend(rates.iter().rev().map(|rate| self.parts(*rate)).filter(|parts| parts.len() > 1));
        partitions
    }

    /// Returns what classes of ranks must send in an all-reduce without sums in switches.
    fn classes(&self) -> Vec<Certificate> {
        let of = |classes: Vec<Vec<bool>>| {
            let egress: f64 = classes.iter().map(|class| self.egress(class)).sum();
            let sets: Vec<&[bool]> = classes.iter().map(Vec::as_slice).collect();
            self.certificate(&sets, egress, 2.0 * (classes.len() as f64 - 1.0))
        };
        self.partitions().into_iter().map(of).filter(|one| one.gb_per_s > 0.0).collect()
    }

    /// Returns the class of any partition with the largest quotient of messages, a function of its ranks, and egress.
    fn best_set(&self, messages: impl Fn(f64) -> f64) -> Option<Certificate> {
        let sets = self.partitions().into_iter().flatten();
        let all = sets.map(|set| {
            let egress = self.egress(&set);
            self.certificate(&[&set], egress, messages(self.ranks_in(&set)))
        });
        let all: Vec<Certificate> = all.collect();
        let connected = all.iter().all(|one| one.gb_per_s > 0.0);
        all.into_iter()
            .filter(|_| connected)
            .max_by(|a, b| a.quotient().total_cmp(&b.quotient()).then(b.gb_per_s.total_cmp(&a.gb_per_s)))
    }
}

#[cfg(test)]
mod tests;
