"""Collectives. An all-reduce and a broadcast have `chunk_factor` chunks in all, the others for each part."""

__all__ = ["AllGather", "AllReduce", "AllToAll", "Broadcast", "Collective", "ReduceScatter", "SendRecv"]


class Collective:
    """A collective of `num_ranks` ranks; `inplace`: input and output of a call are one buffer."""

    name = ""

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool, *, root: int = 0) -> None:
        self.num_ranks = num_ranks
        self.chunk_factor = chunk_factor
        self.inplace = inplace
        self.root = root


class AllReduce(Collective):
    """Every rank ends with the reduction of all inputs."""

    name = "allreduce"


class AllGather(Collective):
    """Every rank ends with all inputs, one after the other."""

    name = "allgather"


class ReduceScatter(Collective):
    """Rank `r` ends with part `r` of the reduction of all inputs."""

    name = "reducescatter"


class AllToAll(Collective):
    """Rank `r` ends with part `r` of every rank's input."""

    name = "alltoall"


class SendRecv(Collective):
    """Rank `r` sends its input to rank `r + 1` modulo the number of ranks."""

    name = "sendrecv"


class Broadcast(Collective):
    """Every rank ends with the input of rank `root`."""

    name = "broadcast"

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool, root: int) -> None:
        super().__init__(num_ranks, chunk_factor, inplace, root=root)
