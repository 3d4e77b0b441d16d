"""Tensors that native calls cannot use as they are."""

from __future__ import annotations

from typing import Any

import torch


def _is_aligned(tensor: torch.Tensor) -> bool:
    return tensor.data_ptr() % tensor.itemsize == 0


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() and _is_aligned(tensor) and not tensor.is_conj() and not tensor.is_neg()


class Buffers:
    """The tensors of a call, dense and without gradients. Copies of outputs are written back when the call has ended."""

    __slots__ = ("_copies",)

    def __init__(self) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    @property
    def has_copies(self) -> bool:
        """Whether a result must be copied to an output."""
        return bool(self._copies)

    def input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor to read."""
        if _is_plain(tensor):
            return tensor.detach() if tensor.requires_grad else tensor
        dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
        return dense if _is_aligned(dense) else dense.clone()

    def output(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor to write all of."""
        if _is_plain(tensor):
            return tensor.detach() if tensor.requires_grad else tensor
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        self._copies.append((tensor, copy))
        return copy

    def in_out(self, tensor: torch.Tensor, of: torch.Tensor, is_written: bool = True) -> torch.Tensor:
        """Returns a tensor to read and write, whose result belongs to ``of``."""
        dense = self.input(tensor)
        if is_written and dense.data_ptr() != of.data_ptr():
            self._copies.append((of, dense))
        return dense

    def scaled(self, tensor: torch.Tensor, factor: Any) -> torch.Tensor:
        """Returns a tensor times a number or a tensor of one element."""
        scaled: torch.Tensor = (tensor.detach() * factor).to(tensor.dtype)
        return scaled.contiguous()

    def write_back(self) -> None:
        """Copies results to the outputs."""
        if self._copies:
            with torch.no_grad():
                for tensor, copy in self._copies:
                    tensor.detach().copy_(copy)
            self._copies = []
