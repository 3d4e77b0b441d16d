"""Expert parallelism: tokens travel to the ranks of their experts, and the results back.

The calls have the names and the first arguments of DeepEP's low-latency calls. With E experts on P ranks, expert e is on rank e // (E // P).
Rows have fixed places, so that equal calls give equal bits. Nothing in them reads a value of a device, so that choices on a device are not
checked. They were run on the CPU only: simulated devices lack PyTorch's kernels, which compute the places of rows.
"""

from typing import NamedTuple

import torch
import torch.distributed as dist

from ._errors import InvalidInputError
from ._torch import backend_of

__all__ = ["Handle", "low_latency_combine", "low_latency_dispatch"]


class Handle(NamedTuple):
    """Where rows were sent in a dispatch, and where those that arrived are."""

    order: torch.Tensor
    places: torch.Tensor
    sent: torch.Tensor
    received: torch.Tensor
    max_rows: int
    num_rows: int


def _check_choices(topk_idx: torch.Tensor, num_experts: int) -> None:
    """Raises `InvalidInputError` for numbers of no experts, and for a token that chooses an expert twice; not for tensors on devices."""
    if topk_idx.device.type != "cpu" or topk_idx.numel() == 0:
        return
    wrong = (topk_idx < -1) | (topk_idx >= num_experts)
    if wrong.any():
        token, choice = wrong.nonzero()[0].tolist()
        found = f"found {int(topk_idx[token, choice])} for token {token}"
        raise InvalidInputError(f"low_latency_dispatch: expected choices of 0 to {num_experts - 1}, or -1 for none, {found}")
    chosen = topk_idx.sort(dim=1).values
    repeated = (chosen[:, 1:] == chosen[:, :-1]) & (chosen[:, 1:] >= 0)
    if repeated.any():
        token, choice = repeated.nonzero()[0].tolist()
        found = f"found {int(chosen[token, choice])} twice for token {token}"
        raise InvalidInputError(f"low_latency_dispatch: expected different experts for each token, {found}")


def low_latency_dispatch(
    x: torch.Tensor,
    topk_idx: torch.Tensor,
    num_max_dispatch_tokens_per_rank: int,
    num_experts: int,
    group: "dist.ProcessGroup | None" = None,
) -> tuple[torch.Tensor, torch.Tensor, Handle]:
    """Sends each token to the experts that it chooses; ``topk_idx`` has their numbers (int64), or -1 for none.

    Returns a tensor ``[E / P, P * num_max_dispatch_tokens_per_rank, hidden]`` with the rows of each expert of this rank, zeros after the last
    one; the number of rows of each expert; and a handle for ``low_latency_combine``. An expert has the rows of rank 0, 1, …, each in the order
    of its tokens. A call of all ranks of the group; a rank may have no tokens. Raises ``InvalidInputError`` for tokens that are more than the
    maximum, which is the same on all ranks, for shapes that do not match, and, on the CPU, for choices that are no experts, or one twice.
    """
    ranks = dist.get_world_size(group)
    if x.dim() != 2 or topk_idx.dim() != 2 or x.shape[0] != topk_idx.shape[0] or topk_idx.dtype != torch.int64:
        found = f"{list(x.shape)} and {list(topk_idx.shape)} of {topk_idx.dtype}"
        raise InvalidInputError(f"low_latency_dispatch: expected tokens [T, hidden] and int64 choices [T, k], found {found}")
    if x.shape[0] > num_max_dispatch_tokens_per_rank:
        most = num_max_dispatch_tokens_per_rank
        raise InvalidInputError(f"low_latency_dispatch: expected at most {most} tokens, found {x.shape[0]}")
    if num_experts < 1 or num_experts % ranks != 0:
        raise InvalidInputError(f"low_latency_dispatch: expected as many experts on each of {ranks} ranks, found {num_experts}")
    _check_choices(topk_idx, num_experts)
    top_k, hidden, each = topk_idx.shape[1], x.shape[1], num_experts // ranks
    max_rows = num_max_dispatch_tokens_per_rank * min(max(top_k, 1), each)

    # By expert, then by token; choices of none are last.
    choices = topk_idx.reshape(-1)
    choices = torch.where(choices < 0, num_experts, choices)
    order = torch.argsort(choices, stable=True)
    of_experts = choices.new_zeros(num_experts + 1).scatter_add_(0, choices, torch.ones_like(choices))[:num_experts].contiguous()
    sent = of_experts.view(ranks, each).sum(1)
    arriving, received = torch.empty_like(of_experts), torch.empty_like(sent)
    dist.all_to_all_single(arriving, of_experts, group=group)
    rows = x.detach()[order // max(top_k, 1)]
    arrived = x.new_zeros(ranks * max_rows, hidden)
    backend_of(group).all_to_all_rows(arrived, rows, received, sent, max_rows)

    # The rows of a rank for an expert are a segment of what has arrived; they follow those of the ranks before in the expert's rows.
    ends, index = arriving.cumsum(0), torch.arange(ranks * max_rows, device=x.device)
    segment = torch.searchsorted(ends, index, right=True).clamp(max=num_experts - 1)
    by_rank = arriving.view(ranks, each)
    before = (by_rank.cumsum(0) - by_rank).reshape(-1)
    room = ranks * num_max_dispatch_tokens_per_rank
    places = segment % each * room + before[segment] + index - (ends - arriving)[segment]
    places = torch.where(index < ends[-1], places, each * room)
    packed = x.new_zeros(each * room + 1, hidden)
    packed[places] = arrived
    packed[-1] = 0
    handle = Handle(order, places, sent, received, max_rows, each * room)
    return packed[:-1].view(each, room, hidden), by_rank.sum(0), handle


def low_latency_combine(
    x: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    handle: Handle,
    group: "dist.ProcessGroup | None" = None,
) -> torch.Tensor:
    """Sends the rows of this rank's experts, as ``low_latency_dispatch`` has returned them, back to their tokens.

    Returns for each token the sum of ``weight * row`` in the order of its choices, each product and each sum rounded to float32, and the result
    to the type of ``x``. Choices of no expert are skipped. A call of all ranks of the group. Raises ``InvalidInputError`` for shapes that are
    not those of the dispatch.
    """
    rows = x.detach().flatten(0, -2)
    if rows.shape[0] != handle.num_rows or topk_idx.numel() != handle.order.numel() or topk_idx.shape != topk_weights.shape:
        found = f"{list(x.shape)}, {list(topk_idx.shape)} and {list(topk_weights.shape)}"
        expected = f"{handle.num_rows} rows of the dispatch, its {handle.order.numel()} choices and a weight for each"
        raise InvalidInputError(f"low_latency_combine: expected {expected}, found {found}")
    hidden, (tokens, top_k) = rows.shape[1], topk_idx.shape
    back = rows[handle.places.clamp(max=rows.shape[0] - 1)]
    returned, counts = rows.new_zeros(tokens * top_k, hidden), torch.empty_like(handle.sent)
    backend_of(group).all_to_all_rows(returned, back, counts, handle.received, handle.max_rows)
    results = torch.empty_like(returned)
    results[handle.order] = returned
    results, total = results.view(tokens, top_k, hidden), torch.zeros(tokens, hidden, device=x.device)
    for choice in range(top_k):
        weighted = topk_weights[:, choice, None].to(torch.float32) * results[:, choice].to(torch.float32)
        total = torch.where(topk_idx[:, choice, None] >= 0, total + weighted, total)
    return total.to(x.dtype)
