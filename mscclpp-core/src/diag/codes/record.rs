//! Codes of the recorder: mistakes of single calls of the authoring API.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    NoRanks = "M0001" "no-ranks": "a program has at least one rank",
        "A collective runs on 1 rank or more; with 0 ranks there is nothing to record.\n\nWrong: `ranks = 0`. Right: `ranks = 2`.";
    RankOutOfRange = "M0002" "rank-out-of-range": "ranks are numbered from 0 to the number of ranks less one",
        "`p.rank(i)` names one of the ranks of the program.\n\nWrong, with 4 ranks: `p.rank(4)`. Right: `p.rank(3)`, or `p.ranks()` for all of them.";
    BadSpec = "M0003" "bad-specification": "the arguments of a collective must fit each other",
        "Threads per block lie in 1..=1024, buffer alignment is a power of two, the smallest message is not larger than the largest, chunk factor and instances are at least 1, `replication = none` goes with one instance, ranks are a multiple of ranks per node.\n\nWrong: `instances = 2, replication = none`. Right: leave `replication` out.";
    ChunkOutOfRange = "M0004" "chunk-out-of-range": "a chunk lies inside its buffer",
        "The collective and its chunk factor say how many chunks the input and output of a rank have; scratch has as many as were asked for.\n\nWrong, in an all-gather of 4 ranks: `rank.output().chunk(4)`. Right: `rank.output().chunk(3)`.";
    ReversedSlice = "M0005" "reversed-slice": "a chunk range starts before it ends",
        "Wrong: `buffer.chunk(3..1)`. Right: `buffer.chunk(1..3)`.";
    EmptyChunk = "M0006" "empty-chunk": "a chunk range holds at least one chunk",
        "An empty range would record operations that do nothing.\n\nWrong: `buffer.chunk(2..2)`. Right: leave the operation out, or `buffer.chunk(2..3)`.";
    WrongRank = "M0007" "wrong-rank": "an operation works on chunks of the ranks it connects",
        "A local operation takes chunks of its own rank. A channel from a to b puts from a's chunks into b's, and gets from b's into a's.\n\nWrong: `a.memory_channel(b).put(a.output().chunk(0), a.input().chunk(0), 0)`. Right: `put(b.output().chunk(0), a.input().chunk(0), 0)`.";
    SizeMismatch = "M0008" "size-mismatch": "the chunks of one operation have equal sizes",
        "Wrong: `rank.copy(output.chunk(0..2), input.chunk(0), 0)`. Right: `rank.copy(output.chunk(0..2), input.chunk(0..2), 0)`.";
    OverlappingCopy = "M0009" "overlapping-copy": "source and destination of one operation do not overlap partly",
        "Threads copy in no particular order, so an overlapping copy has no defined result.\n\nWrong: `rank.copy(input.chunk(1..3), input.chunk(0..2), 0)`. Right: copy through scratch.";
    EmptyList = "M0010" "empty-list": "a reduction combines at least two chunks, a group or barrier names at least one thread block",
        "Wrong: `rank.reduce(x, &[], 0)`. Right: `rank.reduce(x, &[y], 0)`.";
    BlockOutOfRange = "M0011" "thread-block-out-of-range": "thread blocks are numbered from 0 and stay below 65536",
        "Using thread block k creates all blocks below it as well, and each takes part in the launch.\n\nWrong: `copy(a, b, -1)`. Right: `copy(a, b, 0)`.";
    BadGroup = "M0012" "bad-group": "the members of a thread-block group or a switch channel are distinct",
        "Wrong: `p.thread_block_group([0, 0])`. Right: `p.thread_block_group([0, 1])`.";
    BadBarrier = "M0013" "bad-barrier": "a barrier names each of its thread blocks once",
        "A block that is named twice would wait for itself for ever.\n\nWrong: `rank.barrier([0, 0])`. Right: `rank.barrier([0, 1])`.";
    SelfChannel = "M0014" "self-channel": "a channel connects two different ranks",
        "Wrong: `rank.memory_channel(rank)`. Right: `rank.copy(…)` for data that stays on the rank.";
    NotAMember = "M0015" "not-a-member": "a rank uses only switch channels that it is a member of",
        "Wrong: `p.switch_channel([0, 1], BufferKind::Input).at(p.rank(2))`. Right: add rank 2 to the channel.";
    NestedPipeline = "M0016" "nested-pipeline": "pipelined loops do not nest",
        "A plan has one level of loops. Wrong: `p.pipeline(u, 1, || p.pipeline(v, 1, || …))`. Right: one loop after the other.";
    BadPipeline = "M0017" "bad-pipeline": "a pipelined loop has a unit that is a multiple of 16 bytes and of the buffer alignment, and its operations cover the chunks that it spans",
        "Iteration j works on bytes j × unit to (j + 1) × unit of every reference, so all references in a loop must be as long as the loop's span.\n\nWrong: `p.pipeline(1000, 4, || rank.copy(out.chunk(0), inp.chunk(0), 0))`. Right: `p.pipeline(1 << 20, 1, || …)`.";
    TooLarge = "M0018" "too-large": "a program stays within 32-bit numbers of chunks, channels and operations",
        "Chunk counts are ranks × chunk factor × instances. A program that needs more than 2^32 - 1 of anything is refused rather than cut short.\n\nWrong: `rank.scratch(1 << 40)`. Right: `rank.scratch(8)`; chunks have no size of their own, the message is divided among them.";
    NotScratch = "M0019" "not-scratch": "packets live in scratch",
        "Packets carry flags beside the data, so they need twice the bytes, which only scratch under `protocol = LL` has. rustc refuses most of these programs; this code is left for chunks whose buffer is only known when the program runs.\n\nWrong: `channel.put_packets(peer.output().chunk(0), mine, 0)`. Right: put into `peer.scratch(n).chunk(0)` and unpack there.";
    ForeignHandle = "M0020" "foreign-handle": "handles are used with the program that made them",
        "A chunk, channel or group of one program means nothing in another.\n\nWrong: keeping a `Chunk` in a static. Right: make it anew from `p`.";
    MixedSizes = "M0021" "mixed-sizes": "with several instances, operations that share memory name it in the same chunk ranges",
        "Instance k of n works on the k-th part of every range. Two ranges that overlap without being equal put one chunk into different instances, which nothing orders. Such ranges are taken apart into single chunks, which works except inside pipelined loops and in thread-block groups.\n\nWrong, with 2 instances: a group copies `scratch.chunk(0..2)`, then one block reads `scratch.chunk(1)`. Right: the group copies `scratch.chunk(0)`, then `scratch.chunk(1)`.";
    WrongChannel = "M0022" "wrong-channel": "an operation goes over a channel that can do it",
        "A memory channel reads and writes the peer's memory at once; a port channel queues puts for a proxy, which cannot read for the caller. In the typed API rustc refuses the wrong one; this code is left for the older API, where the channel is an argument.\n\nWrong: `c.get(peer, Buffer::Output, 0, 0, ChannelType::Proxy)`. Right: `c.get(peer, Buffer::Output, 0, 0, ChannelType::Sm)`.";
    ChunksApart = "M0023" "non-contiguous-chunks": "chunks that are taken as one lie side by side in one buffer, or, on a switch, at the same place of every rank",
        "One reference is one range of one buffer. `group` joins neighbours; `group_load_reduce` combines what lies at the same place of the same buffer on every rank.\n\nWrong: `p.chunk(0, Buffer::Input, 0, 1).group(p.chunk(0, Buffer::Input, 2, 1))`. Right: `p.chunk(0, Buffer::Input, 0, 3)`.";
}
