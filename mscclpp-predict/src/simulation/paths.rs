//! The links that loads, stores and transfers of an execution pass.

use std::collections::BTreeMap;

use mscclpp_check::execution::{Execution, MovedData, Node};

use crate::error::PredictError;
use crate::machine::Machine;
use crate::topology::Topology;

/// Links, and the part of the bytes that passes each.
pub(super) type Parts = Vec<(usize, f64)>;

/// Senders and receivers that occur, numbered.
#[derive(Default)]
struct Pairs {
    /// Per sender that occurs, the numbers of its pairs by receiver.
    rows: Vec<Vec<u32>>,
    count: u32,
}

/// Number of a pair that does not occur.
const NONE: u32 = u32::MAX;

impl Pairs {
    fn new(num_ranks: usize) -> Self {
        Self { rows: vec![Vec::new(); num_ranks], count: 0 }
    }

    /// Returns the number of a pair, a new one if it has none.
    fn add(&mut self, (from, to): (u32, u32)) -> usize {
        let ranks = self.rows.len();
        let row = &mut self.rows[from as usize];
        if row.is_empty() {
            row.resize(ranks, NONE);
        }
        let number = &mut row[to as usize];
        if *number == NONE {
            *number = self.count;
            self.count += 1;
        }
        *number as usize
    }

    fn get(&self, from: u32, to: u32) -> Option<usize> {
        let number = *self.rows.get(from as usize)?.get(to as usize)?;
        (number != NONE).then_some(number as usize)
    }

    /// Returns all pairs with their numbers, by sender and receiver.
    fn all(&self) -> impl Iterator<Item = (u32, u32, usize)> {
        let rows = (0..).zip(&self.rows);
        let all = rows.flat_map(|(from, row)| (0..).zip(row).map(move |(to, number)| (from, to, *number)));
        all.filter(|(_, _, number)| *number != NONE).map(|(from, to, number)| (from, to, number as usize))
    }
}

/// The links between the ranks of an execution.
#[derive(Default)]
pub(super) struct Paths {
    pairs: Pairs,
    /// Per pair, the links from one to the other.
    between: Vec<Vec<usize>>,
    /// Per rank, for its loads and for its stores on other ranks: the parts of all of them that pass each link.
    spread: Vec<[Parts; 2]>,
    /// Per rank, the link from its switch, and the one to it.
    switch: Vec<[Option<usize>; 2]>,
}

/// Returns whether an access is one in a switch.
pub(super) fn in_switch(node: &Node, access: &MovedData) -> bool {
    let side = if access.write { node.kind.dsts() } else { node.kind.srcs() };
    side.switch.1 > 0
}

/// Returns the sender and the receiver of an access of a rank.
pub(super) fn ends(rank: u32, access: &MovedData) -> (u32, u32) {
    if access.write { (rank, access.owner) } else { (access.owner, rank) }
}

impl Paths {
    /// Finds the links that an execution uses.
    pub(super) fn of(run: &Execution, machine: &Machine, topology: &Topology) -> Result<Self, PredictError> {
        let mut pairs = Pairs::new(topology.num_ranks);
        // Per pair, the bytes of loads and of stores.
        let mut used: Vec<[f64; 2]> = Vec::new();
        for (number, node) in run.nodes.iter().enumerate() {
            let remote = run.accesses(number).iter().filter(|access| access.owner != node.rank);
            for access in remote.filter(|access| !in_switch(node, access)) {
                let pair = pairs.add(ends(node.rank, access));
                used.resize(used.len().max(pair + 1), [0.0; 2]);
                if !node.transfer {
                    used[pair][usize::from(access.write)] += access.bytes as f64;
                }
            }
        }
        let mut between = vec![Vec::new(); used.len()];
        let mut routes = (None, Vec::new());
        for (from, to, pair) in pairs.all() {
            if routes.0 != Some(from) {
                routes = (Some(from), topology.routes(from as usize));
            }
            let no_route = || PredictError::NoRoute { machine: machine.name.clone(), from, to };
            between[pair] = routes.1.get_mut(to as usize).and_then(Option::take).ok_or_else(no_route)?;
        }
        let switch = (0..topology.num_ranks).map(|rank| switch_links(topology, rank)).collect();
        let mut paths = Self { pairs, between, spread: Vec::new(), switch };
        paths.spread(&used, topology.num_ranks);
        Ok(paths)
    }

    /// Computes the parts of the loads and stores of every rank that pass each link.
    fn spread(&mut self, used: &[[f64; 2]], num_ranks: usize) {
        let mut totals = vec![[0.0; 2]; num_ranks];
        for (from, to, pair) in self.pairs.all() {
            totals[to as usize][0] += used[pair][0];
            totals[from as usize][1] += used[pair][1];
        }
        let mut parts: Vec<[BTreeMap<usize, f64>; 2]> = vec![Default::default(); num_ranks];
        for (from, to, pair) in self.pairs.all() {
            for (side, rank) in [(0, to as usize), (1, from as usize)] {
                for &link in self.between[pair].iter().filter(|_| used[pair][side] > 0.0) {
                    *parts[rank][side].entry(link).or_default() += used[pair][side] / totals[rank][side];
                }
            }
        }
        self.spread = parts.into_iter().map(|sides| sides.map(|side| side.into_iter().collect())).collect();
    }

    /// Returns the links from one rank to another one.
    pub(super) fn between(&self, from: u32, to: u32) -> &[usize] {
        self.pairs.get(from, to).map_or(&[], |pair| &self.between[pair])
    }

    /// Returns the parts of a rank's loads or stores that pass each link.
    pub(super) fn of_all(&self, rank: u32, stores: bool) -> &[(usize, f64)] {
        &self.spread[rank as usize][usize::from(stores)]
    }

    /// Returns the link from a rank to its switch, or from the switch to the rank.
    pub(super) fn of_switch(&self, rank: u32, into_rank: bool) -> Option<usize> {
        self.switch.get(rank as usize)?[usize::from(!into_rank)]
    }
}

/// Returns the link to a rank from the switch of its fastest link, and the one in the other direction.
fn switch_links(topology: &Topology, rank: usize) -> [Option<usize>; 2] {
    let best = |links: &mut dyn Iterator<Item = usize>| {
        let rate = |link: usize| topology.edges[link].gb_per_s;
        links.max_by(|a, b| rate(*a).total_cmp(&rate(*b)).then(b.cmp(a)))
    };
    let is_switch = |element: usize| element >= topology.num_ranks;
    let out = topology.outgoing(rank).iter().copied().filter(|link| is_switch(topology.edges[*link].to));
    let into = topology.incoming(rank).iter().copied().filter(|link| is_switch(topology.edges[*link].from));
    [best(&mut into.into_iter()), best(&mut out.into_iter())]
}
