//! Algorithms that the library implements in another form.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;

/// Packets of a rank's whole part are put in one range; a separate block reduces and sends each chunk of it.
pub(crate) fn allreduce_packets_by_chunk(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * (ranks - 1) * ranks)).collect();
    let results = (ranks - 1) * ranks;
    for rank in p.ranks() {
        let id = rank.id();
        let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != id).collect();
        let channels: Vec<_> = peers.iter().map(|peer| rank.memory_channel(*peer)).collect();
        for (index, peer) in peers.iter().enumerate() {
            let mine = if id < peer.id() { id } else { id - 1 } * ranks;
            let theirs = peer.id() * ranks;
            let part = rank.input().chunk(theirs..theirs + ranks);
            channels[index].put_packets(scratch[peer.id()].chunk(mine..mine + ranks), part, index);
        }
        for chunk in 0..ranks {
            let sum = rank.input().chunk(id * ranks + chunk);
            let parts: Vec<_> = (0..ranks - 1).map(|slot| scratch[id].chunk(slot * ranks + chunk)).collect();
            rank.reduce_packets(sum, parts, chunk);
            for (index, peer) in peers.iter().enumerate() {
                let mine = if id < peer.id() { id } else { id - 1 } * ranks;
                channels[index].put_packets(scratch[peer.id()].chunk(results + mine + chunk), sum, chunk);
            }
        }
        for (index, peer) in peers.iter().enumerate() {
            let (slot, part) = (results + index * ranks, peer.id() * ranks);
            let packets = scratch[id].chunk(slot..slot + ranks);
            rank.unpack_packets(rank.input().chunk(part..part + ranks), packets, peer.id());
        }
    }
}

/// Windows of half a MiB: one block per peer puts, another one copies the received data.
pub(crate) fn alltoall_pipeline(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        let semaphores: Vec<_> = (0..ranks).map(|_| rank.semaphore(0)).collect();
        let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != id).collect();
        let channels: Vec<_> =
            peers.iter().map(|peer| [rank.memory_channel(*peer), rank.memory_channel(*peer)]).collect();
        for (index, channel) in channels.iter().enumerate() {
            channel[1].signal(index).relaxed();
        }
        for (index, channel) in channels.iter().enumerate() {
            channel[1].wait(index).relaxed().sync(BlockSync::After);
        }
        p.pipeline(1 << 19, 1, || {
            for (index, peer) in peers.iter().enumerate() {
                let slot = if id < peer.id() { id } else { id - 1 };
                channels[index][0].put(scratch[peer.id()].chunk(slot), rank.input().chunk(peer.id()), index);
                channels[index][0].signal(index).sync(BlockSync::Before);
                semaphores[index].release(index);
            }
            for (index, peer) in peers.iter().enumerate() {
                let block = ranks - 1 + index;
                semaphores[index].acquire(block);
                channels[index][0].wait(block).sync(BlockSync::After);
                rank.copy(rank.input().chunk(peer.id()), scratch[id].chunk(index), block);
            }
        });
    }
}

/// Ranks synchronize in pairs. Their number is a power of two, and the members of a pair differ in the bits of the
/// step.
pub(crate) fn alltoall_pairs(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        let mut channels = Vec::new();
        let mut syncs = Vec::new();
        let mut semaphores = Vec::new();
        for peer in p.ranks().filter(|peer| peer.id() != id) {
            channels.push(rank.memory_channel(peer));
            syncs.push(rank.memory_channel(peer));
            semaphores.push(rank.semaphore(0));
        }
        for sync in &syncs {
            sync.signal(0).relaxed();
        }
        for sync in &syncs {
            sync.wait(0).relaxed().sync(BlockSync::After);
        }
        for step in 1..ranks {
            let peer = id ^ step;
            let index = if peer < id { peer } else { peer - 1 };
            let slot = if id < peer { id } else { id - 1 };
            channels[index].put(scratch[peer].chunk(slot), rank.input().chunk(peer), 0);
            channels[index].signal(0).sync(BlockSync::Before);
            semaphores[index].release(0);
            semaphores[index].acquire(1);
            channels[index].wait(1).sync(BlockSync::After);
            rank.copy(rank.input().chunk(peer), scratch[id].chunk(index), 1);
        }
    }
}

/// Packets are sent to the node's ranks and to one rank of the other node, which forwards them.
pub(crate) fn allgather_two_nodes_packets(p: &Program) {
    let (ranks, part) = (p.num_ranks(), p.ranks_per_node());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        let other = (id + part) % ranks;
        rank.copy_packets(scratch[id].chunk(id), rank.output().chunk(id), id);
        for peer in p.ranks().filter(|peer| peer.node() == rank.node() && peer.id() != id) {
            let channel = rank.memory_channel(peer);
            channel.read_put_packets(scratch[peer.id()].chunk(id), scratch[id].chunk(id), peer.local_id());
        }
        let channel = rank.port_channel(other);
        channel.read_put_packets(scratch[other].chunk(id), scratch[id].chunk(id), rank.local_id());
        for peer in p.ranks().filter(|peer| peer.node() == rank.node() && peer.id() != id) {
            let channel = rank.memory_channel(peer);
            channel.read_put_packets(scratch[peer.id()].chunk(other), scratch[id].chunk(other), peer.local_id());
        }
        for step in 1..ranks {
            let from = (id + step) % ranks;
            rank.unpack_packets(rank.output().chunk(from), scratch[id].chunk(from), step);
        }
    }
}

/// Invalid: a port sends a rank's input, and the rank ends without a flush.
pub(crate) fn reducescatter_two_nodes(p: &Program) {
    let (ranks, part) = (p.num_ranks(), p.ranks_per_node());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        let other = (id + part) % ranks;
        let peers: Vec<_> = p.ranks().filter(|peer| peer.node() == rank.node() && peer.id() != id).collect();
        let channels: Vec<_> = peers.iter().map(|peer| rank.memory_channel(*peer)).collect();
        let port = rank.port_channel(other);
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        for chunk in [id, other] {
            for (channel, peer) in channels.iter().zip(&peers) {
                channel.reduce(rank.input().chunk(chunk), peer.input().chunk(chunk), 0);
            }
        }
        port.signal(0);
        port.wait(0).sync(BlockSync::After);
        port.put_with_signal(scratch[other].chunk(0), rank.input().chunk(other), 0);
        port.wait(0).sync(BlockSync::After);
        rank.reduce(rank.input().chunk(id), scratch[id].chunk(0), 0);
        for channel in &channels {
            channel.signal(0).relaxed().sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0).relaxed();
        }
    }
}

/// All-pairs all-reduce with a signal and a wait per channel, as the reference writes it: without fusion a handshake has block
/// syncs at other places.
pub(crate) fn allreduce_all_pairs(p: &Program) {
    let blocks = p.chunk_factor();
    for rank in p.ranks() {
        let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != rank.id()).collect();
        for block in 0..blocks {
            let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
            for channel in &channels {
                channel.signal(block).relaxed();
            }
            for channel in &channels {
                channel.wait(block).relaxed().sync(BlockSync::After);
            }
            let index = rank.id() * blocks + block;
            let mine = rank.input().chunk(index);
            for (channel, peer) in channels.iter().zip(&peers) {
                channel.reduce(mine, peer.input().chunk(index), block);
            }
            for (channel, peer) in channels.iter().zip(&peers) {
                channel.put(peer.input().chunk(index), mine, block);
            }
            for channel in &channels {
                channel.signal(block).sync(BlockSync::Before);
            }
            for channel in &channels {
                channel.wait(block);
            }
        }
    }
}

/// All-to-all in rotation with signals and waits one by one, as [`allreduce_all_pairs`].
pub(crate) fn alltoall_rotated_in_place(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    for rank in p.ranks() {
        let (mut data, mut ready, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for peer in p.ranks().filter(|peer| *peer != rank) {
            data.push(rank.memory_channel(peer));
            ready.push(rank.memory_channel(peer));
            sent.push(rank.semaphore(0));
        }
        for channel in &ready {
            channel.signal(0).relaxed();
        }
        for channel in &ready {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        for step in 1..ranks {
            let peer = (rank.id() + step) % ranks;
            let index = position(peer, rank.id());
            data[index].put(scratch[peer].chunk(position(rank.id(), peer)), rank.input().chunk(peer), 0);
            data[index].signal(0).sync(BlockSync::Before);
            sent[index].release(0);
        }
        for step in 1..ranks {
            let peer = (rank.id() + ranks - step) % ranks;
            let index = position(peer, rank.id());
            sent[index].acquire(1);
            data[index].wait(1).sync(BlockSync::After);
            rank.copy(rank.input().chunk(peer), scratch[rank.id()].chunk(index), 1);
        }
    }
}

/// All-gather over two nodes with signals and waits one by one, as [`allreduce_all_pairs`].
pub(crate) fn allgather_two_nodes(p: &Program) {
    for rank in p.ranks() {
        let (id, output) = (rank.id(), rank.output());
        let peers: Vec<_> = p.ranks().filter(|peer| peer.node() == rank.node() && *peer != rank).collect();
        let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
        let partner = p.rank((id + p.ranks_per_node()) % p.num_ranks());
        let across = rank.port_channel(partner);
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        for (channel, peer) in channels.iter().zip(&peers) {
            channel.put(peer.output().chunk(id), output.chunk(id), 0);
        }
        across.signal(0);
        across.wait(0).sync(BlockSync::After);
        across.put_with_signal_and_flush(partner.output().chunk(id), output.chunk(id), 0);
        across.wait(0).sync(BlockSync::After);
        for (channel, peer) in channels.iter().zip(&peers) {
            channel.put(peer.output().chunk(partner.id()), output.chunk(partner.id()), 0);
        }
        for channel in &channels {
            channel.signal(0).sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}
