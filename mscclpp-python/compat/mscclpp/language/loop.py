"""Pipelined loops."""

from __future__ import annotations

from types import TracebackType

from mscclpp.language.internal.globals import get_program
from mscclpp_rs import PlanError

__all__ = ["LoopIterationContext"]


class LoopIterationContext:
    """A loop over windows of the message: `with LoopIterationContext(unit, num_chunks):`.

    `unit` is the window per iteration in bytes, a positive multiple of 16 and of the buffer alignment. `num_chunks` is
    the span of the loop in chunks; every data operation in it covers as many. Operations of the body are executed once
    per iteration. A loop within a loop is rejected.
    """

    def __init__(self, unit: int, num_chunks: int) -> None:
        self.unit = unit
        self.num_chunks = num_chunks

    def __enter__(self) -> None:
        self._program = get_program()
        self._program._begin_pipeline(self.unit, self.num_chunks)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._program._end_pipeline()
        except PlanError:
            # The exception of the body says more.
            if exc_type is None:
                raise
