//! Codes of the area `check`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    UnmatchedWait = "M0201" "unmatched-wait": "every channel pair has equally many signals and waits",
        r#"Channel k from a to b is paired with channel k from b to a, counting the channels of one kind between the two ranks in the order of their creation. Each wait on one channel consumes one signal of the other; a signal without a wait is still pending in the next launch. A signal in a loop is sent once per iteration, and the trip count depends on the message size, so its wait must be in a loop of the same unit and span.

Wrong: each rank signals twice and waits once:

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
    IndexOutOfRange = "M0202" "index-out-of-range": "every index in a plan is in range",
        r#"Operations index the channels and remote buffers of their thread block, the thread block indexes those of its rank, and the rank its peers. An index past the end of its table would make an executor read unrelated memory.

Wrong, in a thread block that lists one memory channel:

```json
{"name": "signal", "channel_type": "memory", "channel_ids": [1]}
```

Right:

```json
{"name": "signal", "channel_type": "memory", "channel_ids": [0]}
```"#;
    BadOperands = "M0203" "bad-operands": "an operation has the operands, channels and attributes of its kind",
        r#"`mscclpp plan schema --operations` lists them for each kind of operation.

Wrong: a copy has one source:

```json
{"name": "copy",
 "src_buff": [{"type": "i", "index": 0, "size": 1}, {"type": "i", "index": 1, "size": 1}],
 "dst_buff": [{"type": "o", "index": 0, "size": 1}]}
```

Right, if the sum is intended (otherwise use two copies):

```json
{"name": "re", "reduce_op": "sum",
 "src_buff": [{"type": "i", "index": 0, "size": 1}, {"type": "i", "index": 1, "size": 1}],
 "dst_buff": [{"type": "o", "index": 0, "size": 1}]}
```"#;
    BadLoop = "M0204" "bad-loop": "a pipeline's unit is a positive multiple of 16 bytes and of the buffer alignment, pipelines do not nest, and the operands of their operations cover `num_chunks` chunks",
        r#"Iteration j processes bytes j × unit to (j + 1) × unit of every operand, and the trip count is the size of the span divided by the unit, rounded up. With such a unit, no window ends within a vector, a packet or an element of any type.

Wrong: the loop would run past the end of the chunk:

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
    BarrierMismatch = "M0205" "barrier-mismatch": "all participants of a barrier reach it the same number of times",
        r#"With fewer thread blocks than `num_threadblocks`, the barrier never completes; with more, it completes too early. A thread block that reaches it more often than the others waits forever. In loops, the number of times depends on the message size unless unit and span are equal.

Wrong, where two thread blocks have the operation:

```json
{"name": "barrier", "barrier_id": 0, "num_threadblocks": 3}
```

Right:

```json
{"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
```"#;
    ChunkCountMismatch = "M0206" "chunk-count-mismatch": "all ranks have the same chunk counts, and the counts fit the collective",
        r#"A chunk has the same size on every rank, so that a chunk range of one rank's buffer can be copied to another's.

Wrong, on the ranks of an all-gather over two ranks:

```json
{"input_chunks": 1, "output_chunks": 3}
```

Right:

```json
{"input_chunks": 1, "output_chunks": 2}
```"#;
    UnbalancedSemaphore = "M0207" "unbalanced-semaphore": "every launch releases a semaphore as often as it acquires it",
        r#"Semaphores are initialized once, so a difference changes the value with which the next launch starts. Releases in a loop need acquires in a loop of the same unit and span.

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
    Deadlock = "M0208" "deadlock": "no thread block waits forever",
        r#"A deadlock is a cycle of thread blocks in which each waits for a signal, a semaphore, a barrier or packets that another one provides only after its own wait. Where two thread blocks wait on one channel or acquire one semaphore unordered, either may consume the first signal or unit and block the other forever: give each its own channel or semaphore, or order them.

Wrong: both ranks wait before they signal:

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
    OverLimit = "M0209" "over-limit": "a plan stays within the limits of its target device and executor",
        "All thread blocks of a rank are co-resident, so the device must have room for all of them. The reference executor, that of MSCCL++, is limited to 64 operations, 16 channels and 16 remote buffers of a kind per thread block, 8 channels, 10 sources and 10 destinations per operation, 16 barriers per rank, and 32 bits for byte offsets. It does not check these limits, and a plan that exceeds them corrupts its memory. The CPU executor of this library has no such limits. Exporting splits long operations; a plan that cannot be split is rejected.\n\nWrong: exporting a thread block with 127 operations. Right: distribute the operations over two thread blocks.";
    Race = "M0210" "race": "conflicting accesses to the same memory are ordered by happens-before",
        r#"Two accesses conflict if they overlap, come from different threads, and at least one is a write. They are ordered by block syncs within a thread block, by barriers and semaphores within a rank, and by signals and waits between ranks. A port channel is asynchronous: a put may read its source until the channel is flushed, and may write its destination until the receiver has waited for a later signal of the same channel; the flush guarantees nothing about the destination. A relaxed signal orders execution but does not publish writes.

Wrong: thread block 1 does not wait for thread block 0:

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
    CrossLaunchRace = "M0211" "cross-launch-race": "a launch does not access scratch that the previous launch may still use",
        r#"A rank starts its next launch as soon as its own thread blocks have finished, even if its peers are still running. It must not overwrite packets or plain data that a peer has not read yet. Any synchronization after the last read is enough: a signal that the reader sends at the start of its next launch, or, for example, a packet with the result that the reader sends after it has read. With double scratch, launches alternate between two halves of scratch, so a launch can conflict only with the launch before the previous one. A put over a port channel is complete at its destination when the receiver has waited for a later signal of that channel; a flush guarantees only that the source was read.

Wrong: a rank may start the next launch while its peer is still reading the packets of this one:

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
    EarlyAccess = "M0212" "early-access": "peers access a rank's input and output only after that rank has started the launch",
        r#"Before a rank starts the launch, its caller may still be reading the output of the previous launch, or may not have written the input yet. Any signal of the rank proves that it has started the launch; a relaxed signal is enough.

Wrong: the peer may not have started the launch:

```rust
#[collective(AllGather, ranks = 2, in_place)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let (channel, mine) = (rank.memory_channel(peer), rank.output().chunk(rank.id()));
        channel.put(peer.output().chunk(rank.id()), mine, 0); // wrong
        channel.handshake(0);
    }
}
```

Right:

```rust
        channel.handshake(0).relaxed();
        channel.put(peer.output().chunk(rank.id()), mine, 0);
```"#;
    LateAccess = "M0213" "late-access": "all accesses to a rank's input and output finish before its launch does",
        r#"After a rank's launch has finished, its caller reads the output and writes the input again. That would race with a peer that still accesses these buffers, or with a port put of the rank that has not read its source yet. A put over a port channel has arrived when the receiver has waited for a later signal of the same channel; a flush guarantees only that the source was read, and forwarding it to another rank does not change that.

Wrong: a rank may finish before its peer's put:

```rust
#[collective(AllGather, ranks = 2, in_place)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let (channel, mine) = (rank.memory_channel(peer), rank.output().chunk(rank.id()));
        channel.handshake(0).relaxed();
        channel.put(peer.output().chunk(rank.id()), mine, 0); // wrong
    }
}
```

Right (after a `put` over a port channel, the sender flushes as well, since the signal does not prove that the source was read):

```rust
        channel.put(peer.output().chunk(rank.id()), mine, 0);
        channel.handshake(0);
```"#;
    WrongResult = "M0214" "wrong-result": "outputs satisfy the postcondition of the collective",
        r#"The plan is executed symbolically from the inputs to the outputs. A finding names an output chunk that is not written, holds the wrong chunk, lacks the contribution of a rank, or is reduced with two operations, together with the last location of the missing data and the operation that wrote it there.

Wrong: every chunk is stored one index too high:

```rust
#[collective(AllGather, ranks = 4)]
fn gather(p: &Program) {
    for rank in p.ranks() {
        let (slot, mine) = ((rank.id() + 1) % 4, rank.input().chunk(0)); // wrong
        rank.copy(rank.output().chunk(slot), mine, 0);
        for peer in p.ranks().filter(|peer| peer.id() != rank.id()) {
            let channel = rank.memory_channel(peer);
            channel.signal(0);
            channel.wait(0);
            channel.put(peer.output().chunk(slot), mine, 0);
            channel.signal(0);
            channel.wait(0);
        }
    }
}
```

Right:

```rust
        let (slot, mine) = (rank.id(), rank.input().chunk(0));
```"#;
    DoubleCounted = "M0215" "double-counted": "a reduction includes every contribution exactly once",
        r#"The contribution of a rank can arrive over several paths: directly, and as part of another rank's partial result. Reducing both counts it twice. `min` and `max` are idempotent and not affected.

Wrong: the sum that rank 1 reads already includes its own input:

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
    UninitializedRead = "M0216" "uninitialized-read": "scratch and outputs are written before they are read",
        r#"When a launch starts, scratch and, out of place, outputs are uninitialized: they may hold data of an earlier launch or of another plan.

Wrong: no operation writes the second chunk of scratch:

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
    ClobberedInput = "M0217" "clobbered-input": "out of place, a launch does not modify its inputs",
        r#"A caller that passes separate buffers expects the input to be unchanged, and may pass read-only memory.

Wrong: the sum is written to the input before it is copied to the output:

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
    AnalysisLimit = "M0218" "analysis-limit": "data movement stays within the limit of the analysis",
        "The checks track every range of memory that is moved or reduced separately. A plan in which the number of these ranges keeps growing beyond the number of operations would take unbounded time.\n\nWrong: copying the first half of scratch to the range after it, repeatedly, with different ranges each time. Right: chunks of the size in which the data is moved.";
    PacketsNeedLl = "M0219" "packets-need-ll": "a plan that uses packets has protocol `LL`",
        r#"A packet stores a flag with its data and takes twice the bytes. Protocol `LL` doubles the size of scratch; under `Simple`, packets would be written past its end.

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
    MixedScratch = "M0220" "mixed-scratch": "a byte of scratch holds packets or plain data, never both",
        r#"Packet chunk k of scratch occupies the bytes of plain chunks 2k and 2k + 1. Plain data in these bytes would be read as packets, including their flags, and packets as plain data. A program that needs both allocates the scratch for plain data first.

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
    PlainDoubleScratch = "M0221" "plain-double-scratch": "with double scratch, ranks exchange only packets, not plain data, in each other's scratch",
        r#"With double scratch, launches alternate between two halves of scratch, so that a rank can start the next launch while its peers still read the data of this one. Packets are written to the half of their launch. Not every executor does so for plain data that is put into another rank's scratch, but that rank reads the half of its launch.

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

Right, since the last signal acknowledges that the scratch was read (packets would also work):

```rust
#[collective(AllGather, ranks = 2)]
```"#;
    TooFewThreads = "M0222" "too-few-threads": "an operation names at most `threads_per_block` channels or semaphores",
        r#"A signal, wait, flush, release or acquire of n channels or semaphores is executed by n threads, as is a port put of n pairs of chunks. A channel or semaphore without a thread would be skipped. Consecutive calls of this kind are fused into one operation.

Wrong:

```rust
#[collective(Custom(input = 1, output = 1), ranks = 8, threads_per_block = 4)] // wrong
fn synchronize(p: &Program) {
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
    Undecided = "M0223" "undecided": "the checks prove or refute the plan for every message size",
        "The trip counts of a plan with loops depend on the message size. The checks prove the plan correct for all sizes at once, by finding a period after which the waits of the thread blocks repeat. The proof can fail for loops with many units and spans without a small common multiple, for packets that are read in other windows than those in which they are written, or for thread blocks whose lag grows by a little in each of many thousand iterations. A plan that is not proved is rejected, since it may deadlock at some size.\n\nWrong: loops with units of 1040, 1072, 1136, 1168 and 1184 bytes that signal each other. Right: equal units, or units that divide each other; or a `message_size` range that the proof covers.";
    ContradictingExpectations = "M0224" "contradicting-expectations": "the expectations of an output chunk are equal",
        r#"An output chunk has only one value, so no plan satisfies two different expectations. The reduction of several inputs is one expectation that names all of them.

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
    AcrossNodes = "M0225" "across-nodes": "ranks on different nodes are connected only by port channels",
        r#"With `ranks_per_node`, consecutive ranks share a node, and only ranks of one node can map each other's memory. A memory channel or a switch channel to another node cannot be created, so every executor would reject the plan. Set `ranks_per_node` to the number of ranks that can map each other's memory; that is all of them where one NVLink domain spans several hosts.

Wrong: ranks 0 and 2 are on different nodes:

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
    NoPostcondition = "M0226" "no-postcondition": "a custom collective states the contents of its outputs",
        r#"The postcondition of a custom collective consists of the expectations that its program states with `expect`. Outputs without an expectation may hold anything, and the checks prove nothing about them. This is a warning; disable it with `allow(no_postcondition)` where an output is intentionally unspecified.

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
    ShortChunk = "M0227" "short-chunk": "data on its way is not stored in a chunk of an input or output that may be shorter than those from which and to which it is moved",
        r#"A message may have any number of elements. Where they do not divide evenly, chunks at the end of inputs and outputs are shorter than others, or empty: what is written past the end of a buffer is discarded, and what is read there is zero. Data of input chunk i that an output chunk o requires must therefore not pass through a chunk of an input or output with a greater number than both. (For all-gather, reduce-scatter and all-to-all these are the numbers within the part of a rank.) Chunks of scratch have equal lengths at all counts. Nor does a custom collective normalize rows of a chunk into one with a lower number, which may have more of them.

Wrong: with one element, chunk 1 is empty, so chunk 0 of the output receives nothing:

```rust
#[collective(Custom(input = 2, output = 2), ranks = 1)]
fn keep(p: &Program) {
    let rank = p.rank(0);
    rank.copy(rank.output().chunk(1), rank.input().chunk(0), 0); // wrong
    rank.copy(rank.output().chunk(0), rank.output().chunk(1), 0); // wrong
    rank.copy(rank.output().chunk(1), rank.input().chunk(1), 0);
    p.expect(rank.output().chunk(0), rank.input().chunk(0));
    p.expect(rank.output().chunk(1), rank.input().chunk(1));
}
```

Right:

```rust
    let slot = rank.scratch(1).chunk(0);
    rank.copy(slot, rank.input().chunk(0), 0);
    rank.copy(rank.output().chunk(0), slot, 0);
```

Right as well, if all callers have counts that are a multiple of the chunks; a call with another count is an error:

```rust
#[collective(Custom(input = 2, output = 2), ranks = 1, dividing)]
```"#;
    MixedAverage = "M0228" "mixed-average": "every output of a plan that averages is an average",
        r#"`avg` adds at every step; when a launch ends, executors divide all outputs by the number of ranks, once. The results of other reductions, and copies of inputs, would be divided as well.

Wrong:

```rust
#[collective(Custom(input = 2, output = 2), ranks = 2)]
fn average(p: &Program) {
    for rank in p.ranks() {
        let (first, second) = (rank.input().chunk(0), rank.input().chunk(1));
        rank.reduce(first, second, 0).to(rank.output().chunk(0)).op(ReduceOp::Avg); // wrong
        rank.copy(rank.output().chunk(1), second, 0);
        p.expect(rank.output().chunk(0), [first, second]);
        p.expect(rank.output().chunk(1), second);
    }
}
```

Right: add, and divide where the result is used.

```rust
        rank.reduce(first, second, 0).to(rank.output().chunk(0));
```"#;
    RedundantTransfer = "M0229" "redundant-transfer": "a transfer changes the data at its destination",
        r#"A transfer of data that its destination holds already has no effect and takes time, most of all over a network. This is a warning; disable it with `allow(redundant_transfer)`.

Wrong: the last step sends every rank its own chunk.

```rust
#[collective(AllGather, ranks = 3, in_place)]
fn ring(p: &Program) {
    let n = p.num_ranks();
    for rank in p.ranks() {
        let next = rank.memory_channel((rank.id() + 1) % n);
        let previous = rank.memory_channel((rank.id() + n - 1) % n);
        previous.signal(0).relaxed();
        next.wait(0).relaxed().sync(BlockSync::After);
        for step in 0..n { // wrong
            let chunk = (rank.id() + n - step) % n;
            next.put(next.peer().output().chunk(chunk), rank.output().chunk(chunk), 0);
            next.signal(0);
            previous.wait(0);
        }
    }
}
```

Right:

```rust
        for step in 0..n - 1 {
```"#;
}
