"""Sessions where they are hard: over synchronizers, at gaps that are just as long, with late rows, joined, grouped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties.query_text import Query, View
from tests.properties.test_invariance import Crashing, run
from tests.properties.test_kept_cases import append_only, holds, keyed
from tidemill.runtime.thresholds import smallest

A = append_only(
    {"k": 1, "v": 1, "s": "a", "tm": 1},
    {"k": 2, "v": 2, "s": "a", "tm": 1},
    {"k": 1, "v": 3, "s": "b", "tm": 4},
    {"k": None, "v": 4, "s": "a", "tm": 5},
    {"k": 2, "v": 5, "s": "a", "tm": 3},
    {"k": 1, "v": 6, "tm": 7},
    {"k": 1, "v": 6, "tm": 7},
    {"k": 2, "v": 7, "s": "b", "tm": 10},
    {"k": 2, "v": 7, "s": "b", "tm": 2},  # late
    {"k": None, "v": 8, "s": "b", "tm": 9},
    {"k": 1, "v": 9, "s": "a", "tm": 13},
    lateness=2,
    batch_rows=1,
)
K = keyed(
    {"k": 1, "v": 1, "tm": 1},
    {"k": 2, "v": 1, "tm": 2},
    {"k": 3, "v": 1, "tm": 2},
    {"k": 1, "v": 2, "tm": 4},
    {"k": 2, "op": "delete", "tm": 5},
    {"k": 2, "v": 3, "tm": 5},
    {"k": 3, "op": "delete", "tm": 8},
    {"k": 1, "v": 1, "tm": 10},
    {"k": 2, "v": 4, "tm": 13},
    batch_rows=2,
)
BOUNDS = "a.window_start, a.window_end"
COUNTED = "STREAMED VIEW c AS SELECT a.k, count(*) AS n FROM A AS a GROUP BY a.k"
GAPS = [f"STREAMED VIEW AS SELECT a.k, a.v, {BOUNDS} FROM A [SESSION {gap} PARTITION BY k] AS a" for gap in (1, 2, 3)]
GAPS += [f"STREAMED VIEW AS SELECT a.k, {BOUNDS} FROM K [SESSION {gap} PARTITION BY v] AS a" for gap in (2, 3)]
GROUPED = [
    f"STREAMED VIEW AS SELECT a.k, {BOUNDS}, count(*) AS n FROM A [SESSION 3] AS a GROUP BY a.k, {BOUNDS}"
    " HAVING count(*) > 1",
    "STREAMED VIEW AS SELECT a.k, sum(a.v) AS n FROM A [SESSION 2] AS a GROUP BY a.k",
    f"STREAMED VIEW AS SELECT {BOUNDS}, count(DISTINCT a.k) AS n, max(a.s) AS s FROM A [SESSION 3 PARTITION BY s] AS a"
    f" WHERE a.window_start > 1 GROUP BY {BOUNDS}",
    "STREAMED VIEW AS SELECT a.window_end, sum(a.v) AS n FROM K [SESSION 3 PARTITION BY v] AS a GROUP BY a.window_end"
    " HAVING sum(a.v) < 4",
]
JOINED = [
    "STREAMED VIEW p AS SELECT a.k, a.window_end AS e, count(*) AS n FROM A [SESSION 2 PARTITION BY k] AS a"
    " GROUP BY a.k, a.window_end",
    "STREAMED VIEW q AS SELECT a.k, a.window_end AS e, sum(a.v) AS n FROM K [SESSION 3 PARTITION BY k] AS a"
    " GROUP BY a.k, a.window_end",
    "STREAMED VIEW AS SELECT p.k, p.n, q.e, q.n AS m FROM p JOIN q ON p.k = q.k",
    "STREAMED VIEW AS SELECT p.k, q.k AS l, p.e FROM p FULL JOIN q ON p.k = q.k AND p.e <= q.e",
    f"STREAMED VIEW AS SELECT a.k, a.n, {BOUNDS} FROM p [SESSION 1] AS a",
]
SYNCHRONIZED = [
    COUNTED,
    "STREAMED VIEW five AS SELECT a.k, a.n FROM c SYNC EVERY 5 AS a",
    "STREAMED VIEW syncClock AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint % 6 IN (1, 4)",
    "STREAMED VIEW syncEvent AS SELECT R.TS FROM R(A) R WHERE R.v > 4",
    "STREAMED VIEW periods AS SELECT a.k, a.n FROM c SYNC ON syncClock AS a",
    "STREAMED VIEW events AS SELECT a.k, a.n FROM c SYNC ON syncEvent AS a",
]
for view in ("five", "periods", "events"):
    SYNCHRONIZED += [
        f"STREAMED VIEW AS SELECT a.k, a.n, {BOUNDS} FROM {view} [SESSION 4] AS a",
        f"STREAMED VIEW AS SELECT a.k, {BOUNDS}, count(*) AS m FROM {view} [SESSION 3] AS a GROUP BY a.k, {BOUNDS}",
        f"STREAMED VIEW AS SELECT a.k, a.n FROM {view} [WINDOW 3] AS a",
        f"STREAMED VIEW AS SELECT a.k, a.n FROM {view} AS a WHERE NOW - 4 < a.TS",
    ]
FEW = [*GROUPED[:2], *JOINED[:3]]
SETS = {"gaps": GAPS, "grouped": GROUPED, "joined": JOINED, "synchronized": SYNCHRONIZED}


def named(statements):
    """Views with names, as `holds` gives them."""
    found = []
    for i, text in enumerate(statements):
        output, _, rest = text.partition(" VIEW ")
        name, _, query = rest.partition("AS ")
        found.append(View(name.strip() or f"v{i}", output, Query(query, (), {}, plain=False)))
    return found


@pytest.mark.parametrize("name", list(SETS))
def test_sessions_are_those_of_the_rows_of_every_moment(name):
    with smallest():
        holds([A, K], *(f"{v.output} VIEW {v.name} AS {v.query.text}" for v in named(SETS[name])), shards=3)


def test_a_crash_in_any_batch_changes_no_session():
    streams, views = [replace(A, batch_rows=3), replace(K, batch_rows=3)], named(FEW)
    expected = run(streams, views, shards=2)
    assert all(expected[0].values())
    Crashing.faults = ["computed", "applied", "kept", "committed"]
    assert run(streams, views, kind=Crashing, shards=2) == expected
