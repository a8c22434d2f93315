"""From net changes to + u −: the fast way, the general way and a slow twin say the same."""

from __future__ import annotations

from collections import Counter, defaultdict

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb.temporary_tables import select
from tidemill.runtime.views import changes as module
from tidemill.runtime.views.changes import Changes, tag_changes
from tidemill.runtime.views.stored_view import StoredView

COLUMNS = (Column("k", "INTEGER"), Column("v", "VARCHAR"))


def view(number=1, keys=("k",), append_only=False) -> StoredView:
    return StoredView(f"v{number}", f"V{number}", "streamed", COLUMNS, keys, "__time", "BIGINT", append_only)


def table(rows, owners=None) -> pa.Table:
    """Rows (k, v, time, diff)."""
    k, v, time, diff = zip(*rows, strict=True) if rows else ((), (), (), ())
    found = {
        "k": pa.array(k, pa.int32()),
        "v": pa.array(v, pa.string()),
        "__time": pa.array(time, pa.int64()),
        "__diff": pa.array(diff, pa.int64()),
    }
    if owners is not None:
        found["__view"] = pa.array(owners, pa.string()).dictionary_encode()
    return pa.table(found)


def twin(rows, keyed: bool) -> Counter:
    """(time, tag, row, old) by the definition: add up, then pair what goes and what comes under one key, in order."""
    net = Counter()
    for k, v, time, diff in rows:
        net[k, v, time] += diff
    sides = defaultdict(lambda: ([], []))
    for (k, v, time), n in net.items():
        side = sides[time, k if keyed else (k, v)]
        side[0 if n > 0 else 1].extend([(k, v)] * abs(n))
    found = Counter()
    for (time, _), (came, went) in sides.items():
        came.sort(key=lambda row: (row[1] is None, row[1] or ""))
        went.sort(key=lambda row: (row[1] is None, row[1] or ""))
        while came or went:
            new, old = (came.pop(0) if came else None), (went.pop(0) if went else None)
            tag = "u" if new and old else "+" if new else "-"
            found[time, tag, new or old, old if tag == "u" else None] += 1
    return found


def said(log: pa.Table) -> list[tuple]:
    return [
        (r["__time"], r["__tag"], (r["k"], r["v"]), tuple(r["__old"].values()) if r["__old"] else None)
        for r in log.to_pylist()
    ]


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        yield connection


values = st.sampled_from(["a", "b", "c", None])
keyed = st.dictionaries(  # what is before and after each time under each key: at most one row
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(values, values).filter(lambda p: p[0] != p[1]),
    max_size=8,
)
diffs = st.sampled_from([-2, -1, 1, 2])
anything = st.lists(st.tuples(st.none() | st.integers(1, 3), values, st.integers(1, 3), diffs), max_size=12)


def steps(changed) -> list[tuple]:
    """−old +new under each key and time; None stands for no row."""
    return [
        (k, v, time, diff)
        for (time, k), pair in changed.items()
        for v, diff in zip(pair, (-1, 1), strict=True)
        if v is not None
    ]


@effort(40)
@given(changed=keyed, more=keyed)
def test_updates_are_paired_without_netting_first(duck, changed, more):
    """Two shards; in the second one some rows come and go at the same time and in the first they go and come."""
    echo = [(k, "x", time, d) for (time, k) in more for d in (1, -1)]
    rows = [*steps(changed), *echo]
    assert Counter(said(tag_changes(Changes((view(),), table(rows), False), duck))) == twin(rows, True)


@effort(40)
@given(rows=anything)
def test_a_key_that_is_none_and_copies_are_tagged_as_well(duck, rows):
    for keys in (("k",), None):
        found = Counter(said(tag_changes(Changes((view(keys=keys),), table(rows), False), duck)))
        assert found == twin(rows, keys is not None)


@effort(40)
@given(changed=keyed)
def test_the_fast_way_and_the_general_way_agree(duck, changed):
    one = Changes((view(),), table(steps(changed)), True)
    paired = module._pair_updates(one, duck, "")
    assert paired is not None, "true keys are enough"
    numbered = select(duck, module._numbered_sql(one), net=one.rows)
    assert Counter(said(paired)) == Counter(said(numbered))


def test_a_row_paired_with_itself_or_twice_is_noticed(duck):
    """Both look like an update to the join; neither is one."""
    for rows in ([(1, "a", 1, 1), (1, "a", 1, -1)], [(1, "a", 1, 1), (1, "b", 1, 1), (1, "c", 1, -1)]):
        assert module._pair_updates(Changes((view(),), table(rows), False), duck, "") is None
    assert said(tag_changes(Changes((view(),), table([(1, "a", 1, 1), (1, "a", 1, -1)]), False), duck)) == []


@effort(40)
@given(batches=st.lists(keyed, min_size=2, max_size=4))
def test_views_together_have_the_logs_they_have_alone(duck, batches):
    views = tuple(view(i) for i in range(len(batches)))
    rows = [(row, v.id) for v, changed in zip(views, batches, strict=True) for row in steps(changed)]
    together = Changes(views, table([r for r, _ in rows], [o for _, o in rows]), False)
    log = tag_changes(together, duck, ordered=True)
    for one, changed in zip(views, batches, strict=True):
        alone = Changes((one,), table(steps(changed)), False)
        mine = log.filter(pa.array([v == one.id for v in log.column("__view").to_pylist()], pa.bool_()))
        assert said(mine) == said(tag_changes(alone, duck, ordered=True))
        assert together.growth().get(one.id, (0, 0)) == alone.growth().get(one.id, (0, 0))


def test_what_is_ordered_is_ordered_by_time_tag_and_row(duck):
    rows = [(3, "c", 2, 1), (1, "a", 2, -1), (2, "b", 2, -1), (2, "d", 2, 1), (9, "z", 1, 1), (1, "z", 1, 1)]
    assert said(tag_changes(Changes((view(),), table(rows), False), duck, ordered=True)) == [
        (1, "+", (1, "z"), None),
        (1, "+", (9, "z"), None),
        (2, "u", (2, "d"), (2, "b")),
        (2, "-", (1, "a"), None),
        (2, "+", (3, "c"), None),
    ]
