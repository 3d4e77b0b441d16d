"""Compilation of programs and of kernels to algorithms."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mscclpp._core.algorithm import Algorithm
from mscclpp._core.comm import ExecutionPlan
from mscclpp._core.native import HEADER, NativeModule
from mscclpp._core.native_build import find_nvrtc
from mscclpp._core.native_includes import source_text
from mscclpp._core.native_macros import whole_text
from mscclpp._core.native_module import load_module, module_image
from mscclpp._core.native_source import has_host_code
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec
from mscclpp_rs._native import compile_image

__all__ = ["DslCompiler", "NativeCodeCompiler"]


class DslCompiler:
    """`mscclpp.compile`: runs a program and returns the algorithm of a rank.

    The plan is checked; nothing is cached in files. Raises `mscclpp_rs.PlanError` with all findings.
    """

    def __call__(self, algo: Callable[..., CollectiveProgram], algo_spec: AlgoSpec, rank: int, **kwds: Any) -> Algorithm:
        return self.compile(algo, algo_spec, rank, **kwds)

    def compile(self, algo: Callable[..., CollectiveProgram], algo_spec: AlgoSpec, rank: int, **kwargs: Any) -> Algorithm:
        """Runs `algo(algo_spec, **kwargs)`, which returns a program, and returns the algorithm of `rank`."""
        if not callable(algo):
            raise ValueError(f"expected a function of an AlgoSpec as algo, found {algo!r}")
        program = algo(algo_spec, **kwargs)
        if not isinstance(program, CollectiveProgram):
            raise TypeError(f"expected {algo!r} to return a CollectiveProgram, found {program!r}")
        plan = program.plan()
        return Algorithm(
            id=plan.digest,
            execution_plan=ExecutionPlan.from_plan(plan, rank),
            constraint=Algorithm.Constraint(algo_spec.world_size, algo_spec.nranks_per_node),
            tags=algo_spec.tags,
        )


class NativeCodeCompiler:
    """`mscclpp.compile_native`: compiles CUDA sources, and loads their kernels on the current device.

    A source that includes headers of the C++ interface (`mscclpp/...`), pybind11's or Python's, itself or by a header beside it, has host code:
    the host's C++ compiler makes a module of Python of it. Other sources have kernels alone, and may include the headers of the device code
    and `mscclpp_native.h`. NVRTC compiles device code. All is cached between processes (`MSCCLPP_CACHE`).
    """

    def __call__(self, name: str, file: str | os.PathLike[str] | None = None, **options: Any) -> NativeModule | ModuleType:
        return self.compile(name, file, **options)

    def compile(
        self,
        name: str,
        file: str | os.PathLike[str] | None = None,
        *,
        source: str | None = None,
        headers: Mapping[str, str] | None = None,
        defines: Mapping[str, str] | None = None,
    ) -> NativeModule | ModuleType:
        """Returns the module of `file`, or of the text `source`. `headers`: texts by name for device code. `defines`: macros.

        Raises `FileNotFoundError` for a missing file, `InvalidInputError` for one that is not UTF-8, `mscclpp_rs.UnsupportedError` without CUDA
        devices or if the host's compiler or headers are missing, and `mscclpp_rs.Error` with the reason if NVRTC is missing, or with a
        compiler's messages if the source does not compile.
        """
        title, text = _text(name, file, source)
        find_nvrtc()
        if has_host_code(text):
            return load_module(name, title, text, dict(headers or {}), dict(defines or {}))
        return NativeModule(name, title, text, dict(headers or {}), dict(defines or {}))

    def compile_image(
        self,
        name: str,
        file: str | os.PathLike[str] | None = None,
        *,
        capability: tuple[int, int],
        source: str | None = None,
        headers: Mapping[str, str] | None = None,
        defines: Mapping[str, str] | None = None,
    ) -> tuple[bytes, str]:
        """Returns machine code for devices of a compute capability, such as `(9, 0)`, and the output of the compiler. Needs no device."""
        title, text = _text(name, file, source)
        find_nvrtc()
        if has_host_code(text):
            return module_image(name, title, text, dict(headers or {}), dict(defines or {}), capability)
        return compile_image(title, text, [HEADER, *(headers or {}).items()], list((defines or {}).items()), capability)


def _text(name: str, file: str | os.PathLike[str] | None, source: str | None) -> tuple[str, str]:
    """Returns the name of a source in messages, and its text."""
    if (file is None) == (source is None):
        raise ValueError(f"{name}: expected a file or a source")
    if file is None:
        return f"{name}.cu", whole_text(f"{name}.cu", str(source), Path.cwd())
    path = Path(file).resolve()
    return path.name, whole_text(path.name, source_text(path), path.parent)
