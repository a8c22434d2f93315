"""DuckDB in batch on all cores: the best SQL we know for each work, the answers as tables in memory.

*As asked*, every query is answered by itself, from the files. *Shared by hand*, what all of them have in common is
written once: for *tumbling* windows (W1) GROUPING SETS, or one GROUP BY of all attributes
whose result feeds the others; for *sliding* windows (W3) one scan into panes as long as the greatest common divisor of
the slides. A sliding query goes over panes of its slide, its own or made of common ones, in one of three ways:
  copies   every pane is copied into each window that it is in, then GROUP BY;
  changes  a pane is added where it enters and subtracted where it leaves, running sums, a sum stands until the next;
  grid     a row for each key and slide, then a frame of as many rows as a window has slides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import answers
from benchmarks.packets import ATTRIBUTES
from benchmarks.peers.mixture import Unlike
from benchmarks.peers.workloads import ASKED, SHARED, Query

EACH, SETS, FINEST = "each by itself", "GROUPING SETS", "finest first"
SLIDING = ("copies", "changes", "grid")
_COMMON = "common panes, "
_SUMS = "count(*) AS n, sum(len)::BIGINT AS total"
_AGAIN = "sum(n)::BIGINT AS n, sum(total)::BIGINT AS total"


class DuckDBSide:
    """One connection in memory, a thread for each core."""

    def __init__(self) -> None:
        import os

        import duckdb

        self.db = duckdb.connect()
        self.db.execute(f"SET threads = {len(os.sched_getaffinity(0))}")

    def measure(self, folder: str, queries: Sequence[Query], shape: str, kept: str | None) -> dict[str, Any]:
        """Seconds until all answers are in tables; they are kept in a folder afterwards."""
        source = f"read_parquet('{folder}/*.parquet')"
        began = time.perf_counter()
        for line in statements(queries, shape, source):
            self.db.execute(line)
        seconds = time.perf_counter() - began
        for query in queries if kept else ():
            assert kept is not None
            rows = self.db.sql(f"FROM {query.name}").to_arrow_table()
            answers.store(kept, query, rows)
        return {"seconds": seconds}

    def answer(self, folder: str, queries: Sequence[Unlike], kept: str | None) -> dict[str, Any]:
        """Seconds until the answers of queries of the mixture, one after another, are in tables."""
        source = f"read_parquet('{folder}/*.parquet')"
        began = time.perf_counter()
        for query in queries:
            self.db.execute(_table(query.name, query.answer(source)))
        seconds = time.perf_counter() - began
        for query in queries:
            if kept:
                answers.store(kept, query, self.db.sql(f"FROM {query.name}").to_arrow_table())
            self.db.execute(f"DROP TABLE {query.name}")
        return {"seconds": seconds}


def shapes(queries: Sequence[Query]) -> dict[str, tuple[str, ...]]:
    """The ways to write these queries: each by itself, and with what several of them have in common written once.

    >>> shapes([Query("q", ("sip",), 60, 1)])
    {'duckdb': ('copies', 'changes', 'grid')}
    >>> shapes([Query("q", ("sip",), 60, 1), Query("r", ("sip",), 60, 6)])["duckdb, shared by hand"]
    ('common panes, copies', 'common panes, changes', 'common panes, grid')
    """
    if all(q.range == q.slide for q in queries):
        return {ASKED: (EACH,), SHARED: (SETS, FINEST)}
    common = tuple(_COMMON + shape for shape in SLIDING)
    return {ASKED: SLIDING, SHARED: common} if len(queries) > 1 else {ASKED: SLIDING}


def statements(queries: Sequence[Query], shape: str, source: str) -> list[str]:
    """The SQL of a work; each query's answer is in a table of its name."""
    if shape in (EACH, SETS, FINEST):
        return _tumbling(queries, shape, source)
    if shape in SLIDING:
        return [line for q in queries for line in _over_panes((q,), shape, source)]
    return _over_panes(queries, shape.removeprefix(_COMMON), source)


def _over_panes(queries: Sequence[Query], shape: str, source: str) -> list[str]:
    """One scan into panes that all these queries can use, then each query."""
    (keys,), (where,) = {q.by for q in queries}, {q.where for q in queries}
    width = math.gcd(*(q.slide for q in queries))
    panes = f"SELECT {_pane(width)} AS pane, {keys}, {_SUMS} FROM {source}{where} GROUP BY ALL"
    return [_table("panes", panes), *(_table(q.name, _sliding(q, shape, q.slide // width)) for q in queries)]


def _table(name: str, select: str) -> str:
    return f"CREATE OR REPLACE TEMP TABLE {name} AS {select}"


def _pane(seconds: int) -> str:
    return f"epoch_us(ts) // {seconds * 1_000_000}"


def _time(number: str, seconds: int) -> str:
    return f"make_timestamp(({number}) * {seconds * 1_000_000}) AS TS"


def _tumbling(queries: Sequence[Query], shape: str, source: str) -> list[str]:
    (slide,) = {q.slide for q in queries}
    if shape == EACH:
        grouped = "SELECT {pane} AS pane, {by}, {sums} FROM {source} GROUP BY ALL"
        return [
            _table(
                q.name,
                f"SELECT {_time('pane + 1', slide)}, {q.by}, n, total FROM"
                f" ({grouped.format(pane=_pane(slide), by=q.by, sums=_SUMS, source=source)})",
            )
            for q in queries
        ]
    every = ", ".join(ATTRIBUTES)
    if shape == FINEST:
        finest = f"SELECT {_pane(slide)} AS pane, {every}, {_SUMS} FROM {source} GROUP BY ALL"
        return [
            _table("finest", finest),
            *(
                _table(q.name, f"SELECT {_time('pane + 1', slide)}, {q.by}, {_AGAIN} FROM finest GROUP BY pane, {q.by}")
                for q in queries
            ),
        ]
    sets = ", ".join(f"(pane, {q.by})" for q in queries)
    whole = (
        f"SELECT {_pane(slide)} AS pane, {every}, grouping({every}) AS which, {_SUMS} FROM {source}"
        f" GROUP BY GROUPING SETS ({sets})"
    )
    return [
        _table("sets", whole),
        *(
            _table(q.name, f"SELECT {_time('pane + 1', slide)}, {q.by}, n, total FROM sets WHERE which = {_which(q)}")
            for q in queries
        ),
    ]


def _which(query: Query) -> int:
    """What grouping() says of the query's set: a bit for each attribute that is not in it, the last one lowest."""
    return sum(2**place for place, a in enumerate(reversed(ATTRIBUTES)) if a not in query.keys)


def _sliding(query: Query, shape: str, panes: int) -> str:
    """One query over the panes of the table `panes`, of which this many make a slide."""
    by, slide, overlap = query.by, query.slide, query.range // query.slide
    slides = f"SELECT pane // {panes} AS pane, {by}, {_AGAIN} FROM panes GROUP BY ALL" if panes > 1 else "FROM panes"
    if shape == "copies":
        copies = f"SELECT unnest(range(pane + 1, pane + {overlap + 1})) AS point, {by}, n, total FROM ({slides})"
        return f"SELECT {_time('point', slide)}, {by}, {_AGAIN} FROM ({copies}) GROUP BY point, {by}"
    if shape == "changes":
        return f"""WITH slides AS ({slides}),
            changes AS (SELECT point, {by}, {_AGAIN} FROM
                (SELECT pane + 1 AS point, {by}, n, total FROM slides UNION ALL
                 SELECT pane + {overlap + 1}, {by}, -n, -total FROM slides) GROUP BY ALL),
            sums AS (SELECT point, {by}, sum(n) OVER w AS n, sum(total) OVER w AS total, lead(point) OVER w AS until
                FROM changes WINDOW w AS (PARTITION BY {by} ORDER BY point))
            SELECT {_time("unnest(range(point, until))", slide)}, {by}, n::BIGINT AS n, total::BIGINT AS total
            FROM sums WHERE n > 0"""
    return f"""WITH slides AS ({slides}),
        grid AS (SELECT {by}, unnest(range(first, last + {overlap})) AS pane FROM
            (SELECT {by}, min(pane) AS first, max(pane) AS last FROM slides GROUP BY ALL)),
        sums AS (SELECT pane, {by}, sum(n) OVER w AS n, sum(total) OVER w AS total FROM grid LEFT JOIN slides
            USING (pane, {by})
            WINDOW w AS (PARTITION BY {by} ORDER BY pane ROWS BETWEEN {overlap - 1} PRECEDING AND CURRENT ROW))
        SELECT {_time("pane + 1", slide)}, {by}, n::BIGINT AS n, total::BIGINT AS total FROM sums WHERE n > 0"""
