"""Another number of shards for a database whose job is down: the state is cut anew, and nothing else changes.

The states of the shards are put into new ones (`runtime.rehash`), and a new checkpoint begins with them where the old
one ended. It is made beside the old one and takes its place by a rename; its mark says how many shards there are, and
the catalog follows the mark. So a crash leaves the old number or the new one, and never something between:

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
from tidemill.runtime.checkpoint import seed_path
from tidemill.runtime.forks import unpacked
from tidemill.runtime.layout import Paths, read_json, write_bytes, write_json
from tidemill.runtime.offsets import Offset
from tidemill.runtime.rehash import Unmovable, rehash
from tidemill.runtime.state import Shelf
from tidemill.sql.catalog import Catalog


def rehashed(paths: Paths, plan: Physical, homes: Mapping[str, Home], blobs: Mapping[int, bytes],
             labels: tuple[int, ...]) -> dict[int, bytes]:
    """The state of each new shard; its large segments are written."""
    if set(blobs) != set(plan.shards):
        raise _refused(f"the checkpoint has the state of shards {sorted(blobs)}, the plan has {sorted(plan.shards)}")
    shelves = [Shelf.load(unpacked(blobs[label])[0], paths.shard(label)) for label in plan.shards]
    fresh = [Shelf(paths.shard(label), max(s.version for s in shelves)) for label in labels]
    try:
        rehash(plan, homes, shelves, fresh)
    except Unmovable as error:
        raise _refused(str(error)) from error
    for label, shelf in zip(labels, fresh, strict=True):
        origin = shelves[0].origin
        shelf.origin = {**origin, "shard": label} if origin else {}
    return {label: shelf.dump() for label, shelf in zip(labels, fresh, strict=True)}


def _refused(why: str) -> EngineProblem:
    return EngineProblem("TM647", "the number of shards cannot be changed now", detail=why,
                         hint="the database is as it was; it can go on, and be tried again after other statements")


def install(paths: Paths, offset: Offset, blobs: Mapping[int, bytes]) -> None:
    """Put a checkpoint in the place of the old one that goes on behind `offset` with these states."""
    new = paths.checkpoint + ".new"
    shutil.rmtree(new, ignore_errors=True)
    for label, blob in blobs.items():
        write_bytes(seed_path(new, label), blob)
    write_json(os.path.join(new, os.path.basename(paths.checkpoint_mark)), {
        "database": paths.database, "first": offset["batch"] + 1, "offset": offset, "shards": len(blobs)})
    os.rename(paths.checkpoint, paths.checkpoint + ".old")
    os.rename(new, paths.checkpoint)
    finish(paths, blobs)


def finish(paths: Paths, labels: Mapping[int, bytes]) -> None:
    """Remove what only the old shards need."""
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
    """The catalog has as many shards as the checkpoint says, where it says it: a crash may have come in between."""
    recover(paths)
    with suppress(EngineProblem):  # a mark that cannot be read is refused where the parts are compared
        shards = (read_json(paths.checkpoint_mark) or {}).get("shards")
        if shards is not None and shards != catalog.settings.get("shards"):
            catalog.settings |= {"shards": shards, "unpublished": True}
