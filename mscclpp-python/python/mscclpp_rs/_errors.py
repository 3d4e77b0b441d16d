"""Exceptions of failed calls."""

from __future__ import annotations

import builtins
import json


class Error(RuntimeError):
    """A call or a process group failed.

    Attributes:
        kind: the class of the failure as a word, such as ``"rank-lost"``.
        rank: the rank that reports the failure, ``None`` where none is known.
        operation: the call that failed, with its arguments where they are known.
        root_cause: the rank that the failure began with; ``None`` if no other rank caused it. The same on all ranks.
        reason: why it failed there; ``None`` with ``root_cause``.
        lost: the ranks that the process group has lost, for ``shrink``.
    """

    kind: str = "error"

    def __init__(
        self,
        message: str,
        kind: str | None = None,
        rank: int | None = None,
        operation: str | None = None,
        root_cause: int | None = None,
        reason: str | None = None,
        lost: tuple[int, ...] = (),
    ) -> None:
        super().__init__(message)
        if kind is not None:
            self.kind = kind
        self.rank = rank
        self.operation = operation
        self.root_cause = root_cause
        self.reason = reason
        self.lost = tuple(lost)

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (self.args[0], self.kind, self.rank, self.operation, self.root_cause, self.reason, self.lost)
        return type(self), arguments


class InvalidInputError(Error, ValueError):
    """The arguments of a call are invalid; the process group is as before."""

    kind = "invalid-input"


class MismatchError(Error):
    """Ranks made different calls, or calls with different arguments."""

    kind = "mismatch"


class RankLostError(Error):
    """A rank has ended, has aborted the process group, or does not answer."""

    kind = "rank-lost"


class TimeoutError(Error, builtins.TimeoutError):  # noqa: A001 - it is one of Python's as well
    """A rank waited for longer than the timeout."""

    kind = "timeout"


class UnsupportedError(Error):
    """The call is not supported here."""

    kind = "unsupported"


class ResourceError(Error):
    """The machine has too little memory, or too few of other resources."""

    kind = "out-of-resources"


_CLASSES: dict[str, type[Error]] = {
    one.kind: one
    for one in (
        InvalidInputError,
        MismatchError,
        RankLostError,
        TimeoutError,
        UnsupportedError,
        ResourceError,
    )
}


def to_json(error: Error) -> str:
    """Returns a failure to join as text for other ranks."""
    return json.dumps([error.kind, error.args[0], error.root_cause, error.reason, error.lost])


def from_json(text: str | bytes, rank: int) -> Error:
    """Returns the failure to join of another rank as that of a rank."""
    kind, message, root_cause, reason, lost = json.loads(text)
    return make_error(kind, message, rank, "join", root_cause, reason, lost)


def make_error(
    kind: str,
    message: str,
    rank: int | None,
    operation: str | None,
    root_cause: int | None,
    reason: str | None,
    lost: list[int],
) -> Error:
    """Returns the exception of a failure."""
    error = _CLASSES.get(kind, Error)(message, kind, rank, operation, root_cause, reason, tuple(lost))
    if "the selector failed" in message:
        from ._selection import cause_of

        error.__cause__ = cause_of(message)
    return error
