"""Coalesced calls and calls on lists of tensors: results, which have the bits of gloo's, their order, and lists that are refused."""

import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._C import _distributed_c10d as c10d
from harness import IS_OWN, RANK, SIZE, digest, equal, own_test, report, run, test, values

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
#: Numbers of elements of the members: with odd offsets in between, and of several segments of gloo's ring.
LENGTHS = ((1,), (3, 5), (1, 1000, 0, 7), (1001, 1, 100_003), (700_001, 3, 400_000))


def noise(count, dtype=torch.float32, seed=0):
    """Returns values whose sum depends on the order of the additions."""
    generator = torch.Generator().manual_seed(100 * seed + RANK)
    return torch.randn(count, generator=generator).to(dtype)


def members(lengths, dtype=torch.float32):
    return [noise(count, dtype, seed) for seed, count in enumerate(lengths)]


def world():
    return dist.distributed_c10d._get_default_group()


def coalesced(call, is_async=True):
    """Makes calls within a coalescing manager, and waits for them."""
    with dist._coalescing_manager(async_ops=is_async) as manager:
        call()
    if is_async:
        manager.wait()


def refused(name, call, kinds=(RuntimeError, ValueError, TypeError, IndexError)):
    """Makes a call that must raise an exception on this rank."""
    try:
        call()
    except kinds as error:
        # Gloo's are of classes of its own. PyTorch itself refuses lists without a tensor, for any backend.
        assert not IS_OWN or isinstance(error, (ValueError, TypeError, NotImplementedError)), f"{name}: {type(error)}: {error}"
        return
    raise AssertionError(f"{name}: expected an exception")


def still_usable():
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    equal(tensor, torch.full((3,), float(SIZE)), "a call after refused ones")


@test
def coalesced_all_reduces_have_the_bits_of_gloo():
    for dtype in FLOATS:
        for lengths in LENGTHS:
            tensors = members(lengths, dtype)
            dist.all_reduce_coalesced(tensors)
            report(f"all_reduce_coalesced {dtype} {lengths}", *tensors)
            again = members(lengths, dtype)
            coalesced(lambda: [dist.all_reduce(tensor) for tensor in again])
            for tensor, other in zip(again, tensors):
                equal(tensor, other, f"coalescing manager {dtype} {lengths}")
            again = members(lengths, dtype)
            coalesced(lambda: [dist.all_reduce(tensor) for tensor in again], is_async=False)
            for tensor, other in zip(again, tensors):
                equal(tensor, other, f"coalescing manager without a work {dtype} {lengths}")
    for op in (dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        tensors = members((1001, 17))
        dist.all_reduce_coalesced(tensors, op)
        report(f"all_reduce_coalesced {op}", *tensors)
    tensors = functional.all_reduce_coalesced(members((1001, 17)), "sum", list(range(SIZE)))
    report("functional all_reduce_coalesced", *[tensor.clone() for tensor in tensors])


@test
def members_of_any_strides_and_of_complex_numbers_have_the_bits_of_gloo():
    base = noise(1200, seed=7)
    tensors = [base[:600].reshape(20, 30).t(), base[600:1200:2], noise(1, seed=8)[0], torch.empty(0, 4)]
    dist.all_reduce_coalesced(tensors)
    report("strided members", *tensors, base)
    equal(base[601::2], noise(1200, seed=7)[601::2], "elements between those of a strided member")
    tensors = [torch.view_as_complex(noise(400, seed=9).reshape(200, 2)), noise(33, seed=10)]
    dist.all_reduce_coalesced(tensors)
    report("complex members", *tensors)
    integers = [values(RANK, count, torch.int64) for count in (3, 1000)]
    dist.all_reduce_coalesced(integers)
    report("integer members", *integers)


@test
def reduce_scatters_of_lists_have_the_bits_of_gloo():
    for dtype in FLOATS:
        for count in (1, 1001, 300_007):
            inputs = [noise(count, dtype, seed) for seed in range(SIZE)]
            kept = [tensor.clone() for tensor in inputs]
            output = torch.zeros(count, dtype=dtype)
            dist.reduce_scatter(output, inputs)
            parts = [torch.zeros_like(output) for _ in range(SIZE)]
            dist.all_gather(parts, output)
            report(f"reduce_scatter of a list {dtype} {count}", *parts)
            for tensor, before in zip(inputs, kept):
                equal(tensor, before, "the inputs are unchanged")
            # Into one of the inputs.
            dist.reduce_scatter(inputs[RANK], inputs)
            equal(inputs[RANK], output, "reduce_scatter into an input")
    strided = [noise(600, seed=seed).reshape(20, 30) for seed in range(SIZE)]
    if IS_OWN:
        # Gloo needs dense tensors.
        output, transposed = torch.zeros(30, 20), torch.zeros(20, 30).t()
        dist.reduce_scatter(output, [tensor.t().contiguous() for tensor in strided])
        dist.reduce_scatter(transposed, [tensor.t() for tensor in strided])
        equal(transposed.contiguous(), output, "strided inputs")


@test
def reduce_scatters_of_lists_whose_parts_have_other_lengths():
    for dtype in FLOATS:
        inputs = [noise(1001 * rank + 3, dtype, rank) for rank in range(SIZE)]
        kept = [tensor.clone() for tensor in inputs]
        output = torch.zeros_like(inputs[RANK])
        dist.reduce_scatter(output, inputs)
        for tensor, before in zip(inputs, kept):
            equal(tensor, before, "the inputs are unchanged")
        parts = [torch.zeros_like(tensor) for tensor in inputs]
        for rank, part in enumerate(parts):
            dist.broadcast(part.copy_(output) if rank == RANK else part, rank)
        report(f"reduce_scatter of parts of other lengths {dtype}", *parts)
    for dtype in (torch.int64, torch.int16, torch.bool) if IS_OWN else (torch.int64,):
        # An empty part as well.
        for into_input in (False, True):
            inputs = [values(RANK, 100 * rank, dtype) for rank in range(SIZE)]
            output = inputs[RANK] if into_input else torch.zeros_like(inputs[RANK])
            dist.reduce_scatter(output, inputs)
            expected = sum(values(rank, 100 * RANK, dtype).to(torch.int64) for rank in range(SIZE))
            equal(output, expected.to(dtype), f"{dtype}")


@test
def coalesced_reduce_scatters_have_the_bits_of_gloo():
    for dtype in FLOATS:
        inputs = [noise(SIZE * count, dtype, seed) for seed, count in enumerate((1, 1001, 150_001))]
        outputs = [torch.zeros(tensor.numel() // SIZE, dtype=dtype) for tensor in inputs]
        coalesced(lambda: [dist.reduce_scatter_tensor(output, tensor) for output, tensor in zip(outputs, inputs)])
        for index, output in enumerate(outputs):
            whole = torch.zeros_like(inputs[index])
            dist.all_gather_into_tensor(whole, output)
            report(f"reduce_scatter_tensor_coalesced {dtype} {index}", whole)


@test
def coalesced_all_gathers_have_all_tensors():
    for dtype in FLOATS + (torch.int64, torch.uint8):
        counts = (3, 1000, 1)
        expected = [[values(rank, count, dtype, seed=count) for count in counts] for rank in range(SIZE)]
        outputs = [[torch.zeros(count, dtype=dtype) for count in counts] for _ in range(SIZE)]
        dist.all_gather_coalesced(outputs, expected[RANK])
        for rank in range(SIZE):
            for found, right in zip(outputs[rank], expected[rank]):
                equal(found, right, f"all_gather_coalesced {dtype} of rank {rank}")
        wholes = [torch.zeros(SIZE * count, dtype=dtype) for count in counts]
        coalesced(lambda: [dist.all_gather_into_tensor(whole, part) for whole, part in zip(wholes, expected[RANK])])
        for index, whole in enumerate(wholes):
            equal(whole, torch.cat([of_rank[index] for of_rank in expected]), f"all_gather_into_tensor_coalesced {dtype}")
    # Inputs and outputs that are not dense.
    source = torch.arange(12.0).reshape(3, 4) + 100 * RANK
    outputs = [[torch.zeros(4, 3).t(), torch.zeros(8)[::2]] for _ in range(SIZE)]
    if IS_OWN:
        dist.all_gather_coalesced(outputs, [source.t().contiguous().t(), source[0]])
        for rank, (first, second) in enumerate(outputs):
            equal(first.contiguous(), torch.arange(12.0).reshape(3, 4) + 100 * rank, "strided member")
            equal(second.contiguous(), torch.arange(4.0) + 100 * rank, "member of every second element")


@test
def works_and_futures_of_lists_end_with_all_tensors():
    tensors = [values(RANK, count) for count in (4, 2000)]
    work = world().allreduce_coalesced(tensors, c10d.AllreduceCoalescedOptions())
    found = work.get_future().wait()
    flat = torch.cat([tensor.reshape(-1) for tensor in found])
    total = torch.cat([sum(values(rank, count) for rank in range(SIZE)) for count in (4, 2000)])
    equal(flat, total, "the value of the future")
    equal(torch.cat(tensors), total, "the tensors")
    # Calls that were started end in the order of the calls, whatever the order of the waits.
    first, second = [torch.ones(5000), torch.ones(3)], torch.ones(5000)
    one = dist.all_reduce_coalesced(first, async_op=True)
    two = dist.all_reduce(second, async_op=True)
    two.wait()
    if IS_OWN:
        assert world().allreduce([torch.ones(1)], c10d.AllreduceOptions()).wait()
        equal(torch.cat(first), torch.full((5003,), float(SIZE)), "an earlier call, after the wait for a later one")
    one.wait()
    equal(torch.cat([*first, second]), torch.full((10_003,), float(SIZE)), "both calls")


@test
def lists_that_both_refuse_leave_the_group_usable():
    ones, group = torch.ones, world()
    gather, scatter = c10d.AllgatherOptions(), c10d.ReduceScatterOptions()
    calls = {
        "no tensor to reduce": lambda: dist.all_reduce_coalesced([]),
        "several tensors of other types": lambda: dist.all_reduce_coalesced([ones(2), ones(2, dtype=torch.int64)]),
        "no tensor to gather": lambda: dist.all_gather_coalesced([[] for _ in range(SIZE)], []),
        "lists of too few ranks": lambda: dist.all_gather_coalesced([[ones(2)]] * (SIZE - 1), [ones(2)]),
        "lists of too many ranks": lambda: dist.all_gather_coalesced([[ones(2)] for _ in range(SIZE + 1)], [ones(2)]),
        "a list that is too short": lambda: dist.all_gather_coalesced(
            [[ones(2), ones(3)] for _ in range(SIZE - 1)] + [[ones(2)]], [ones(2), ones(3)]
        ),
        "a list that is too long": lambda: dist.all_gather_coalesced(
            [[ones(2)] for _ in range(SIZE - 1)] + [[ones(2), ones(3)]], [ones(2)]
        ),
        "an output of another length": lambda: dist.all_gather_coalesced([[ones(3)] for _ in range(SIZE)], [ones(2)]),
        "a part of another length": lambda: dist.reduce_scatter_tensor(ones(3), ones(2 * SIZE)),
        "an input of another type": lambda: dist.reduce_scatter(ones(2), [ones(2, dtype=torch.float64)] * SIZE),
        "gathered outputs of too few ranks": lambda: dist.all_gather([ones(2)] * (SIZE - 1), ones(2)),
    }
    # Gloo refuses these as well, after which the connections of some ranks are closed.
    own = {
        "more outputs than inputs": lambda: group.all_gather_single_coalesced(
            [ones(2 * SIZE), ones(2 * SIZE)], [ones(2)], gather
        ),
        "more outputs than inputs to reduce": lambda: group.reduce_scatter_single_coalesced(
            [ones(2), ones(2)], [ones(2 * SIZE)], scatter
        ),
        "a list of too few ranks": lambda: dist.reduce_scatter(ones(2), [ones(2)] * (SIZE - 1)),
        "an own input of another length": lambda: dist.reduce_scatter(ones(2), [ones(3)] * SIZE),
    }
    if not hasattr(group, "all_gather_single_coalesced"):
        del own["more outputs than inputs"], own["more outputs than inputs to reduce"]
    for name, call in (calls | (own if IS_OWN else {})).items():
        refused(name, call)
    still_usable()
    if SIZE > 1:
        # The outputs of the other ranks may have other lengths, that of this rank may not.
        refused("an own output of another length", lambda: dist.all_gather([ones(3) for _ in range(SIZE)], ones(2)))
    still_usable()


#: An integer that no float32 has.
LARGE = 2**40 + 1


@test
def lists_that_gloo_refuses_or_rounds_are_served():
    """What gloo does here is no result that a program can depend on."""
    integers, floats = torch.full((3,), RANK + 1), torch.full((2,), RANK + 1.0)
    total = SIZE * (SIZE + 1) // 2

    def mixed_reductions():
        coalesced(lambda: [dist.all_reduce(tensor) for tensor in (integers, floats)])

    outputs = [torch.zeros(SIZE, dtype=torch.int64), torch.zeros(2 * SIZE)]

    def mixed_gathers():
        inputs = (torch.tensor([LARGE + RANK]), torch.full((2,), float(RANK)))
        coalesced(lambda: [dist.all_gather_into_tensor(output, one) for output, one in zip(outputs, inputs)])

    lengths = [torch.zeros(rank + 1) for rank in range(SIZE)]
    calls = {"types": mixed_reductions, "gathers": mixed_gathers}
    calls["lengths"] = lambda: dist.all_gather(lengths, torch.full((RANK + 1,), float(RANK)))
    for name, call in calls.items():
        # Gloo converts what it gathers to one type and back.
        if IS_OWN or name == "gathers":
            call()
        else:
            refused(name, call)
    if not IS_OWN:
        assert outputs[0][0] != LARGE, outputs
    if IS_OWN:
        equal(integers, torch.full((3,), total), "integers beside floats")
        equal(floats, torch.full((2,), float(total)), "floats beside integers")
        equal(outputs[0], torch.arange(SIZE) + LARGE, "gathered integers")
        equal(outputs[1], torch.arange(float(SIZE)).repeat_interleave(2), "gathered floats")
        equal(torch.cat(lengths), torch.cat([torch.full((rank + 1,), float(rank)) for rank in range(SIZE)]), "lengths")
    still_usable()


@own_test
def calls_on_one_tensor_refuse_several():
    """Gloo reduces the tensors of a rank as well, which no function of torch.distributed asks for."""
    group = world()
    options = (c10d.AllreduceOptions(), c10d.BroadcastOptions(), c10d.ReduceOptions())
    for name, call in zip(("allreduce", "broadcast", "reduce"), options):
        for tensors in ([], [torch.ones(2), torch.ones(2)]):
            kinds = (ValueError, NotImplementedError)
            refused(f"{name} of {len(tensors)}", lambda: getattr(group, name)(tensors, call), kinds=kinds)
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (2,))
    refused("layouts", lambda: dist.all_reduce_coalesced([sparse, torch.ones(2)]))
    refused("devices", lambda: dist.all_reduce_coalesced([torch.ones(2), torch.ones(2, device="meta")]))
    still_usable()


if __name__ == "__main__":
    assert digest(torch.ones(1)) != digest(torch.zeros(1))
    run()
    if not IS_OWN:
        # At the end of a process with calls that it has refused, gloo sometimes aborts: it destroys threads that run.
        os._exit(0)
