"""Runs the PyTorch examples of a checkout of microsoft/mscclpp as they stand: a job of two or eight ranks on devices, or simulated ones.

`MSCCLPP_EXAMPLES` names the checkout, from the folder of this repository on. The examples do not look at what their calls return, which is
done here.
"""

from __future__ import annotations

import gc
import os
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import mscclpp
import mscclpp_rs
import torch.distributed
from torch.distributed import TCPStore

NAMES = ("customized_comm_with_default_algo", "customized_comm_with_dsl", "customized_allgather")
# It calls PyTorch's backend, and its plan is for eight ranks.
OF_8_RANKS = "dsl_with_nccl_api"


def netifaces() -> types.ModuleType:
    """Returns a module with what the examples call of netifaces: all addresses are those of the loopback interface."""
    module: Any = types.ModuleType("netifaces")
    module.AF_INET = 2
    module.interfaces = lambda: ["lo"]
    module.ifaddresses = lambda interface: {2: [{"addr": "127.0.0.1"}]}
    return module


def main() -> None:
    sys.modules.setdefault("netifaces", netifaces())
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    folder = Path(__file__).parents[3] / os.environ["MSCCLPP_EXAMPLES"] / "examples/torch-integration"
    if size == 8:
        counts: dict[str, int] = {}
        destroy = torch.distributed.destroy_process_group

        def counted(*arguments: Any) -> None:
            counts.update(mscclpp_rs.call_counts())
            destroy(*arguments)

        torch.distributed.destroy_process_group = counted
        runpy.run_path(str(folder / f"{OF_8_RANKS}.py"), run_name="__main__")
        assert sum(number for name, number in counts.items() if name.startswith("allreduce_nvls")) == 1, counts
        print(f"ok rank {rank}: {OF_8_RANKS}", flush=True)
        return
    # The example of 8 ranks has a store of its own at this address.
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)
    execute, results = mscclpp.Algorithm.execute, []

    def observed(*arguments: Any, **options: Any) -> int:
        results.append(execute(*arguments, **options))
        return results[-1]

    mscclpp.Algorithm.execute = observed  # type: ignore[method-assign]
    for name in NAMES:
        results.clear()
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
        assert results and not any(results), f"{name}: expected calls that return 0, found {results}"
        # The next one joins at the same address, when all ranks have left.
        gc.collect()
        store.set(f"{name} {rank}", "left")
        store.wait([f"{name} {other}" for other in range(size)])
    print(f"ok rank {rank}: examples", flush=True)


if __name__ == "__main__":
    main()
