"""Methods of a process group with a tensor in place of a list, and with arguments in place of options.

From PyTorch 2.14 on, its own process group turns them into those of a backend. Before, the backend is the process group.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from ._errors import InvalidInputError


def with_short_calls(backend: Any) -> Any:
    """Returns a class of a backend whose methods also accept what those of a process group do."""

    class Group(backend):  # type: ignore[misc]
        __doc__ = backend.__doc__

        def broadcast(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, *, root: int | None = None) -> Any:
            opts = _options(c10d.BroadcastOptions, opts, timeout, rootRank=root)
            return super().broadcast(_listed(tensors), opts)

        def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, *, op: Any = None) -> Any:
            opts = _options(c10d.AllreduceOptions, opts, timeout, reduceOp=op)
            return super().allreduce(_listed(tensors), opts)

        def reduce(
            self, tensors: Any, opts: Any = None, op: Any = None, timeout: timedelta | None = None, *, root: int | None = None
        ) -> Any:
            opts = _options(c10d.ReduceOptions, opts, timeout, rootRank=root, reduceOp=op)
            return super().reduce(_listed(tensors), opts)

        def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, *, timeout: timedelta | None = None) -> Any:
            return super().allgather(output_tensors, input_tensors, _options(c10d.AllgatherOptions, opts, timeout))

        def gather(
            self,
            output_tensors: Any,
            input_tensors: Any,
            opts: Any = None,
            timeout: timedelta | None = None,
            *,
            root: int | None = None,
        ) -> Any:
            if isinstance(input_tensors, torch.Tensor):
                output_tensors, input_tensors = [output_tensors], [input_tensors]
            return super().gather(output_tensors, input_tensors, _options(c10d.GatherOptions, opts, timeout, rootRank=root))

        def scatter(
            self,
            output_tensors: Any,
            input_tensors: Any,
            opts: Any = None,
            timeout: timedelta | None = None,
            *,
            root: int | None = None,
        ) -> Any:
            if isinstance(output_tensors, torch.Tensor):
                output_tensors, input_tensors = [output_tensors], [input_tensors]
            return super().scatter(output_tensors, input_tensors, _options(c10d.ScatterOptions, opts, timeout, rootRank=root))

        def reduce_scatter(
            self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None, *, op: Any = None
        ) -> Any:
            opts = _options(c10d.ReduceScatterOptions, opts, timeout, reduceOp=op)
            return super().reduce_scatter(output_tensors, input_tensors, opts)

        def alltoall_base(
            self,
            output: torch.Tensor,
            input: torch.Tensor,
            output_split_sizes: Sequence[int],
            input_split_sizes: Sequence[int],
            opts: Any = None,
            *,
            timeout: timedelta | None = None,
        ) -> Any:
            opts = _options(c10d.AllToAllOptions, opts, timeout)
            return super().alltoall_base(output, input, output_split_sizes, input_split_sizes, opts)

        def barrier(self, opts: Any = None, *, timeout: timedelta | None = None) -> Any:
            return super().barrier(_options(c10d.BarrierOptions, opts, timeout))

    Group.__name__ = backend.__name__
    Group.__qualname__ = backend.__qualname__
    Group.__module__ = backend.__module__
    return Group


def _listed(tensors: Any) -> Any:
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _options(kind: Any, opts: Any, timeout: timedelta | None, **fields: Any) -> Any:
    """Returns the options of a call.

    Args:
        opts: options, or the value of the first field; of the timeout if there are no fields.
        fields: arguments in place of options, by the names of fields.
    """
    if opts is None or isinstance(opts, kind):
        given = {name: value for name, value in {**fields, "timeout": timeout}.items() if value is not None}
        if not given:
            return opts
        if opts is not None:
            raise InvalidInputError(f"{kind.__name__}: expected them or arguments, found both: {', '.join(given)}")
    else:
        given = {next(iter(fields), "timeout"): opts}
        given.update((name, value) for name, value in {**fields, "timeout": timeout}.items() if value is not None)
    made = kind()
    for name, value in given.items():
        setattr(made, name, value)
    return made
