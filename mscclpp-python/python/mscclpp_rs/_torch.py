"""The backend ``mscclpp`` of ``torch.distributed``."""

from __future__ import annotations

import atexit
import contextlib
import functools
import math
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.utils.dlpack import from_dlpack

from . import _native
from ._errors import Error, InvalidInputError, UnsupportedError, from_json, make_error, to_json
from ._group import with_short_calls
from ._lists import by_tensor, check_alike, check_list, check_pairs, check_single
from ._selection import nccl
from ._tensors import Buffers
from ._work import Work, answer_through_wrappers, keep_works_of_reducers

NAME = "mscclpp"
_UNSET = timedelta(milliseconds=-1)
_KEY = "mscclpp/unique_id"

# Key of the failure of ranks that have waited in vain for rank 0.
_ABSENT = "mscclpp/absent"
_RED_OP: Any = c10d.ReduceOp.RedOpType
_SUM: Any = _RED_OP.SUM
#: The numbers of native reductions, by those of PyTorch: a dictionary finds numbers faster than reductions.
_OPS: dict[int, int] = {
    op.value: number
    for number, op in enumerate(
        (_SUM, _RED_OP.AVG, _RED_OP.PRODUCT, _RED_OP.MIN, _RED_OP.MAX, _RED_OP.BAND, _RED_OP.BOR, _RED_OP.BXOR)
    )
}


def _base() -> type:
    """Returns the class to derive from: before 2.14 classes of Python cannot be backends, but process groups."""

    class Probe(c10d.Backend):
        pass

    try:
        Probe(0, 1)
    except TypeError:
        return _ProcessGroup
    return c10d.Backend


class _ProcessGroup(dist.ProcessGroup):
    """A process group that is its own backend, for versions of PyTorch whose backends cannot be classes of Python."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._texts = ["", "undefined"]

    def getGroupName(self) -> str:
        return self._texts[0]

    def setGroupName(self, name: str) -> None:
        self._texts[0] = name

    def getGroupDesc(self) -> str:
        return self._texts[1]

    def setGroupDesc(self, desc: str) -> None:
        self._texts[1] = desc

    @property
    def group_name(self) -> Any:
        return self._texts[0]

    @property
    def group_desc(self) -> str:
        return self._texts[1]

    _set_group_name = setGroupName
    _set_group_desc = setGroupDesc

    def _get_backend(self, device: torch.device) -> Any:
        return self


_BASE: Any = _base()
#: What a call that is not asynchronous returns when it is done: with none, PyTorch has nothing to wrap and to wait for. Before 2.14, it
#: needs a work.
_DONE: Work | None = None if _BASE is c10d.Backend else Work(None, [], None)
#: The backends of this process that have not been shut down.
_BACKENDS: weakref.WeakSet[Backend] = weakref.WeakSet()
#: The same by the names of their process groups.
_BY_GROUP: weakref.WeakValueDictionary[str, Backend] = weakref.WeakValueDictionary()


def _milliseconds(timeout: timedelta | None) -> int:
    """Returns a timeout for native calls: negative for that of the group."""
    if timeout == _UNSET or timeout is None:
        return -1
    return max(int(timeout.total_seconds() * 1000), 0)


def _timeout(opts: Any) -> int:
    return -1 if opts is None else _milliseconds(opts.timeout)


def _is_async(opts: Any) -> bool:
    return True if opts is None else opts.asyncOp


def _number(op: Any) -> int | None:
    """Returns the number of a native reduction; none for others."""
    # To compare takes half of the time of reading the number.
    if op == _SUM:
        return 0
    return _OPS.get(getattr(op, "op", op).value)


def _raising_at_end(transfer: Callable[..., Work | None]) -> Callable[..., Work | None]:
    """Makes a transfer after ``start_coalescing`` leave its exception to ``end_coalescing``.

    PyTorch's ``batch_isend_irecv`` does not end coalescing if a transfer raises, and later calls of the group would not be made.
    """

    @functools.wraps(transfer)
    def method(self: Backend, *arguments: Any, **named: Any) -> Work | None:
        try:
            return transfer(self, *arguments, **named)
        except Exception as error:
            if self._coalesced is None:
                raise
            self._refused.append(error)
            return _DONE

    return method


class Backend(_BASE):  # type: ignore[misc]
    """One rank's handle to a process group whose calls this package serves. ``torch.distributed`` makes and calls it.

    A call raises an ``mscclpp_rs.Error`` if it fails: at once if it is not asynchronous, otherwise from ``wait``.
    """

    def __init__(self, native: _native.Communicator, timeout: timedelta) -> None:
        super().__init__(native.rank, native.num_ranks)
        self._native = native
        self._rank = native.rank
        self._size = native.num_ranks
        self._timeout = timeout
        self._coalesced: list[Work] | None = None
        #: The exceptions of transfers since ``start_coalescing``.
        self._refused: list[Exception] = []
        #: The works of collective calls that have started and whose results belong to strided outputs, until they are written.
        self._unwritten: set[Work] = set()
        self._transfers: list[tuple[tuple[bool, torch.Tensor, int], Buffers | None]] = []
        self._options = c10d.Backend.Options(NAME, timeout)
        _BACKENDS.add(self)

    # What torch.distributed asks of a backend.

    def getBackendName(self) -> str:
        return NAME

    def name(self) -> str:
        return NAME

    if _BASE is c10d.Backend:

        @property
        def options(self) -> Any:
            return self._options

    @property
    def supports_coalescing(self) -> bool:
        return True

    @property
    def supports_shrinking(self) -> bool:
        return True

    @property
    def supports_splitting(self) -> bool:
        return _BASE is c10d.Backend

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def set_timeout(self, timeout: timedelta) -> None:
        """Replaces the timeout of the calls that follow."""
        self._timeout = timeout
        self._native.set_timeout(_milliseconds(timeout))

    _set_default_timeout = set_timeout

    def set_order(self, order: str) -> None:
        """Sets what the calls that follow demand of the order in which they reduce floats."""
        self._native.set_order(order)

    def register_plan(self, plan: _native.Plan, name: str | None) -> str:
        """Adds a plan for the calls that follow, and returns its name."""
        return self._native.register_plan(plan, name)

    def call_counts(self) -> dict[str, int]:
        """Returns how often each algorithm has served a call."""
        return self._native.call_counts()

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._native.num_calls

    def abort(self) -> None:
        """Ends the group for all its ranks: their calls raise ``RankLostError`` with this rank."""
        self._native.abort("torch.distributed: abort was called")
        self._native.close(False)

    def shutdown(self) -> None:
        """Leaves the group after the calls that were made so far."""
        self._native.close()
        _BACKENDS.discard(self)

    def shrink(self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: Any = None) -> Backend:
        """Returns a backend of the remaining ranks, all of which call this."""
        timeout = self._timeout if opts_override is None else opts_override._timeout
        return type(self)(self._native.shrink(list(ranks_to_exclude)), timeout)

    def perform_nocolor_split(self, device: Any) -> None:
        """Does nothing: a split is a call of the ranks that are in it."""

    def split(self, store: Any, ranks: Sequence[int], opts: Any) -> Backend | None:
        """Returns a backend of some of the ranks, in their order, all of which call this; none on other ranks."""
        if self._rank not in ranks:
            return None
        timeout = self._timeout if opts is None else opts._timeout
        part = _join(store, list(ranks).index(self._rank), len(ranks), timeout, "" if opts is None else opts.group_name)
        part.set_order(getattr(opts, "order", None) or self._native.order)
        return part

    def new_buffer(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Returns a tensor of zeros in registered memory, which calls on all of it use without copies. A call of all ranks.

        Calls on a part of it that they write use it without copies if the part begins at a multiple of 4096 bytes, and ends at one or
        at the end of the tensor. The memory is freed when all ranks have dropped their tensors.
        """
        size = dtype.itemsize
        for length in shape:
            size *= length
        if any(length < 0 for length in shape) or size == 0:
            raise InvalidInputError(f"new_buffer: expected a shape of positive lengths, found {shape}")
        return from_dlpack(self._native.new_buffer(size)).view(dtype).reshape(shape)

    # Collective calls.

    def _finish(self, work: Any, opts: Any, tensors: Any, buffers: Buffers | None = None) -> Work | None:
        """Returns the work of a native call."""
        if work is not None:
            done = Work(work, tensors, buffers)
            # Transfers have no options. A barrier does not wait for them.
            if opts is not None and buffers is not None and buffers.has_copies:
                self._write_at_end(done)
        else:
            if buffers is not None:
                buffers.write_back()
            if self._coalesced is None and not _is_async(opts):
                return _DONE
            done = Work.on_stream(tensors) if tensors and tensors[0].is_cuda else Work(None, tensors, None)
        if self._coalesced is not None:
            self._coalesced.append(done)
        return done

    def _write_at_end(self, work: Work) -> None:
        """Writes the results of a call when it has ended, because programs may drop a work without a wait, and call ``barrier``."""
        self._unwritten.add(work)

        def ended(error: BaseException | None) -> None:
            if error is None:
                work._write_back()
            self._unwritten.discard(work)

        work._native.then(ended)

    def _check_rank(self, call: str, what: str, rank: int) -> None:
        if not 0 <= rank < self._size:
            raise InvalidInputError(f"{call}: expected a {what} of 0 to {self._size - 1}, found {rank}")

    def _check_transfer(self, call: str, tensor: torch.Tensor, rank: int, tag: int) -> None:
        if tag < 0:
            raise InvalidInputError(f"{call}: expected a tag of 0 or more, found {tag}")
        if rank == self._rank and not tensor.is_cuda:
            raise InvalidInputError(f"{call}: expected another rank than {rank}, which makes the call; copy the tensor")

    def _root(self, call: str, opts: Any) -> int:
        root = 0 if opts is None else opts.rootRank
        self._check_rank(call, "root", root)
        return root

    def _op(self, opts: Any, tensors: Sequence[torch.Tensor], buffers: Buffers) -> tuple[int, list[torch.Tensor]]:
        """Returns the number of a reduction and its inputs, which are scaled for PREMUL_SUM."""
        op = _SUM if opts is None else opts.reduceOp
        number = _number(op)
        if number is not None:
            return number, list(tensors)
        try:
            factor = op.__getstate__()[1]
        except (AttributeError, TypeError, IndexError, RuntimeError):
            raise InvalidInputError(f"reduction: expected one of torch.distributed.ReduceOp, found {op}") from None
        return 0, [buffers.scaled(tensor, factor) for tensor in tensors]

    def allreduce(self, tensors: Any, opts: Any = None) -> Work | None:
        """Replaces the tensor by the reduction of all ranks' tensors."""
        if opts is not None and len(tensors) == 1:
            tensor, number, is_async = tensors[0], _number(opts.reduceOp), opts.asyncOp
            if number is not None and tensor.layout is torch.strided and tensor.is_contiguous():
                try:
                    work = self._native.all_reduce(tensor, number, _milliseconds(opts.timeout), is_async)
                    return _DONE if not is_async and self._coalesced is None else self._finish(work, opts, tensors)
                except ValueError as error:
                    # Of memory that is not aligned, which is copied below. To check it here would take longer than the rest.
                    if isinstance(error, Error):
                        raise
        check_single("all_reduce", tensors)
        return self.allreduce_coalesced(tensors, opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work | None:
        """Replaces each tensor by the reduction of all ranks' tensors."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        check_list("all_reduce", tensors)
        check_alike("all_reduce", tensors)
        if tensors[0].layout is not torch.strided:
            return self.allreduce_sparse(tensors, opts)
        buffers = Buffers()
        number, inputs = self._op(opts, tensors, buffers)
        inputs = [buffers.in_out(tensor, of) for tensor, of in zip(inputs, tensors)]
        work = self._native.all_reduce_coalesced(inputs, number, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, tensors, buffers)

    def allreduce_sparse(self, tensors: Any, opts: Any = None) -> Work | None:
        """Replaces each sparse tensor by the sum of all ranks' tensors, before it returns."""
        if opts is not None and opts.reduceOp.op != _RED_OP.SUM:
            raise InvalidInputError("all_reduce of sparse tensors: expected ReduceOp.SUM, found another reduction")
        for tensor in tensors:
            self._sum_sparse(tensor)
        return self._finish(None, opts, tensors)

    def _sum_sparse(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.sparse_coo:
            raise InvalidInputError(f"all_reduce: expected a strided or COO tensor, found {tensor.layout}")
        tensor_of_all = tensor.coalesce()
        indices, values = tensor_of_all.indices(), tensor_of_all.values()
        own = torch.tensor([values.shape[0], *tensor.shape], dtype=torch.int64)
        of_all = torch.empty((self._size, own.numel()), dtype=torch.int64)
        self._native.all_gather([(of_all, own)], -1, False)
        counts, shapes = of_all[:, 0], of_all[:, 1:].tolist()
        for rank, shape in enumerate(shapes):
            if shape != shapes[0]:
                reason = f"rank 0 has a sparse tensor of shape {shapes[0]}, rank {rank} one of {shape}"
                raise make_error("mismatch", f"all_reduce: {reason}", self._rank, "all_reduce", rank, reason, [])
        most = int(counts.max())

        def gather(part: torch.Tensor) -> torch.Tensor:
            padded = part.new_zeros((most, *part.shape[1:]))
            padded[: part.shape[0]] = part
            all_parts = part.new_empty((self._size * most, *part.shape[1:]))
            self._native.all_gather([(all_parts, padded)], -1, False)
            kept = [all_parts[rank * most : rank * most + int(counts[rank])] for rank in range(self._size)]
            return torch.cat(kept)

        all_indices, all_values = gather(indices.t().contiguous()), gather(values.contiguous())
        total = torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.shape).coalesce()
        tensor.copy_(total)

    def broadcast(self, tensors: Any, opts: Any = None) -> Work | None:
        """Replaces the tensor by that of rank ``opts.rootRank``."""
        check_single("broadcast", tensors)
        buffers, root = Buffers(), self._root("broadcast", opts)
        tensor = buffers.in_out(tensors[0], tensors[0], is_written=self._rank != root)
        work = self._native.broadcast(tensor, root, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, tensors, buffers)

    def reduce(self, tensors: Any, opts: Any = None) -> Work | None:
        """Replaces the tensor of rank ``opts.rootRank`` by the reduction of all ranks' tensors."""
        check_single("reduce", tensors)
        buffers, root = Buffers(), self._root("reduce", opts)
        number, inputs = self._op(opts, tensors, buffers)
        tensor = buffers.in_out(inputs[0], tensors[0], is_written=self._rank == root)
        work = self._native.reduce(tensor, number, root, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, tensors, buffers)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """Writes rank r's tensor to entry r of the list."""
        if isinstance(input_tensors, torch.Tensor):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        check_pairs("all_gather", output_tensors, input_tensors)
        buffers = Buffers()
        pairs = [
            ([buffers.output(output) for output in outputs], buffers.input(tensor))
            for outputs, tensor in zip(output_tensors, input_tensors)
        ]
        work = self._native.all_gather_list(pairs, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, [output for outputs in output_tensors for output in outputs], buffers)

    def allgather_coalesced(self, output_lists: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """Writes tensor i of rank r to entry i of list r."""
        lists = by_tensor("all_gather_coalesced", output_lists, self._size, len(input_tensors))
        return self.allgather(lists, input_tensors, opts)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        """Writes all ranks' inputs to the output, in the order of ranks."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work | None:
        """Writes all ranks' inputs to the outputs, in the order of ranks."""
        check_pairs("all_gather_into_tensor", outputs, inputs)
        buffers = Buffers()
        pairs = [(buffers.output(output), buffers.input(tensor)) for output, tensor in zip(outputs, inputs)]
        return self._finish(self._native.all_gather(pairs, _timeout(opts), _is_async(opts)), opts, outputs, buffers)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """Reduces all ranks' tensors r and writes the result to the output of rank r."""
        if isinstance(output_tensors, torch.Tensor):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        check_pairs("reduce_scatter", output_tensors, input_tensors)
        buffers, pairs, number = Buffers(), [], 0
        for output, inputs in zip(output_tensors, input_tensors):
            number, scaled = self._op(opts, inputs, buffers)
            pairs.append((buffers.output(output), [buffers.input(tensor) for tensor in scaled]))
        work = self._native.reduce_scatter_list(pairs, number, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, output_tensors, buffers)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        """Reduces all ranks' inputs and writes part r to the output of rank r."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work | None:
        """Reduces all ranks' inputs and writes part r to the outputs of rank r."""
        check_pairs("reduce_scatter_tensor", outputs, inputs)
        buffers = Buffers()
        number, scaled = self._op(opts, inputs, buffers)
        pairs = [(buffers.output(output), buffers.input(tensor)) for output, tensor in zip(outputs, scaled)]
        work = self._native.reduce_scatter(pairs, number, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, outputs, buffers)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Work | None:
        """Sends part r of the input to rank r, and writes what rank r sends to part r of the output."""
        buffers = Buffers()
        to, source = buffers.output(output), buffers.input(input)
        if output_splits or input_splits:
            outputs = self._parts(to, output_splits, "output")
            inputs = self._parts(source, input_splits, "input")
            work = self._native.all_to_all_list(outputs, inputs, _timeout(opts), _is_async(opts))
        else:
            work = self._native.all_to_all(to, source, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, [output], buffers)

    alltoall_base = all_to_all_single

    def all_to_all_rows(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_sizes: torch.Tensor,
        input_sizes: torch.Tensor,
        max_size: int | None = None,
    ) -> None:
        """Sends to rank r as many rows of the input as entry r of its sizes says; see ``mscclpp_rs.all_to_all_single``."""
        tensors = (output, input, output_sizes, input_sizes)
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
            found = ", ".join(type(tensor).__name__ for tensor in tensors)
            raise InvalidInputError(f"all_to_all_single: expected tensors of rows and of sizes, found {found}")
        devices = [tensor.device for tensor in tensors]
        if any(device != devices[0] for device in devices):
            raise InvalidInputError(f"all_to_all_single: expected tensors on one device, found {', '.join(map(str, devices))}")
        if input.dim() == 0 or output.shape[1:] != input.shape[1:] or 0 in input.shape[1:]:
            shapes = f"{list(input.shape)} and {list(output.shape)}"
            raise InvalidInputError(f"all_to_all_single: expected an input and an output of equal rows, found shapes {shapes}")
        buffers = Buffers()
        # Rows of the output that no rank sends keep their values.
        to, received = (buffers.in_out(tensor, tensor) for tensor in (output, output_sizes))
        source, sent = buffers.input(input), buffers.input(input_sizes)
        most = max(1, input.shape[0]) if max_size is None else max_size
        if not 1 <= most < 1 << 63:
            raise InvalidInputError(f"all_to_all_single: expected a maximum size of 1 to 2^63 - 1, found {most}")
        self._native.all_to_all_rows(to, source, received, sent, math.prod(input.shape[1:]), most, -1)
        self._finish(None, None, [output, output_sizes], buffers)

    def _parts(self, tensor: torch.Tensor, splits: Sequence[int], what: str) -> list[torch.Tensor]:
        rows = tensor.shape[0] if tensor.dim() else 0
        sizes = list(splits) or [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise InvalidInputError(
                f"all_to_all_single: expected {self._size} sizes of the {what} with the sum {rows}, found {sizes}"
            )
        return list(torch.split(tensor, sizes))

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """Sends tensor r to rank r, and writes what rank r sends to entry r of the outputs."""
        buffers = Buffers()
        outputs = [buffers.output(output) for output in output_tensors]
        inputs = [buffers.input(tensor) for tensor in input_tensors]
        work = self._native.all_to_all_list(outputs, inputs, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, output_tensors, buffers)

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """Writes rank r's tensor to entry r of the list of rank ``opts.rootRank``."""
        buffers, root = Buffers(), self._root("gather", opts)
        outputs = output_tensors[0] if self._rank == root and output_tensors else []
        to = [buffers.output(output) for output in outputs]
        source = buffers.input(input_tensors[0])
        work = self._native.gather(to, source, root, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, outputs, buffers)

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """Writes entry r of the list of rank ``opts.rootRank`` to the tensor of rank r."""
        buffers, root = Buffers(), self._root("scatter", opts)
        inputs = input_tensors[0] if self._rank == root and input_tensors else []
        source = [buffers.input(tensor) for tensor in inputs]
        to = buffers.output(output_tensors[0])
        work = self._native.scatter(to, source, root, _timeout(opts), _is_async(opts))
        return self._finish(work, opts, output_tensors, buffers)

    def barrier(self, opts: Any = None) -> Work | None:
        """Waits until all ranks have made this call, and until the earlier collective calls have written their results."""
        self._native.synchronize()
        started = list(self._unwritten)
        work = self._finish(self._native.barrier(_timeout(opts), _is_async(opts)), opts, [])
        if started and work is not None and work is not _DONE:
            return Work.of_all([*started, work])
        self._write_all(started)
        return work

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """Waits until all ranks have made this call; the exception names a rank that is late."""
        self._native.synchronize()
        started = list(self._unwritten)
        self._native.barrier(_timeout(opts), False)
        self._write_all(started)

    @staticmethod
    def _write_all(ended: Sequence[Work]) -> None:
        """Writes the results of calls that a barrier has followed. What that raises, their waits raise."""
        for work in ended:
            work.is_completed()

    # Transfers.

    @_raising_at_end
    def send(self, tensors: Any, dst_rank: int, tag: int = 0) -> Work | None:
        """Sends a tensor to a rank, which receives it with the same tag; tensors on devices in the order of their calls.

        On devices, sends that exceed the buffer of 4 MiB occupy their stream until they are received: ranks that exchange such
        tensors use ``batch_isend_irecv``.
        """
        self._check_rank("send", "destination", dst_rank)
        self._check_transfer("send", tensors[0], dst_rank, tag)
        tensor = Buffers().input(tensors[0])
        if tensor.is_cuda:
            return self._transfer_on_device((True, tensor, dst_rank), tensors, None)
        return self._finish(self._native.send(tensor, dst_rank, tag), None, tensors)

    @_raising_at_end
    def recv(self, tensors: Any, src_rank: int, tag: int = 0) -> Work | None:
        """Receives a tensor from a rank."""
        self._check_rank("recv", "source", src_rank)
        self._check_transfer("recv", tensors[0], src_rank, tag)
        return self._recv(tensors, src_rank, tag)

    def _recv(self, tensors: Any, src_rank: int, tag: int) -> Work | None:
        buffers = Buffers()
        tensor = buffers.output(tensors[0])
        if tensor.is_cuda:
            return self._transfer_on_device((False, tensor, src_rank), tensors, buffers)
        return self._finish(self._native.recv(tensor, src_rank, tag), None, tensors, buffers)

    def _transfer_on_device(self, transfer: tuple[bool, torch.Tensor, int], tensors: Any, buffers: Buffers | None) -> Work | None:
        if transfer[2] < 0:
            raise UnsupportedError("recv on a device: expected a source, found any; receive into a tensor on the CPU")
        if self._coalesced is None:
            self._native.transfer_on_device([transfer])
            return self._finish(None, None, tensors, buffers)
        # Ranks that exchange tensors on devices do it together.
        self._transfers.append((transfer, buffers))
        return _DONE

    @_raising_at_end
    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work | None:
        """Receives a tensor from any rank. A wait for it raises ``TimeoutError`` after the timeout of the group, and leaves it."""
        self._check_transfer("recv", tensors[0], -1, tag)
        work = self._recv(tensors, -1, tag)
        if work is not None:
            # The native receive has no end: that a rank sends nothing is no failure of that rank.
            work.default_timeout = self._timeout
        return work

    # Calls that are waited for together.

    def start_coalescing(self, device: Any = None) -> None:
        """Begins to collect the works of calls."""
        self._coalesced = []
        self._refused = []
        self._transfers = []

    def end_coalescing(self, device: Any = None) -> Work:
        """Returns a work that ends with all calls since ``start_coalescing``. Raises the first exception of a transfer among them."""
        works, self._coalesced = self._coalesced or [], None
        transfers, self._transfers = self._transfers, []
        refused, self._refused = self._refused, []
        if refused:
            raise refused[0]
        if transfers:
            self._native.transfer_on_device([transfer for transfer, _ in transfers])
            for _, buffers in transfers:
                if buffers is not None:
                    buffers.write_back()
            works.append(Work.on_stream([tensor for (_, tensor, _), _ in transfers]))
        return Work.of_all(works)

    _start_coalescing = start_coalescing
    _end_coalescing = end_coalescing


#: The class of the backends.
_CLASS: Any = Backend if _BASE is c10d.Backend else with_short_calls(Backend)


def _join(store: Any, rank: int, size: int, timeout: timedelta, name: str) -> Backend:
    """Returns the backend of a new process group. Rank 0 gives the others its address and a secret through the store."""
    native = _lead(store, size, timeout) if rank == 0 else _follow(store, rank, size, timeout)
    # No rank may leave this group and read the key for the next one before it is deleted.
    native.barrier(-1, False)
    backend: Backend = _CLASS(native, timeout)
    _BY_GROUP[name] = backend
    return backend


def _lead(store: Any, size: int, timeout: timedelta) -> _native.Communicator:
    """Lets the others join, as rank 0."""
    failure = _known(store, _ABSENT, 0)
    if failure is not None:
        # The group may be created again.
        with contextlib.suppress(RuntimeError):
            store.delete_key(_ABSENT)
        raise failure
    listener = _native.Listener()
    unique_id = listener.unique_id()
    store.set(_KEY, unique_id)
    try:
        native = _native.Communicator.from_listener(listener, size, max(_milliseconds(timeout), 1))
    except Error as error:
        # Ranks that are late learn the cause that the others know, if the store is still there.
        with contextlib.suppress(RuntimeError):
            store.set(_KEY + unique_id, to_json(error))
        raise
    # All ranks have read it. One that joins the next group of this name must not find it.
    with contextlib.suppress(RuntimeError):
        store.delete_key(_KEY)
    return native


def _follow(store: Any, rank: int, size: int, timeout: timedelta) -> _native.Communicator:
    """Joins rank 0."""
    try:
        store.wait([_KEY], timeout)
    except dist.DistStoreError as error:
        reason = f"rank 0 has not begun to create the process group within {timeout.total_seconds():g} s"
        failure = make_error("timeout", f"join: {reason}", rank, "join", 0, reason, [])
        with contextlib.suppress(RuntimeError):
            store.set(_ABSENT, to_json(failure))
        raise failure from error
    unique_id = store.get(_KEY).decode()
    try:
        return _native.Communicator.join(unique_id, rank, size, max(_milliseconds(timeout), 1))
    except Error as error:
        raise _known(store, _KEY + unique_id, rank) or error from None


def _known(store: Any, key: str, rank: int) -> Error | None:
    """Returns the failure to create the group that another rank has stored, if there is one."""
    # Not all stores can be asked, and this one may have ended with its rank.
    with contextlib.suppress(RuntimeError):
        if store.check([key]):
            return from_json(store.get(key), rank)
    return None


def _create(opts: Any, backend_options: Any) -> Backend:
    backend = _join(opts.store, opts.group_rank, opts.group_size, opts.timeout, opts.group_id)
    order = getattr(backend_options, "order", None)
    if order is not None:
        backend.set_order(order)
    return backend


class Options(c10d.Backend.Options):
    """What a process group of this backend demands: ``init_process_group("mscclpp", pg_options=Options("rank-order"))``."""

    def __init__(self, order: str | None = None) -> None:
        super().__init__(NAME)
        self.order = order


def find_backend(group: dist.ProcessGroup | None) -> Backend | None:
    """Returns the backend of a process group, by default of all ranks; ``None`` if the group is served by NCCL's interface of this project, or
    no group is named and there is none. Raises ``InvalidInputError`` if another backend serves it."""
    if group is None and not dist.is_initialized():
        return None
    of = dist.distributed_c10d._get_default_group() if group is None else group
    if of.group_name not in _BY_GROUP and "nccl" in dist.get_backend(of) and nccl() is not None:
        return None
    return backend_of(group)


def backend_of(group: dist.ProcessGroup | None = None) -> Backend:
    """Returns the backend of a process group, by default of all ranks. Raises ``InvalidInputError`` if another one serves it."""
    of = dist.distributed_c10d._get_default_group() if group is None else group
    backend = _BY_GROUP.get(of.group_name)
    if backend is None:
        raise InvalidInputError(f"process group {of.group_name}: expected the backend {NAME}, found {dist.get_backend(of)}")
    return backend


def register() -> None:
    """Registers the backend. Later calls change nothing."""
    if NAME.upper() in dist.Backend._plugins:
        return
    _native.use_tensors(torch.Tensor, torch.are_deterministic_algorithms_enabled)
    if _BASE is c10d.Backend:
        answer_through_wrappers()
    else:
        keep_works_of_reducers()
    defaults = dict(dist.Backend.default_device_backend_map)
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])
    # Programs that name no backend get the one that they got before.
    dist.Backend.default_device_backend_map.clear()
    dist.Backend.default_device_backend_map.update(defaults)


def autoload() -> None:
    """Registers the backend when torch is imported, for versions that do not find it by its name."""
    if not hasattr(dist.Backend, "_ensure_backend_registered"):
        register()


def _shut_down() -> None:
    if os.getpid() != _PROCESS:
        return
    # After an exception that nothing caught, other ranks may never receive what is buffered.
    waits = getattr(sys, "last_value", None) is None
    for backend in list(_BACKENDS):
        backend._native.close(waits)
        _BACKENDS.discard(backend)
    _native.end_callbacks()


#: Copies of this process, made by fork, have nothing to shut down.
_PROCESS = os.getpid()
atexit.register(_shut_down)
