//! Codes of the area `check`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    UnmatchedWait = "M0201" "unmatched-wait": "on every channel pair there are as many waits as signals",
        r#"Channel k from a to b is paired with channel k from b to a, counting the channels of one kind between the two in the order in which they were made. Each wait on one takes one signal of the other, and what is left over is there in the next launch. Signals in a loop come once per iteration, which depends on the message size, so their waits must be in loops of the same unit and span.

Wrong, since each rank signals twice and waits once:

```rust
#[collective(AllGather, ranks = 2, in_place)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0);
        channel.wait(0);
        channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
        channel.signal(0); // wrong
    }
}
```

Right:

```rust
        channel.signal(0);
        channel.wait(0);
```"#;
    IndexOutOfRange = "M0202" "index-out-of-range": "every number in a plan points at something that is there",
        r#"Operations name channels and remote buffers of their thread block, the block those of its rank, the rank its peers. A number beyond its table would make an executor read foreign memory.

Wrong, in a thread block that lists one memory channel:

```json
{"name": "signal", "channel_type": "memory", "channel_ids": [1]}
```

Right:

```json
{"name": "signal", "channel_type": "memory", "channel_ids": [0]}
```"#;
    BadOperands = "M0203" "bad-operands": "an operation has the references, channels and attributes of its kind",
        r#"The table in `docs/plan-format.md` says what each kind has.

Wrong, since a copy has one source:

```json
{"name": "copy",
 "src_buff": [{"type": "i", "index": 0, "size": 1}, {"type": "i", "index": 1, "size": 1}],
 "dst_buff": [{"type": "o", "index": 0, "size": 1}]}
```

Right, if the sum is meant; else two copies:

```json
{"name": "re", "reduce_op": "sum",
 "src_buff": [{"type": "i", "index": 0, "size": 1}, {"type": "i", "index": 1, "size": 1}],
 "dst_buff": [{"type": "o", "index": 0, "size": 1}]}
```"#;
    BadLoop = "M0204" "bad-loop": "a pipeline has a unit that is a positive multiple of 16 bytes and of the buffer alignment, does not nest, and its operations cover as many chunks as it says",
        r#"Iteration j works on bytes j × unit to (j + 1) × unit of every reference, and there are as many iterations as the span has units. Windows are whole vectors, packets and elements of every type.

Wrong, since the loop would run on behind the end of the chunk:

```json
{"name": "pipeline", "iter_context": {"unit_size": 1048576, "num_chunks": 4},
 "ops": [{"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}],
          "dst_buff": [{"type": "o", "index": 0, "size": 1}]}]}
```

Right:

```json
{"name": "pipeline", "iter_context": {"unit_size": 1048576, "num_chunks": 1},
 "ops": [{"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}],
          "dst_buff": [{"type": "o", "index": 0, "size": 1}]}]}
```"#;
    BarrierMismatch = "M0205" "barrier-mismatch": "a barrier is used by as many thread blocks as it says, and by all of them equally often",
        r#"With fewer thread blocks it never opens, with more it opens early; and a block that comes once more than the others waits for ever. In loops, that is a matter of the message size, unless unit and span are equal.

Wrong, with two thread blocks that have the operation:

```json
{"name": "barrier", "barrier_id": 0, "num_threadblocks": 3}
```

Right:

```json
{"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
```"#;
    UnevenChunks = "M0206" "chunk-count-mismatch": "all ranks have the same chunk counts, and those fit the collective",
        r#"A chunk is as long on every rank, so that a range of one rank's buffer can go into another's.

Wrong, on the ranks of an all-gather over two:

```json
{"input_chunks": 1, "output_chunks": 3}
```

Right:

```json
{"input_chunks": 1, "output_chunks": 2}
```"#;
    SemaphoreDrift = "M0207" "unbalanced-semaphore": "every launch releases a semaphore as often as it acquires it",
        r#"Semaphores are set once, so what a launch adds or takes is missing or left over in the next one. Releases in a loop need acquires in a loop of the same unit and span.

Wrong:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 1)]
fn hand_over(p: &Program) {
    let rank = p.rank(0);
    let (slot, filled) = (rank.scratch(1).chunk(0), rank.semaphore(0));
    rank.copy(slot, rank.input().chunk(0), 0);
    filled.release(0); // wrong
    filled.release(0); // wrong
    filled.acquire(1);
    rank.copy(rank.output().chunk(0), slot, 1);
}
```

Right:

```rust
    filled.release(0);
```"#;
    Deadlock = "M0208" "deadlock": "every thread block runs to its end",
        r#"Signals, semaphores, barriers and packets must come before whoever waits for them can hold up whoever gives them. Where two thread blocks wait on one channel or acquire one semaphore in no order, either may take what comes first and leave the other waiting, so they need one each, or an order.

Wrong, since both ranks wait before they signal:

```rust
#[collective(AllGather, ranks = 2, in_place)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.wait(0); // wrong
        channel.signal(0); // wrong
        channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
        channel.signal(0);
        channel.wait(0);
    }
}
```

Right:

```rust
        channel.signal(0);
        channel.wait(0);
```"#;
    OverLimit = "M0209" "over-limit": "a plan fits the device and the executor that it is meant for",
        "All thread blocks of a rank run at once, so a device needs room for all of them. The reference system's executor has room for 64 operations, 16 channels and 16 remote buffers of a kind per thread block, 8 channels and 10 references a side per operation, 16 barriers per rank, and 32 bits for byte offsets; it does not look whether a plan has more, and overwrites its own memory. Our CPU executor has no such limits. Exporting splits long operations; what cannot be split is refused.\n\nWrong: exporting a thread block with 127 operations. Right: spread it over two thread blocks.";
    Race = "M0210" "race": "of two accesses to the same bytes, of which one writes, one is over before the other begins",
        r#"Threads of a block run ahead of each other until they meet, thread blocks and ranks until they signal. A port channel reads a put's source later, until the channel is flushed, and the data arrives later still: a flush tells nothing of the destination, only a later signal of the same channel does, at the receiver that waits for it. Order comes from block syncs within a block, from barriers and semaphores within a rank, and from signals between ranks. A relaxed signal says that something is over, but does not make visible what it wrote.

Wrong, since nothing makes thread block 1 wait for block 0:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 1)]
fn hand_over(p: &Program) {
    let rank = p.rank(0);
    let slot = rank.scratch(1).chunk(0);
    rank.copy(slot, rank.input().chunk(0), 0);
    rank.copy(rank.output().chunk(0), slot, 1); // wrong
}
```

Right:

```rust
    rank.barrier([0, 1]);
    rank.copy(rank.output().chunk(0), slot, 1);
```"#;
    Relaunch = "M0211" "cross-launch-race": "what a launch does first to a piece of scratch comes after what the launch before did last there",
        r#"A rank begins its next launch when its own thread blocks are done, whatever the others do. Packets that its peers have not read yet must not be overwritten then, nor plain data. A signal that says "I have begun" is enough, since it says that the launch before is over; so is any word from behind the last read, a packet with the result for example; and with double scratch launches use two halves in turn, so that only the launch before the last counts. A put over a port channel is over at its destination when the receiver has waited for a later signal of that channel; a flush says only that the source was read.

Wrong, since a rank may begin again while its peer still reads the packets of this launch:

```rust
#[collective(AllReduce, ranks = 2, protocol = LL)] // wrong
fn one_shot(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let (input, output) = (rank.input().chunk(..), rank.output().chunk(..));
        rank.memory_channel(peer).put_packets(slots[peer].chunk(..), input, 0);
        rank.reduce_packets(input, slots[id].chunk(..), 0).to(output);
    }
}
```

Right:

```rust
#[collective(AllReduce, ranks = 2, protocol = LL, double_scratch)]
```"#;
    EarlyAccess = "M0212" "early-access": "nobody touches a rank's input or output before that rank has begun",
        r#"Before a rank begins, its caller may still use what the last launch left in its output, and may not have written its input. Any signal of the rank says that it has begun; a relaxed one is enough.

Wrong, since the peer may not have begun:

```rust
#[collective(AllGather, ranks = 2, in_place)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let (channel, mine) = (rank.memory_channel(peer), rank.output().chunk(rank.id()));
        channel.put(peer.output().chunk(rank.id()), mine, 0); // wrong
        channel.signal(0);
        channel.wait(0);
    }
}
```

Right:

```rust
        channel.signal(0).relaxed();
        channel.wait(0).relaxed();
        channel.put(peer.output().chunk(rank.id()), mine, 0);
```"#;
    OpenEnd = "M0213" "late-access": "what is done to a rank's input and output is over when that rank's thread blocks are done",
        r#"When a rank's launch is over, its caller reads the output and fills the input again. Another rank that still writes or reads there, or a port of its own that has not read its source yet, would collide with that. What a port channel puts has arrived when the receiver has waited for a later signal of the same channel; a flush says only that the source was read, whoever passes that on.

Wrong, since a rank may be done before its peer has put:

```rust
#[collective(AllGather, ranks = 2, in_place)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let (channel, mine) = (rank.memory_channel(peer), rank.output().chunk(rank.id()));
        channel.signal(0).relaxed();
        channel.wait(0).relaxed();
        channel.put(peer.output().chunk(rank.id()), mine, 0); // wrong
    }
}
```

Right; after a port's `put`, a flush by the sender as well, since the signal alone does not say that the source was read:

```rust
        channel.put(peer.output().chunk(rank.id()), mine, 0);
        channel.signal(0);
        channel.wait(0);
```"#;
    WrongResult = "M0214" "wrong-result": "at the end every output holds what the collective promises",
        r#"The plan is followed symbolically from the inputs to the outputs. A chunk of an output that is not written, holds another chunk, lacks what some rank contributes, or is reduced in two ways is named with where the missing part was last and who put it there.

Wrong, since every chunk ends one place too far:

```rust
#[collective(AllGather, ranks = 4)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let (place, mine) = ((rank.id() + 1) % 4, rank.input().chunk(0)); // wrong
        rank.copy(rank.output().chunk(place), mine, 0);
        for peer in p.ranks().filter(|peer| peer.id() != rank.id()) {
            let channel = rank.memory_channel(peer);
            channel.signal(0);
            channel.wait(0);
            channel.put(peer.output().chunk(place), mine, 0);
            channel.signal(0);
            channel.wait(0);
        }
    }
}
```

Right:

```rust
        let (place, mine) = (rank.id(), rank.input().chunk(0));
```"#;
    DoubleCounted = "M0215" "double-counted": "a reduction takes every contribution once",
        r#"What a rank contributes may arrive on several ways: by itself, and as a part of another rank's partial result. Reducing both counts it twice. `min` and `max` do not mind.

Wrong, since the sum that rank 1 reads holds its own input already:

```rust
#[collective(AllReduce, ranks = 2, in_place)]
fn in_turns(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    let (to_b, to_a) = (a.memory_channel(b), b.memory_channel(a));
    to_a.signal(0);
    to_b.wait(0);
    to_b.reduce(a.input().chunk(..), b.input().chunk(..), 0);
    to_b.signal(0);
    to_a.wait(0);
    to_a.reduce(b.input().chunk(..), a.input().chunk(..), 0); // wrong
    to_a.signal(0);
    to_b.wait(0);
}
```

Right:

```rust
    to_a.get(b.input().chunk(..), a.input().chunk(..), 0);
```"#;
    UninitialisedRead = "M0216" "uninitialized-read": "nothing is read that nobody has written in this launch",
        r#"Scratch and, out of place, outputs hold anything when a launch begins: what an earlier launch left, or another plan.

Wrong, since nobody writes the second chunk of scratch:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 1)]
fn through_scratch(p: &Program) {
    let rank = p.rank(0);
    let scratch = rank.scratch(2);
    rank.copy(scratch.chunk(0), rank.input().chunk(0), 0);
    rank.copy(rank.output().chunk(0), scratch.chunk(1), 0); // wrong
}
```

Right:

```rust
    rank.copy(rank.output().chunk(0), scratch.chunk(0), 0);
```"#;
    ClobberedInput = "M0217" "clobbered-input": "out of place, a launch leaves its inputs as they were",
        r#"A caller who hands in separate buffers expects to find the input unchanged, and may hand in memory that cannot be written.

Wrong, since the sum goes into the input before it goes to the output:

```rust
#[collective(AllReduce, ranks = 2, protocol = LL, double_scratch)]
fn one_shot(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let (input, output) = (rank.input().chunk(..), rank.output().chunk(..));
        rank.memory_channel(peer).put_packets(slots[peer].chunk(..), input, 0);
        rank.reduce_packets(input, slots[id].chunk(..), 0); // wrong
        rank.copy(output, input, 0); // wrong
    }
}
```

Right:

```rust
        rank.reduce_packets(input, slots[id].chunk(..), 0).to(output);
```"#;
    TooIntricate = "M0218" "analysis-limit": "the pieces in which a plan moves its data can be followed",
        "The checks keep account of every piece of memory that is moved or reduced on its own. A plan with ever more pieces than it has operations would take unbounded time.\n\nWrong: copying the front half of scratch behind itself, over and over, with the pieces all different. Right: chunks as large as what is moved.";
    PacketsWithoutRoom = "M0219" "packets-need-ll": "a plan with packets has protocol `LL`",
        r#"A packet carries a flag beside its data and takes twice the bytes. Protocol `LL` makes scratch twice as long; under `Simple` packets would run over its end.

Wrong:

```rust
#[collective(AllReduce, ranks = 2, double_scratch)] // wrong
fn one_shot(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let (input, output) = (rank.input().chunk(..), rank.output().chunk(..));
        rank.memory_channel(peer).put_packets(slots[peer].chunk(..), input, 0);
        rank.reduce_packets(input, slots[id].chunk(..), 0).to(output);
    }
}
```

Right:

```rust
#[collective(AllReduce, ranks = 2, protocol = LL, double_scratch)]
```"#;
    SharedScratch = "M0220" "mixed-scratch": "a byte of scratch holds packets or plain data, never both",
        r#"Packet chunk k of scratch takes the bytes of plain chunks 2k and 2k + 1. Plain data there would be taken for packets, flags included, and the other way round. Where a program needs both, it makes the scratch for plain data first.

Wrong:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 1, protocol = LL)]
fn through_packets(p: &Program) {
    let rank = p.rank(0);
    let slot = rank.scratch(1).chunk(0);
    rank.copy_packets(slot, rank.input().chunk(0), 0);
    rank.copy(rank.output().chunk(0), slot, 0); // wrong
}
```

Right:

```rust
    rank.unpack_packets(rank.output().chunk(0), slot, 0);
```"#;
    PlainDoubleScratch = "M0221" "plain-double-scratch": "with double scratch, ranks exchange packets, no plain data, in each other's scratch",
        r#"Double scratch lets a rank begin the next launch while others still read what it sent in this one: launches take turns with two halves. Packets go to the half of their launch. Plain data that is put into another rank's scratch does not on every executor, while that rank reads from the half of its launch.

Wrong:

```rust
#[collective(AllGather, ranks = 2, double_scratch)] // wrong
fn gather(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let channel = rank.memory_channel(peer);
        rank.copy(rank.output().chunk(id), rank.input().chunk(0), 0);
        channel.put(slots[peer].chunk(0), rank.input().chunk(0), 0);
        channel.signal(0);
        channel.wait(0);
        rank.copy(rank.output().chunk(peer), slots[id].chunk(0), 0);
        channel.signal(0);
        channel.wait(0);
    }
}
```

Right, since the last signal says that the scratch has been read; or with packets:

```rust
#[collective(AllGather, ranks = 2)]
```"#;
    TooFewThreads = "M0222" "too-few-threads": "a thread block has a thread for every channel or semaphore of an operation",
        r#"A signal, wait, flush, release or acquire of n channels or semaphores is executed by n threads, a port put of n pairs as well. What has no thread would not happen. Such calls behind each other become one operation.

Wrong:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 8, threads_per_block = 4)] // wrong
fn meet(p: &Program) {
    for rank in p.ranks() {
        let peers: Vec<usize> = (0..8).filter(|&peer| peer != rank.id()).collect();
        let channels: Vec<MemoryChannel> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}
```

Right:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 8, threads_per_block = 32)]
```"#;
    Undecided = "M0223" "undecided": "the checks reach a verdict for every message size",
        "What a plan with loops does depends on the size of the message. The checks prove it right for all sizes at once, by finding where what thread blocks wait for repeats. Loops of many units and spans without a small common multiple, packets that are read in other windows than they are written, or thread blocks that fall back a little further in every one of many thousand iterations can be beyond that. What is not proved is refused, as it might deadlock at some size.\n\nWrong: loops in windows of 1040, 1072, 1136, 1168 and 1184 bytes that signal each other. Right: equal windows, or windows that divide each other; or a `message_size` that the proof reaches.";
    ContradictingExpectations = "M0224" "contradicting-expectations": "the expectations of an output chunk agree",
        r#"An output chunk cannot hold two different contents, so no plan satisfies both expectations. The reduction of several inputs is one expectation that names all of them.

Wrong:

```rust
#[collective(Custom(input = 2, output = 1), ranks = 2)]
fn keep(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
        p.expect(rank.output().chunk(0), rank.input().chunk(0));
        p.expect(rank.output().chunk(0), rank.input().chunk(1)); // wrong
    }
}
```

Right:

```rust
        // the output holds the first input chunk only
```"#;
    AcrossNodes = "M0225" "across-nodes": "ranks of different nodes exchange data and signals over port channels only",
        r#"With `ranks_per_node`, consecutive ranks share a node, and only ranks of one node can map each other's memory. A memory channel or a switch channel to another node could not be set up, so every executor would refuse the plan. Let `ranks_per_node` be the number of ranks that can map each other's memory: all of them, where one NVLink domain spans several hosts.

Wrong, since ranks 0 and 2 are on different nodes:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 4, ranks_per_node = 2)]
fn far(p: &Program) {
    let (near, far) = (p.rank(0), p.rank(2));
    let (to, from) = (near.memory_channel(far), far.memory_channel(near)); // wrong
    from.signal(0).relaxed(); // wrong
    to.wait(0).relaxed(); // wrong
    to.put(far.output().chunk(0), near.input().chunk(0), 0); // wrong
    to.signal(0); // wrong
    from.wait(0);
}
```

Right:

```rust
    let (to, from) = (near.port_channel(far), far.port_channel(near));
    from.signal(0);
    to.wait(0);
    to.put_with_signal_and_flush(far.output().chunk(0), near.input().chunk(0), 0);
```"#;
    NoPostcondition = "M0226" "no-postcondition": "a custom collective states what its outputs hold",
        r#"A custom collective has no postcondition but what its program states with `expect`. Outputs that the program leaves out may hold anything, and the checks prove nothing about them. This is a warning; `allow(no_postcondition)` turns it off where an output is left open on purpose.

Wrong:

```rust
#[collective(Custom(input = 2, output = 1), ranks = 2)]
fn keep(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(0), rank.input().chunk(1), 0); // wrong
    }
}
```

Right:

```rust
        rank.copy(rank.output().chunk(0), rank.input().chunk(1), 0);
        p.expect(rank.output().chunk(0), rank.input().chunk(1));
```"#;
}
