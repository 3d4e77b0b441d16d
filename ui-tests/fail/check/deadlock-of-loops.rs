//! Every rank sends its windows before it receives its peer's, and four may be on their way: enough up to 32 KiB.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn eager(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let (data, credit) = (rank.memory_channel(peer), rank.memory_channel(peer));
        for _ in 0..4 {
            credit.signal(0);
        }
        p.pipeline(4096, 1, || {
            credit.wait(0);
            data.put(peer.output().chunk(rank.id()), rank.input().chunk(0), 0);
            data.signal(0);
        });
        p.pipeline(4096, 1, || {
            data.wait(0);
            credit.signal(0);
        });
        for _ in 0..4 {
            credit.wait(0);
        }
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
    }
}

fn main() {}
