"""What serves calls of the backend ``mscclpp``, and of NCCL's interface where the NCCL library of this project is loaded."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _native
from ._errors import InvalidInputError, make_error


class SelectorCall(NamedTuple):
    """A call for which a selector is asked."""

    collective: str
    dtype: str
    op: str | None
    order: str
    input_bytes: int
    output_bytes: int
    root: int
    num_ranks: int
    ranks_per_node: int
    in_place: bool
    symmetric: bool
    captured: bool
    is_device: bool


Selector = Callable[[SelectorCall, list[str]], "str | None"]


class _Call(ctypes.Structure):
    """``mscclppCall_t``."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("collective", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("op", ctypes.c_char_p),
        ("order", ctypes.c_char_p),
        ("input_bytes", ctypes.c_uint64),
        ("output_bytes", ctypes.c_uint64),
        ("root", ctypes.c_int),
        ("num_ranks", ctypes.c_int),
        ("ranks_per_node", ctypes.c_int),
        ("in_place", ctypes.c_int),
        ("symmetric", ctypes.c_int),
        ("captured", ctypes.c_int),
    ]


class _Count(ctypes.Structure):
    """``mscclppCallCount_t``."""

    _fields_ = [("name", ctypes.c_char_p), ("calls", ctypes.c_uint64)]


_NAMES = ctypes.POINTER(ctypes.c_char_p)
_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.POINTER(_Call), _NAMES, ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
)
_CLASSES = {2: "invalid-plan", 6: "error", 7: "internal"}
_NO_EFFECT = 4

#: The last exception of a selector in each process, with its text in failures, until a failure has it as its cause.
_raised: list[tuple[str, BaseException]] = []
#: Functions that the NCCL library may call: those before may be in a call.
_callbacks: list[Any] = []
#: Texts that a selector has returned to the library in this thread.
_texts = threading.local()


class Nccl:
    """The functions of ``mscclpp.h`` in the NCCL library that this process has loaded."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.mscclppGetLastError.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: Any, accepted: int = 0) -> int:
        """Calls a function; raises what it reports unless that is accepted."""
        code = int(getattr(self._library, name)(*arguments))
        if code in (0, accepted):
            return code
        text = self._library.mscclppGetLastError().decode(errors="replace")
        raise make_error(_CLASSES.get(code, "invalid-input"), text, None, None, None, None, [])

    def set_selector(self, function: Callable[..., str | None] | None) -> None:
        callback = _CALLBACK() if function is None else _CALLBACK(_for_nccl(function))
        _callbacks.append(callback)
        self.call("mscclppSetSelector", callback, None)

    def call_counts(self) -> dict[str, int]:
        number, room = ctypes.c_size_t(), 0
        while True:
            counts = (_Count * max(room, 1))()
            self.call("mscclppGetCallCounts", None, counts, ctypes.c_size_t(room), ctypes.byref(number))
            if number.value <= room:
                return {count.name.decode(): int(count.calls) for count in counts[: number.value]}
            room = number.value


def nccl() -> Nccl | None:
    """Returns the NCCL library, if this process has loaded one that is of this project."""
    try:
        library = ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    return Nccl(library) if hasattr(library, "mscclppGetVersion") else None


def register_plan(plan: _native.Plan, name: str | None) -> str:
    """Adds a plan to what is created afterwards."""
    registered = _native.register_default_plan(plan, name)
    library = nccl()
    if library is not None:
        data = plan.to_bytes()
        try:
            # A plan that no call of NCCL can run serves the backend of this package.
            library.call("mscclppRegisterPlan", data, ctypes.c_size_t(len(data)), registered.encode(), accepted=_NO_EFFECT)
        except Exception:
            _native.remove_default_plan(registered)
            raise
    return registered


def set_order(order: str, *, is_of_nccl: bool) -> None:
    """Sets the order of all communicators of the NCCL library, and, unless ``is_of_nccl``, of the groups that are created afterwards."""
    if not is_of_nccl:
        _native.set_default_order(order)
    library = nccl()
    if library is not None:
        library.call("mscclppSetOrder", order.encode())
        library.call("mscclppCommSetOrder", None, order.encode())


def set_selector(selector: Selector | None) -> None:
    """Sets the function that is asked for each collective call of all groups, from the next call on; ``None`` removes it.

    It gets a ``SelectorCall`` and the names of the algorithms that serve the call, and returns one of them, or ``None`` for the usual selection.
    It is asked for calls of the backend ``mscclpp``, and of the backend nccl if this project's NCCL library is loaded; any thread may call it.
    It makes no calls of groups itself, which raise ``UnsupportedError`` there. Started calls are asked for when they are made, so none may be
    pending when the selector changes.
    All ranks must return the same: ranks that differ raise ``MismatchError``, and an exception of one rank is one of all ranks. Both end the group.
    Another name raises ``InvalidInputError`` with those that there are.
    """
    if selector is not None and not callable(selector):
        raise InvalidInputError(f"set_selector: expected a function or None, found {type(selector).__name__}")
    function = None if selector is None else _checked(selector)
    _native.set_selector(function)
    library = nccl()
    if library is not None:
        library.set_selector(function)


def _remove_selector() -> None:
    """Removes what ``set_selector`` has set: threads that make calls cannot ask it when the interpreter has ended."""
    _native.set_selector(None)
    library = nccl()
    if library is not None and _callbacks:
        library.set_selector(None)


# Runs after the functions of modules that are imported later, which end the groups and make their started calls.
atexit.register(_remove_selector)


def _checked(selector: Selector) -> Callable[..., str | None]:
    """Returns a selector whose exceptions are kept for the failures of the calls."""

    def function(*call: Any) -> str | None:
        *fields, names = call
        try:
            chosen = selector(SelectorCall(*(value for group in fields for value in group)), list(names))
            if chosen is not None and not isinstance(chosen, str):
                raise TypeError(f"a selector returns a name or None, found {type(chosen).__name__}")
        except BaseException as error:
            try:
                text = str(error)
            except Exception:
                text = f"{type(error).__name__}, which has no text"
                _raised[:] = [(f"RuntimeError: {text}", error)]
                raise RuntimeError(text) from error
            _raised[:] = [(f"{type(error).__name__}: {text}", error)]
            raise
        return chosen

    return function


def _for_nccl(function: Callable[..., str | None]) -> Callable[..., int | None]:
    """Returns a selector as the library calls it."""

    def callback(at: Any, names: Any, count: int, _user: Any, error: Any) -> int | None:
        call = at.contents
        described = (call.collective.decode(), call.dtype.decode(), call.op and call.op.decode(), call.order.decode())
        of_ranks = (call.input_bytes, call.output_bytes, call.root, call.num_ranks, call.ranks_per_node)
        flags = (bool(call.in_place), bool(call.symmetric), bool(call.captured), True)
        try:
            chosen = function(described, of_ranks, flags, [names[number].decode() for number in range(count)])
        except BaseException as raised:
            error[0] = _kept(f"{type(raised).__name__}: {raised}")
            return None
        return None if chosen is None else _kept(chosen)

    return callback


def _kept(text: str) -> int:
    """Returns the address of a text that stays until this thread's next call of the selector."""
    _texts.last = ctypes.create_string_buffer(text.encode(errors="replace"))
    return ctypes.addressof(_texts.last)


def cause_of(message: str) -> BaseException | None:
    """Returns the exception of this process's selector that a failure reports."""
    found = next((error for text, error in _raised if text in message), None)
    if found is not None:
        _raised.clear()
    return found
