"""The progress in Spark's checkpoint: which batch was logged, which was committed, and the offset of the last one.

Spark writes `offsets/<batch>` before a batch runs and `commits/<batch>` when it is done. A mark of ours beside them
names the database they belong to; every offset names the database and its batch as well.

Spark counts the batches of a checkpoint from 0. The mark of a checkpoint that continues another one (with another
number of shards) has the number of its first batch and the offset from which it continues; the states with which the
shards begin are in `seeds/`.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.runtime.checkpoint.offsets import Logged, Offset, decode_offset, read_offset
from tidemill.runtime.integrity import damaged, read_bytes
from tidemill.runtime.paths import Paths, read_json, write_json


@dataclass(frozen=True)
class Checkpoint:
    """−1 stands for no batch; `database` is None where there is no mark."""

    logged: int = -1
    committed: int = -1
    offset: Offset | None = None  # of the last batch that was logged
    database: str | None = None
    before: Offset | None = None  # of the batch before it
    first: int = 0  # the batch that Spark counts as 0

    @property
    def begun(self) -> bool:
        """Whether there is anything to go on from."""
        return self.logged >= 0 or self.committed >= 0

    def offset_of(self, batch: int) -> Offset | None:
        """The offset of one of the last two batches."""
        return {self.logged: self.offset, self.logged - 1: self.before}.get(batch)


def read_checkpoint(paths: Paths) -> Checkpoint:
    """The last batches of the log; a file that cannot be read, or is of another batch, is refused."""
    mark = read_json(paths.checkpoint_mark)
    first = int((mark or {}).get("first", 0))
    logged, committed = (first + _last(os.path.join(paths.checkpoint, log)) for log in ("offsets", "commits"))
    offset, before = (_offset(paths, n, first) or _begins(mark, n) for n in (logged, logged - 1))
    if committed >= first:
        _check_commit(os.path.join(paths.checkpoint, "commits", str(committed - first)))
    _check_name(os.path.join(paths.checkpoint, "metadata"))
    database = None if mark is None else str(mark.get("database", ""))
    return Checkpoint(logged, committed, offset, database, before, first)


def first_batch(paths: Paths) -> int:
    """The batch that Spark counts as 0."""
    return int((read_json(paths.checkpoint_mark) or {}).get("first", 0))


def first_offset(paths: Paths) -> Logged | None:
    """The offset from which the checkpoint goes on, as it was logged; None where it begins with nothing."""
    found: Logged | None = (read_json(paths.checkpoint_mark) or {}).get("offset")
    return found


def seed_path(checkpoint: str, shard: int) -> str:
    """Where a checkpoint has the state that a shard begins with."""
    return os.path.join(checkpoint, "seeds", str(shard))


def read_seed(paths: Paths, shard: int) -> bytes | None:
    """The state that a shard begins with, where the checkpoint goes on from another one."""
    try:
        return read_bytes(seed_path(paths.checkpoint, shard))
    except FileNotFoundError:
        return None


def under_way(paths: Paths) -> dict[str, Any] | None:
    """The batch that the job is at, since when in seconds, and with which plan; None between two batches."""
    try:
        first = first_batch(paths)
        logged, committed = (first + _last(os.path.join(paths.checkpoint, log)) for log in ("offsets", "commits"))
        if logged <= committed:
            return None
        began = os.path.getmtime(offset_path(paths, logged))
        offset = _offset(paths, logged, first)
    except (OSError, TidemillError):
        return None  # it has just ended, or is being written
    return {"batch": logged, "seconds": round(max(0.0, time.time() - began), 1), "plan": offset and offset.plan}


def mark_checkpoint(paths: Paths) -> None:
    """The checkpoint belongs to this database from its first batch on."""
    if paths.database and not os.path.exists(paths.checkpoint_mark):
        write_json(paths.checkpoint_mark, {"database": paths.database})


def _last(folder: str) -> int:
    if not os.path.isdir(folder):
        return -1
    return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1)


def offset_path(paths: Paths, batch: int) -> str:
    """Where Spark logs the offset of a batch."""
    return os.path.join(paths.checkpoint, "offsets", str(batch - first_batch(paths)))


def _begins(mark: dict[str, Any] | None, batch: int) -> Offset | None:
    """The offset from which the checkpoint goes on, if it is that of this batch."""
    logged: Logged | None = (mark or {}).get("offset")
    found = None if logged is None else decode_offset(logged)
    return found if found is not None and found.batch == batch else None


def _offset(paths: Paths, batch: int, first: int) -> Offset | None:
    """The last line of an offset file is ours; None where there is no such file."""
    path = os.path.join(paths.checkpoint, "offsets", str(batch - first))
    if not os.path.exists(path):
        return None
    try:
        version, _, *ours = read_bytes(path).decode().splitlines()
        logged: Logged = json.loads(ours[-1])
        if version != "v1" or not {"plan", "final", "feedback", "sources"} <= set(logged):
            raise ValueError("it has another form")
        return read_offset(paths, path, logged, batch)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, f"it is not an offset: {error}") from None


def _check_name(path: str) -> None:
    """Check Spark's name of its query. The file may be missing: other checks notice where there must be one."""
    try:
        if not isinstance(json.loads(read_bytes(path))["id"], str):
            raise ValueError("it has another form")
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, f"it is not the name of a query: {error}") from None


def _check_commit(path: str) -> None:
    version, _, text = read_bytes(path).partition(b"\n")
    try:
        if version != b"v1" or not isinstance(json.loads(text), dict):
            raise ValueError("it has another form")
    except ValueError as error:
        raise damaged(path, f"it is not a commit: {error}") from None
