"""vLLM's all-reduces by FlashInfer (`flashinfer_all_reduce.py` of its wheel) with this package in place of FlashInfer, on devices.

Usage: vllm_fusion.py FOLDER, which has that file. The rest of vLLM is not needed: what the file imports of it is replaced by what a server with one
group of ranks on one node has.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
import types
from pathlib import Path

import torch
import torch.distributed as dist

from mscclpp_rs import fusion

ROWS, HIDDEN = 5, 64


class Logger(logging.Logger):
    """A logger with the calls of vLLM's."""

    debug_once, info_once, warning_once, error_once = (
        logging.Logger.debug,
        logging.Logger.info,
        logging.Logger.warning,
        logging.Logger.error,
    )


def stand_in(name: str, **items: object) -> None:
    """Defines a module of vLLM."""
    module = types.ModuleType(name)
    module.__dict__.update(items)
    sys.modules[name] = module
    for end in (at for at, letter in enumerate(name) if letter == "."):
        outer, inner = name[:end], name[end + 1 :].split(".")[0]
        sys.modules.setdefault(outer, types.ModuleType(outer))
        setattr(sys.modules[outer], inner, sys.modules.get(f"{outer}.{inner}"))


def load(folder: str) -> types.ModuleType:
    """Imports flashinfer_all_reduce.py."""
    pass_config = types.SimpleNamespace(default_fi_allreduce_fusion_max_size_mb=lambda: {2: 1, 4: 1, 8: 1})
    platform = types.SimpleNamespace(
        is_cuda=lambda: True,
        has_device_capability=lambda _: False,
        get_device_capability=lambda: None,
    )
    stand_in("vllm.envs", VLLM_ALLREDUCE_USE_FLASHINFER=True, VLLM_FLASHINFER_ALLREDUCE_BACKEND="auto")
    stand_in("vllm.config.compilation", PassConfig=pass_config)
    stand_in("vllm.distributed.device_communicators.all_reduce_utils", FI_MNNVL_ALLREDUCE_MAX_SIZE_MB={})
    stand_in("vllm.distributed.parallel_state", _node_count=lambda _: 1)
    stand_in("vllm.logger", init_logger=Logger)
    stand_in("vllm.platforms", current_platform=platform)
    stand_in("vllm.utils.gpu_sync_debug", gpu_sync_allowed=lambda **_: contextlib.nullcontext())
    path = Path(folder) / "flashinfer_all_reduce.py"
    spec = importlib.util.spec_from_file_location("flashinfer_all_reduce", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("mscclpp")
    rank, size = dist.get_rank(), dist.get_world_size()
    fusion.install()
    vllm = load(sys.argv[1])
    assert vllm.fi_ar_available
    # The group of gloo beside the one that moves tensors.
    beside = dist.new_group(backend="gloo")
    reducer = vllm.FlashInferAllReduce(beside, device)
    assert not reducer.disabled
    dtype = torch.bfloat16
    # Small integers, so that sums are exact.
    x = (torch.arange(ROWS * HIDDEN) % 7 - 3 + rank).to(dtype).view(ROWS, HIDDEN).to(device)
    total = (size * (torch.arange(ROWS * HIDDEN) % 7 - 3).view(ROWS, HIDDEN) + size * (size - 1) // 2).double()
    assert reducer.should_use_fi_ar(x) and not reducer.should_use_fi_ar(x[:, ::2])
    assert torch.equal(reducer.all_reduce(x).cpu().double(), total)

    # The call of the pass that fuses norms, with the workspace for quantized rows.
    workspace = vllm.get_fi_ar_quant_workspace(size, rank, ROWS, HIDDEN, dtype, beside)
    patterns, gamma = vllm.flashinfer_comm.AllReduceFusionPattern, torch.ones(HIDDEN, dtype=dtype)
    residual = (torch.arange(ROWS * HIDDEN) % 5).to(dtype).view(ROWS, HIDDEN)
    own, before = x.clone(), residual.to(device)
    rows = torch.zeros(ROWS, HIDDEN).to(torch.float8_e4m3fn).to(device)
    vllm.flashinfer_comm.allreduce_fusion(
        input=own,
        workspace=workspace,
        pattern=patterns.kARResidualRMSNormFP8Quant,
        launch_with_pdl=True,
        output=None,
        residual_out=before,
        norm_out=own,
        quant_out=rows,
        scale_out=None,
        residual_in=before,
        rms_gamma=gamma.to(device),
        rms_eps=1e-6,
        scale_factor=torch.tensor([0.5]).to(device),
        layout_code=vllm.flashinfer_comm.QuantizationSFLayout.SWIZZLED_128x4,
        use_oneshot=True,
        fp32_acc=True,
        weight_bias=0.0,
        trigger_completion_at_end=True,
    )
    sums = total + residual.double()
    norms = sums / torch.sqrt(sums.square().mean(1, keepdim=True) + 1e-6)
    assert torch.equal(before.cpu().double(), sums), before
    torch.testing.assert_close(own.cpu(), norms.to(dtype))
    torch.testing.assert_close(rows.cpu().float() * 0.5, norms.float(), rtol=2**-4, atol=2**-9)
    reducer.destroy()
    dist.barrier()
    dist.destroy_process_group()
    print(f"ok rank {rank}", flush=True)


if __name__ == "__main__":
    main()
