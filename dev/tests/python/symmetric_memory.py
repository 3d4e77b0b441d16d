"""PyTorch's symmetric memory with the backend of mscclpp-python: memory of other ranks, signals, barriers, and operations that plans serve.

PyTorch's kernels do not run on simulated devices, so only copies write memory.
"""

import os

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

import mscclpp_rs
import mscclpp_rs.symmetric_memory

from harness import DEVICE, RANK, SIZE, equal, on_device, run, test, values

symmetric.set_backend("mscclpp")

NEXT, BEFORE = (RANK + 1) % SIZE, (RANK + SIZE - 1) % SIZE
COUNT = 515


def group():
    return dist.group.WORLD.group_name


def shared(count, dtype=torch.float32, seed=0):
    """Returns memory of all ranks with this rank's values, and its handle."""
    tensor = symmetric.empty(count, dtype=dtype, device=DEVICE)
    handle = symmetric.rendezvous(tensor, group())
    tensor.copy_(values(RANK, count, dtype, seed))
    return tensor, handle


def of_all(count, dtype=torch.float32, seed=0):
    return torch.stack([values(rank, count, dtype, seed) for rank in range(SIZE)])


def refuses(kind, call, *texts):
    """Makes a call that raises an exception of a class, whose text has these parts."""
    try:
        call()
    except kind as error:
        assert all(text in str(error) for text in texts), error
        return
    raise AssertionError(f"expected {kind.__name__} with {texts}")


@test
def rendezvous_describes_the_memory():
    tensor, handle = shared(COUNT)
    assert (handle.rank, handle.world_size, handle.device) == (RANK, SIZE, DEVICE), handle.__dict__
    assert symmetric.get_backend(DEVICE) == "mscclpp"
    assert symmetric.is_symm_mem_tensor(tensor) and not symmetric.is_symm_mem_tensor(on_device(torch.zeros(3)))
    assert handle.buffer_size >= 4 * COUNT and handle.offset == 0
    assert handle.buffer_ptrs[RANK] == tensor.data_ptr() and len(set(handle.buffer_ptrs)) == SIZE
    has_multicast = os.environ.get("MSCCLPP_MOCK_MULTICAST", "0") != "0"
    assert (handle.multicast_ptr != 0) == has_multicast, handle.multicast_ptr
    assert symmetric.rendezvous(tensor, group()).buffer_ptrs == handle.buffer_ptrs
    part = symmetric.rendezvous(tensor[4:], dist.group.WORLD)
    assert part.offset == 16, part.offset
    assert handle.buffer_ptrs_dev and handle.signal_pad_ptrs_dev


@test
def buffers_of_other_ranks_are_read_and_written():
    tensor, handle = shared(COUNT)
    handle.barrier()
    equal(handle.get_buffer(NEXT, (COUNT,), torch.float32), values(NEXT, COUNT))
    equal(handle.get_buffer(NEXT, (5, 2), torch.float32, 3), values(NEXT, COUNT)[3:13].reshape(5, 2))
    out = torch.empty(7, device=DEVICE)
    symmetric.get(out, handle, NEXT, 11)
    equal(out, values(NEXT, COUNT)[11:18])
    part = symmetric.rendezvous(tensor[8:], group())
    equal(part.get_remote_tensor(NEXT, (4,), torch.float32), values(NEXT, COUNT)[8:12])
    handle.barrier()
    handle.get_buffer(NEXT, (COUNT,), torch.float32).copy_(on_device(values(RANK, COUNT, seed=3)))
    handle.barrier(channel=1)
    equal(tensor, values(BEFORE, COUNT, seed=3))


@test
def signal_pads_are_memory_of_their_own():
    tensor, handle = shared(COUNT)
    pad = handle.get_signal_pad(NEXT)
    assert pad.dtype == torch.uint32 and pad.numel() * 4 == symmetric.get_signal_pad_size(), pad.shape
    handle.get_signal_pad(NEXT, (3,), torch.int32, 2).copy_(on_device(torch.full((3,), RANK + 5, dtype=torch.int32)))
    handle.barrier()
    equal(handle.get_signal_pad(RANK, (6,), torch.int32), torch.tensor([0, 0] + [BEFORE + 5] * 3 + [0], dtype=torch.int32))
    equal(tensor, values(RANK, COUNT))


@test
def signals_order_work_of_streams():
    tensor, handle = shared(COUNT)
    handle.barrier()
    for seed in range(4, 9):
        # The rank before has read what this one has written.
        if seed > 4:
            handle.wait_signal(NEXT, channel=1)
        symmetric.put_signal(on_device(values(RANK, COUNT, seed=seed)), handle, NEXT)
        symmetric.wait_signal(handle, BEFORE)
        equal(tensor, values(BEFORE, COUNT, seed=seed))
        handle.put_signal(BEFORE, channel=1)
    handle.wait_signal(NEXT, channel=1)
    # Signals of one channel do not end waits of another one.
    handle.put_signal(NEXT, channel=3)
    handle.put_signal(NEXT, channel=2)
    handle.wait_signal(BEFORE, channel=2)
    handle.wait_signal(BEFORE, channel=3)
    torch.cuda.synchronize()


@test
def operations_are_served_by_plans():
    operations = torch.ops.symm_mem
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        tensor, _ = shared(COUNT, dtype)
        total = of_all(COUNT, dtype).sum(0).to(dtype)
        equal(operations.one_shot_all_reduce(tensor, "sum", group()), total, "one_shot_all_reduce")
        equal(tensor, values(RANK, COUNT, dtype), "the input")
        out = torch.empty(COUNT, dtype=dtype, device=DEVICE)
        equal(operations.one_shot_all_reduce_out(tensor, "sum", group(), out), total, "one_shot_all_reduce_out")
        equal(operations.multimem_one_shot_all_reduce(tensor, "max", group()), of_all(COUNT, dtype).amax(0), "max")
        equal(operations.two_shot_all_reduce_out(tensor, "sum", group(), out), total, "two_shot_all_reduce_out")
        result = operations.two_shot_all_reduce_(tensor, "sum", group())
        assert result.data_ptr() == tensor.data_ptr()
        assert mscclpp_rs._torch.backend_of()._native.bytes_copied(DEVICE.index) == 0
        equal(tensor, total, "two_shot_all_reduce_")
        tensor, _ = shared(COUNT, dtype)
        operations.two_shot_all_reduce_(tensor[8:24], "sum", group())
        assert mscclpp_rs._torch.backend_of()._native.bytes_copied(DEVICE.index) == 0
        equal(tensor[8:24], total[8:24], "two_shot_all_reduce_ of a part")
        equal(tensor[24:], values(RANK, COUNT, dtype)[24:], "the rest")
        tensor, _ = shared(COUNT, dtype, 2)
        operations.multimem_all_reduce_(tensor, "sum", group())
        equal(tensor, of_all(COUNT, dtype, 2).sum(0).to(dtype), "multimem_all_reduce_")
    counts = mscclpp_rs.call_counts()
    assert sum(count for name, count in counts.items() if name.startswith("allreduce")) >= 18, counts


@test
def operations_with_parts_of_ranks():
    operations = torch.ops.symm_mem
    tensor, _ = shared(16 * SIZE)
    copied = torch.ops.symm_mem.one_shot_all_reduce_copy(tensor, on_device(values(RANK, 16, seed=6)), "sum", group())
    equal(copied, of_all(16, seed=6).sum(0), "one_shot_all_reduce_copy")
    equal(tensor[:16], values(RANK, 16, seed=6), "the symmetric buffer")
    tensor, _ = shared(16 * SIZE)
    out = torch.empty(16, device=DEVICE)
    operations.reduce_scatter_out(tensor, group(), False, out)
    own = slice(16 * RANK, 16 * (RANK + 1))
    equal(out, of_all(16 * SIZE).sum(0)[own], "reduce_scatter_out")
    equal(operations._low_contention_reduce_scatter(tensor, "sum", group()), of_all(16 * SIZE).sum(0)[own])
    tensor, _ = shared(32)
    gathered = torch.empty(32 * SIZE, device=DEVICE)
    operations.multimem_all_gather_out(tensor, group(), gathered)
    equal(gathered, of_all(32).reshape(-1), "multimem_all_gather_out")
    equal(operations._low_contention_all_gather(tensor, group()), of_all(32).reshape(-1), "_low_contention_all_gather")
    reduced = on_device(torch.full((32,), -1.0))
    operations.multimem_one_shot_reduce_out(tensor, "sum", 1, group(), reduced)
    equal(reduced, of_all(32).sum(0) if RANK == 1 else torch.full((32,), -1.0), "multimem_one_shot_reduce_out")
    dist.barrier()
    for rank, remote in enumerate(operations.get_remote_tensors(tensor, group())):
        equal(remote, values(rank, 32), "get_remote_tensors")
    dist.barrier()


@test
def operations_on_handles_are_those_of_the_handles():
    tensor = symmetric.empty(COUNT, device=DEVICE)
    handle = torch.ops.symm_mem._rendezvous(tensor, group_name=group())
    assert handle.buffer_ptrs == symmetric.rendezvous(tensor, group()).buffer_ptrs
    for barrier in (torch.ops.symm_mem._barrier, torch.ops.symm_mem._barrier.default):
        barrier(handle)
        handle.get_buffer(NEXT, (COUNT,), torch.float32).copy_(on_device(values(RANK, COUNT, seed=7)))
        barrier(handle)
        equal(tensor, values(BEFORE, COUNT, seed=7))
    assert "SymmetricMemory" in str(torch.ops.symm_mem._barrier._schemas)
    refuses(RuntimeError, lambda: torch.ops.symm_mem._barrier(3), "_barrier")


@test
def pipelines_of_pytorch_use_the_memory():
    shard, found = on_device(values(RANK, COUNT)), {}
    gathered = torch.empty(SIZE * COUNT, device=DEVICE)
    symmetric._pipelined_all_gather_and_consume(
        shard, lambda part, rank: found.setdefault(rank, torch.empty_like(part).copy_(part)), gathered, group()
    )
    torch.cuda.synchronize()
    equal(gathered, of_all(COUNT).reshape(-1), "all_gather")
    for rank in range(SIZE):
        equal(found[rank], values(rank, COUNT), f"the part of rank {rank}")
    # A kernel of PyTorch, which orders nothing.
    torch.cuda._sleep = lambda cycles: None
    produced = torch.empty(SIZE * COUNT, device=DEVICE)
    symmetric._pipelined_produce_and_all2all(
        lambda rank, out: out.copy_(on_device(values(RANK, COUNT, seed=rank)).reshape(out.shape)), produced, group()
    )
    torch.cuda.synchronize()
    equal(produced, torch.cat([values(rank, COUNT, seed=RANK) for rank in range(SIZE)]), "all_to_all")


@test
def what_is_not_supported_is_refused_by_name():
    tensor, handle = shared(COUNT)
    unsupported, invalid = mscclpp_rs.UnsupportedError, mscclpp_rs.InvalidInputError
    refuses(unsupported, lambda: symmetric.empty(3, device="cpu"), "empty", "CUDA device")
    refuses(unsupported, lambda: torch.ops.symm_mem.nvshmem_broadcast(tensor, 0, group()), "nvshmem_broadcast")
    refuses(unsupported, lambda: torch.ops.symm_mem.one_shot_all_reduce(torch.ones(3), "sum", group()), "one_shot_all_reduce")
    refuses(invalid, lambda: torch.ops.symm_mem._rendezvous(on_device(torch.zeros(3)), group()), "rendezvous")
    refuses(unsupported, handle.boxed, "boxed")
    refuses(unsupported, lambda: symmetric.get_mem_pool(DEVICE), "get_mem_pool")
    refuses(invalid, lambda: symmetric.rendezvous(on_device(torch.zeros(3)), group()), "rendezvous")
    refuses(invalid, lambda: symmetric.rendezvous(tensor, "no group"), "no group")
    refuses(invalid, lambda: handle.get_buffer(SIZE, (1,), torch.float32), "rank below")
    refuses(invalid, lambda: handle.get_buffer(NEXT, (10**6,), torch.float32), "exceed")
    refuses(invalid, lambda: handle.get_signal_pad(NEXT, (513,), torch.int32), "exceed")
    refuses(invalid, lambda: handle.put_signal(NEXT, channel=10**6), "channel below")
    refuses(invalid, lambda: handle.put_signal(SIZE), "rank below")
    other = on_device(torch.zeros(3))
    refuses(invalid, lambda: torch.ops.symm_mem.two_shot_all_reduce_(other, "sum", group()), "symmetric")
    refuses(invalid, lambda: torch.ops.symm_mem.two_shot_all_reduce_(tensor, "mean", group()), "mean")
    other = symmetric.empty(256 * (RANK + 1), device=DEVICE)
    refuses(mscclpp_rs.MismatchError, lambda: symmetric.rendezvous(other, group()), "bytes")
    # The group is as before.
    dist.all_reduce(tensor)
    equal(tensor, of_all(COUNT).sum(0))


@test
def late_signal_fails_its_group():
    other = dist.new_group()
    handle = symmetric.rendezvous(symmetric.empty(COUNT, device=DEVICE), other)
    handle.barrier()
    torch.cuda.synchronize()
    if RANK == 0:
        handle.wait_signal(NEXT, timeout_ms=300)
        torch.cuda.synchronize()
    dist.barrier()
    refuses(mscclpp_rs.Error, handle.barrier, "has not sent a signal within the timeout")
    refuses(mscclpp_rs.Error, lambda: handle.put_signal(NEXT), "has not sent a signal within the timeout")
    dist.barrier()


@test
def abort_of_a_rank_ends_waits_of_others():
    other = dist.new_group()
    handle = symmetric.rendezvous(symmetric.empty(COUNT, device=DEVICE), other)
    handle.barrier()
    torch.cuda.synchronize()
    # A barrier would wait for the stream.
    store, waiting = dist.distributed_c10d._get_default_store(), [rank for rank in range(SIZE) if rank != 1]
    if RANK == 1:
        store.wait([f"waiting {rank}" for rank in waiting])
        mscclpp_rs._torch.backend_of(other).abort()
    else:
        handle.wait_signal(1)
        store.set(f"waiting {RANK}", "")
        torch.cuda.synchronize()
        refuses(mscclpp_rs.RankLostError, handle.barrier, "rank 1", "abort was called")
    dist.barrier()


@test
def memory_ends_with_its_tensors():
    known = mscclpp_rs.symmetric_memory._ALLOCATIONS
    before = len(known)
    tensor, handle = shared(COUNT)
    view = tensor[3:9]
    handle.barrier()
    torch.cuda.synchronize()
    assert len(known) == before + 1
    del tensor, handle
    assert len(known) == before + 1 and symmetric.is_symm_mem_tensor(view)
    del view
    assert len(known) == before, (before, len(known))
    dist.barrier()


run()
