"""What the engine is doing, for this process and, through a file, for others."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from tidemill.engine.directory.directory import is_held
from tidemill.engine.show.backfilling import share_read
from tidemill.engine.show.lateness import LONG_AGO, ahead_of_wall
from tidemill.engine.workload import Workload
from tidemill.errors import EngineProblem
from tidemill.plan.html import html_table, html_text
from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.runtime.paths import Paths, read_json
from tidemill.runtime.views.moments import FRONTIERS, read_frontiers
from tidemill.runtime.views.sink import Sink
from tidemill.runtime.views.sinks import Sinks
from tidemill.runtime.views.store import ViewStore
from tidemill.sql.catalog import Entry

SHOWN = 10  # the last changes of plan
_METAS = ("totals", "batch", "letters", "rows", "tentative", FRONTIERS, "progress")


class Status(dict[str, Any]):
    """What the engine is doing: a dictionary that notebooks show as tables."""

    def _repr_html_(self) -> str:
        doing = "running" if self["running"] else "stopped"
        line = f"{doing} · batch {self['batch']} · clock {self['clock']} · state {self['state']['rows']:,} rows"
        parts = [html_text(line)]
        for title, shown in (("Sources", _SOURCES), ("Views", _VIEWS)):
            rows = ([found.get(name) for name in shown] for found in self[title.lower()])
            parts.append(html_table(shown, rows, title))
        return "".join(parts)


_SOURCES = ("name", "kind", "rows", "rows_per_second", "lag_seconds", "frontier", "late", "bad", "shed")
_VIEWS = ("name", "output", "rows", "frontier", "backfilled", "stopped")


def plain_time(us: int | None) -> str | None:
    """A frontier as users read it: ISO time, None before the first row, 'end' when all input is closed."""
    if us is None or us <= BEGINNING:
        return None
    if us >= FOREVER:
        return "end"
    whole = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(us // 1_000_000))
    return f"{whole}.{us % 1_000_000:06d}"


def status_of(
    workload: Workload,
    store: ViewStore,
    sinks: Sinks,
    last: Mapping[str, Any],
    running: bool,
    ports: dict[str, dict[str, int]],
    slots: dict[str, int | None],
    current: dict[str, Any] | None = None,
    sites: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Sources with lag, counts and senders, views with rows and frontiers, state size, the last micro-batch.

    What is remembered of the batches is read once: all numbers are those of one batch.
    """
    with closing(store.cursor()) as duck:  # without the lock: a batch that is being stored does not delay it
        duck.execute("BEGIN TRANSACTION")
        [(dead,)] = duck.execute("SELECT count(*) FROM dead_letters").fetchall()
        metas = store.read_metas(_METAS, duck)
    totals = json.loads(metas.get("totals", "{}"))
    return {
        "running": running,
        "batch": int(metas.get("batch", -1)),
        "plan": workload.catalog.version,
        "clock": plain_time(last.get("clock")),
        "sources": [_source_status(entry, totals, last, ports, slots) for entry in workload.catalog.of("source")],
        "views": _view_statuses(workload, metas),
        "dead_letters": dead,
        "dead_letters_dropped": json.loads(metas.get("letters", "{}")).get("dropped", 0),
        "sinks": [_sink_status(Sink.from_dict(e.options), sinks) for e in workload.catalog.of("sink")],
        "sites": list(sites),
        "plan_changes": [c.describe() | {"at": plain_time(int(c.at * 1e6))} for c in workload.history.changes[-SHOWN:]],
        "state": {"rows": last.get("state_rows", 0), "bytes": last.get("state_bytes", 0)},
        "current_batch": current,
        "last_batch": {k: last[k] for k in ("batch", "plan", "batch_seconds", "stage_seconds", "at") if k in last},
    }


def _source_status(
    entry: Entry,
    totals: dict[str, Any],
    last: Mapping[str, Any],
    ports: dict[str, dict[str, int]],
    slots: dict[str, int | None],
) -> dict[str, Any]:
    """Totals of a source, and its times and speed in the last batch."""
    spec = entry.spec
    assert spec is not None
    times = last.get("sources", {}).get(spec.name, {})
    tally = last.get("tallies", {}).get(spec.name, {})
    top, seconds = times.get("top"), last.get("batch_seconds")
    is_timely = top is not None and top > LONG_AGO and spec.kind != "files"
    return {
        "name": entry.name,
        "kind": spec.kind,
        **({"rows": 0, "late": 0, "bad": 0, "shed": 0, "undeclared": {}, "files": []} | totals.get(spec.name, {})),
        "frontier": plain_time(times.get("floor")),
        "lag_seconds": time.time() - top / 1e6 if is_timely else None,
        "ahead_seconds": ahead_of_wall(top, bool(spec.timestamp)),
        "rows_per_second": round(tally.get("rows", 0) / seconds, 1) if seconds else 0.0,
        "idle": bool(last) and not tally.get("rows"),
        **({"senders": ports[entry.name.lower()]} if entry.name.lower() in ports else {}),
        **({"slot_lag_bytes": slots[entry.name.lower()]} if entry.name.lower() in slots else {}),
    }


def _sink_status(sink: Sink, sinks: Sinks) -> dict[str, Any]:
    return {"name": sink.name, "undelivered": sinks.count_undelivered(sink), "problem": sinks.problems.get(sink.name)}


def _view_statuses(workload: Workload, metas: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows and frontier of each view, how much it has read again of its streams if it has not caught up, and why it has
    stopped.
    """
    counts = Counter(json.loads(metas.get("rows", "{}"))) + Counter(json.loads(metas.get("tentative", "{}")))
    frontiers = read_frontiers(metas)
    return [
        {
            "name": view.entry.name,
            "output": view.entry.output,
            "rows": counts.get(view.entry.id, 0),
            "frontier": plain_time(frontiers.get(f"view {view.entry.id}")),
            "backfilled": share_read(view, metas),
            "stopped": (note := workload.stopped.get(view.entry.id)) and note["reason"],
        }
        for view in list(workload.views.values())  # a statement may add some
    ]


def read_status(path: str) -> dict[str, Any]:
    """The last status that the owner of a directory wrote, and whether it is still there."""
    found = read_json(Paths(path).status)
    if found is None:
        raise EngineProblem(
            "TM604", f'there is no status in "{path}"', hint="is this a database directory that has been run?"
        )
    return {**found, "running": bool(found.get("running")) and is_held(path)}
