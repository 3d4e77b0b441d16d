//! Default selection rules; the first match wins.
//!
//! A rule whose algorithm rejects the request is skipped. After the rules, the first algorithm that serves the request
//! is selected, so that there is always one.

use mscclpp_core::collective::CollectiveKind;

use super::request::{Backend, Request};

/// One rule of the table.
pub(super) struct Rule {
    collective: CollectiveKind,
    nodes: Nodes,
    /// Backend; `None` for any.
    backend: Option<Backend>,
    /// Only for unregistered buffers, which are copied to memory that peers read.
    unregistered_only: bool,
    /// Only for ranks that are agents of one launch.
    virtual_ranks_only: bool,
    /// Maximum message size per rank, in bytes.
    max_bytes: u64,
    /// Maximum number of ranks.
    ranks: u32,
    /// Maximum message size times the number of ranks, in bytes.
    max_total: u64,
    /// Maximum message size divided by the number of ranks, in bytes.
    max_share: u64,
    /// Only for devices none of which can access the memory of another one.
    separate_devices_only: bool,
    /// The algorithm.
    pub(super) name: &'static str,
    /// Why the rule selects it.
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
        max_bytes: u64,
        name: &'static str,
        reason: &'static str,
    ) -> Self {
        Self {
            collective,
            nodes,
            backend: None,
            unregistered_only: false,
            virtual_ranks_only: false,
            max_bytes,
            ranks,
            max_total: u64::MAX,
            max_share: u64::MAX,
            separate_devices_only: false,
            name,
            reason,
        }
    }

    /// Restricts the rule to cores that share memory.
    const fn on_cpu(mut self) -> Self {
        self.backend = Some(Backend::Cpu);
        self
    }

    /// Restricts the rule to devices.
    const fn on_devices(mut self) -> Self {
        self.backend = Some(Backend::Cuda);
        self
    }

    /// Restricts the rule to messages of at most this many bytes on all ranks together.
    const fn up_to_total(mut self, bytes: u64) -> Self {
        self.max_total = bytes;
        self
    }

    /// Restricts the rule to devices none of which can access the memory of another one, and to messages of which each rank
    /// has at most this many bytes.
    const fn on_separate_devices(mut self, share: u64) -> Self {
        self.separate_devices_only = true;
        self.max_share = share;
        self.backend = Some(Backend::Cuda);
        self
    }

    /// Restricts the rule to unregistered buffers.
    const fn on_unregistered(mut self) -> Self {
        self.unregistered_only = true;
        self
    }

    /// Restricts the rule to ranks that are agents of one launch on the CPU.
    const fn on_virtual_ranks(mut self) -> Self {
        self.virtual_ranks_only = true;
        self.on_cpu()
    }

    /// Returns whether the rule covers a request.
    pub(super) fn covers(&self, request: &Request) -> bool {
        let nodes = if request.num_nodes() == 1 { Nodes::One } else { Nodes::Several };
        self.collective == request.collective
            && self.nodes == nodes
            && self.backend.is_none_or(|backend| backend == request.backend)
            && !(self.unregistered_only && request.registered)
            && (!self.virtual_ranks_only || request.virtual_ranks)
            && (!self.separate_devices_only || request.ranks_per_node == 1)
            && request.bytes / u64::from(request.num_ranks.max(1)) <= self.max_share
            && request.num_ranks <= self.ranks
            && request.bytes <= self.max_bytes
            && request.bytes.saturating_mul(u64::from(request.num_ranks)) <= self.max_total
    }
}

const ONE_STEP: &str = "for short messages on few ranks, one step is enough";
const ONE_STORE: &str = "for short messages, one multicast store reaches all ranks";
const BY_SWITCH: &str = "a switch moves every byte once";
const IN_RANK_ORDER: &str = "every element is reduced in the order of ranks";
const SMALL: &str = "small messages are sent as packets";
const LARGE: &str = "large messages are moved once, over all links";
const ONE_STEP_BETWEEN_NODES: &str = "between nodes, short messages are sent whole to every rank, in one step";
const FEW_STEPS: &str = "between nodes, the number of steps dominates for short messages";
const READS_BEAT_PACKETS: &str = "on the CPU, reading peer memory is cheaper than unpacking packets";
const REDUCING_BEATS_COPYING: &str = "reducing unregistered data twice is cheaper than copying the results of peers";
const READS_BEAT_WRITES: &str = "on the CPU, reading data in a peer's cache is cheaper than writing to it";
const STEPS_ARE_FREE: &str = "ranks that share threads pay for redundant reductions, not for steps";
const READS_AVOID_COPIES: &str = "data that is read directly into unregistered memory needs no copy afterwards";
const TO_A_NEIGHBOR: &str = "through host memory, each device sends to one other device at a time";
const READS_OF_ROOT: &str = "all ranks read the memory of the root at once, in one step";
const PASSED_ON: &str = "each rank passes on what it receives, so that every byte enters and leaves a rank once";
const PACKETS_SAVE_STEPS: &str = "between nodes, packets save the signals that short messages wait for";
const IN_WINDOWS: &str = "transfers between nodes and within them overlap, window by window";
const NODES: &str = "the ranks of a node share the traffic between nodes";

const K: u64 = 1 << 10;
const ANY: u64 = u64::MAX;
const ALL: u32 = u32::MAX;

/// Bytes of a rank's share up to which the number of steps dominates. An estimate: no device has measured it.
const SHARE: u64 = 256 * K;

/// The rules.
pub(super) static RULES: &[Rule] = {
    use CollectiveKind::*;
    use Nodes::*;
    &[
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_all_pairs", STEPS_ARE_FREE).on_virtual_ranks(),
        Rule::new(AllReduce, One, 2, 64 * K, "allreduce_one_shot", REDUCING_BEATS_COPYING).on_cpu().on_unregistered(),
        Rule::new(AllReduce, One, 8, 16 * K, "allreduce_one_shot", ONE_STEP).on_cpu(),
        Rule::new(AllReduce, One, 64, K, "allreduce_one_shot", ONE_STEP).on_cpu(),
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_all_pairs", READS_BEAT_PACKETS).on_cpu(),
        Rule::new(AllGather, One, ALL, 128 * K, "allgather_pull", READS_AVOID_COPIES).on_cpu().on_unregistered(),
        Rule::new(AllGather, One, ALL, 16 * K, "allgather_all_pairs", READS_BEAT_PACKETS).on_cpu(),
        Rule::new(AllGather, One, ALL, 128 * K, "allgather_pull", READS_BEAT_WRITES).on_cpu(),
        Rule::new(AllGather, One, ALL, ANY, "allgather_all_pairs", READS_BEAT_PACKETS).on_cpu(),
        Rule::new(ReduceScatter, One, ALL, ANY, "reducescatter_all_pairs", READS_BEAT_PACKETS).on_cpu(),
        Rule::new(AllToAll, One, ALL, 256 * K, "alltoall_pull", READS_BEAT_WRITES).on_cpu(),
        Rule::new(AllToAll, One, ALL, ANY, "alltoall_direct", READS_BEAT_PACKETS).on_cpu(),
        Rule::new(AllReduce, One, ALL, 64 * K, "allreduce_switch_packets", ONE_STORE).up_to_total(512 * K),
        Rule::new(AllReduce, One, ALL, 64 * K, "allreduce_one_shot_packets", ONE_STEP).up_to_total(128 * K),
        Rule::new(AllReduce, One, ALL, 128 * K, "allreduce_packets", SMALL),
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_switch", BY_SWITCH),
        Rule::new(AllReduce, One, ALL, 512 * K, "allreduce_packets", SMALL),
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_all_pairs", LARGE),
        Rule::new(AllReduce, One, ALL, ANY, "allreduce_rank_order", IN_RANK_ORDER),
        Rule::new(AllReduce, Several, 2, 256 * K, "allreduce_one_shot_ports", ONE_STEP_BETWEEN_NODES).on_devices(),
        Rule::new(AllReduce, Several, ALL, ANY, "allreduce_hierarchical", FEW_STEPS).on_separate_devices(SHARE),
        Rule::new(AllReduce, Several, ALL, ANY, "allreduce_ring_ports", TO_A_NEIGHBOR).on_separate_devices(ANY),
        Rule::new(AllReduce, Several, 2, 16 * K, "allreduce_one_shot_ports", ONE_STEP_BETWEEN_NODES).on_cpu(),
        Rule::new(AllReduce, Several, 16, 4 * K, "allreduce_one_shot_ports", ONE_STEP_BETWEEN_NODES)
            .up_to_total(16 * K)
            .on_cpu(),
        Rule::new(AllReduce, Several, ALL, 64 * K, "allreduce_hierarchical_packets", FEW_STEPS),
        Rule::new(AllReduce, Several, ALL, 256 * K, "allreduce_hierarchical_packets", PACKETS_SAVE_STEPS).on_devices(),
        Rule::new(AllReduce, Several, ALL, 64 * K * K, "allreduce_hierarchical", NODES),
        Rule::new(AllReduce, Several, ALL, ANY, "allreduce_hierarchical_pipeline", IN_WINDOWS).on_devices(),
        Rule::new(AllReduce, Several, ALL, ANY, "allreduce_hierarchical", NODES),
        Rule::new(AllReduce, Several, ALL, ANY, "allreduce_rank_order_ports", IN_RANK_ORDER),
        Rule::new(AllGather, One, ALL, 256 * K, "allgather_packets", SMALL),
        Rule::new(AllGather, One, ALL, ANY, "allgather_all_pairs", LARGE),
        Rule::new(AllGather, Several, ALL, 64 * K, "allgather_hierarchical_packets", PACKETS_SAVE_STEPS).on_devices(),
        Rule::new(AllGather, Several, ALL, ANY, "allgather_hierarchical", FEW_STEPS).on_separate_devices(SHARE),
        Rule::new(AllGather, Several, ALL, ANY, "allgather_ring_ports", TO_A_NEIGHBOR).on_separate_devices(ANY),
        Rule::new(AllGather, Several, ALL, 256 * K, "allgather_hierarchical_packets", PACKETS_SAVE_STEPS).on_devices(),
        Rule::new(AllGather, Several, ALL, 64 * K * K, "allgather_hierarchical", NODES),
        Rule::new(AllGather, Several, ALL, ANY, "allgather_hierarchical_pipeline", IN_WINDOWS).on_devices(),
        Rule::new(AllGather, Several, ALL, ANY, "allgather_hierarchical", NODES),
        Rule::new(ReduceScatter, One, ALL, 256 * K, "reducescatter_packets", SMALL),
        Rule::new(ReduceScatter, One, ALL, ANY, "reducescatter_all_pairs", LARGE),
        Rule::new(ReduceScatter, One, ALL, ANY, "reducescatter_rank_order", IN_RANK_ORDER),
        Rule::new(ReduceScatter, Several, ALL, ANY, "reducescatter_hierarchical", FEW_STEPS).on_separate_devices(SHARE),
        Rule::new(ReduceScatter, Several, ALL, ANY, "reducescatter_ring_ports", TO_A_NEIGHBOR).on_separate_devices(ANY),
        Rule::new(ReduceScatter, Several, ALL, ANY, "reducescatter_hierarchical", NODES),
        Rule::new(ReduceScatter, Several, ALL, ANY, "reducescatter_rank_order_ports", IN_RANK_ORDER),
        Rule::new(AllToAll, One, ALL, 128 * K, "alltoall_packets", SMALL),
        Rule::new(AllToAll, One, ALL, ANY, "alltoall_direct", LARGE),
        Rule::new(AllToAll, One, ALL, ANY, "alltoall_in_place", LARGE),
        Rule::new(AllToAll, Several, ALL, ANY, "alltoall_ports", LARGE),
        Rule::new(AllToAll, Several, ALL, ANY, "alltoall_ports_in_place", LARGE),
        Rule::new(Broadcast, One, ALL, ANY, "broadcast_pull", READS_AVOID_COPIES).on_cpu(),
        Rule::new(Broadcast, One, 16, 512 * K, "broadcast_pull", READS_OF_ROOT),
        Rule::new(Broadcast, One, ALL, 16 * K * K, "broadcast_scatter", LARGE),
        Rule::new(Broadcast, One, ALL, ANY, "broadcast_chain", PASSED_ON),
        Rule::new(Broadcast, Several, ALL, 64 * K, "broadcast_tree_ports", FEW_STEPS),
        Rule::new(Broadcast, Several, ALL, 512 * K, "broadcast_tree_ports", FEW_STEPS).on_devices(),
        Rule::new(Broadcast, Several, ALL, ANY, "broadcast_chain", LARGE),
        Rule::new(Reduce, One, 8, 8 * K, "reduce_packets", ONE_STEP),
        Rule::new(Reduce, One, ALL, ANY, "reduce_gather", LARGE),
        Rule::new(Reduce, One, ALL, ANY, "reduce_rank_order", IN_RANK_ORDER),
        Rule::new(Reduce, Several, ALL, 64 * K, "reduce_tree_ports", FEW_STEPS),
        Rule::new(Reduce, Several, ALL, ANY, "reduce_chain", LARGE),
        Rule::new(Reduce, Several, ALL, ANY, "reduce_rank_order", IN_RANK_ORDER),
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
