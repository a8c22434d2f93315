"""One database of one example: build it, run it, and hold its views against the oracle."""

from __future__ import annotations

import random
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from tests.harness import LocalDatabase
from tests.properties.query_text import View
from tests.properties.streams import UNIT, Stream
from tests.reference.logs import Change, Row, canonical_row, check_minimal, replay, same_rows
from tests.reference.oracle import Oracle
from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.runtime.fast_paths import NAMES, without
from tidemill.runtime.thresholds import Thresholds, changed, parse_thresholds, sizes
from tidemill.runtime.views.store import order

REFUSED = {"TM209"}  # [ROWS …] over something that takes rows back


@contextmanager
def drawn_thresholds(streams: list[Stream], options: dict[str, Any]) -> Iterator[None]:
    """Usual, all at their smallest, or each of them one or the other, by what the example is: the same in every run.

    What a test has set stays. No answer may depend on any of it, so two runs of one test may well have different ones.
    Long streams are cut into some forty pieces, not into single rows. Runs over one stream number its records alike.
    """
    chance = random.Random(zlib.crc32(repr((streams, sorted(options.items()))).encode()))
    share, piece = chance.choice((0.0, 0.0, 0.5, 1.0)), sum(len(s.rows) for s in streams) // 40
    usual, drawn = vars(Thresholds()), {}
    for name, least in parse_thresholds("smallest").items():
        if chance.random() < share and getattr(sizes, name) == usual[name]:
            drawn[name] = min(max(least, piece), usual[name]) if least < usual[name] else least
    drawn.pop("numbered_entries", None)
    if sizes.numbered_entries == usual["numbered_entries"] and zlib.crc32(repr(streams).encode()) % 2:
        drawn["numbered_entries"] = 1
    with changed(**drawn):
        yield


def draw_paths_off(streams: list[Stream], options: dict[str, Any]) -> list[str]:
    """Fast paths that an example does without: none, half of them or nearly all, by what the example is."""
    chance = random.Random(zlib.crc32(repr((sorted(options.items()), streams)).encode()))
    share = chance.choice((0.0, 0.0, 0.5, 0.9))
    return [name for name in NAMES if chance.random() < share]


@contextmanager
def drawn_database(streams: Iterable[Stream], **options: Any) -> Iterator[LocalDatabase]:
    """Like `database`, without fast paths by chance."""
    listed = list(streams)
    with without(draw_paths_off(listed, options)), database(listed, **options) as db:
        yield db


@contextmanager
def database(
    streams: Iterable[Stream], *, write: bool = True, kind: type[LocalDatabase] = LocalDatabase, **options: Any
) -> Iterator[LocalDatabase]:
    """A database over the streams, in a folder of its own, with thresholds by chance."""
    listed = list(streams)
    with drawn_thresholds(listed, options), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with kind(str(folder / "db"), **options) as db:
            for stream in listed:
                (folder / stream.name).mkdir(exist_ok=True)
                if write:
                    stream.write(folder)
                db.execute(stream.statements(folder))
            yield db


def create(db: LocalDatabase, views: Iterable[View], missing: Iterable[str] = ()) -> list[View]:
    """Create the views; those that the language refuses for a good reason, and what builds on them, are left out."""
    made: list[View] = []
    gone = set(missing)
    for view in views:
        if gone & {i.source.name for i in view.query.items}:
            gone.add(view.name)
            continue
        try:
            db.execute(view.statement)
            made.append(view)
        except PlanProblem as problem:
            if problem.code not in REFUSED:
                raise
            gone.add(view.name)
    return made


def watch(db: LocalDatabase, streams: Iterable[Stream]) -> None:
    """Read every stream: the clock follows the sources that are read."""
    for stream in streams:
        if not stream.static:
            db.execute(f"CREATE VIEW watch{stream.name} AS SELECT COUNT(*) AS n FROM {stream.name}")


def log_of(db: LocalDatabase, name: str) -> list[Change]:
    """The change log of a STREAMED view with its exact times."""
    stored = db.workload.views[name.lower()].stored
    with db.store.reading() as duck:
        # __time, __batch, tag, the view's columns, the old row
        rows = duck.sql(f"{db.store.logged_sql(stored, duck)} ORDER BY __time, __batch, {order(stored)}").fetchall()
    return [
        Change(time, tag, canonical_row(row), canonical_row(old.values()) if old is not None else None)
        for time, _, tag, *row, old in rows
    ]


def contents_of(db: LocalDatabase, name: str) -> Counter[Row]:
    """What is stored as the view's current answer."""
    stored = db.workload.views[name.lower()].stored
    with db.store.reading() as duck:
        return Counter(canonical_row(row) for row in duck.sql(db.store.relation_sql(stored, duck)).fetchall())


def key_positions(db: LocalDatabase, name: str) -> list[int] | None:
    stored = db.workload.views[name.lower()].stored
    return None if stored.keys is None else [stored.names.index(k) for k in stored.keys]


def plan_of(db: LocalDatabase, name: str) -> Relation:
    """The view's plan before optimization."""
    view = db.workload.views[name.lower()]
    if view.stored.output in ("istream", "dstream"):
        assert isinstance(view.node, r.ChangeStream)
        return replace(view.node, input=view.query.node)
    if view.stored.output != "rstream":
        return view.query.node
    assert isinstance(view.node, r.Rstream)
    return r.Rstream(view.query.node, view.node.period, view.node.points, view.node.stamp, view.node.stamp_type)


def span(streams: Iterable[Stream]) -> tuple[list[int], int | None]:
    """(all moments at which something can change, the time at which the clock begins)."""
    listed = list(streams)
    moving = [s for s in listed if not s.static]
    rows = [row for s in moving for row in s.punctual()[0]]
    # Rows of tables were always there; a window may move their first days a little.
    always = [r.STATIC_TIME + t * UNIT for t in range(60)] if not rows or any(s.static for s in listed) else []
    if not rows:
        return always, None
    begin = min(s.punctual()[0][0]["tm"] - s.lateness for s in moving if s.rows)
    low, high = min(row["tm"] for row in rows), max(row["tm"] for row in rows)
    return [*always, *(t * UNIT for t in range(min(low, begin), high + 1))], begin * UNIT


def used_sources(db: LocalDatabase, streams: Iterable[Stream]) -> list[Stream]:
    """The streams that some standing query reads: only they move the clock."""
    from tidemill.plan.node import walk

    names = {n.source for v in db.workload.views.values() for n in walk(v.query.node) if isinstance(n, r.Scan)}
    return [s for s in streams if (s.name if s.static else s.source) in names]


@contextmanager
def oracle(
    db: LocalDatabase,
    streams: Iterable[Stream],
    *,
    firsts: dict[int, dict[str, int]] | None = None,
    births: dict[int, int] | None = None,
    begin: int | None = None,
    ends: dict[int, int] | None = None,
) -> Iterator[Oracle]:
    """The oracle of everything that stands in the database."""
    used = used_sources(db, streams)
    by_source = {(s.name if s.static else s.source): s for s in used}
    moments, first = span(used)
    views = {v.entry.name: plan_of(db, v.entry.name) for v in db.workload.views.values()}

    def rows(source: str, birth: int) -> Any:
        first = (firsts or {}).get(birth, {}).get(source, 0)
        return by_source[source].table(first)

    found = Oracle(rows, moments, begin=first if begin is None else begin, views=views, births=births, ends=ends)
    try:
        yield found
    finally:
        found.close()


def check_view(db: LocalDatabase, view: View, truth: Oracle, plan: Relation | None = None) -> None:
    """Laws (a) and (b): the log replays to the oracle's answer at every moment, with the fewest changes. `plan` is what
    the oracle answers, where that is not the view's own plan before optimization.
    """
    history = truth.history(plan_of(db, view.name) if plan is None else plan)
    expected = {m: Counter(map(canonical_row, rows)) for m, rows in history.items()}
    last = expected[truth.universe[-1]]
    if view.output == "STREAMED":
        log = log_of(db, view.name)
        strange = {c.time for c in log} - set(truth.universe)
        assert not strange, f"{view.statement}\nchanges at {sorted(strange)}"
        for moment, found in replay(log, truth.universe):
            assert same_rows(found, expected[moment]), difference(view, moment, found, expected[moment])
        check_minimal(log, key_positions(db, view.name))
        assert db.changes(view.name).num_rows == len(log)
    found = contents_of(db, view.name)
    assert same_rows(found, last), difference(view, truth.universe[-1], found, last)


def difference(view: View, moment: int, found: Counter[Row], expected: Counter[Row]) -> str:
    return (
        f"{view.statement}\nat {moment / UNIT:g}\n  only in the engine: {list((found - expected).elements())}"
        f"\n  only in the oracle: {list((expected - found).elements())}"
    )


@contextmanager
def plain_sql(streams: Iterable[Stream]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the rows of all streams as tables."""
    duck = duckdb.connect(":memory:")
    try:
        for stream in streams:
            duck.register("arrived", stream.table())
            duck.execute(f'CREATE TABLE "rows {stream.name}" AS SELECT * FROM arrived')
            duck.unregister("arrived")
        yield duck
    finally:
        duck.close()


def check_directly(db: LocalDatabase, view: View, duck: duckdb.DuckDBPyConnection, moments: list[int]) -> int:
    """The user's own text, answered by DuckDB from the rows of a moment; how often that was possible."""
    if view.output != "STREAMED":
        return 0
    done = 0
    for moment, found in replay(log_of(db, view.name), moments):
        sql = view.query.direct(moment // UNIT)
        if sql is None or (view.query.keyless and not found):
            continue
        expected = Counter(canonical_row(row) for row in duck.sql(sql).fetchall())
        assert same_rows(found, expected), difference(view, moment, found, expected) + f"\n{sql}"
        done += 1
    return done
