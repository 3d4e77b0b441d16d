//! All-reduce over a switch channel: every rank reduces one part of all inputs in the switch and stores it to all.
//!
//! `cargo run --release --example allreduce_nvls`

use mscclpp::prelude::*;

/// 8 instances split every chunk, so that 8 thread blocks keep the switch busy.
#[collective(AllReduce, ranks = [4, 8], in_place, instances = 8, message_size = 1 << 20..=48 << 30, tags = ["nvls"])]
fn allreduce_nvls(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        // No rank reads or writes before all ranks have started.
        channels.handshake(0).relaxed();
        let mine = rank.input().chunk(rank.id());
        switch.at(rank).reduce(mine, rank.id(), 0);
        switch.at(rank).broadcast(rank.id(), mine, 0);
        // No rank ends before all ranks have stored.
        channels.handshake(0);
    }
}

fn main() -> mscclpp::Result<()> {
    for ranks in [4, 8] {
        examples::demonstrate(allreduce_nvls::plan(ranks), &[1 << 20, (1 << 20) + 40, 8 << 20])?;
    }
    Ok(())
}
