//! A put over a port channel that is only flushed; another rank, told of the flush, tells the receiver.
use mscclpp::prelude::*;

#[collective(Custom(input = 1, output = 1), ranks = 4, ranks_per_node = 2)]
fn flushed(p: &Program) {
    let [a, b, c] = [0, 1, 2].map(|rank| p.rank(rank));
    let (ac, ca) = (a.port_channel(c), c.port_channel(a));
    let (ab, ba) = (a.memory_channel(b), b.memory_channel(a));
    let (bc, cb) = (b.port_channel(c), c.port_channel(b));
    ca.signal(0);
    ac.wait(0).sync(BlockSync::After);
    ac.put(c.output().chunk(0), a.input().chunk(0), 0);
    ac.flush(0);
    ab.signal(0).sync(BlockSync::Before);
    ba.wait(0).sync(BlockSync::After);
    bc.signal(0).sync(BlockSync::Before);
    cb.wait(0).sync(BlockSync::After);
    p.expect(c.output().chunk(0), a.input().chunk(0));
}

fn main() {}
