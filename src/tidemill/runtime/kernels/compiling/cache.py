"""Which groups of kernels are compiled on this machine, and compiling those that are not: one process for each core.

A process that compiles is not the one that waits: numba lets one thread compile at a time, and the driver has a JVM to
start meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from typing import IO

from tidemill.errors import EngineProblem
from tidemill.runtime.kernels.compiling.needed import SECONDS
from tidemill.runtime.paths import read_json, write_bytes
from tidemill.runtime.private_folders import user_folder

_LOOK_S = 0.2  # between two updates of the progress line
_LINE = "Compiling inner loops for this processor, once: {done} of {all} groups, {passed:.0f} s of about {about:.0f} s"


def compiled_groups() -> tuple[str, ...]:
    """The groups whose machine code was kept and is there still."""
    found = read_json(_mark()) or {}
    return tuple(group for group, places in found.items() if group in SECONDS and _are_there(places))


def compile_missing(groups: Iterable[str]) -> Compilation:
    """Begin to compile those of the groups that are not kept; `wait` for it."""
    have = compiled_groups()
    return Compilation([group for group in groups if group not in have])


class Compilation:
    """Groups that are being compiled; without groups it is over at once."""

    def __init__(self, groups: list[str]) -> None:
        self.groups, self.done, self._began = groups, list[str](), time.monotonic()
        self._running = [_Process(share, self.done) for share in _shares(groups, len(os.sched_getaffinity(0)))]

    def wait(self, out: IO[str] | None = None) -> None:
        """Until everything is compiled, with a line on what is going on. What cannot be kept raises TM521."""
        if not self.groups:
            return
        out = out or sys.stderr
        live = out.isatty()
        if not live:
            print(self._line(), file=out, flush=True)
        try:
            while any(process.is_running for process in self._running):
                time.sleep(_LOOK_S)
                if live:
                    print(f"\r{self._line()}", end="", file=out, flush=True)
        finally:
            for process in self._running:
                process.end()
            if live:
                print(f"\r{' ' * len(self._line())}\r", end="", file=out, flush=True)
        self._note()

    def _line(self) -> str:
        share = max(sum(SECONDS[g] for g in process.groups) for process in self._running)
        return _LINE.format(
            done=len(self.done), all=len(self.groups), passed=time.monotonic() - self._began, about=share + 1
        )

    def _note(self) -> None:
        """Remember what there is, or say why there is nothing."""
        places = []
        for process in self._running:
            if process.folders is None:
                raise EngineProblem(
                    "TM521",
                    "the inner loops cannot be compiled",
                    detail=process.said[-500:] or "the compiler ended",
                    hint="where machine code cannot be kept, set NUMBA_CACHE_DIR to a folder that you can write;"
                    " `tidemill doctor` says more",
                )
            places = [[place, _count_kept(place)] for place in process.folders.split(", ")]
        known = read_json(_mark()) or {}
        with suppress(OSError):
            write_bytes(_mark(), json.dumps({**known, **dict.fromkeys(self.groups, places)}).encode())


class _Process:
    """One process that compiles some groups; it says each when it is done, and at the end where they are kept."""

    def __init__(self, groups: list[str], done: list[str]) -> None:
        self.groups, self.said = groups, ""
        self.folders: str | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidemill.runtime.kernels.compiling.warm", *groups],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=_with_imports(),
        )
        self._reader = threading.Thread(target=self._read, args=(done,), daemon=True, name="compile kernels")
        self._reader.start()

    def _read(self, done: list[str]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "done":
                done.append(rest)
            elif word == "kept":
                self.folders = rest
            else:
                self.said += line
        self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._reader.is_alive()

    def end(self) -> None:
        """What is kept so far stays."""
        if self._process.poll() is None:
            self._process.kill()
        self._reader.join()


def _shares(groups: list[str], count: int) -> list[list[str]]:
    """The groups in at most `count` parts that take about as long.

    >>> _shares(["tables", "running", "sliding", "lines"], 2)
    [['tables', 'lines'], ['running', 'sliding']]
    >>> _shares(["lines"], 2), _shares([], 2)
    ([['lines']], [])
    """
    shares: list[list[str]] = [[] for _ in range(min(count, len(groups)))]
    for group in sorted(groups, key=lambda g: -SECONDS[g]):
        min(shares, key=lambda share: sum(SECONDS[g] for g in share)).append(group)
    return shares


def _with_imports() -> dict[str, str]:
    """This process's environment, with the folders where it finds its modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def _mark() -> str:
    return os.path.join(user_folder("kernels"), f"{_key()}.json")


def _key() -> str:
    """Another text for other kernels, another compiler or another place where machine code is kept."""
    folder = os.path.dirname(os.path.abspath(__file__))
    files = sorted((e.name, e.stat().st_mtime_ns, e.stat().st_size) for e in os.scandir(folder) if e.is_file())
    facts = (sys.version, version("numba"), os.environ.get("NUMBA_CACHE_DIR"), folder, files)
    return f"{zlib.crc32(repr(facts).encode()):08x}"


def _are_there(places: list[tuple[str, int]]) -> bool:
    """Whether the machine code that was there when it was noted is there still."""
    return bool(places) and all(_count_kept(place) >= count for place, count in places)


def _count_kept(folder: str) -> int:
    try:
        return sum(name.endswith(".nbi") for name in os.listdir(folder))
    except OSError:
        return 0
