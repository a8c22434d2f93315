"""Running totals in the place of tables: cells against counting, and answers that do not depend on them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.trial import contents_of, database
from tests.share.test_shared_many import STREAM
from tidemill.engine.sharing import Sharing
from tidemill.optimize.share import shape
from tidemill.runtime import predicates
from tidemill.runtime.lfta import Lfta
from tidemill.runtime.running import Running
from tidemill.runtime.running_layout import Layout, Verdicts
from tidemill.runtime.thresholds import changed

COLUMNS = ("a", "b", "v", "w")
PARTS = ("n", "v", "w")
LEAVES = ([0, 1], [0], [1], [])
programs = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.just("?"), st.integers(-2, 9)).map(list),
        st.lists(st.integers(-1, 8), min_size=1, max_size=3).map(lambda n: ["in", "?", n]),
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(list), inner.map(lambda p: ["not", p])),
    max_leaves=3,
)


def over(program, column):
    """The program with its column filled in."""
    return [over(p, column) if isinstance(p, list) and p and isinstance(p[0], str) else column if p == "?" else p
            for p in program]


@effort(200)
@given(drawn=st.lists(programs, min_size=1, max_size=4), values=st.lists(st.integers(-20, 20), max_size=9))
def test_values_of_one_class_are_told_apart_by_no_program(drawn, values):
    found = [over(p, "v") for p in drawn]
    cuts = predicates.Cuts.of(found, 64)
    column = np.array([*values, -(2**31), 2**31 - 1])
    for kind in (np.int32, np.int64):
        classes = Verdicts.of(found, set()).classes({"v": column.astype(kind)}, len(column))
        for program in found:
            expected = predicates.evaluate(program, {"v": column})
            assert (predicates.evaluate(program, {"v": cuts.values})[classes] == expected).all()


def test_cuts_that_are_too_many_or_too_far_apart():
    assert predicates.Cuts.of([[">", "v", i] for i in range(9)], 9) is None
    assert predicates.Cuts.of([[">", "v", 0], [">", "v", 10**9]], 9) is None
    for sign, number in (("<=", (1 << 63) - 1), ("=", -(1 << 63)), (">", 10**30)):
        assert predicates.Cuts.of([[sign, "v", number]], 9) is None  # a cut beyond 64 bits


def test_a_predicate_over_two_columns_that_are_not_attributes_is_left_to_the_tables():
    both = ["and", [">", "a", 1], [">", "v", 1]]
    assert Verdicts.of([both], {"a"}) is None and Verdicts.of([None], {"a"}) is None
    assert Verdicts.of([both], {"a", "v"}).groups == {0: 0}


@st.composite
def problems(draw):
    """Rows in order of time, cut into pushes; queries with windows and predicates of their own."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.integers(1, 80))
    narrow = [draw(st.sampled_from([np.int32, np.int64])) for _ in range(4)]
    columns = [chance.integers(-3, 4, rows).astype(kind) for kind in narrow]
    times = np.cumsum(chance.choice([0, 0, 1, 3, 40], rows)) - 20
    tests = [over(p, draw(st.sampled_from(COLUMNS))) for p in draw(st.lists(programs, max_size=5))]
    queries = [{
        "predicate": draw(st.integers(-1, len(tests) - 1)), "objects": [],
        "edges": [[slide, draw(st.integers(0, slide - 1))] for slide in draw(st.sets(st.integers(1, 30), min_size=1,
                                                                                     max_size=2))],
    } for _ in range(draw(st.integers(4, 10)))]
    owner = chance.integers(0, len(LEAVES), len(queries))
    cuts = sorted(draw(st.sets(st.integers(1, rows), max_size=4)) | {0, rows})
    return columns, times, tests, queries, owner, cuts


def layout_of(tests, queries, owner):
    relations = [{"attributes": picks, "parent": -1 if i == 0 else 0, "buckets": int(i == 0), "emits": i,
                  "own": np.flatnonzero(owner == i).tolist()} for i, picks in enumerate(LEAVES)]
    params = {"attributes": [{"sql": '"a"'}, {"sql": '"b"'}], "predicates": [{"program": p} for p in tests],
              "queries": queries, "relations": relations}
    edges = np.array(sorted({tuple(e) for q in queries for e in q["edges"]}))
    return Layout.of(params, (edges[:, 0].copy(), edges[:, 1].copy()))


def floor(time, edges):
    return max(time - (time - phase) % slide for slide, phase in edges)


def counted(columns, times, tests, queries, owner):
    """The slow twin: every row to every query that wants it."""
    found = Counter()
    named = dict(zip(COLUMNS, columns, strict=True))
    truths = [predicates.evaluate(p, named) for p in tests]
    for i, time in enumerate(times.tolist()):
        for q, query in enumerate(queries):
            if query["predicate"] < 0 or truths[query["predicate"]][i]:
                group = tuple(int(columns[a][i]) for a in LEAVES[owner[q]])
                key = (q, floor(time, query["edges"]), group)
                found[(*key, "n")] += 1
                found[(*key, "v")] += int(columns[2][i])
                found[(*key, "w")] += int(columns[3][i])
    return Counter({key: value for key, value in found.items() if value})


def cells_of(made, owner):
    found = Counter()
    numbers = [np.flatnonzero(owner == i).tolist() for i in range(len(LEAVES))]
    for relation, cells in made:
        for i, pane in enumerate(cells.pane.tolist()):
            query, start = numbers[relation][cells.panes[0][pane]], int(cells.panes[1][pane])
            key = (query, start, tuple(cells.attrs[:, i].tolist()))
            assert cells.ints[0, i] > 0
            for name, part in zip(PARTS, cells.ints, strict=False):
                found[(*key, name)] += int(part[i])
    return found


def entries_as_rows(entries, queries, owner):
    """What queries see of entries that tables would get."""
    found = Counter()
    for i, start in enumerate(entries.starts.tolist()):
        for q, query in enumerate(queries):
            if query["predicate"] < 0 or entries.truths[query["predicate"]][i]:
                group = tuple(int(entries.attributes[a][i]) for a in LEAVES[owner[q]])
                key = (q, floor(start, query["edges"]), group)
                for name, part in zip(PARTS, entries.parts, strict=False):
                    found[(*key, name)] += int(part[i])
    return found


@pytest.mark.parametrize(("enough", "least"), [(1, 1 << 10), (20, 1 << 10), (1 << 20, 1 << 10), (1, 3), (20, 7)])
@effort(60)
@given(problem=problems(), parts=st.integers(1, 3))
def test_cells_of_running_totals_equal_counting(enough, least, problem, parts):
    columns, times, tests, queries, owner, cuts = problem
    layout = layout_of(tests, queries, owner)
    if layout is None:
        assert Verdicts.of(tests, {"a", "b"}) is None
        return
    named = dict(zip(COLUMNS, columns, strict=True))
    rare = 0 if enough < 1 << 20 else 2
    with changed(running_rows=enough, running_cells_a_row=1 << 30, running_rows_an_entry=rare,
                 running_looks_a_row=1 << 30, running_groups=least, running_bytes=0):
        totals, made, taken = Running(layout, parts, 0), [], 0
        for low, high in pairwise(cuts):
            part = {name: column[low:high] for name, column in named.items()}
            keys = [part["a"], part["b"]]
            if not totals.takes(times[low:high], keys, part):
                break
            done = totals.push(times[low:high], keys, part, [None, part["v"], part["w"]][:parts])
            taken = low + done
            made += totals.take()
            if done < high - low:
                break
        assert taken == len(times) or totals.weary
        made += totals.finish()
        entries = totals.entries()
    expected = counted([c[:taken] for c in columns], times[:taken], tests, queries, owner)
    expected = {key: value for key, value in expected.items() if key[-1] in PARTS[:parts]}
    assert entries is None or not made
    found = cells_of(made, owner)
    found.update(entries_as_rows(entries, queries, owner) if entries else Counter())
    assert {key: value for key, value in found.items() if value} == expected


def test_rows_out_of_order_are_refused():
    layout = layout_of([], [{"predicate": -1, "objects": [], "edges": [[5, 0]]}] * 4, np.arange(4))
    totals, key = Running(layout, 1, 0), [np.zeros(2, np.int32)] * 2
    assert not totals.takes(np.array([3, 2]), key, {})
    assert totals.takes(np.array([3, 4]), key, {})
    totals.push(np.array([3, 4]), key, {}, [None])
    assert not totals.takes(np.array([3, 4]), key, {}) and totals.takes(np.array([4, 9]), key, {})
    assert not totals.takes(np.array([4, 9]), [np.zeros(2, np.int64)] * 2, {})


def test_panes_that_end_too_often_are_left_to_the_tables():
    """Each row is a pane of each query, and each pane looks at all groups."""
    layout = layout_of([], [{"predicate": -1, "objects": [], "edges": [[1, 0]]}] * 8, np.arange(8) % 4)
    rows = 64
    keys = [np.arange(rows, dtype=np.int32) % 32] * 2
    for looks, weary in ((1, True), (1 << 30, False)):
        with changed(running_rows=1, running_rows_an_entry=0, running_cells_a_row=1 << 30, running_looks_a_row=looks):
            totals = Running(layout, 1, 0)
            assert totals.push(np.arange(rows), keys, {}, [None]) == rows
            assert totals.weary is weary and (totals.entries() is None) is not weary


def create(db, count):
    """So many queries by each of three group-bys; predicates look at a key, at a value, or at nothing."""
    tests = ("WHERE v > {0}", "WHERE k < {1}", "", "WHERE v > {0} AND v < 190", "WHERE k IN ({1}, 4)")
    names = []
    for i in range(count):
        for j, keys in enumerate(("k", "s", "k, s")):
            names.append(f"v{i}_{j}")
            where = tests[(i + j) % len(tests)].format(10 * i, i % 5)
            db.execute(f"CREATE RSTREAM VIEW v{i}_{j} AS SELECT {keys}, COUNT(*) AS n, SUM(v) AS t"
                       f" FROM A [RANGE {4 + i % 3} SLIDE {2 + i % 2}] {where} GROUP BY {keys}")
    return names


@pytest.mark.parametrize(("enough", "cells", "least", "how"), [
    (1, 1 << 30, 1 << 10, (True, False)), (100, 1 << 30, 4, (True, True)), (1, 0, 1 << 10, (False, True)),
])
def test_answers_do_not_depend_on_running_totals(enough, cells, least, how):
    """They do it all; they give up when there are too many groups; they never begin."""
    used = []
    end = Lfta._end

    def watched(self, now, totals):
        used.append((totals.log is None, totals.weary))
        yield from end(self, now, totals)

    with (database([STREAM], shards=2) as db, patch.object(Lfta, "_end", watched),
          changed(running_rows=enough, running_cells_a_row=cells, running_rows_an_entry=0, running_looks_a_row=1 << 30),
          changed(running_groups=least, running_bytes=0)):
        names = create(db, 12)
        db.run()
        found = [contents_of(db, name) for name in names]
    assert used and tuple(map(any, zip(*used, strict=True))) == how
    with database([STREAM], shards=1) as db, patch.object(shape, "MANY", 1 << 30):
        create(db, 12)
        db.run()
        assert [contents_of(db, name) for name in names] == found


@pytest.mark.parametrize("enough", [1, 1 << 20])
def test_every_row_counts_as_a_probe(enough):
    """Entries that were put together before they met a table must not look like rows that a table lets through."""
    seen = []
    learn = Sharing.learn

    def watched(self, op, note, look=True):
        seen.append((note["rows"], note["relations"][0][0]))
        return learn(self, op, note, look)

    with (database([STREAM], shards=1) as db, patch.object(Sharing, "learn", watched),
          changed(running_rows=enough, running_cells_a_row=1 << 30, running_rows_an_entry=0,
                  running_looks_a_row=1 << 30)):
        create(db, 12)
        db.run()
    assert seen and all(rows == probes for rows, probes in seen if rows)
