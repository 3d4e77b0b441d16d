"""nccl4py: NVIDIA's bindings of NCCL for Python, which scripts/python-client.sh installs. Buffers are tensors of PyTorch."""

import torch
import torch.distributed as dist

import nccl.core as nccl
from nccl.core.interop import torch as nccl_torch

from harness import COUNTS, DEVICE, RANK, SIZE, empty, equal, on_device, run, test, values

comm = None


def stream():
    return torch.cuda.current_stream().cuda_stream


def total(count, seed=0):
    return sum(values(rank, count, seed=seed) for rank in range(SIZE))


def new_communicator(config=None):
    ids = [bytes(nccl.get_unique_id()) if RANK == 0 else None]
    dist.broadcast_object_list(ids)
    return nccl.Communicator.init(SIZE, RANK, nccl.UniqueId.from_bytes(ids[0]), config)


@test
def communicator_has_its_rank_and_properties():
    global comm
    assert str(nccl.get_version().libnccl.version) == "2.30.7"
    comm = new_communicator(nccl.NCCLConfig(comm_name="bindings", max_ctas=8))
    assert (comm.rank, comm.nranks, comm.device.device_id, comm.is_valid) == (RANK, SIZE, DEVICE.index, True)
    assert comm.properties.n_ranks == SIZE and comm.get_async_error() == 0
    world = comm.team_world
    assert (world.n_ranks, world.rank) == (SIZE, RANK), world


@test
def all_reduce_of_every_operator():
    for count in COUNTS:
        all_values = torch.stack([values(rank, count) for rank in range(SIZE)])
        for op, expected in [
            (nccl.SUM, all_values.sum(0)),
            (nccl.PROD, all_values.prod(0)),
            (nccl.MAX, all_values.amax(0)),
            (nccl.MIN, all_values.amin(0)),
            (nccl.AVG, all_values.mean(0)),
        ]:
            output = empty(count)
            comm.allreduce(on_device(values(RANK, count)), output, op, stream=stream())
            equal(output, expected, f"{op} of {count} elements")


@test
def rooted_calls():
    for root in range(SIZE):
        output = empty(700)
        comm.reduce(on_device(values(RANK, 700)), output, nccl.SUM, root, stream=stream())
        if RANK == root:
            equal(output, total(700), f"reduce to {root}")
        output = empty(700)
        comm.broadcast(on_device(values(RANK, 700)), output, root, stream=stream())
        equal(output, values(root, 700), f"broadcast from {root}")
        output = empty(700 * SIZE)
        comm.gather(on_device(values(RANK, 700)), output, root, stream=stream())
        if RANK == root:
            equal(output, torch.cat([values(rank, 700) for rank in range(SIZE)]), f"gather to {root}")
        output = empty(700)
        comm.scatter(on_device(values(root, 700 * SIZE)), output, root, stream=stream())
        equal(output, values(root, 700 * SIZE)[700 * RANK :][:700], f"scatter from {root}")


@test
def gathers_scatters_and_exchanges():
    for count in COUNTS:
        output = empty(count * SIZE)
        comm.allgather(on_device(values(RANK, count)), output, stream=stream())
        equal(output, torch.cat([values(rank, count) for rank in range(SIZE)]), f"all-gather of {count}")
        output = empty(count)
        comm.reduce_scatter(on_device(values(RANK, count * SIZE)), output, nccl.SUM, stream=stream())
        equal(output, total(count * SIZE)[count * RANK :][:count], f"reduce-scatter of {count}")
        output = empty(count * SIZE)
        comm.alltoall(on_device(values(RANK, count * SIZE)), output, stream=stream())
        expected = [values(rank, count * SIZE)[count * RANK :][:count] for rank in range(SIZE)]
        equal(output, torch.cat(expected), f"all-to-all of {count}")


@test
def transfers_in_a_group():
    following, preceding = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    received = empty(4099)
    with nccl.group():
        comm.send(on_device(values(RANK, 4099)), following, stream=stream())
        comm.recv(received, preceding, stream=stream())
    equal(received, values(preceding, 4099))


@test
def group_that_is_simulated_makes_no_calls():
    output = empty(7)
    nccl.group_start()
    comm.allreduce(on_device(values(RANK, 7)), output, nccl.SUM, stream=stream())
    nccl.group_end(simulate=True)
    equal(output, torch.full((7,), 99.0))


@test
def configured_calls_and_custom_operators():
    output = empty(512)
    config = nccl.NCCLCollConfig(user_profiler_tag=5, max_ctas=2)
    comm.allreduce(on_device(values(RANK, 512)), output, nccl.SUM, stream=stream(), config=config)
    equal(output, total(512))
    operator = comm.create_pre_mul_sum(0.5, nccl.FLOAT32)
    operator.close()


@test
def memory_of_the_library_is_a_window():
    tensor = nccl_torch.empty(4096, dtype=torch.float32)
    window = comm.register_window(tensor)
    assert window.is_valid and window.user_ptr == tensor.data_ptr()
    tensor.copy_(values(RANK, 4096))
    comm.allreduce(tensor, tensor, nccl.SUM, stream=stream())
    equal(tensor, total(4096))
    window.close()
    registered = comm.register_buffer(tensor)
    registered.close()


@test
def communicators_are_split_shrunk_and_grown():
    color = RANK % 2
    part = comm.split(color, RANK)
    members = [rank for rank in range(SIZE) if rank % 2 == color]
    output = empty(9)
    part.allreduce(on_device(values(RANK, 9)), output, nccl.SUM, stream=stream())
    equal(output, sum(values(rank, 9) for rank in members))
    part.destroy()
    last = SIZE - 1
    fewer = comm.shrink([last]) if RANK != last else None
    if fewer:
        output = empty(9)
        fewer.allreduce(on_device(values(RANK, 9)), output, nccl.SUM, stream=stream())
        equal(output, sum(values(rank, 9) for rank in range(last)))
    ids = [bytes(fewer.get_unique_id()) if RANK == 0 else None]
    dist.broadcast_object_list(ids)
    if fewer:
        grown = fewer.grow(SIZE)
    else:
        grown = nccl.Communicator().grow(SIZE, nccl.UniqueId.from_bytes(ids[0]), last)
    output = empty(9)
    grown.allreduce(on_device(values(RANK, 9)), output, nccl.SUM, stream=stream())
    equal(output, total(9))
    torch.cuda.synchronize()
    for communicator in (grown, fewer):
        if communicator:
            communicator.destroy()


@test
def memory_is_released_and_reported():
    comm.suspend()
    comm.resume()
    output = empty(9)
    comm.allreduce(on_device(values(RANK, 9)), output, nccl.SUM, stream=stream())
    equal(output, total(9))
    for statistic in nccl.NcclCommMemStat:
        assert comm.get_mem_stat(statistic) >= 0
    assert "NCCL_DEBUG" in set(nccl.params) and nccl.params["NCCL_DEBUG"] == ""


@test
def errors_have_their_texts():
    try:
        comm.broadcast(on_device(values(RANK, 9)), empty(9), SIZE, stream=stream())
    except Exception as error:
        assert "root: expected a rank below" in comm.get_last_error(), (error, comm.get_last_error())
    else:
        raise AssertionError("no error")


@test
def communicators_of_one_process_and_ends():
    torch.cuda.synchronize()
    dist.barrier()
    comm.finalize()
    comm.destroy()
    other = new_communicator()
    dist.barrier()
    other.revoke()
    other.abort()
    assert not other.is_valid


torch.cuda.set_device(DEVICE)
run("gloo")
