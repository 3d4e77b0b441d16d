//! One-shot all-reduce with packets: 1 step, 2(P-1) times the message sent per rank, P² chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::{BuiltinAlgorithm, Param};

/// Every rank sends its whole input to every other rank as packets and reduces all inputs that it receives.
///
/// In place or not, two ranks or more, a group of `group` thread blocks. Without handshakes, so it needs double
/// scratch. It has the lowest latency, for messages so small that only latency matters. Every element is reduced in the
/// order of ranks: in the plan a rank packs its own input as well, and unpacks that of the last rank, because the plain operand
/// of a reduction follows its packets. Executors of processes and devices elide both.
#[collective(AllReduce, ranks = [2, 4, 8], params(group = [1]), protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn allreduce_one_shot_packets(p: &Program, group: usize) {
    let ranks = p.num_ranks();
    let slot = |of: usize| of * ranks..(of + 1) * ranks;
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * ranks)).collect();
    let blocks = p.thread_block_group(0..group);
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input().chunk(..));
        for step in 1..ranks {
            let peer = p.rank((id + step) % ranks);
            let channel = rank.memory_channel(peer);
            channel.put_packets(scratch[peer.id()].chunk(slot(id)), input, &blocks);
        }
        let before: Vec<_> = (0..ranks - 1).map(|of| scratch[id].chunk(slot(of))).collect();
        let result = if p.in_place() { input.to_any() } else { rank.output().chunk(..).to_any() };
        if id == ranks - 1 {
            rank.reduce_packets(input, before, &blocks).to(result);
        } else {
            rank.copy_packets(scratch[id].chunk(slot(id)), input, &blocks);
            rank.unpack_packets(result, scratch[id].chunk(slot(ranks - 1)), &blocks);
            rank.reduce_packets(result, before, &blocks);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    allreduce_one_shot_packets::algorithm,
    include_str!("one_shot_packets.rs"),
    |p, arguments| allreduce_one_shot_packets(p, arguments[0]),
)
.with_params(&[Param { name: "group", values: &[1, 2, 4, 8] }])
.in_rank_order();
