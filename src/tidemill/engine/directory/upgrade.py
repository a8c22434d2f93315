"""Upgrades a directory of format 1: its parts had no id and no checksums, its folders had the names of sources."""

from __future__ import annotations

import json
import os
from typing import Any

from tidemill.engine.directory.directory import Directory
from tidemill.runtime.integrity import checksum, stamp
from tidemill.runtime.paths import Paths, read_json, write_bytes, write_json
from tidemill.runtime.views.store import ViewStore
from tidemill.sql.catalog import Catalog


def upgrade(directory: Directory, catalog: Catalog, store: ViewStore) -> None:
    """Add what format 2 needs. The caller writes the format last, so an upgrade that was cut short begins again."""
    paths, mine = directory.paths, {"database": directory.database}
    catalog.settings.pop("dropped", None)
    _move_sources(paths, catalog, mine)
    _mark_plans(paths, directory.database)
    content = _mark_feedback(paths, mine)
    batch = int(store.meta("batch") or -1)
    progress = _progress(paths, batch, content, mine)
    plans = [int(entry["plan"]) for entry in progress["sources"].values()]
    control = read_json(paths.control)
    store.remember(
        {
            **mine,
            "plan": str(max(plans, default=0)),
            "final": str((control or {}).get("run", 0)),
            **({"progress": json.dumps(progress)} if batch >= 0 else {}),
        }
    )
    if os.path.exists(paths.progress):
        write_json(paths.progress, progress)
    if control is not None:
        control.pop("dropped", None)
        names = [e.spec.name for e in catalog.of("source") if e.spec]
        write_json(paths.control, {**control, **mine, "sources": names})
    if os.path.isdir(paths.checkpoint):
        write_json(paths.checkpoint_mark, mine)
    write_json(paths.catalog, {**mine, **catalog.to_dict()})


def _move_sources(paths: Paths, catalog: Catalog, mine: dict[str, Any]) -> None:
    for entry in catalog.of("source", "table"):
        assert entry.spec is not None
        before, now = os.path.join(paths.sources, entry.spec.name), paths.source(entry.spec.name)
        if before != now and os.path.isdir(before) and not os.path.exists(now):
            os.makedirs(paths.sources, exist_ok=True)
            os.rename(before, now)
        if entry.kind == "source":
            write_json(paths.source_mark(entry.spec.name), {**mine, "source": entry.spec.name})


def _mark_plans(paths: Paths, database: str) -> None:
    for name in os.listdir(paths.plans) if os.path.isdir(paths.plans) else []:
        path = os.path.join(paths.plans, name)
        write_bytes(path, stamp(json.dumps({**read_json(path), "database": database}).encode()))


def _mark_feedback(paths: Paths, mine: dict[str, Any]) -> int:
    """Add sizes and checksums to feedback; returns the last batch whose feedback has content."""
    last = -1
    for name in sorted(os.listdir(paths.feedback)) if os.path.isdir(paths.feedback) else []:
        if not name.endswith(".json"):
            continue
        path, batch = os.path.join(paths.feedback, name), int(name.split(".")[0])
        notes, rows = read_json(path), paths.feedback_rows(batch)
        if notes["rows"] is True:
            notes["rows"] = {"size": os.path.getsize(rows), "sum": checksum(rows)}
        write_json(path, {**notes, **mine, "batch": batch, "rows": notes["rows"] or None})
        last = max(last, batch) if notes["content"] else last
    return last


def _progress(paths: Paths, batch: int, content: int, mine: dict[str, Any]) -> dict[str, Any]:
    found = read_json(paths.progress) or {}
    sources = found["sources"] if {"database", "batch", "feedback"} <= set(found) else found
    reached = [int(entry["batch"]) for entry in sources.values()]
    return {**mine, "batch": max(reached, default=batch), "feedback": content, "sources": sources}
