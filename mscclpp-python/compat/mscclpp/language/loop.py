"""Pipelined loops."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, TypedDict

from mscclpp.language.internal.globals import get_program
from mscclpp_rs import PlanError

if TYPE_CHECKING:
    from mscclpp.language.program import CollectiveProgram

__all__ = ["InLoop", "Loop", "LoopIterationContext", "check_loop"]


class LoopIterationContext:
    """A loop over windows of the message: `with LoopIterationContext(unit, num_chunks):`.

    `unit` is the window per iteration in bytes, a positive multiple of 16 and of the buffer alignment. `num_chunks` is
    the span of the loop in chunks; every data operation in it covers as many. Operations of the body are executed once
    per iteration. A loop within a loop is rejected.
    """

    def __init__(self, unit: int, num_chunks: int) -> None:
        self.unit = unit
        self.num_chunks = num_chunks

    def __enter__(self) -> LoopIterationContext:
        self._program = get_program()
        self._program._begin_pipeline(self.unit, self.num_chunks)
        self._program._loop = self
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._program._loop = None
            self._program._end_pipeline()
        except PlanError:
            # The exception of the body says more.
            if exc_type is None:
                raise


class Loop:
    """The first name of a loop: `with Loop.iteration(unit, num_chunks) as iter:`."""

    @staticmethod
    def iteration(unit: int, num_chunks: int) -> LoopIterationContext:
        """Returns the loop."""
        return LoopIterationContext(unit, num_chunks)


class InLoop(TypedDict, total=False):
    """The keyword by which operations first named the loop that they are in."""

    iter_context: LoopIterationContext


def check_loop(program: CollectiveProgram, named: InLoop) -> None:
    """Raises `ValueError` unless the loop that an operation names, if it does, is the one that it is in, `TypeError` for other keywords."""
    for name in named:
        if name != "iter_context":
            raise TypeError(f"found an unexpected keyword argument '{name}'")
    if "iter_context" in named and named["iter_context"] is not program._loop:
        raise ValueError("expected the loop that the operation is in as iter_context, found another one, or none is open")
