"""Calls that were started."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ._tensors import Buffers

#: The class of works, of which PyTorch exports the name of its internal module only, and that of DDP's reducers.
_WORK: Any = getattr(dist, "_Work")
_REDUCER: Any = getattr(dist, "Reducer")


class _Search(threading.local):
    """The search of a thread for the work in a wrapper."""

    is_active = False
    found: Work | None = None


_SEARCH = _Search()


def _wrapped(work: Any) -> Work | None:
    """Returns the work that a wrapper has; none for works of other backends."""
    _SEARCH.is_active = True
    try:
        work.get_future()
    except RuntimeError:
        # A work of another backend that has none.
        pass
    finally:
        _SEARCH.is_active = False
    found, _SEARCH.found = _SEARCH.found, None
    return found


def answer_through_wrappers() -> None:
    """Lets works answer although PyTorch wraps them.

    PyTorch passes the works of backends in Python on in a wrapper, which forwards ``wait`` and ``get_future`` alone: it says that no call has
    completed, and knows no source of received data, so that ``dist.recv`` from any rank fails. The other methods ask the work
    in the wrapper, where there is one.
    """

    def forwarded(name: str) -> Any:
        of_torch = getattr(_WORK, name)

        def method(work: Any) -> Any:
            own = _wrapped(work)
            return of_torch(work) if own is None else getattr(own, name)()

        method.__doc__ = of_torch.__doc__
        return method

    for name in ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank"):
        setattr(_WORK, name, forwarded(name))


def keep_works_of_reducers() -> None:
    """Keeps the works that reducers of DDP wait for, before 2.14.

    There a reducer gets a work itself, and not a wrapper that keeps its part in Python. Once that is dropped, the reducer's wait calls no method
    of Python and has no end: ``join(divide_by_initial_world_size=False)``.
    """
    of_torch = _REDUCER._set_forward_pass_work_handle
    kept: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def method(reducer: Any, work: Any, use_static_world_size: bool) -> None:
        kept[reducer] = work
        of_torch(reducer, work, use_static_world_size)

    method.__doc__ = of_torch.__doc__
    setattr(_REDUCER, "_set_forward_pass_work_handle", method)


class Work(_WORK):  # type: ignore[misc]
    """A call that was started; ``None`` as its native part for one that has ended."""

    def __init__(self, native: Any, tensors: Any, buffers: Buffers | None) -> None:
        super().__init__()
        self._native = native
        self._tensors = tensors
        self._buffers = buffers
        #: After which a wait without a timeout raises; unlimited if it is 0.
        self.default_timeout = timedelta(0)
        #: Of the write-back. A handler of signals may wait for the call that its thread writes back.
        self._lock = threading.RLock()
        #: What the write-back raised.
        self._error: Exception | None = None
        self._parts: Sequence[Work] = ()
        #: The stream of a call on a device, and the event that follows the call there.
        self._stream: torch.cuda.Stream | None = None
        self._event: torch.cuda.Event | None = None

    @staticmethod
    def on_stream(tensors: Any) -> Work:
        """Returns the work of a call that was enqueued on the current stream of its tensors' device."""
        work = Work(None, tensors, None)
        work._stream = torch.cuda.current_stream(tensors[0].device)
        work._event = work._stream.record_event()
        return work

    @staticmethod
    def of_all(works: Sequence[Work]) -> Work:
        """Returns a work that ends with all of several."""
        together = Work(None, [tensor for work in works for tensor in work._tensors], None)
        # Sends last: a thread that waits for a receive makes it.
        together._parts = sorted(works, key=lambda work: work._native is not None and work._native.is_send)
        return together

    def _write_back(self) -> Exception | None:
        """Writes the results of a call that succeeded to its outputs, once, and returns what that raised.

        When it returns, the results are written, whichever thread has done it.
        """
        with self._lock:
            if self._buffers is not None:
                try:
                    self._buffers.write_back()
                except Exception as error:
                    self._error = error
                # An interrupted one is repeated.
                self._buffers = None
            return self._error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the call has ended, at most ``timeout`` unless it is 0. Raises the exception of the call.

        Of a call on a device, the current stream waits instead.
        """
        for part in self._parts:
            part.wait(timeout)
        if self._native is not None:
            milliseconds = int((timeout or self.default_timeout).total_seconds() * 1000)
            self._native.wait(milliseconds if milliseconds > 0 else -1)
        self._wait_on_stream()
        error = self._write_back()
        if error is not None:
            raise error
        return True

    def _wait_on_stream(self) -> None:
        """Lets the current stream wait for a call on its device."""
        if self._event is not None and self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._event)

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Returns whether the call has ended. The tensors have its results then, unless it failed."""
        if self._event is not None and not self._event.query():  # type: ignore[no-untyped-call]
            return False
        if not all(part.is_completed() for part in self._parts):
            return False
        if self._native is not None:
            if not self._native.is_completed():
                return False
            if self._native.exception() is not None:
                return True
        self._write_back()
        return True

    def is_success(self) -> bool:
        """Returns whether the call has ended without an exception."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Any:
        """Returns the exception of a call that failed."""
        failed = [part.exception() for part in self._parts]
        own = None if self._native is None else self._native.exception()
        return next((one for one in [*failed, own, self._error] if one is not None), None)

    def result(self) -> list[torch.Tensor]:
        """Returns the tensors of the call, with its results if it has ended."""
        self.is_completed()
        return list(self._tensors)

    def source_rank(self) -> int:
        """Waits for a receive, and returns the rank that its data came from."""
        if self._native is None:
            return 0
        self.wait()
        source: int = self._native.wait(-1)
        return source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Returns a future of the list of tensors, which fails with the text of the call's exception."""
        on_devices = [part for part in (self, *self._parts) if part._stream is not None]
        # The devices of a future must be known from the beginning, and their order is that of their numbers.
        devices: Any = sorted({part._stream.device for part in on_devices if part._stream}, key=lambda device: device.index)
        ended: torch.futures.Future[Any] = torch.futures.Future(devices=devices or None)
        if _SEARCH.is_active:
            _SEARCH.found = self
            return ended

        def result(future: torch.futures.Future[Any]) -> list[torch.Tensor]:
            value = future.value()
            if isinstance(value, BaseException):
                raise value
            failed = self._write_back()
            if failed is not None:
                raise failed
            return list(self._tensors)

        def finish(error: BaseException | None) -> None:
            if error is not None or not on_devices:
                ended.set_result([] if error is None else error)
                return
            try:
                # Callbacks run on streams of their own, which wait for the current stream on the devices of the tensors in the value.
                with torch.cuda.stream(torch.cuda.Stream(devices[0])):  # type: ignore[no-untyped-call]
                    for part in on_devices:
                        part._wait_on_stream()
                    ended.set_result(list(self._tensors))
            except RuntimeError as raised:
                # Of CUDA. Without a value, waits for the future have no end.
                if not ended.done():
                    ended.set_result(raised)

        # An exception set on a future of Python is a value for C++; that of a callback is an error there as well.
        future: torch.futures.Future[list[torch.Tensor]] = ended.then(result)
        pending = [part for part in self._parts if part._native is not None]
        if pending:
            self._finish_after(pending, finish)
        elif self._native is None:
            finish(None)
        else:
            self._native.then(finish)
        return future

    def _finish_after(self, pending: list[Work], finish: Any) -> None:
        left, lock, errors = [len(pending)], threading.Lock(), []

        def one_ended(error: BaseException | None) -> None:
            with lock:
                left[0] -= 1
                errors.append(error)
                is_last = left[0] == 0
            if is_last:
                failed = next((one for one in errors if one is not None), None)
                if failed is None:
                    written = [part._write_back() for part in self._parts]
                    failed = next((one for one in written if one is not None), None)
                finish(failed)

        for part in pending:
            part._native.then(one_ended)
