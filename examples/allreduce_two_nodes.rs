//! All-reduce on two nodes: reduce within the node, exchange between the nodes through port channels, gather within the node.
//!
//! `cargo run --release --example allreduce_two_nodes`

use mscclpp::prelude::*;

/// Rank `l` of each node owns part `l` of its node's sum and exchanges it with rank `l` of the other node.
///
/// The message has `2 × ranks_per_node` chunks; part `l` is chunks `2l` and `2l + 1`.
#[collective(AllReduce, ranks = 8, ranks_per_node = 4, in_place)]
fn allreduce_two_nodes(p: &Program) {
    let per_node = p.ranks_per_node();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
    for rank in p.ranks() {
        let first = rank.node() * per_node;
        let part = rank.local_id() * 2..rank.local_id() * 2 + 2;
        let mine = rank.input().chunk(part.clone());
        let within = rank.memory_channels((first..first + per_node).filter(|&id| id != rank.id()));
        let partner = p.rank((rank.id() + per_node) % p.num_ranks());
        let between = rank.port_channel(partner);

        // All inputs of the node are ready.
        within.handshake(0);
        for channel in &within {
            channel.reduce(mine, channel.peer().input().chunk(part.clone()), 0);
        }

        // The partner's scratch is free; its half of the sum arrives, and this rank's half is sent.
        between.handshake(0);
        between.put_with_signal_and_flush(scratch[partner.id()].chunk(..), mine, 0);
        between.wait(0);
        rank.reduce(mine, scratch[rank.id()].chunk(..), 0);

        // All ranks of the node have read this rank's input; their parts may be overwritten.
        within.handshake(0);
        for channel in &within {
            channel.put(channel.peer().input().chunk(part.clone()), mine, 0);
        }
        within.handshake(0);
    }
}

fn main() -> mscclpp::Result<()> {
    examples::demonstrate(allreduce_two_nodes::plan(8), &[1 << 10, 1 << 20, (4 << 20) + 4])
}
