"""Windows that count rows share one numbering, and give what the same queries give alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, tagged
from tests.properties.effort import effort
from tests.properties.queries import predicate
from tests.properties.streams import cuts
from tests.properties.trial import check_view, database, oracle
from tests.share.outcomes import UNSHARED, check_same, outcome, shared_nodes
from tests.share.workloads import (
    COMPUTED_KEYS,
    DISTINCT_CALLS,
    KEYS,
    KINDS,
    ON_TOP,
    TESTS,
    Taste,
    calls,
    settings_text,
    shared_streams,
    view,
    window_query,
)
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.windows import Window
from tidemill.runtime.kernels.sliding import Answers
from tidemill.runtime.operators.numbering import shown

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})
INPUTS = ("A", "A", "A", "(SELECT * FROM A WHERE k > 0)", "(SELECT k % 2 AS k, b, x, d, s, f, day FROM A)")
TASTE = Taste(approximate=False)


@st.composite
def rows_query(draw):
    """GROUP BY over the last rows of A, or of something made of it."""
    source, n = draw(st.sampled_from(INPUTS)), draw(st.integers(1, 9))
    slide = draw(st.sampled_from(["", " SLIDE 1", f" SLIDE {draw(st.integers(1, 12))}"]))
    stamped = not source.startswith("(")
    tests = st.one_of(st.sampled_from([t for t in TESTS if stamped or "TS" not in t]), predicate(KINDS))
    where = f" WHERE {draw(tests)}" if draw(st.booleans()) else ""
    options = [*KEYS, *COMPUTED_KEYS, *(["a.TS", "a.tm % 3"] if stamped else [])]
    keys = draw(st.lists(st.sampled_from(options), min_size=1, max_size=3, unique=True))
    chosen = [f"{sql} AS o{i}" for i, sql in enumerate(keys)]
    chosen += [f"{sql} AS c{i}" for i, sql in enumerate(draw(calls(TASTE)))]
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1"]))
    return f"SELECT {', '.join(chosen)} FROM {source} AS a [ROWS {n}{slide}]{where} GROUP BY {', '.join(keys)}{having}"


@st.composite
def rows_views(draw, most=6):
    """Window aggregates by rows, now and then one by time beside them and something above."""
    outputs = st.sampled_from(["STREAMED", "STREAMED", "COMPLETE", "RSTREAM"])
    found = [view(f"v{i}", draw(outputs), draw(rows_query())) for i in range(draw(st.integers(1, most)))]
    if draw(st.booleans()):
        found.append(view("timed", "STREAMED", draw(window_query(TASTE))))
    below = next((v for v in found if v.output != "RSTREAM"), None)
    if below is not None and draw(st.booleans()):
        found.append(view("top", "STREAMED", draw(st.sampled_from(ON_TOP)).format(below.name)))
    return found


def run(stream, views, *statements, **options):
    """The outcome of one run, and how many window aggregates went through the shared plan."""
    with database([stream], **options) as db:
        for text in (*statements, *(v.statement for v in views)):
            db.execute(text)
        db.run()
        return outcome(db, views), shared_nodes(db)


@effort(40)
@given(stream=shared_streams(TASTE, most=40), views=rows_views(), first=places, second=places, data=st.data())
def test_shared_equals_unshared(stream, views, first, second, data):
    expected, none = run(stream, views, without=UNSHARED, **first)
    found, _ = run(stream.recut(*data.draw(cuts(len(stream.rows)))), views, data.draw(settings_text()), **second)
    assert none == 0
    check_same(found, expected)


@effort(20)
@given(stream=shared_streams(TASTE), views=rows_views(most=3), place=places)
def test_shared_equals_the_oracle(stream, views, place):
    with database([stream], **place) as db:
        for each in views:
            db.execute(each.statement)
        db.run()
        with oracle(db, [stream]) as truth:
            for each in views:
                check_view(db, each, truth)
