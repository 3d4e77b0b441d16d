"""Kernels of plain CUDA sources, launched with the bytes of their arguments."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

from mscclpp._core.native_build import device_headers, find_nvrtc
from mscclpp._core.native_includes import source_text
from mscclpp._core.native_macros import whole_text
from mscclpp._core.native_source import ENTRY, kernel_text
from mscclpp_rs import UnsupportedError
from mscclpp_rs._native import KernelModule

__all__ = ["Kernel", "KernelBuilder", "pack"]

# As `Call` of `native/pack.hpp`: blocks, threads and shared memory, before bytes that begin at a multiple of 16.
_CALL = struct.Struct("<7I4x")


class Kernel:
    """A kernel that is loaded on the current device."""

    def __init__(self, module: KernelModule) -> None:
        self._kernel = module.function(ENTRY)

    def launch_kernel(self, params: bytes, nblocks: int, nthreads: int, shared: int, stream: Any = None) -> None:
        """Enqueues a launch on a stream of cupy or PyTorch, or on the default stream.

        `params`: the arguments one after the other, each at a multiple of its size, as `pack` and `struct.pack` make them; what is missing is
        zero. The memory that the kernel accesses exists until the launch is complete. Raises `UnsupportedError` for shared memory of the launch.
        """
        if shared != 0:
            raise UnsupportedError(f"launch_kernel: expected no shared memory of the launch, found {shared} bytes; declare it with a size")
        handle = 0 if stream is None else getattr(stream, "ptr", None)
        number = stream.cuda_stream if handle is None else handle
        self._kernel.launch(number, nblocks, nthreads, _CALL.pack(nblocks, 1, 1, nthreads, 1, 1, shared) + params)


class KernelBuilder:
    """Compiles `kernel_name` of the source `file` in the folder `file_dir`, by default the current one. `macro_dict`: macros with their values.

    NVRTC compiles the text with the headers beside it, and without headers of the host; the result is cached (`MSCCLPP_CACHE`). Raises what
    `compile_native` does.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        kernel_name: str,
        file_dir: str | os.PathLike[str] | None = None,
        macro_dict: dict[str, Any] | None = None,
    ) -> None:
        path = Path(file_dir or "", file).resolve()
        macros = sorted((name, str(value)) for name, value in (macro_dict or {}).items())
        find_nvrtc()
        text = whole_text(path.name, source_text(path), path.parent)
        self._kernel = Kernel(KernelModule(path.name, kernel_text(path.name, text, kernel_name), list(device_headers()), macros))

    def get_compiled_kernel(self) -> Kernel:
        """Returns the kernel."""
        return self._kernel


def pack(*args: Any) -> bytes:
    """Returns the bytes of arguments: numbers of 4 bytes, `c_size_t`, bytes, and the addresses of arrays and tensors.

    Raises `TypeError` for anything else, and `struct.error` for a number of more than 4 bytes.
    """
    return b"".join(_packed(argument) for argument in args)


def _packed(argument: Any) -> bytes:
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, int):
        return struct.pack("i", argument)
    if isinstance(argument, ctypes.c_size_t):
        return struct.pack("N", argument.value)
    if hasattr(argument, "data_ptr"):
        return struct.pack("P", argument.data_ptr())
    # An array of cupy, and one of numpy.
    interface = getattr(argument, "__cuda_array_interface__", None)
    if interface is not None:
        return struct.pack("P", interface["data"][0])
    if hasattr(argument, "ctypes"):
        return struct.pack("P", argument.ctypes.data)
    raise TypeError(f"pack: expected a number, bytes, an array or a tensor, found {argument!r}")
