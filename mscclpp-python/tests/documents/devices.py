"""The blocks of the integration guides that make calls, as they stand, in the smallest frame that they need: a job of ranks on simulated
devices, with `MSCCLPP_MASTER_ADDR` and `MSCCLPP_MASTER_PORT`."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.distributed as dist
from blocks import documents, read
from native import framed

import mscclpp
import mscclpp.utils as mscclpp_utils
import mscclpp_rs

DOCUMENTS = {path.name[:3]: read(path) for path in documents()}
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def run(document: str, number: int, names: dict[str, Any]) -> dict[str, Any]:
    return DOCUMENTS[document][number - 1].run(names)


def netifaces() -> types.ModuleType:
    """Returns a module with what the guide calls of netifaces: all addresses are those of the loopback interface."""
    module = types.ModuleType("netifaces")
    module.AF_INET = 2
    module.interfaces = lambda: ["lo"]
    module.ifaddresses = lambda interface: {2: [{"addr": "127.0.0.1"}]}
    return module


def join() -> mscclpp.CommGroup:
    """Joins the job as 001:3 does."""
    sys.modules.setdefault("netifaces", netifaces())
    return run("001", 3, {"mscclpp": mscclpp})["init_communicator"]()


def numbers(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns small integers, which differ by rank."""
    return (torch.arange(count) % 5 + RANK + 1).to(dtype)


def is_sum(found: torch.Tensor) -> None:
    expected = SIZE * (torch.arange(found.numel()) % 5) + SIZE * (SIZE + 1) // 2
    torch.cuda.synchronize()
    assert torch.equal(found.cpu().to(torch.int64).flatten(), expected), found


def shared(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns numbers in memory that ranks share."""
    made = mscclpp.RawGpuBuffer(count * dtype.itemsize).to_dlpack(data_type=str(dtype))
    tensor = torch.utils.dlpack.from_dlpack(made)
    tensor.copy_(numbers(count, dtype))
    return tensor


def common() -> dict[str, Any]:
    return {"mscclpp": mscclpp, "mscclpp_utils": mscclpp_utils, "torch": torch}


def default_algorithms(comm: mscclpp.CommGroup) -> None:
    names = run("001", 5, run("001", 4, common()))
    custom = names["CustomizedComm"](comm)
    for count in (1000, 1 << 19):
        tensor = shared(count, torch.float32)
        custom.all_reduce(tensor)
        is_sum(tensor)


def program_of_a_specification(comm: mscclpp.CommGroup) -> None:
    names = run("001", 9, run("001", 8, run("001", 7, common())))
    algorithm = names["setup_algorithm"](comm.my_rank, comm.nranks, comm.nranks_per_node)
    custom = names["CustomizedComm"](comm, algorithm)
    tensor = shared(1 << 18, torch.float32)
    custom.all_reduce(tensor)
    is_sum(tensor)


def registered_plan(comm: mscclpp.CommGroup) -> None:
    from mscclpp.dsl import presets

    names = common() | {"mscclpp_comm": mscclpp.comm, "dtype_to_mscclpp_dtype": mscclpp_utils.torch_dtype_to_mscclpp_dtype}
    names = run("000", 4, names)
    names |= {"allreduce_nvls": presets.allreduce_nvls, "world_size": SIZE, "rank": RANK, "Dict": dict}
    address, port = os.environ["MSCCLPP_MASTER_ADDR"], int(os.environ["MSCCLPP_MASTER_PORT"]) + 1
    names["ifIpPortTrio"] = f"lo:{address}:{port}"
    names = run("000", 5, names)
    tensor = shared(1 << 19, torch.float32)
    names["comm"].all_reduce(tensor)
    is_sum(tensor)


def plan_of_nccl(comm: mscclpp.CommGroup) -> None:
    from mscclpp.dsl import presets

    names = run("000", 7, {"allreduce_nvls": presets.allreduce_nvls, "world_size": SIZE})
    tensor = numbers(1 << 19, torch.float32).cuda()
    dist.all_reduce(tensor)
    is_sum(tensor)
    assert names["x"].shape == (12 << 20,)
    counts = mscclpp_rs.call_counts()
    assert sum(number for name, number in counts.items() if name.startswith("allreduce_nvls")) == 2, counts


def tuning(comm: mscclpp.CommGroup) -> None:
    names = run("001", 5, run("001", 4, common()))
    names = run("001", 18, names)
    for number in (19, 21, 22):
        names = run("001", number, names)
    custom = types.SimpleNamespace(comm=comm, rank=RANK, world_size=SIZE, scratch_buffer=names["tune_tensor"])
    run("001", 20, names | {"self": custom})
    # As its comment says, the example has the timing.
    names["elapsed"] = float(1 + RANK)
    for name in ("_run_algo", "get_tuned_config", "all_reduce"):
        setattr(custom, name, types.MethodType(names[name], custom))
    custom.best_configs = {1024: (custom._algorithm_nvls_packet, 0, 0)}
    for count in (256, 3000):
        tensor = shared(count, torch.float32)
        custom.all_reduce(tensor)
        is_sum(tensor)
    benchmark(custom, names)


def benchmark(custom: types.SimpleNamespace, names: dict[str, Any]) -> None:
    """001:23, whose comment leaves out the graph's replay."""
    reduced: list[torch.Tensor] = []

    def all_reduce(tensor: torch.Tensor, **options: Any) -> None:
        reduced.append(tensor)
        names["all_reduce"](custom, tensor, **options)

    measured = types.SimpleNamespace(all_reduce=all_reduce)
    for size in (1 << 10, 1 << 14):
        graph = torch.cuda.CUDAGraph()
        frame = names | {"sizes": [size], "g": graph, "capture_stream": torch.cuda.Stream()}
        run("001", 23, frame)["benchmark"](measured, n_iter_per_graph=3)
        captured = reduced[-1]
        assert len(reduced) == 3 and captured.nbytes == size, (len(reduced), captured.shape)
        for _ in range(2):
            captured.copy_(torch.ones_like(captured).cpu())
            graph.replay()
            torch.cuda.synchronize()
            # Each of the three multiplies by the number of ranks.
            assert torch.equal(captured.cpu().unique(), torch.tensor([SIZE**3], dtype=captured.dtype)), captured
        reduced.clear()


def arguments_of_calls(comm: mscclpp.CommGroup) -> None:
    names = run("001", 17, run("001", 16, common() | {"tensor": shared(1000, torch.float32)}))
    tensor, output = names["tensor"], shared(1000, torch.float32)
    algorithms = run("001", 4, common())["load_algorithms"](tensor, RANK)
    names |= {"algorithm": next(one for one in algorithms if one.name == "default_allreduce_packet")}
    names |= {"comm": comm.communicator, "input_buffer": tensor.data_ptr(), "output_buffer": output.data_ptr()}
    names |= {"input_size": tensor.nbytes, "output_size": output.nbytes, "dtype": names["mscclpp_dtype"]}
    run("001", 15, names)
    is_sum(output)


def native_algorithm(comm: mscclpp.CommGroup) -> None:
    """The source of 001:11, compiled by 001:12 and 001:13 as they stand."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        source = Path(folder) / "customized_allgather.cu"
        source.write_text(framed(DOCUMENTS["001"][10].text), encoding="utf-8")
        names = run("001", 12, {"__file__": str(source)})
        assert names["algorithm"].name == "allgather", names["algorithm"]
        custom = run("001", 13, common())["CustomizedComm"](comm)
    for count in (100, 1 << 10):
        gathered = shared(count * SIZE, torch.float32)
        own = gathered[RANK * count : (RANK + 1) * count]
        own.copy_(torch.arange(count) + 1000 * RANK)
        custom.all_gather(own, gathered, stream=torch.cuda.current_stream())
        torch.cuda.synchronize()
        expected = torch.cat([torch.arange(count) + 1000 * rank for rank in range(SIZE)])
        assert torch.equal(gathered.cpu().to(torch.int64).flatten(), expected), gathered
        comm.barrier()


# The names of the tests, and whether their blocks are for a node of eight ranks.
TESTS: list[tuple[Callable[[mscclpp.CommGroup], None], bool]] = [
    (default_algorithms, False),
    (program_of_a_specification, False),
    (arguments_of_calls, False),
    (tuning, False),
    (native_algorithm, False),
    (registered_plan, True),
    (plan_of_nccl, True),
]

if __name__ == "__main__":
    os.environ.setdefault("LOCAL_RANK", str(RANK))
    comm = join()
    chosen = [test for test, is_of_eight in TESTS if is_of_eight == (SIZE == 8)]
    for test in chosen:
        test(comm)
    comm.barrier()
    print(f"ok rank {RANK}: {', '.join(test.__name__ for test in chosen)}", flush=True)
