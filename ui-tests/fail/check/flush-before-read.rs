//! A put over a port channel that is only flushed, and data that is read after a signal of another channel.
use mscclpp::prelude::*;

#[collective(Custom(input = 1, output = 1), ranks = 2)]
fn flushed(p: &Program) {
    let [a, b] = [0, 1].map(|rank| p.rank(rank));
    let slot = b.scratch(1).chunk(0);
    let (port, back) = (a.port_channel(b), b.port_channel(a));
    let (to, from) = (a.memory_channel(b), b.memory_channel(a));
    back.signal(0);
    port.wait(0).sync(BlockSync::After);
    port.put(slot, a.input().chunk(0), 0);
    port.flush(0);
    to.signal(0).sync(BlockSync::Before);
    from.wait(0).sync(BlockSync::After);
    b.copy(b.output().chunk(0), slot, 0);
    p.expect(b.output().chunk(0), a.input().chunk(0));
}

fn main() {}
