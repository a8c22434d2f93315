"""Changes the number of shards of a database whose job is down: the state is partitioned again.

The rows of the old shards go into new ones (`runtime/stage/resharding.py`), and a new checkpoint begins with them where
the old one ended. It is made beside the old one and replaces it by a rename. Its mark holds the number of shards, and
the catalog follows the mark. So a crash leaves the old number or the new one:

    checkpoint                                  before, or after
    checkpoint.old  checkpoint.new              between the two renames: the old one is put back
    checkpoint      checkpoint.old              after: the old one goes
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress

from tidemill.errors import EngineProblem
from tidemill.plan.homes import Home
from tidemill.plan.physical import Physical
from tidemill.runtime.checkpoint.offsets import Offset
from tidemill.runtime.checkpoint.progress import seed_path
from tidemill.runtime.paths import Paths, read_json, write_bytes, write_json
from tidemill.runtime.stage.resharding import Unmovable, rehash
from tidemill.runtime.state.forks import unpack_state
from tidemill.runtime.state.segments import SegmentStore
from tidemill.runtime.state.shard_state import ShardState
from tidemill.sql.catalog import Catalog


def rehash_shards(
    paths: Paths, plan: Physical, homes: Mapping[str, Home], blobs: Mapping[int, bytes], labels: tuple[int, ...]
) -> dict[int, bytes]:
    """The state of each new shard; its large segments are written."""
    if set(blobs) != set(plan.shards):
        raise _refusal(f"the checkpoint has the state of shards {sorted(blobs)}, the plan has {sorted(plan.shards)}")
    states = [ShardState.load(unpack_state(blobs[label])[0], paths.shard(label)) for label in plan.shards]
    fresh = [ShardState(SegmentStore(paths.shard(label), max(s.store.version for s in states))) for label in labels]
    try:
        rehash(plan, homes, states, fresh)
    except Unmovable as error:
        raise _refusal(str(error)) from error
    for label, state in zip(labels, fresh, strict=True):
        origin = states[0].origin
        state.origin = {**origin, "shard": label} if origin else {}
    return {label: state.dump() for label, state in zip(labels, fresh, strict=True)}


def _refusal(why: str) -> EngineProblem:
    return EngineProblem(
        "TM647",
        "the number of shards cannot be changed now",
        detail=why,
        hint="the database is as it was; it can go on, and be tried again after other statements",
    )


def install(paths: Paths, offset: Offset, blobs: Mapping[int, bytes]) -> None:
    """Replace the checkpoint by one that continues after `offset` with these states."""
    new = paths.checkpoint + ".new"
    assert offset.batch is not None, "every batch that this version has run has a number"
    shutil.rmtree(new, ignore_errors=True)
    for label, blob in blobs.items():
        write_bytes(seed_path(new, label), blob)
    write_json(
        os.path.join(new, os.path.basename(paths.checkpoint_mark)),
        {"database": paths.database, "first": offset.batch + 1, "offset": offset.encode(), "shards": len(blobs)},
    )
    os.rename(paths.checkpoint, paths.checkpoint + ".old")
    os.rename(new, paths.checkpoint)
    finish(paths, blobs)


def finish(paths: Paths, labels: Mapping[int, bytes]) -> None:
    """Remove the files that only the old shards need."""
    shutil.rmtree(paths.checkpoint + ".old", ignore_errors=True)
    for name in os.listdir(paths.state) if os.path.isdir(paths.state) else []:
        if name.isdigit() and int(name) not in labels:
            shutil.rmtree(os.path.join(paths.state, name), ignore_errors=True)


def recover(paths: Paths) -> None:
    """After a crash between the renames the old checkpoint is put back."""
    if os.path.isdir(paths.checkpoint + ".old") and not os.path.isdir(paths.checkpoint):
        os.rename(paths.checkpoint + ".old", paths.checkpoint)
    for leftover in (".old", ".new"):
        shutil.rmtree(paths.checkpoint + leftover, ignore_errors=True)


def follow_checkpoint(paths: Paths, catalog: Catalog) -> None:
    """Set the number of shards in the catalog to that of the checkpoint: they differ after a crash between the two."""
    recover(paths)
    with suppress(EngineProblem):  # `check_parts` refuses a mark that cannot be read
        shards = (read_json(paths.checkpoint_mark) or {}).get("shards")
        if shards is not None and shards != catalog.settings.get("shards"):
            catalog.settings |= {"shards": shards, "unpublished": True}
