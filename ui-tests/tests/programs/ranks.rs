//! Everything that ranks do on their own, with every way to name chunks, blocks and ranks.
use mscclpp::prelude::*;

fn local(rank: Rank<'_>, scratch: Buffer<'_, Scratch>, semaphore: Semaphore<'_>, group: &ThreadBlockGroup) {
    let (input, output) = (rank.input(), rank.output());
    let first: Chunk<'_, Input> = input.chunk(0);
    rank.copy(output.chunk(0..2), input.chunk(..=1), group);
    rank.copy(output.chunk(2..), input.chunk(..2), 1_u32);
    rank.copy_packets(scratch.chunk(0), first, 0);
    rank.unpack_packets(output.chunk(0), scratch.chunk(0), 0);
    rank.reduce(first, input.chunk(1), 0);
    rank.reduce(output.chunk(0), &[first.to_any(), scratch.chunk(1).to_any()], group)
        .to(output.chunk(3))
        .op(ReduceOp::Prod);
    rank.reduce_packets(output.chunk(0), vec![scratch.chunk(0), scratch.chunk(1)], 0_i64);
    rank.barrier([0, 1]);
    rank.barrier(0..group.len());
    rank.barrier(group);
    semaphore.acquire(0).sync(BlockSync::After);
    semaphore.release(1);
}

pub fn f(p: &Program) {
    let group = p.thread_block_group(&[2, 3]);
    for rank in p.ranks().rev().filter(|rank| rank.local_id() < p.ranks_per_node()) {
        let (scratch, semaphore) = (rank.scratch(2), rank.semaphore(1));
        p.pipeline(1 << 20, 1, || rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0));
        local(rank, scratch, semaphore, &group);
    }
}

#[test]
fn runs() {
    f(&Program::new(AlgoSpec::new("ranks", CollectiveKind::AllReduce, 4)));
}
