//! All-reduce over a switch channel: every rank reduces one part of all inputs in the switch and stores it to all.
//!
//! `cargo run --release --example allreduce_nvls`

use mscclpp::prelude::*;

/// 8 instances split every chunk, so that 8 thread blocks keep the switch busy.
#[collective(AllReduce, ranks = [4, 8], in_place, instances = 8, message_size = 1 << 20..=48 << 30, tags = ["nvls"])]
fn allreduce_nvls(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    let mut channels = Vec::new();
    for rank in p.ranks() {
        let peers = p.ranks().filter(|peer| peer.id() != rank.id());
        channels.push(peers.map(|peer| rank.memory_channel(peer)).collect::<Vec<_>>());
    }
    for rank in p.ranks() {
        // No rank reads or writes before all ranks have started.
        for channel in &channels[rank.id()] {
            channel.signal(0).relaxed();
        }
        for channel in &channels[rank.id()] {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        let mine = rank.input().chunk(rank.id());
        switch.at(rank).reduce(mine, rank.id(), 0);
        switch.at(rank).broadcast(rank.id(), mine, 0);
        // No rank ends before all ranks have stored.
        for channel in &channels[rank.id()] {
            channel.signal(0).sync(BlockSync::Before);
        }
        for channel in &channels[rank.id()] {
            channel.wait(0).sync(BlockSync::After);
        }
    }
}

fn main() -> mscclpp::Result<()> {
    for ranks in [4, 8] {
        examples::demonstrate(allreduce_nvls::plan(ranks), &[1 << 20, (1 << 20) + 40, 8 << 20])?;
    }
    Ok(())
}
