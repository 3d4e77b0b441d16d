//! What cannot be recorded, and what is said then.

use mscclpp_core::diag::{Code, Diagnostics};
use mscclpp_core::lang::ChannelType::{Proxy, Sm};
use mscclpp_core::lang::{Buffer, Collective, MscclppProgram, ProgramContext};

fn codes(body: impl FnOnce(&ProgramContext<'_>)) -> Vec<Code> {
    let found: Diagnostics =
        MscclppProgram::new("t", Collective::all_gather(2, 2, false), 2, 1).record(body).err().unwrap_or_default();
    for diagnostic in found.iter() {
        assert!(diagnostic.site.to_string().contains("tests/lang/mistakes.rs"), "{diagnostic}");
    }
    found.into_iter().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn mistakes_are_collected_with_their_places() {
    let found = codes(|p| {
        let c = p.chunk(0, Buffer::Input, 0, 2);
        p.chunk(2, Buffer::Input, 0, 1).put(0, None, -1, 0, Sm);
        p.chunk(0, Buffer::Input, 2, 1);
        p.chunk(0, Buffer::Output, -1, 1);
        p.chunk(0, Buffer::Scratch, u64::MAX, 1);
        p.chunk(0, Buffer::Input, 0, 0);
        c.put(0, Buffer::Output, 0, 0, Sm);
        c.put(1, Buffer::Output, 3, 0, Sm);
        c.copy(1, Buffer::Output, 0, 0);
        c.get(1, Buffer::Input, 0, 0, Proxy);
        c.flush(1, Buffer::Input, 0, 0, Sm);
        c.reduce(p.chunk(1, Buffer::Input, 0, 2), 0, Proxy);
        c.reduce(p.chunk(1, Buffer::Input, 0, 1), 0, Sm);
        c.split(3);
        c.split(0);
        c.group(p.chunk(0, Buffer::Output, 0, 1));
        p.chunk(0, Buffer::Output, 0, 1).group(p.chunk(0, Buffer::Output, 2, 1));
        c.put_packet(1, Buffer::Output, 0, 0, Sm);
        c.put_packet(1, Buffer::Scratch, 0, 0, Proxy);
        c.copy_packet(0, Buffer::Output, 0, 0);
        c.reduce_packet(p.chunk(1, Buffer::Scratch, 0, 2), 0);
        c.reduce_packet(p.chunk(0, Buffer::Output, 0, 2), 0);
        c.group_load_reduce(&[p.chunk(1, Buffer::Output, 0, 2)], 0);
        c.copy(0, Buffer::Output, 0, 1 << 16);
        p.rank(0).barrier([1, 1]);
    });
    use Code::*;
    let expected = [
        RankOutOfRange,
        ChunkOutOfRange,
        ChunkOutOfRange,
        ChunkOutOfRange,
        EmptyChunk,
        SelfChannel,
        ChunkOutOfRange,
        WrongRank,
        WrongChannel,
        WrongChannel,
        WrongChannel,
        SizeMismatch,
        SizeMismatch,
        SizeMismatch,
        NonContiguousChunks,
        NonContiguousChunks,
        NotScratch,
        NotScratch,
        NotScratch,
        WrongRank,
        NotScratch,
        NonContiguousChunks,
        ThreadBlockOutOfRange,
        BadBarrier,
    ];
    assert_eq!(found, expected);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |collective, ranks, instances| {
        let result = MscclppProgram::new("t", collective, ranks, instances).record(|_| ());
        result.err().into_iter().flatten().map(|diagnostic| diagnostic.code).collect::<Vec<_>>()
    };
    assert_eq!(refused(Collective::all_reduce(0, 1, false), 0, 1), [Code::NoRanks]);
    assert_eq!(refused(Collective::all_reduce(4, 4, false), 8, 1), [Code::BadSpecification]);
    assert_eq!(refused(Collective::all_reduce(4, 4, false), 4, 0), [Code::BadSpecification]);
    assert_eq!(refused(Collective::all_reduce(4, u32::MAX, false), 4, 4), [Code::TooLarge]);
    assert_eq!(refused(Collective::all_reduce(65521, 100_003, false), 65521, 1), [Code::TooLarge]);
}
