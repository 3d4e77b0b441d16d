//! Two-rank programs of the reference's executor tests: every kind of operation, without symmetry.

use mscclpp_core::dsl::Program;

pub(crate) fn reduce(p: &Program) {
    let (first, second) = (p.rank(0), p.rank(1));
    let (to_second, to_first) = (first.memory_channel(second), second.memory_channel(first));
    let (a, b) = (first.input(), second.input());
    let (s, t) = (first.scratch(4), second.scratch(4));

    first.copy(s.chunk(2..4), a.chunk(2..4), 0);
    second.copy(t.chunk(0..2), b.chunk(0..2), 0);
    to_second.signal(0);
    to_first.signal(0);
    to_second.wait(0);
    to_first.wait(0);

    to_second.reduce(a.chunk(0), t.chunk(0), 0);
    to_second.put(b.chunk(0), a.chunk(0), 0);
    to_second.get(s.chunk(1), t.chunk(1), 0);
    first.reduce(a.chunk(1), s.chunk(1), 0);
    to_second.put(b.chunk(1), a.chunk(1), 0);

    to_first.reduce(b.chunk(2..4), a.chunk(2..4), 0);
    second.copy(t.chunk(2..4), b.chunk(2..4), 0);
    to_first.put(a.chunk(2..4), t.chunk(2..4), 0);

    to_second.signal(0);
    to_first.signal(0);
    to_second.wait(0);
    to_first.wait(0);
}

/// Has a race: a block reads data of the peer that the peer's other block may not have written yet.
pub(crate) fn reduce_group(p: &Program) {
    let (first, second) = (p.rank(0), p.rank(1));
    let to_second: Vec<_> = (0..2).map(|_| first.memory_channel(second)).collect();
    let to_first: Vec<_> = (0..2).map(|_| second.memory_channel(first)).collect();
    let (a, b) = (first.input(), second.input());
    let (s, t) = (first.scratch(4), second.scratch(4));
    let group = p.thread_block_group([0, 1]);
    let meet = || {
        for block in 0..2 {
            to_second[block].signal(block);
            to_first[block].signal(block);
        }
        for block in 0..2 {
            to_second[block].wait(block);
            to_first[block].wait(block);
        }
    };

    first.copy(s.chunk(2..4), a.chunk(2..4), &group);
    second.copy(t.chunk(0..2), b.chunk(0..2), &group);
    meet();

    to_second[0].reduce(a.chunk(0), t.chunk(0), &group);
    to_second[0].put(b.chunk(0), a.chunk(0), &group);
    to_second[0].get(s.chunk(1), t.chunk(1), &group);
    first.reduce(a.chunk(1), s.chunk(1), &group);
    to_second[0].put(b.chunk(1), a.chunk(1), &group);

    to_first[0].reduce(b.chunk(2..4), a.chunk(2..4), &group);
    second.copy(t.chunk(2..4), b.chunk(2..4), &group);
    to_first[0].put(a.chunk(2..4), t.chunk(2..4), &group);
    meet();
}

pub(crate) fn reduce_packets_group(p: &Program) {
    let (first, second) = (p.rank(0), p.rank(1));
    let (to_second, to_first) = (first.memory_channel(second), second.memory_channel(first));
    let (a, b) = (first.input(), second.input());
    let (s, t) = (first.scratch(3), second.scratch(3));
    let groups: Vec<_> = (0..3).map(|i| p.thread_block_group([2 * i, 2 * i + 1])).collect();

    to_second.put_packets(t.chunk(1), a.chunk(1), &groups[0]);
    to_first.put_packets(s.chunk(0), b.chunk(0), &groups[0]);

    first.reduce_packets(a.chunk(0), s.chunk(0), &groups[1]);
    to_second.put_packets(t.chunk(0), a.chunk(0), &groups[1]);

    second.reduce_packets(b.chunk(1), t.chunk(1), &groups[1]);
    second.copy_packets(t.chunk(2), b.chunk(1), &groups[1]);
    to_first.read_put_packets(s.chunk(1), t.chunk(2), &groups[1]);

    first.unpack_packets(a.chunk(1), s.chunk(1), &groups[2]);
    second.unpack_packets(b.chunk(0), t.chunk(0), &groups[2]);
}

pub(crate) fn transfer_packets(p: &Program) {
    let (first, second) = (p.rank(0), p.rank(1));
    let (to_second, to_first) = (first.memory_channel(second), second.memory_channel(first));
    let (a, b) = (first.output(), second.output());
    let (s, t) = (first.scratch(2), second.scratch(2));

    to_second.put_packets(t.chunk(0), a.chunk(0), 0);
    second.copy_packets(t.chunk(1), b.chunk(1), 0);
    to_first.read_put_packets(s.chunk(1), t.chunk(1), 1);
    first.unpack_packets(a.chunk(1), s.chunk(1), 1);
    second.unpack_packets(b.chunk(0), t.chunk(0), 2);
}

pub(crate) fn transfer_packets_group(p: &Program) {
    let (first, second) = (p.rank(0), p.rank(1));
    let (to_second, to_first) = (first.memory_channel(second), second.memory_channel(first));
    let (a, b) = (first.output(), second.output());
    let (s, t) = (first.scratch(2), second.scratch(2));
    let groups: Vec<_> = (0..3).map(|i| p.thread_block_group([2 * i, 2 * i + 1])).collect();

    to_second.put_packets(t.chunk(0), a.chunk(0), &groups[0]);
    second.copy_packets(t.chunk(1), b.chunk(1), &groups[0]);
    to_first.read_put_packets(s.chunk(1), t.chunk(1), &groups[1]);
    first.unpack_packets(a.chunk(1), s.chunk(1), &groups[1]);
    second.unpack_packets(b.chunk(0), t.chunk(0), &groups[2]);
}

pub(crate) fn reduce_packets(p: &Program) {
    let (first, second) = (p.rank(0), p.rank(1));
    let (to_second, to_first) = (first.memory_channel(second), second.memory_channel(first));
    let (a, b) = (first.input(), second.input());
    let (s, t) = (first.scratch(3), second.scratch(3));

    to_second.put_packets(t.chunk(1), a.chunk(1), 0);
    to_first.put_packets(s.chunk(0), b.chunk(0), 0);

    first.reduce_packets(a.chunk(0), s.chunk(0), 1);
    to_second.put_packets(t.chunk(0), a.chunk(0), 1);

    second.reduce_packets(b.chunk(1), t.chunk(1), 1);
    second.copy_packets(t.chunk(2), b.chunk(1), 1);
    to_first.read_put_packets(s.chunk(1), t.chunk(2), 1);

    first.unpack_packets(a.chunk(1), s.chunk(1), 2);
    second.unpack_packets(b.chunk(0), t.chunk(0), 2);
}
