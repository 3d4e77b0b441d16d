//! The same plan with other numbers: of thread blocks, channels, buffers, semaphores, barriers and ranks.

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::raw::{ChannelTable, Op, OpKind, PlanTree, ThreadBlock};
use mscclpp_core::types::ChannelKind;

use crate::mutation::Random;

/// Returns the plan with random numbers everywhere, as far as its collective permits.
pub(super) fn permuted(plan: &PlanTree, random: &mut Random) -> PlanTree {
    let mut plan = plan.clone();
    for kind in [ChannelKind::Memory, ChannelKind::Port] {
        channels(&mut plan, kind, random);
    }
    for rank in &mut plan.ranks {
        let numbers = permutation(rank.remote_buffers.len(), random);
        rank.remote_buffers = moved(&rank.remote_buffers, &numbers);
        let tables = rank.blocks.iter_mut().flat_map(|block| &mut block.remote_buffers);
        tables.flat_map(|(_, ids)| ids).for_each(|id| *id = renamed(&numbers, *id));
        let numbers = permutation(rank.semaphores.len(), random);
        rank.semaphores = moved(&rank.semaphores, &numbers);
        let is_semaphore = |kind| matches!(kind, OpKind::SemaphoreAcquire | OpKind::SemaphoreRelease);
        each_id(&mut rank.blocks, is_semaphore, |id| *id = renamed(&numbers, *id));
        let mut num_barriers = 0;
        each_id(&mut rank.blocks, |kind| kind == OpKind::Barrier, |id| num_barriers = num_barriers.max(*id + 1));
        let numbers = permutation(num_barriers as usize, random);
        each_id(&mut rank.blocks, |kind| kind == OpKind::Barrier, |id| *id = renamed(&numbers, *id));
        rank.blocks = moved(&rank.blocks, &permutation(rank.blocks.len(), random));
    }
    ranks(&mut plan, random);
    plan
}

/// Permutes the channels of a kind. The nth channels of two ranks to each other remain a pair.
fn channels(plan: &mut PlanTree, kind: ChannelKind, random: &mut Random) {
    let peers: Vec<Vec<u32>> = plan.ranks.iter().map(|rank| rank.peers(kind).to_vec()).collect();
    let count =
        |from: usize, to: u32| peers.get(from).map_or(0, |peers| peers.iter().filter(|peer| **peer == to).count());
    // By the lower and the higher rank, the new position of their nth channel among those of the two.
    let mut pairs: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for (rank, tables) in (0..).zip(&mut plan.ranks) {
        let own = &peers[rank as usize];
        let mut free = permutation(own.len(), random);
        // Of the new numbers of the channels to one peer, the lowest is that of the first one of the pair.
        let mut of_peer: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        own.iter().zip(free.drain(..)).for_each(|(peer, number)| of_peer.entry(*peer).or_default().push(number));
        of_peer.values_mut().for_each(|numbers| numbers.sort_unstable());
        let (mut seen, mut numbers) = (BTreeMap::<u32, usize>::new(), Vec::new());
        for peer in own {
            let nth = seen.entry(*peer).or_default();
            let (here, there) = (count(rank as usize, *peer), count(*peer as usize, rank));
            let order = pairs.entry((rank.min(*peer), rank.max(*peer))).or_insert_with(|| match here == there {
                true => permutation(here, random),
                false => (0..here.max(there) as u32).collect(),
            });
            numbers.push(of_peer[peer][order[*nth] as usize]);
            *nth += 1;
        }
        for table in &mut tables.channels {
            match (table, kind) {
                (ChannelTable::Memory(list), ChannelKind::Memory) | (ChannelTable::Port(list), ChannelKind::Port) => {
                    *list = moved(list, &numbers);
                }
                _ => {}
            }
        }
        let of_kind =
            tables.blocks.iter_mut().flat_map(|block| &mut block.channels).filter(|(other, _)| *other == kind);
        of_kind.flat_map(|(_, ids)| ids).for_each(|id| *id = renamed(&numbers, *id));
    }
}

/// Permutes the ranks, if the postcondition of the collective does not depend on their order: whole nodes, and the ranks of a node.
fn ranks(plan: &mut PlanTree, random: &mut Random) {
    use CollectiveKind as K;
    let (count, node) = (plan.ranks.len(), plan.ranks_per_node.max(1) as usize);
    if !count.is_multiple_of(node) {
        return;
    }
    let nodes = permutation(count / node, random);
    let numbers: Vec<u32> = match plan.collective.kind {
        K::AllReduce | K::Reduce | K::Broadcast | K::Custom { .. } | K::Test { .. } => {
            let of_node = |to: u32| permutation(node, random).into_iter().map(move |rank| to * node as u32 + rank);
            nodes.into_iter().flat_map(of_node).collect()
        }
        K::SendRecv => {
            let distance = nodes.first().map_or(0, |first| first * node as u32);
            (0..count as u32).map(|rank| (rank + distance) % count as u32).collect()
        }
        _ => return,
    };
    plan.ranks = moved(&plan.ranks, &numbers);
    plan.collective.root = renamed(&numbers, plan.collective.root);
    for expectation in &mut plan.expectations {
        expectation.rank = renamed(&numbers, expectation.rank);
        expectation.inputs.iter_mut().for_each(|(rank, _)| *rank = renamed(&numbers, *rank));
    }
    for rank in &mut plan.ranks {
        rank.remote_buffers.iter_mut().for_each(|buffer| buffer.rank = renamed(&numbers, buffer.rank));
        for table in &mut rank.channels {
            let peers: Vec<&mut u32> = match table {
                ChannelTable::Memory(peers) | ChannelTable::Port(peers) => peers.iter_mut().collect(),
                ChannelTable::Switch { groups, .. } => groups.iter_mut().flatten().collect(),
            };
            peers.into_iter().for_each(|peer| *peer = renamed(&numbers, *peer));
        }
    }
}

fn each_id(blocks: &mut [ThreadBlock], takes: impl Fn(OpKind) -> bool, mut visit: impl FnMut(&mut u32)) {
    let mut all = |op: &mut Op| {
        if takes(op.kind) {
            op.ids.iter_mut().for_each(&mut visit);
        }
    };
    for op in blocks.iter_mut().flat_map(|block| &mut block.ops) {
        all(op);
        op.body.iter_mut().flat_map(|body| &mut body.ops).for_each(&mut all);
    }
}

/// Returns the new numbers of some things, by their old ones.
fn permutation(len: usize, random: &mut Random) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..len as u32).collect();
    for last in (1..len).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers
}

/// Returns a list in the order of its new numbers.
fn moved<T: Clone>(list: &[T], numbers: &[u32]) -> Vec<T> {
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|old| numbers[*old]);
    order.into_iter().map(|old| list[old].clone()).collect()
}

/// Returns the new number of a thing. One that does not exist keeps its number.
fn renamed(numbers: &[u32], id: u32) -> u32 {
    numbers.get(id as usize).copied().unwrap_or(id)
}
