"""What serves the calls of a process group, as the program chooses it: an order of reduction, plans, and a selector."""

import os
import pathlib
import random
import tempfile

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


def raised(call, *arguments, **named):
    """Returns the exception of a call."""
    try:
        call(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - the tests compare it
        return error
    raise AssertionError("accepted")


def counted(group, call):
    """Returns the algorithms that have served a call of a group."""
    before = mscclpp_rs.call_counts(group)
    call()
    return [name for name, calls in mscclpp_rs.call_counts(group).items() if calls > before.get(name, 0)]


def reduced(group, count=5000):
    tensor = torch.full((count,), float(RANK + 1))
    dist.all_reduce(tensor, group=group)
    equal(tensor, torch.full((count,), float(sum(range(SIZE + 1)))))


def new_group():
    return dist.new_group(list(range(SIZE)))


@test
def selector_decides_each_call_by_its_size():
    group, calls = new_group(), []

    def select(call, names):
        assert chosen in (None, *names), names
        calls.append(call)
        return chosen if call.input_bytes > 4096 else "allreduce_packets"

    mscclpp_rs.set_selector(select)
    for chosen in ("allreduce_ring", "allreduce_packets", "allreduce_ring", "allreduce_all_pairs"):
        assert counted(group, lambda: reduced(group)) == [chosen], chosen
        assert counted(group, lambda: reduced(group, 9)) == ["allreduce_packets"]
    chosen = None
    assert counted(group, lambda: reduced(group))
    mscclpp_rs.set_selector(None)
    count = len(calls)
    reduced(group)
    assert count == len(calls) == 9, calls
    last = calls[-1]
    assert (last.collective, last.dtype, last.op, last.output_bytes, last.num_ranks) == ("allreduce", "f32", "sum", 20000, SIZE)
    assert not (last.symmetric or last.captured or last.is_device), last


@test
def name_that_does_not_exist_is_an_error_that_lists_others():
    group = new_group()
    reduced(group)
    mscclpp_rs.set_selector(lambda call, names: "fastest")
    error = raised(reduced, group)
    mscclpp_rs.set_selector(None)
    assert isinstance(error, mscclpp_rs.InvalidInputError), repr(error)
    assert all(part in str(error) for part in ("selector", "`fastest`", "`allreduce_ring`")), error
    reduced(group)
    # The failure of a rank ends the calls of others.
    dist.barrier()
    mscclpp_rs.set_selector(lambda call, names: 7)
    assert isinstance(raised(reduced, group).__cause__, TypeError)

    class Textless(Exception):
        def __str__(self):
            raise ValueError

    def fail_without_text(call, names):
        raise Textless

    mscclpp_rs.set_selector(None)
    group = new_group()
    reduced(group)
    dist.barrier()
    mscclpp_rs.set_selector(fail_without_text)
    error = raised(reduced, group)
    assert "Textless, which has no text" in str(error) and isinstance(error.__cause__, Textless), error
    mscclpp_rs.set_selector(None)


@test
def calls_that_a_selector_makes_are_refused():
    group, errors = new_group(), []

    def select(call, names):
        if not errors:
            mscclpp_rs.call_counts(group)
            errors.extend(raised(make) for make in (lambda: reduced(group), lambda: dist.barrier(group)))

    mscclpp_rs.set_selector(select)
    reduced(group)
    mscclpp_rs.set_selector(None)
    assert len(errors) == 2 and all(isinstance(error, mscclpp_rs.UnsupportedError) for error in errors), errors
    assert all("a selector made this call" in str(error) for error in errors), errors
    reduced(group)


@test
def exception_of_a_selector_reaches_all_ranks():
    group = new_group()
    reduced(group)

    def fail(call, names):
        raise KeyError("no table for this size")

    dist.barrier()
    mscclpp_rs.set_selector(fail if RANK == 1 else lambda call, names: None)
    error = raised(reduced, group)
    mscclpp_rs.set_selector(None)
    assert isinstance(error, mscclpp_rs.Error) and "rank 1" in str(error) and "no table for this size" in str(error), error
    assert isinstance(error.__cause__, KeyError) if RANK == 1 else error.root_cause == 1, repr(error)


@test
def ranks_whose_selectors_differ_get_an_error_that_names_both():
    for is_prepared in (False, True):
        group = new_group()
        for name in ("allreduce_ring", "allreduce_all_pairs") if is_prepared else ():
            mscclpp_rs.set_selector(lambda call, names, name=name: name)
            reduced(group)
        for differs in ("allreduce_all_pairs", "fastest"):
            dist.barrier()
            mscclpp_rs.set_selector(lambda call, names, name=differs: "allreduce_ring" if RANK == 0 else name)
            error = raised(reduced, group)
            mscclpp_rs.set_selector(None)
            assert isinstance(error, mscclpp_rs.MismatchError), (RANK, repr(error))
            for expected in ("`allreduce_ring`", f"`{differs}`", "rank 0"):
                assert expected in str(error), (RANK, expected, error)
            group = new_group()
            reduced(group)


@test
def selectors_of_ranks_on_two_nodes_are_compared():
    os.environ["MSCCLPP_HOST_ID"] = str(2 * RANK // SIZE)
    group = new_group()
    del os.environ["MSCCLPP_HOST_ID"]
    # Both are prepared.
    for at in (0, 1):
        mscclpp_rs.set_selector(lambda call, names, at=at: known.append(names[at]) or names[at])
        known = []
        reduced(group)
        both = [*both, *known] if at else known
    dist.barrier()
    mscclpp_rs.set_selector(lambda call, names: both[2 * RANK // SIZE])
    error = raised(reduced, group)
    mscclpp_rs.set_selector(None)
    assert isinstance(error, mscclpp_rs.MismatchError), (RANK, repr(error))
    assert len(both) == 2 and all(f"`{name}`" in str(error) for name in both), error


@test
def each_source_of_a_plan_serves_its_calls_and_no_others():
    text = mscclpp_rs.Plan.builtin("allreduce_all_pairs", SIZE, in_place=True).text()

    def named(name):
        return text.replace("plan allreduce_all_pairs", f"plan {name}", 1).encode()

    def load(name, is_file):
        if not is_file:
            return mscclpp_rs.Plan.load(named(name))
        path = pathlib.Path(folder) / f"{name}.plan"
        path.write_bytes(named(name))
        plan = mscclpp_rs.Plan.load(path)
        path.unlink()
        return plan

    def serves(group, expected):
        assert counted(group, lambda: reduced(group)) == [expected], (expected, mscclpp_rs.call_counts(group))
        parts = torch.empty(SIZE * 5000)
        others = counted(group, lambda: dist.all_gather_single(parts, torch.ones(5000), group=group))
        assert others and expected not in others, others

    with tempfile.TemporaryDirectory() as folder:
        for source in ("memory", "file"):
            group = new_group()
            assert mscclpp_rs.register_plan(load(source, source == "file"), group) == source
            serves(group, source)
            group = new_group()
            assert mscclpp_rs.register_plan(load(source, source == "file"), group, name="renamed") == "renamed"
            serves(group, "renamed")
        (pathlib.Path(folder) / "folder.plan").write_bytes(named("folder"))
        os.environ["MSCCLPP_PLANS"] = folder
        group = new_group()
        serves(group, "folder")
        mscclpp_rs.set_selector(lambda call, names: "allreduce_ring" if call.collective == "allreduce" else None)
        serves(group, "allreduce_ring")
        mscclpp_rs.set_selector(None)
        # A file that has changed is checked again.
        (pathlib.Path(folder) / "folder.plan").write_bytes(named("changed_file"))
        serves(new_group(), "changed_file")
        del os.environ["MSCCLPP_PLANS"]


@test
def order_is_an_option_of_a_group_and_that_of_its_parts():
    count, expected = 3001, in_rank_order(3001, torch.float32, torch.add)

    def is_in_rank_order(group):
        tensor = rounded(RANK, count, torch.float32)
        for begin in range(0, count, 700):
            dist.all_reduce(tensor[begin : begin + 700], group=group)
        return torch.equal(tensor, expected)

    assert is_in_rank_order(new_group()) == (SIZE == 2)
    group = dist.new_group(list(range(SIZE)), pg_options=mscclpp_rs.Options(order="rank-order"))
    assert is_in_rank_order(group)
    if not torch.__version__.startswith("2.11."):
        assert is_in_rank_order(group.split_group(list(range(SIZE))))
    # That of one group is not that of others, nor of those that are created afterwards.
    mscclpp_rs.set_order("rank-order")
    assert is_in_rank_order(None) and is_in_rank_order(new_group()) == (SIZE == 2)
    mscclpp_rs.set_order("same-on-all-ranks")
    assert isinstance(raised(dist.new_group, list(range(SIZE)), pg_options=mscclpp_rs.Options(order="left")), ValueError)


@test
def settings_that_cannot_take_effect_are_refused():
    error = raised(mscclpp_rs.set_selector, "allreduce_ring")
    assert isinstance(error, mscclpp_rs.InvalidInputError), repr(error)
    plan = mscclpp_rs.Plan.builtin("allreduce_ring", SIZE)
    for name in ("", "a`b", "allreduce_ring"):
        assert isinstance(raised(mscclpp_rs.register_plan, plan, name=name), mscclpp_rs.InvalidInputError), name


run()
