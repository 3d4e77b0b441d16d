"""Programs that the examples compile."""

from __future__ import annotations

from mscclpp.language import *


def allreduce_by_parts(spec: AlgoSpec) -> CollectiveProgram:
    """All-reduce in place: each rank reduces its part of all ranks' data, then sends it to the others."""
    ranks = spec.world_size
    with CollectiveProgram.from_spec(spec) as program:
        channels = {
            (rank, peer): MemoryChannel(peer, rank) for rank in range(ranks) for peer in range(ranks) if peer != rank
        }
        for rank in range(ranks):
            buffer = Rank(rank).get_input_buffer()
            own = buffer[rank : rank + 1]
            peers = [peer for peer in range(ranks) if peer != rank]
            # The data of all ranks is ready.
            for peer in peers:
                channels[rank, peer].signal(tb=0, relaxed=True)
            for peer in peers:
                channels[rank, peer].wait(tb=0, relaxed=True, data_sync=SyncType.after)
            for peer in peers:
                theirs = Rank(peer).get_input_buffer()[rank : rank + 1]
                channels[rank, peer].reduce(own, [theirs], tb=0)
            for peer in peers:
                channels[rank, peer].put(Rank(peer).get_input_buffer()[rank : rank + 1], own, tb=0)
            # The sums have arrived.
            for peer in peers:
                channels[rank, peer].signal(tb=0, data_sync=SyncType.before)
            for peer in peers:
                channels[rank, peer].wait(tb=0, data_sync=SyncType.after)
    return program
