//! In a ring of two ranks the next rank is the previous one, so a channel to it is paired with the same one of that rank.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = [3, 2], in_place)]
fn ring(p: &Program) {
    let n = p.num_ranks();
    for rank in p.ranks() {
        let to_next = rank.memory_channel((rank.id() + 1) % n);
        let from_prev = rank.memory_channel((rank.id() + n - 1) % n);
        from_prev.signal(0).relaxed();
        to_next.wait(0).relaxed().sync(BlockSync::After);
        for step in 0..n - 1 {
            let chunk = (rank.id() + n - step) % n;
            to_next.put(to_next.peer().output().chunk(chunk), rank.output().chunk(chunk), 0);
            to_next.signal(0);
            from_prev.wait(0);
        }
    }
}

fn main() {}
