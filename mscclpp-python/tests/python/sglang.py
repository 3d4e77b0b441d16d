"""SGLang's communicator over mscclpp (`pymscclpp.py` of its wheel), on this package and four devices.

Usage: sglang.py FOLDER, which has pymscclpp.py. Needs msgspec. The rest of SGLang is not needed: four of its functions are
replaced by those of a server that neither compiles nor captures. Only one size of messages is tuned, with few repetitions:
the tuning of a server takes hours on simulated devices.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types

import torch
import torch.distributed as dist


def stand_in(name: str, **functions: object) -> None:
    """Defines a module of SGLang."""
    module = types.ModuleType(name)
    module.__dict__.update(functions)
    sys.modules[name] = module
    for end in (at for at, letter in enumerate(name) if letter == "."):
        sys.modules.setdefault(name[:end], types.ModuleType(name[:end]))


def load(folder: str) -> types.ModuleType:
    """Imports pymscclpp.py."""

    def get_exec() -> object:
        raise ValueError("no server runs")

    compilation = {"get_pcg_capture_stream": lambda: None, "is_in_torch_compile_warmup": lambda: False}
    stand_in("sglang.srt.compilation.compile_phase", **compilation)
    graphs = "sglang.srt.model_executor.runner_backend_utils.tc_piecewise_cuda_graph"
    stand_in(graphs, is_in_tc_piecewise_cuda_graph=lambda: False)
    stand_in("sglang.srt.runtime_context", get_exec=get_exec)
    spec = importlib.util.spec_from_file_location("pymscclpp", os.path.join(folder, "pymscclpp.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # msgspec looks the module up.
    sys.modules["pymscclpp"] = module
    spec.loader.exec_module(module)
    return module


def expected(size: int, elements: int) -> torch.Tensor:
    return size * (torch.arange(elements) % 5) + size * (size + 1) // 2


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    sglang = load(sys.argv[1])
    sglang._TUNING_MESSAGE_SIZES = (1024,)
    sglang._DEFAULT_THREADS_PER_BLOCK = (256,)
    sglang._DEFAULT_THREAD_BLOCK_GROUP_SIZES = (1, 2)
    sglang.PyMscclppCommunicator._tune.__defaults__ = (1, 1, 2)
    torch.cuda.set_device(rank)
    dist.init_process_group("gloo")
    comm = sglang.PyMscclppCommunicator(group=dist.group.WORLD, device=rank)
    assert comm.available and comm.disabled, (comm.available, comm.disabled)
    nodes = size // comm.nranks_per_ipc_domain
    found = {collective: sorted(configs) for collective, configs in comm._best_configs.items()}
    assert found["allreduce"] == [1024], found
    assert found["allgather"] == ([1024] if nodes > 1 else []), found
    with comm.change_state(enable=True):
        # The algorithms for several nodes serve 1 KiB or more.
        shorter = [(100, torch.float16)] if nodes == 1 else []
        for elements, dtype in [(512, torch.bfloat16), (256, torch.float32), *shorter]:
            tensor = (torch.arange(elements) % 5 + rank + 1).to(dtype).cuda()
            assert comm.should_mscclpp_allreduce(tensor)
            comm.all_reduce(tensor)
            torch.cuda.synchronize()
            assert torch.equal(tensor.cpu().long(), expected(size, elements)), tensor
        assert not comm.should_mscclpp_allreduce(torch.zeros(1 << 20, device="cuda"))
        assert not comm.should_mscclpp_allreduce(torch.zeros(64, device="cuda"), op=dist.ReduceOp.MAX)
        output = torch.zeros(256 * size // 4, dtype=torch.float32, device="cuda")
        given = torch.full((output.numel() // size,), float(rank), device="cuda")
        if comm.should_mscclpp_allgather(output, given):
            comm.all_gather(output, given)
            torch.cuda.synchronize()
            assert output.cpu().reshape(size, -1).mean(dim=1).tolist() == [float(peer) for peer in range(size)], output
            print(f"ok rank {rank}: all-gather", flush=True)
        else:
            assert nodes == 1
    best = comm._best_configs["allreduce"][1024]
    comm.destroy()
    dist.barrier()
    print(f"ok rank {rank}: {size} ranks on {nodes} nodes, tuned to {best.name}", flush=True)


if __name__ == "__main__":
    main()
