"""Running totals in the place of tables: cells against counting, and answers that do not depend on them."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.trial import contents_of, database
from tests.share.test_shared_many import STREAM
from tidemill.engine.adapt.sharing import Sharing
from tidemill.optimize.share import reader_plan
from tidemill.plan import predicate_programs as predicates
from tidemill.plan.physical import Lfta, LftaExpression, LftaPredicate, LftaQuery, LftaRelation
from tidemill.runtime.kernels.share.lfta import GREATEST, LEAST, SUM
from tidemill.runtime.share.reader.branch import Branch
from tidemill.runtime.share.reader.running_totals.layout import Layout, fitting
from tidemill.runtime.share.reader.running_totals.totals import RunningTotals
from tidemill.runtime.share.reader.running_totals.verdicts import Term, Verdicts
from tidemill.runtime.thresholds import changed

COLUMNS = ("a", "b", "v", "w")
PARTS = ("n", "v", "w", "least", "greatest")
LEAVES = ([0, 1], [0], [1], [])
programs = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.just("?"), st.integers(-2, 9)).map(list),
        st.lists(st.integers(-1, 8), min_size=1, max_size=3).map(lambda n: ["in", "?", n]),
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(list), inner.map(lambda p: ["not", p])
    ),
    max_leaves=3,
)


def over(program, column):
    """The program with its column filled in."""
    return [
        over(p, column) if isinstance(p, list) and p and isinstance(p[0], str) else column if p == "?" else p
        for p in program
    ]


drawn_programs = st.recursive(
    st.one_of(programs.flatmap(lambda p: st.sampled_from(COLUMNS).map(lambda c: over(p, c)))),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(list), inner.map(lambda p: ["not", p])
    ),
    max_leaves=4,
)


@effort(200)
@given(drawn=st.lists(drawn_programs, min_size=1, max_size=4), seed=st.integers(0, 2**32), narrow=st.booleans())
def test_terms_of_a_predicate_are_disjoint_and_its_rows_are_all_of_theirs(drawn, seed, narrow):
    """Columns a and b are attributes. Rows far from all numbers of the programs are among them."""
    chance = np.random.default_rng(seed)
    kind = np.int32 if narrow else np.int64
    columns = {c: np.append(chance.integers(-4, 11, 30), [-(2**31), 2**31 - 1]).astype(kind) for c in COLUMNS}
    expected = [predicates.evaluate(p, columns) for p in drawn]
    verdicts = Verdicts.of(drawn, {"a", "b"})
    given = columns | {name: expected[i].astype(np.int32) for name, i in verdicts.bits.items()}
    classes = verdicts.classes(given, 32)
    for i, terms in verdicts.terms.items():
        found = np.zeros(32, np.int64)
        for value, test in terms:
            rows = np.ones(32, bool) if value == 0 else verdicts.wanted[value - 1][classes]
            found += rows & (True if test < 0 else predicates.evaluate(verdicts.tests[test], columns))
        assert (found == expected[i]).all()


def test_predicates_that_make_too_many_classes_do_not_fit_and_the_popular_ones_stay():
    many, one = [[">", "v", i] for i in range(60)], [">", "w", 3]
    verdicts = Verdicts.of([*many, one], set(), [1] * 61)
    assert set(verdicts.terms) == set(range(60)) and verdicts.count == 61
    verdicts = Verdicts.of([*many, one], set(), [1] * 60 + [99])
    assert 60 in verdicts.terms and set(verdicts.terms) & set(range(60)) == set(range(31))


def test_cuts_that_are_too_far_apart_are_bits():
    for far in ([">", "v", 10**9], ["<=", "v", (1 << 63) - 1], ["=", "v", -(1 << 63)], [">", "v", 10**30]):
        verdicts = Verdicts.of([[">", "v", 0], far], set())
        assert set(verdicts.terms) == {0, 1} and verdicts.bits == {"\x001": 1} and verdicts.count == 4


def test_a_predicate_over_attributes_and_values_is_taken_apart():
    both = ["and", [">", "a", 1], [">", "v", 1]]
    assert Verdicts.of([both], {"a"}).terms == {0: (Term(1, 0),)}
    assert Verdicts.of([["or", *both[1:]]], {"a"}).terms == {0: (Term(0, 0), Term(1, 1))}
    assert Verdicts.of([both], {"a", "v"}).terms == {0: (Term(0, 0),)}
    assert Verdicts.of([None], {"a"}).bits == {"\x000": 0}


@st.composite
def problems(draw):
    """Rows in order of time, cut into pushes; queries with windows and predicates of their own."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.integers(1, 80))
    narrow = [draw(st.sampled_from([np.int32, np.int64])) for _ in range(4)]
    columns = [chance.integers(-3, 4, rows).astype(kind) for kind in narrow]
    times = np.cumsum(chance.choice([0, 0, 1, 3, 40], rows)) - 20
    tests = draw(st.lists(drawn_programs, max_size=5))
    for _ in range(draw(st.integers(0, 3))):
        i = draw(st.integers(0, rows - 1))
        times[i] += draw(st.integers(-60, 60))
    queries = [
        {
            "predicate": draw(st.integers(-1, len(tests) - 1)),
            "objects": [],
            "parts": ["n", *draw(st.lists(st.sampled_from(PARTS[1:])))],
            "edges": [
                [slide, draw(st.integers(0, slide - 1))]
                for slide in draw(st.sets(st.integers(1, 30), min_size=1, max_size=2))
            ],
        }
        for _ in range(draw(st.integers(4, 10)))
    ]
    owner = chance.integers(0, len(LEAVES), len(queries))
    cuts = sorted(draw(st.sets(st.integers(1, rows), max_size=4)) | {0, rows})
    return columns, times, tests, queries, owner, cuts


def tables_of(tests, queries, owner):
    relations = [
        LftaRelation(
            label="",
            parent=-1 if i == 0 else 0,
            buckets=int(i == 0),
            attributes=tuple(picks),
            edges=(),
            emits=i,
            queries=(),
            own=tuple(np.flatnonzero(owner == i).tolist()),
        )
        for i, picks in enumerate(LEAVES)
    ]
    return Lfta(
        "lfta.S",
        (),
        (),
        attributes=tuple(LftaExpression(n, f'"{n}"', "INTEGER", (n,)) for n in "ab"),
        arguments=(),
        parts=(),
        predicates=tuple(LftaPredicate("", p) for p in tests),
        queries=tuple(
            LftaQuery("", 0, q["predicate"], (), tuple(map(tuple, q["edges"])), (), tuple(q["parts"])) for q in queries
        ),
        stores=(),
        relations=tuple(relations),
    )


def layout_of(tests, queries, owner):
    edges = np.array(sorted({tuple(e) for q in queries for e in q["edges"]}), np.int64).reshape(-1, 2)
    return Layout.of(tables_of(tests, queries, owner), (edges[:, 0].copy(), edges[:, 1].copy()))


def floor(time, edges):
    return max(time - (time - phase) % slide for slide, phase in edges)


def combined(found, key, query, parts):
    """Put the parts that the query needs to those that are known of a cell."""
    for name, part in zip(PARTS, parts, strict=False):
        if name in query["parts"]:
            how = {"least": min, "greatest": max}.get(name, int.__add__)
            found[(*key, name)] = how(found[(*key, name)], part) if (*key, name) in found else part


def counted(columns, times, tests, queries, owner, parts):
    """The slow twin: every row to every query that wants it."""
    found = {}
    named = dict(zip(COLUMNS, columns, strict=True))
    truths = [predicates.evaluate(p, named) for p in tests]
    for i, time in enumerate(times.tolist()):
        for q, query in enumerate(queries):
            if query["predicate"] < 0 or truths[query["predicate"]][i]:
                group = tuple(int(columns[a][i]) for a in LEAVES[owner[q]])
                v, w = int(columns[2][i]), int(columns[3][i])
                combined(found, (q, floor(time, query["edges"]), group), query, [1, v, w, v, w][:parts])
    return found


def add_cells(found, made, queries, owner):
    numbers = [np.flatnonzero(owner == i).tolist() for i in range(len(LEAVES))]
    for relation, cells in made:
        for i, pane in enumerate(cells.pane.tolist()):
            query, start = numbers[relation][cells.panes[0][pane]], int(cells.panes[1][pane])
            assert cells.ints[0, i] > 0
            key = (query, start, tuple(cells.attrs[:, i].tolist()))
            combined(found, key, queries[query], cells.ints[:, i].tolist())


def add_entries(found, entries, queries, owner):
    """What queries see of entries that tables would get."""
    for i, start in enumerate(entries.starts.tolist()):
        for q, query in enumerate(queries):
            if query["predicate"] < 0 or entries.truths[query["predicate"]][i]:
                group = tuple(int(entries.attributes[a][i]) for a in LEAVES[owner[q]])
                combined(found, (q, floor(start, query["edges"]), group), query, [int(p[i]) for p in entries.parts])


@pytest.mark.parametrize(("enough", "least"), [(1, 1 << 10), (20, 1 << 10), (1 << 20, 1 << 10), (1, 3), (20, 7)])
@effort(60)
@given(problem=problems(), parts=st.integers(1, 5), stacks=st.sampled_from([0, 60, 1 << 20]))
def test_cells_of_running_totals_equal_counting(enough, least, problem, parts, stacks):
    columns, times, tests, queries, owner, cuts = problem
    fits = np.array(fitting(tables_of(tests, queries, owner)))
    queries, owner = [q for q, fit in zip(queries, fits, strict=True) if fit], owner[fits]
    layout = layout_of(tests, queries, owner)
    if not queries:
        return
    named = dict(zip(COLUMNS, columns, strict=True))
    rare, found, aside = 0 if enough < 1 << 20 else 2, {}, []
    kinds = [SUM, SUM, SUM, LEAST, GREATEST][:parts]
    with changed(
        running_rows=enough,
        running_cells_a_row=1 << 30,
        running_rows_an_entry=rare,
        running_stacks=stacks,
        running_looks_a_row=1 << 30,
        running_groups=least,
        running_bytes=0,
    ):
        totals, taken = RunningTotals(layout, kinds, 0, PARTS[:parts]), 0
        for low, high in pairwise(cuts):
            part = {name: column[low:high] for name, column in named.items()}
            keys = [part["a"], part["b"]]
            part |= {n: predicates.evaluate(tests[i], part).astype(np.int32) for n, i in layout.verdicts.bits.items()}
            if not totals.takes(keys, part):
                break
            left = totals.disorder(times[low:high])
            ints = [None, part["v"], part["w"], part["v"], part["w"]][:parts]
            done = totals.push(times[low:high], keys, part, ints, left)
            aside += (low + left[left < done]).tolist()
            taken = low + done
            add_cells(found, totals.take(), queries, owner)
            if done < high - low:
                break
        assert taken == len(times) or totals.disabled
        add_cells(found, totals.finish(), queries, owner)
        entries = totals.entries()
    assert entries is None or not found
    if entries is not None:
        add_entries(found, entries, queries, owner)
    rows = np.setdiff1d(np.arange(taken), aside)
    assert found == counted([c[rows] for c in columns], times[rows], tests, queries, owner, parts)


@effort(200)
@given(steps=st.lists(st.integers(-30, 40), min_size=1, max_size=40), cut=st.integers(0, 40))
def test_rows_that_are_left_never_go_back_to_a_fragment_that_has_ended(steps, cut):
    layout = layout_of([], [{"predicate": -1, "parts": [], "edges": [[5, 0]]}] * 4, np.arange(4))
    totals, times, begun = RunningTotals(layout, [SUM], 0), np.cumsum(steps), -(1 << 62)
    for part in (times[:cut], times[cut:]):
        if not len(part):
            continue
        left = totals.disorder(part)
        for fragment in (np.delete(part, left) // 5 * 5).tolist():
            assert fragment >= begun
            begun = fragment
        totals.push(part, [np.zeros(len(part), np.int32)] * 2, {}, [None], left)


def test_few_rows_are_put_aside_whether_they_come_late_or_early():
    layout = layout_of([], [{"predicate": -1, "parts": [], "edges": [[5, 0]]}] * 4, np.arange(4))
    for step, expected in ((-20, 1), (20, 1), (2, 0)):
        times = np.arange(100)
        times[50] += step
        assert len(RunningTotals(layout, [SUM], 0).disorder(times)) == expected


def test_panes_that_end_too_often_are_left_to_the_tables():
    """Each row is a pane of each query, and each pane looks at all groups."""
    layout = layout_of([], [{"predicate": -1, "parts": [], "edges": [[1, 0]]}] * 8, np.arange(8) % 4)
    rows = 64
    keys = [np.arange(rows, dtype=np.int32) % 32] * 2
    for looks, disabled in ((1, True), (1 << 30, False)):
        with changed(running_rows=1, running_rows_an_entry=0, running_cells_a_row=1 << 30, running_looks_a_row=looks):
            totals = RunningTotals(layout, [SUM], 0)
            assert totals.push(np.arange(rows), keys, {}, [None]) == rows
            assert totals.disabled is disabled and (totals.entries() is None) is not disabled


def create(db, count):
    """This many queries by each of three group-bys; predicates look at a key, at a value, or at nothing."""
    tests = ("WHERE v > {0}", "WHERE k < {1}", "", "WHERE v > {0} AND v < 190", "WHERE k IN ({1}, 4)")
    names = []
    for i in range(count):
        for j, keys in enumerate(("k", "s", "k, s")):
            names.append(f"v{i}_{j}")
            where = tests[(i + j) % len(tests)].format(10 * i, i % 5)
            db.execute(
                f"CREATE RSTREAM VIEW v{i}_{j} AS SELECT {keys}, COUNT(*) AS n, SUM(v) AS t"
                f" FROM A [RANGE {4 + i % 3} SLIDE {2 + i % 2}] {where} GROUP BY {keys}"
            )
    return names


@pytest.mark.parametrize(
    ("enough", "cells", "least", "how"),
    [(1, 1 << 30, 1 << 10, (True, False)), (100, 1 << 30, 4, (True, True)), (1, 0, 1 << 10, (False, True))],
)
def test_answers_do_not_depend_on_running_totals(enough, cells, least, how):
    """They do it all; they give up when there are too many groups; they never begin."""
    used = []
    end = Branch._end

    def watched(self, totals):
        used.append((totals.log is None, totals.disabled))
        yield from end(self, totals)

    with (
        database([STREAM], shards=2) as db,
        patch.object(Branch, "_end", watched),
        changed(running_rows=enough, running_cells_a_row=cells, running_rows_an_entry=0, running_looks_a_row=1 << 30),
        changed(
            running_groups=least, running_bytes=0, running_alone=1, running_queries=1, running_classes=64, span=1 << 16
        ),
    ):
        names = create(db, 12)
        db.run()
        found = [contents_of(db, name) for name in names]
    assert used and tuple(map(any, zip(*used, strict=True))) == how
    with database([STREAM], shards=1) as db, patch.object(reader_plan, "MANY", 1 << 30):
        create(db, 12)
        db.run()
        assert [contents_of(db, name) for name in names] == found


@pytest.mark.parametrize("enough", [1, 1 << 20])
def test_every_row_counts_as_a_probe(enough):
    """Entries that were put together before they met a table must not look like rows that a table lets through."""
    seen = []
    learn = Sharing.learn

    def watched(self, op, counts, *rest, **more):
        seen.append((counts.rows, counts.relations[0].probes))
        return learn(self, op, counts, *rest, **more)

    with (
        database([STREAM], shards=1) as db,
        patch.object(Sharing, "learn", watched),
        changed(
            running_rows=enough,
            running_cells_a_row=1 << 30,
            running_rows_an_entry=0,
            running_looks_a_row=1 << 30,
            running_alone=1,
        ),
    ):
        create(db, 12)
        db.run()
    assert seen and all(rows == probes for rows, probes in seen if rows)
