"""Modules of sources with host code, and the algorithms that they build."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mscclpp._core.native import HEADER
from mscclpp._core.native_build import Library, compiled, device_headers
from mscclpp._core.native_host import HostCommunicator
from mscclpp._core.native_source import device_text, host_text
from mscclpp._core.types import DataType, ReduceOp
from mscclpp_rs import Error, UnsupportedError
from mscclpp_rs._native import KernelModule, compile_image, has_devices

if TYPE_CHECKING:
    from mscclpp._core.comm import Communicator

__all__ = ["HostAlgorithm", "is_capsule", "load_module", "module_image"]

_CAPSULE = "mscclpp_rs.NativeAlgorithm"
# The numbers of `mscclpp::ReduceOp` by those of Python.
_REDUCTIONS = {ReduceOp.SUM: 0, ReduceOp.MIN: 3, ReduceOp.NOP: 255}
_AUTO = 255

# Functions of a library that was loaded: those of any serve the algorithms of all.
_functions: list[_Functions] = []


class _Functions:
    """What `include/mscclpp/native/module.hpp` exports."""

    def __init__(self, path: Path) -> None:
        library = ctypes.PyDLL(str(path))
        self.kernels = self._find(library, "kernels", 0)
        self.bind = self._find(library, "bind", 1)
        self.describe = self._find(library, "describe", 1)
        self.execute = self._find(library, "execute", 2)
        self.set_range = self._find(library, "set_range", 2)
        self.reset = self._find(library, "reset", 1)

    @staticmethod
    def _find(library: ctypes.PyDLL, name: str, arguments: int) -> Any:
        function = library[f"mscclpp_native_{name}"]
        function.restype = ctypes.py_object
        function.argtypes = [ctypes.py_object] * arguments
        return function


def load_module(name: str, title: str, text: str, headers: dict[str, str], defines: dict[str, str]) -> ModuleType:
    """Compiles a source with host code and returns its module, whose kernels are loaded on the current device.

    Raises `UnsupportedError` without devices or if a compiler or headers are missing, `InvalidInputError` for a source that cannot be divided,
    `mscclpp_rs.Error` with a compiler's messages, and `ImportError` if the source does not define the module.
    """
    if not has_devices():
        raise UnsupportedError(
            "compile_native: expected a CUDA device, found none: kernels run on devices; compile for a device of another machine with "
            "`compile_native.compile_image`"
        )
    library, functions = _host_library(name, title, text, defines)
    try:
        kernels = functions.kernels()
        module = KernelModule(title, device_text(title, text, kernels), _headers(headers), list(defines.items()))
        functions.bind([module.function(f"mscclpp_kernel_{number}") for number in range(len(kernels))])
        _functions.append(functions)
        return _imported(name, title, library.path)
    finally:
        library.release()


def module_image(
    name: str, title: str, text: str, headers: dict[str, str], defines: dict[str, str], capability: tuple[int, int]
) -> tuple[bytes, str]:
    """Returns machine code of a source with host code, and the output of the compiler."""
    library, functions = _host_library(name, title, text, defines)
    try:
        return compile_image(title, device_text(title, text, functions.kernels()), _headers(headers), list(defines.items()), capability)
    finally:
        library.release()


def _host_library(name: str, title: str, text: str, defines: dict[str, str]) -> tuple[Library, _Functions]:
    library = compiled(name, title, host_text(title, text), defines)
    try:
        return library, _Functions(library.path)
    except OSError as error:
        library.release()
        raise Error(f"compile_native: the library of `{title}` cannot be loaded: {error}", "system", operation="compile_native") from error


def _headers(headers: dict[str, str]) -> list[tuple[str, str]]:
    return [HEADER, *device_headers(), *headers.items()]


def _imported(name: str, title: str, path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
    except ImportError as error:
        if f"PyInit_{name}" not in str(error):
            raise
        raise ImportError(
            f"{title}: expected PYBIND11_MODULE({name}, ...), as compile_native names the module, found no module of this name: {error}"
        ) from error
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def is_capsule(found: object) -> bool:
    """Returns whether an object is a capsule with an algorithm of the C++ interface."""
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    return bool(_functions) and bool(is_valid(found, _CAPSULE.encode()))


class HostAlgorithm:
    """An algorithm of a capsule."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule
        self._calls = _functions[0]
        described = self._calls.describe(capsule)
        self.name, self.collective, least, most, self.buffer_mode, self.world_size, self.ranks_per_node, self.tags = described
        self.range = (least, most)

    def set_range(self, least: int, most: int) -> None:
        self._calls.set_range(self._capsule, (least, most))
        self.range = (least, most)

    def launch(
        self,
        comm: Communicator,
        input: tuple[int, int],
        output: tuple[int, int],
        dtype: DataType,
        op: ReduceOp,
        stream: int,
        grid: tuple[int, int],
        symmetric_memory: bool,
        extras: dict[str, int],
        accum_dtype: DataType | None,
    ) -> int:
        """Makes a call. Returns what the algorithm's function of kernels returns, a number of `CommResult`.

        Raises what its functions throw, and `mscclpp_rs.Error` if a kernel of an earlier call has waited longer than the timeout.
        """
        if comm.native.device is None:
            raise UnsupportedError(f"{self.name}: expected a communicator of CUDA devices, found one of host memory")
        host = comm.host
        if host is None:
            host = comm.host = HostCommunicator(comm.native)
        host.check()
        arguments = (
            host,
            host.rank,
            host.size,
            host.ranks_per_node,
            *input,
            *output,
            int(dtype),
            _REDUCTIONS[ReduceOp(op)],
            stream,
            *grid,
            symmetric_memory,
            _AUTO if accum_dtype is None else int(accum_dtype),
            extras,
        )
        return int(self._calls.execute(self._capsule, arguments))

    def synchronize(self, comm: Communicator, stream: int) -> None:
        """Waits until the calls on a stream are complete. Raises `mscclpp_rs.Error` if a kernel has waited longer than the timeout."""
        if comm.host is not None:
            comm.host.synchronize(stream)

    def reset(self) -> None:
        """Drops the contexts. No kernel of any rank may use them any more."""
        self._calls.reset(self._capsule)
