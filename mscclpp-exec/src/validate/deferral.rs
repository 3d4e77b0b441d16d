//! Which waits may be executed after operations that they precede in the plan: connections between nodes deliver what is sent in
//! a launch only once the receiver has started it, so a wait for this start orders nothing that is sent to the receiver.

use mscclpp_core::plan::raw::{BufferRef, Op, OpKind, PlanTree};
use mscclpp_core::types::ChannelKind;

/// Returns whether an operation (rank, thread block, number) may be executed after the operations with the numbers `crossed` of its
/// thread block: it is the first wait on a port channel from a rank of another node, for a signal before which that rank does
/// nothing in the launch, and they send to this rank, or to any one if each node has one. `nodes`: node of each rank.
pub(super) fn may_be_deferred(
    plan: &PlanTree,
    nodes: &[u32],
    (rank, block, number): (u32, u32, u32),
    mut crossed: impl Iterator<Item = u32>,
) -> bool {
    let Some(wait) = numbered(plan, rank, block).find(|(at, _)| *at == number).map(|(_, op)| op) else { return false };
    if !matches!(wait.kind, OpKind::Wait | OpKind::RelaxedWait) || wait.channel != Some(ChannelKind::Port) {
        return false;
    }
    let &[id] = &wait.ids[..] else { return false };
    let Some((channel, peer)) = port(plan, rank, block, id) else { return false };
    let node = |rank: u32| nodes.get(rank as usize);
    if node(rank) == node(peer)
        || !is_first_wait(plan, rank, (block, number), channel)
        || !is_start(plan, rank, peer, channel)
    {
        return false;
    }
    let has_one_rank_per_node = nodes.iter().enumerate().all(|(at, node)| !nodes[..at].contains(node));
    crossed.all(|crossed| {
        let Some((_, op)) = numbered(plan, rank, block).find(|(at, _)| *at == crossed) else { return false };
        let is_send = match op.kind {
            OpKind::Nop => true,
            OpKind::Put
            | OpKind::PutPackets
            | OpKind::PutWithSignal
            | OpKind::PutWithSignalAndFlush
            | OpKind::Signal
            | OpKind::RelaxedSignal => op.channel == Some(ChannelKind::Port),
            _ => false,
        };
        let to = |&id: &u32| port(plan, rank, block, id).map(|(_, to)| to);
        let owners = op.dsts.iter().map(|dst| match dst.buffer {
            BufferRef::Remote(index) => {
                let tables = plan.ranks.get(rank as usize)?;
                let block = tables.blocks.get(block as usize)?;
                let number = *block.remote_buffers(ChannelKind::Port).get(index as usize)?;
                tables.remote_buffers.get(number as usize).map(|remote| remote.rank)
            }
            _ => None,
        });
        let mut receivers = op.ids.iter().map(to).chain(owners);
        is_send && receivers.all(|to| to.is_some_and(|to| to == peer || has_one_rank_per_node && to != rank))
    })
}

/// Returns the operations of a thread block with their numbers, those of loops included.
fn numbered(plan: &PlanTree, rank: u32, block: u32) -> impl Iterator<Item = (u32, &Op)> {
    let block = plan.ranks.get(rank as usize).and_then(|rank| rank.blocks.get(block as usize));
    let ops = block.into_iter().flat_map(|block| &block.ops);
    (0..).zip(ops.flat_map(|op| std::iter::once(op).chain(op.body.iter().flat_map(|body| &body.ops))))
}

/// Returns the rank-level number and the peer of a port channel of a thread block.
fn port(plan: &PlanTree, rank: u32, block: u32, id: u32) -> Option<(u32, u32)> {
    let tables = plan.ranks.get(rank as usize)?;
    let number = *tables.blocks.get(block as usize)?.channels(ChannelKind::Port).get(id as usize)?;
    Some((number, *tables.peers(ChannelKind::Port).get(number as usize)?))
}

/// Returns the operations of a rank on one of its port channels, in the order of their numbers: thread block and number of each.
fn on_channel(plan: &PlanTree, rank: u32, channel: u32) -> impl Iterator<Item = (u32, u32, &Op)> {
    let blocks = plan.ranks.get(rank as usize).map_or(0, |tables| tables.blocks.len() as u32);
    let all =
        (0..blocks).flat_map(move |block| numbered(plan, rank, block).map(move |(number, op)| (block, number, op)));
    all.filter(move |(block, _, op)| {
        op.channel == Some(ChannelKind::Port)
            && op.ids.iter().any(|&id| port(plan, rank, *block, id).is_some_and(|(number, _)| number == channel))
    })
}

/// Returns whether an operation is the first wait on a channel, and no other thread block waits there.
fn is_first_wait(plan: &PlanTree, rank: u32, (block, number): (u32, u32), channel: u32) -> bool {
    let is_wait = |op: &Op| matches!(op.kind, OpKind::Wait | OpKind::RelaxedWait);
    on_channel(plan, rank, channel).filter(|(.., op)| is_wait(op)).all(|(of, at, _)| of == block && at >= number)
}

/// Returns whether the first signal that arrives on a port channel says nothing but that its sender has started: a single thread block
/// of `peer` signals there, at first by an operation before which it only signals.
fn is_start(plan: &PlanTree, rank: u32, peer: u32, channel: u32) -> bool {
    // The channel of the peer with the same position among those to this rank.
    let ports = |rank: u32| plan.ranks.get(rank as usize).map_or(&[][..], |tables| tables.peers(ChannelKind::Port));
    let position = ports(rank)[..channel as usize].iter().filter(|&&to| to == peer).count();
    let mut to_this_rank = (0..).zip(ports(peer)).filter(|&(_, &to)| to == rank);
    let Some((theirs, _)) = to_this_rank.nth(position) else { return false };
    let signals = |op: &Op| {
        use OpKind::*;
        matches!(op.kind, Signal | RelaxedSignal | PutWithSignal | PutWithSignalAndFlush)
    };
    let mut senders = on_channel(plan, peer, theirs).filter(|(.., op)| signals(op));
    let Some((block, first, op)) = senders.next() else { return false };
    matches!(op.kind, OpKind::Signal | OpKind::RelaxedSignal)
        && senders.all(|(of, ..)| of == block)
        && numbered(plan, peer, block)
            .take_while(|(number, _)| *number < first)
            .all(|(_, op)| matches!(op.kind, OpKind::Nop | OpKind::Signal | OpKind::RelaxedSignal))
}
