"""A LocalDatabase that keeps what Spark would keep, in files that look like Spark's: it goes on where it was closed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.harness import LocalDatabase, LocalJob
from tidemill.engine.state import DatabaseState
from tidemill.runtime.checkpoint.progress import Checkpoint, first_batch, first_offset, mark_checkpoint, read_checkpoint

HEAD = "v1\n{}\n"


class CheckpointedJob(LocalJob):
    """A LocalJob that finds its batches in the files of a CheckpointedDatabase."""

    db: CheckpointedDatabase

    def checkpoint(self) -> Checkpoint:
        return read_checkpoint(self.paths)

    def start(self, state: DatabaseState, interval: str | None) -> None:
        mark_checkpoint(self.paths)
        (Path(self.paths.checkpoint) / "metadata").write_text('{"id":"of a query"}')
        self.db.recover()
        super().start(state, interval)
        self.db.finish_pending()


class CheckpointedDatabase(LocalDatabase):
    """Offsets and commits as Spark logs them; the blob of shard s after batch n is `checkpoint/state/s/n`."""

    def _make_job(self, spark: Any) -> CheckpointedJob:
        return CheckpointedJob(self)

    def finish_pending(self) -> None:
        """Run the batch that is logged and not committed, if there is one."""
        pending = self._offset(self.batch)
        if pending is not None:
            self.finish(pending)

    def recover(self) -> None:
        """Go on after the last batch that is committed."""
        found = read_checkpoint(self.paths)
        self.batch = found.committed + 1
        self.offset = self._offset(found.committed) or first_offset(self.paths)
        state = Path(self.paths.checkpoint) / "state"
        shards = os.listdir(state) if state.is_dir() else []
        kept = {int(s): state / s / str(found.committed) for s in shards}
        self.blobs = {shard: path.read_bytes() for shard, path in kept.items() if path.exists()}

    def _offset(self, batch: int) -> dict[str, Any] | None:
        path = Path(self.paths.checkpoint) / "offsets" / str(batch - first_batch(self.paths))
        return json.loads(path.read_text().splitlines()[-1]) if path.exists() else None

    def finish(self, end: dict[str, Any]) -> None:
        batch = self.batch
        self._log("offsets", batch, HEAD + json.dumps(end))
        super().finish(end)
        for shard, blob in self.blobs.items():
            path = Path(self.paths.checkpoint) / "state" / str(shard) / str(batch)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(blob)
        self._log("commits", batch, HEAD)

    def _log(self, log: str, batch: int, text: str) -> None:
        path = Path(self.paths.checkpoint) / log / str(batch - first_batch(self.paths))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(text)
        part.rename(path)
