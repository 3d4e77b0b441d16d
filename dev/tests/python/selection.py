"""What serves calls, as a program of Python chooses it: a plan, a selector and an order, for stock PyTorch's backend nccl on this project's NCCL
library, and with BACKEND=mscclpp for the backend of mscclpp-python.
"""

import contextlib
import os
import random
import sys
import time

import mscclpp_rs
import torch
import torch.distributed as dist
from harness import BACKEND, RANK, SIZE, equal, on_device, run, test, values

CHOSEN = {"short": None, "long": None}
CALLS = []


def select(call, names):
    CALLS.append(call)
    chosen = CHOSEN["short" if call.output_bytes <= 4096 else "long"]
    if callable(chosen):
        return chosen(call, names)
    return chosen


def renamed(name, **options):
    text = mscclpp_rs.Plan.builtin("allreduce_ring", SIZE, **options).text()
    return mscclpp_rs.Plan.load(text.replace("plan allreduce_ring", f"plan {name}", 1).encode())


def reduced(count, group=None):
    tensor = on_device(values(RANK, count))
    dist.all_reduce(tensor, group=group)
    equal(tensor, sum(values(rank, count) for rank in range(SIZE)), f"{count} elements")


def served(count):
    """Returns the algorithms that served an all-reduce of a number of elements."""
    before = mscclpp_rs.call_counts()
    reduced(count)
    return [name for name, calls in mscclpp_rs.call_counts().items() if calls > before.get(name, 0)]


@test
def registered_plan_serves_its_calls():
    assert served(512) == ["mine"], mscclpp_rs.call_counts()
    assert served(5000) == ["mine"], mscclpp_rs.call_counts()


@test
def selector_decides_each_call():
    CHOSEN["long"] = "allreduce_packets"
    assert served(512) == ["mine"] and served(5000) == ["allreduce_packets"], mscclpp_rs.call_counts()
    # Calls of one size, which are prepared.
    for name in ("allreduce_packets", "mine", "allreduce_ring", "mine", "allreduce_packets"):
        CHOSEN["long"] = name
        assert served(5000) == [name], (name, mscclpp_rs.call_counts())
    CHOSEN["long"] = None
    last = CALLS[-1]
    assert (last.collective, last.dtype, last.op, last.input_bytes, last.output_bytes) == ("allreduce", "f32", "sum", 20000, 20000)
    assert (last.num_ranks, last.root, last.in_place, last.captured, last.is_device) == (SIZE, 0, True, False, True), last


@test
def name_that_does_not_exist_is_an_error_that_lists_others():
    CHOSEN["short"] = "fastest"
    try:
        reduced(512)
    except RuntimeError as error:
        for expected in ("selector", "`fastest`", "`mine`", "`allreduce_packets`"):
            assert expected in str(error), (expected, error)
    else:
        raise AssertionError("accepted")
    CHOSEN["short"] = None
    assert served(512) == ["mine"]


@test
def bits_do_not_depend_on_how_a_batch_is_divided():
    mscclpp_rs.set_order("rank-order")
    seed = 11
    print(f"seed {seed}", flush=True)
    numbers = random.Random(seed)

    def rounded(rank, count):
        return torch.randn(count, generator=torch.Generator().manual_seed(rank)) * 10

    for count in (40, 3001):
        expected = rounded(0, count)
        for rank in range(1, SIZE):
            expected = expected + rounded(rank, count)
        tensor, begin = on_device(rounded(RANK, count)), 0
        for end in sorted({count, *(numbers.randrange(1, count) for _ in range(numbers.randrange(1, 4)))}):
            dist.all_reduce(tensor[begin:end])
            begin = end
        equal(tensor, expected, f"{count} elements")
    mscclpp_rs.set_order("same-on-all-ranks")


@test
def registrations_without_effect_are_errors():
    for refused in (
        lambda: mscclpp_rs.register_plan(renamed("mine", in_place=True)),
        lambda: mscclpp_rs.set_order("left-to-right"),
        lambda: mscclpp_rs.set_selector("mine"),
    ):
        try:
            refused()
        except mscclpp_rs.InvalidInputError:
            pass
        else:
            raise AssertionError("accepted")


def failure_of(group):
    """Returns the exception of the first call of a group that raises one: a call may return before another rank has failed."""
    for _ in range(100):
        try:
            dist.all_reduce(on_device(torch.ones(512)), group=group)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - PyTorch's backends raise several kinds
            return error
        time.sleep(0.05)
    raise AssertionError("no call has failed")


@test
def exception_of_a_selector_reaches_all_ranks():
    group = dist.new_group(list(range(SIZE)))
    reduced(512, group)

    def fail(call, names):
        raise KeyError("no table for this size")

    CHOSEN["short"] = fail if RANK == SIZE - 1 else None
    error = failure_of(group)
    CHOSEN["short"] = None
    assert "no table for this size" in str(error) and f"rank {SIZE - 1}" in str(error), error
    if BACKEND == "mscclpp" and RANK == SIZE - 1:
        assert isinstance(error.__cause__, KeyError), repr(error.__cause__)


@test
def ranks_whose_selectors_differ_get_an_error_that_names_both():
    group = dist.new_group(list(range(SIZE)))
    reduced(512, group)
    CHOSEN["short"] = "allreduce_ring" if RANK == 0 else "mine"
    error = failure_of(group)
    CHOSEN["short"] = None
    for expected in ("`allreduce_ring`", "`mine`", "rank 0", "rank 1"):
        assert expected in str(error), (expected, error)


def refuse_wrong_plan():
    """Registers a plan that was read without the checks, which the library makes."""
    text = mscclpp_rs.Plan.builtin("allreduce_ring", SIZE, in_place=True).text()
    unchecked = mscclpp_rs.Plan.load(text.replace(f"    wait memory rank {1 % SIZE}\n", "", 1).encode(), check=False)
    try:
        mscclpp_rs.register_plan(unchecked, name="mine")
    except mscclpp_rs.Error as error:
        assert "M0201" in str(error), error
    else:
        raise AssertionError("accepted")


if __name__ == "__main__":
    refuse_wrong_plan()
    assert mscclpp_rs.register_plan(renamed("mine", in_place=True)) == "mine"
    mscclpp_rs.set_selector(select)
    # PyTorch's older backend reports groups that have failed when they are destroyed.
    with contextlib.suppress(RuntimeError):
        run()
    sys.stdout.flush()
    os._exit(0)
