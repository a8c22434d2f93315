"""Fast paths over wide rows against their slow twins, which are SQL: net changes, kept rows, pairs, orders."""

from __future__ import annotations

import json
import math
from datetime import date
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sort_keys import SortKey
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import contents_layout, net
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.fast_paths import without
from tidemill.runtime.operators.joined_pairs import Matching
from tidemill.runtime.operators.plain_columns import keeps_different
from tidemill.runtime.operators.ranking.sorted_moves import MoveOrder
from tidemill.runtime.operators.windows import ViewOutput
from tidemill.runtime.state import different_rows
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.segments import SegmentStore
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import changed, smallest

A, B, T = Column("a", "BIGINT"), Column("b", "DOUBLE"), Column("t", "VARCHAR")
COLUMNS = (A, B, T)
values = st.tuples(
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
    st.none() | st.sampled_from(["", "x", "xy"]),
)
changes = st.lists(st.tuples(values, st.integers(1, 3), st.integers(-2, 2)), max_size=12)


def table(rows, *, time=True, diff="__diff") -> pa.Table:
    found = {c.name: pa.array([r[0][i] for r in rows], k) for i, (c, k) in enumerate(_TYPES)}
    if time:
        found["__time"] = pa.array([r[1] for r in rows], pa.int64())
    return pa.table(found | {diff: pa.array([r[2] for r in rows], pa.int64())})


_TYPES = list(zip(COLUMNS, (pa.int64(), pa.float64(), pa.string()), strict=True))


def plain(rows: pa.Table) -> list[str]:
    """The rows in their order; zeros have no sign, as in SQL."""
    return [str([0.0 if v == 0 and isinstance(v, float) else v for v in r.values()]) for r in rows.to_pylist()]


def bag(rows: pa.Table) -> list[str]:
    return sorted(plain(rows))


@effort(60)
@given(changes)
def test_net_changes_are_those_of_sql(rows):
    with smallest():
        fast = net(table(rows), COLUMNS)
        with without(["different_rows"]):
            assert bag(fast) == bag(net(table(rows), COLUMNS))


@effort(60)
@given(st.lists(changes, max_size=4))
def test_kept_rows_are_those_of_sql(batches):
    def kept(off):
        held = Arrangement(SegmentStore("nowhere"), contents_layout(COLUMNS), [])
        with smallest(), without(off):
            for rows in batches:
                new = table(rows, time=False, diff="__n")
                hashes = pa.array([0 if r[0][0] is None else r[0][0] for r in rows], pa.uint64())
                held.append(new.add_column(0, "__h", hashes))
                held.compact()
            assert all(np.all(np.diff(s.table["__h"].to_numpy().astype(np.int64)) >= 0) for s in held.segments)
            return held.scan()

    assert bag(kept([])) == bag(kept(["different_rows"]))


MANY = (Column(".a", "DECIMAL(8,2)"), Column("[b]", "DATE"), Column("c", "BOOLEAN"), *COLUMNS)
many = st.tuples(
    st.none() | st.sampled_from([Decimal("1.50"), Decimal("-2.00")]),
    st.none() | st.sampled_from([date(2020, 2, 29), date(1969, 1, 1)]),
    st.none() | st.booleans(),
    st.none() | st.integers(0, 1),
    st.none() | st.sampled_from([0.0, 1.5, math.inf]),
    st.none() | st.sampled_from(["", "x"]),
)


@effort(60)
@given(st.lists(st.tuples(many, st.integers(1, 2), st.integers(-2, 2)), min_size=1, max_size=12))
def test_a_few_rows_are_added_up_as_in_sql(rows):
    kinds = [pa.decimal128(8, 2), pa.date32(), pa.bool_(), *(k for _, k in _TYPES)]
    found = {c.name: pa.array([r[0][i] for r in rows], k) for i, (c, k) in enumerate(zip(MANY, kinds, strict=True))}
    given_rows = pa.table(found | {"__time": [r[1] for r in rows], "__diff": [r[2] for r in rows]})
    few = different_rows.add_up_counts(given_rows, MANY, "__diff", "__time")
    assert few is not None and few.schema == given_rows.schema
    with without(["different_rows"]):
        assert bag(few) == bag(net(given_rows, MANY))


def test_where_arrow_and_sql_disagree_sql_adds_up():
    for value in (-0.0, math.nan):
        rows = table([((1, value, "x"), 1, 1), ((1, abs(value), "x"), 1, 1)])
        assert different_rows.add_up_counts(rows, COLUMNS, "__diff", "__time") is None
        assert net(rows, COLUMNS).column("__diff").to_pylist() == [2]
    texts = table([((1, 1.5, "x"), 1, 1)])
    assert different_rows.add_up_counts(texts, (A, B, Column("t", "UUID")), "__diff", "__time") is None


def test_rows_that_only_share_a_hash_are_not_taken_for_one(monkeypatch):
    monkeypatch.setattr(different_rows, "_hash_rows", lambda rows, *_: np.zeros(rows.num_rows, np.uint64))
    rows = [((1, 1.5, "x"), 1, 1), ((1, 1.5, "y"), 1, -1), ((1, 1.5, "x"), 1, 2)]
    with smallest():
        assert bag(net(table(rows), COLUMNS)) == ["[1, 1.5, 'x', 1, 3]", "[1, 1.5, 'y', 1, -1]"]
        assert bag(net(table([rows[0], rows[2]]), COLUMNS)) == ["[1, 1.5, 'x', 1, 3]"]


known = st.tuples(st.integers(0, 2), st.sampled_from([0.0, -0.0, 1.5]), st.sampled_from(["", "x"]))
sides = st.lists(st.tuples(known, st.just(1), st.just(1)), max_size=8)


@effort(60)
@given(sides, sides, st.sampled_from([("a",), ("t",), ("b", "t")]), st.booleans(), st.integers(1, 5))
def test_pairs_are_those_of_a_join(left, right, keys, filtered, piece):
    mine, other = table(left), table(right).rename_columns(["a2", "b2", "t2", "__time", "__diff"])
    others = tuple(Column(c.name + "2", c.type) for c in COLUMNS)
    residual = '"a" < "a2"' if filtered else None
    names = ("t", "a2", "b")
    matching = Matching(COLUMNS, others, keys, tuple(k + "2" for k in keys), names, residual)
    assert matching.is_supported()
    with changed(piece_pairs=piece):
        found = pa.table(matching.take(mine, other, matching.pairs(mine, other)))
    with duckdb.connect() as db:
        db.register("l", mine)
        db.register("r", other)
        on = " AND ".join(f"l.{k} = r.{k}2" for k in keys)
        wanted = db.sql(f"SELECT t, a2, b FROM l JOIN r ON {on}" + (f" WHERE {residual}" if filtered else ""))
        assert bag(found) == bag(wanted.to_arrow_table())


def test_keys_of_two_types_are_left_to_sql():
    narrow = (Column("i", "INTEGER"),)
    assert not Matching((A,), narrow, ("a",), ("i",), ("a",), None).is_supported()
    assert not Matching((A,), (A,), ("a",), ("a",), ("a",), None).is_supported()


@effort(60)
@given(changes, st.sampled_from([(), ("a",)]), st.booleans(), st.booleans(), st.booleans())
def test_moves_are_in_the_order_of_all_columns(rows, partition, descending, nulls_first, complete):
    moves = table([(v, BEGINNING if t == 1 else t, d) for v, t, d in rows])
    first = SortKey("t", descending, nulls_first)
    rest = tuple(SortKey(n) for n in ("a", "b") if n not in partition)
    given_keys, completing = ((first, *rest), ()) if complete else ((first,), rest)
    order = MoveOrder(COLUMNS, partition, given_keys, completing)
    fast = order.sort(moves)
    with without(["narrow_sort"]):
        slow = order.sort(moves)
    shown = [m.table.take(pa.array(m.rows)).drop_columns(["__diff"]) for m in (fast, slow)]
    assert plain(shown[0]) == plain(shown[1])
    for name in ("partition", "peer", "row"):
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist()
    assert fast.column("__time").tolist() == slow.column("__time").tolist()


def test_insertions_that_differ_are_not_added_up_and_equal_ones_are():
    apart = pa.table({"a": np.arange(3000), "__time": np.arange(3000) // 7, "__diff": np.ones(3000, np.int64)})
    alike = apart.set_column(0, "a", pa.array(np.zeros(3000, np.int64)))
    leaving = apart.set_column(2, "__diff", pa.array(np.where(np.arange(3000) == 2999, -1, 1)))
    found = [different_rows.are_different_insertions(t, (A,), "__diff", "__time") for t in (apart, alike, leaving)]
    assert found == [True, False, False]
    with without(["different_rows"]):
        assert not different_rows.are_different_insertions(apart, (A,), "__diff", "__time")
    assert not different_rows.are_different_insertions(apart.slice(0, 900), (A,), "__diff", "__time")


def test_only_chains_that_pass_all_columns_on_keep_rows_apart():
    schema = (A, T)
    both = p.Project("p", ("x",), schema, (p.Item("t", '"b"'), p.Item("a", '"a"')))
    fewer = p.Project("q", ("p",), (A,), (p.Item("a", '"a"'),))
    later = p.Synchronize("s", ("p",), schema, 10, 0)
    some = p.Filter("f", ("x",), schema, '"a" > 1')
    for chain, kept in (((both,), True), ((some, both), True), ((fewer, both), False), ((later, both), False)):
        assert keeps_different(chain, ["a", "b"]) == kept


def test_a_view_passes_net_changes_on_unless_others_wait():
    output = ViewOutput(p.ViewOutput("g", ("x",), (A,)))
    state = ShardState.empty("nowhere")
    rows = pa.table({"a": [1, 1], "__time": [1, 5], "__diff": [1, 1]})
    with smallest():
        first = output.step([Batch(rows, 3, netted=True)], state)
        assert first.rows.select(["a", "__time"]).to_pylist() == [{"a": 1, "__time": 1}]
        back = pa.table({"a": [1, 2], "__time": [5, 6], "__diff": [-1, 1]})
        second = output.step([Batch(back, 7, netted=True)], state)
        assert second.rows.to_pylist() == [{"a": 2, "__time": 6, "__diff": 1}]


def test_a_view_gives_the_same_columns_whichever_way_its_changes_go():
    rows = pa.table({"a": np.arange(3000), "__time": np.arange(3000) // 7, "__diff": np.ones(3000, np.int64)})
    leaving = rows.set_column(2, "__diff", pa.array(np.where(np.arange(3000) == 2999, -1, 1)))
    for given_rows, netted in ((rows, True), (rows, False), (leaving, False), (leaving.slice(2999), False)):
        output = ViewOutput(p.ViewOutput("g", ("x",), (A,)))
        out = output.step([Batch(given_rows, 1000, netted=netted)], ShardState.empty("nowhere"))
        assert out.rows.column_names == ["a", "__time", "__diff"]


def test_a_view_gathers_insertions_of_one_shard_with_changes_of_another(tmp_path):
    """One shard passes its rows on as they are, the other adds them up."""
    sent = [(k, "insert", 1) for k in range(40)] + [(0, "delete", 2)]
    place = tmp_path / "rows.json"
    place.write_text("".join(json.dumps({"k": k, "v": 1, "op": op, "tm": tm}) + "\n" for k, op, tm in sent))
    with changed(different_rows=1), LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE S (k INTEGER, v INTEGER, op VARCHAR, tm INTEGER) FROM FILES '{place}'"
            " WITH (timestamp = 'tm', operation = 'op'); CREATE TAGGED STREAM K OVER S KEY (k);"
            " CREATE COMPLETE VIEW V AS SELECT k FROM K; CREATE COMPLETE VIEW W AS SELECT k, v FROM K"
        )
        db.run()
        assert sorted(db.query("SELECT k FROM V").column("k").to_pylist()) == list(range(1, 40))
