"""What serves the calls of a process group, as the program chooses it: an order of reduction, and plans."""

import random

import mscclpp_rs
import torch
import torch.distributed as dist
from harness import RANK, SIZE, equal, run, test

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def rounded(rank, count, dtype):
    """Returns values of a rank whose sums depend on their order."""
    generator = torch.Generator().manual_seed(rank)
    return (torch.randn(count, generator=generator) * 10).to(dtype)


def in_rank_order(count, dtype, combine):
    """Returns the reduction of all ranks' values from left to right, rounded after each step."""
    total = rounded(0, count, dtype)
    for rank in range(1, SIZE):
        total = combine(total, rounded(rank, count, dtype))
    return total


def divided(count, numbers):
    """Returns the ends of random parts."""
    return sorted({count, *(numbers.randrange(1, count) for _ in range(numbers.randrange(1, 6)))})


@test
def bits_do_not_depend_on_how_a_batch_is_divided():
    mscclpp_rs.set_order("rank-order")
    seed = 7
    print(f"seed {seed}", flush=True)
    numbers = random.Random(seed)
    for dtype in FLOATS:
        for count in (1, 40, 3001, 70_000):
            for op, combine in ((dist.ReduceOp.SUM, torch.add), (dist.ReduceOp.PRODUCT, torch.mul)):
                expected = in_rank_order(count, dtype, combine)
                tensor, begin = rounded(RANK, count, dtype), 0
                for end in divided(count, numbers) if count > 1 else [1]:
                    dist.all_reduce(tensor[begin:end], op)
                    begin = end
                equal(tensor, expected, f"{op} of {count} {dtype}")
                part = rounded(RANK, count // SIZE * SIZE, dtype) if count >= SIZE else None
                if part is not None:
                    output = torch.empty(count // SIZE, dtype=dtype)
                    dist.reduce_scatter_tensor(output, part, op)
                    whole = in_rank_order(count // SIZE * SIZE, dtype, combine)
                    equal(output, whole.reshape(SIZE, -1)[RANK], f"scattered {op} of {count} {dtype}")
                tensor = rounded(RANK, count, dtype)
                dist.reduce(tensor, SIZE - 1, op)
                if RANK == SIZE - 1:
                    equal(tensor, expected, f"reduced {op} of {count} {dtype}")
    mscclpp_rs.set_order("same-on-all-ranks")


@test
def orders_that_do_not_exist_are_refused():
    try:
        mscclpp_rs.set_order("left-to-right")
    except mscclpp_rs.InvalidInputError as error:
        assert "expected one of any, in-switch, same-on-all-ranks, rank-order" in str(error), error
    else:
        raise AssertionError("accepted")


@test
def registered_plan_serves_its_calls():
    ring = mscclpp_rs.Plan.builtin("allreduce_ring", SIZE, in_place=True).text()
    plan = mscclpp_rs.Plan.load(ring.replace("plan allreduce_ring", "plan mine", 1).encode())
    assert mscclpp_rs.register_plan(plan) == "mine"
    before = mscclpp_rs.call_counts().get("mine", 0)
    tensor = torch.full((5000,), float(RANK))
    dist.all_reduce(tensor)
    equal(tensor, torch.full((5000,), float(sum(range(SIZE)))))
    assert mscclpp_rs.call_counts()["mine"] == before + 1, mscclpp_rs.call_counts()
    # Another collective is served by another algorithm.
    dist.broadcast(tensor, 0)
    assert mscclpp_rs.call_counts()["mine"] == before + 1


@test
def plan_of_a_known_name_is_refused_and_the_group_goes_on():
    plan = mscclpp_rs.Plan.builtin("allreduce_ring", SIZE)
    try:
        mscclpp_rs.register_plan(plan)
    except mscclpp_rs.InvalidInputError as error:
        assert "allreduce_ring" in str(error), error
    else:
        raise AssertionError("accepted")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    equal(tensor, torch.full((3,), float(SIZE)))


@test
def ranks_that_register_different_plans_are_told_their_names():
    group = dist.new_group(list(range(SIZE)))
    ring = mscclpp_rs.Plan.builtin("allreduce_ring", SIZE).text()
    name = "first" if RANK == 0 else "second"
    plan = mscclpp_rs.Plan.load(ring.replace("plan allreduce_ring", f"plan {name}", 1).encode())
    try:
        mscclpp_rs.register_plan(plan, group=group)
    except mscclpp_rs.MismatchError as error:
        assert "first" in str(error) and "second" in str(error), error
    else:
        raise AssertionError("accepted")


run()
