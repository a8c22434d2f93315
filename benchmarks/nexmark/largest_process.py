"""The largest Python process below another one, while something runs."""

from __future__ import annotations

import threading

import psutil

EVERY = 0.1  # seconds


class LargestProcess:
    """Inside the block, the proportional memory of every Python process is sampled; `megabytes` is the most of one."""

    def __init__(self, pid: int) -> None:
        self.root = psutil.Process(pid)
        self.megabytes = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> LargestProcess:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            for process in [self.root, *self.root.children(recursive=True)]:
                self.megabytes = max(self.megabytes, _size(process))
            if self._ended.wait(EVERY):
                return


def _size(process: psutil.Process) -> float:
    """Of a process that ends while it is looked at, and of the JVM: nothing."""
    try:
        if "python" not in process.name().lower():
            return 0.0
        return float(process.memory_full_info().pss) / 2**20
    except psutil.Error:
        return 0.0
