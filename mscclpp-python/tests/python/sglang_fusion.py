"""SGLang's fused all-reduces (`flashinfer_comm_fusion.py` of its wheel) with this package in place of FlashInfer, on devices if there are any.

Usage: sglang_fusion.py FOLDER, SGLang's `device_communicators` beside that file. The rest of SGLang is not needed: what the file imports of it is replaced by what a server
with one group of ranks on one node has. So is the probe of device memory.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from pathlib import Path

import torch
import torch.distributed as dist

from mscclpp_rs import fusion

ROWS, HIDDEN = 5, 64


def stand_in(name: str, **items: object) -> None:
    """Defines a module of SGLang."""
    module = types.ModuleType(name)
    module.__dict__.update(items)
    sys.modules[name] = module
    for end in (at for at, letter in enumerate(name) if letter == "."):
        sys.modules.setdefault(name[:end], types.ModuleType(name[:end]))


def load(folder: str, group: types.SimpleNamespace, is_sm100: bool) -> types.ModuleType:
    """Imports flashinfer_comm_fusion.py, on a machine with devices of a kind."""
    parallel = types.SimpleNamespace(
        nnodes=1, tp_group=group, attn_tp_size=group.world_size, attn_tp_rank=group.rank_in_group, attn_tp_group=group
    )
    comm = types.SimpleNamespace(flashinfer_allreduce_fusion_backend="auto")
    resources = types.SimpleNamespace(buffers={})
    stand_in("sglang.srt.distributed.device_communicators.custom_all_reduce_utils", is_one_nvlink_clique=lambda **_: True)
    stand_in("sglang.srt.distributed.parallel_state", in_the_same_node_as=lambda of, source_rank: [True] * dist.get_world_size(of))
    stand_in(
        "sglang.srt.runtime_context",
        get_exec=lambda: types.SimpleNamespace(comm=comm),
        get_parallel=lambda: parallel,
        get_platform=lambda: types.SimpleNamespace(is_sm90=not is_sm100, is_sm100=is_sm100),
        get_resources=lambda: resources,
    )
    stand_in("sglang.srt.utils", ceil_align=None, get_cuda_driver_bindings=None, is_flashinfer_available=lambda: True)
    stand_in("sglang.srt.utils.custom_op", register_custom_op=lambda **_: lambda function: function)
    moe = {"can_merge_post_experts_all_reduce": lambda: False, "post_experts_reduction_group": lambda: group}
    stand_in("sglang.srt.layers.moe.utils", **moe)
    path = Path(folder).parents[1] / "layers/flashinfer_comm_fusion.py"
    spec = importlib.util.spec_from_file_location("flashinfer_comm_fusion", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module._preflight_check_workspace_memory = lambda **_: True
    return module


def main() -> None:
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("mscclpp")
    rank, size = dist.get_rank(), dist.get_world_size()
    fusion.install()
    group = types.SimpleNamespace(
        device_group=dist.distributed_c10d._get_default_group(),
        cpu_group=dist.new_group(backend="gloo"),
        world_size=size,
        rank_in_group=rank,
    )
    for is_sm100 in (False, True):
        for dtype in (torch.bfloat16, torch.float32):
            sglang = load(sys.argv[1], group, is_sm100)
            sglang.pre_initialize_workspaces(max_token_num=ROWS, hidden_dim=HIDDEN, dtype=dtype)
            assert not sglang.is_flashinfer_allreduce_unavailable()
            # Small integers, so that sums are exact.
            x = (torch.arange(ROWS * HIDDEN) % 7 - 3 + rank).to(dtype).view(ROWS, HIDDEN).to(device)
            residual = (torch.arange(ROWS * HIDDEN) % 5).to(dtype).view(ROWS, HIDDEN)
            weight = (1 + torch.arange(HIDDEN) % 4 / 4).to(dtype)
            total = size * (torch.arange(ROWS * HIDDEN) % 7 - 3).view(ROWS, HIDDEN) + size * (size - 1) // 2
            normed, sums = sglang.flashinfer_allreduce_residual_rmsnorm(
                x, residual.to(device), weight.to(device), max_token_num=ROWS
            )
            expected = total.double() + residual.double()
            assert torch.equal(sums.cpu().double(), expected), sums
            norms = expected / torch.sqrt(expected.square().mean(1, keepdim=True) + 1e-6) * weight.double()
            torch.testing.assert_close(normed.cpu(), norms.to(dtype))
            can_use = sglang.can_use_flashinfer_allreduce(
                x, use_attn_tp_group=True, expected_world_size=size, expected_group_key=(group.device_group, group.cpu_group)
            )
            assert can_use
            assert torch.equal(sglang.flashinfer_allreduce(x, use_attn_tp_group=True).cpu().double(), total.double())
            sglang.cleanup_flashinfer_workspace()
    dist.barrier()
    dist.destroy_process_group()
    print(f"ok rank {rank}", flush=True)


if __name__ == "__main__":
    main()
