"""Checks that the parts of a database directory belong together; a directory whose parts do not is refused.

Every part carries the id of the database, and the batch or plan version that it has reached. Let V be the last batch in
the views, P that of `progress.json`, L and C the last batch that Spark logged and committed. After a crash still

    C ≤ V ≤ C + 1,  C ≤ L ≤ C + 1,  V ≤ L,  V ≤ P ≤ V + 1,
    plan in force at V ≤ version of the catalog,  version in control.json ≤ version of the catalog,
    number of saves of the catalog that the views know of ≤ number of its saves

and every file that a part names exists. A file whose name is the number of a batch or a plan has that number in it.
Otherwise a part was lost, put back from an older copy or taken from another database. Its answers would be wrong, so
the database is refused. `control.json` and `progress.json` can be derived from other parts, and are written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from tidemill.engine.directory.directory import Directory
from tidemill.engine.directory.upgrade import upgrade
from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.progress import Checkpoint, offset_path
from tidemill.runtime.integrity import damaged, foreign, misfit, missing
from tidemill.runtime.paths import Paths, load_plan, read_feedback, read_part, write_json
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.views.feedback import KEPT_FEEDBACK
from tidemill.runtime.views.store import ViewStore
from tidemill.sql.catalog import Catalog


def read_catalog(directory: Directory) -> Catalog:
    """The catalog of a database; an empty one only where the database is new."""
    if directory.fresh:
        return Catalog()
    paths = directory.paths
    data = read_part(paths, paths.catalog)
    if data is None and directory.format > 1:
        raise missing(paths.catalog, "format.json says that a database is here")
    if not os.path.exists(paths.views) and (data or directory.format > 1):
        raise missing(paths.views, "catalog.json says what is in it")
    try:
        return Catalog.from_dict(data) if data else Catalog()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(paths.catalog, f"it is not a catalog: {error!r}") from error


def claim_parts(directory: Directory, catalog: Catalog, store: ViewStore) -> None:
    """Give a new database its id; bring a database of an older format up to this one."""
    if directory.fresh:
        if "batch" in store.metas():
            raise missing(directory.paths.format, f"but {directory.paths.views} has answers")
        store.remember({"database": directory.database})
        write_json(directory.paths.catalog, {"database": directory.database, **catalog.to_dict()})
        directory.establish()
    elif directory.format == 1:
        upgrade(directory, catalog, store)
        directory.establish()


def check_parts(paths: Paths, catalog: Catalog, store: ViewStore, checkpoint: Checkpoint | None) -> None:
    """Refuse a directory whose parts do not belong together; `checkpoint` is None where batches are not logged."""
    for problem in problems(paths, catalog, store, checkpoint):
        raise problem


def check_parts_again(paths: Paths, catalog: Catalog, store: ViewStore, checkpoint: Checkpoint | None) -> None:
    """The same while the store is open: its tables are those that this process knows of, and to list them for the first
    time takes DuckDB milliseconds.
    """
    for problem in problems(paths, catalog, store, checkpoint, tables=False):
        raise problem


def problems(
    paths: Paths, catalog: Catalog, store: ViewStore, checkpoint: Checkpoint | None, *, tables: bool = True
) -> Iterator[EngineProblem]:
    """Everything that does not fit, the most telling part first."""
    metas = store.metas()
    if metas.get("database") != paths.database:
        yield foreign(paths.views, metas.get("database", ""), paths.database)
        return
    batch, plan = int(metas.get("batch", -1)), int(metas.get("plan", 0))
    yield from _older_views(paths, batch)
    if catalog.saved < int(metas.get("catalog", 0)):
        yield misfit(paths.catalog, f"it was saved {catalog.saved} times, the views know of {metas['catalog']} times")
    if catalog.version < plan:
        yield misfit(paths.catalog, f"it knows plan {catalog.version}, batch {batch} of the views ran with plan {plan}")
    control = _read_note(paths, paths.control) or {}
    if catalog.version < int(control.get("plan", 0)):
        yield misfit(paths.catalog, f"it knows plan {catalog.version}, control.json plan {control['plan']}")
    if checkpoint is not None:
        yield from _logs(paths, checkpoint, batch, catalog.version)
        yield from _other_offset(paths, checkpoint, batch, metas.get("offset"))
    if tables:
        yield from _lost_tables(paths, catalog, store)
    yield from _lost_files(paths, store, batch, int(metas.get("state_files", 0)))
    yield from _lost_sources(paths, catalog)
    yield from _lost_messages(paths, catalog, json.loads(metas.get("shipped", "{}")))


def restore_notes(paths: Paths, store: ViewStore) -> dict[str, Any] | None:
    """Write `progress.json` again where it is not that of the last batch. Returns the content of `control.json`, None
    where it is lost.
    """
    known = store.meta("progress")
    if known is not None and _read_note(paths, paths.progress) != json.loads(known):
        write_json(paths.progress, json.loads(known))
    return _read_note(paths, paths.control)


def mark_source(paths: Paths, instance: str) -> None:
    """Mark the folder of a source with the id of its database; this precedes the catalog that names the source."""
    write_json(paths.source_mark(instance), {"database": paths.database, "source": instance})


def _read_note(paths: Paths, path: str) -> dict[str, Any] | None:
    """Read a file that can be derived from others: None where it is missing, damaged or of another database."""
    try:
        found: dict[str, Any] | None = read_part(paths, path)
    except EngineProblem:
        return None
    return found


def _older_views(paths: Paths, batch: int) -> Iterator[EngineProblem]:
    reached = int((_read_note(paths, paths.progress) or {}).get("batch", -1))
    if reached > batch + 1:
        yield misfit(paths.views, f"it ends with batch {batch}, progress.json with batch {reached}")
    if batch >= 0:
        path = paths.feedback_notes(batch)
        try:
            notes = read_feedback(paths, batch)
        except EngineProblem as problem:
            yield problem
            return
        if notes is None:
            yield missing(path, f"the views end with batch {batch}")
        elif notes["rows"] and not _has_size(paths.feedback_rows(batch), notes["rows"]["size"]):
            yield _lost_part(paths.feedback_rows(batch), f"{path} names it")


def _logs(paths: Paths, found: Checkpoint, batch: int, version: int) -> Iterator[EngineProblem]:
    if not found.begun:
        if batch >= 0:
            yield missing(paths.checkpoint, f"the views end with batch {batch}")
        return
    if found.database is None:
        yield missing(paths.checkpoint_mark, "there are batches in the checkpoint")
    elif found.database != paths.database:
        yield foreign(paths.checkpoint_mark, found.database, paths.database)
    if found.logged < found.committed:
        yield missing(offset_path(paths, found.committed), f"batch {found.committed} is committed")
    elif found.committed > batch:
        yield misfit(paths.views, f"it ends with batch {batch}, Spark has committed batch {found.committed}")
    elif batch > min(found.committed + 1, found.logged):
        yield misfit(paths.checkpoint, f"it ends with batch {found.committed}, the views with batch {batch}")
    elif not found.committed <= found.logged <= found.committed + 1:
        yield misfit(paths.checkpoint, f"batch {found.logged} is logged, batch {found.committed} is committed")
    yield from _lost_by_spark(paths, found)
    wanted = found.offset.plan if found.offset else 0
    if wanted > version:
        yield misfit(paths.catalog, f"it knows plan {version}, Spark has logged a batch of plan {wanted}")
    elif found.logged > found.committed:
        taken = found.offset.feedback if found.offset else -1
        try:
            load_plan(paths.plan(wanted))
            if taken >= max(0, found.logged - KEPT_FEEDBACK + 1) and read_feedback(paths, taken) is None:
                yield missing(paths.feedback_notes(taken), f"batch {found.logged} is logged and takes it in")
        except EngineProblem as problem:
            yield problem


def _lost_by_spark(paths: Paths, found: Checkpoint) -> Iterator[EngineProblem]:
    """Files that Spark writes beside its logs from the first batch on, and needs in order to start."""
    for name, batch in (("metadata", found.logged), ("state", found.committed)):
        path = os.path.join(paths.checkpoint, name)
        if batch >= found.first and not os.path.exists(path):
            yield missing(path, f"batch {batch} is in the logs beside it")


def _other_offset(paths: Paths, found: Checkpoint, batch: int, wanted: str | None) -> Iterator[EngineProblem]:
    """The offset of the last batch must be the one that the views know: a batch that was planned twice has two."""
    offset = found.offset_of(batch)
    if wanted is not None and offset is not None and offset.sum != json.loads(wanted):
        yield misfit(offset_path(paths, batch), f"it is not the offset with which batch {batch} of the views was run")


def _lost_tables(paths: Paths, catalog: Catalog, store: ViewStore) -> Iterator[EngineProblem]:
    stored = [entry for entry in catalog.of("view", "query") if entry.is_stored]
    there = store.owners() if stored else set()
    for entry in stored:
        if entry.id not in there:
            yield misfit(paths.views, f'it does not have the tables of {entry.kind} "{entry.name}"')


def _lost_files(paths: Paths, store: ViewStore, batch: int, segments: int) -> Iterator[EngineProblem]:
    for name, size, _ in store.answer_files.list_files(store.connection):
        path = os.path.join(paths.answer_files, name)
        if not _has_size(path, size):
            yield _lost_part(path, f"answers of batch {batch} or before are in it")
    # A missing segment is reported by the shard that reads it.
    if segments and not os.path.isdir(paths.state):
        yield missing(paths.state, f"batch {batch} left {segments} segments in it")


def _lost_sources(paths: Paths, catalog: Catalog) -> Iterator[EngineProblem]:
    for entry in catalog.of("source"):
        assert entry.spec is not None
        path = paths.source_mark(entry.spec.name)
        try:
            found = read_part(paths, path)
            if found is None:
                yield missing(path, f'what {entry.kind} "{entry.name}" has taken in is noted beside it')
            elif found.get("source") != entry.spec.name:
                yield misfit(path, f"it is the mark of source {found.get('source')}")
        except EngineProblem as problem:
            yield problem


def _lost_messages(paths: Paths, catalog: Catalog, shipped: dict[str, int]) -> Iterator[EngineProblem]:
    names = {entry.id: str(entry.options["edge"]) for entry in catalog.of("edge")}
    for edge, last in shipped.items():
        try:
            if edge in names:
                Outbox(os.path.join(paths.departures, edge), names[edge]).check_end(last)
        except EngineProblem as problem:
            yield problem


def _has_size(path: str, size: int | None) -> bool:
    try:
        return size is None or os.path.getsize(path) == size
    except OSError:
        return False


def _lost_part(path: str, why: str) -> EngineProblem:
    return (
        damaged(path, f"it does not have the size that was written; {why}")
        if os.path.exists(path)
        else (missing(path, why))
    )
