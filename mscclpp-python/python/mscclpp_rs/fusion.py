"""Collectives whose rows are normalized in the same launch: all-reduces with the names and arguments of FlashInfer's calls, and an all-gather.

The arithmetic is that of the documentation ("Fused epilogues"): a row has the same bits on every rank, on the CPU and on devices, and in every
call, whatever the number of rows. FlashInfer's results, which use an approximate square root, differ from it in the last places. ``use_oneshot`` and what else chooses a
kernel there is accepted and changes nothing. Calls on tensors of a device are on its current stream, and can be captured.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ._errors import InvalidInputError, UnsupportedError
from ._tensors import Buffers
from ._torch import _BY_GROUP, NAME, Backend

__all__ = [
    "AllReduceFusionPattern",
    "AllReduceFusionWorkspace",
    "QuantizationSFLayout",
    "allreduce_fusion",
    "create_allreduce_fusion_workspace",
    "install",
    "rms_norm_all_gather",
]

_TYPES = (torch.float32, torch.float16, torch.bfloat16)


class AllReduceFusionPattern:
    """What follows the sum over the ranks."""

    kAllReduce = 0
    kARResidualRMSNorm = 1
    kARResidualRMSNormFP8Quant = 2
    kARResidualRMSNormFP4Quant = 3
    kARResidualRMSNormOutFP8Quant = 4
    kARResidualRMSNormOutFP4Quant = 5
    kMoEReductionARResidualRMSNorm = 6
    kMoEFinalizeARResidualRMSNorm = 7
    kARResidualRMSNormPerTokenGroupFP8PackedQuant = 8
    kARResidualRMSNormOutPerTokenGroupFP8PackedQuant = 9
    kARResidualRMSNormDynamicFP8Quant = 10
    kARResidualRMSNormOutDynamicFP8Quant = 11


class QuantizationSFLayout:
    """Layouts of the scales of NVFP4, which no supported pattern has."""

    SWIZZLED_128x4 = 0
    SWIZZLED_8x4 = 1
    LINEAR = 2


#: Patterns with one scale for all rows, and with a scale for each row.
_STATIC = (AllReduceFusionPattern.kARResidualRMSNormFP8Quant, AllReduceFusionPattern.kARResidualRMSNormOutFP8Quant)
_BY_ROW = (AllReduceFusionPattern.kARResidualRMSNormDynamicFP8Quant, AllReduceFusionPattern.kARResidualRMSNormOutDynamicFP8Quant)
#: What to use in place of the other ones.
_INSTEAD = {
    3: "NVFP4 is not supported; use kARResidualRMSNorm and quantize norm_out, or kARResidualRMSNormFP8Quant",
    5: "NVFP4 is not supported; use kARResidualRMSNorm and quantize norm_out, or kARResidualRMSNormOutFP8Quant",
    6: "sums of experts are not supported; add the rows of the experts, then use kARResidualRMSNorm",
    7: "sums of experts are not supported; add the rows of the experts, then use kARResidualRMSNorm",
    8: "scales of groups are not supported; use kARResidualRMSNormDynamicFP8Quant, which has a scale for each row",
    9: "scales of groups are not supported; use kARResidualRMSNormOutDynamicFP8Quant, which has a scale for each row",
}


class AllReduceFusionWorkspace:
    """The ranks of ``allreduce_fusion``, and the largest size of its input. It has no memory: that of calls is of the process group.

    Attributes:
        backend: the name that was asked for, ``"trtllm"`` for ``"auto"``. As in FlashInfer, calls of ``"mnnvl"`` always round the sum once.
        world_size, rank: the number of ranks, and this one.
        max_token_num, hidden_dim, dtype: the largest input.
        metadata: what engines read of a workspace of ``"trtllm"``: whether it is for float32.
    """

    def __init__(self, backend: str, group: Backend, name: str, max_token_num: int, hidden_dim: int, dtype: torch.dtype) -> None:
        self.backend = backend
        self.world_size = group.size()
        self.rank = group.rank()
        self.max_token_num = max_token_num
        self.hidden_dim = hidden_dim
        self.dtype = dtype
        self.metadata = {"use_fp32_lamport": dtype == torch.float32}
        self.group_name: str | None = name

    def is_buffer_size_sufficient(
        self, tp_size: int, num_tokens: int, hidden_dim: int, dtype: torch.dtype, use_oneshot: bool | None = None
    ) -> bool:
        """Returns whether ``allreduce_fusion`` accepts an input of this shape and type: only the number of bytes is limited."""
        most = self.max_token_num * self.hidden_dim * self.dtype.itemsize
        return tp_size == self.world_size and num_tokens * hidden_dim * dtype.itemsize <= most

    def destroy(self) -> None:
        """Ends the workspace; later calls change nothing."""
        self.group_name = None


def _check_row(call: str, hidden: int, dtype: torch.dtype) -> None:
    """Raises `InvalidInputError` for rows that cannot be normalized."""
    if hidden <= 0 or hidden * dtype.itemsize % 16 != 0:
        raise InvalidInputError(f"{call}: expected rows of a multiple of 16 bytes, found {hidden} elements of {dtype}; pad the rows")


def _find(group: Any) -> tuple[Backend, str]:
    """Returns the backend of a process group, and the name of the group; of a group of the same ranks if another backend serves this one,
    as engines pass the group of gloo beside that of devices."""
    if not dist.is_initialized():
        raise InvalidInputError(f'create_allreduce_fusion_workspace: expected a process group; call init_process_group("{NAME}")')
    of = dist.distributed_c10d._get_default_group() if group is None else group
    ranks = dist.get_process_group_ranks(of)
    for candidate in (of, *dist.distributed_c10d._world.pg_map):
        backend = _BY_GROUP.get(candidate.group_name)
        if backend is not None and dist.get_process_group_ranks(candidate) == ranks:
            return backend, candidate.group_name
    found = f"expected a group of the backend {NAME} with the ranks {ranks}, found one of {dist.get_backend(of)}"
    raise InvalidInputError(f'create_allreduce_fusion_workspace: {found}; create one with new_group(backend="{NAME}")')


def create_allreduce_fusion_workspace(
    backend: str = "auto",
    world_size: int | None = None,
    rank: int | None = None,
    max_token_num: int | None = None,
    hidden_dim: int | None = None,
    dtype: torch.dtype | None = None,
    gpus_per_node: int | None = None,
    comm_backend: Any = None,
    force_oneshot_support: bool = False,
    group: dist.ProcessGroup | None = None,
    use_fp32_lamport: bool = False,
) -> AllReduceFusionWorkspace:
    """Returns what ``allreduce_fusion`` needs: a process group, by default that of ``comm_backend`` or of all ranks, and the largest input.

    Waits for no other rank. ``gpus_per_node``, ``force_oneshot_support`` and ``use_fp32_lamport`` change nothing. Raises ``InvalidInputError``
    if the group has other ranks than ``world_size`` and ``rank`` say, if no group of this package has its ranks, or if rows cannot be normalized.
    """
    call = "create_allreduce_fusion_workspace"
    if backend not in ("auto", "trtllm", "mnnvl"):
        raise InvalidInputError(f"{call}: expected the backend auto, trtllm or mnnvl, found {backend!r}")
    if max_token_num is None or hidden_dim is None or dtype is None:
        raise InvalidInputError(f"{call}: expected max_token_num, hidden_dim and dtype, found {max_token_num}, {hidden_dim} and {dtype}")
    if dtype not in _TYPES:
        raise InvalidInputError(f"{call}: expected float32, float16 or bfloat16, found {dtype}")
    _check_row(call, hidden_dim, dtype)
    of_group, name = _find(getattr(comm_backend, "_group", None) if group is None else group)
    expected = (of_group.size() if world_size is None else world_size, of_group.rank() if rank is None else rank)
    if expected != (of_group.size(), of_group.rank()):
        found = f"found rank {of_group.rank()} of {of_group.size()} of group {name}; pass the group of these ranks"
        raise InvalidInputError(f"{call}: expected rank {expected[1]} of {expected[0]}, {found}")
    return AllReduceFusionWorkspace("trtllm" if backend == "auto" else backend, of_group, name, max_token_num, hidden_dim, dtype)


def _check(what: str, tensor: torch.Tensor | None, shape: tuple[int, ...], dtype: torch.dtype, call: str = "allreduce_fusion") -> None:
    """Raises `InvalidInputError` for another shape or type than expected."""
    if tensor is None:
        return
    if tensor.dtype != dtype:
        raise InvalidInputError(f"{call}: expected {what} of {dtype}, found {tensor.dtype}; pass {what}.to({dtype})")
    if tuple(tensor.shape) != shape:
        raise InvalidInputError(f"{call}: expected {what} of shape {list(shape)}, found {list(tensor.shape)}")


def _check_call(call: str, workspace: AllReduceFusionWorkspace, input: torch.Tensor, parts: int) -> None:
    """Raises `InvalidInputError` for another workspace, or an input of other rows, of which there are as many in each of some parts."""
    if not isinstance(workspace, AllReduceFusionWorkspace) or workspace.group_name is None:
        found = "one that was destroyed" if isinstance(workspace, AllReduceFusionWorkspace) else type(workspace).__name__
        raise InvalidInputError(f"{call}: expected a workspace of create_allreduce_fusion_workspace of mscclpp_rs.fusion, found {found}")
    if input.dim() != 2 or input.dtype not in _TYPES:
        found = f"found {input.dtype} {list(input.shape)}"
        raise InvalidInputError(f"{call}: expected an input [tokens, hidden] of float32, float16 or bfloat16, {found}")
    tokens, hidden = input.shape
    _check_row(call, hidden, input.dtype)
    if not workspace.is_buffer_size_sufficient(workspace.world_size, tokens * parts, hidden, input.dtype):
        most = f"{workspace.max_token_num} rows of {workspace.hidden_dim} of {workspace.dtype}"
        found = f"{tokens * parts} of {hidden} of {input.dtype}"
        raise InvalidInputError(f"{call}: expected at most {most}, found {found}; create a larger workspace")


def allreduce_fusion(
    input: torch.Tensor,
    workspace: AllReduceFusionWorkspace,
    pattern: int,
    launch_with_pdl: bool = False,
    trigger_completion_at_end: bool = True,
    output: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    norm_out: torch.Tensor | None = None,
    quant_out: torch.Tensor | None = None,
    scale_out: torch.Tensor | None = None,
    residual_in: torch.Tensor | None = None,
    rms_gamma: torch.Tensor | None = None,
    rms_eps: float = 1e-6,
    scale_factor: torch.Tensor | float | None = None,
    layout_code: int | None = None,
    use_oneshot: bool | None = None,
    fp32_acc: bool = False,
    moe_reduction_device_num_experts: int | None = None,
    moe_reduction_scale_input: torch.Tensor | None = None,
    moe_reduction_active_experts_token_input: torch.Tensor | None = None,
    moe_reduction_token_input: torch.Tensor | None = None,
    expanded_idx_to_permuted_idx: torch.Tensor | None = None,
    expert_scale_factor: torch.Tensor | None = None,
    shared_expert_output: torch.Tensor | None = None,
    block_quant_group_size: int | None = None,
    weight_bias: float = 0.0,
    *,
    moe_finalize_backend: str = "trtllm",
) -> torch.Tensor:
    """Adds the inputs ``[tokens, hidden]`` of all ranks in their order, and does with each row what the pattern says.

    ``kAllReduce`` stops there. The others add ``residual_in``, store the sums in ``residual_out``, and normalize them with the factors
    ``weight_bias + rms_gamma``; those with ``FP8Quant`` also quantize the rows, divided by ``scale_factor``, and those with ``DynamicFP8Quant``
    by a scale for each row, which is stored in ``scale_out``. Returns ``output`` of ``kAllReduce``, ``quant_out`` where rows are quantized,
    otherwise ``norm_out``; results that are returned are allocated where no tensor is passed. Unlike in FlashInfer, ``residual_in`` and
    ``rms_gamma`` may be missing. With ``fp32_acc``, or a workspace of ``"mnnvl"``, the sum over the ranks is rounded once, otherwise after every
    addition.

    Any output may be the input, and ``residual_out`` may be ``residual_in``; the others have memory of their own. Arguments that choose a kernel
    or state a layout of NVFP4 change nothing. ``torch.compile`` traces the call as the operation ``mscclpp::allreduce_fusion``. A call of
    all ranks of the group. Raises ``UnsupportedError`` for other patterns, and ``InvalidInputError`` for shapes
    and types that do not match, and inputs larger than those of the workspace.
    """
    call = "allreduce_fusion"
    if pattern in _INSTEAD:
        raise UnsupportedError(f"{call}: pattern {pattern}: {_INSTEAD[pattern]}")
    if not 0 <= pattern <= 11:
        raise InvalidInputError(f"{call}: expected a pattern of AllReduceFusionPattern, found {pattern}")
    _check_call(call, workspace, input, 1)
    tokens, hidden = input.shape
    has_norm = pattern != AllReduceFusionPattern.kAllReduce
    is_quantized = pattern in _STATIC or pattern in _BY_ROW
    if pattern in _STATIC and scale_factor is None:
        raise InvalidInputError(f"{call}: expected scale_factor, a number or a tensor of one element, found None")
    result = norm_out if has_norm else output
    if result is None:
        result = torch.empty_like(input, memory_format=torch.contiguous_format)
    if is_quantized and quant_out is None:
        quant_out = torch.empty(input.shape, dtype=torch.float8_e4m3fn, device=input.device)
    if pattern in _BY_ROW and scale_out is None:
        scale_out = torch.empty(tokens, 1, dtype=torch.float32, device=input.device)
    shape = (tokens, hidden)
    _check("norm_out" if has_norm else "output", result, shape, input.dtype)
    if has_norm:
        for what, tensor in (("residual_in", residual_in), ("residual_out", residual_out)):
            _check(what, tensor, shape, input.dtype)
        _check("rms_gamma", rms_gamma, (hidden,), input.dtype)
    if is_quantized:
        _check("quant_out", quant_out, shape, torch.float8_e4m3fn)
    if pattern in _BY_ROW:
        _check("scale_out", scale_out, (tokens, 1), torch.float32)
    of_tensor = isinstance(scale_factor, torch.Tensor)
    torch.ops.mscclpp.allreduce_fusion(
        input,
        residual_in if has_norm else None,
        rms_gamma if has_norm else None,
        scale_factor if of_tensor and pattern in _STATIC else None,
        1.0 if of_tensor or pattern not in _STATIC else scale_factor,
        rms_eps if has_norm else None,
        weight_bias,
        fp32_acc or workspace.backend == "mnnvl",
        workspace.group_name,
        result,
        residual_out if has_norm else None,
        quant_out if is_quantized else None,
        scale_out if pattern in _BY_ROW else None,
    )
    return quant_out if is_quantized and quant_out is not None else result


def _run(
    input: torch.Tensor,
    residual: torch.Tensor | None,
    gamma: torch.Tensor | None,
    scale_factor: torch.Tensor | None,
    scale: float,
    eps: float | None,
    bias: float,
    adds_in_f32: bool,
    group_name: str,
    output: torch.Tensor,
    residual_out: torch.Tensor | None,
    quantized: torch.Tensor | None,
    scales: torch.Tensor | None,
    gathers: bool = False,
) -> None:
    """Makes the call of ``mscclpp::allreduce_fusion``, or with ``gathers`` that of ``mscclpp::rms_norm_all_gather``."""
    call = "rms_norm_all_gather" if gathers else "allreduce_fusion"
    backend = _BY_GROUP.get(group_name)
    if backend is None:
        raise InvalidInputError(f"{call}: expected a process group, found group {group_name}, which was destroyed")
    if scale_factor is not None:
        if scale_factor.numel() != 1:
            raise InvalidInputError(f"{call}: expected scale_factor of one element, found {list(scale_factor.shape)}")
        # A launch reads a scale on its device, so that a replay of a graph has the scale of its time.
        if scale_factor.is_cuda and input.is_cuda:
            scale_factor = scale_factor.to(torch.float32)
        else:
            scale, scale_factor = float(scale_factor), None
    buffers = Buffers()
    to = buffers.output(output)
    inputs = [None if tensor is None else buffers.input(tensor) for tensor in (residual, gamma, scale_factor)]
    outputs = [None if tensor is None else buffers.output(tensor) for tensor in (residual_out, quantized, scales)]
    (residual, gamma, device_scale), (residual_out, quantized, scales) = inputs, outputs
    operands = (residual, residual_out, gamma, quantized, scales, device_scale, scale)
    backend._native.rms_norm(to, buffers.input(input), *operands, input.shape[1], eps, bias, adds_in_f32, gathers)
    buffers.write_back()


def rms_norm_all_gather(
    input: torch.Tensor,
    workspace: AllReduceFusionWorkspace,
    residual_in: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    rms_gamma: torch.Tensor | None = None,
    rms_eps: float = 1e-6,
    weight_bias: float = 0.0,
    norm_out: torch.Tensor | None = None,
    quant_out: torch.Tensor | None = None,
    scale_factor: torch.Tensor | float | None = None,
    scale_out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds ``residual_in`` to this rank's rows, ``input`` ``[tokens, hidden]``, normalizes them, and returns the normalized rows of all ranks in
    their order, ``[world_size * tokens, hidden]``: what follows a reduce-scatter in sequence parallelism.

    A row has the bits that ``allreduce_fusion`` gives it. Other operands have the rows of this rank: the sums are stored in ``residual_out``; with
    ``quant_out``, the normalized rows are also quantized, divided by ``scale_factor``, or by a scale for each row, which is stored in
    ``scale_out``. To gather quantized rows, pass them and their scales to ``all_gather_into_tensor``. FlashInfer has no such call. ``torch.compile``
    traces the call as the operation ``mscclpp::rms_norm_all_gather``. A call of all ranks of the group. Raises ``InvalidInputError`` for
    shapes and types that do not match, and outputs larger than the inputs of the workspace.
    """
    call = "rms_norm_all_gather"
    _check_call(call, workspace, input, getattr(workspace, "world_size", 1))
    tokens, hidden = input.shape
    rows = tokens * workspace.world_size
    if norm_out is None:
        norm_out = input.new_empty(rows, hidden)
    if quant_out is not None and (scale_factor is None) == (scale_out is None):
        found = "neither" if scale_out is None else "both"
        raise InvalidInputError(f"{call}: expected scale_factor or scale_out with quant_out, found {found}")
    if quant_out is None and not (scale_factor is None and scale_out is None):
        raise InvalidInputError(f"{call}: expected quant_out with a scale, found None")
    _check("norm_out", norm_out, (rows, hidden), input.dtype, call)
    for what, tensor in (("residual_in", residual_in), ("residual_out", residual_out)):
        _check(what, tensor, (tokens, hidden), input.dtype, call)
    _check("rms_gamma", rms_gamma, (hidden,), input.dtype, call)
    _check("quant_out", quant_out, (tokens, hidden), torch.float8_e4m3fn, call)
    _check("scale_out", scale_out, (tokens, 1), torch.float32, call)
    factor = scale_factor if isinstance(scale_factor, torch.Tensor) else None
    scale = 1.0 if factor is not None or scale_factor is None else float(scale_factor)
    operands = (input, residual_in, rms_gamma, factor, scale, rms_eps, weight_bias)
    torch.ops.mscclpp.rms_norm_all_gather(*operands, workspace.group_name, norm_out, residual_out, quant_out, scale_out)
    return norm_out


def _run_gather(
    input: torch.Tensor,
    residual: torch.Tensor | None,
    gamma: torch.Tensor | None,
    scale_factor: torch.Tensor | None,
    scale: float,
    eps: float,
    bias: float,
    group_name: str,
    output: torch.Tensor,
    residual_out: torch.Tensor | None,
    quantized: torch.Tensor | None,
    scales: torch.Tensor | None,
) -> None:
    """Makes the call of ``mscclpp::rms_norm_all_gather``."""
    operands = (input, residual, gamma, scale_factor, scale, eps, bias, False, group_name)
    _run(*operands, output, residual_out, quantized, scales, gathers=True)


def install() -> None:
    """Makes ``flashinfer.comm`` have the functions and classes of this module, for engines that call them by that name.

    Call it before the engine is imported, in every process. If FlashInfer is installed, its other functions stay as they are; otherwise
    there are modules ``flashinfer``, ``flashinfer.comm``, ``flashinfer.comm.mnnvl`` and ``flashinfer.jit`` with what vLLM and SGLang use for fused
    all-reduces, and nothing else: switch off what else an engine takes from FlashInfer.
    """
    from . import _flashinfer

    _flashinfer.install({name: globals()[name] for name in __all__ if name not in ("install", "rms_norm_all_gather")})


#: The operation, for as long as this object exists.
_LIBRARY: Any = torch.library.Library("mscclpp", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(
    "allreduce_fusion(Tensor input, Tensor? residual_in, Tensor? rms_gamma, Tensor? scale_factor, float scale, float? rms_eps, "
    "float weight_bias, bool fp32_acc, str group_name, Tensor(a!) norm_out, Tensor(b!)? residual_out, Tensor(c!)? quant_out, "
    "Tensor(d!)? scale_out) -> ()"
)
_LIBRARY.define(
    "rms_norm_all_gather(Tensor input, Tensor? residual_in, Tensor? rms_gamma, Tensor? scale_factor, float scale, float rms_eps, "
    "float weight_bias, str group_name, Tensor(a!) norm_out, Tensor(b!)? residual_out, Tensor(c!)? quant_out, "
    "Tensor(d!)? scale_out) -> ()"
)
for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("allreduce_fusion", _run, _key)
    _LIBRARY.impl("rms_norm_all_gather", _run_gather, _key)


# Of tensors without memory it writes nothing: the shapes of its outputs are those of the tensors.
for _name in ("allreduce_fusion", "rms_norm_all_gather"):
    torch.library.register_fake(f"mscclpp::{_name}", lambda *arguments: None, lib=_LIBRARY)
