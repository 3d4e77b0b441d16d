//! A norm of the rank's rows, and an all-gather with packets: 1 step, 2(P-1)/P of the output sent per rank, P chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::{BuiltinAlgorithm, Param};

/// Every rank normalizes its rows into its part of the output, puts them as packets into every other rank's scratch, and
/// unpacks the packets that it receives.
///
/// In place or not, two ranks or more, a group of `group` thread blocks. The operands of the norm have a row for every row of
/// the rank's part. For few rows.
#[collective(AllGather, ranks = [2, 4, 8], in_place, params(group = [1]), protocol = LL, double_scratch, rows, crate = mscclpp_core)]
pub fn allgather_norm_packets(p: &Program, group: usize) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    let blocks = p.thread_block_group(0..group);
    for rank in p.ranks() {
        let id = rank.id();
        let own = rank.output().chunk(id);
        let mine = if p.in_place() { own.to_any() } else { rank.input().chunk(0).to_any() };
        rank.row_norm(own, mine, &blocks);
        for step in 1..ranks {
            let peer = p.rank((id + step) % ranks);
            rank.memory_channel(peer).put_packets(scratch[peer.id()].chunk(id), own, &blocks);
        }
        for step in 1..ranks {
            let peer = (id + step) % ranks;
            rank.unpack_packets(rank.output().chunk(peer), scratch[id].chunk(peer), &blocks);
        }
    }
}

/// Entry in the list of algorithms.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_norm_packets::algorithm, include_str!("all_gather_packets.rs"), |p, arguments| {
        allgather_norm_packets(p, arguments[0])
    })
    .with_params(&[Param { name: "group", values: &[1, 2, 4, 8] }]);
