"""The program that is being recorded, and the place of the call that records."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from types import CodeType
from typing import TYPE_CHECKING

from mscclpp_rs import PlanError

if TYPE_CHECKING:
    from mscclpp.language.program import CollectiveProgram

__all__ = ["find_program", "get_program", "set_program"]

# Of each thread, so that threads record programs at the same time.
_current_program: ContextVar[CollectiveProgram | None] = ContextVar("program", default=None)

# The files of the language itself, whose frames are not places of a program.
_LANGUAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OWN = tuple(_LANGUAGE + name for name in ("channel.py", "collectives.py", "general.py", "loop.py", "program.py", "rank.py"))
_columns: dict[tuple[CodeType, int], int] = {}


def set_program(program: CollectiveProgram | None) -> CollectiveProgram | None:
    """Sets the program that operations of this thread are added to, and returns the one before."""
    before = _current_program.get()
    _current_program.set(program)
    return before


def find_program() -> CollectiveProgram | None:
    """Returns the program that operations of this thread are added to; `None` outside of `with CollectiveProgram(...)`."""
    return _current_program.get()


def get_program() -> CollectiveProgram:
    """Returns the program that operations are added to.

    Raises `PlanError` outside of `with CollectiveProgram(...)`.
    """
    program = find_program()
    if program is None:
        raise PlanError("there is no program: use ranks, buffers and channels within `with CollectiveProgram(...)`")
    return program


def place() -> tuple[str, int, int]:
    """Returns file, line and column of the innermost call from outside of the language."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN) and frame.f_back is not None:
        frame = frame.f_back
    code, instruction = frame.f_code, frame.f_lasti
    column = _columns.get((code, instruction))
    if column is None:
        positions = list(code.co_positions())
        start = positions[instruction // 2][2] if instruction // 2 < len(positions) else None
        column = _columns[code, instruction] = 0 if start is None else start + 1
    return code.co_filename, frame.f_lineno or 0, column
