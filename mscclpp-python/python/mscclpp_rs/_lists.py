"""Checks of the lists of tensors that calls get, made before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ._errors import InvalidInputError


def check_list(call: str, tensors: Sequence[object]) -> None:
    """Raises ``InvalidInputError`` for an empty list."""
    if not tensors:
        raise InvalidInputError(f"{call}: expected a list of at least one tensor, found an empty one")


def check_single(call: str, tensors: Sequence[object]) -> None:
    """Raises ``InvalidInputError`` unless there is one tensor."""
    if len(tensors) != 1:
        raise InvalidInputError(f"{call}: expected one tensor, found {len(tensors)}; pass several to a coalesced call")


def check_pairs(call: str, outputs: Sequence[object], inputs: Sequence[object]) -> None:
    """Raises ``InvalidInputError`` unless there is an output, or a list of outputs, for each input, and an input at all."""
    check_list(call, inputs)
    if len(outputs) != len(inputs):
        raise InvalidInputError(f"{call}: expected as many outputs as inputs, found {len(outputs)} and {len(inputs)}")


def by_tensor(call: str, lists: Sequence[Sequence[torch.Tensor]], size: int, count: int) -> list[list[torch.Tensor]]:
    """Returns a list for each of ``count`` tensors, from a list for each of ``size`` ranks. Raises ``InvalidInputError`` for other lengths."""
    found = [len(of_rank) for of_rank in lists]
    if found != [count] * size:
        raise InvalidInputError(f"{call}: expected {size} lists of {count} outputs, one list per rank, found lists of {found}")
    return [[of_rank[i] for of_rank in lists] for i in range(count)]


def check_alike(call: str, tensors: Sequence[torch.Tensor]) -> None:
    """Raises ``InvalidInputError`` for tensors of several layouts or on several devices."""
    first = tensors[0]
    for tensor in tensors:
        if tensor.layout is not first.layout:
            raise InvalidInputError(f"{call}: expected tensors of one layout, found {first.layout} and {tensor.layout}")
        if tensor.device != first.device:
            raise InvalidInputError(f"{call}: expected tensors on one device, found {first.device} and {tensor.device}")
