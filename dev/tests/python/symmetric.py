"""PyTorch's symmetric memory with its NCCL backend: windows, addresses of other ranks, and what its operations do on the host.

PyTorch's kernels do not run on simulated devices: what operations write with kernels is not compared, only what the host does for them.
"""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

from harness import DEVICE, RANK, SIZE, equal, nccl_test, run, values

NEXT = (RANK + 1) % SIZE
# PyTorch 2.15 asks the library for the addresses of other ranks; 2.11 computes them by a kernel in the rendezvous, after it has created a
# device communicator.
IS_BY_KERNEL = not hasattr(symmetric, "all_to_all_nd")


def host_test(function):
    """Adds a function to the tests of the job where the rendezvous needs no kernel."""
    return function if IS_BY_KERNEL else nccl_test(function)


def shared(*shape):
    """Returns memory of all ranks and its handle."""
    symmetric.set_backend("NCCL")
    dist.barrier()
    tensor = symmetric.empty(*shape, dtype=torch.float32, device=DEVICE)
    return tensor, symmetric.rendezvous(tensor, dist.group.WORLD.group_name)


def reaches_its_kernel(call):
    """Makes a call whose kernel simulated devices refuse, after all that the host does; returns whether the kernel has run."""
    try:
        call()
        return True
    except torch.AcceleratorError as error:
        assert "simulated devices" in str(error), error
        return False


@nccl_test
def rendezvous():
    result = []
    if not reaches_its_kernel(lambda: result.append(shared(4096))):
        assert IS_BY_KERNEL
        return
    tensor, handle = result[0]
    found = (handle.rank, handle.world_size)
    assert found == (RANK, SIZE), found
    assert handle.buffer_size >= 4 * 4096, handle.buffer_size
    tensor.copy_(values(RANK, 4096))
    dist.all_reduce(tensor)
    equal(tensor, torch.stack([values(rank, 4096) for rank in range(SIZE)]).sum(0))


@host_test
def several_windows():
    all_windows = [shared(1000 + 100 * number) for number in range(6)]
    for number, (tensor, _) in enumerate(all_windows):
        tensor.copy_(values(RANK, 1000 + 100 * number, seed=number))
    for number, (tensor, _) in enumerate(all_windows):
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        equal(tensor, torch.stack([values(rank, 1000 + 100 * number, seed=number) for rank in range(SIZE)]).amax(0))


@host_test
def buffers_of_other_ranks():
    tensor, handle = shared(512)
    tensor.copy_(values(RANK, 512))
    torch.cuda.synchronize()
    dist.barrier()
    equal(handle.get_buffer(NEXT, (512,), torch.float32), values(NEXT, 512))
    dist.barrier()
    handle.get_buffer(NEXT, (512,), torch.float32).copy_(values(RANK, 512, seed=3))
    torch.cuda.synchronize()
    dist.barrier()
    equal(tensor, values((RANK + SIZE - 1) % SIZE, 512, seed=3))


@host_test
def operations_with_device_communicators():
    # Both operations create a device communicator, for the barriers of their kernels.
    size = 16 * SIZE
    tensor, _ = shared(size, size)
    inputs = [values(rank, size * size, seed=5).reshape(size, size) for rank in range(SIZE)]
    tensor.copy_(inputs[RANK])
    dist.barrier()
    group, columns = dist.group.WORLD.group_name, slice(16 * RANK, 16 * (RANK + 1))
    out = torch.empty(SIZE, size, 16, device=DEVICE)
    if reaches_its_kernel(lambda: symmetric.all_to_all_nd(tensor, out, 1, 0, group=group)):
        equal(out, torch.stack([of_rank[:, columns] for of_rank in inputs]))
    part = torch.empty(size, 16, device=DEVICE)
    ends = [16 * (rank + 1) for rank in range(SIZE)]
    if reaches_its_kernel(lambda: symmetric.reduce_scatter_offset(tensor, [part], group, dim=1, offsets=ends)):
        equal(part, torch.stack(inputs).sum(0)[:, columns].contiguous())
    dist.barrier()


run()
