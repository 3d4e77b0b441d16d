"""The calls of FullyShardedDataParallel, with its streams and groups: parameters are gathered ahead of their use, gradients are
scattered and reduced behind the computation, which is done on the CPU."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from harness import RANK, SIZE, empty, equal, nccl_test, on_device, run, test, values

LAYERS = 4
COUNT = 768


def shard(tensor, rank, size):
    return tensor.chunk(size)[rank].clone()


@nccl_test
def steps_of_sharded_layers():
    """Three steps of gather, "gradients" (twice the parameters plus the rank), scatter and update, as of one rank."""
    gathering, reducing = torch.cuda.Stream(), torch.cuda.Stream()
    per_rank = COUNT // SIZE
    whole = [values(0, per_rank * SIZE, torch.float64, seed=layer) for layer in range(LAYERS)]
    shards = [on_device(shard(layer, RANK, SIZE)) for layer in whole]
    current = torch.cuda.current_stream()

    def gather(layer):
        output = empty(per_rank * SIZE, torch.float64)
        gathering.wait_stream(current)
        with torch.cuda.stream(gathering):
            work = dist.all_gather_into_tensor(output, shards[layer], async_op=True)
        return output, work

    for _ in range(3):
        # Forward: the next layer is gathered while this one is computed.
        ahead = gather(0)
        for layer in range(LAYERS):
            (output, work), ahead = ahead, gather((layer + 1) % LAYERS)
            work.wait()
            equal(output, whole[layer], f"layer {layer}")
        # Backward, in reverse order.
        scattered = []
        ahead[1].wait()
        for layer in reversed(range(LAYERS)):
            output, work = gather(layer)
            work.wait()
            gradient = on_device(2 * output.cpu() + RANK)
            reduced = empty(per_rank, torch.float64)
            reducing.wait_stream(current)
            with torch.cuda.stream(reducing):
                dist.reduce_scatter_tensor(reduced, gradient, dist.ReduceOp.AVG)
            scattered.append((layer, reduced, gradient))
        current.wait_stream(reducing)
        for layer, reduced, _ in scattered:
            shards[layer] = on_device(shards[layer].cpu() - 0.5 * reduced.cpu())
        mean = sum(range(SIZE)) / SIZE
        whole = [layer - 0.5 * (2 * layer + mean) for layer in whole]
    for layer in range(LAYERS):
        torch.testing.assert_close(shards[layer].cpu(), shard(whole[layer], RANK, SIZE), rtol=1e-12, atol=1e-12)


@test
def norm_of_gradients():
    own = values(RANK, 100, torch.float64)
    norm = on_device(own.square().sum().reshape(1))
    dist.all_reduce(norm)
    equal(norm, torch.stack([values(rank, 100, torch.float64) for rank in range(SIZE)]).square().sum().reshape(1))


@nccl_test
def hybrid_shards_reduce_within_and_across_groups():
    if SIZE % 2:
        return
    mesh = init_device_mesh("cuda", (SIZE // 2, 2), mesh_dim_names=("replicate", "shard"))
    across, within = mesh.get_group("replicate"), mesh.get_group("shard")
    own, replica = dist.get_rank(within), dist.get_rank(across)
    gradient = on_device(values(RANK, 64))
    reduced = empty(32)
    dist.reduce_scatter_tensor(reduced, gradient, group=within)
    dist.all_reduce(reduced, group=across)
    total = torch.stack([values(rank, 64) for rank in range(SIZE)]).sum(0)
    equal(reduced, total.chunk(2)[own], f"replica {replica}")


@nccl_test
def functional_calls():
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    tensor = on_device(values(RANK, 48))
    total = torch.stack([values(rank, 48) for rank in range(SIZE)]).sum(0)
    equal(functional.all_reduce(tensor, "sum", group), total)
    equal(functional.all_gather_tensor(tensor, 0, group), torch.cat([values(rank, 48) for rank in range(SIZE)]))
    count = 48 // SIZE * SIZE
    scattered = functional.reduce_scatter_tensor(tensor[:count], "sum", 0, group)
    equal(scattered, total[:count].chunk(SIZE)[RANK])
    equal(tensor, values(RANK, 48))


run()
