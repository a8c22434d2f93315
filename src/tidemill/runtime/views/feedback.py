"""What a micro-batch sends into the next one: rows of loops, contents of views for later readers, and progress.

A replay writes the same files again. The planner does not wait for notes without content.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING, FOREVER, Physical
from tidemill.plan.relations import STATIC_TIME
from tidemill.runtime.arrow_ipc import ipc_bytes
from tidemill.runtime.integrity import checksum
from tidemill.runtime.messages.file_refs import remove_file
from tidemill.runtime.messages.message import LOOP, PEEK_LOOP, Message, select_messages
from tidemill.runtime.paths import Paths, write_json
from tidemill.runtime.views.batch_summary import BatchReport, source_progress
from tidemill.runtime.views.past import Past
from tidemill.runtime.views.stored_view import StoredView

KEPT_FEEDBACK = 16  # batches

Seed = tuple[str, bytes]  # operator, contents of the view that it begins with


@dataclass(frozen=True)
class Before:
    """How far loops were closed when the last batch was committed: of the state, and of copies that show an end."""

    loops: dict[str, int]
    peek: str
    peeks: dict[str, dict[str, int]]

    def ends_further(self, summary: BatchReport) -> bool:
        """Whether copies of the state that show the end have feedback for each other: how far loops are closed has
        changed, or this is another end, whose copies are new.
        """
        shows_loops = bool(summary["peek"]) and any(summary["peeks"].values())
        return shows_loops and (str(summary["peek"]), summary["peeks"]) != (self.peek, self.peeks)


class Feedback:
    """Writes the feedback and the progress of one database."""

    def __init__(self, paths: Paths, progress: dict[str, Any]) -> None:
        self.paths = paths
        self.progress = progress  # as last written
        os.makedirs(paths.feedback, exist_ok=True)

    def write(
        self, batch: int, messages: list[Message], summary: BatchReport, seeds: list[Seed], before: Before
    ) -> bool:
        """Write both; whether the next batch has something to take in. `before` is what the last batch left."""
        rows = list(select_messages(messages, LOOP))
        rows += [(0, op, payload) for op, payload in seeds if payload]
        real = bool(rows) or bool(seeds) or summary["loops"] != before.loops
        looped = [(shard, PEEK_LOOP + port, payload) for shard, port, payload in select_messages(messages, PEEK_LOOP)]
        rows += looped
        content = real or bool(looped) or before.ends_further(summary)
        written = _write_rows(self.paths.feedback_rows(batch), rows) if rows else None
        write_json(
            self.paths.feedback_notes(batch),
            {
                "database": self.paths.database,
                "batch": batch,
                "content": content,
                "loops": summary["loops"],
                "seeds": {op: 1 for op, _ in seeds},
                "peeks": summary["peeks"],
                "rows": written,
            },
        )
        self._write_progress(batch, summary, content, real)
        self._remove(batch - KEPT_FEEDBACK)
        return content

    def _write_progress(self, batch: int, summary: BatchReport, content: bool, real: bool) -> None:
        self.progress = {
            "database": self.paths.database,
            "batch": batch,
            "feedback": batch if content else self.progress.get("feedback", -1),
            "waits": summary["waits"],
            "real": batch if real else self.progress.get("real", -1),
            "sources": source_progress(summary),
        }
        write_json(self.paths.progress, self.progress)

    def _remove(self, batch: int) -> None:
        for old in (self.paths.feedback_notes(batch), self.paths.feedback_rows(batch)):
            remove_file(old)


def make_seeds(
    plan: Physical, delivered: set[str], views: dict[str, StoredView], frontiers: dict[str, int], past: Past
) -> tuple[list[Seed], list[str]]:
    """Contents that views created in this plan begin with, as they are before this batch's changes; and all operators
    whose contents are delivered.
    """
    known = [op for op, _ in plan.seeds if op in delivered]  # an operator that is gone never comes again
    seeds, since = [], {op.id: op.since for op in plan.reader if isinstance(op, p.Seed)}
    for op, view_id in plan.seeds:
        if op in delivered:
            continue
        view = views.get(view_id)
        known.append(op)
        rows = None if view is None else _seed_rows(past, view, since.get(op), frontiers)
        seeds.append((op, b"" if rows is None else ipc_bytes(rows)))
    return seeds, known


def last_closed(frontiers: dict[str, int], view: StoredView) -> int:
    """The time as of which a view's contents stand; contents that never change stand since always.

    That may be ahead of the clock, which waits for other sources as well.
    """
    frontier = frontiers.get(f"view {view.id}", BEGINNING)
    if not BEGINNING < frontier < FOREVER:
        return STATIC_TIME
    return frontier - 1


def _seed_rows(past: Past, view: StoredView, since: int | None, frontiers: dict[str, int]) -> pa.Table:
    """The contents of a view as of its last closed time; or as of an earlier one, and its changes from then on."""
    closed = frontiers.get(f"view {view.id}", BEGINNING)
    if since is None or closed <= since:
        return contents_at(past.store.contents(view, past.duck), last_closed(frontiers, view))
    began = contents_at(past.contents(view, since + 1, closed), since)
    changes = past.changes(view, since + 1).select(began.column_names)
    return pa.concat_tables([began, changes.cast(began.schema)])


def contents_at(contents: pa.Table, moment: int) -> pa.Table:
    """Contents of a view as changes at one time."""
    return contents.append_column("__time", pa.array(np.full(contents.num_rows, moment, np.int64)))


def _write_rows(path: str, rows: list[tuple[int, str, bytes]]) -> dict[str, int]:
    """Size and checksum of the file, for the notes that name it."""
    shards, ports, payloads = zip(*rows, strict=True)
    table = pa.table(
        {
            "shard": pa.array(shards, pa.int32()),
            "port": pa.array(ports, pa.string()),
            "payload": pa.array(payloads, pa.large_binary()),
        }
    )
    with pa.OSFile(path + ".part", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    written = {"size": os.path.getsize(path + ".part"), "sum": checksum(path + ".part")}
    os.replace(path + ".part", path)
    return written
