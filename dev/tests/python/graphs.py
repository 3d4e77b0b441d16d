"""Collective calls in CUDA graphs: captured once, replayed with other values."""

import torch
import torch.distributed as dist

from harness import RANK, SIZE, empty, equal, nccl_test, on_device, run, values


def summed(count, seed=0):
    return torch.stack([values(rank, count, seed=seed) for rank in range(SIZE)]).sum(0)


@nccl_test
def captured_all_reduce_is_replayed():
    tensor = on_device(values(RANK, 300))
    dist.all_reduce(tensor)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        dist.all_reduce(tensor)
    for seed in range(5):
        tensor.copy_(values(RANK, 300, seed=seed))
        graph.replay()
        equal(tensor, summed(300, seed), f"replay {seed}")


@nccl_test
def captured_sequence_is_replayed():
    part = 64
    tensor, whole, own = on_device(values(RANK, part * SIZE)), empty(part * SIZE), empty(part)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        dist.reduce_scatter_tensor(own, tensor)
        dist.all_gather_into_tensor(whole, own)
        dist.broadcast(tensor, 0)
    for seed in range(3):
        tensor.copy_(values(RANK, part * SIZE, seed=seed))
        graph.replay()
        equal(whole, summed(part * SIZE, seed), f"replay {seed}")
        equal(tensor, values(0, part * SIZE, seed=seed), f"replay {seed}")


@nccl_test
def captured_async_calls_are_replayed():
    """The calls run on a stream of the backend, which joins the capture by an event."""
    tensors = [on_device(values(RANK, 128)) for _ in range(2)]
    dist.all_reduce(tensors[0].clone())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()
        copy = tensors[1].clone()
    for seed in range(3):
        for tensor in tensors:
            tensor.copy_(values(RANK, 128, seed=seed))
        graph.replay()
        for tensor in (*tensors, copy):
            equal(tensor, summed(128, seed), f"replay {seed}")


run()
