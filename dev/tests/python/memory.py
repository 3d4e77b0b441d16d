"""Kinds of memory that calls are made on: pools of NCCL's allocator, other allocators, page-locked memory, and reuse of addresses."""

import torch
import torch.distributed as dist

from harness import COUNTS, DEVICE, RANK, SIZE, equal, nccl_test, on_device, run, values


def summed(count, seed=0):
    return torch.stack([values(rank, count, seed=seed) for rank in range(SIZE)]).sum(0)


def backend():
    return dist.group.WORLD._get_backend(DEVICE)


@nccl_test
def pool_of_ncclMemAlloc():
    pool = torch.cuda.MemPool(backend().mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        tensors = [on_device(values(RANK, count)) for count in COUNTS]
    for count, tensor in zip(COUNTS, tensors):
        dist.all_reduce(tensor)
        equal(tensor, summed(count), f"{count} elements")


@nccl_test
def registered_pool():
    pool = torch.cuda.MemPool(backend().mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        tensor = on_device(values(RANK, 5000))
    backend().register_mem_pool(pool)
    dist.all_reduce(tensor)
    equal(tensor, summed(5000))
    backend().deregister_mem_pool(pool)
    dist.all_reduce(tensor)
    equal(tensor, summed(5000) * SIZE)


@nccl_test
def freed_and_reused_addresses():
    for seed in range(12):
        tensor = on_device(values(RANK, 1000 + seed, seed=seed))
        dist.all_reduce(tensor)
        equal(tensor, summed(1000 + seed, seed), f"call {seed}")
        del tensor
        if seed % 3 == 2:
            torch.cuda.empty_cache()


@nccl_test
def page_locked_copies():
    source = values(RANK, 3000).pin_memory()
    assert source.is_pinned()
    tensor = source.to(DEVICE, non_blocking=True)
    dist.all_reduce(tensor)
    result = torch.empty(3000).pin_memory()
    result.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    equal(result, summed(3000))


@nccl_test
def events_order_streams():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    event = torch.cuda.Event()
    with torch.cuda.stream(first):
        tensor = on_device(values(RANK, 640))
        dist.all_reduce(tensor)
        event.record()
    with torch.cuda.stream(second):
        event.wait()
        copy = tensor.clone()
        dist.all_reduce(copy)
    second.synchronize()
    assert event.query() and second.query()
    equal(tensor, summed(640))
    equal(copy, summed(640) * SIZE)


run()
