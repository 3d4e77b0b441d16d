//! Switch all-reduce with packets: 1 multicast step, twice the message sent per rank, P² chunks of scratch. Needs multicast
//! hardware.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BufferKind;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank packs its input, multicasts the packets and reduces those of all ranks.
///
/// In place or not, any number of ranks in one switch domain, one thread block. Without handshakes, so it needs double
/// scratch. The switch only copies: every element is reduced in the order of ranks, on every rank. For messages so small
/// that only latency matters.
#[collective(AllReduce, ranks = [2, 4, 8], protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn allreduce_switch_packets(p: &Program) {
    let ranks = p.num_ranks();
    let slot = |of: usize| of * ranks..(of + 1) * ranks;
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * ranks)).collect();
    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    for rank in p.ranks() {
        let (id, input, packets) = (rank.id(), rank.input().chunk(..), scratch[rank.id()]);
        rank.copy_packets(packets.chunk(slot(id)), input, 0);
        switch.at(rank).broadcast_packets(slot(id), packets.chunk(slot(id)), 0);
        let before: Vec<_> = (0..ranks - 1).map(|of| packets.chunk(slot(of))).collect();
        let result = if p.in_place() { input.to_any() } else { rank.output().chunk(..).to_any() };
        // The plain operand of a reduction follows its packets: that of the last rank.
        rank.unpack_packets(result, packets.chunk(slot(ranks - 1)), 0);
        rank.reduce_packets(result, before, 0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_switch_packets::algorithm, include_str!("switch_packets.rs"), |p, _| {
        allreduce_switch_packets(p)
    })
    .multicast()
    .in_rank_order();
