"""The aggregation join gives what its twin gives, for every plan, method, cut into batches and change of plan."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.joins import operator_twin as twin
from tests.joins.operator_case import Query, Run, arrives
from tests.properties.effort import effort
from tidemill.plan import physical as p
from tidemill.plan.measured.joins import JoinInputCounts
from tidemill.runtime.dataflow.changes import PENDING
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.joins.join_aggregate import JoinAggregate
from tidemill.runtime.joins.partials import Partials
from tidemill.runtime.kernels.compiling.warm import kernels
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import changed

END = 9
NAN = float("nan")
# The first values come often, so that most rows find partners.
VALUES = {
    "INTEGER": (0, 0, 0, 1, 1, None),
    "VARCHAR": ("a", "a", "a", "", None),
    "DOUBLE": (0.0, 0.0, -0.0, -0.0, NAN, None),
    "HUGEINT": (0, 10**30, 10**30, 10**30, None),
}
GRAPHS = {
    "chain": lambda m: [(i, i + 1) for i in range(m - 1)],
    "star": lambda m: [(0, i) for i in range(1, m)],
    "cycle": lambda m: [(i, (i + 1) % m) for i in range(m)] if m > 2 else [(0, 1)],
    "clique": lambda m: [(i, j) for i in range(m) for j in range(i)],
    "none": lambda m: [],
}


@st.composite
def queries(draw, most=4, plain=False) -> Query:
    m = draw(st.integers(2, most))
    on, types = [], {}
    for i, j in GRAPHS[draw(st.sampled_from(sorted(GRAPHS)))](m):
        for w in range(draw(st.sampled_from([1, 1, 1, 2]))):
            # Often one column takes part in several equalities, so that classes grow.
            shared = [draw(st.sampled_from([True, True, False])) for _ in range(2)]
            names = [f"x{n}" if s else f"x{n}_{min(i, j)}{max(i, j)}{w}" for n, s in zip((i, j), shared, strict=True)]
            type_ = "INTEGER" if any(shared) else draw(st.sampled_from(sorted(VALUES)))
            types |= dict.fromkeys(names, type_)
            on.append((i, names[0], j, names[1]))
    some = st.lists(st.integers(0, m - 1), unique=True, max_size=2)
    types |= {f"a{i}": draw(st.sampled_from(["INTEGER", "HUGEINT"])) for i in range(m)}
    found = Query(m, on, types, draw(some), draw(some))
    if plain:
        return found
    rare = st.sampled_from([False, False, True])
    read = st.sampled_from([None, None, (0, 0), (0, m - 1), (m - 1, m - 1)])
    return replace(found, residual=draw(rare), mixed=draw(read), valued=draw(rare), shifted=draw(rare))


@st.composite
def changes(draw, query: Query, i: int, leave=False, grow=False) -> list[twin.Change]:
    """Changes in order of time; no row leaves before it came. With `leave` all have left before the end."""
    columns = [*query.keys(i), *query.args(i)]
    pools = [VALUES[c.type] if c.name[0] == "x" or c.type != "INTEGER" else (0, 1, 2, None) for c in columns]
    found, held = [], Counter()
    most = {2: 10, 3: 7}.get(query.inputs, 5)
    for time in sorted(draw(st.lists(st.integers(0, END - 2), min_size=most // 2, max_size=most))):
        gone = sorted((r for r, n in held.items() if n > 0), key=str)
        if gone and not grow and draw(st.sampled_from([False, False, True])):
            row, diff = draw(st.sampled_from(gone)), -1
        else:
            row, diff = tuple((c.name, draw(st.sampled_from(pool))) for c, pool in zip(columns, pools, strict=True)), 1
        held[row] += diff
        found.append((dict(row), time, diff))
    return found + [(dict(row), END - 1, -n) for row, n in held.items() if n and leave]


@st.composite
def plans(draw, query: Query) -> p.JoinAggregate:
    m = query.inputs
    orders = [draw(st.permutations([j for j in range(m) if j != i])) for i in range(m)]
    method = draw(st.sampled_from(["hash", "hash", "nested loop"]))
    return query.op([draw(st.booleans()) for _ in range(m)], orders, method)


def ways(draw) -> ExitStack:
    """Small pieces and hash tables as if there were many pairs, or none of it."""
    stack = ExitStack()
    if draw(st.booleans()):
        size = draw(st.integers(1, 5))
        stack.enter_context(changed(piece_pairs=size, direct_groups=0, scattered_rows=0))
    return stack


def together(pieces: list[pa.Table | None]) -> pa.Table | None:
    """Rows that arrive in one micro-batch, in whatever forms, are one table with all columns."""
    tables = [t for t in pieces if t is not None]
    return pa.concat_tables(tables, promote_options="default") if tables else None


def cut(data, query: Query, feeds: list[list[twin.Change]], run: Run, most: int) -> None:
    """The feeds in batches; each change comes with its own or the batch before, every batch has its own plan."""
    frontiers = [*sorted(data.draw(st.sets(st.integers(1, END - 1), max_size=most))), END]
    comes: list[dict[int, list]] = [{} for _ in feeds]
    for i, feed in enumerate(feeds):
        for change in feed:
            closes = next(x for x, f in enumerate(frontiers) if change[1] < f)
            comes[i].setdefault(max(0, closes - data.draw(st.integers(0, 1))), []).append(change)
    for x, frontier in enumerate(frontiers):
        tables = []
        for i, batches in enumerate(comes):
            here = batches.get(x, [])
            at = data.draw(st.integers(0, len(here)))
            tables.append(together([arrives(query, i, p, data.draw(st.booleans())) for p in (here[:at], here[at:])]))
        run.step(data.draw(plans(query)), tables, frontier)


@effort(60)
@given(data=st.data())
def test_any_plan_cut_and_switch_gives_what_the_twin_gives(data):
    query = data.draw(queries())
    feeds = [data.draw(changes(query, i)) for i in range(query.inputs)]
    run = Run(query)
    with ways(data.draw):
        cut(data, query, feeds, run, 3)
    assert run.result() == query.expected(feeds)
    assert not run.row_errors
    if query.valued:
        assert run.counted() == query.expected(feeds, valued=True)


@effort(20)
@given(data=st.data())
def test_every_early_plan_equals_the_late_one(data):
    query = data.draw(queries(3, plain=True))
    feeds = [data.draw(changes(query, i)) for i in range(query.inputs)]
    found = []
    for early in product([False, True], repeat=query.inputs):
        run = Run(query)
        run.step(query.op(list(early)), [arrives(query, i, f, early[i]) for i, f in enumerate(feeds)], END)
        found.append(run.result())
    assert all(f == found[0] for f in found)
    assert found[0] == query.expected(feeds)


@effort(30)
@given(data=st.data())
def test_nothing_is_stored_when_all_rows_have_left(data):
    query = replace(data.draw(queries(3, plain=True)), summed=[0, 1])
    feeds = [data.draw(changes(query, i, leave=True)) for i in range(query.inputs)]
    run = Run(query)
    cut(data, query, feeds, run, 5)
    assert run.result() == query.expected(feeds)
    assert run.state.size() == (0, 0)
    assert [i.rows for i in run.note.inputs] == [0] * query.inputs


@pytest.mark.parametrize("function", ["min", "max"])
@effort(15)
@given(data=st.data())
def test_extremes_of_what_only_grows(function, data):
    """The extreme up to each time is the same for every plan: an early one may show an older value again."""
    query = replace(data.draw(queries(3, plain=True)), function=function, append_only=True, summed=[0, 1])
    query.types |= {"a0": data.draw(st.sampled_from(["VARCHAR", "DOUBLE", "HUGEINT"])), "a1": "INTEGER"}
    feeds = [data.draw(changes(query, i, grow=True)) for i in range(query.inputs)]
    early = [data.draw(st.booleans()) for _ in feeds]
    result = JoinAggregate(query.op(early)).step(
        [Batch(arrives(query, i, f, early[i]), END) for i, f in enumerate(feeds)], ShardState.empty("nowhere")
    )
    rows = result.rows.to_pylist() if result.rows is not None else []
    contents = [Counter(tuple(r.items()) for r, _, _ in f) for f in feeds]
    groups = {tuple(r[f"g{i}"] for i in query.grouped) for r, _ in twin.joined(contents, query.on)}
    assert {tuple(r[f"k{i}"] for i in query.grouped) for r in rows} == groups
    for time in range(END):
        seen = [Counter(tuple(r.items()) for r, t, _ in f if t <= time) for f in feeds]
        for group, x in product(groups, (0, 1)):
            values = [
                r[f"a{x}"]
                for r, _ in twin.joined(seen, query.on)
                if tuple(r[f"g{i}"] for i in query.grouped) == group and r[f"a{x}"] is not None
            ]
            given = [
                r[f"a{x}__{function}"]
                for r in rows
                if r["__time"] <= time and tuple(r[f"k{i}"] for i in query.grouped) == group
            ]
            given = [v for v in given if v is not None]
            assert _extreme(function, given) == _extreme(function, values)


def _extreme(function: str, values: list) -> object:
    """The least or greatest value; NaN is greater than all numbers."""
    ordered = sorted(values, key=lambda v: (v != v, "" if v != v else v)) if values else [None]
    numbers = [v for v in ordered if v == v]
    found = ordered[-1] if function == "max" else (numbers or ordered)[0]
    return "NaN" if found != found else found


TWO = Query(2, [(0, "x0", 1, "x1")], {"x0": "INTEGER", "x1": "INTEGER"}, [0], [0, 1])


def test_a_change_meets_each_set_once_in_the_version_of_its_time():
    """Fifty changes of one set and fifty probes: each probe finds the one set, not all of its changes."""
    left = [({"x0": 1, "g0": 0, "a0": 1}, 2 * t, 1) for t in range(50)]
    right = [({"x1": 1, "a1": 1}, 2 * t + 1, 1) for t in range(50)]
    for early, met in ((True, 50), (False, 50)):
        run = Run(TWO)
        run.step(TWO.op([early, early]), [arrives(TWO, 0, left, early), arrives(TWO, 1, right, early)], 200)
        assert run.result() == TWO.expected([left, right])
        assert run.note.inputs[0] == JoinInputCounts(
            changes=50,
            set_changes=0 if early else 50,
            arrived=50,
            rows=50,
            probes=50,
            met=met,
            late_met=1275 if early else 50,
            early_met=50,
            stored=1,
            sets=1,
            values=1,
            bytes=run.note.inputs[0].bytes,
        )
        assert run.note.pairs == 50 + 49


def test_a_window_that_is_replaced_never_meets_its_successor():
    rows = [[({"x0": 1, "g0": 0, "a0": v}, 0, 1) for v in range(4)], [({"x1": 1, "a1": v}, 0, 1) for v in range(4)]]
    again = [
        [(row, 1, -1) for row, _, _ in side] + [({**row, f"a{i}": 9 + v}, 1, 1) for v, (row, _, _) in enumerate(side)]
        for i, side in enumerate(rows)
    ]
    run = Run(TWO)
    run.step(TWO.op([False, False]), [arrives(TWO, i, r, False) for i, r in enumerate(rows)], 1)
    run.step(TWO.op([False, False]), [arrives(TWO, i, r, False) for i, r in enumerate(again)], 2)
    assert run.note.pairs == 16 + 16
    assert run.result() == TWO.expected([a + b for a, b in zip(rows, again, strict=True)])


def test_what_is_never_probed_again_is_not_stored():
    run = Run(TWO)
    op = TWO.op([True, False], stored=[True, False])
    left, right = [({"x0": 1, "g0": 0, "a0": 2}, 0, 1)], [({"x1": 1, "a1": 3}, 1, 1)]
    run.step(op, [arrives(TWO, 0, left, True), None], 1)
    run.step(op, [None, arrives(TWO, 1, right, False)], 2)
    assert run.result() == {(0, 1): (1, 1, 2, 1, 3)}
    assert [i.stored for i in run.note.inputs] == [1, 0]


def test_indexes_follow_the_orders():
    chain = Query(3, [(0, "x0", 1, "x1"), (1, "y1", 2, "y2")], {c: "INTEGER" for c in ("x0", "x1", "y1", "y2")}, [], [])
    feeds = [[({"x0": 1}, 0, 1)], [({"x1": 1, "y1": 2}, 0, 1)], [({"y2": 2}, 0, 1)]]
    run = Run(chain)
    tables = [arrives(chain, i, f, True) for i, f in enumerate(feeds)]
    run.step(chain.op([True] * 3, [[1, 2], [0, 2], [1, 0]]), tables, 1)

    def indexes():
        return sorted(name for name, segments in run.state.stored["x"].items() if segments and PENDING not in name)

    assert indexes() == ['0 early ["x0"]', '1 early ["x1"]', '1 early ["y1"]', '2 early ["y2"]']
    # A change of the first input now begins with the last one, to which no equality leads.
    more = [({"x0": 1}, 1, 1)]
    run.step(chain.op([True] * 3, [[2, 1], [0, 2], [1, 0]]), [arrives(chain, 0, more, True), None, None], 2)
    assert indexes() == ['0 early ["x0"]', '1 early ["x1"]', '1 early ["y1"]', '2 early ["y2"]', "2 early []"]
    run.step(chain.op([True] * 3, [[1, 2], [2, 0], [1, 0]], "nested loop"), [None] * 3, 3)
    assert indexes() == ["0 early []", "1 early []", "2 early []"]
    assert run.result() == chain.expected([feeds[0] + more, *feeds[1:]])


def test_inputs_without_any_key_are_one_set_each():
    """SELECT count(*), sum(a0) FROM A, B: also when the plan changes while their one set is stored."""
    query = Query(2, [], {}, [], [0])
    feeds = [[({"a0": 5}, t, 1) for t in range(3)] + [({"a0": 5}, 3, -2)], [({}, t, 1) for t in range(4)]]
    run = Run(query)
    for time, early in enumerate([False, True, False, False]):
        here = [[c for c in f if c[1] == time] for f in feeds]  # type: ignore[attr-defined]
        run.step(query.op([early, early]), [arrives(query, i, f, early) for i, f in enumerate(here)], time + 1)
    assert run.result() == query.expected(feeds)  # type: ignore[arg-type]
    assert run.result()[(3,)] == (4 - 9, 4 - 9, 20 - 45)
    assert [i.rows for i in run.note.inputs] == [1, 4]


@pytest.mark.parametrize("early", [True, False])
def test_a_joined_row_on_which_an_expression_fails_is_put_aside(early):
    query = Query(2, [(0, "x0", 1, "x1")], {"x0": "INTEGER", "x1": "INTEGER"}, [1], [0])
    op = query.op([early, early])
    key = p.OutputKey("k1", "INTEGER", 'CAST(100 // CAST("g1" AS TINYINT) AS INTEGER)')
    values = p.OutputValues("x.v", '"g1"', "INTEGER")
    op = replace(op, outputs=replace(op.outputs, keys=(key,), values=(values,)))
    feeds = [
        [({"x0": 1, "a0": 5}, 0, 1)],
        [({"x1": 1, "g1": 50}, 0, 1), ({"x1": 1, "g1": 500}, 0, 1), ({"x1": 7, "g1": 900}, 0, 1)],
    ]
    run = Run(query)
    run.step(op, [arrives(query, i, f, early) for i, f in enumerate(feeds)], 1)
    assert run.result() == {(2, 0): (1, 1, 5)}
    ((rows, why),) = run.row_errors
    assert [r["g1"] for r in rows] == [500]
    assert "TINYINT" in why or "INT8" in why
    assert run.counted() == {(2, 50, 0): (1,)}


@pytest.mark.parametrize("says_reads", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_a_plan_that_does_not_say_what_expressions_read_gives_the_same(says_reads, residual):
    """SELECT g1 + 1, sum(a0), sum(g0 * g1), values of v: plans of an older version have no `reads`."""
    query = Query(2, [(0, "x0", 1, "x1")], {"x0": "INTEGER", "x1": "INTEGER"}, [1], [0], residual, (0, 1), True, True)
    query.says_reads = says_reads
    assert bool(query.op([True, True]).outputs.reads) is says_reads
    feeds = [
        [({"x0": i % 2, "g0": i, "v0": i % 3, "a0": 5 + i}, 0, 1) for i in range(6)],
        [({"x1": i % 2, "g1": i % 4}, 0, 1) for i in range(8)],
    ]
    run = Run(query)
    run.step(query.op([True, False]), [arrives(query, i, f, i == 0) for i, f in enumerate(feeds)], 1)
    assert run.result() == query.expected(feeds) and run.counted() == query.expected(feeds, valued=True)


def test_a_name_inside_a_string_is_not_a_column_that_is_read():
    """The plan says what an expression reads; its text is not searched for names."""
    query = Query(2, [(0, "x0", 1, "x1")], {"x0": "INTEGER", "x1": "INTEGER"}, [0, 1], [0])
    op, text = query.op([True, True]), """concat('"g0"', "g1")"""
    outputs = replace(op.outputs, keys=(p.OutputKey("k1", "VARCHAR", text),), reads={text: ("g1",)})
    join = JoinAggregate(replace(op, outputs=outputs))
    found = Partials(join.op, join.inputs, join.graph, None)
    assert found.separate and found.owners[text] == {1}


@pytest.mark.parametrize("bits", [30, 31])
def test_counts_too_large_for_the_sums_of_a_kernel(bits):
    count = 1 << bits
    query = replace(TWO, grouped=[])
    feeds = [[({"x0": 1, "a0": 3}, 0, count)], [({"x1": 1, "a1": -1}, 0, count)]]
    run = Run(query)
    run.step(query.op([True, True]), [arrives(query, i, f, True) for i, f in enumerate(feeds)], 1)
    assert run.result() == {(0,): (count**2, count**2, 3 * count**2, count**2, -(count**2))}


def test_counts_that_fit_no_column_are_put_aside():
    query = replace(TWO, grouped=[])
    feeds = [[({"x0": 1, "a0": 3}, 0, 1 << 33)], [({"x1": 1, "a1": -1}, 0, 1 << 33)]]
    run = Run(query)
    run.step(query.op([True, True]), [arrives(query, i, f, True) for i, f in enumerate(feeds)], 1)
    assert run.result() == {}
    assert len(run.row_errors) == 1


def test_sums_of_doubles_are_exact():
    query = Query(2, [(0, "x0", 1, "x1")], {"x0": "INTEGER", "x1": "INTEGER", "a0": "DOUBLE"}, [], [0])
    values = [0.125, 3e15, -7.5, 1e30, 2.0**52]
    feeds = [[({"x0": 1, "a0": v}, 0, 1) for v in values], [({"x1": 1}, 0, 1000)]]
    for early in (True, False):
        run = Run(query)
        run.step(query.op([early, early]), [arrives(query, i, f, early) for i, f in enumerate(feeds)], 1)  # type: ignore[arg-type]
        (sums,) = run.result().values()
        small = [v for v in values if v < 2.0**62]
        assert sums == (5000, 5000, sum(int(v * 2**40) for v in small) * 1000, 0, int(1e30 / 512) * 1000, 0, 0, 0, 0)


def test_operators_use_one_type_of_each_kernel():
    test_a_change_meets_each_set_once_in_the_version_of_its_time()
    test_sums_of_doubles_are_exact()
    found = {name: len(k.signatures) for name, k in kernels().items() if name.startswith(("delta_join", "presence"))}
    assert sum(count == 1 for count in found.values()) >= 8
    assert {name: count for name, count in found.items() if count > 1} == {}
