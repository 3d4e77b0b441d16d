//! Which opening handshakes between nodes may be executed otherwise than the plan says: connections deliver what is sent in a launch
//! only once the receiver has started it, so a wait for this start orders nothing that is sent to the receiver.

use mscclpp_core::plan::raw::{BufferRef, Flow, Op, OpClass, PlanTree};
use mscclpp_core::types::ChannelKind;

/// Returns whether an operation (rank, thread block, number) may be executed after the operations with the numbers `crossed` of its
/// thread block: it is an opening wait, and they send to the rank for which it waits. `nodes`: node of each rank.
pub(super) fn may_be_deferred(
    plan: &PlanTree,
    nodes: &[u32],
    (rank, block, number): (u32, u32, u32),
    mut crossed: impl Iterator<Item = u32>,
) -> bool {
    let wait = operation(plan, rank, block, number);
    let Some((wait, &[id])) = wait.map(|wait| (wait, &wait.ids[..])) else { return false };
    let Some(peer) = awaited(plan, nodes, (rank, block, number), wait, id) else { return false };
    crossed.all(|crossed| {
        let Some(op) = operation(plan, rank, block, crossed) else { return false };
        let is_send = match op.kind.class() {
            OpClass::Data(Flow::Pairs, _) | OpClass::Signal { .. } => op.channel == Some(ChannelKind::Port),
            class => class == OpClass::BlockSync,
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
        is_send && receivers.all(|to| to == Some(peer))
    })
}

/// Returns whether an operation (rank, thread block, number) may signal or wait on one port channel fewer, with its counterpart: each
/// node has one rank, and it is an opening wait there, or the signal for one. `nodes`: node of each rank; `id`: that of the channel.
pub(super) fn may_be_elided(plan: &PlanTree, nodes: &[u32], (rank, block, number): (u32, u32, u32), id: u32) -> bool {
    let Some(op) = operation(plan, rank, block, number) else { return false };
    let has_one_rank_per_node = nodes.iter().enumerate().all(|(at, node)| !nodes[..at].contains(node));
    if !has_one_rank_per_node || op.channel != Some(ChannelKind::Port) {
        return false;
    }
    match op.kind.class() {
        OpClass::Wait { .. } => awaited(plan, nodes, (rank, block, number), op, id).is_some(),
        OpClass::Signal { .. } => {
            let Some((channel, to)) = port(plan, rank, block, id) else { return false };
            let Some(theirs) = counterpart(plan, rank, to, channel) else { return false };
            let first = on_channel(plan, rank, channel).find(|(.., op)| op.kind.signals());
            let is_first = first.is_some_and(|(of, at, _)| (of, at) == (block, number));
            let wait = on_channel(plan, to, theirs).find(|(.., op)| op.kind.waits());
            let Some((of, at, wait)) = wait.filter(|_| is_first) else { return false };
            let on_it = |&&id: &&u32| port(plan, to, of, id).is_some_and(|(number, _)| number == theirs);
            let id = wait.ids.iter().find(on_it);
            id.is_some_and(|&id| awaited(plan, nodes, (to, of, at), wait, id).is_some())
        }
        _ => false,
    }
}

/// Returns the rank for whose start an operation waits on a port channel. `None` unless it is the first wait there, the rank is on another
/// node, and it only signals in the launch before the signal for which the operation waits.
fn awaited(plan: &PlanTree, nodes: &[u32], (rank, block, number): (u32, u32, u32), wait: &Op, id: u32) -> Option<u32> {
    let (channel, peer) = port(plan, rank, block, id).filter(|_| wait.channel == Some(ChannelKind::Port))?;
    let node = |rank: u32| nodes.get(rank as usize);
    let is_opening = wait.kind.waits()
        && node(rank) != node(peer)
        && is_first_wait(plan, rank, (block, number), channel)
        && is_start(plan, rank, peer, channel);
    is_opening.then_some(peer)
}

fn operation(plan: &PlanTree, rank: u32, block: u32, number: u32) -> Option<&Op> {
    numbered(plan, rank, block).find(|(at, _)| *at == number).map(|(_, op)| op)
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

/// Returns the number of the channel of `peer` that is the other end of a port channel of a rank: the one with the same position among
/// those to this rank.
fn counterpart(plan: &PlanTree, rank: u32, peer: u32, channel: u32) -> Option<u32> {
    let ports = |rank: u32| plan.ranks.get(rank as usize).map_or(&[][..], |tables| tables.peers(ChannelKind::Port));
    let position = ports(rank)[..channel as usize].iter().filter(|&&to| to == peer).count();
    let mut to_this_rank = (0..).zip(ports(peer)).filter(|&(_, &to)| to == rank);
    to_this_rank.nth(position).map(|(theirs, _)| theirs)
}

/// Returns whether an operation is the first wait on a channel, outside of loops, and no other thread block waits there.
fn is_first_wait(plan: &PlanTree, rank: u32, (block, number): (u32, u32), channel: u32) -> bool {
    let mut waits = on_channel(plan, rank, channel).filter(|(.., op)| op.kind.waits());
    waits.all(|(of, at, _)| of == block && at >= number) && !is_in_loop(plan, rank, block, number)
}

/// Returns whether the first signal that arrives on a port channel says nothing but that its sender has started: a single thread block
/// of `peer` signals there, at first by an operation before which it only signals, outside of loops.
fn is_start(plan: &PlanTree, rank: u32, peer: u32, channel: u32) -> bool {
    let Some(theirs) = counterpart(plan, rank, peer, channel) else { return false };
    let mut senders = on_channel(plan, peer, theirs).filter(|(.., op)| op.kind.signals());
    let Some((block, first, op)) = senders.next() else { return false };
    matches!(op.kind.class(), OpClass::Signal { .. })
        && senders.all(|(of, ..)| of == block)
        && numbered(plan, peer, block)
            .take_while(|(number, _)| *number < first)
            .all(|(_, op)| matches!(op.kind.class(), OpClass::BlockSync | OpClass::Signal { .. }))
}

/// Returns whether an operation of a thread block is in the body of a loop.
fn is_in_loop(plan: &PlanTree, rank: u32, block: u32, number: u32) -> bool {
    numbered(plan, rank, block)
        .filter_map(|(at, op)| op.body.as_ref().map(|body| at + 1..at + 1 + body.ops.len() as u32))
        .any(|body| body.contains(&number))
}
