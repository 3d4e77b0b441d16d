"""A cable between two hosts on which packets take their time and overtake each other: a relay between two TUN devices.

    relay.py SEED DELAY JITTER

Each packet takes DELAY milliseconds, and a random part of JITTER longer, so that it may arrive before an earlier one. The device
`cable` of one network namespace is created by this process, that of the other by its descriptor 3, which is /dev/net/tun, opened
in that namespace. The devices end with the process. At SIGTERM it prints how many packets were overtaken.
"""

import fcntl
import heapq
import os
import random
import select
import signal
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
# Longer queues lose packets, as those of a switch do.
MAX_QUEUED = 4096


def create_device(fd: int) -> int:
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"cable", IFF_TUN | IFF_NO_PI))
    os.set_blocking(fd, False)
    return fd


class Stop(Exception):
    pass


def stop(*_: object) -> None:
    raise Stop


def main() -> None:
    seed, delay, jitter = int(sys.argv[1]), float(sys.argv[2]) / 1000, float(sys.argv[3]) / 1000
    chance = random.Random(seed)
    ends = (create_device(3), create_device(os.open("/dev/net/tun", os.O_RDWR)))
    poll = select.poll()
    for fd in ends:
        poll.register(fd, select.POLLIN)
    other = dict(zip(ends, reversed(ends)))
    # Per packet: when it arrives, its number, where, and its bytes.
    queued: list[tuple[float, int, int, bytes]] = []
    read = arrived = overtaken = lost = 0
    latest = dict.fromkeys(ends, -1)
    signal.signal(signal.SIGTERM, stop)
    try:
        while True:
            wait = max(0.0, queued[0][0] - time.monotonic()) * 1000 if queued else None
            for fd, _ in poll.poll(wait):
                try:
                    packet = os.read(fd, 65536)
                except OSError:
                    continue  # The device is down.
                if len(queued) >= MAX_QUEUED:
                    lost += 1
                    continue
                heapq.heappush(queued, (time.monotonic() + delay + chance.random() * jitter, read, other[fd], packet))
                read += 1
            now = time.monotonic()
            while queued and queued[0][0] <= now:
                _, number, fd, packet = heapq.heappop(queued)
                try:
                    os.write(fd, packet)
                except OSError:
                    lost += 1
                    continue  # The device is down.
                arrived += 1
                overtaken += number < latest[fd]
                latest[fd] = max(latest[fd], number)
    except Stop:
        print(f"{arrived} packets arrived, {overtaken} of them after a later one, {lost} were lost")


main()
