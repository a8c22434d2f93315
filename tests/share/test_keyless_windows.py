"""Aggregates over whole windows, without keys: shared like all others, and one row even where nothing is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.queries import predicate
from tests.properties.trial import check_view, database, oracle
from tests.share.outcomes import UNSHARED, check_same, run
from tests.share.test_kept_cases import same, stream
from tests.share.workloads import (
    KINDS,
    TESTS,
    Taste,
    calls,
    few_cuts,
    settings_text,
    shared_streams,
    shared_views,
    view,
    window_spelling,
)

COUNTED = ("A [ROWS 3 SLIDE 2] AS a", "A [ROWS 4] AS a", "A [ROWS 2 SLIDE 5] AS a")
places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


@st.composite
def whole_windows(draw: st.DrawFn, taste: Taste) -> list:
    """Views without keys over windows in any spelling, beside views with keys."""
    found = []
    for i in range(draw(st.integers(1, 4))):
        source, conditions, epoch = draw(window_spelling())
        if epoch is not None:
            source, conditions = draw(st.sampled_from(COUNTED)), []
        if draw(st.booleans()):
            conditions = [*conditions, draw(st.one_of(st.sampled_from(TESTS), predicate(KINDS)))]
        chosen = ", ".join(f"{sql} AS c{j}" for j, sql in enumerate(draw(calls(taste))))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1", " HAVING COUNT(*) % 2 = 0"]))
        found.append(
            view(
                f"w{i}",
                draw(st.sampled_from(["STREAMED", "STREAMED", "COMPLETE"])),
                f"SELECT {chosen} FROM {source}{where}{having}",
            )
        )
    return [*found, *draw(shared_views(taste, most=2))]


@effort(8)
@given(
    stream=shared_streams(Taste(failing=True, gaps=True)),
    views=whole_windows(Taste(failing=True)),
    sets=settings_text(),
    place=places,
    cut=few_cuts(24),
)
def test_shared_equals_unshared(stream, views, sets, place, cut):
    expected, none = run(stream.recut(cut[0], None), views, without=UNSHARED, shards=1, cores=1)
    found, _ = run(stream, views, sets, **place)
    assert none == 0
    check_same(found, expected)


@effort(6)
@given(stream=shared_streams(Taste()), views=whole_windows(Taste()), place=places)
def test_shared_equals_the_oracle(stream, views, place):
    with database([stream], **place) as db:
        for one in views:
            db.execute(one.statement)
        db.run()
        with oracle(db, [stream]) as truth:
            for one in views:
                check_view(db, one, truth)


def test_a_window_without_rows_has_its_row():
    rows = [{"k": 1, "x": 0.5, "tm": 0}, {"k": 3, "x": 1.5, "tm": 1}, {"k": 5, "x": -2.0, "tm": 20}, {"tm": 30}]
    found = same(
        stream(*rows),
        "SELECT COUNT(*) AS c0, SUM(a.k) AS c1, AVG(a.x) AS c2, VARIANCE(a.x) AS c3 FROM A [RANGE 2 SLIDE 2] AS a",
    )
    assert {row[2:] for row in found.logs["v0"]} >= {(0, None, None, None)}


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("SELECT MAX(a.k) AS c0 FROM A [RANGE 5 SLIDE 1] AS a", 1),
        ("SELECT SUM(a.x) AS c0 FROM A [ROWS 5 SLIDE 2] AS a", 1),
        ("SELECT COUNT(*) AS c0 FROM A SYNC EVERY 2 AS a", 0),  # nothing leaves: one more exchange for nothing
        ("SELECT MAX(a.s) AS c0 FROM A [RANGE 5 SLIDE 1] AS a", 0),  # no number
    ],
)
def test_what_is_worth_it(text, shared):
    _, nodes = run(stream({"k": 1, "tm": 0}, {"k": 2, "tm": 9}), [view("v", "STREAMED", text)])
    assert nodes == shared
