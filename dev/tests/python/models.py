"""Training whose kernels run on the device, so that it needs one that is not simulated: DistributedDataParallel, FSDP2 and whole steps in
a CUDA graph, each compared with one rank that has the batches of all. With BACKEND=gloo it runs on the CPU."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from harness import DEVICE, RANK, SIZE, equal, nccl_test, run, test, values

STEPS = 5
BATCH = 16


def model(seed=1):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)]
    return torch.nn.Sequential(*layers).double().to(DEVICE)


def batch(ranks, step):
    parts = []
    for rank in ranks:
        generator = torch.Generator().manual_seed(100 * step + rank)
        parts.append(torch.randn(BATCH, 72, generator=generator, dtype=torch.float64))
    return torch.cat(parts).to(DEVICE).split([64, 8], dim=1)


def train(module, ranks):
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for step in range(STEPS):
        inputs, targets = batch(ranks, step)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(inputs), targets).backward()
        optimizer.step()


def close(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def expected_parameters():
    module = model()
    train(module, range(SIZE))
    return list(module.parameters())


@test
def ddp():
    for options in ({}, {"gradient_as_bucket_view": True, "static_graph": True}):
        module = DistributedDataParallel(model(RANK + 1), bucket_cap_mb=0.05, **options)
        train(module, [RANK])
        close(module.parameters(), expected_parameters())


@test
def ddp_with_compressed_gradients():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    module = DistributedDataParallel(model().float())
    module.register_comm_hook(None, default_hooks.bf16_compress_hook)
    inputs, targets = batch([RANK], 0)
    torch.nn.functional.mse_loss(module(inputs.float()), targets.float()).backward()
    whole = model().float()
    inputs, targets = batch(range(SIZE), 0)
    torch.nn.functional.mse_loss(whole(inputs.float()), targets.float()).backward()
    for found, expected in zip(module.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=0.02, atol=1e-3)


@nccl_test
def fsdp2():
    from torch.distributed.fsdp import fully_shard

    module = model()
    mesh = init_device_mesh("cuda", (SIZE,))
    for layer in module:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    train(module, [RANK])
    close([parameter.full_tensor() for parameter in module.parameters()], expected_parameters())


@nccl_test
def tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    module, whole = model(), model()
    parallelize_module(module, init_device_mesh("cuda", (SIZE,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs, _ = batch([0], 0)
    torch.testing.assert_close(module(inputs), whole(inputs), rtol=1e-9, atol=1e-9)


@test
def computation_overlaps_with_calls():
    """A call must wait for the kernels before it, and the kernels after it for the call."""
    matrix = torch.randn(1024, 1024, device=DEVICE, dtype=torch.float64)
    for seed in range(10):
        tensor = torch.zeros(100_000, device=DEVICE)
        works = []
        for part, step in enumerate(tensor.chunk(4)):
            matrix @ matrix
            step += values(RANK, step.numel(), seed=seed).to(DEVICE)
            step *= part + 1
            works.append(dist.all_reduce(step, async_op=True))
        for work in works:
            work.wait()
        tensor *= 2
        total = [torch.stack([values(rank, 25_000, seed=seed) for rank in range(SIZE)]).sum(0) * 2 * (part + 1) for part in range(4)]
        equal(tensor, torch.cat(total), f"round {seed}")


@nccl_test
def steps_in_a_graph():
    """Forward, an all-reduce in the middle and what follows it, captured once and replayed."""
    weight = torch.eye(128, device=DEVICE) * 2
    inputs = torch.zeros(32, 128, device=DEVICE)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())

    def step():
        hidden = inputs @ weight
        dist.all_reduce(hidden)
        return (hidden + 1) @ weight

    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        outputs = step()
    for seed in range(20):
        inputs.copy_(values(RANK, 32 * 128, seed=seed).reshape(32, 128))
        graph.replay()
        total = torch.stack([values(rank, 32 * 128, seed=seed) for rank in range(SIZE)]).sum(0).reshape(32, 128)
        equal(outputs, (total * 2 + 1) * 2, f"replay {seed}")


@nccl_test
def large_messages():
    for count in (1 << 20, (1 << 24) + 3):
        tensor = torch.arange(count, device=DEVICE, dtype=torch.float32) % 1021 + RANK
        dist.all_reduce(tensor)
        expected = (torch.arange(count, device=DEVICE, dtype=torch.float32) % 1021) * SIZE + sum(range(SIZE))
        assert torch.equal(tensor, expected), f"{count} elements: {(tensor != expected).sum()} differ"
        gathered = torch.empty(SIZE * count, device=DEVICE)
        dist.all_gather_into_tensor(gathered, torch.full((count,), float(RANK), device=DEVICE))
        assert torch.equal(gathered, torch.arange(SIZE, device=DEVICE).repeat_interleave(count).float()), f"gather of {count}"


run()
