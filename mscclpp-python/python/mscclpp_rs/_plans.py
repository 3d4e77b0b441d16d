"""Running plans on buffers of Python: what supports the buffer protocol, numpy arrays and tensors of PyTorch on the CPU."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ._native import Plan, plan_sizes, run_plan, time_plan, type_size

__all__ = ["Timing", "run", "sizes", "time"]

# Formats of the buffer protocol in the byte order of the machine, by size where that depends on it.
_FORMATS = {"b": "int8", "B": "uint8", "?": "uint8", "c": "uint8", "e": "float16", "f": "float32", "d": "float64"}
_INTEGERS = {("i", 4): "int32", ("i", 8): "int64", ("u", 4): "uint32", ("u", 8): "uint64"}
# The other way, for results; of other types the result is bytes, because Python has no format for them.
_CASTS = {
    "int8": "b",
    "uint8": "B",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
# Names of types of numpy's extensions and of PyTorch, where they are not those of this package.
_NAMES = {"float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "bool": "uint8"}


@dataclass(frozen=True)
class Timing:
    """Seconds of each launch of a plan, all ranks in this process."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median in seconds."""
        return statistics.median(self.seconds)

    @property
    def minimum(self) -> float:
        """The shortest in seconds."""
        return min(self.seconds)


def run(
    plan: Plan,
    inputs: Sequence[Any],
    *,
    dtype: str | None = None,
    count: int | None = None,
    op: str | None = None,
    accumulate: str = "native",
    workers: int | None = None,
) -> list[Any]:
    """Runs a plan once on the CPU and returns the output of each rank.

    `inputs`: one for each rank, all of one type and length: numpy arrays, tensors of PyTorch on the CPU, or any objects
    with the buffer protocol; contiguous. The outputs are of the same kind, and one-dimensional unless they are as long as
    the inputs. `dtype`: the name of the elements' type, such as `float32`; that of the inputs unless given.
    `count`: the elements of the message, the larger of a rank's input and output; what the inputs imply unless given.
    `op`: sum, prod, min, max or avg, for plans whose reductions are all sums. `accumulate`: `native`, `f32` or `f64`, the
    type in which elements are combined. `workers`: threads.

    The plan's range of message sizes is ignored. Raises `TypeError` and `ValueError` for inputs that do not fit, and
    `mscclpp_rs.Error` if the plan cannot make progress.
    """
    # The rows of an array of two dimensions are inputs as well.
    found = [_buffer(value) for value in inputs]
    if not found:
        raise ValueError(f"expected an input for each of {plan.num_ranks} ranks, found none")
    names = {name for _, name, _ in found}
    if dtype is None:
        if len(names) != 1:
            raise TypeError(f"expected inputs of one type, found {', '.join(sorted(names))}")
        dtype = names.pop()
    else:
        dtype = _NAMES.get(dtype, dtype)
    length = found[0][0].nbytes
    if count is None:
        count = _count(plan, length, dtype)
    views = [view for view, _, _ in found]
    outputs = run_plan(plan, views, (dtype, count, op, accumulate, workers))
    return [rebuild(output, dtype) for (_, _, rebuild), output in zip(found, outputs, strict=True)]


def time(
    plan: Plan,
    count: int,
    *,
    dtype: str = "float32",
    op: str | None = None,
    accumulate: str = "native",
    workers: int | None = None,
    warmup: int = 5,
    launches: int = 20,
) -> Timing:
    """Measures launches of a plan on the CPU, all ranks in this process.

    `count`: the elements of the message, the larger of a rank's input and output. Says nothing about devices or about
    ranks as processes. Raises as `run` does.
    """
    if launches < 1 or warmup < 0:
        raise ValueError(f"expected at least 1 launch after 0 or more others, found {launches} after {warmup}")
    message = (_NAMES.get(dtype, dtype), count, op, accumulate, workers)
    return Timing(tuple(time_plan(plan, message, warmup, launches)))


def sizes(plan: Plan, count: int, *, dtype: str = "float32") -> tuple[int, int]:
    """Returns the elements of a rank's input and output for a message of `count` elements.

    Raises `mscclpp_rs.Error` for a message that the plan cannot divide.
    """
    return plan_sizes(plan, _NAMES.get(dtype, dtype), count)


def _count(plan: Plan, nbytes: int, dtype: str) -> int:
    """Returns the elements of the message that an input of a length implies."""
    size = type_size(dtype)
    if nbytes % size:
        raise ValueError(f"expected inputs of whole elements of {size} bytes, found {nbytes} bytes")
    num_input, num_output, _ = plan.chunks()
    count = nbytes // size
    if num_output <= num_input:
        return count
    if num_input == 0:
        raise ValueError("the plan has no input; give the elements of the message as count")
    if count * num_output % num_input:
        raise ValueError(f"expected an input that {num_input} chunks divide, found {count} elements")
    return count * num_output // num_input


_Rebuild = Callable[[bytearray, str], Any]


def _buffer(value: Any) -> tuple[memoryview, str, _Rebuild]:
    """Returns the bytes of an input, the name of its type, and what makes an output of the same kind."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_tensor(torch, value)
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError) as error:
        return _of_numpy(value, error)
    if not view.c_contiguous:
        raise ValueError("expected a contiguous input; copy it first")
    numpy = sys.modules.get("numpy")
    rebuild: _Rebuild = _to_view
    if numpy is not None and isinstance(value, numpy.ndarray):
        rebuild = _to_numpy(value.dtype, value.shape)
    return view.cast("B") if view.nbytes else memoryview(b""), _format(view), rebuild


def _format(view: memoryview) -> str:
    letter = view.format.lstrip("@=" + ("<" if sys.byteorder == "little" else ">"))
    known = _FORMATS.get(letter)
    if known is None and len(letter) == 1 and letter in "bhilqnBHILQN":
        known = _INTEGERS.get(("i" if letter.islower() else "u", view.itemsize))
    if known is None:
        raise TypeError(f"expected elements of a type such as float32, found the format {view.format!r}")
    return known


def _of_numpy(value: Any, error: Exception) -> tuple[memoryview, str, _Rebuild]:
    """Returns what `_buffer` does for an object that does not have the buffer protocol."""
    if not hasattr(value, "__dlpack__"):
        kind = type(value).__name__
        raise TypeError(f"expected an array, a tensor or an object with the buffer protocol, found {kind}") from error
    try:
        import numpy
    except ImportError:
        raise TypeError("objects that have DLPack alone need numpy; install it") from error
    # The buffer protocol has no letter for types of numpy's extensions, such as bfloat16.
    array = value if isinstance(value, numpy.ndarray) else numpy.from_dlpack(value)
    if not array.flags.c_contiguous:
        raise ValueError("expected a contiguous input; copy it first")
    name = array.dtype.name
    flat: Any = array.reshape(-1).view(numpy.uint8)
    view = memoryview(flat) if array.size else memoryview(b"")
    return view, _NAMES.get(name, name), _to_numpy(array.dtype, array.shape)


def _to_numpy(dtype: Any, shape: tuple[int, ...]) -> _Rebuild:
    def rebuild(output: bytearray, _: str) -> Any:
        import numpy

        # A sum of bytes that are 0 or 1 is a truth value as well, but not the byte of one.
        array = numpy.frombuffer(output, dtype=numpy.uint8) != 0 if dtype == bool else numpy.frombuffer(output, dtype=dtype)
        return array.reshape(shape) if array.size == _product(shape) else array

    return rebuild


def _of_tensor(torch: Any, tensor: Any) -> tuple[memoryview, str, _Rebuild]:
    if tensor.device.type != "cpu":
        raise ValueError(f"expected tensors on the CPU, found one on {tensor.device}; copy it with .cpu()")
    if not tensor.is_contiguous():
        raise ValueError("expected a contiguous tensor; copy it with .contiguous()")
    name = str(tensor.dtype).removeprefix("torch.")
    shape = tuple(tensor.shape)
    # A view may negate or conjugate what is read.
    flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)
    view = memoryview(flat.numpy()) if flat.numel() else memoryview(b"")

    def rebuild(output: bytearray, _: str) -> Any:
        if not output:
            made = torch.empty(0, dtype=tensor.dtype)
        elif tensor.dtype == torch.bool:
            made = torch.frombuffer(output, dtype=torch.uint8) != 0
        else:
            made = torch.frombuffer(output, dtype=tensor.dtype)
        return made.reshape(shape) if made.numel() == _product(shape) else made

    return view, _NAMES.get(name, name), rebuild


def _to_view(output: bytearray, dtype: str) -> Any:
    view: Any = memoryview(output)
    return view.cast(_CASTS[dtype]) if dtype in _CASTS else view


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for extent in shape:
        product *= extent
    return product


def _unpickle(image: bytes) -> Plan:
    """Loads a plan that was pickled. It was checked when it was made, or its author did without."""
    return Plan.load(image, check=False)
