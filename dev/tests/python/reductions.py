"""all_reduce, reduce, reduce_scatter_tensor and reduce_scatter: operations, types, and ways to wait."""

import torch
import torch.distributed as dist

from harness import COUNTS, RANK, SIZE, empty, equal, library_test, nccl_test, on_device, run, test, values

OPS = {
    dist.ReduceOp.SUM: lambda all: torch.stack(all).sum(0),
    dist.ReduceOp.PRODUCT: lambda all: torch.stack(all).prod(0),
    dist.ReduceOp.MIN: lambda all: torch.stack(all).amin(0),
    dist.ReduceOp.MAX: lambda all: torch.stack(all).amax(0),
}
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64)


def expected(count, op, dtype=torch.float32, seed=0):
    return OPS[op]([values(rank, count, dtype, seed) for rank in range(SIZE)]).to(dtype)


@test
def all_reduce_every_op_and_type():
    for dtype in TYPES:
        for op in OPS:
            tensor = on_device(values(RANK, 517, dtype))
            dist.all_reduce(tensor, op)
            equal(tensor, expected(517, op, dtype), f"{op} of {dtype}")


@test
def all_reduce_every_size():
    for seed, count in enumerate(COUNTS + (1 << 16,)):
        tensor = on_device(values(RANK, count, seed=seed))
        dist.all_reduce(tensor)
        equal(tensor, expected(count, dist.ReduceOp.SUM, seed=seed), f"{count} elements")


@nccl_test
def all_reduce_average():
    tensor = on_device(values(RANK, 100) * SIZE)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    equal(tensor, expected(100, dist.ReduceOp.SUM))


@library_test
def all_reduce_premultiplied_sum():
    tensor = on_device(values(RANK, 100))
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    equal(tensor, expected(100, dist.ReduceOp.SUM) / 2)


@test
def all_reduce_bool():
    tensor = on_device(values(RANK, 33, torch.bool))
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    equal(tensor, torch.stack([values(rank, 33, torch.bool) for rank in range(SIZE)]).any(0))


@test
def all_reduce_async():
    tensors = [on_device(values(RANK, 300, seed=seed)) for seed in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    for seed, tensor in enumerate(tensors):
        equal(tensor, expected(300, dist.ReduceOp.SUM, seed=seed), f"call {seed}")
    assert all(work.is_completed() for work in works)


@nccl_test
def all_reduce_on_another_stream():
    stream = torch.cuda.Stream()
    tensor = on_device(values(RANK, 257))
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        dist.all_reduce(tensor)
        copy = tensor.clone()
    torch.cuda.current_stream().wait_stream(stream)
    equal(copy, expected(257, dist.ReduceOp.SUM))


@test
def all_reduce_of_a_slice():
    whole = on_device(values(RANK, 1000))
    dist.all_reduce(whole[13:113])
    result = values(RANK, 1000)
    result[13:113] = torch.stack([values(rank, 1000)[13:113] for rank in range(SIZE)]).sum(0)
    equal(whole, result)


@test
def all_reduce_coalesced():
    tensors = [on_device(values(RANK, count, seed=count)) for count in COUNTS]
    dist.all_reduce_coalesced(tensors)
    for count, tensor in zip(COUNTS, tensors):
        equal(tensor, expected(count, dist.ReduceOp.SUM, seed=count), f"{count} elements")


@test
def reduce_to_every_root():
    for root in range(SIZE):
        for op in OPS:
            tensor = on_device(values(RANK, 77, seed=root))
            dist.reduce(tensor, root, op)
            if RANK == root:
                equal(tensor, expected(77, op, seed=root), f"{op} at {root}")


@test
def reduce_scatter_tensor_every_size():
    for count in COUNTS:
        for op in OPS:
            output = empty(count)
            dist.reduce_scatter_tensor(output, on_device(values(RANK, count * SIZE)), op)
            equal(output, expected(count * SIZE, op)[RANK * count :][:count], f"{op} of {count}")


@test
def reduce_scatter_tensor_in_place():
    count = 64
    whole = on_device(values(RANK, count * SIZE))
    own = whole[RANK * count :][:count]
    dist.reduce_scatter_tensor(own, whole)
    equal(own, expected(count * SIZE, dist.ReduceOp.SUM)[RANK * count :][:count])


@test
def reduce_scatter_of_a_list():
    output = empty(90)
    dist.reduce_scatter(output, [on_device(values(RANK, 90, seed=to)) for to in range(SIZE)])
    equal(output, expected(90, dist.ReduceOp.SUM, seed=RANK))


run()
