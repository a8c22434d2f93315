"""EXPLAIN WHY view: what a view has seen, what it waits for, and where rows may have gone."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tidemill.engine.show.backfilling import backfilling_text
from tidemill.engine.show.lateness import at_least, exactly
from tidemill.engine.show.status import plain_time
from tidemill.engine.views.bound_view import BoundView
from tidemill.engine.views.history import begins_with_history
from tidemill.engine.workload import Workload
from tidemill.plan.node import walk
from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.relations import Clock, RowPoints
from tidemill.plan.sources import SITE, SourceSpec
from tidemill.runtime.views.source_totals import Totals, rows_of
from tidemill.sql.catalog import Catalog, Entry

Finding = tuple[str, str]  # (what it is about, what was found)


def missed_rows(view: BoundView, catalog: Catalog, totals: Totals) -> dict[str, int]:
    """For each stream of a new view, how many rows were read before it: the view will not see them, unless it begins
    with its history.
    """
    if begins_with_history(view.entry.options):
        return {}
    found = {}
    for name in sorted(view.query.needs):
        entry = catalog.entries.get(name.lower())
        if entry is not None and entry.kind == "stream":
            spec = catalog.find(entry.needs[0], "source").spec
            rows = rows_of(totals, spec.name) if spec is not None else 0
            if rows:
                found[entry.name] = rows
    return found


def describe_start(view: BoundView, catalog: Catalog) -> str:
    """What CREATE VIEW says about rows before the view; empty where there were none."""
    if view.entry.moment is not None:
        return "; its streams are read again from the beginning, SHOW VIEWS says how far it is"
    views = [n for n in sorted(view.query.needs) if _is_older_view(n, view, catalog)]
    said = [f"it begins with what {' and '.join(views)} now {'hold' if len(views) > 1 else 'holds'}"] if views else []
    said += [
        f"it does not see the {rows:,} rows of {name} that came before it" for name, rows in view.entry.missed.items()
    ]
    return "".join(f"; {text}" for text in said)


def _is_older_view(name: str, view: BoundView, catalog: Catalog) -> bool:
    entry = catalog.entries.get(name.lower())
    return entry is not None and entry.is_stored and entry.birth < view.entry.birth


def why(view: BoundView, workload: Workload, status: dict[str, Any], known: dict[str, Any]) -> pa.Table:
    """The findings about a view and everything that it reads; `known` is how far each source is closed."""
    found = list(_Why(view, workload, status, known).findings())
    return pa.table(
        {"about": pa.array([a for a, _ in found], pa.string()), "finding": pa.array([f for _, f in found], pa.string())}
    )


class _Why:
    def __init__(self, view: BoundView, workload: Workload, status: dict[str, Any], known: dict[str, Any]) -> None:
        self.view, self.workload, self.status, self.known = view, workload, status, known
        self.catalog = workload.catalog
        self.reads = self._below(view.entry)

    def findings(self) -> Iterator[Finding]:
        if self.status["batch"] < 0:
            yield "database", "nothing has been taken in yet: db.run() takes in what is there, db.start() goes on"
        elif not self.status["running"]:
            yield "database", "no job is running: rows that come now are taken in by the next run() or start()"
        yield from self._of_view(self.view.entry)
        for entry in self.reads:
            if entry.is_stored:
                yield from self._of_view(entry)
        sources = [e for e in self.reads if e.kind == "source"]
        if self._reads_clock():
            yield "clockStr", "it is as far as the slowest of all sources that are read, and begins with their rows"
            sources += [
                e for e in self.catalog.of("source") if e.spec and e.spec.name in self.known and e not in sources
            ]
        for entry in sources:
            yield from self._of_source(entry)
        yield from self._slowest(sources)

    def _below(self, entry: Entry) -> list[Entry]:
        """Everything that a view reads, directly or through others, nearest first."""
        found: list[Entry] = []
        todo = list(entry.needs)
        while todo:
            below = self.catalog.entries.get(todo.pop(0).lower())
            if below is not None and below not in found:
                found.append(below)
                todo += below.needs
        return found

    def _reads_clock(self) -> bool:
        views = [self.view, *(self.workload.views[e.name.lower()] for e in self.reads if e.is_stored)]
        return any(isinstance(node, Clock) for view in views for node in walk(view.node))

    def _of_view(self, entry: Entry) -> Iterator[Finding]:
        about = f"{entry.kind} {entry.name}"
        shown = next(v for v in self.status["views"] if v["name"] == entry.name)
        if shown["stopped"]:
            yield about, f"it has stopped: {shown['stopped']}; RESTART VIEW {entry.name} begins it anew"
        until = f"closed up to {shown['frontier']}" if shown["frontier"] else "no time of it is closed yet"
        yield about, f"{shown['rows']:,} rows; {until}"
        if text := backfilling_text(shown["backfilled"]):
            yield about, f"{text}: it shows nothing before it has read its streams again"
        for stream, rows in entry.missed.items():
            yield about, f"it was created after {rows:,} rows of {stream} had been taken in, and does not see them"
        rhythm = self.workload.views[entry.name.lower()].query.rhythm
        if rhythm.period is not None:
            yield about, f"it refreshes every {exactly(rhythm.period[0])}: rows show at the next point after their time"
        elif isinstance(rhythm.points, RowPoints):
            yield about, f"it refreshes with every {rhythm.points.rows:,} rows: those after the last such row wait"
        elif rhythm.points is not None:
            yield about, "it refreshes at the points of SYNC ON: rows show at the next one at or after their time"

    def _of_source(self, entry: Entry) -> Iterator[Finding]:
        about, spec = f"source {entry.name}", entry.spec
        assert spec is not None
        shown = next(s for s in self.status["sources"] if s["name"] == entry.name)
        if not shown["rows"]:
            yield about, self._nothing_read(entry, shown)
        else:
            yield about, f"{shown['rows']:,} rows taken in"
        if shown["bad"]:
            yield about, f"{shown['bad']:,} records could not be read: SELECT * FROM dead_letters says why"
        if shown["late"]:
            yield (
                about,
                (
                    f"{shown['late']:,} rows came after their time had been closed, and are in dead_letters:"
                    " a longer lateness takes them in"
                ),
            )
        if shown.get("ahead_seconds"):
            yield (
                about,
                (
                    f"its clock is {at_least(int(shown['ahead_seconds'] * 1e6))} ahead of the wall clock: rows"
                    " before that are late; WITH (ahead = '1 hour') keeps such rows out"
                ),
            )
        if spec.kind == SITE:
            yield from self._of_site(about, spec)
        times = self.known.get(spec.name, {})
        if BEGINNING < times.get("floor", BEGINNING) < FOREVER:
            rest = f", its lateness is {exactly(spec.lateness_us)}" if spec.lateness_us else ""
            yield about, f"closed up to {plain_time(times['floor'])}; newest row {plain_time(times['top'])}{rest}"

    def _of_site(self, about: str, spec: SourceSpec) -> Iterator[Finding]:
        """Why another site does not deliver."""
        for site in self.status["sites"]:
            for edge in site["reads"]:
                if edge["edge"] == spec.name and (why := edge["problem"] or site["problem"]):
                    yield about, f"site {site['name']} does not deliver it: {why.splitlines()[0]}"

    def _nothing_read(self, entry: Entry, shown: dict[str, Any]) -> str:
        assert entry.spec is not None
        if entry.spec.kind == "files":
            pattern = entry.spec.origin["glob"]
            return f"no row yet; {len(glob.glob(pattern, recursive=True)):,} files match {pattern}"
        if entry.spec.kind == "port":
            senders = shown.get("senders", {}).get("connections", 0)
            return f"no row yet; {senders:,} senders are connected to port {entry.spec.origin['port']}"
        if entry.spec.kind == SITE:
            return f"no row yet of site {entry.spec.origin['site']}"
        return "no row yet"

    def _slowest(self, sources: list[Entry]) -> Iterator[Finding]:
        """An answer over several sources is as far as the slowest of them."""
        floors = {e.name: self.known[e.spec.name]["floor"] for e in sources if e.spec and e.spec.name in self.known}
        if len(floors) > 1 and len(set(floors.values())) > 1:
            last = min(floors, key=lambda name: floors[name])
            at = plain_time(floors[last])
            yield (
                f"source {last}",
                (
                    f"the answer waits for it: it is closed up to {at or 'nothing'}, the others are"
                    " further; idle_timeout lets the others go on when it is silent"
                ),
            )
