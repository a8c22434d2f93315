"""A slow network between two network namespaces: two TUN devices and a forwarder that delays, limits, cuts and counts.

Linux and root only; `refusal` says what is missing.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType

_SETIFF, _TUN, _NO_INFO = 0x400454CA, 0x0001, 0x1000
_MTU = 1500


def refusal() -> str:
    """Why there can be no emulated network here; "" where there can."""
    if os.name != "posix" or not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return "" if os.geteuid() == 0 else "only root may make network namespaces"


class Emulator:
    """Two namespaces with the addresses 10.77.0.1 and 10.77.0.2. `rate` is in bytes a second; None: no limit."""

    def __init__(self, delay: float = 0.0, rate: float | None = None) -> None:
        self.delay, self.rate = delay, rate
        self.names = tuple(f"tm{os.getpid()}{side}" for side in "ab")
        self.addresses = ("10.77.0.1", "10.77.0.2")
        self.bytes = [0, 0]  # from the first, from the second
        self.packets = [0, 0]
        self.cut = [False, False]
        self._fds: list[int] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Emulator:
        for i, name in enumerate(self.names):
            _ip("netns", "add", name)
            self._fds.append(_open_tun(name[-15:]))
            _ip("link", "set", name[-15:], "netns", name)
            _ip("-n", name, "addr", "add", self.addresses[i], "peer", self.addresses[1 - i], "dev", name[-15:])
            _ip("-n", name, "link", "set", name[-15:], "up", "mtu", str(_MTU))
            _ip("-n", name, "link", "set", "lo", "up")
        for way in (0, 1):
            self._threads.append(threading.Thread(target=self._forward, args=(way,), daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for fd in self._fds:
            os.close(fd)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def command(self, side: int, *command: str) -> list[str]:
        """A command that runs in one of the namespaces."""
        return ["ip", "netns", "exec", self.names[side], *command]

    def _forward(self, way: int) -> None:
        """Packets of one side to the other, each after its delay and when those before it have been carried."""
        source, target = self._fds[way], self._fds[1 - way]
        waiting: deque[tuple[float, bytes]] = deque()
        free = 0.0
        while not self._stop.is_set():
            pause = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else 0.05
            if select.select([source], [], [], min(pause, 0.05))[0]:
                packet = os.read(source, _MTU + 100)
                if not self.cut[way]:
                    self.bytes[way] += len(packet)
                    self.packets[way] += 1
                    free = max(free, time.monotonic()) + (len(packet) / self.rate if self.rate else 0.0)
                    waiting.append((free + self.delay, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                os.write(target, waiting.popleft()[1])


def _open_tun(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _SETIFF, struct.pack("16sH", name.encode(), _TUN | _NO_INFO))
    return fd


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True)
