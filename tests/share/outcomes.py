"""A run with shared windows: what it has left behind, and when two runs have left the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.harness import LocalDatabase
from tests.properties.query_text import View
from tests.properties.streams import Stream
from tests.properties.trial import contents_of, database, log_of
from tests.reference.logs import Row, same_rows
from tidemill.plan import relations as r
from tidemill.plan.node import walk

UNSHARED = ("window_aggregates", "distinct_windows", "keyless_windows")


@dataclass(frozen=True)
class Outcome:
    """Change logs, with times and tags as columns, and stored answers, by view; rows put aside."""

    logs: dict[str, Counter[Row]]
    contents: dict[str, Counter[Row]]
    aside: set[tuple[str, str]]


def outcome(db: LocalDatabase, views: Iterable[View]) -> Outcome:
    """What is stored of these views."""
    listed = list(views)
    logs = {
        v.name: Counter((c.time, c.tag, *c.row, *(c.old or ())) for c in log_of(db, v.name))
        for v in listed
        if v.output == "STREAMED"
    }
    return Outcome(logs, {v.name: contents_of(db, v.name) for v in listed}, aside(db))


def aside(db: LocalDatabase) -> set[tuple[str, str]]:
    """(source, position) of the rows on which an expression failed; how often depends on who shares what."""
    names = {e.spec.name for e in db.catalog.of("source") if e.spec}
    table = db.query("SELECT DISTINCT source, position FROM dead_letters").to_pydict()
    return {(s, p) for s, p in zip(table["source"], table["position"], strict=True) if s in names}


def check_same(found: Outcome, expected: Outcome) -> None:
    """Equal outcomes; doubles up to a relative error of 1e-9."""
    for what in ("logs", "contents"):
        left, right = getattr(found, what), getattr(expected, what)
        assert left.keys() == right.keys()
        for name in left:
            assert same_rows(left[name], right[name]), (
                f"{what} of {name}\n  only shared: {sorted(map(str, (left[name] - right[name]).elements()))[:8]}"
                f"\n  only unshared: {sorted(map(str, (right[name] - left[name]).elements()))[:8]}"
            )


def shared_nodes(db: LocalDatabase) -> int:
    """How many window aggregates stand in the plans of the views."""
    return sum(isinstance(n, r.WindowAggregate) for v in db.workload.views.values() for n in walk(v.node))


def run(stream: Stream, views: Sequence[View], *statements: str, **options: Any) -> tuple[Outcome, int]:
    """The outcome of one run, and how many window aggregates went through the shared plan."""
    with database([stream], **options) as db:
        for text in (*statements, *(v.statement for v in views)):
            db.execute(text)
        db.run()
        return outcome(db, views), shared_nodes(db)
