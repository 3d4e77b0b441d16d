//! A collective with every argument of the attribute, and what stands beside it.
use mscclpp::prelude::*;

/// Every rank puts its chunks into every other rank's output, over one channel per thread block.
#[collective(
    AllGather,
    ranks = [4],
    in_place,
    chunk_factor = 2,
    name = "gather",
    params(blocks = [1, 2]),
    ranks_per_node = 4,
    instances = 2,
    replication = interleaved,
    protocol = Simple,
    threads_per_block = 512,
    message_size = 1 << 10..=1 << 30,
    tags(small = 1, level = 3),
    fuse = true,
    auto_sync = true,
    reuse_resources,
    double_scratch = false,
    buffer_alignment = 32,
    check = full,
    max_steps = 100_000
)]
fn allgather(p: &Program, blocks: usize) {
    let part = p.chunk_factor();
    for rank in p.ranks() {
        let mine = rank.id() * part..(rank.id() + 1) * part;
        for peer in p.ranks().filter(|peer| *peer != rank) {
            for block in 0..blocks {
                let channel = rank.memory_channel(peer);
                let chunk = mine.start + block % part;
                channel.handshake(block).relaxed();
                channel.put(peer.output().chunk(chunk), rank.output().chunk(chunk), block);
                if blocks == 1 {
                    channel.put(peer.output().chunk(mine.end - 1), rank.output().chunk(mine.end - 1), block);
                }
                channel.handshake(block);
            }
        }
    }
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    assert_eq!(allgather::plans().len(), 2);
    assert!(allgather::try_plan(3, 1).is_none());
    let plan = allgather::plan(4, 2);
    assert_eq!((plan.name(), plan.num_ranks(), plan.buffer_alignment()), ("gather_blocks2", 4, 32));
    let tags: Vec<_> = plan.tags().collect();
    assert_eq!(tags, [("level", 3), ("small", 1)]);
    // The same function at run time, for a size without an embedded plan.
    let mut spec = allgather::spec(6, 2);
    spec.ranks_per_node = 6;
    let larger = allgather::compile(spec, 2)?;
    let mut buffers: Vec<Vec<i32>> =
        (0..6).map(|rank| (0..6 * 256).map(|i| i * i32::from(i / 256 == rank)).collect()).collect();
    Executor::new(6).run_in_place(&larger, &mut buffers)?;
    assert!(buffers.iter().all(|buffer| buffer.iter().copied().eq(0..6 * 256)));
    assert_eq!(allgather::algorithm().params().len(), 1);
    Ok(())
}
