"""The communicator of native algorithms: what the host's classes of `include/mscclpp/core.hpp` call.

Ranks exchange memory in rounds, each a call of all ranks: a rank that waits for memory of another one takes part in rounds until it has it,
and a rank whose functions have returned until those of all ranks have.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from mscclpp_rs import Error, InvalidInputError, MismatchError, UnsupportedError
from mscclpp_rs._native import AddressCommunicator, KernelChannels, KernelRegions, KernelWindow

__all__ = ["HostCommunicator"]

# Semaphores with each rank in a set of channels.
_SEMAPHORES = 256
# Memory of another rank: its address here and there, its bytes, and what keeps it mapped.
_Memory = tuple[int, int, int, KernelRegions]
# Tags of messages of programs are not those of other messages of the communicator.
_TAGS = 1 << 40


class HostCommunicator:
    """One rank's memory and channels for kernels, which exist until this is dropped."""

    def __init__(self, native: AddressCommunicator) -> None:
        self._native = native
        self.rank, self.size = native.rank, native.size
        self.ranks_per_node = native.ranks_per_node
        # What this rank has sent since the last round: rank, tag, address, bytes.
        self._sent: list[tuple[int, int, int, int]] = []
        # What has arrived, by rank and tag.
        self._arrived: dict[tuple[int, int], deque[_Memory]] = {}
        # Futures in the order in which they take what arrives: rank and tag by number, and what was found.
        self._awaited: dict[tuple[int, int], deque[int]] = {}
        self._futures: list[tuple[int, int]] = []
        self._found: dict[int, _Memory] = {}
        # Semaphores with each rank: how many both have built, and the tags of those since.
        self._agreed = [0] * self.size
        self._built: list[list[int]] = [[] for _ in range(self.size)]
        # Sets of channels by kind.
        self._channels: dict[str, list[KernelChannels]] = {"memory_channel": [], "port_channel": []}
        self._needed = {"memory_channel": 0, "port_channel": 0}
        # Memory to be bound to a multicast address: what this rank waits for, and what has been bound since.
        self._window: tuple[int, int] | None = None
        self._bound: KernelWindow | None = None
        self._is_connecting = False

    # Messages.

    def send(self, peer: int, tag: int, data: bytes) -> None:
        self._native.send(self._other(peer), _TAGS + self._tag(tag), data)

    def recv(self, peer: int, tag: int) -> bytes:
        return bytes(self._native.recv(self._other(peer), _TAGS + self._tag(tag)))

    def all_gather(self, data: bytes) -> bytes:
        return b"".join(self._native.all_gather(data))

    def barrier(self) -> None:
        self._native.barrier()

    # Memory.

    def register_memory(self, address: int, nbytes: int) -> None:
        if address == 0 or nbytes == 0:
            raise InvalidInputError(f"registerMemory: expected the address of at least 1 byte, found {nbytes} bytes at {address:#x}")
        if address + nbytes >= 1 << 64:
            # Later, in a round of all ranks, it would fail on this one alone.
            raise InvalidInputError(
                f"registerMemory: expected a range that ends below 2^64, found {nbytes} bytes at {address:#x}; pass the bytes of the allocation"
            )

    def send_memory(self, address: int, nbytes: int, peer: int, tag: int) -> None:
        self._connecting("sendMemory")
        self._sent.append((self._other(peer), self._tag(tag), address, nbytes))

    def recv_memory(self, peer: int, tag: int) -> int:
        self._connecting("recvMemory")
        key = (self._other(peer), self._tag(tag))
        number = len(self._futures)
        self._futures.append(key)
        self._awaited.setdefault(key, deque()).append(number)
        return number

    def resolve(self, number: int) -> _Memory:
        """Returns the memory of a future, when the rank has sent it. What keeps it mapped is the caller's."""
        self._deliver()
        while number not in self._found:
            peer, tag = self._futures[number]
            self._connecting("get of recvMemory")
            self._round({"waits": f"memory of rank {peer} with tag {tag}"})
        # Copies of a future share what the first one gets.
        return self._found.pop(number)

    def bind(self, address: int, nbytes: int) -> tuple[int, KernelWindow]:
        """Returns the multicast address of memory of all ranks, when all have come to bind theirs, and what keeps it bound."""
        self._connecting("bindAllocatedMemory")
        self.register_memory(address, nbytes)
        self._window, self._bound = (address, nbytes), None
        while self._bound is None:
            self._round({"waits": f"a switch channel of {nbytes} bytes of all ranks"})
        window, self._bound = self._bound, None
        if window.multicast_address == 0:
            raise UnsupportedError(
                "bindAllocatedMemory: expected memory of GpuBuffer or RawGpuBuffer on devices with multicast objects, all of one node, found "
                f"{nbytes} bytes at {address:#x} without a multicast address"
            )
        return window.multicast_address, window

    # Channels.

    def build_semaphore(self, peer: int, tag: int) -> int:
        self._connecting("buildSemaphore")
        built = self._built[self._other(peer)]
        built.append(self._tag(tag))
        return self._agreed[peer] + len(built) - 1

    def memory_channel(self, peer: int, index: int) -> bytes:
        return self._channel("memory_channel", peer, index).memory(peer, index % _SEMAPHORES)

    def port_channel(self, peer: int, index: int) -> bytes:
        return self._channel("port_channel", peer, index).port(peer, index % _SEMAPHORES)

    def _channel(self, kind: str, peer: int, index: int) -> KernelChannels:
        sets = self._channels[kind]
        self._needed[kind] = max(self._needed[kind], index // _SEMAPHORES + 1)
        while len(sets) < self._needed[kind]:
            self._connecting("deviceHandle of a channel")
            self._round({"waits": f"channels with rank {peer}"})
        return sets[index // _SEMAPHORES]

    def check(self) -> None:
        """Raises `mscclpp_rs.Error` with the channel if a kernel has waited longer than the timeout."""
        for channels in (*self._channels["memory_channel"], *self._channels["port_channel"]):
            channels.check()

    def synchronize(self, stream: int) -> None:
        """Waits until the work of a stream is complete, and checks it. A kernel that waits for another rank ends at the timeout."""
        try:
            self._native.synchronize(stream)
        except Error:
            # The driver reports a failed launch; the channel is its cause.
            self.check()
            raise
        self.check()

    # Calls of functions that connect ranks.

    def begin(self) -> None:
        self._is_connecting = True

    def end(self) -> None:
        """Takes part in rounds until all ranks have come to the end."""
        if self._is_connecting:
            while not self._round({"done": True}):
                pass
            for peer, built in enumerate(self._built):
                self._agreed[peer] += len(built)
                built.clear()
            self._is_connecting = False

    def fail(self, reason: str) -> None:
        """Ends the rounds of all ranks because a function of this rank has failed."""
        if self._is_connecting:
            try:
                self._round({"failed": reason})
            except Error:
                # The caller raises its own.
                pass

    def _round(self, state: dict[str, Any]) -> bool:
        """Makes a round of all ranks. Returns whether all have come to the end. Raises the same on all ranks."""
        message = state | {
            "sent": [(peer, tag, nbytes) for peer, tag, _, nbytes in self._sent],
            "needed": [self._needed["memory_channel"], self._needed["port_channel"]],
            "built": self._built,
            "window": 0 if self._window is None else self._window[1],
        }
        messages = [json.loads(data) for data in self._native.all_gather(json.dumps(message).encode())]
        own, self._sent = self._sent, []
        try:
            self._check_round(messages)
            has_moved = any(other["sent"] for other in messages)
            if has_moved:
                self._share(own, messages)
            has_moved = self._connect(messages) or has_moved
            has_moved = self._bind(messages) or has_moved
            self._deliver()
            if not has_moved:
                self._check_progress(messages)
        except BaseException:
            self._forget(messages)
            raise
        return not any("done" not in other for other in messages)

    def _check_round(self, messages: list[dict[str, Any]]) -> None:
        for rank, other in enumerate(messages):
            if "failed" in other:
                text = f"rank {rank} has failed in the functions of a native algorithm that connect ranks: {other['failed']}"
                raise Error(text, rank=self.rank, operation="Algorithm.execute", root_cause=rank, reason=str(other["failed"]))
        if any("done" not in other for other in messages):
            return
        for rank in range(self.size):
            for peer in range(rank):
                tags, others = messages[rank]["built"][peer], messages[peer]["built"][rank]
                if tags != others:
                    raise MismatchError(
                        f"buildSemaphore: expected ranks {peer} and {rank} to build semaphores with the same tags in one order, found "
                        f"{others} on rank {peer} and {tags} on rank {rank}",
                        rank=self.rank,
                        operation="Algorithm.execute",
                    )

    def _share(self, own: list[tuple[int, int, int, int]], messages: list[dict[str, Any]]) -> None:
        regions = KernelRegions(self._native, [(address, nbytes) for _, _, address, nbytes in own])
        originals = [json.loads(data) for data in self._native.all_gather(json.dumps([sent[2] for sent in own]).encode())]
        for rank, other in enumerate(messages):
            for sent, (address, nbytes), original in zip(other["sent"], regions.of_rank(rank), originals[rank], strict=True):
                if sent[0] == self.rank:
                    self._arrived.setdefault((rank, sent[1]), deque()).append((address, original, nbytes, regions))

    def _connect(self, messages: list[dict[str, Any]]) -> bool:
        """Connects the channels that any rank needs. Returns whether there are new ones."""
        has_new = False
        for at, kind in enumerate(("memory_channel", "port_channel")):
            sets = self._channels[kind]
            while len(sets) < max(other["needed"][at] for other in messages):
                numbers = (_SEMAPHORES, 0, 0) if kind == "memory_channel" else (0, _SEMAPHORES, 0)
                sets.append(KernelChannels(self._native, 16, *numbers))
                has_new = True
        return has_new

    def _bind(self, messages: list[dict[str, Any]]) -> bool:
        """Binds memory to a multicast address, when all ranks have come to it. Returns whether they have."""
        sizes = [other["window"] for other in messages]
        if self._window is None or not all(sizes):
            return False
        if len(set(sizes)) > 1:
            message = f"bindAllocatedMemory: expected as many bytes on all ranks, found {sizes} by rank"
            raise MismatchError(message, rank=self.rank, operation="Algorithm.execute")
        window, self._window = self._window, None
        self._bound = KernelWindow(self._native, *window)
        return True

    def _deliver(self) -> None:
        for key, arrived in self._arrived.items():
            awaited = self._awaited.get(key, deque())
            while arrived and awaited:
                self._found[awaited.popleft()] = arrived.popleft()

    def _check_progress(self, messages: list[dict[str, Any]]) -> None:
        waiting = [f"rank {rank} waits for {other['waits']}" for rank, other in enumerate(messages) if "waits" in other]
        if waiting:
            message = f"native algorithm: {'; '.join(waiting)}, which is not sent before all ranks wait or have returned"
            raise MismatchError(message, rank=self.rank, operation="Algorithm.execute")

    def _forget(self, messages: list[dict[str, Any]]) -> None:
        """Drops what was not received. All ranks continue with equal numbers of semaphores."""
        self._arrived.clear()
        self._awaited.clear()
        self._window = None
        self._is_connecting = False
        for peer in range(self.size):
            self._agreed[peer] += max(len(messages[self.rank]["built"][peer]), len(messages[peer]["built"][self.rank]))
            self._built[peer].clear()

    # Arguments.

    def _other(self, peer: int) -> int:
        if not 0 <= peer < self.size or peer == self.rank:
            raise InvalidInputError(f"expected another rank than {self.rank} below {self.size}, found {peer}")
        return peer

    def _tag(self, tag: int) -> int:
        if tag < 0:
            raise InvalidInputError(f"expected a tag of at least 0, found {tag}")
        return tag

    def _connecting(self, call: str) -> None:
        if not self._is_connecting:
            raise InvalidInputError(
                f"{call}: expected a call in the function of initialization or of contexts of a NativeAlgorithm, which all ranks call "
                "together, found one elsewhere"
            )
