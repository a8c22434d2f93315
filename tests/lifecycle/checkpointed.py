"""A LocalDatabase that keeps what Spark would keep, in files that look like Spark's: it goes on where it was closed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.harness import LocalDatabase
from tidemill.runtime.checkpoint import (
    Checkpoint,
    first_batch,
    first_offset,
    mark_checkpoint,
    read_checkpoint,
)

HEAD = "v1\n{}\n"


class CheckpointedDatabase(LocalDatabase):
    """Offsets and commits as Spark logs them; the blob of shard s after batch n is `checkpoint/state/s/n`."""

    def _checkpoint(self) -> Checkpoint:  # type: ignore[override]
        return read_checkpoint(self.paths)

    def _begin(self) -> None:
        self._check_parts()
        mark_checkpoint(self.paths)
        (Path(self.paths.checkpoint) / "metadata").write_text('{"id":"of a query"}')
        self._recover()
        super()._begin()
        pending = self._offset(self.batch)
        if pending is not None:
            self.finish(pending)

    def _recover(self) -> None:
        found = self._checkpoint()
        self.batch = found.committed + 1
        self.offset = self._offset(found.committed) or first_offset(self.paths)
        state = Path(self.paths.checkpoint) / "state"
        shards = os.listdir(state) if state.is_dir() else []
        kept = {int(s): state / s / str(found.committed) for s in shards}
        self.blobs = {shard: path.read_bytes() for shard, path in kept.items() if path.exists()}

    def _blobs(self) -> dict[int, bytes]:
        return dict(self.blobs)

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
