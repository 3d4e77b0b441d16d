"""Collective calls of torch.distributed on tensors of every kind, compared with what PyTorch computes from all ranks' values."""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from harness import BACKEND, COUNTS, IS_OWN, RANK, SIZE, equal, own_test, report, run, test, unaligned, values

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
# Types that gloo reduces neither; the last ones are 8-bit floats.
MORE = (torch.int16, torch.uint16, torch.uint32, torch.uint64)
# Sums of more ranks' values are rounded in between.
MORE += (torch.float8_e4m3fn, torch.float8_e5m2) if SIZE == 2 else ()
MOVED = FLOATS + INTEGERS + (torch.bool, torch.complex64, torch.complex128)


def of_all(count, dtype, seed=0):
    return [values(rank, count, dtype, seed) for rank in range(SIZE)]


def wide(dtype):
    """Returns a type in which PyTorch computes with the values of another one exactly."""
    return torch.float64 if dtype.is_floating_point else torch.int64


def total(parts, combine):
    result = parts[0].to(wide(parts[0].dtype))
    for part in parts[1:]:
        result = combine(result, part.to(result.dtype))
    return result.to(parts[0].dtype)


REDUCTIONS = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
}


@test
def all_reduce_of_every_type():
    for op, combine in REDUCTIONS.items():
        for dtype in FLOATS + INTEGERS + (MORE if IS_OWN else ()):
            for count in COUNTS:
                tensor = values(RANK, count, dtype)
                dist.all_reduce(tensor, op)
                equal(tensor, total(of_all(count, dtype), combine), f"{op} {dtype} {count}")


@test
def all_reduce_of_bits():
    bits = {
        dist.ReduceOp.BAND: torch.bitwise_and,
        dist.ReduceOp.BOR: torch.bitwise_or,
        dist.ReduceOp.BXOR: torch.bitwise_xor,
    }
    for op, combine in bits.items():
        for dtype in INTEGERS + ((torch.int16,) if IS_OWN else ()):
            tensor = values(RANK, 1001, dtype)
            dist.all_reduce(tensor, op)
            equal(tensor, total(of_all(1001, dtype), combine), f"{op} {dtype}")


@own_test
def all_reduce_of_bools_is_or_and_and():
    parts = torch.stack(of_all(999, torch.bool))
    exclusive = parts.sum(0) % 2 == 1
    results = {
        dist.ReduceOp.SUM: parts.any(0),
        dist.ReduceOp.MAX: parts.any(0),
        dist.ReduceOp.BOR: parts.any(0),
        dist.ReduceOp.PRODUCT: parts.all(0),
        dist.ReduceOp.MIN: parts.all(0),
        dist.ReduceOp.BAND: parts.all(0),
        dist.ReduceOp.BXOR: exclusive,
    }
    for op, expected in results.items():
        tensor = values(RANK, 999, torch.bool)
        dist.all_reduce(tensor, op)
        equal(tensor, expected, f"{op}")


@own_test
def average_and_scaled_sum():
    for dtype in FLOATS:
        tensor = values(RANK, 513, dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        mean = sum(part.to(torch.float64) for part in of_all(513, dtype)) / SIZE
        if not torch.allclose(tensor.to(torch.float64), mean, rtol=2.0**-7, atol=0):
            raise AssertionError(f"average of {dtype}: expected {mean}, found {tensor}")
        for factor in (0.5, torch.tensor([2.0])):
            tensor = values(RANK, 513, dtype)
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            scale = float(factor)
            expected = sum(part.to(torch.float64) * scale for part in of_all(513, dtype)).to(dtype)
            equal(tensor, expected, f"scaled sum of {dtype} by {factor}")


@test
def all_reduce_of_complex():
    for dtype in (torch.complex64, torch.complex128):
        tensor = values(RANK, 100, dtype) * (1 + 2j)
        dist.all_reduce(tensor)
        expected = sum(part.to(torch.complex128) * (1 + 2j) for part in of_all(100, dtype)).to(dtype)
        equal(tensor, expected, f"{dtype}")


@test
def random_floats_have_the_digests_of_gloo():
    for dtype in FLOATS:
        # Sizes of one segment, of several, and with parts of different lengths.
        for count in (1, 1000, 100_003, 3_000_001):
            generator = torch.Generator().manual_seed(RANK)
            tensor = torch.randn(count, generator=generator).to(dtype)
            total = tensor.clone()
            dist.all_reduce(total)
            report(f"sum {dtype} {count}", total)
            at_root = tensor.clone()
            dist.reduce(at_root, 0)
            report(f"sum at the root {dtype} {count}", at_root)
            whole, part = tensor.repeat(SIZE) * torch.arange(1, SIZE + 1).repeat_interleave(count).to(dtype), torch.empty_like(tensor)
            dist.reduce_scatter_tensor(part, whole)
            report(f"part of the sum {dtype} {count}", part)


@test
def strided_empty_and_0_dimensional_tensors():
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6) * (RANK + 1)
    scale = float(sum(range(1, SIZE + 1)))
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    if IS_OWN:
        part = whole.clone().t()
        dist.all_reduce(part)
        equal(part, base.t() * scale, "transposed")
        held = whole.clone()
        dist.all_reduce(held[:, ::2])
        equal(held[:, ::2].contiguous(), base[:, ::2] * scale, "every second column")
        equal(held[:, 1::2].contiguous(), base[:, 1::2] * (RANK + 1), "the other columns")
        held = whole.clone()
        dist.broadcast(held[1:3, 1:4], 1)
        equal(held[1:3, 1:4].contiguous(), base[1:3, 1:4] * 2, "broadcast of a part")
        outputs = [torch.zeros(6, 4).t() for _ in range(SIZE)]
        dist.all_gather(outputs, whole)
        for rank, output in enumerate(outputs):
            equal(output, base * (rank + 1), "gathered into transposed tensors")
    for empty in (torch.empty(0), torch.empty(3, 0, 2)):
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
    single = torch.tensor(RANK + 1.0)
    dist.all_reduce(single)
    equal(single, torch.tensor(scale), "0 dimensions")
    parameter = torch.nn.Parameter(torch.ones(5) * (RANK + 1))
    with torch.no_grad():
        dist.all_reduce(parameter)
    equal(parameter.detach(), torch.ones(5) * scale, "parameter")


@own_test
def halves_of_bytes_are_moved():
    tensor = (torch.arange(6, dtype=torch.uint8) + 7 + RANK).view(torch.float4_e2m1fn_x2)
    dist.broadcast(tensor, 1)
    equal(tensor.view(torch.uint8), torch.arange(8, 14, dtype=torch.uint8))


@test
def tensors_without_elements_are_reduced_and_moved():
    empty = torch.empty
    for dtype in (torch.float32, torch.float64, torch.int64) + ((torch.int16, torch.complex64) if IS_OWN else ()):
        for shape in ((0,), (0, 3), (SIZE, 0)):
            whole = empty(shape, dtype=dtype)
            part = empty((shape[0] // SIZE, *shape[1:]), dtype=dtype)
            dist.reduce_scatter_tensor(part, whole)
            dist.reduce_scatter_tensor(part, whole, async_op=True).wait()
            dist.all_gather_into_tensor(whole, part)
            dist.all_gather([part.clone() for _ in range(SIZE)], part)
            if IS_OWN:
                dist.reduce_scatter(part, [part.clone() for _ in range(SIZE)])
                dist.reduce(part, 0)
                dist.all_reduce_coalesced([part, whole])
                dist.all_to_all_single(whole.clone(), whole)
                dist.all_to_all([part.clone() for _ in range(SIZE)], [part] * SIZE)
                dist.gather(part, [part.clone() for _ in range(SIZE)] if RANK == 0 else None, 0)
                dist.scatter(part, [part.clone() for _ in range(SIZE)] if RANK == 0 else None, 0)
    single = torch.ones(1)
    dist.all_reduce(single)
    equal(single, torch.full((1,), float(SIZE)), "a call after those of empty tensors")


@test
def tensors_in_memory_that_is_not_aligned():
    for dtype in (torch.float32, torch.bfloat16, torch.int64) + ((torch.complex64, torch.int16) if IS_OWN else ()):
        tensor = unaligned(values(RANK, 100, dtype))
        dist.all_reduce(tensor)
        equal(tensor, total(of_all(100, dtype), torch.add) if not dtype.is_complex else sum(of_all(100, dtype)), f"sum {dtype}")
        tensor = unaligned(values(RANK, 100, dtype))
        dist.broadcast(tensor, 1)
        equal(tensor, values(1, 100, dtype), f"broadcast {dtype}")
        # Of one rank only.
        part = values(RANK, 100, dtype)
        whole = torch.zeros(SIZE * 100, dtype=dtype)
        dist.all_gather_into_tensor(unaligned(whole) if RANK == 1 else whole, unaligned(part) if RANK == 0 else part)
        whole = unaligned(whole)
        dist.all_gather_into_tensor(whole, unaligned(part), async_op=True).wait()
        equal(whole, torch.cat(of_all(100, dtype)), f"all_gather_into_tensor {dtype}")
        output = unaligned(torch.zeros_like(whole))
        dist.all_to_all_single(output, whole)
        equal(output, values(RANK, 100, dtype).repeat(SIZE), f"all_to_all_single {dtype}")
        inputs = [unaligned(one) for one in of_all(100, dtype)] if RANK == 0 else None
        output = unaligned(torch.zeros_like(part))
        dist.scatter(output, inputs, 0)
        equal(output, values(RANK, 100, dtype), f"scatter {dtype}")
        outputs = [unaligned(torch.zeros_like(part)) for _ in range(SIZE)] if RANK == 0 else None
        dist.gather(unaligned(part), outputs, 0)
        for output, expected in zip(outputs or [], of_all(100, dtype)):
            equal(output, expected, f"gather {dtype}")


@test
def broadcast_and_reduce():
    for root in range(SIZE):
        for dtype in MOVED + ((torch.int16, torch.float8_e4m3fn) if IS_OWN else ()):
            for count in COUNTS:
                tensor = values(RANK, count, dtype)
                dist.broadcast(tensor, root)
                equal(tensor, values(root, count, dtype), f"broadcast {dtype}")
        for dtype in FLOATS + INTEGERS:
            tensor = values(RANK, 300, dtype)
            dist.reduce(tensor, root)
            if RANK == root:
                equal(tensor, total(of_all(300, dtype), torch.add), f"reduce {dtype}")


@own_test
def tensors_that_a_call_only_reads_are_not_written():
    def unchanged(call, *tensors):
        versions = [tensor._version for tensor in tensors]
        call()
        assert [tensor._version for tensor in tensors] == versions, call

    strided = values(RANK, 24).reshape(4, 6).t()
    # All its elements are one, which nothing can be written to.
    expanded = torch.full((1,), float(RANK + 1)).expand(4)
    for root in range(SIZE):
        source = strided if RANK == root else torch.zeros(6, 4)
        unchanged(lambda: dist.broadcast(source, root), strided)
        equal(source.contiguous(), values(root, 24).reshape(4, 6).t().contiguous(), "broadcast")
        source = expanded if RANK == root else torch.zeros(4)
        unchanged(lambda: dist.broadcast(source, root), expanded)
        equal(source.contiguous(), torch.full((4,), root + 1.0), "broadcast of an expanded tensor")
        source = torch.zeros(4) if RANK == root else expanded
        unchanged(lambda: dist.reduce(source, root), expanded)
        outputs = [torch.zeros(6, 4) for _ in range(SIZE)] if RANK == root else None
        unchanged(lambda: dist.gather(strided, outputs, root), strided)
        inputs = [strided] * SIZE if RANK == root else None
        unchanged(lambda: dist.scatter(torch.zeros(6, 4), inputs, root), strided)


@test
def all_gather_of_every_type():
    for dtype in MOVED + ((torch.int16,) if IS_OWN else ()):
        for count in COUNTS:
            outputs = [torch.zeros(count, dtype=dtype) for _ in range(SIZE)]
            dist.all_gather(outputs, values(RANK, count, dtype))
            for output, expected in zip(outputs, of_all(count, dtype)):
                equal(output, expected, f"all_gather {dtype}")
            whole = torch.zeros(SIZE * count, dtype=dtype)
            dist.all_gather_into_tensor(whole, values(RANK, count, dtype))
            equal(whole, torch.cat(of_all(count, dtype)), f"all_gather_into_tensor {dtype}")
            # In place.
            whole = torch.zeros(SIZE * count, dtype=dtype)
            whole[RANK * count : (RANK + 1) * count] = values(RANK, count, dtype)
            dist.all_gather_into_tensor(whole, whole[RANK * count : (RANK + 1) * count])
            equal(whole, torch.cat(of_all(count, dtype)), f"all_gather_into_tensor in place {dtype}")


@own_test
def all_gather_of_different_lengths():
    outputs = [torch.zeros(rank + 1) for rank in range(SIZE)]
    dist.all_gather(outputs, torch.full((RANK + 1,), float(RANK)))
    for rank, output in enumerate(outputs):
        equal(output, torch.full((rank + 1,), float(rank)))


@test
def reduce_scatter():
    for dtype in FLOATS + INTEGERS + ((torch.int16,) if IS_OWN else ()):
        for count in COUNTS:
            expected = total(of_all(SIZE * count, dtype), torch.add)[RANK * count : (RANK + 1) * count]
            source = values(RANK, SIZE * count, dtype)
            output = torch.zeros(count, dtype=dtype)
            dist.reduce_scatter_tensor(output, source)
            equal(output, expected, f"reduce_scatter_tensor {dtype}")
            equal(source, values(RANK, SIZE * count, dtype), "the input is unchanged")
            output = torch.zeros(count, dtype=dtype)
            dist.reduce_scatter(output, list(source.chunk(SIZE)))
            equal(output, expected, f"reduce_scatter {dtype}")


@own_test
def reduce_scatter_into_its_input():
    source = values(RANK, SIZE * 64)
    dist.reduce_scatter_tensor(source[RANK * 64 : (RANK + 1) * 64], source)
    expected = values(RANK, SIZE * 64)
    expected[RANK * 64 : (RANK + 1) * 64] = total(of_all(SIZE * 64, torch.float32), torch.add)[RANK * 64 : (RANK + 1) * 64]
    equal(source, expected)


@test
def all_to_all():
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        source = values(RANK, SIZE * 33, dtype)
        output = torch.zeros(SIZE * 33, dtype=dtype)
        dist.all_to_all_single(output, source)
        expected = torch.cat([values(rank, SIZE * 33, dtype)[RANK * 33 : (RANK + 1) * 33] for rank in range(SIZE)])
        equal(output, expected, f"all_to_all_single {dtype}")
        # Rank r sends r + p + 1 rows to rank p.
        splits = [RANK + peer + 1 for peer in range(SIZE)]
        source = values(RANK, 3 * sum(splits), dtype).reshape(-1, 3)
        output = torch.zeros(sum(splits), 3, dtype=dtype)
        dist.all_to_all_single(output, source, splits, splits)
        parts = []
        for rank in range(SIZE):
            rows = [rank + peer + 1 for peer in range(SIZE)]
            parts.append(values(rank, 3 * sum(rows), dtype).reshape(-1, 3).split(rows)[RANK])
        equal(output, torch.cat(parts), f"all_to_all_single with sizes {dtype}")


@own_test
def ranks_decide_on_their_own_which_calls_are_in_place():
    for count in COUNTS:
        output = torch.zeros(count * SIZE)
        own = output[:count].copy_(values(0, count)) if RANK == 0 else values(RANK, count)
        dist.all_gather_into_tensor(output, own)
        gathered = torch.cat([values(rank, count) for rank in range(SIZE)])
        equal(output, gathered, f"all_gather of {count}")
        # The input is where the part of another rank is, or half of it and half of the next one.
        at = (RANK + 1) % SIZE * count if RANK % 2 else count // 2
        output[at : at + count] = values(RANK, count)
        dist.all_gather_into_tensor(output, output[at : at + count])
        equal(output, gathered, f"all_gather of {count} from another part")
        tensor = values(RANK, count * SIZE)
        output = tensor if RANK == 1 else torch.zeros(count * SIZE)
        dist.all_to_all_single(output, tensor)
        parts = [values(rank, count * SIZE)[RANK * count : (RANK + 1) * count] for rank in range(SIZE)]
        equal(output, torch.cat(parts), f"all_to_all of {count}")


@own_test
def all_to_all_of_rows_whose_numbers_receivers_do_not_know():
    import mscclpp_rs

    for dtype in (torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        # The first call sends nothing, and rank 1 never sends anything.
        for call in range(4):
            table = [[call * ((3 * rank + 2 * peer + call) % 4) * (rank != 1) for peer in range(SIZE)] for rank in range(SIZE)]
            rows = [values(rank, 2 * sum(table[rank]), dtype, call).reshape(-1, 2) for rank in range(SIZE)]
            expected = torch.cat([rows[rank].split(table[rank])[RANK] for rank in range(SIZE)])
            # Longer than what is sent and received.
            source = torch.cat([rows[RANK], values(RANK, 2, dtype).reshape(1, 2)])
            output = values(RANK, 2 * len(expected) + 2, dtype, 9).reshape(-1, 2)
            expected = torch.cat([expected, output[len(expected) :]])
            sizes = torch.full((SIZE,), -1)
            mscclpp_rs.all_to_all_single(output, source, sizes, torch.tensor(table[RANK]))
            equal(output, expected, f"rows of {dtype}, call {call}")
            equal(sizes, torch.tensor([table[rank][RANK] for rank in range(SIZE)]), f"sizes of {dtype}, call {call}")
    # Of the output of every other row, and in its own input.
    strided = torch.zeros(2 * SIZE, 3)[::2]
    mscclpp_rs.all_to_all_single(strided, torch.full((SIZE, 3), float(RANK)), sizes, torch.ones(SIZE, dtype=torch.int64))
    equal(strided, torch.arange(float(SIZE)).repeat_interleave(3).reshape(-1, 3), "strided")
    mscclpp_rs.all_to_all_single(strided, strided, sizes, torch.ones(SIZE, dtype=torch.int64))
    equal(strided, torch.full((SIZE, 3), float(RANK)), "in place")

    # Every rank sends 2 rows to rank 0, which has room for one row less than that.
    sent = torch.tensor([2] + [0] * (SIZE - 1))
    output, source = torch.full((2 * SIZE - 1, 3), 5.0), torch.zeros(2, 3)
    try:
        mscclpp_rs.all_to_all_single(output, source, sizes, sent)
    except mscclpp_rs.InvalidInputError as error:
        assert f"add up to {6 * SIZE} elements for the output of rank 0, which has room for {6 * SIZE - 3}" in str(error), error
    else:
        raise AssertionError("an output that is too short")
    equal(output, torch.full((2 * SIZE - 1, 3), 5.0), "nothing moved")
    for wrong in (torch.tensor([-1] * SIZE), torch.tensor([3] * SIZE), torch.ones(SIZE), torch.tensor([1])):
        try:
            mscclpp_rs.all_to_all_single(output, source, sizes, wrong)
        except mscclpp_rs.InvalidInputError as error:
            assert "expected sizes" in str(error), error
        else:
            raise AssertionError(f"sizes {wrong}")
    refused("tensors of rows and of sizes", lambda: mscclpp_rs.all_to_all_single(output, source, [0] * SIZE, [1] * SIZE))
    for most in (0, 1 << 64):
        refused("a maximum size", lambda: mscclpp_rs.all_to_all_single(output, source, sizes, sent, max_split_size=most))
    dist.barrier()


@own_test
def all_to_all_vdev_writes_splits_and_offsets():
    import mscclpp_rs
    import torch.distributed._symmetric_memory as of_torch

    # The module is for PyTorch 2.15 or later.
    if not hasattr(of_torch, "all_to_all_nd"):
        return
    from mscclpp_rs import symmetric_memory

    name = dist.group.WORLD.group_name
    calls = [symmetric_memory.all_to_all_vdev, torch.ops.symm_mem.all_to_all_vdev]
    for call in range(4):
        table = [[call * ((3 * rank + 2 * peer + call) % 4) * (rank != 1) for peer in range(SIZE)] for rank in range(SIZE)]
        rows = [values(rank, 2 * sum(table[rank]), torch.int32, call).reshape(-1, 2) for rank in range(SIZE)]
        expected = torch.cat([rows[rank].split(table[rank])[RANK] for rank in range(SIZE)])
        output = values(RANK, 2 * len(expected) + 2, torch.int32, 9).reshape(-1, 2)
        expected = torch.cat([expected, output[len(expected) :]])
        result = torch.full((2, SIZE), -1)
        calls[call % 2](rows[RANK], output, torch.tensor(table[RANK]), result, name)
        equal(output, expected, f"rows of call {call}")
        sizes = [table[rank][RANK] for rank in range(SIZE)]
        equal(result, torch.tensor([sizes, [sum(sizes[:rank]) for rank in range(SIZE)]]), f"splits and offsets of call {call}")
    ones = torch.ones(SIZE, dtype=torch.int64)
    for splits, group in ((torch.ones(2, SIZE + 1, dtype=torch.int64), name), (result, "no such group")):
        try:
            symmetric_memory.all_to_all_vdev(rows[RANK], output, ones, splits, group)
        except mscclpp_rs.InvalidInputError as error:
            assert "all_to_all_vdev: expected" in str(error), error
        else:
            raise AssertionError(f"{splits.shape} of {group}")
    dist.barrier()


@own_test
def tokens_reach_experts_and_return():
    from mscclpp_rs.experts import low_latency_combine, low_latency_dispatch

    each, most, hidden, top_k = 2, 7, 5, 3
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for call in range(3):
            generator = torch.Generator().manual_seed(100 * call + RANK)
            # Rank 1 has no tokens in the first call.
            tokens = 0 if (RANK, call) == (1, 0) else 1 + (RANK + 3 * call) % most
            x = torch.rand(tokens, hidden, generator=generator).to(dtype)
            # Different experts, or none.
            chosen = torch.rand(tokens, each * SIZE, generator=generator).argsort(dim=1)[:, :top_k].contiguous()
            chosen[torch.rand(tokens, top_k, generator=generator) < 0.2] = -1
            weights = torch.rand(tokens, top_k, generator=generator)
            packed, counts, handle = low_latency_dispatch(x, chosen, most, each * SIZE)
            assert packed.shape == (each, SIZE * most, hidden), packed.shape
            for expert in range(each):
                assert not packed[expert, counts[expert] :].any(), "rows after those of an expert"
            factors = torch.arange(each * RANK + 1, each * (RANK + 1) + 1, dtype=dtype)
            found = low_latency_combine(packed * factors[:, None, None], chosen, weights, handle)
            expected = torch.zeros(tokens, hidden)
            for choice in range(top_k):
                row = x * (chosen[:, choice, None] + 1).to(dtype)
                added = expected + weights[:, choice, None] * row.float()
                expected = torch.where(chosen[:, choice, None] >= 0, added, expected)
            equal(found, expected.to(dtype), f"{dtype}, call {call}")
    # Refused by all ranks.
    x, weights = torch.ones(1, hidden), torch.ones(1, 2)
    for wrong, place in [([0, each * SIZE], "choice 1 of token 0"), ([1, 1], "choice 1 of token 0"), ([-2, 0], "choice 0 of token 0")]:
        refused(place, lambda wrong=wrong: low_latency_dispatch(x, torch.tensor([wrong]), most, each * SIZE))
    too_many = torch.ones(most + 1 if RANK == 0 else 1, hidden), torch.full((most + 1 if RANK == 0 else 1, 1), -1)
    refused(f"rank 0 dispatches {most + 1} tokens, expected at most {most}", lambda: low_latency_dispatch(*too_many, most, each * SIZE))
    chosen = torch.tensor([[0, 1]])
    packed, _, handle = low_latency_dispatch(x, chosen, most, each * SIZE)
    refused("rows of the dispatch", lambda: low_latency_combine(packed[:, 1:], chosen, weights, handle))
    refused("a weight for each", lambda: low_latency_combine(packed, chosen, weights[:, :1], handle))
    refused("weights of real numbers", lambda: low_latency_combine(packed, chosen, weights.to(torch.complex64), handle))
    refused("the handle of a dispatch", lambda: low_latency_combine(packed, chosen, weights, None))
    refused("less than 2^63 bytes", lambda: low_latency_dispatch(x, chosen, 1 << 62, each * SIZE))
    equal(low_latency_combine(packed, chosen, weights, handle), 2 * x, "after mistakes")


@own_test
def halves_and_scales_of_experts():
    from mscclpp_rs.experts import low_latency_combine, low_latency_dispatch

    most, hidden, each = 3, 256, 2
    generator = torch.Generator().manual_seed(RANK)
    x = torch.rand(2, hidden, generator=generator).to(torch.bfloat16)
    chosen = torch.tensor([[RANK, each * SIZE - 1 - RANK], [0, -1]])
    weights = torch.rand(2, 2, generator=generator)
    packed, counts, handle = low_latency_dispatch(x, chosen, most, each * SIZE)
    expected = low_latency_combine(packed, chosen, weights, handle)
    # Rows are written by the second halves; a half that is not finished changes nothing.
    dropped = low_latency_dispatch(x, chosen, most, each * SIZE, return_recv_hook=True)
    del dropped
    other, other_counts, handle, hook = low_latency_dispatch(x, chosen, most, each * SIZE, return_recv_hook=True)
    refused("rows that have arrived", lambda: low_latency_combine(other, chosen, weights, handle))
    hook()
    equal(other, packed, "rows of a hook")
    equal(other_counts, counts, "counts of a hook")
    out = torch.full_like(x, 7.0)
    sums, hook = low_latency_combine(other, chosen, weights, handle, out=out, return_recv_hook=True)
    hook()
    assert sums is out
    equal(sums, expected, "sums of a hook")
    # The same rows, each expert's at a multiple of 4.
    aligned, counts, handle = low_latency_dispatch(x, chosen, most, each * SIZE, expert_alignment=4)
    begin = 0
    for expert in range(each):
        equal(aligned[begin : begin + counts[expert]], packed[expert, : counts[expert]], "aligned rows")
        begin += (int(counts[expert]) + 3) // 4 * 4
    equal(low_latency_combine(aligned, chosen, weights, handle), expected, "sums of aligned rows")
    # Rows of e4m3 and their scales.
    groups = x.float().view(2, 2, 128)
    largest = groups.abs().amax(2).clamp(min=1e-4)
    # Not a product with the reciprocal, as of `448 / largest`.
    factors = torch.full_like(largest, 448.0) / largest
    quantized = (groups * factors[..., None]).to(torch.float8_e4m3fn).view(2, hidden), largest / 448
    found = [low_latency_dispatch(x, chosen, most, each * SIZE, use_fp8=True), low_latency_dispatch(quantized, chosen, most, each * SIZE)]
    for (rows, scales), fp8_counts, handle in found:
        assert rows.dtype == torch.float8_e4m3fn and scales.shape == (each, SIZE * most, 2)
        equal(fp8_counts, torch.tensor([int((packed[expert].abs().sum(1) > 0).sum()) for expert in range(each)]), "counts")
        restored = (rows.float().view(each, SIZE * most, 2, 128) * scales[..., None]).view(packed.shape)
        assert (restored - packed.float()).abs().max() <= packed.float().abs().max() / 16
        equal(low_latency_combine(packed, chosen, weights, handle), expected, "sums after rows of e4m3")
    equal(found[0][0][0].view(torch.uint8), found[1][0][0].view(torch.uint8), "rows that are quantized on the way")
    equal(found[0][0][1], found[1][0][1], "scales that are computed on the way")


def refused(text, call):
    import mscclpp_rs

    try:
        call()
    except mscclpp_rs.InvalidInputError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"expected an error with {text!r}")


@own_test
def all_to_all_of_lists():
    inputs = [torch.full((RANK + peer + 1,), float(10 * RANK + peer)) for peer in range(SIZE)]
    outputs = [torch.zeros(RANK + peer + 1) for peer in range(SIZE)]
    dist.all_to_all(outputs, inputs)
    for peer, output in enumerate(outputs):
        equal(output, torch.full((RANK + peer + 1,), float(10 * peer + RANK)))
    in_place = torch.arange(SIZE, dtype=torch.float32) + 10 * RANK
    dist.all_to_all_single(in_place, in_place)
    equal(in_place, torch.tensor([10.0 * peer + RANK for peer in range(SIZE)]), "in place")


@test
def gather_and_scatter():
    for root in range(SIZE):
        for dtype in MOVED if IS_OWN else FLOATS + INTEGERS:
            outputs = [torch.zeros(17, dtype=dtype) for _ in range(SIZE)] if RANK == root else None
            dist.gather(values(RANK, 17, dtype), outputs, root)
            for output, expected in zip(outputs or [], of_all(17, dtype)):
                equal(output, expected, f"gather {dtype}")
            inputs = of_all(17, dtype, seed=root) if RANK == root else None
            output = torch.zeros(17, dtype=dtype)
            dist.scatter(output, inputs, root)
            equal(output, values(RANK, 17, dtype, seed=root), f"scatter {dtype}")


@test
def coalesced_calls():
    tensors = [values(RANK, count) for count in COUNTS]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor, count in zip(tensors, COUNTS):
        equal(tensor, total(of_all(count, torch.float32), torch.add))
    outputs = [torch.zeros(SIZE * count) for count in COUNTS]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, count in zip(outputs, COUNTS):
            dist.all_gather_into_tensor(output, values(RANK, count))
    manager.wait()
    for output, count in zip(outputs, COUNTS):
        equal(output, torch.cat(of_all(count, torch.float32)))
    tensors = [values(RANK, count) for count in COUNTS]
    dist.all_reduce_coalesced(tensors)
    for tensor, count in zip(tensors, COUNTS):
        equal(tensor, total(of_all(count, torch.float32), torch.add))


@test
def started_calls_end_in_any_order_of_waits():
    tensors = [values(RANK, 2000, seed=i) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    assert all(isinstance(work.is_completed(), bool) for work in works)
    # A call that is not asynchronous is made after those that were started.
    last = values(RANK, 2000, seed=99)
    dist.all_reduce(last)
    for work in reversed(works):
        work.wait()
    assert all(work.is_completed() and work.is_success() for work in works)
    # Gloo's in PyTorch 2.11 has no type in Python.
    assert not IS_OWN or all(work.exception() is None for work in works)
    for i, tensor in enumerate(tensors):
        equal(tensor, total(of_all(2000, torch.float32, seed=i), torch.add))
    equal(last, total(of_all(2000, torch.float32, seed=99), torch.add))


@test
def future_has_the_list_of_tensors():
    tensor = values(RANK, 100)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    equal(doubled.wait(), total(of_all(100, torch.float32), torch.add) * 2)
    strided = values(RANK, 100).reshape(10, 10).t()
    if IS_OWN:
        work = dist.all_reduce(strided, async_op=True)
        equal(work.get_future().wait()[0], total(of_all(100, torch.float32), torch.add).reshape(10, 10).t())


def wait_by_polling(work):
    deadline = time.monotonic() + 60
    while not work.is_completed():
        assert time.monotonic() < deadline, "expected the call to end"
        time.sleep(0.001)


@own_test
def completed_calls_have_written_strided_tensors():
    base = torch.ones(40, 60)
    expected = base.t() * sum(range(1, SIZE + 1))
    ways = {
        "is_completed": wait_by_polling,
        "is_success": lambda work: (wait_by_polling(work), work.is_success()),
        "result": lambda work: (wait_by_polling(work), work.result()),
    }
    for name, end in ways.items():
        tensor = base.clone().t() * (RANK + 1)
        assert not tensor.is_contiguous()
        work = dist.all_reduce(tensor, async_op=True)
        end(work)
        equal(tensor, expected, name)
        assert work.is_success() and work.exception() is None
        # The results are written once.
        tensor.zero_()
        work.wait()
        work.is_completed()
        assert not tensor.any(), name
    tensors = [base.clone().t() * (RANK + 1) for _ in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    for work in manager.works:
        wait_by_polling(work)
    for tensor in tensors:
        equal(tensor, expected, "coalesced")


@test
def barriers_follow_the_results_of_calls_whose_works_were_dropped():
    def strided():
        return torch.full((30, 20), float(RANK + 1)).t()

    barriers = {
        "barrier": dist.barrier,
        "started": lambda: dist.barrier(async_op=True).wait(),
    }
    if IS_OWN:
        barriers["future"] = lambda: dist.barrier(async_op=True).get_future().wait()
    for name, barrier in barriers.items():
        reduced, broadcast, gathered = strided(), strided(), [torch.zeros(30, 20).t() for _ in range(SIZE)]
        dist.all_reduce(reduced, async_op=True)
        dist.broadcast(broadcast, SIZE - 1, async_op=True)
        dist.all_gather(gathered, strided(), async_op=True)
        barrier()
        equal(reduced, torch.full((20, 30), float(sum(range(1, SIZE + 1)))), name)
        equal(broadcast, torch.full((20, 30), float(SIZE)), name)
        for rank, tensor in enumerate(gathered):
            equal(tensor, torch.full((20, 30), float(rank + 1)), name)


@own_test
def every_wait_for_a_call_returns_after_its_results_are_written():
    total = float(SIZE)
    for _ in range(4):
        tensor = torch.ones(2000, 1500).t()
        work = dist.all_reduce(tensor, async_op=True)
        work.get_future().then(lambda future: None)
        found = []

        def wait():
            work.wait()
            found.append(float(tensor[-1, -1]))

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [total] * 3, found


@own_test
def waits_raise_what_the_writing_of_results_raised():
    # One element of memory for all elements of the tensor.
    tensor = torch.ones(1).expand(6)
    work = dist.all_reduce(tensor, async_op=True)
    wait_by_polling(work)
    assert not work.is_success() and "single memory location" in str(work.exception()), work.exception()
    for end in (work.wait, work.wait, lambda: work.get_future().wait()):
        try:
            end()
        except RuntimeError as error:
            assert "single memory location" in str(error), error
        else:
            raise AssertionError("expected an exception")


@own_test
def functions_of_futures_make_calls_and_wait_for_them():
    def scaled_by_a_call(future):
        factor = dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0]
        dist.barrier()
        return future.value()[0] * factor

    work = dist.all_reduce(values(RANK, 100), async_op=True)
    scaled = work.get_future().then(scaled_by_a_call).wait()
    equal(scaled, total(of_all(100, torch.float32), torch.add) * SIZE)


@test
def objects_of_any_kind():
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "list": list(range(RANK * 100))})
    assert objects == [{"rank": rank, "list": list(range(rank * 100))} for rank in range(SIZE)], objects
    objects = ["text", {"key": (1, 2)}, None] if RANK == 1 else [None] * 3
    dist.broadcast_object_list(objects, 1)
    assert objects == ["text", {"key": (1, 2)}, None], objects
    objects = [None] * SIZE if RANK == 0 else None
    dist.gather_object(RANK * 7, objects, 0)
    assert RANK != 0 or objects == [rank * 7 for rank in range(SIZE)], objects
    received = [None]
    dist.scatter_object_list(received, [f"for {rank}" for rank in range(SIZE)] if RANK == 0 else None, 0)
    assert received == [f"for {RANK}"], received


@test
def methods_of_a_group_accept_tensors_and_arguments():
    group, peer, long = dist.distributed_c10d._get_default_group(), SIZE - 1, timedelta(seconds=100)
    parts = of_all(7, torch.float32)
    (total_of_all, largest) = (total(parts, torch.add), total(parts, torch.maximum))
    for name, call, expected in (
        ("a sum", lambda tensor: group.allreduce(tensor), total_of_all),
        ("a sum of a list", lambda tensor: group.allreduce([tensor], dist.ReduceOp.SUM), total_of_all),
        ("a maximum", lambda tensor: group.allreduce(tensor, dist.ReduceOp.MAX, long), largest),
        ("a maximum by name", lambda tensor: group.allreduce(tensor, op=dist.ReduceOp.MAX, timeout=long), largest),
        ("a broadcast", lambda tensor: group.broadcast(tensor, peer), parts[peer]),
        ("a broadcast by name", lambda tensor: group.broadcast(tensor, root=peer, timeout=long), parts[peer]),
        ("a reduce", lambda tensor: group.reduce(tensor, peer), total_of_all),
        ("a reduce by name", lambda tensor: group.reduce(tensor, root=peer, op=dist.ReduceOp.MAX, timeout=long), largest),
    ):
        tensor = values(RANK, 7)
        call(tensor).wait()
        if "reduce" not in name or RANK == peer:
            equal(tensor, expected, name)
    outputs = [torch.zeros(7) for _ in range(SIZE)]
    group.allgather(outputs, values(RANK, 7)).wait()
    equal(torch.stack(outputs), torch.stack(parts), "an all-gather")
    outputs = [torch.zeros(7) for _ in range(SIZE)] if RANK == peer else []
    group.gather(outputs, values(RANK, 7), peer, long).wait()
    if RANK == peer:
        equal(torch.stack(outputs), torch.stack(parts), "a gather")
    output = torch.zeros(7)
    group.scatter(output, parts if RANK == peer else [], root=peer).wait()
    equal(output, parts[RANK], "a scatter")
    group.reduce_scatter(output, parts, dist.ReduceOp.MAX).wait()
    equal(output, parts[RANK], "a maximum of parts")
    whole, expected = torch.zeros(7 * SIZE), torch.cat([parts[RANK]] * SIZE)
    group.alltoall_base(whole, torch.cat(parts), [], [], long).wait()
    equal(whole, expected, "an all-to-all")
    group.barrier(timeout=long).wait()


@test
def sub_groups():
    groups = [dist.new_group([rank, (rank + 1) % SIZE]) for rank in range(SIZE)] if SIZE > 2 else [dist.new_group([0, 1])]
    for index, group in enumerate(groups):
        ranks = sorted({index, (index + 1) % SIZE})
        if RANK in ranks:
            tensor = values(RANK, 50)
            dist.all_reduce(tensor, group=group)
            equal(tensor, total([values(rank, 50) for rank in ranks], torch.add))
    # Two groups of all ranks, used at the same time and in different orders.
    one, two = dist.new_group(), dist.new_group()
    tensors = [values(RANK, 30_000, seed=seed) for seed in (1, 2)]
    order = (0, 1) if RANK % 2 == 0 else (1, 0)
    works = [dist.all_reduce(tensors[i], group=(one, two)[i], async_op=True) for i in order]
    for work in works:
        work.wait()
    for seed, tensor in zip((1, 2), tensors):
        equal(tensor, total(of_all(30_000, torch.float32, seed=seed), torch.add))
    dist.destroy_process_group(one)
    dist.destroy_process_group(two)


@own_test
def sparse_tensors_are_added():
    indices = torch.tensor([[RANK, RANK + 1], [0, 1]])
    tensor = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0]), (SIZE + 1, 2))
    dense = torch.zeros(SIZE + 1, 2)
    for rank in range(SIZE):
        dense[rank, 0] += 1
        dense[rank + 1, 1] += 2
    dist.all_reduce(tensor)
    equal(tensor.to_dense(), dense)


@own_test
def registered_buffers_are_tensors():
    import mscclpp_rs

    buffer = mscclpp_rs.new_buffer(3, 5000)
    assert buffer.dtype == torch.float32 and buffer.shape == (3, 5000) and not buffer.any()
    for _ in range(3):
        buffer.copy_(values(RANK, 15_000).reshape(3, 5000))
        dist.all_reduce(buffer)
        equal(buffer, total(of_all(15_000, torch.float32), torch.add).reshape(3, 5000))
    work = dist.broadcast(buffer[1], 1, async_op=True)
    work.wait()
    wide = mscclpp_rs.new_buffer(SIZE * 2048, dtype=torch.int64)
    dist.all_gather_into_tensor(wide, values(RANK, 2048, torch.int64))
    equal(wide, torch.cat(of_all(2048, torch.int64)))
    # The memory outlives the name, while a view of it exists.
    part = wide[7:9]
    del wide, buffer
    equal(part, values(0, 2048, torch.int64)[7:9])
    try:
        mscclpp_rs.new_buffer(0)
    except mscclpp_rs.InvalidInputError:
        pass
    else:
        raise AssertionError("expected an exception")


@own_test
def barriers_and_timeouts_of_calls():
    dist.barrier()
    group = dist.distributed_c10d._get_default_group()
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=30)
    tensor = values(RANK, 10)
    group.allreduce([tensor], options).wait()
    equal(tensor, total(of_all(10, torch.float32), torch.add))
    work = dist.barrier(async_op=True)
    work.wait(timedelta(seconds=30))


if __name__ == "__main__":
    assert BACKEND in ("mscclpp", "gloo")
    run()
