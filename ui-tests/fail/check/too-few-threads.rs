//! Signals to seven peers, which become one operation, in thread blocks of four threads.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 8, threads_per_block = 4)]
fn few(p: &Program) {
    for rank in p.ranks() {
        let peers: Vec<usize> = (0..8).filter(|&peer| peer != rank.id()).collect();
        let channels: Vec<MemoryChannel> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}

fn main() {}
