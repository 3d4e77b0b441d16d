//! Everything that channels can do.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    let (here, there) = (a.scratch(4), b.scratch(4));
    let group = p.thread_block_group(0..2);

    let memory = a.memory_channel(b);
    memory.signal(0).relaxed().sync(BlockSync::None);
    memory.wait(0).relaxed().sync(BlockSync::After);
    memory.handshake(0).relaxed().sync(BlockSync::After);
    memory.put(memory.peer().output().chunk(0), a.input().chunk(0), 0);
    memory.put(b.output().chunk(0), a.input().chunk(0), &group);
    memory.get(a.output().chunk(..), b.input().chunk(..), 0);
    memory.reduce(a.output().chunk(0), &[b.input().chunk(0), b.input().chunk(1)], 0).op(ReduceOp::Max);
    memory.put_packets(there.chunk(0), a.input().chunk(0), 0);
    memory.read_put_packets(there.chunk(0), here.chunk(0), &group);

    let port = a.port_channel(1);
    port.put(b.output().chunk(0), a.input().chunk(0), 0);
    port.put_with_signal(b.output().chunk(0), a.input().chunk(0), 0);
    port.put_with_signal_and_flush(b.output().chunk(0), a.input().chunk(0), 0);
    port.put_packets(there.chunk(0), here.chunk(0), 0);
    port.read_put_packets(there.chunk(0), here.chunk(0), 0);
    port.signal(0).sync(BlockSync::Before);
    port.flush(0);
    port.wait(0);

    let peers = vec![b];
    let several: Vec<MemoryChannel<'_>> = a.memory_channels(&peers);
    several.handshake(0).relaxed();
    several[..].handshake(0).sync(BlockSync::Both);
    [memory, several[0]].handshake(0);
    a.port_channels(p.ranks().filter(|peer| *peer != a)).handshake(0);
    a.port_channels([1]).handshake(0).sync(BlockSync::None);

    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    switch.at(a).reduce(a.output().chunk(0), 0, 0).op(ReduceOp::Min);
    switch.at(0).broadcast(0..1, a.output().chunk(0), 0);
    switch.at(1).broadcast_packets(1, there.chunk(0), 0);
}

#[test]
fn runs() {
    f(&Program::new(AlgoSpec::new("channels", CollectiveKind::AllReduce, 2)));
}
