"""all_gather, all_gather_into_tensor, gather, scatter and broadcast."""

import torch
import torch.distributed as dist

from harness import COUNTS, RANK, SIZE, empty, equal, nccl_test, on_device, run, test, values

TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int64, torch.bool)


@test
def all_gather_into_tensor_every_size_and_type():
    for dtype in TYPES:
        for count in COUNTS:
            output = empty(count * SIZE, dtype)
            dist.all_gather_into_tensor(output, on_device(values(RANK, count, dtype)))
            equal(output, torch.cat([values(rank, count, dtype) for rank in range(SIZE)]), f"{count} of {dtype}")


@test
def all_gather_into_tensor_in_place():
    count = 96
    output = empty(count * SIZE)
    own = output[RANK * count :][:count]
    own.copy_(values(RANK, count))
    dist.all_gather_into_tensor(output, own)
    equal(output, torch.cat([values(rank, count) for rank in range(SIZE)]))


@test
def all_gather_into_tensor_in_place_on_one_rank():
    for count in (96, 5000):
        expected = torch.cat([values(rank, count) for rank in range(SIZE)])
        for first in (0, 1):
            output = empty(count * SIZE)
            own = on_device(values(RANK, count))
            if first == RANK:
                own = output[RANK * count :][:count].copy_(own)
            dist.all_gather_into_tensor(output, own)
            equal(output, expected, f"{count}, in place on rank {first}")


@test
def all_to_all_single_in_place_on_one_rank():
    for first in (0, 1):
        own = on_device(torch.arange(6.0 * SIZE) + 100 * RANK)
        output = own if first == RANK else empty(6 * SIZE)
        dist.all_to_all_single(output, own)
        expected = torch.cat([torch.arange(6.0) + 6 * RANK + 100 * rank for rank in range(SIZE)])
        equal(output, expected, f"in place on rank {first}")


@test
def all_gather_into_tensor_async():
    outputs = [empty(50 * SIZE) for _ in range(4)]
    works = [
        dist.all_gather_into_tensor(output, on_device(values(RANK, 50, seed=seed)), async_op=True)
        for seed, output in enumerate(outputs)
    ]
    for seed, (work, output) in enumerate(zip(works, outputs)):
        work.wait()
        equal(output, torch.cat([values(rank, 50, seed=seed) for rank in range(SIZE)]), f"call {seed}")


@test
def all_gather_to_a_list():
    outputs = [empty(130) for _ in range(SIZE)]
    dist.all_gather(outputs, on_device(values(RANK, 130)))
    for rank, output in enumerate(outputs):
        equal(output, values(rank, 130), f"of rank {rank}")


@nccl_test
def all_gather_of_unequal_sizes():
    outputs = [empty(10 + rank) for rank in range(SIZE)]
    dist.all_gather(outputs, on_device(values(RANK, 10 + RANK)))
    for rank, output in enumerate(outputs):
        equal(output, values(rank, 10 + rank), f"of rank {rank}")


@test
def broadcast_from_every_root():
    for root in range(SIZE):
        for dtype in TYPES:
            for count in COUNTS:
                tensor = on_device(values(RANK, count, dtype))
                dist.broadcast(tensor, root)
                equal(tensor, values(root, count, dtype), f"{count} of {dtype} from {root}")


@test
def gather_at_every_root():
    for root in range(SIZE):
        outputs = [empty(61) for _ in range(SIZE)] if RANK == root else None
        dist.gather(on_device(values(RANK, 61)), outputs, root)
        for rank, output in enumerate(outputs or []):
            equal(output, values(rank, 61), f"of rank {rank} at {root}")


@test
def scatter_from_every_root():
    for root in range(SIZE):
        output = empty(61)
        inputs = [on_device(values(root, 61, seed=to)) for to in range(SIZE)] if RANK == root else None
        dist.scatter(output, inputs, root)
        equal(output, values(root, 61, seed=RANK), f"from {root}")


run()
