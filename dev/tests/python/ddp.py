"""DistributedDataParallel: its reducer on the CPU, with each bucket of gradients reduced on the devices by a communication hook."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from harness import BACKEND, DEVICE, RANK, SIZE, equal, on_device, run, test

STEPS = 4
BATCH = 6


def model():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(20, 40), torch.nn.ReLU(), torch.nn.Linear(40, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3)]
    return torch.nn.Sequential(*layers).double()


def batch(rank, step):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(BATCH, 20, generator=generator, dtype=torch.float64), torch.randn(
        BATCH, 3, generator=generator, dtype=torch.float64
    )


def train(module, ranks):
    """Trains on the batches of ranks and returns the loss of each step."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        inputs, targets = (torch.cat(parts) for parts in zip(*(batch(rank, step) for rank in ranks)))
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(module(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def close(found, expected):
    for parameter, reference in zip(found.parameters(), expected.parameters()):
        torch.testing.assert_close(parameter, reference, rtol=1e-12, atol=1e-12)


def reduce_on_devices(buckets, bucket):
    """Sums a bucket on the devices, as the reducer's own call does."""
    buckets.append(bucket.index())
    tensor = on_device(bucket.buffer() / SIZE)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    return future.then(lambda done: done.value()[0].cpu())


@test
def training_equals_that_of_one_rank():
    expected = model()
    train(expected, range(SIZE))
    buckets = []
    # Small buckets: several of them, reduced while the gradients of earlier layers are computed.
    found = DistributedDataParallel(model(), bucket_cap_mb=0.005)
    found.register_comm_hook(buckets, reduce_on_devices)
    train(found, [RANK])
    close(found.module, expected)
    assert len(buckets) > STEPS, f"expected several buckets for each step, found {buckets}"


@test
def gradients_accumulate_without_calls():
    buckets = []
    found = DistributedDataParallel(model())
    found.register_comm_hook(buckets, reduce_on_devices)
    inputs, targets = batch(RANK, 0)
    with found.no_sync():
        torch.nn.functional.mse_loss(found(inputs), targets).backward()
    assert not buckets, buckets
    torch.nn.functional.mse_loss(found(inputs), targets).backward()
    expected = model()
    losses = [torch.nn.functional.mse_loss(expected(x), y) for x, y in (batch(rank, 0) for rank in range(SIZE))]
    (2 * sum(losses) / SIZE).backward()
    for parameter, reference in zip(found.module.parameters(), expected.parameters()):
        torch.testing.assert_close(parameter.grad, reference.grad, rtol=1e-12, atol=1e-12)


@test
def states_are_broadcast_as_by_the_constructor():
    # The constructor compares the shapes of all ranks, then broadcasts parameters and buffers of rank 0.
    tensors = [on_device(torch.arange(count, dtype=torch.float32) + 1000 * RANK) for count in (3, 64, 1025)]
    group = dist.group.WORLD
    dist._verify_params_across_processes(group, tensors)
    for tensor in tensors:
        dist._broadcast_coalesced(group, [tensor], 1 << 20, 0)
    for tensor in tensors:
        equal(tensor, torch.arange(tensor.numel(), dtype=torch.float32))


@test
def unequal_shapes_are_reported():
    tensor = torch.zeros(3 + RANK, device=DEVICE)
    try:
        dist._verify_params_across_processes(dist.group.WORLD, [tensor])
    except RuntimeError as error:
        assert RANK != 0 and "shape" in str(error) or "size" in str(error), error
    else:
        assert RANK == 0 or SIZE == 1, "expected an error"


run(f"cpu:gloo,cuda:{BACKEND}")
