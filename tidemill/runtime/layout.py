"""Where things are in a database directory, and files that are never seen half-written."""

from __future__ import annotations

import json
import os
import tempfile
from functools import lru_cache
from typing import Any

from tidemill.plan.physical import Physical
from tidemill.runtime.garbage import seldom_collected


class Paths:
    """The folders and files of one database directory."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def __getattr__(self, name: str) -> str:
        known = {
            "control": "control.json", "plans": "plans", "sources": "sources", "feedback": "feedback",
            "state": "state", "inbox": "inbox", "outbox": "outbox", "checkpoint": "checkpoint", "views": "views.duckdb",
            "sealed": "sealed",
            "catalog": "catalog.json", "lock": "lock", "status": "status.json", "progress": "progress.json",
            "log": "spark.log",
        }
        if name not in known:
            raise AttributeError(name)
        return os.path.join(self.root, known[name])

    def plan(self, version: int) -> str:
        return os.path.join(self.plans, f"{version:08d}.json")

    def source(self, instance: str) -> str:
        return os.path.join(self.sources, instance)

    def shard(self, shard: int) -> str:
        return os.path.join(self.state, str(shard))

    def feedback_notes(self, batch: int) -> str:
        return os.path.join(self.feedback, f"{batch:012d}.json")

    def feedback_rows(self, batch: int) -> str:
        return os.path.join(self.feedback, f"{batch:012d}.arrow")


def write_json(path: str, data: Any) -> None:
    """Replace a JSON file in one step."""
    write_bytes(path, json.dumps(data).encode())


def write_bytes(path: str, data: bytes) -> None:
    """Replace a file in one step: readers see the old or the new content, never a part."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".part-")
    with os.fdopen(handle, "wb") as out:
        out.write(data)
    os.replace(temporary, path)


def read_json(path: str) -> Any:
    """The content of a JSON file, None when there is none."""
    try:
        with open(path, encoding="utf-8") as source:
            return json.load(source)
    except FileNotFoundError:
        return None


def load_plan(path: str) -> Physical:
    """A plan version; plans never change once written."""
    return _parsed(path, os.stat(path).st_mtime_ns)


@lru_cache(maxsize=16)
def _parsed(path: str, written: int) -> Physical:
    # `written` tells the plan of a directory that was removed and made again in the life of this process.
    with open(path, encoding="utf-8") as source, seldom_collected():
        return Physical.from_json(source.read())
