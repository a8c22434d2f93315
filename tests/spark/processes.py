"""Real processes: a child in a session of its own, what runs in it, and how to kill parts of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.places import IMPORTS, ROOT


def until(reached: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a Python module with the interpreter of the tests."""
    return [sys.executable, "-m", name, *arguments]


class Child:
    """A process with everything that it starts; its output goes to a file."""

    def __init__(self, command: list[str], *, log: Path, env: dict[str, str] | None = None) -> None:
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": IMPORTS, **(env or {})},
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill_group(self) -> None:
        """The driver and its JVM at once; Python workers have a group of their own and notice."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_driver(self) -> None:
        """The Python process alone: the JVM sees its standard input end."""
        self.process.kill()
        self.process.wait()

    def workers(self) -> list[int]:
        """Python workers of Spark: tasks and, in processes of their own, planning of the source."""
        others = {pid: _command(pid) for pid in session_members(self.process.pid) if pid != self.process.pid}
        return [
            pid
            for pid, line in others.items()
            if (b"pyspark" in line or b"zygote" in line) and b"java" not in line.split(b"\0")[0]
        ]

    def busy_workers(self) -> list[int]:
        """Workers that are computing at this moment; a pool also has idle ones."""
        before = {pid: _ticks(pid) for pid in self.workers()}
        time.sleep(0.03)
        return [pid for pid, ticks in before.items() if _ticks(pid) > ticks]

    def end(self) -> None:
        """Nothing of the child is left behind."""
        for pid in session_members(self.process.pid):
            kill(pid)
        self.process.wait()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


def session_members(session: int) -> list[int]:
    """Processes of the session that `session` leads; those that move to another group stay in it."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            if os.getsid(pid) == session:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _ticks(pid: int) -> int:
    """Processor time used so far; 0 when the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def kill(pid: int) -> None:
    """kill -9, unless it has ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
