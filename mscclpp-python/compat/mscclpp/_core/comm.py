"""Communicators, plans of a rank, and executors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mscclpp._core.types import DataType, PacketType, ReduceOp, native_reduction, native_type
from mscclpp_rs import Plan
from mscclpp_rs._native import AddressCommunicator, JobListener, Target

if TYPE_CHECKING:
    from mscclpp._core.native_host import HostCommunicator

__all__ = ["CommGroup", "Communicator", "ExecutionPlan", "Executor"]

# Long enough for the text of an id.
_MAX_ID = 256


class Communicator:
    """One rank of a job. `CommGroup` makes it; calls take it."""

    def __init__(self, native: AddressCommunicator) -> None:
        self._native = native
        #: That of native algorithms, once one has made a call.
        self.host: HostCommunicator | None = None

    @property
    def native(self) -> AddressCommunicator:
        """The communicator of `mscclpp_rs`."""
        return self._native


def checked(comm: object) -> Communicator:
    """Returns a communicator. Raises `TypeError` for anything else, such as the group itself."""
    if not isinstance(comm, Communicator):
        raise TypeError(f"expected the communicator of a CommGroup, found {comm!r}")
    return comm


class CommGroup:
    """Connects the ranks of a job: that of the environment (torchrun, `mpirun`, `srun`), unless one of three arguments says how:

    `torch_group`: a process group of PyTorch on the CPU, such as one of gloo, over which ranks learn rank 0's address.
    `mpi_comm`: a communicator of mpi4py, in the same way. `interfaceIpPortTrio`: `interface:ip:port` or `ip:port` of rank
    0, with `rank` and `size`; set `MSCCLPP_SECRET` to the same text on all ranks, so that no other process can join.

    `communicator` is for calls. `my_rank`, `nranks`, `nranks_per_node`, and `nranks_per_ipc_domain`, the ranks that access one
    another's memory. Raises `ValueError` for invalid arguments and `mscclpp_rs.Error` if the ranks do not connect.
    """

    def __init__(
        self,
        mpi_comm: Any = None,
        torch_group: Any = None,
        interfaceIpPortTrio: str = "",
        rank: int | None = None,
        size: int | None = None,
    ) -> None:
        given = [mpi_comm is not None, torch_group is not None, interfaceIpPortTrio != ""]
        if given.count(True) > 1:
            raise ValueError("expected one of mpi_comm, torch_group and interfaceIpPortTrio, or none")
        if not any(given):
            native = AddressCommunicator.from_env()
        elif mpi_comm is not None:
            native = _over_mpi(mpi_comm)
        elif torch_group is not None:
            native = _over_torch(torch_group)
        else:
            native = _at_address(interfaceIpPortTrio, rank, size)
        for name, expected, found in (("rank", native.rank, rank), ("size", native.size, size)):
            if found is not None and found != expected:
                raise ValueError(f"{name}: expected {expected}, that of the group, found {found}")
        self.communicator = Communicator(native)
        self.my_rank = native.rank
        self.nranks = native.size
        self.nranks_per_node = native.ranks_per_node
        self.nranks_per_ipc_domain = native.ranks_per_node
        self.ipc_domain_n_ranks = native.ranks_per_node

    def barrier(self) -> None:
        """Waits for all ranks."""
        self.communicator.native.barrier()

    def send(self, tensor: Any, peer: int, tag: int) -> None:
        """Sends the bytes of a contiguous array to a rank over the bootstrap's connections."""
        self.communicator.native.send(peer, tag, bytes(memoryview(tensor).cast("B")))

    def recv(self, tensor: Any, peer: int, tag: int) -> None:
        """Receives as many bytes as a contiguous array has. Raises `ValueError` for another number."""
        view = memoryview(tensor).cast("B")
        received = self.communicator.native.recv(peer, tag)
        if len(received) != view.nbytes:
            raise ValueError(f"expected {view.nbytes} bytes of rank {peer} with tag {tag}, found {len(received)}")
        view[:] = bytes(received)


def _over_mpi(comm: Any) -> AddressCommunicator:
    rank, size = comm.Get_rank(), comm.Get_size()
    listener = JobListener() if rank == 0 else None
    text = comm.bcast(listener.unique_id if listener is not None else None, 0)
    return _join(listener, text, rank, size)


def _over_torch(group: Any) -> AddressCommunicator:
    import torch
    import torch.distributed as dist

    rank, size = group.rank(), group.size()
    listener = JobListener() if rank == 0 else None
    data = torch.zeros(_MAX_ID, dtype=torch.uint8)
    if listener is not None:
        text = listener.unique_id.encode()
        data[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    dist.broadcast(data, src=dist.get_global_rank(group, 0), group=group)
    return _join(listener, bytes(data.tolist()).rstrip(b"\0").decode(), rank, size)


def _join(listener: JobListener | None, text: str, rank: int, size: int) -> AddressCommunicator:
    if listener is not None:
        return AddressCommunicator.listen(listener, size)
    return AddressCommunicator.join(text, rank, size)


def _at_address(trio: str, rank: int | None, size: int | None) -> AddressCommunicator:
    if rank is None or size is None:
        raise ValueError("expected rank and size with interfaceIpPortTrio")
    if size < 1 or not 0 <= rank < size:
        raise ValueError(f"expected a rank below the size, found rank {rank} of {size}")
    *_, host, port = ["", *trio.split(":")] if trio.count(":") == 1 else ["", *trio.split(":", 1)[-1].rsplit(":", 1)]
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"expected interface:ip:port, such as eth0:10.0.0.1:50000, found {trio!r}")
    return AddressCommunicator.connect(host, int(port), rank, size)


class ExecutionPlan:
    """A plan file. Loading makes all checks and raises `mscclpp_rs.PlanError` for a plan that fails one."""

    def __init__(self, planPath: str | os.PathLike[str], rank: int) -> None:
        self._set(Plan.load(Path(planPath)), rank)

    @classmethod
    def from_plan(cls, plan: Plan, rank: int) -> ExecutionPlan:
        """Returns the execution plan of a rank of a plan."""
        self = cls.__new__(cls)
        self._set(plan, rank)
        return self

    def _set(self, plan: Plan, rank: int) -> None:
        if not 0 <= rank < plan.num_ranks:
            raise ValueError(f"expected a rank in 0..{plan.num_ranks} of plan {plan.name}, found {rank}")
        self.plan = plan
        self.rank = rank
        self._target: Target | None = None

    @property
    def target(self) -> Target:
        """What calls with the plan take. Raises `mscclpp_rs.UnsupportedError` for a collective without calls."""
        if self._target is None:
            self._target = Target(self.plan, "", self.plan.collective)
        return self._target

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def collective(self) -> str:
        return self.plan.collective

    @property
    def min_message_size(self) -> int:
        return self.plan.min_message_size

    @property
    def max_message_size(self) -> int:
        return self.plan.max_message_size

    @property
    def is_in_place(self) -> bool:
        return self.plan.in_place


class Executor:
    """Executes plans of the ranks of a communicator."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = checked(comm)

    def execute(
        self,
        rank: int,
        send_buff: int,
        recv_buff: int,
        send_buff_size: int,
        recv_buff_size: int,
        data_type: DataType,
        plan: ExecutionPlan,
        stream: int = 0,
        packet_type: PacketType = PacketType.LL16,
    ) -> None:
        """Executes a plan on `send_buff_size` bytes at `send_buff` and `recv_buff_size` bytes at `recv_buff`.

        A call of all ranks, with one plan. On devices it is enqueued on `stream`, else it is complete when it returns.
        The memory must exist, and be used by nothing else, until then. The result does not depend on the packets. Raises
        `mscclpp_rs.Error`.
        """
        if rank != self._comm.native.rank:
            raise ValueError(f"expected rank {self._comm.native.rank}, that of the communicator, found {rank}")
        if not isinstance(plan, ExecutionPlan):
            raise TypeError(f"expected an ExecutionPlan, found {plan!r}")
        if packet_type not in (PacketType.LL8, PacketType.LL16):
            raise ValueError(f"expected PacketType.LL8 or PacketType.LL16, found {packet_type!r}")
        execute(
            self._comm,
            plan.target,
            (send_buff, send_buff_size),
            (recv_buff, recv_buff_size),
            data_type,
            ReduceOp.NOP,
            stream,
            short_packets=packet_type == PacketType.LL8,
        )

    def reset(self) -> None:
        """Releases what was prepared for earlier calls."""
        self._comm.native.reset()


def execute(
    comm: Communicator,
    target: Target,
    input: tuple[int, int],
    output: tuple[int, int],
    dtype: DataType,
    op: ReduceOp,
    stream: int,
    blocks: int | None = None,
    threads: int | None = None,
    short_packets: bool = False,
    symmetric: bool = False,
) -> None:
    """Makes a call with a plan or with a built-in algorithm."""
    native_dtype, native_op = native_type(dtype), native_reduction(op)
    comm.native.execute(target, input, output, native_dtype, native_op, stream, blocks, threads, short_packets, symmetric)
