//! Adds channels, remote buffers, semaphores and operations to a plan.

use mscclpp_core::origin::Origin;
use mscclpp_core::plan::raw::{
    BlockTables, ChannelTable, Op, OpKind, Operand, PlanTree, RankPlan, RemoteBuffer, ThreadBlock,
};
use mscclpp_core::types::{BufferKind, ChannelKind};

/// Returns an operation without operands.
pub(super) fn sync(kind: OpKind, channel: Option<ChannelKind>, id: u32) -> Op {
    let mut op = Op::new(kind, Origin::UNKNOWN);
    op.channel = channel;
    op.ids.push(id);
    op
}

/// Returns a block sync.
pub(super) fn nop() -> Op {
    Op::new(OpKind::Nop, Origin::UNKNOWN)
}

pub(super) fn acquire(semaphore: u32) -> Op {
    sync(OpKind::SemaphoreAcquire, None, semaphore)
}

pub(super) fn release(semaphore: u32) -> Op {
    sync(OpKind::SemaphoreRelease, None, semaphore)
}

/// Returns a copy between buffers of the executing rank.
pub(super) fn copy(from: Operand, to: Operand) -> Op {
    let mut op = Op::new(OpKind::Copy, Origin::UNKNOWN);
    op.srcs.push(from);
    op.dsts.push(to);
    op
}

/// Adds a semaphore to a rank, which starts at 0.
pub(super) fn semaphore(rank: &mut RankPlan) -> u32 {
    rank.semaphores.push(0);
    rank.semaphores.len() as u32 - 1
}

/// Returns the position of a number in one of a thread block's tables; adds it if it is missing.
pub(super) fn in_table(tables: &mut BlockTables, kind: ChannelKind, number: u32) -> u32 {
    let at = tables.iter().position(|(of, _)| *of == kind).unwrap_or_else(|| {
        tables.push((kind, Default::default()));
        tables.len() - 1
    });
    let table = &mut tables[at].1;
    let found = table.iter().position(|&known| known == number).unwrap_or_else(|| {
        table.push(number);
        table.len() - 1
    });
    found as u32
}

/// Returns the reference of a thread block to another rank's buffer.
pub(super) fn remote(
    rank: &mut RankPlan,
    block: &mut ThreadBlock,
    kind: ChannelKind,
    (owner, buffer): (u32, BufferKind),
) -> u32 {
    let buffers = &mut rank.remote_buffers;
    let known = |remote: &RemoteBuffer| (remote.rank, remote.buffer) == (owner, buffer);
    let number = buffers.iter().position(known).unwrap_or_else(|| {
        buffers.push(RemoteBuffer { rank: owner, buffer, memory: false, port: false });
        buffers.len() - 1
    });
    match kind {
        ChannelKind::Port => buffers[number].port = true,
        _ => buffers[number].memory = true,
    }
    in_table(&mut block.remote_buffers, kind, number as u32)
}

/// Adds a pair of memory channels between two ranks, and returns the number of each on its rank.
pub(super) fn memory_channels(plan: &mut PlanTree, one: u32, other: u32) -> [u32; 2] {
    let add = |rank: &mut RankPlan, peer: u32| {
        let at = rank.channels.iter().position(|table| matches!(table, ChannelTable::Memory(_)));
        let at = at.unwrap_or_else(|| {
            rank.channels.push(ChannelTable::Memory(Vec::new()));
            rank.channels.len() - 1
        });
        let ChannelTable::Memory(peers) = &mut rank.channels[at] else { return 0 };
        peers.push(peer);
        peers.len() as u32 - 1
    };
    let count = |rank: &RankPlan, peer: u32| rank.peers(ChannelKind::Memory).iter().filter(|&&p| p == peer).count();
    let sides = [(one, other), (other, one)];
    // The k-th channels are a pair, so both ranks need equally many before the new ones.
    let counts = sides.map(|(rank, peer)| count(&plan.ranks[rank as usize], peer));
    let most = counts[0].max(counts[1]);
    let mut numbers = [0; 2];
    for (side, (rank, peer)) in sides.into_iter().enumerate() {
        for _ in counts[side]..=most {
            numbers[side] = add(&mut plan.ranks[rank as usize], peer);
        }
    }
    numbers
}
