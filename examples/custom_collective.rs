//! A custom collective: a halo exchange, in which every rank receives the edges of its two neighbors.
//!
//! `cargo run --release --example custom_collective`

use mscclpp::prelude::*;

/// Input: left edge, interior, interior, right edge. Output: the left neighbor's right edge, the right neighbor's left
/// edge.
#[collective(Custom(input = 4, output = 2), ranks = [3, 6])]
fn halo_exchange(p: &Program) {
    let ranks = p.num_ranks();
    // Channels are paired in the order of creation: rank r's first channel is to the right, its second to the left, and
    // every receiver creates the matching end.
    for rank in p.ranks() {
        let right = p.rank((rank.id() + 1) % ranks);
        let left = p.rank((rank.id() + ranks - 1) % ranks);
        let to_right = rank.memory_channel(right);
        let to_left = rank.memory_channel(left);
        for (block, channel) in [to_right, to_left].into_iter().enumerate() {
            channel.handshake(block).relaxed();
        }
        // The expected outputs, which the compiler proves.
        p.expect(rank.output().chunk(0), left.input().chunk(3));
        p.expect(rank.output().chunk(1), right.input().chunk(0));
        to_right.put(right.output().chunk(0), rank.input().chunk(3), 0);
        to_left.put(left.output().chunk(1), rank.input().chunk(0), 1);
        for (block, channel) in [to_right, to_left].into_iter().enumerate() {
            channel.handshake(block);
        }
    }
}

fn main() -> mscclpp::Result<()> {
    for ranks in [3, 6] {
        let plan = halo_exchange::plan(ranks);
        // Element 100 r + c of rank r's input is chunk c, with 5 elements per chunk.
        let inputs: Vec<Vec<i32>> =
            (0..ranks).map(|rank| (0..20).map(|i| (100 * rank + i / 5) as i32).collect()).collect();
        let mut outputs = vec![vec![0; 10]; ranks];
        Executor::new(ranks as u32).run(plan, &inputs, &mut outputs)?;
        let mut wrong = 0;
        for (rank, output) in outputs.iter().enumerate() {
            let from_left = 100 * ((rank + ranks - 1) % ranks) as i32 + 3;
            let from_right = 100 * ((rank + 1) % ranks) as i32;
            wrong += output[..5].iter().filter(|&&found| found != from_left).count();
            wrong += output[5..].iter().filter(|&&found| found != from_right).count();
            println!("rank {rank} of {ranks}: left halo {}, right halo {}", output[0], output[5]);
        }
        println!("{wrong} wrong elements\n");
        assert_eq!(wrong, 0);
    }
    Ok(())
}
