"""Conversions from types of PyTorch, and kernels of plain sources."""

from __future__ import annotations

from typing import Any

from mscclpp._core.kernel_builder import Kernel, KernelBuilder, pack
from mscclpp._core.types import DataType, ReduceOp
from mscclpp._left_out import why

__all__ = ["Kernel", "KernelBuilder", "is_torch_tensor", "pack", "torch_dtype_to_mscclpp_dtype", "torch_op_to_mscclpp_op"]


def is_torch_tensor(tensor: object) -> bool:
    """Returns whether an object is a tensor of PyTorch, without importing it."""
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def torch_dtype_to_mscclpp_dtype(dtype: Any) -> DataType:
    """Returns the data type of a type of PyTorch. Raises `ValueError` for one that the reference does not have."""
    name = str(dtype).removeprefix("torch.")
    if name not in DataType.__members__:
        raise ValueError(f"expected a type such as torch.float32, found {dtype}")
    return DataType[name]


def torch_op_to_mscclpp_op(op: Any) -> ReduceOp:
    """Returns the reduction of one of PyTorch. Raises `ValueError` for others than SUM and MIN."""
    import torch.distributed as dist

    known = {dist.ReduceOp.SUM: ReduceOp.SUM, dist.ReduceOp.MIN: ReduceOp.MIN}
    if op not in known:
        raise ValueError(f"expected ReduceOp.SUM or ReduceOp.MIN, found {op}")
    return known[op]


def __getattr__(name: str) -> object:
    raise AttributeError(why(__name__, name))
