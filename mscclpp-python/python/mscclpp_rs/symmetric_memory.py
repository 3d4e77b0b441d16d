"""The backend ``mscclpp`` of ``torch.distributed._symmetric_memory``, for CUDA tensors of process groups that this package serves.

Importing this module makes ``set_backend("mscclpp")`` of ``torch.distributed._symmetric_memory`` known. From then on its functions
``empty``, ``rendezvous``, ``get``, ``put_signal``, ``wait_signal`` and others allocate and use memory of this package, and
``torch.ops.symm_mem`` reduces and gathers with plans where the group is one of this package. PyTorch's own backends are as before.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed._symmetric_memory
from torch.utils.dlpack import from_dlpack

from . import _native, _symmetric_ops
from ._errors import InvalidInputError, MismatchError, UnsupportedError
from ._torch import _BY_GROUP, NAME, Backend, register

__all__ = ["Handle", "all_to_all_vdev", "is_active", "is_symmetric"]

#: PyTorch's module, whose names are replaced.
_torch_module: Any = torch.distributed._symmetric_memory

_PAD_BYTES = 2048
#: Signal pads begin at a multiple of this.
_ALIGNMENT = 256


class _Allocation:
    """Memory of this rank: the elements, then the signal pad."""

    def __init__(self, device: torch.device, num_bytes: int, pad_bytes: int, group_name: str | None) -> None:
        self.device = device
        self.num_bytes = max(-(-num_bytes // _ALIGNMENT), 1) * _ALIGNMENT
        self.pad_bytes = pad_bytes
        self.group_name = group_name
        self.memory = _native.SymmetricMemory(device.index, self.num_bytes + pad_bytes)
        self.windows: dict[str, tuple[Backend, _native.SymmetricWindow]] = {}

    def window(self, group_name: str) -> tuple[Backend, _native.SymmetricWindow]:
        """Returns the memory of all ranks of a group, which the first call maps, on all ranks."""
        backend, known = _BY_GROUP.get(group_name), self.windows.get(group_name)
        # A later group may have the name of one that was destroyed.
        if known is not None and known[0] is backend:
            return known
        if backend is None:
            raise InvalidInputError(f"rendezvous: expected a process group of the backend {NAME}, found {group_name!r}")
        own = torch.tensor([[self.num_bytes, self.pad_bytes]], dtype=torch.int64)
        of_all = torch.empty((backend._size, 2), dtype=torch.int64)
        backend._native.all_gather([(of_all, own)], -1, False)
        for rank, found in enumerate(of_all.tolist()):
            if found != own[0].tolist():
                expected = f"{self.num_bytes} bytes and a signal pad of {self.pad_bytes}"
                raise MismatchError(f"rendezvous: rank {backend._rank} has {expected}, rank {rank} {found[0]} and {found[1]}")
        num_channels = self.pad_bytes // 4 // backend._size
        self.windows[group_name] = backend, backend._native.map_symmetric(self.memory, num_channels)
        return self.windows[group_name]


#: The allocations by the addresses of their storages, as long as a tensor has the storage.
_ALLOCATIONS: dict[int, _Allocation] = {}
#: Tensors of allocations that are named by a number, which stay allocated.
_PERSISTENT: dict[int, torch.Tensor] = {}


def _allocation_of(tensor: torch.Tensor) -> _Allocation | None:
    return _ALLOCATIONS.get(tensor.untyped_storage().data_ptr()) if tensor.is_cuda else None


def is_symmetric(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor has memory of this module."""
    return _allocation_of(tensor) is not None


def is_active() -> bool:
    """Returns whether ``set_backend("mscclpp")`` was called last."""
    return _ENTRY.is_active


def _tensor(buffer: _native.Buffer, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return from_dlpack(buffer).view(dtype).reshape(tuple(sizes))


def all_to_all_vdev(
    input: torch.Tensor, out: torch.Tensor, in_splits: torch.Tensor, out_splits_offsets: torch.Tensor, group_name: str
) -> None:
    """Sends the first ``in_splits[0]`` rows of ``input`` to rank 0, the next ``in_splits[1]`` to rank 1 and so on, as
    ``torch.ops.symm_mem.all_to_all_vdev`` does.

    What the ranks send is written to ``out``, one part after the other; ``out_splits_offsets``, of shape (2, ranks), receives the rows from
    each rank and, in its second row, where they begin. Splits are int64, all tensors on the CPU or on one device, in any memory; ``input``
    has equally many rows on all ranks, the maximum of a split. On a device, the call does not wait for the stream and may be captured.
    Sizes that do not fit are ``InvalidInputError`` of all ranks, on a device by a later synchronization, and no rows are moved.
    """
    _symmetric_ops.all_to_all_vdev(input, out, in_splits, out_splits_offsets, group_name)


class Handle:
    """The memory of all ranks of a group: what ``rendezvous`` returns, with the attributes of PyTorch's ``_SymmetricMemory``."""

    def __init__(self, allocation: _Allocation, group_name: str, offset: int) -> None:
        self._allocation = allocation
        self._backend, self._window = allocation.window(group_name)
        self._tables: dict[str, torch.Tensor] = {}
        self.rank = self._backend._rank
        self.world_size = self._backend._size
        self.buffer_ptrs = list(self._window.addresses)
        self.signal_pad_ptrs = [address and address + allocation.num_bytes for address in self.buffer_ptrs]
        self.multicast_ptr = self._window.multicast_address
        self.buffer_size = allocation.num_bytes
        self.signal_pad_size = allocation.pad_bytes
        self.offset = offset
        self.device = allocation.device

    def _table(self, name: str, addresses: list[int]) -> int:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = torch.tensor(addresses, dtype=torch.int64).to(self.device)
        return table.data_ptr()

    @property
    def buffer_ptrs_dev(self) -> int:
        """The address of a table of ``buffer_ptrs`` on the device."""
        return self._table("buffers", self.buffer_ptrs)

    @property
    def signal_pad_ptrs_dev(self) -> int:
        """The address of a table of ``signal_pad_ptrs`` on the device."""
        return self._table("pads", self.signal_pad_ptrs)

    def _part(
        self, what: str, rank: int, sizes: Sequence[int], dtype: torch.dtype, begin: int, within: tuple[int, int]
    ) -> torch.Tensor:
        num_bytes = math.prod(sizes) * dtype.itemsize
        if not 0 <= rank < self.world_size:
            raise InvalidInputError(f"{what}: expected a rank below {self.world_size}, found {rank}")
        first, length = within
        if begin < 0 or any(size < 0 for size in sizes) or begin + num_bytes > length:
            raise InvalidInputError(f"{what}: {num_bytes} bytes from byte {begin} on exceed the {length} bytes of each rank")
        if (first + begin) % dtype.itemsize:
            raise InvalidInputError(f"{what}: expected a multiple of {dtype.itemsize} bytes, those of {dtype}, found byte {first + begin}")
        if num_bytes == 0:
            return torch.empty(tuple(sizes), dtype=dtype, device=self.device)
        return _tensor(self._window.buffer(rank, first + begin, num_bytes), sizes, dtype)

    def get_buffer(
        self, rank: int, sizes: Sequence[int], dtype: torch.dtype, storage_offset: int | None = 0
    ) -> torch.Tensor:
        """Returns a tensor of a rank's memory, from element ``storage_offset`` of the allocation on."""
        begin = (storage_offset or 0) * dtype.itemsize
        return self._part("get_buffer", rank, sizes, dtype, begin, (0, self.buffer_size))

    def get_remote_tensor(self, peer: int, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Returns a rank's tensor, which begins where this rank's one does in its allocation."""
        return self._part("get_remote_tensor", peer, sizes, dtype, self.offset, (0, self.buffer_size))

    def get_signal_pad(
        self, rank: int, sizes: Sequence[int] = (), dtype: torch.dtype | None = None, storage_offset: int | None = 0
    ) -> torch.Tensor:
        """Returns a tensor of a rank's signal pad, by default all of it as ``torch.uint32``. Signals of this class are not in it."""
        dtype = torch.uint32 if dtype is None else dtype
        begin = (storage_offset or 0) * dtype.itemsize
        sizes = sizes or ((self.signal_pad_size - begin) // dtype.itemsize,)
        return self._part("get_signal_pad", rank, sizes, dtype, begin, (self.buffer_size, self.signal_pad_size))

    def _check_channel(self, what: str, channel: int) -> None:
        num_channels = self.signal_pad_size // 4 // self.world_size
        if not 0 <= channel < num_channels:
            raise InvalidInputError(f"{what}: expected a channel below {num_channels}, found {channel}")

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Lets the current stream wait until those of all ranks have reached the barrier; 0: the timeout of the group."""
        self._check_channel("barrier", channel)
        self._backend._native.barrier_on_device(self.device.index, timeout_ms or -1)

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Sends a signal to a rank after the work of the current stream. It waits for nothing, so there is no timeout."""
        self._check_channel("put_signal", channel)
        self._backend._native.put_signal(self._window, dst_rank, channel)

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Lets the current stream wait for the next signal of a rank; 0: the timeout of the group, which a late signal fails."""
        self._check_channel("wait_signal", channel)
        self._backend._native.wait_signal(self._window, src_rank, channel, timeout_ms or -1)

    def boxed(self) -> Any:
        """Raises ``UnsupportedError``: operations that take a handle of C++ cannot take this one."""
        raise UnsupportedError("boxed: this handle is not one of C++; use the functions of torch.distributed._symmetric_memory")

    def get_peer_cft_handle(self, peer: int) -> tuple[int, int]:
        """Raises ``UnsupportedError``: endpoints are NCCL's."""
        raise UnsupportedError("get_peer_cft_handle: endpoints are those of NCCL's communicators")

    get_multimem_cft_handle: Any = get_peer_cft_handle


class _Entry:
    """Takes the place of the class ``_SymmetricMemory`` in PyTorch's module, and passes on what is not for this package."""

    def __init__(self, of_torch: Any) -> None:
        self._of_torch = of_torch
        self.is_active = False
        self._pad_bytes = _PAD_BYTES
        self._used_pool: bool | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_torch, name)

    def set_backend(self, name: str) -> None:
        if name != NAME:
            self._of_torch.set_backend(name)
        elif not self.is_active:
            register()
            # Memory of this package is not part of a pool.
            self._used_pool = getattr(_torch_module, "_use_implicit_mempool", None)
            _torch_module._use_implicit_mempool = False
        if name != NAME and self.is_active:
            _torch_module._use_implicit_mempool = self._used_pool
        self.is_active = name == NAME

    def get_backend(self, device: torch.device) -> str | None:
        is_own = self.is_active and torch.device(device).type == "cuda"
        return NAME if is_own else self._of_torch.get_backend(device)

    def has_multicast_support(self, device_type: Any, device_idx: int) -> bool:
        return not self.is_active and self._of_torch.has_multicast_support(device_type, device_idx)

    def get_mempool_allocator(self, device: torch.device) -> Any:
        if self.is_active:
            raise UnsupportedError(f"get_mem_pool: the backend {NAME} allocates by empty, not by pools")
        return self._of_torch.get_mempool_allocator(device)

    @property
    def signal_pad_size(self) -> int:
        return self._pad_bytes if self.is_active else self._of_torch.signal_pad_size

    @signal_pad_size.setter
    def signal_pad_size(self, size: int) -> None:
        if not self.is_active:
            self._of_torch.signal_pad_size = size
        elif size <= 0 or size % 16:
            raise InvalidInputError(f"set_signal_pad_size: expected a multiple of 16, found {size}")
        else:
            self._pad_bytes = size

    def is_symm_mem_tensor(self, tensor: torch.Tensor) -> bool:
        return is_symmetric(tensor) or self._of_torch.is_symm_mem_tensor(tensor)

    def empty_strided_p2p(
        self,
        size: Sequence[int],
        stride: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group_name: str | None = None,
        alloc_id: int | None = None,
    ) -> torch.Tensor:
        result: torch.Tensor
        if not self.is_active:
            result = self._of_torch.empty_strided_p2p(size, stride, dtype, device, group_name, alloc_id)
            return result
        device = torch.device(device)
        if device.type != "cuda":
            raise UnsupportedError(f"empty: expected a CUDA device, found {device}; mscclpp_rs.new_buffer has memory of the CPU")
        device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        is_empty = any(length == 0 for length in size)
        span = 0 if is_empty else 1 + sum((length - 1) * step for length, step in zip(size, stride))
        num_bytes = max(span, 1) * dtype.itemsize
        tensor = None if alloc_id is None else _PERSISTENT.get(alloc_id)
        if tensor is None:
            allocation = _Allocation(device, num_bytes, self._pad_bytes, group_name)
            tensor = from_dlpack(allocation.memory.buffer(0, allocation.num_bytes))
            storage = tensor.untyped_storage()
            _ALLOCATIONS[storage.data_ptr()] = allocation
            weakref.finalize(storage, _ALLOCATIONS.pop, storage.data_ptr(), None)
            if alloc_id is not None:
                _PERSISTENT[alloc_id] = tensor
        if tensor.numel() < num_bytes:
            raise InvalidInputError(f"empty: allocation {alloc_id} has {tensor.numel()} bytes, {num_bytes} are needed")
        result = tensor.view(dtype).as_strided(tuple(size), tuple(stride))
        return result

    def rendezvous(self, tensor: torch.Tensor, group_name: str | None = None) -> Any:
        allocation = _allocation_of(tensor)
        if allocation is None:
            if self.is_active:
                raise InvalidInputError("rendezvous: expected a tensor of empty, whose memory is symmetric, found another one")
            return self._of_torch.rendezvous(tensor, group_name)
        name = group_name or allocation.group_name
        if name is None:
            raise InvalidInputError("rendezvous: expected the name of a process group, found none")
        return Handle(allocation, name, tensor.data_ptr() - allocation.memory.address)


class _HandleOperation:
    """Takes the place of an operation of ``torch.ops.symm_mem`` that has handles of C++, and passes on what is not for this package."""

    def __init__(self, of_torch: Any, function: Callable[..., Any], is_own: Callable[[Any], bool]) -> None:
        self._of_torch, self._function, self._is_own = of_torch, function, is_own

    def __getattr__(self, name: str) -> Any:
        return self if name == "default" else getattr(self._of_torch, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        is_own = any(self._is_own(value) for value in (*arguments, *named.values()))
        return (self._function if is_own else self._of_torch)(*arguments, **named)


def _replace(name: str, function: Callable[..., Any], is_own: Callable[[Any], bool]) -> None:
    if hasattr(torch.ops.symm_mem, name):
        setattr(torch.ops.symm_mem, name, _HandleOperation(getattr(torch.ops.symm_mem, name), function, is_own))


def _instead(name: str, function: Callable[..., Any]) -> None:
    """Lets a function of PyTorch's module make calls on handles of this package by ``function``."""
    of_torch = getattr(_torch_module, name, None)
    if of_torch is None:
        return

    def chosen(*arguments: Any, **named: Any) -> Any:
        is_own = any(isinstance(value, Handle) for value in (*arguments, *named.values()))
        return (function if is_own else of_torch)(*arguments, **named)

    chosen.__name__, chosen.__doc__ = name, of_torch.__doc__
    setattr(_torch_module, name, chosen)


def _get(dst: torch.Tensor, hdl: Handle, peer: int, offset: int = 0) -> None:
    if dst.device != hdl.device or not dst.is_contiguous() or offset < 0:
        raise InvalidInputError(f"get: expected a contiguous tensor on {hdl.device} and an offset of 0 or more")
    begin = hdl.offset + offset * dst.element_size()
    dst.copy_(hdl._part("get", peer, dst.shape, dst.dtype, begin, (0, hdl.buffer_size)))


def _put_signal(src: torch.Tensor, hdl: Handle, peer: int) -> None:
    hdl.get_remote_tensor(peer, src.shape, src.dtype).copy_(src)
    hdl.put_signal(peer)


def _wait_signal(hdl: Handle, peer: int) -> None:
    hdl.wait_signal(peer)


def _barrier(symm: Handle) -> None:
    symm.barrier()


if not hasattr(_torch_module, "all_to_all_nd"):
    raise UnsupportedError(f"symmetric memory: expected PyTorch 2.15 or later, found {torch.__version__}")
_ENTRY = _Entry(_torch_module._SymmetricMemory)
_torch_module._SymmetricMemory = _ENTRY
_instead("get", _get)
_instead("put_signal", _put_signal)
_instead("wait_signal", _wait_signal)
_replace("_barrier", _barrier, lambda value: isinstance(value, Handle))
_replace("_rendezvous", _ENTRY.rendezvous, lambda value: isinstance(value, torch.Tensor) and (is_active() or is_symmetric(value)))
_symmetric_ops.install(is_active, is_symmetric, _ENTRY.rendezvous)
