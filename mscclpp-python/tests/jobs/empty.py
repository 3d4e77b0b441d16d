"""Calls with another count on one rank than on the others, of which one may be 0: all ranks compare them, on one node and on several."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from harness import RANK, SIZE, equal, own_test, run

import mscclpp_rs
from mscclpp_rs._torch import backend_of

COUNT = 5


def all_reduce(group, count, value):
    tensor = torch.full((count,), float(value + RANK))
    dist.all_reduce(tensor, group=group)
    equal(tensor, torch.full((count,), float(sum(value + rank for rank in range(SIZE)))))


def broadcast(group, count, value):
    tensor = torch.full((count,), float(value + RANK))
    dist.broadcast(tensor, 0, group=group)
    equal(tensor, torch.full((count,), float(value)))


def all_gather(group, count, value):
    found = torch.zeros(SIZE * count)
    dist.all_gather_into_tensor(found, torch.full((count,), float(value + RANK)), group=group)
    equal(found, torch.cat([torch.full((count,), float(value + rank)) for rank in range(SIZE)]))


def transfer(group, count, value):
    tensor = torch.full((count,), float(value + RANK))
    if RANK == 0:
        dist.send(tensor, 1, group=group)
    elif RANK == 1:
        dist.recv(tensor, 0, group=group)
        equal(tensor, torch.full((count,), float(value)))


CALLS = (all_reduce, broadcast, all_gather, transfer)


def mismatches():
    """Makes each call with each pair of counts, of rank 0 and of the others, and then with equal ones."""
    group = dist.new_group(timeout=timedelta(seconds=60))
    for call in CALLS:
        for counts in [(first, other) for first in (0, 1, COUNT) for other in (0, 1, COUNT)]:
            count = counts[min(RANK, 1)]
            if counts[0] == counts[1]:
                call(group, count, 3)
                call(group, COUNT, 1000)
                continue
            # Its failure is that of a group of its own.
            own = dist.new_group(timeout=timedelta(seconds=60))
            error = None
            try:
                call(own, count, 3)
                call(own, COUNT, 1000)
            except mscclpp_rs.Error as found:
                error = found
            # A send is buffered: its rank may be done before the receiver compares. Other ranks have no part in it.
            if call is not transfer or RANK == 1:
                assert isinstance(error, mscclpp_rs.MismatchError), f"{call} of {counts}: {error!r}"
            # All ranks have their results, and none waits until what is buffered is received.
            dist.barrier()
            backend_of(own).abort()
            dist.destroy_process_group(own)


@own_test
def different_counts_are_reported():
    mismatches()


@own_test
def different_counts_are_reported_between_nodes():
    os.environ["MSCCLPP_HOST_ID"] = f"host of rank {RANK}"
    mismatches()


run()
