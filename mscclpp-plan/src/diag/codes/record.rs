//! Codes of the recorder: mistakes of single calls of the authoring API.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    NoRanks = "M0001" "no-ranks": "a program has at least one rank",
        "A collective runs on one or more ranks; with 0 ranks there is nothing to record.\n\nWrong: `ranks = 0`. Right: `ranks = 2`.";
    RankOutOfRange = "M0002" "rank-out-of-range": "rank numbers are in `0..num_ranks`",
        "`p.rank(i)` returns rank i of the program.\n\nWrong, with 4 ranks: `p.rank(4)`. Right: `p.rank(3)`, or `p.ranks()` for all of them.";
    BadSpecification = "M0003" "bad-specification": "the arguments of a collective are consistent",
        "`threads_per_block` is in 1..=1024, the buffer alignment is a power of two, the smallest message size is not larger than the largest, `chunk_factor` and `instances` are at least 1, `replication = none` requires one instance, and the number of ranks is a multiple of `ranks_per_node`.\n\nWrong: `instances = 2, replication = none`. Right: omit `replication`.";
    ChunkOutOfRange = "M0004" "chunk-out-of-range": "a chunk range lies within its buffer",
        "The collective and its chunk factor determine the number of input and output chunks of a rank; scratch has the number of chunks that was requested.\n\nWrong, in an all-gather of 4 ranks: `rank.output().chunk(4)`. Right: `rank.output().chunk(3)`.";
    ReversedSlice = "M0005" "reversed-slice": "a chunk range does not end before it starts",
        "Wrong: `buffer.chunk(3..1)`. Right: `buffer.chunk(1..3)`.";
    EmptyChunk = "M0006" "empty-chunk": "a chunk range contains at least one chunk",
        "An empty range would record operations that do nothing.\n\nWrong: `buffer.chunk(2..2)`. Right: omit the operation, or use `buffer.chunk(2..3)`.";
    WrongRank = "M0007" "wrong-rank": "an operation uses chunks of its own rank, or of the two ranks of its channel; a handshake uses channels of one rank",
        "A local operation uses chunks of its own rank. A channel from a to b puts chunks of a into chunks of b, and gets chunks of b into chunks of a.\n\nWrong: `a.memory_channel(b).put(a.output().chunk(0), a.input().chunk(0), 0)`. Right: `put(b.output().chunk(0), a.input().chunk(0), 0)`.\n\nWrong: `[a.memory_channel(b), b.memory_channel(a)].handshake(0)`. Right: `a.memory_channels([b]).handshake(0)`, and the same for b.";
    SizeMismatch = "M0008" "size-mismatch": "the chunk ranges of an operation have equal sizes",
        "Wrong: `rank.copy(output.chunk(0..2), input.chunk(0), 0)`. Right: `rank.copy(output.chunk(0..2), input.chunk(0..2), 0)`.";
    OverlappingCopy = "M0009" "overlapping-copy": "source and destination of an operation do not partially overlap",
        "The threads of a block copy in an unspecified order, so the result of an overlapping copy is undefined.\n\nWrong: `rank.copy(input.chunk(1..3), input.chunk(0..2), 0)`. Right: copy through scratch.";
    EmptyList = "M0010" "empty-list": "a reduction combines at least two chunks, and a group or barrier names at least one thread block",
        "Wrong: `rank.reduce(x, &[], 0)`. Right: `rank.reduce(x, &[y], 0)`.";
    ThreadBlockOutOfRange = "M0011" "thread-block-out-of-range": "thread block numbers are in `0..65536`",
        "Using thread block k also creates all thread blocks with smaller numbers, and each of them is launched.\n\nWrong: `copy(a, b, -1)`. Right: `copy(a, b, 0)`.";
    BadGroup = "M0012" "bad-group": "the members of a thread-block group or a switch channel are distinct",
        "Wrong: `p.thread_block_group([0, 0])`. Right: `p.thread_block_group([0, 1])`.";
    BadBarrier = "M0013" "bad-barrier": "a barrier names each of its thread blocks once",
        "A thread block that is named twice would wait for itself forever.\n\nWrong: `rank.barrier([0, 0])`. Right: `rank.barrier([0, 1])`.";
    SelfChannel = "M0014" "self-channel": "a channel connects two different ranks",
        "Wrong: `rank.memory_channel(rank)`. Right: `rank.copy(…)` for data that stays on the rank.";
    NotAMember = "M0015" "not-a-member": "a rank uses only switch channels that it is a member of",
        "Wrong: `p.switch_channel([0, 1], BufferKind::Input).at(p.rank(2))`. Right: add rank 2 to the channel.";
    NestedPipeline = "M0016" "nested-pipeline": "pipelined loops do not nest",
        "A plan has one level of loops.\n\nWrong: `p.pipeline(u, 1, || p.pipeline(v, 1, || …))`. Right: one loop after the other.";
    BadPipeline = "M0017" "bad-pipeline": "a pipelined loop's unit is a positive multiple of 16 bytes and of the buffer alignment, and the operands of its operations cover its span",
        "Iteration j processes bytes j × unit to (j + 1) × unit of every operand, so the size of every operand in a loop must equal the span of the loop.\n\nWrong: `p.pipeline(1000, 4, || rank.copy(out.chunk(0), inp.chunk(0), 0))`. Right: `p.pipeline(1 << 20, 1, || …)`.";
    TooLarge = "M0018" "too-large": "a program has at most 2^32 - 1 chunks, channels and operations",
        "Plans store these numbers in 32 bits; a chunk count is ranks × chunk factor × instances. A program that exceeds the limit is rejected rather than truncated.\n\nWrong: `rank.scratch(1 << 40)`. Right: `rank.scratch(8)`; chunks have no fixed size, since the message is divided among them.";
    NotScratch = "M0019" "not-scratch": "packets are stored only in scratch",
        "A packet stores a flag with its data and takes twice the bytes, which only scratch under `protocol = LL` has. rustc rejects most of these programs; this code is for chunks whose buffer is known only when the program runs.\n\nWrong: `channel.put_packets(peer.output().chunk(0), mine, 0)`. Right: put the packets into `peer.scratch(n).chunk(0)` and unpack them on the peer.";
    ForeignHandle = "M0020" "foreign-handle": "handles are used only with the program that created them",
        "A chunk, channel or group of one program is invalid in another.\n\nWrong: keeping a `Chunk` in a static. Right: create it again from `p`.";
    MixedSizes = "M0021" "mixed-sizes": "with several instances, operations that access the same memory use equal chunk ranges",
        "Instance k of n processes the k-th part of every range. If two ranges overlap without being equal, a chunk belongs to different instances, which are not ordered. Such ranges are split into single chunks, except inside pipelined loops and in thread-block groups, where that is not possible.\n\nWrong, with 2 instances: a group copies `scratch.chunk(0..2)`, then one block reads `scratch.chunk(1)`. Right: the group copies `scratch.chunk(0)`, then `scratch.chunk(1)`.";
    WrongChannel = "M0022" "wrong-channel": "a channel supports the operation",
        "Over a memory channel, the thread block itself reads and writes the peer's memory; a port channel queues puts for a proxy, which cannot get data for the caller. In the typed API rustc rejects unsupported operations; this code is for the older API, where the channel type is an argument.\n\nWrong: `c.get(peer, Buffer::Output, 0, 0, ChannelType::Proxy)`. Right: `c.get(peer, Buffer::Output, 0, 0, ChannelType::Sm)`.";
    NonContiguousChunks = "M0023" "non-contiguous-chunks": "chunks that are combined into one operand are adjacent in one buffer or, on a switch, at the same index of every rank",
        "An operand is one range of one buffer. `group` joins adjacent chunks; `group_load_reduce` combines the chunks at the same index of the same buffer on every rank.\n\nWrong: `p.chunk(0, Buffer::Input, 0, 1).group(p.chunk(0, Buffer::Input, 2, 1))`. Right: `p.chunk(0, Buffer::Input, 0, 3)`.";
}
