"""barrier, new_group, coalesced calls and destroyed groups."""

import torch
import torch.distributed as dist

from harness import RANK, SIZE, empty, equal, nccl_test, on_device, run, test, values


def summed(ranks, count, seed=0):
    return torch.stack([values(rank, count, seed=seed) for rank in ranks]).sum(0)


@test
def barrier_returns_on_all_ranks():
    for _ in range(3):
        dist.barrier()


@test
def new_group_of_all_ranks():
    group = dist.new_group()
    tensor = on_device(values(RANK, 55))
    dist.all_reduce(tensor, group=group)
    equal(tensor, summed(range(SIZE), 55))


@test
def new_groups_of_single_ranks():
    groups = [dist.new_group([rank]) for rank in range(SIZE)]
    tensor = on_device(values(RANK, 55))
    dist.all_reduce(tensor, group=groups[RANK])
    equal(tensor, values(RANK, 55))


@test
def new_groups_of_even_and_odd_ranks():
    halves = [list(range(first, SIZE, 2)) for first in range(2)]
    groups = [dist.new_group(half) for half in halves if half]
    tensor = on_device(values(RANK, 55))
    dist.all_reduce(tensor, group=groups[RANK % 2])
    equal(tensor, summed(halves[RANK % 2], 55))


@test
def interleaved_calls_of_two_groups():
    groups = [dist.new_group(), dist.new_group()]
    tensors = [on_device(values(RANK, 80, seed=seed)) for seed in range(6)]
    works = [dist.all_reduce(tensor, group=groups[at % 2], async_op=True) for at, tensor in enumerate(tensors)]
    for seed, (work, tensor) in enumerate(zip(works, tensors)):
        work.wait()
        equal(tensor, summed(range(SIZE), 80, seed), f"call {seed}")


@test
def destroyed_group_leaves_the_others():
    group = dist.new_group()
    dist.all_reduce(on_device(values(RANK, 10)), group=group)
    dist.destroy_process_group(group)
    tensor = on_device(values(RANK, 55))
    dist.all_reduce(tensor)
    equal(tensor, summed(range(SIZE), 55))


@nccl_test
def coalescing_manager_joins_calls():
    tensors = [on_device(values(RANK, 20 + seed, seed=seed)) for seed in range(4)]
    with dist._coalescing_manager(device=tensors[0].device, async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for seed, tensor in enumerate(tensors):
        equal(tensor, summed(range(SIZE), 20 + seed, seed), f"call {seed}")


@nccl_test
def coalescing_manager_joins_gathers():
    inputs = [on_device(values(RANK, 16, seed=seed)) for seed in range(3)]
    outputs = [empty(16 * SIZE) for _ in inputs]
    with dist._coalescing_manager(device=inputs[0].device):
        for output, tensor in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, tensor)
    for seed, output in enumerate(outputs):
        equal(output, torch.cat([values(rank, 16, seed=seed) for rank in range(SIZE)]), f"call {seed}")


run()
