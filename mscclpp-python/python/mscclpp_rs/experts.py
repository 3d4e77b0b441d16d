"""Expert parallelism: tokens travel to the ranks of their experts, and the results back.

The calls have the names and the arguments of DeepEP's low-latency calls. With E experts on P ranks, expert e is on rank e // (E // P). Rows have
fixed places, so that equal calls give equal bits. Tensors are on the CPU or on a CUDA device, where calls are enqueued on the current stream,
nothing waits for it, and a captured call takes the values that are in memory at each replay.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ._errors import InvalidInputError
from ._native import Experts
from ._tensors import Buffers
from ._torch import Backend, backend_of

__all__ = ["Handle", "low_latency_combine", "low_latency_dispatch"]

# Elements of a row that share a scale.
_GROUP = 128

#: Memory of calls whose handles are gone, by group and by what the calls depend on.
_UNUSED: weakref.WeakKeyDictionary[Backend, dict[Any, list[Experts]]] = weakref.WeakKeyDictionary()


class Handle:
    """Where rows were sent in a dispatch, and where those that arrived are. It has memory of its own, which later dispatches use when the
    handle is gone; that of a captured dispatch is kept."""

    __slots__ = ("__weakref__", "_dtype", "_experts", "_has_rows", "_rows", "_tokens")

    def __init__(self, experts: Experts, tokens: torch.Size, rows: torch.Size, dtype: torch.dtype) -> None:
        self._experts, self._tokens, self._rows, self._dtype, self._has_rows = experts, tokens, rows, dtype, False


def _is_captured(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _memory(backend: Backend, like: torch.Tensor, shape: tuple[int, int, int, int], alignment: int) -> tuple[Experts, list[Experts]]:
    """Returns memory for a call, and the list to which it returns."""
    key = (like.dtype, like.device, shape, alignment)
    unused = _UNUSED.setdefault(backend, {}).setdefault(key, [])
    return (unused.pop() if unused else backend._native.new_experts(like, *shape, alignment)), unused


def low_latency_dispatch(
    x: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
    topk_idx: torch.Tensor,
    num_max_dispatch_tokens_per_rank: int,
    num_experts: int,
    group: dist.ProcessGroup | None = None,
    *,
    use_fp8: bool = False,
    expert_alignment: int | None = None,
    return_recv_hook: bool = False,
) -> Any:
    """Sends each token to the experts that it chooses; ``topk_idx`` has their numbers (int64), or -1 for none.

    Returns a tensor ``[E / P, P * num_max_dispatch_tokens_per_rank, hidden]`` with the rows of each expert of this rank; the number of rows of
    each expert; and a handle for ``low_latency_combine``. An expert has the rows of rank 0, 1, …, each in the order of its tokens. Places
    after the last one are zero on the CPU, and anything on a device. With ``expert_alignment`` the rows are ``[rows, hidden]``: the first one of each
    expert is at a multiple of it, and rows between are zero.

    With ``use_fp8`` rows are rounded to ``float8_e4m3fn`` on the way: the result is a pair of rows and scales, one for every 128 elements. With
    a, the largest magnitude of 128 elements, at least 1e-4, the scale is a / 448, and an element becomes x * (448 / a), rounded. ``x`` may be
    such a pair; then the rows of the combine are bfloat16.

    With ``return_recv_hook`` a function is returned as well, and results are written when it is called; until then rows travel beside other
    work.

    A call of all ranks of the group; a rank may have no tokens. Raises ``InvalidInputError`` for shapes that do not match; and the same on
    all ranks, on a device at the next call that waits, for more tokens than the maximum, and for choices that are no experts or that one
    token has twice.
    """
    ranks, (rows, scales) = dist.get_world_size(group), x if isinstance(x, tuple) else (x, None)
    if rows.dim() != 2 or topk_idx.dim() != 2 or rows.shape[0] != topk_idx.shape[0] or topk_idx.dtype != torch.int64:
        found = f"{list(rows.shape)} and {list(topk_idx.shape)} of {topk_idx.dtype}"
        raise InvalidInputError(f"low_latency_dispatch: expected tokens [T, hidden] and int64 choices [T, k], found {found}")
    (tokens, hidden), top_k, most = rows.shape, topk_idx.shape[1], num_max_dispatch_tokens_per_rank
    if num_experts < 1 or num_experts % ranks != 0:
        raise InvalidInputError(f"low_latency_dispatch: expected as many experts on each of {ranks} ranks, found {num_experts}")
    if min(most, hidden, top_k) < 1:
        found = f"{most}, rows of {hidden} and {top_k} choices"
        raise InvalidInputError(f"low_latency_dispatch: expected a maximum of tokens, elements and choices of at least 1, found {found}")
    is_scaled = use_fp8 or scales is not None
    if is_scaled and (hidden % _GROUP != 0 or scales is not None and scales.shape != (tokens, hidden // _GROUP)):
        found = f"rows of {hidden}" + ("" if scales is None else f" with scales {list(scales.shape)}")
        raise InvalidInputError(f"low_latency_dispatch: expected a scale for every {_GROUP} elements of whole groups, found {found}")
    if expert_alignment is not None and not 1 <= expert_alignment <= 1 << 16:
        raise InvalidInputError(f"low_latency_dispatch: expected an alignment of 1 to {1 << 16} rows, found {expert_alignment}")
    backend, each, alignment = backend_of(group), num_experts // ranks, expert_alignment or 0
    dtype = rows.dtype if scales is None else torch.bfloat16
    if expert_alignment is None:
        places = torch.Size((each, ranks * most))
    else:
        places = torch.Size((ranks * most * min(top_k, each) + each * (alignment - 1),))
    if math.prod(places) * hidden * dtype.itemsize >= 1 << 63:
        found = f"{most}, {num_experts} experts and rows of {hidden}"
        raise InvalidInputError(f"low_latency_dispatch: expected rows of less than 2^63 bytes for the maximum of tokens, found {found}")
    like = torch.empty(0, dtype=dtype, device=rows.device)
    experts, unused = _memory(backend, like, (hidden, num_experts, top_k, most), alignment)
    recv_x = torch.empty(*places, hidden, dtype=torch.float8_e4m3fn if is_scaled else dtype, device=rows.device)
    recv_scales = torch.empty(*places, hidden // _GROUP, device=rows.device) if is_scaled else None
    recv_count = torch.empty(each, dtype=torch.int64, device=rows.device)
    handle = Handle(experts, topk_idx.shape, torch.Size((*places, hidden)), dtype)
    if not _is_captured(rows.device):
        # Graphs use the memory as long as the process may replay them.
        weakref.finalize(handle, unused.append, experts).atexit = False

    buffers = Buffers()
    source, choices = buffers.input(rows), buffers.input(topk_idx)
    factors = None if scales is None else buffers.input(scales)
    backend._native.send_to_experts(experts, source, factors, choices, use_fp8 and scales is None, return_recv_hook)

    def receive() -> None:
        backend._native.receive_at_experts(experts, recv_x, recv_scales, recv_count)
        handle._has_rows = True

    result = (recv_x if recv_scales is None else (recv_x, recv_scales), recv_count, handle)
    return _finished(result, receive, return_recv_hook)


def low_latency_combine(
    x: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    handle: Handle,
    group: dist.ProcessGroup | None = None,
    *,
    out: torch.Tensor | None = None,
    return_recv_hook: bool = False,
) -> Any:
    """Sends the rows of this rank's experts, which are where ``low_latency_dispatch`` has put them, back to their tokens.

    Returns for each token the sum of ``weight * row`` in the order of its choices, each product and each sum rounded to float32, and the result
    to the type of ``x``; in ``out`` if it is given. Choices of no expert are skipped. With ``return_recv_hook`` a function is returned as well,
    which writes the result. A call of all ranks of the group. Raises ``InvalidInputError`` for shapes that are not those of the dispatch, and
    before the function of the dispatch has written its rows.
    """
    if not isinstance(handle, Handle):
        raise InvalidInputError(f"low_latency_combine: expected the handle of a dispatch, found {type(handle).__name__}")
    if not handle._has_rows:
        raise InvalidInputError("low_latency_combine: expected rows that have arrived, found none: first call the function of the dispatch")
    if topk_weights.is_complex():
        raise InvalidInputError(f"low_latency_combine: expected weights of real numbers, found {topk_weights.dtype}")
    if x.shape != handle._rows or x.dtype != handle._dtype or topk_idx.shape != handle._tokens or topk_weights.shape != handle._tokens:
        found = f"{list(x.shape)} of {x.dtype}, {list(topk_idx.shape)} and {list(topk_weights.shape)}"
        expected = f"{list(handle._rows)} rows of the dispatch of {handle._dtype}, its {list(handle._tokens)} choices and a weight for each"
        raise InvalidInputError(f"low_latency_combine: expected {expected}, found {found}")
    result = torch.empty(handle._tokens[0], x.shape[-1], dtype=x.dtype, device=x.device) if out is None else out
    if result.shape != (handle._tokens[0], x.shape[-1]) or not result.is_contiguous():
        expected = f"a contiguous result [{handle._tokens[0]}, {x.shape[-1]}]"
        raise InvalidInputError(f"low_latency_combine: expected {expected}, found {list(result.shape)}")
    backend, buffers = backend_of(group), Buffers()
    weights = buffers.input(topk_weights if topk_weights.dtype == torch.float32 else topk_weights.float())
    backend._native.send_from_experts(handle._experts, buffers.input(x), weights, return_recv_hook)

    def receive() -> None:
        # The result may require gradients, as a parameter does.
        backend._native.receive_from_experts(handle._experts, weights, result.detach())

    return _finished((result,), receive, return_recv_hook)


def _finished(result: tuple[Any, ...], receive: Callable[[], None], return_recv_hook: bool) -> Any:
    """Writes results, or returns the function that does, too."""
    if return_recv_hook:
        return (*result, receive)
    receive()
    return result if len(result) > 1 else result[0]
