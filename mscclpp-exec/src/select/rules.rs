//! What is used where nobody chose otherwise: a table, read from top to bottom.
//!
//! A rule that names an algorithm which refuses the request is passed over. Behind the rules, the first algorithm that
//! serves the request is taken, so that there is always one.

use mscclpp_core::collective::CollectiveKind;

use super::request::{Backend, Request};

/// One line of the table.
pub(super) struct Rule {
    collective: CollectiveKind,
    nodes: Nodes,
    /// What runs the plan; `None` for anything.
    backend: Option<Backend>,
    /// Only for private buffers, which are copied to where peers read them.
    unregistered_only: bool,
    /// Only for ranks that are tasks of one launch.
    virtual_ranks_only: bool,
    /// Largest message per rank, in bytes.
    max_bytes: u64,
    /// Most ranks.
    ranks: u32,
    /// The algorithm.
    pub(super) name: &'static str,
    /// Why.
    pub(super) reason: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nodes {
    One,
    Several,
}

impl Rule {
    const fn new(
        collective: CollectiveKind,
        nodes: Nodes,
        ranks: u32,
        most: u64,
        name: &'static str,
        because: &'static str,
    ) -> Self {
        Self {
            collective,
            nodes,
            backend: None,
            unregistered_only: false,
            virtual_ranks_only: false,
            max_bytes: most,
            ranks,
            name,
            reason: because,
        }
    }

    /// The rule for cores that share memory.
    const fn on_cpu(mut self) -> Self {
        self.backend = Some(Backend::Cpu);
        self
    }

    /// The rule for buffers that are not registered.
    const fn private(mut self) -> Self {
        self.unregistered_only = true;
        self
    }

    /// The rule for ranks that are tasks of one launch on the CPU.
    const fn on_tasks(mut self) -> Self {
        self.virtual_ranks_only = true;
        self.on_cpu()
    }

    /// Whether it speaks of a request.
    pub(super) fn covers(&self, request: &Request) -> bool {
        let nodes = if request.nodes() == 1 { Nodes::One } else { Nodes::Several };
        self.collective == request.collective
            && self.nodes == nodes
            && self.backend.is_none_or(|backend| backend == request.backend)
            && !(self.unregistered_only && request.registered)
            && (!self.virtual_ranks_only || request.virtual_ranks)
            && request.ranks <= self.ranks
            && request.bytes <= self.max_bytes
    }
}

const ONE_STEP: &str = "for short messages on few ranks, one step is enough";
const SMALL: &str = "small messages are sent as packets";
const LARGE: &str = "large messages are moved once, over all links";
const FEW_STEPS: &str = "between nodes, the number of steps dominates for short messages";
const NO_PACKETS: &str = "on the CPU, reading peer memory is cheaper than unpacking packets";
const NO_RESULTS: &str = "reducing unregistered data twice is cheaper than copying the results of peers";
const NO_WRITES: &str = "on the CPU, reading data in a peer's cache is cheaper than writing to it";
const NO_WAITS: &str = "ranks that share threads pay for redundant reductions, not for steps";
const NO_RESULTS_OUT: &str = "data that is read directly into unregistered memory needs no copy afterwards";
const NODES: &str = "the ranks of a node share the traffic between nodes";

const K: u64 = 1 << 10;
const ANY: u64 = u64::MAX;
const ALL: u32 = u32::MAX;

/// The table.
pub(super) static RULES: &[Rule] = {
    use CollectiveKind::*;
    use Nodes::*;
    &[
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_all_pairs", NO_WAITS).on_tasks(),
        Rule::new(AllReduce, One, 2, 64 * K, "allreduce_one_shot", NO_RESULTS).on_cpu().private(),
        Rule::new(AllReduce, One, 8, 16 * K, "allreduce_one_shot", ONE_STEP).on_cpu(),
        Rule::new(AllReduce, One, 64, K, "allreduce_one_shot", ONE_STEP).on_cpu(),
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_all_pairs", NO_PACKETS).on_cpu(),
        Rule::new(AllGather, One, ALL, 128 * K, "allgather_pull", NO_RESULTS_OUT).on_cpu().private(),
        Rule::new(AllGather, One, ALL, 16 * K, "allgather_all_pairs", NO_PACKETS).on_cpu(),
        Rule::new(AllGather, One, ALL, 128 * K, "allgather_pull", NO_WRITES).on_cpu(),
        Rule::new(AllGather, One, ALL, ANY, "allgather_all_pairs", NO_PACKETS).on_cpu(),
        Rule::new(ReduceScatter, One, ALL, ANY, "reducescatter_all_pairs", NO_PACKETS).on_cpu(),
        Rule::new(AllToAll, One, ALL, 256 * K, "alltoall_pull", NO_WRITES).on_cpu(),
        Rule::new(AllToAll, One, ALL, ANY, "alltoall_direct", NO_PACKETS).on_cpu(),
        Rule::new(AllReduce, One, 2, 32 * K, "allreduce_one_shot_packets", ONE_STEP),
        Rule::new(AllReduce, One, 8, K, "allreduce_one_shot_packets", ONE_STEP),
        Rule::new(AllReduce, One, ALL, 32 * K, "allreduce_packets", SMALL),
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_all_pairs", LARGE),
        Rule::new(AllReduce, Several, ALL, 64 * K, "allreduce_hierarchical_packets", FEW_STEPS),
        Rule::new(AllReduce, Several, ALL, ANY, "allreduce_hierarchical", NODES),
        Rule::new(AllGather, One, ALL, 32 * K, "allgather_packets", SMALL),
        Rule::new(AllGather, One, ALL, ANY, "allgather_all_pairs", LARGE),
        Rule::new(AllGather, Several, ALL, ANY, "allgather_hierarchical", NODES),
        Rule::new(ReduceScatter, One, ALL, 32 * K, "reducescatter_packets", SMALL),
        Rule::new(ReduceScatter, One, ALL, ANY, "reducescatter_all_pairs", LARGE),
        Rule::new(ReduceScatter, Several, ALL, ANY, "reducescatter_hierarchical", NODES),
        Rule::new(AllToAll, One, ALL, 32 * K, "alltoall_packets", SMALL),
        Rule::new(AllToAll, One, ALL, ANY, "alltoall_direct", LARGE),
        Rule::new(AllToAll, One, ALL, ANY, "alltoall_in_place", LARGE),
        Rule::new(AllToAll, Several, ALL, ANY, "alltoall_ports", LARGE),
        Rule::new(AllToAll, Several, ALL, ANY, "alltoall_ports_in_place", LARGE),
        Rule::new(Broadcast, One, 8, 8 * K, "broadcast_packets", ONE_STEP),
        Rule::new(Broadcast, One, ALL, ANY, "broadcast_scatter", LARGE),
        Rule::new(Broadcast, Several, ALL, 64 * K, "broadcast_tree_ports", FEW_STEPS),
        Rule::new(Broadcast, Several, ALL, ANY, "broadcast_chain", LARGE),
        Rule::new(Reduce, One, 8, 8 * K, "reduce_packets", ONE_STEP),
        Rule::new(Reduce, One, ALL, ANY, "reduce_gather", LARGE),
        Rule::new(Reduce, Several, ALL, 64 * K, "reduce_tree_ports", FEW_STEPS),
        Rule::new(Reduce, Several, ALL, ANY, "reduce_chain", LARGE),
        Rule::new(SendRecv, One, ALL, 32 * K, "send_recv_packets", SMALL),
        Rule::new(SendRecv, One, ALL, ANY, "send_recv_direct", LARGE),
        Rule::new(SendRecv, One, ALL, ANY, "send_recv_in_place", LARGE),
        Rule::new(SendRecv, Several, ALL, ANY, "send_recv", LARGE),
        Rule::new(SendRecv, Several, ALL, ANY, "send_recv_in_place", LARGE),
    ]
};

#[cfg(test)]
mod tests {
    use super::RULES;
    use mscclpp_algorithms as algorithms;

    #[test]
    fn rules_name_algorithms_of_their_collective() {
        for rule in RULES {
            let found = algorithms::find(rule.name).unwrap_or_else(|| panic!("there is no `{}`", rule.name));
            assert_eq!(found.kind(), rule.collective, "{}", rule.name);
        }
    }
}
