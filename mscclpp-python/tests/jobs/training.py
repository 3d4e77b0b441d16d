"""Training and its parts on the backend: DDP, FSDP2, tensor parallel, functional collectives, torch.compile, checkpoints.

The digests that a run prints are those of gloo: the backend adds in the same order.
"""

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from harness import RANK, SIZE, equal, report, run, test
from torch import nn
from torch.distributed.device_mesh import init_device_mesh


def model(seed=0, width=64):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))


def batch(step):
    generator = torch.Generator().manual_seed(100 * step + RANK)
    return torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)


def train(net, steps=4):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    loss = None
    for step in range(steps):
        inputs, targets = batch(step)
        loss = nn.functional.mse_loss(net(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def same_on_all_ranks(tensor):
    parts = [torch.zeros_like(tensor) for _ in range(SIZE)]
    dist.all_gather(parts, tensor)
    for part in parts:
        equal(part, parts[0], "parameters of the ranks")


def flat(net):
    return torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()])


@test
def ddp_of_ranks_with_other_numbers_of_steps():
    for divides_by_initial in (True, False):
        net = nn.parallel.DistributedDataParallel(model())
        with net.join(divide_by_initial_world_size=divides_by_initial):
            train(net, steps=2 + RANK)
        same_on_all_ranks(flat(net))
        report(f"ddp join {divides_by_initial}", flat(net))


@test
def ddp():
    for name, options in {
        "plain": {},
        "bucket_view": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.005},
        "static": {"static_graph": True},
        "unused": {"find_unused_parameters": True},
    }.items():
        net = nn.parallel.DistributedDataParallel(model(), **options)
        train(net)
        same_on_all_ranks(flat(net))
        report(f"ddp {name}", flat(net))


@test
def ddp_with_a_communication_hook_and_without_synchronization():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    net = nn.parallel.DistributedDataParallel(model())
    net.register_comm_hook(None, default_hooks.bf16_compress_hook)
    with net.no_sync():
        nn.functional.mse_loss(net(batch(0)[0]), batch(0)[1]).backward()
    train(net)
    same_on_all_ranks(flat(net))
    report("ddp hook", flat(net))


@test
def ddp_with_power_sgd_whose_functions_make_calls():
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

    net = nn.parallel.DistributedDataParallel(model())
    net.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1), powerSGD_hook)
    train(net)
    same_on_all_ranks(flat(net))
    report("ddp power sgd", flat(net))


@test
def fsdp2():
    from torch.distributed.fsdp import fully_shard

    net = model()
    mesh = init_device_mesh("cpu", (SIZE,))
    for layer in (net[0], net[2], net[4]):
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net)
    whole = torch.cat([parameter.full_tensor().detach().reshape(-1) for parameter in net.parameters()])
    same_on_all_ranks(whole)
    report("fsdp2", whole)


@test
def dtensors_and_tensor_parallel():
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (SIZE,))
    torch.manual_seed(5)
    whole = torch.randn(4 * SIZE, 6)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    equal(sharded.full_tensor(), whole, "full tensor")
    equal(sharded.redistribute(mesh, [Shard(1)] if 6 % SIZE == 0 else [Replicate()]).full_tensor(), whole, "redistributed")
    partial = DTensor.from_local(torch.ones(4) * (RANK + 1), mesh, [torch.distributed.tensor.Partial()])
    equal(partial.full_tensor(), torch.ones(4) * sum(range(1, SIZE + 1)), "partial")
    net = model(seed=3)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallel = parallelize_module(model(seed=3), mesh, plan)
    inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))
    expected, found = net(inputs), parallel(inputs)
    if not torch.allclose(expected, found, rtol=1e-5, atol=1e-6):
        raise AssertionError(f"tensor parallel: expected {expected}, found {found}")
    report("tensor parallel", found)


@test
def functional_collectives():
    group = dist.distributed_c10d._get_default_group()
    tensor = torch.arange(8.0) + RANK
    total = sum(torch.arange(8.0) + rank for rank in range(SIZE))
    equal(functional.all_reduce(tensor, "sum", group) + 0, total, "all_reduce")
    gathered = functional.all_gather_tensor(tensor, 0, group) + 0
    equal(gathered, torch.cat([torch.arange(8.0) + rank for rank in range(SIZE)]), "all_gather")
    scattered = functional.reduce_scatter_tensor(torch.arange(4.0 * SIZE), "sum", 0, group) + 0
    equal(scattered, torch.arange(4.0 * SIZE)[4 * RANK : 4 * RANK + 4] * SIZE, "reduce_scatter")
    exchanged = functional.all_to_all_single(torch.arange(float(SIZE)) + 10 * RANK, None, None, group) + 0
    equal(exchanged, torch.tensor([10.0 * rank + RANK for rank in range(SIZE)]), "all_to_all")
    coalesced = functional.all_reduce_coalesced([tensor, tensor * 2], "sum", group)
    equal(coalesced[0] + 0, total, "coalesced")
    equal(coalesced[1] + 0, total * 2, "coalesced")
    equal(functional.broadcast(tensor, 0, group) + 0, torch.arange(8.0), "broadcast")


@test
def compiled_program():
    group = dist.distributed_c10d._get_default_group()

    def function(tensor):
        return functional.all_reduce(tensor * 2, "sum", group) + functional.all_gather_tensor(tensor, 0, group).sum()

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    tensor = torch.arange(6.0) + RANK
    equal(compiled(tensor), function(tensor), "compiled function")
    net = torch.compile(nn.parallel.DistributedDataParallel(model()), backend="aot_eager")
    train(net)
    same_on_all_ranks(flat(net))
    report("compiled ddp", flat(net))


@test
def distributed_checkpoint():
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.tensor import Shard, distribute_tensor

    folder = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(folder, 0)
    mesh = init_device_mesh("cpu", (SIZE,))
    torch.manual_seed(2)
    whole = torch.randn(4 * SIZE, 3)
    try:
        state = {"sharded": distribute_tensor(whole, mesh, [Shard(0)]), "same": torch.arange(5.0)}
        checkpoint.save(state, checkpoint_id=folder[0])
        loaded = {"sharded": distribute_tensor(torch.zeros(4 * SIZE, 3), mesh, [Shard(0)]), "same": torch.zeros(5)}
        checkpoint.load(loaded, checkpoint_id=folder[0])
        equal(loaded["sharded"].full_tensor(), whole, "sharded")
        equal(loaded["same"], torch.arange(5.0), "same")
        dist.barrier()
    finally:
        if RANK == 0:
            shutil.rmtree(folder[0])


if __name__ == "__main__":
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    run()
