//! All-reduce as a pipeline of three thread blocks over windows of the message: copy in, reduce in the switch, copy out.
//!
//! `cargo run --release --example allreduce_pipeline`

use mscclpp::prelude::*;

#[collectives]
mod pipeline {
    use super::*;

    /// Window of the pipeline in bytes.
    const UNIT: u64 = 1 << 16;

    /// While one window is reduced, the next is copied in and the previous one is copied out.
    #[collective(AllReduce, ranks = [2, 4])]
    pub(crate) fn allreduce_pipeline(p: &Program) {
        let ranks = p.num_ranks();
        let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
        let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
        for rank in p.ranks() {
            let buffer = scratch[rank.id()];
            let peers: Vec<_> = p.ranks().filter(|peer| *peer != rank).collect();
            let arrived = rank.memory_channels(&peers);
            let reduced = rank.memory_channels(&peers);
            let copied_in = rank.semaphore(0);
            let stored = rank.semaphore(0);
            p.pipeline(UNIT, 1, || {
                for part in 0..ranks {
                    rank.copy(buffer.chunk(part), rank.input().chunk(part), 0);
                }
                arrived.handshake(0);
                copied_in.release(0);

                copied_in.acquire(1).sync(BlockSync::After);
                let mine = buffer.chunk(rank.id());
                switch.at(rank).reduce(mine, rank.id(), 1);
                switch.at(rank).broadcast(rank.id(), mine, 1);
                for channel in &reduced {
                    channel.signal(1).sync(BlockSync::Before);
                }
                stored.release(1);

                stored.acquire(2);
                for channel in &reduced {
                    channel.wait(2).sync(BlockSync::After);
                }
                for part in 0..ranks {
                    rank.copy(rank.output().chunk(part), buffer.chunk(part), 2);
                }
            });
        }
    }
}

fn main() -> mscclpp::Result<()> {
    for ranks in [2, 4] {
        examples::demonstrate(pipeline::allreduce_pipeline::plan(ranks), &[1 << 16, 1 << 20, (4 << 20) + 12])?;
    }
    Ok(())
}
