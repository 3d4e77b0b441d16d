"""Compilation of programs to algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mscclpp._core.algorithm import Algorithm
from mscclpp._core.comm import ExecutionPlan
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec

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
    """`mscclpp.compile_native`: not supported, because a native algorithm is code of the reference's C++ library."""

    def __call__(self, name: str, file: str, **kwds: Any) -> Any:
        return self.compile(name, file, **kwds)

    def compile(self, name: str, file: str) -> Any:
        """Raises `FileNotFoundError` for a missing file, and else `NotImplementedError`."""
        with open(file, "rb"):
            pass
        raise NotImplementedError(
            f"{name}: algorithms of the reference's C++ interface are not supported; write the algorithm as a program of "
            "mscclpp.language, or in Rust with mscclpp's device API"
        )
