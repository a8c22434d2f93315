"""Requests to the process that has a database open: for now, a backup.

A request is a file in `requests/`. The answer is a file beside it, which is rewritten until the request is done. The
process that has the database open looks for requests twice a second, and removes those from before it opened. The
directory is private, so only its owner can make requests.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tidemill.engine.directory.backup import Backup, Tell
from tidemill.engine.directory.directory import is_held
from tidemill.errors import EngineProblem, TidemillError
from tidemill.runtime.paths import Paths, read_json, write_json

_LOOK_S = 0.5  # between two looks for requests: each is a system call of some microseconds
_TOLD_S = 0.2  # between two notes of how far a backup is, which are shown to people
PATIENCE_S = 20.0  # a process that is alive looks for requests far more often
Serve = Callable[[str, Tell, bool], Backup]


class Requests:
    """Answers requests in a thread of its own, one after the other, until it is closed."""

    def __init__(self, paths: Paths, serve: Serve) -> None:
        self._folder, self._serve = paths.requests, serve
        self._closing = threading.Event()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._thread = threading.Thread(target=self._look, daemon=True, name="answer requests")
        self._thread.start()

    def close(self) -> None:
        """A request that is being answered is finished first."""
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _look(self) -> None:
        while not self._closing.wait(_LOOK_S):
            names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
            for name in sorted(n for n in names if n.endswith(".json") and not n.startswith(".")):
                path = os.path.join(self._folder, name)
                with suppress(TidemillError, OSError):  # the other process times out without an answer
                    asked = read_json(path)
                    os.remove(path)
                    self._answer(asked, path.removesuffix(".json") + ".answer")

    def _answer(self, asked: dict[str, Any], path: str) -> None:
        last = 0.0

        def tell(note: dict[str, Any]) -> None:
            nonlocal last
            if time.monotonic() - last > _TOLD_S:
                last = time.monotonic()
                write_json(path, {"state": "working", **note})

        write_json(path, {"state": "working"})
        try:
            made = self._serve(asked["target"], tell, bool(asked["links"]))
            write_json(path, {"state": "done", "made": [made.path, made.batch, made.files, made.bytes]})
        except Exception as error:
            plain = EngineProblem("TM640", f"the backup failed: {error!r}", hint="the database itself goes on")
            problem = error if isinstance(error, TidemillError) else plain
            write_json(
                path,
                {
                    "state": "failed",
                    "code": problem.code,
                    "message": problem.message,
                    "detail": problem.detail,
                    "hint": problem.hint,
                },
            )


def ask_for_backup(root: str, target: str, links: bool, tell: Tell) -> Backup:
    """Let the process that has the database open make a backup; it says how far it is."""
    paths, name = Paths(root), uuid.uuid4().hex
    answer = os.path.join(paths.requests, f"{name}.answer")
    request = os.path.join(paths.requests, f"{name}.json")
    write_json(request, {"target": os.path.abspath(target), "links": links})
    heard, asked = None, time.monotonic()
    try:
        while True:
            found = read_json(answer)
            if found is not None and found != heard:
                heard, asked = found, time.monotonic()
                if found["state"] == "done":
                    return Backup(*found["made"])
                if found["state"] == "failed":
                    raise EngineProblem(found["code"], found["message"], detail=found["detail"], hint=found["hint"])
                tell(found)
            if not is_held(root) or (heard is None and time.monotonic() - asked > PATIENCE_S):
                raise EngineProblem(
                    "TM643",
                    f'the process that has "{root}" open does not answer',
                    hint="stop it, or call db.backup() in it; then try again",
                )
            time.sleep(_TOLD_S)
    finally:
        for path in (request, answer):
            with suppress(OSError):
                os.remove(path)
