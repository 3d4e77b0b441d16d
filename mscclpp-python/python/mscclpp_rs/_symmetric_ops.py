"""Operations of ``torch.ops.symm_mem``: those of groups of this package are made with its plans, or refused by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._errors import InvalidInputError, UnsupportedError
from ._torch import _BY_GROUP, NAME, Backend

#: The numbers of native reductions.
_REDUCTIONS = {"sum": 0, "avg": 1, "product": 2, "min": 3, "max": 4}

#: Operations without an implementation here.
_REFUSED = (
    "all_to_all_vdev_2d",
    "all_to_all_vdev_2d_offset",
    "memcpy_to_multicast_",
    "multi_root_tile_reduce",
    "nccl_all_to_all_nd",
    "nccl_get",
    "nccl_put",
    "nccl_put_with_signal",
    "nccl_reduce_scatter_offset",
    "nccl_wait_for_signal",
    "nvshmem_all_to_all",
    "nvshmem_broadcast",
    "nvshmem_get",
    "nvshmem_put",
    "nvshmem_put_with_signal",
    "nvshmem_wait_for_signal",
    "tile_reduce",
    "_low_contention_all_gather_ce_multicast",
    "_low_contention_all_gather_ce_multicast_out",
)

#: Registrations, which end with the object.
_LIBRARY: Any = torch.library.Library("symm_mem", "IMPL")  # type: ignore[no-untyped-call]
_rendezvous: Callable[..., Any]


def _number(what: str, reduce_op: str) -> int:
    number = _REDUCTIONS.get(reduce_op)
    if number is None:
        raise InvalidInputError(f"{what}: expected one of {', '.join(_REDUCTIONS)}, found {reduce_op!r}")
    return number


def _check_contiguous(tensor: torch.Tensor) -> None:
    if not tensor.is_contiguous():
        raise InvalidInputError("all_reduce: expected a contiguous tensor; pass tensor.contiguous()")


def _reduce(tensor: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    """Replaces a tensor by the reduction of all ranks' ones."""
    number = _number("all_reduce", reduce_op)
    _check_contiguous(tensor)
    _BY_GROUP[group_name]._native.all_reduce(tensor, number, -1, False)
    return tensor


def _reduce_in_place(input: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    """Replaces a symmetric tensor by the reduction of all ranks' ones, without copies."""
    number = _number("all_reduce", reduce_op)
    _check_contiguous(input)
    window = _rendezvous(input, group_name)._window
    _BY_GROUP[group_name]._native.all_reduce_symmetric(window, input, number, -1)
    return input


def _one_shot_all_reduce_out(input: torch.Tensor, reduce_op: str, group_name: str, out: torch.Tensor) -> torch.Tensor:
    return _reduce(out.copy_(input), reduce_op, group_name)


def _one_shot_all_reduce(input: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    out = torch.empty_like(input, memory_format=torch.contiguous_format)
    return _one_shot_all_reduce_out(input, reduce_op, group_name, out)


def _one_shot_all_reduce_copy_out(
    symm_buffer: torch.Tensor, local_input: torch.Tensor, reduce_op: str, group_name: str, out: torch.Tensor
) -> torch.Tensor:
    symm_buffer.view(-1)[: local_input.numel()].copy_(local_input.view(-1))
    return _one_shot_all_reduce_out(local_input, reduce_op, group_name, out)


def _one_shot_all_reduce_copy(
    symm_buffer: torch.Tensor, local_input: torch.Tensor, reduce_op: str, group_name: str
) -> torch.Tensor:
    out = torch.empty_like(local_input, memory_format=torch.contiguous_format)
    return _one_shot_all_reduce_copy_out(symm_buffer, local_input, reduce_op, group_name, out)


def _two_shot_all_reduce_out(
    input: torch.Tensor, reduce_op: str, group_name: str, output: torch.Tensor
) -> torch.Tensor:
    return _one_shot_all_reduce_out(input, reduce_op, group_name, output)


def _multimem_one_shot_reduce_out(
    input: torch.Tensor, reduce_op: str, root: int, group_name: str, out: torch.Tensor
) -> torch.Tensor:
    number = _number("reduce", reduce_op)
    backend: Backend = _BY_GROUP[group_name]
    if not 0 <= root < backend._size:
        raise InvalidInputError(f"reduce: expected a root below {backend._size}, found {root}")
    whole = torch.empty_like(input, memory_format=torch.contiguous_format).copy_(input)
    backend._native.reduce(whole, number, root, -1, False)
    return out.copy_(whole) if backend._rank == root else out


def _all_gather_out(input: torch.Tensor, group_name: str, out: torch.Tensor) -> torch.Tensor:
    _BY_GROUP[group_name]._native.all_gather([(out, input.contiguous())], -1, False)
    return out


def _all_gather(tensor: torch.Tensor, group_name: str) -> torch.Tensor:
    size = (_BY_GROUP[group_name]._size * tensor.shape[0], *tensor.shape[1:])
    return _all_gather_out(tensor, group_name, tensor.new_empty(size))


def _reduce_scatter_out(
    input: torch.Tensor, group_name: str, split_last_dim: bool, output: torch.Tensor, reduce_op: str = "sum"
) -> torch.Tensor:
    backend: Backend = _BY_GROUP[group_name]
    number = _number("reduce_scatter", reduce_op)
    if split_last_dim:
        # Parts of the last dimension, one after the other.
        input = torch.stack(input.chunk(backend._size, dim=-1))
    backend._native.reduce_scatter([(output, input.contiguous())], number, -1, False)
    return output


def _reduce_scatter(tensor: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    output = tensor.new_empty((tensor.shape[0] // _BY_GROUP[group_name]._size, *tensor.shape[1:]))
    return _reduce_scatter_out(tensor, group_name, False, output, reduce_op)


def _get_remote_tensors(x: torch.Tensor, group_name: str) -> list[torch.Tensor]:
    handle = _rendezvous(x, group_name)
    return [handle.get_remote_tensor(rank, x.shape, x.dtype) for rank in range(handle.world_size)]


def all_to_all_vdev(
    input: torch.Tensor, out: torch.Tensor, in_splits: torch.Tensor, out_splits_offsets: torch.Tensor, group_name: str
) -> None:
    backend = _BY_GROUP.get(group_name)
    if backend is None:
        raise InvalidInputError(f"all_to_all_vdev: expected a process group of the backend {NAME}, found {group_name!r}")
    if in_splits.shape != (backend._size,) or out_splits_offsets.shape != (2, backend._size):
        expected = f"{[backend._size]} and {[2, backend._size]}"
        shapes = f"{list(in_splits.shape)} and {list(out_splits_offsets.shape)}"
        raise InvalidInputError(f"all_to_all_vdev: expected splits of the shapes {expected}, found {shapes}")
    backend.all_to_all_rows(out, input, out_splits_offsets, in_splits)


_SERVED: dict[str, Callable[..., Any]] = {
    "one_shot_all_reduce": _one_shot_all_reduce,
    "one_shot_all_reduce_out": _one_shot_all_reduce_out,
    "one_shot_all_reduce_copy": _one_shot_all_reduce_copy,
    "one_shot_all_reduce_copy_out": _one_shot_all_reduce_copy_out,
    "two_shot_all_reduce_": _reduce_in_place,
    "two_shot_all_reduce_out": _two_shot_all_reduce_out,
    "multimem_all_reduce_": _reduce_in_place,
    "multimem_one_shot_all_reduce": _one_shot_all_reduce,
    "multimem_one_shot_all_reduce_out": _one_shot_all_reduce_out,
    "multimem_one_shot_reduce_out": _multimem_one_shot_reduce_out,
    "multimem_all_gather_out": _all_gather_out,
    "reduce_scatter_out": _reduce_scatter_out,
    "_low_contention_all_gather": _all_gather,
    "_low_contention_reduce_scatter": _reduce_scatter,
    "get_remote_tensors": _get_remote_tensors,
    "all_to_all_vdev": all_to_all_vdev,
}

#: Of these, those of CPU tensors.
_SERVED_ON_CPU = ("all_to_all_vdev",)


def _refusing(name: str, why: str) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise UnsupportedError(f"symm_mem::{name}: {why}")

    return refuse


def install(
    is_active: Callable[[], bool],
    is_symmetric: Callable[[torch.Tensor], bool],
    rendezvous: Callable[..., Any],
) -> None:
    """Registers the operations on CUDA tensors. Calls of other groups, and before ``set_backend``, are made by PyTorch's own ones."""
    global _rendezvous
    _rendezvous = rendezvous

    def is_own(values: Any) -> bool:
        """Returns whether a call is for this package: its group, or without one its first tensor."""
        names = [value for value in values if isinstance(value, str) and value not in _REDUCTIONS]
        if names:
            return any(name in _BY_GROUP for name in names)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        return bool(tensors) and is_symmetric(tensors[0])

    def override(name: str, own: Callable[..., Any]) -> None:
        if not hasattr(torch.ops.symm_mem, name):
            return
        operation = f"symm_mem::{name}"
        has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key(operation, "CUDA")
        of_torch = torch.library.get_kernel(operation, "CUDA") if has_kernel else None

        def chosen(keys: Any, *arguments: Any, **named: Any) -> Any:
            if is_active() and is_own((*arguments, *named.values())):
                return own(*arguments, **named)
            if of_torch is None:
                raise UnsupportedError(f"{operation}: PyTorch {torch.__version__} has no kernel for it")
            return of_torch.call_boxed(keys, *arguments, **named)

        _LIBRARY.impl(name, chosen, "CUDA", with_keyset=True, allow_override=True)

    for name, own in _SERVED.items():
        override(name, own)
    for name in _REFUSED:
        override(name, _refusing(name, f"the backend {NAME} does not have this operation"))
    for name in (*_SERVED, *_REFUSED):
        has_cpu = hasattr(torch.ops.symm_mem, name) and torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"symm_mem::{name}", "CPU")
        if hasattr(torch.ops.symm_mem, name) and not has_cpu:
            refuse = _refusing(name, f"the backend {NAME} has symmetric memory of CUDA devices only; call all_reduce and others")
            _LIBRARY.impl(name, _SERVED[name] if name in _SERVED_ON_CPU else refuse, "CPU")
