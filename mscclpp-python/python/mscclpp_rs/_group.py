"""Methods of a process group with a tensor in place of a list, and with arguments in place of options.

From PyTorch 2.14 on, its own process group turns them into those of a backend. Before, the backend is the process group.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

#: The methods: the number of arguments before the options, the class of the options, and the arguments in place of them with the
#: fields that they are.
_METHODS: dict[str, tuple[int, Any, dict[str, str]]] = {
    "broadcast": (1, c10d.BroadcastOptions, {"root": "rootRank"}),
    "allreduce": (1, c10d.AllreduceOptions, {"op": "reduceOp"}),
    "reduce": (1, c10d.ReduceOptions, {"root": "rootRank", "op": "reduceOp"}),
    "allgather": (2, c10d.AllgatherOptions, {}),
    "gather": (2, c10d.GatherOptions, {"root": "rootRank"}),
    "scatter": (2, c10d.ScatterOptions, {"root": "rootRank"}),
    "reduce_scatter": (2, c10d.ReduceScatterOptions, {"op": "reduceOp"}),
    "alltoall_base": (4, c10d.AllToAllOptions, {}),
    "barrier": (0, c10d.BarrierOptions, {}),
}


def with_short_calls(backend: Any) -> Any:
    """Returns a class of a backend whose methods also accept what those of a process group do."""
    methods = {name: _with_short_calls(getattr(backend, name), *of) for name, of in _METHODS.items()}
    return functools.update_wrapper(type(backend.__name__, (backend,), methods), backend, updated=())


def _with_short_calls(method: Any, count: int, kind: Any, fields: dict[str, str]) -> Any:
    fields = {**fields, "timeout": "timeout"}

    @functools.wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        tensors, values = list(args[:count]), args[count:]
        if "opts" in named or values and isinstance(values[0], kind):
            return method(self, *args, **named)
        if len(values) > len(fields):
            raise TypeError(f"{method.__name__}: expected at most {count + len(fields)} arguments, found {len(args)}")
        # All of them are lists, except those of `alltoall_base`.
        if count <= 2 and any(isinstance(tensor, torch.Tensor) for tensor in tensors):
            tensors = [[tensor] for tensor in tensors]
        given = dict(zip(fields, values))
        given.update((name, named.pop(name)) for name in list(named) if name in fields)
        opts = kind()
        for name, value in given.items():
            if value is not None:
                setattr(opts, fields[name], value)
        return method(self, *tensors, opts=opts, **named)

    return call
