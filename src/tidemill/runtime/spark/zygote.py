"""One process in which everything is loaded, from which all Python processes of Spark are forked.

Spark starts half a dozen Python processes for one query: planner, readers, shards, and some that only describe
it. Each would start an interpreter and load the same libraries, half a second to a second and a half of processor time,
one after the other. Here they are loaded once, while the JVM starts.

    Spark ── starts ──► launcher ── asks through a socket ──► zygote ── forks ──► the module that Spark wants
                            ▲                                                            │
                            └──────────── ends when it ends, with its code ◄─────────────┘

The launcher is a small interpreter without libraries. It hands over its arguments, environment, working directory and
standard streams, passes signals on, and ends when the forked process ends; when the launcher is killed, the forked
process is too. Where no zygote answers, the launcher becomes the interpreter that Spark would have started.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from tidemill.runtime.paths import write_bytes

SOCKET = "zygote"
_STREAMS = 3  # standard input, output and error
_LAUNCHER = """#!{python} -IS
import array, json, os, signal, socket, struct, sys

def usual():
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])

taker = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    taker.connect({path!r})
    said = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    taker.sendmsg([struct.pack("<I", len(said))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    taker.sendall(said)
    pid = struct.unpack("<i", taker.recv(4, socket.MSG_WAITALL))[0]
except (OSError, struct.error):
    usual()
if pid <= 0:
    usual()
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda got, _: os.kill(pid, got))
try:
    (code,) = struct.unpack("<i", taker.recv(4, socket.MSG_WAITALL))
except (OSError, struct.error):
    code = 1
os._exit(code & 255)
"""


_started: dict[str, subprocess.Popen[bytes]] = {}  # launcher → the zygote that it asks


def start(folder: str) -> str | None:
    """Start a zygote for this process, unless it has one; the program that Spark takes for Python. None where a script
    cannot name it.
    """
    for launcher, process in _started.items():
        if process.poll() is None and os.path.exists(launcher):
            return launcher
    python = sys.executable
    if len(python) > 100 or any(c.isspace() for c in python) or not sys.platform.startswith("linux"):
        return None
    path = os.path.join(folder, SOCKET)
    if len(path) > 100:
        return None
    # Its standard input is open as long as this process lives.
    # A group of its own: ctrl-C is for the user's process.
    process = subprocess.Popen(
        [python, "-m", "tidemill.runtime.spark.zygote", path], stdin=subprocess.PIPE, process_group=0
    )
    launcher = os.path.join(folder, "python")
    write_bytes(launcher, _LAUNCHER.format(python=python, path=path).encode())
    os.chmod(launcher, 0o700)
    _started[launcher] = process
    return launcher


class Zygote:
    """Takes requests one by one, forks for each, and tells the launchers how their processes ended."""

    def __init__(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.remove(path)
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(path)
        self.server.listen(64)
        self.waiting: dict[int, socket.socket] = {}
        self.woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Serve until standard input ends: then the process that started this one is gone."""
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([0, self.server.fileno(), self.woken], [], [])
            if self.woken in ready:
                with suppress(BlockingIOError):
                    os.read(self.woken, 4096)
                self._reap()
            if self.server.fileno() in ready:
                with suppress(OSError, ValueError, struct.error):
                    self._take(self.server.accept()[0])
            if 0 in ready and not os.read(0, 4096):
                return

    def _take(self, launcher: socket.socket) -> None:
        head, rights, _, _ = launcher.recvmsg(4, socket.CMSG_SPACE(_STREAMS * 4))
        streams = array.array("i")
        for _, _, data in rights:
            streams.frombytes(data)
        (size,) = struct.unpack("<I", head)
        words, environment, folder = json.loads(_all(launcher, size))
        pid = os.fork() if words[:1] == ["-m"] and len(streams) == _STREAMS else -1
        if pid == 0:
            self._become(launcher, streams, words[1:], environment, folder)
        for stream in streams:
            os.close(stream)
        launcher.sendall(struct.pack("<i", pid))
        if pid > 0:
            self.waiting[pid] = launcher
        else:
            launcher.close()

    def _become(
        self, launcher: socket.socket, streams: Any, words: list[str], environment: dict[str, str], folder: str
    ) -> None:
        """In the fork: run the module as `python -m` would, then end."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for other in (*streams, self.woken, self._wake, self.server.fileno()):
                os.close(other)
            for one in self.waiting.values():
                one.close()
            _end_with(launcher)
            code = _run(words, environment, folder)
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            launcher = self.waiting.pop(pid, None)
            if launcher is not None:
                with suppress(OSError):
                    launcher.sendall(struct.pack("<i", os.waitstatus_to_exitcode(status) & 255))
                launcher.close()


def _end_with(launcher: socket.socket) -> None:
    """Let this process be ended by a signal when the launcher is gone: nothing has to run for that."""
    fcntl.fcntl(launcher, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(launcher, fcntl.F_SETFL, fcntl.fcntl(launcher, fcntl.F_GETFL) | os.O_ASYNC)
    signal.signal(signal.SIGIO, signal.SIG_DFL)


def _run(words: list[str], environment: dict[str, str], folder: str) -> int:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    more = [place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:0] = [place for place in (folder, *more) if place not in sys.path]
    sys.argv = list(words)
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return 0


def _all(launcher: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = launcher.recv(size - len(found))
        if not piece:
            raise ValueError("the launcher is gone")
        found += piece
    return bytes(found)


def _load() -> None:
    """What the processes of Spark need, ours and its own. Nothing of it may start a thread."""
    from tidemill.runtime.spark import worker_daemon

    # DuckDB looks for pandas when a table is registered for the first time.
    for name in (
        "pyspark.daemon",
        "pyspark.worker",
        "pyspark.sql.streaming.python_streaming_source_runner",
        "pyspark.sql.worker.plan_data_source_read",
        "pandas",
    ):
        with suppress(ImportError):
            import_module(name)
    worker_daemon.load()
    with suppress(Exception):
        from tidemill.runtime.spark.warm_up import load_connectors, load_kernels

        load_connectors()
        load_kernels()


if __name__ == "__main__":
    made = Zygote(sys.argv[1])
    _load()
    made.serve()
    os._exit(0)  # at once: nothing has to be tidied up, and libraries would report errors
