"""The NCCL wrappers of SGLang and vLLM: files of their wheels, which scripts/python-client.sh extracts. CLIENT names the program.

What the files import of the rest of the program is replaced here, because the rest needs packages that run on GPUs only.
"""

import ctypes
import importlib
import logging
import os
import sys
import types

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from harness import COUNTS, DEVICE, RANK, SIZE, empty, equal, on_device, run, test, values

CLIENT = os.environ["CLIENT"]
PACKAGE = {"sglang": "sglang.srt", "vllm": "vllm"}[CLIENT] + ".distributed"
LIBRARY = "libnccl.so.2"


def module(name, **members):
    """Replaces a module of the program."""
    found = types.ModuleType(name)
    vars(found).update(members)
    sys.modules[name] = found
    parent, _, child = name.rpartition(".")
    setattr(sys.modules.get(parent) or importlib.import_module(parent), child, found)


class StatelessProcessGroup:
    """Groups of processes without torch.distributed, which this job does not use."""


class Platform:
    def is_rocm(self):
        return False

    def fp8_dtype(self):
        return torch.float8_e4m3fn


class Logger(logging.Logger):
    info_once, warning_once = logging.Logger.info, logging.Logger.warning


module(f"{PACKAGE}.utils", StatelessProcessGroup=StatelessProcessGroup)
if CLIENT == "sglang":
    module("sglang.srt.utils")
    module("sglang.srt.utils.common", get_current_device_stream_fast=torch.cuda.current_stream)
else:
    module("vllm.envs", VLLM_DISABLE_PYNCCL=False, VLLM_USE_NCCL_SYMM_MEM=True)
    module("vllm.logger", init_logger=Logger)
    module("vllm.platforms", current_platform=Platform())
    module("vllm.utils")
    module("vllm.utils.torch_utils", current_stream=torch.cuda.current_stream)
    module("vllm.utils.nccl", find_nccl_library=lambda: LIBRARY)

pynccl = importlib.import_module(f"{PACKAGE}.device_communicators.pynccl")
wrapper = importlib.import_module(f"{PACKAGE}.device_communicators.pynccl_wrapper")

CALLED = set()
comm = None


def recorded(name, function):
    """Returns a function of the library that records its call."""

    def call(*arguments):
        CALLED.add(name)
        return function(*arguments)

    return call


@test
def communicator_is_created_and_warmed_up():
    global comm
    library = wrapper.NCCLLibrary(LIBRARY)
    for name, function in library._funcs.items():
        library._funcs[name] = recorded(name, function)
    comm = pynccl.PyNcclCommunicator(dist.group.WORLD, DEVICE, LIBRARY)
    assert comm.available and (comm.rank, comm.world_size) == (RANK, SIZE)
    assert comm.nccl_version == 23007 and library.ncclGetVersion() == "2.30.7", comm.nccl_version
    comm.disabled = False


@test
def all_reduce_of_every_type_and_operator():
    types = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.bfloat16]
    for dtype in types:
        all_values = torch.stack([values(rank, 512, dtype) for rank in range(SIZE)])
        for op, expected in [
            (ReduceOp.SUM, all_values.sum(0)),
            (ReduceOp.PRODUCT, all_values.prod(0)),
            (ReduceOp.MAX, all_values.amax(0)),
            (ReduceOp.MIN, all_values.amin(0)),
        ]:
            equal(all_reduce(on_device(values(RANK, 512, dtype)), op), expected.to(dtype), f"{dtype} {op}")
    average = torch.stack([values(rank, 512) for rank in range(SIZE)]).mean(0)
    equal(all_reduce(on_device(values(RANK, 512)), ReduceOp.AVG), average, "average")


def all_reduce(tensor, op):
    if CLIENT == "vllm":
        return comm.all_reduce(tensor, op=op)
    comm.all_reduce(tensor, op)
    return tensor


@test
def all_reduce_out_of_place():
    for count in COUNTS:
        tensor = on_device(values(RANK, count))
        output = (comm.all_reduce if CLIENT == "vllm" else comm.outplace_all_reduce)(tensor)
        equal(output, sum(values(rank, count) for rank in range(SIZE)), f"{count} elements")
        equal(tensor, values(RANK, count), "the input")


@test
def all_gather_and_reduce_scatter():
    for count in COUNTS:
        output = empty(count * SIZE)
        comm.all_gather(output, on_device(values(RANK, count)))
        equal(output, torch.cat([values(rank, count) for rank in range(SIZE)]), f"{count} elements")
        output = empty(count)
        comm.reduce_scatter(output, on_device(values(RANK, count * SIZE)))
        expected = sum(values(rank, count * SIZE) for rank in range(SIZE))
        equal(output, expected[RANK * count :][:count], f"{count} elements")


@test
def unequal_parts_are_groups_of_rooted_calls():
    sizes = [100 + 11 * rank for rank in range(SIZE)]
    begin = sum(sizes[:RANK])
    gather, scatter = (comm.all_gatherv, comm.reduce_scatterv) if CLIENT == "vllm" else (comm.all_gather, comm.reduce_scatter)
    output = empty(sum(sizes))
    gather(output, on_device(values(RANK, sizes[RANK])), sizes=sizes)
    equal(output, torch.cat([values(rank, sizes[rank]) for rank in range(SIZE)]))
    output = empty(sizes[RANK])
    scatter(output, on_device(values(RANK, sum(sizes))), sizes=sizes)
    equal(output, sum(values(rank, sum(sizes)) for rank in range(SIZE))[begin:][: sizes[RANK]])


@test
def broadcast_from_every_rank():
    for root in range(SIZE):
        tensor = on_device(values(RANK, 4099))
        comm.broadcast(tensor, root)
        equal(tensor, values(root, 4099), f"from rank {root}")


@test
def send_and_recv_between_two_ranks():
    if RANK > 1:
        return
    tensor, received = on_device(values(RANK, 700)), empty(700)
    for sender in range(2):
        if RANK == sender:
            comm.send(tensor, 1 - RANK)
        else:
            comm.recv(received, 1 - RANK)
    equal(received, values(1 - RANK, 700))


@test
def exchanges_in_groups():
    following, preceding = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    tensor, received = on_device(values(RANK, 4099)), empty(4099)
    comm.group_start()
    comm.send(tensor, following)
    comm.recv(received, preceding)
    comm.group_end()
    equal(received, values(preceding, 4099))


@test
def groups_of_one_client_only():
    if CLIENT == "sglang":
        output = empty(40 * SIZE)
        comm.all_to_all_single(output, on_device(values(RANK, 40 * SIZE)))
        equal(output, torch.cat([values(rank, 40 * SIZE)[40 * RANK :][:40] for rank in range(SIZE)]))
        return
    output = empty(300)
    comm.reduce(output, on_device(values(RANK, 300)), SIZE - 1)
    if RANK == SIZE - 1:
        equal(output, sum(values(rank, 300) for rank in range(SIZE)))
    sizes = [20 + rank for rank in range(SIZE)]
    output = empty(sizes[RANK])
    comm.scatter(output, on_device(values(0, sum(sizes))), sizes)
    equal(output, values(0, sum(sizes))[sum(sizes[:RANK]) :][: sizes[RANK]])
    received = empty(64)
    operations = [
        dist.P2POp(dist.isend, on_device(values(RANK, 64)), (RANK + 1) % SIZE),
        dist.P2POp(dist.irecv, received, (RANK - 1) % SIZE),
    ]
    comm.batch_isend_irecv(operations)
    equal(received, values((RANK - 1) % SIZE, 64))


@test
def captured_calls_are_replayed():
    tensor = on_device(values(RANK, 512))
    comm.all_reduce(tensor)
    torch.cuda.synchronize()
    graph, tensor, output = torch.cuda.CUDAGraph(), on_device(values(RANK, 512)), empty(512)
    with torch.cuda.graph(graph):
        if CLIENT == "vllm":
            comm.all_reduce(tensor, output)
        else:
            comm.outplace_all_reduce(tensor, output)
    for seed in range(3):
        tensor.copy_(values(RANK, 512, seed=seed))
        graph.replay()
        torch.cuda.synchronize()
        equal(output, sum(values(rank, 512, seed=seed) for rank in range(SIZE)), f"replay {seed}")


@test
def windows_are_used_by_calls():
    bytes = 1 << 16
    if CLIENT == "sglang":
        address = comm.nccl.ncclMemAlloc(bytes)
    else:
        # vLLM allocates by a C++ extension, which calls these functions.
        pointer = ctypes.c_void_p()
        comm.nccl.NCCL_CHECK(comm.nccl.lib.ncclMemAlloc(ctypes.byref(pointer), ctypes.c_size_t(bytes)))
        address = pointer.value
    window = comm.register_comm_window_raw(address, bytes)
    assert window.value if hasattr(window, "value") else window
    dist.barrier()
    stream = wrapper.cudaStream_t(torch.cuda.current_stream().cuda_stream)
    tensor = on_device(values(RANK, 512))
    comm.nccl.ncclAllReduce(
        wrapper.buffer_type(tensor.data_ptr()), wrapper.buffer_type(address), 512, 7, 0, comm.comm, stream
    )
    comm.nccl.ncclAllReduce(
        wrapper.buffer_type(address), wrapper.buffer_type(tensor.data_ptr()), 512, 7, 0, comm.comm, stream
    )
    equal(tensor, SIZE * sum(values(rank, 512) for rank in range(SIZE)))
    comm.deregister_comm_window(window)
    if CLIENT == "sglang":
        comm.nccl.ncclMemFree(address)
    else:
        comm.nccl.NCCL_CHECK(comm.nccl.lib.ncclMemFree(ctypes.c_void_p(address)))


@test
def errors_have_their_texts():
    try:
        comm.nccl.ncclAllReduce(0, 0, 512, 7, 0, comm.comm, 0)
    except RuntimeError as error:
        assert "invalid argument" in str(error), error
        # vLLM also asks for the last error.
        assert CLIENT == "sglang" or "sendbuff is null" in str(error), error
    else:
        raise AssertionError("no error")


@test
def communicators_of_one_client_only():
    if CLIENT == "sglang":
        other = pynccl.PyNcclCommunicator(dist.group.WORLD, DEVICE, LIBRARY, True, 2)
    else:
        comm.suspend()
        comm.resume()
        equal(comm.all_reduce(on_device(values(RANK, 7))), sum(values(rank, 7) for rank in range(SIZE)))
        found = wrapper.ncclCommProperties()
        found.size, found.magic, found.version = ctypes.sizeof(found), 0xCAFEBEEF, 23102
        comm.nccl.NCCL_CHECK(comm.nccl._funcs["ncclCommQueryProperties"](comm.comm, ctypes.byref(found)))
        assert (found.rank, found.nRanks) == (RANK, SIZE), (found.rank, found.nRanks)
        ids = [bytes(comm.nccl.ncclGetUniqueId().internal) if RANK == 0 else None]
        dist.broadcast_object_list(ids)
        other = pynccl.PyNcclCommunicator.from_unique_id_bytes(ids[0], RANK, SIZE, DEVICE, LIBRARY)
    other.disabled = False
    output = (other.all_reduce if CLIENT == "vllm" else other.outplace_all_reduce)(on_device(values(RANK, 9)))
    equal(output, sum(values(rank, 9) for rank in range(SIZE)))
    if CLIENT == "vllm":
        dist.barrier()
        other.destroy()
        assert not other.available
    else:
        other.nccl.ncclCommDestroy(other.comm)


@test
def communicator_is_destroyed_and_all_functions_were_called():
    torch.cuda.synchronize()
    comm.nccl.ncclCommDestroy(comm.comm)
    # Rank 0 alone makes ids.
    missing = set(comm.nccl._funcs) - CALLED - ({"ncclGetUniqueId"} if RANK else set())
    assert not missing, missing


torch.cuda.set_device(DEVICE)
run("gloo")
