//! Codes of the area `check`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    UnmatchedWait = "M0201" "unmatched-wait": "on every channel pair there are as many waits as signals",
        "Channel k from a to b is paired with channel k from b to a, counting the channels of one kind between the two in the order in which they were made. Each wait on one takes one signal of the other, and what is left over is there in the next launch. Signals in a loop come once per iteration, which depends on the message size, so their waits must be in loops of the same unit and span.\n\nWrong, with two channels each way: rank 0 signals its first channel, rank 1 waits on its second. Right: rank 1 waits on its first.";
    IndexOutOfRange = "M0202" "index-out-of-range": "every number in a plan points at something that is there",
        "Operations name channels and remote buffers of their thread block, the block those of its rank, the rank its peers. A number beyond its table would make an executor read foreign memory.\n\nWrong: `\"channel_ids\": [2]` in a thread block that lists two channels. Right: `\"channel_ids\": [1]`.";
    BadOperands = "M0203" "bad-operands": "an operation has the references, channels and attributes of its kind",
        "The table in `docs/plan-format.md` says what each kind has.\n\nWrong: a `copy` with two sources. Right: two `copy` operations, or one `re`.";
    BadLoop = "M0204" "bad-loop": "a pipeline has a unit that is a positive multiple of 16 bytes and of the buffer alignment, does not nest, and its operations cover as many chunks as it says",
        "Iteration j works on bytes j × unit to (j + 1) × unit of every reference, until the longest one is done.\n\nWrong: `\"num_chunks\": 4` over a copy of one chunk. Right: `\"num_chunks\": 1`.";
    BarrierMismatch = "M0205" "barrier-mismatch": "a barrier is used by as many thread blocks as it says, and by all of them equally often",
        "With fewer thread blocks it never opens, with more it opens early; and a block that comes once more than the others waits for ever. In loops, that is a matter of the message size, unless unit and span are equal.\n\nWrong: `\"num_threadblocks\": 3` on a barrier that two thread blocks have. Right: 2.";
    UnevenChunks = "M0206" "uneven-chunks": "all ranks have the same chunk counts, and those fit the collective",
        "A chunk is as long on every rank, so that a range of one rank's buffer can go into another's.\n\nWrong: an all-gather over 4 ranks with 1 input and 3 output chunks. Right: 4 output chunks.";
    SemaphoreDrift = "M0207" "semaphore-drift": "every launch releases a semaphore as often as it acquires it",
        "Semaphores are set once, so what a launch adds or takes is missing or left over in the next one. Releases in a loop need acquires in a loop of the same unit and span.\n\nWrong: two releases and one acquire. Right: one each.";
    Deadlock = "M0208" "deadlock": "every thread block runs to its end",
        "Signals, semaphores, barriers and packets must come before whoever waits for them can hold up whoever gives them.\n\nWrong: both ranks wait for the other's signal and signal afterwards. Right: signal first.";
    OverLimit = "M0209" "over-limit": "a plan fits the device and the executor that it is meant for",
        "All thread blocks of a rank run at once, so a device needs room for all of them. The reference system's executor has room for 64 operations, 16 channels and 16 remote buffers of a kind per thread block, 8 channels and 10 references a side per operation, 16 barriers per rank, and 32 bits for byte offsets; it does not look whether a plan has more, and overwrites its own memory. Our CPU executor has no such limits. Exporting splits long operations; what cannot be split is refused.\n\nWrong: exporting a thread block with 127 operations. Right: spread it over two thread blocks.";
    Race = "M0210" "race": "of two accesses to the same bytes, of which one writes, one is over before the other begins",
        "Threads of a block run ahead of each other until they meet, thread blocks and ranks until they signal, ports as long as nobody flushes. Order comes from block syncs within a block, from barriers and semaphores within a rank, and from signals between ranks. A relaxed signal says that something is over, but does not make visible what it wrote.\n\nWrong: thread block 0 reduces a chunk, thread block 1 puts it. Right: a barrier of both in between.";
    WrongResult = "M0214" "wrong-result": "at the end every output holds what the collective promises",
        "The plan is followed symbolically from the inputs to the outputs. A chunk of an output that is not written, holds another chunk, lacks what some rank contributes, or is reduced in two ways is named with where the missing part was last and who put it there.\n\nWrong: an all-gather in which rank 2 puts its chunk to every rank but rank 1. Right: put it to rank 1, too.";
    DoubleCounted = "M0215" "double-counted": "a reduction takes every contribution once",
        "What a rank contributes may arrive on several ways: by itself, and as a part of another rank's partial result. Reducing both counts it twice. `min` and `max` do not mind.\n\nWrong: two ranks add the other's chunk, and then once more the chunk that already holds their own. Right: one of the two additions.";
    UninitialisedRead = "M0216" "uninitialised-read": "nothing is read that nobody has written in this launch",
        "Scratch and, out of place, outputs hold anything when a launch begins: what an earlier launch left, or another plan.\n\nWrong: a copy from scratch chunk 1 after a put to scratch chunk 0. Right: a copy from scratch chunk 0.";
    ClobberedInput = "M0217" "clobbered-input": "out of place, a launch leaves its inputs as they were",
        "A caller who hands in separate buffers expects to find the input unchanged, and may hand in memory that cannot be written.\n\nWrong: `rank.reduce(rank.input().chunk(0), others, 0)` in a plan that is not in place. Right: `.to(rank.output().chunk(0))` behind it.";
    TooIntricate = "M0218" "too-intricate": "the pieces in which a plan moves its data can be followed",
        "The checks keep account of every piece of memory that is moved or reduced on its own. A plan with ever more pieces than it has operations would take unbounded time.\n\nWrong: copying the front half of scratch behind itself, over and over, with the pieces all different. Right: chunks as large as what is moved.";
    PacketsWithoutRoom = "M0219" "packets-without-room": "a plan with packets has protocol `LL`",
        "A packet carries a flag beside its data and takes twice the bytes. Protocol `LL` makes scratch twice as long; under `Simple` packets would run over its end.\n\nWrong: `#[collective(AllReduce, ranks = 2)]` on a function that calls `put_packets`. Right: `#[collective(AllReduce, ranks = 2, protocol = LL)]`.";
    SharedScratch = "M0220" "shared-scratch": "a byte of scratch holds packets or plain data, never both",
        "Packet chunk k of scratch takes the bytes of plain chunks 2k and 2k + 1. Plain data there would be taken for packets, flags included, and the other way round.\n\nWrong:\n\n```rust\nlet slot = rank.scratch(1);\nrank.copy_packets(slot.chunk(0), rank.input().chunk(0), 0);\nrank.copy(rank.output().chunk(0), slot.chunk(0), 0);\n```\n\nRight: `rank.unpack_packets(rank.output().chunk(0), slot.chunk(0), 0)`. Where a program needs both, it makes the scratch for plain data first.";
    PlainDoubleScratch = "M0221" "plain-double-scratch": "with double scratch, ranks exchange packets, no plain data, in each other's scratch",
        "Double scratch lets a rank begin the next launch while others still read what it sent in this one: launches take turns with two halves. Packets go to the half of their launch. Plain data that is put into another rank's scratch does not on every executor, while the rank itself reads from the half of its launch.\n\nWrong, with `double_scratch`: `channel.put(peer.scratch(1).chunk(0), mine, 0)`. Right: `channel.put_packets(…)`, or no `double_scratch` and a closing handshake.";
    TooFewThreads = "M0222" "too-few-threads": "a thread block has a thread for every channel or semaphore of an operation",
        "A signal, wait, flush, release or acquire of n channels or semaphores is executed by n threads, a port put of n pairs as well. What has no thread would not happen.\n\nWrong: `threads_per_block = 4` with signals to 7 peers behind each other, which become one operation. Right: `threads_per_block = 32`.";
}
