"""Aggregates over all values of a group equal DuckDB's at every moment, under updates and deletions, for every cut."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.errors import TidemillError

# Every answer is one for each multiset of rows: what depends on an order has all of it in ORDER BY.
CALLS = (
    "median(v)",
    "quantile_cont(v, 0.25)",
    "quantile_disc(v, [0.1, 0.9])",
    "percentile_cont(0.2) WITHIN GROUP (ORDER BY v DESC)",
    "mad(v)",
    "sum(DISTINCT v)",
    "avg(DISTINCT v)",
    "count(DISTINCT v) FILTER (WHERE w > 1)",
    "count(DISTINCT w) FILTER (WHERE v > 1)",
    "count(DISTINCT (v, w))",
    "stddev_pop(DISTINCT v)",
    "string_agg(t, '-' ORDER BY t, id)",
    "string_agg(DISTINCT t, '+' ORDER BY t)",
    "list(v ORDER BY w DESC, v, id)",
    "list(t ORDER BY id) FILTER (WHERE v IS NOT NULL)",
    "array_agg(DISTINCT v ORDER BY v)",
    "arg_max(id, (v, id))",
    "min_by(id, (w, id))",
    "max(v, 2)",
    "bool_and(v > 1)",
    "bool_or(v > 3)",
    "bit_and(v)",
    "bit_or(v)",
    "bit_xor(v)",
    "first(id ORDER BY v DESC NULLS LAST, id)",
    "last(id ORDER BY w, id)",
    "any_value(t ORDER BY id)",
    "count_if(v > 1)",
    "histogram(v)",
    "corr(v, w)",
    "regr_count(v, w)",
    "product(v)",
    "approx_quantile(v, 0.5)",
)
_ROW = st.tuples(
    st.integers(0, 5),
    st.sampled_from(["x", "y", None]),
    st.none() | st.integers(0, 4),
    st.integers(0, 3),
    st.sampled_from(["", "a", "bb", None]),
)
_CHANGE = st.tuples(_ROW, st.sampled_from("uuud"))


def write(folder: Path, changes: list, batch: int) -> str:
    """The changes as the log of a keyed stream K, one at each time."""
    lines = ["id,g,v,w,t,op,at"]
    for at, ((key, g, v, w, t), op) in enumerate(changes):
        fields = [str(key), g, "" if v is None else str(v), str(w), t, op, str(at)]
        lines.append(",".join("" if f is None else f'"{f}"' if i in (1, 4) else f for i, f in enumerate(fields)))
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    return f"""
        REGISTER SOURCE Log (id INTEGER, g VARCHAR, v INTEGER, w INTEGER, t VARCHAR, op VARCHAR, at BIGINT)
        FROM FILES '{folder}/log.csv' WITH (timestamp = 'at', operation = 'op', batch_rows = {batch});
        CREATE TAGGED STREAM K OVER Log KEY id;
    """


def rows_at(changes: list, moment: int) -> list:
    """The rows of K as of a moment."""
    live = {}
    for row, op in changes[: moment + 1]:
        live.pop(row[0], None)
        if op == "u":
            live[row[0]] = row
    return list(live.values())


def truth(rows: list, calls: list[str], grouped: bool) -> dict:
    with duckdb.connect() as duck:
        duck.execute("SET threads = 1; CREATE TABLE K (id INTEGER, g VARCHAR, v INTEGER, w INTEGER, t VARCHAR)")
        if rows:
            duck.executemany("INSERT INTO K VALUES (?, ?, ?, ?, ?)", rows)
        key, by = ("g", " GROUP BY g") if grouped else ("NULL", "")
        return {r[0]: r[1:] for r in duck.sql(f"SELECT {key}, {', '.join(calls)} FROM K{by}").fetchall()}


def close(a, b) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, nan_ok=True)
    return a == b


@effort(10, thorough_cases=600)
@given(
    changes=st.lists(_CHANGE, min_size=1, max_size=10),
    batch=st.integers(1, 10),
    calls=st.lists(st.sampled_from(CALLS), min_size=4, max_size=9, unique=True),
    grouped=st.booleans(),
)
def test_answers_of_all_moments(tmp_path_factory, changes, batch, calls, grouped):
    folder = tmp_path_factory.mktemp("collected")
    with LocalDatabase(str(folder / "db")) as db:
        db.execute(write(folder, changes, batch))
        names = [f"a{i}" for i in range(len(calls))]
        items = ", ".join(f"{c} AS {n}" for c, n in zip(calls, names, strict=True))
        key, by = ("g", " GROUP BY g") if grouped else ("0 AS g", "")
        db.execute(f"CREATE STREAMED VIEW V AS SELECT {key}, {items} FROM K{by}")
        db.run()
        assert db.query("SELECT * FROM dead_letters").num_rows == 0
        shown = db.changes("V").to_pylist()
    for moment in range(len(changes)):
        found: dict = {}
        for change in (c for c in shown if c["TS"] <= moment):
            group = change["g"] if grouped else None
            if change["TAG"] == "-":
                found.pop(group, None)
            else:
                found[group] = tuple(change[n] for n in names)
        expected = truth(rows_at(changes, moment), calls, grouped)
        assert found.keys() == expected.keys()
        for group, values in expected.items():
            for call, mine, theirs in zip(calls, found[group], values, strict=True):
                mine = dict(mine) if isinstance(theirs, dict) else mine
                assert close(mine, theirs), (call, moment, group, mine, theirs)


def test_rows_of_equal_order_come_by_time_and_then_by_value(tmp_path):
    (tmp_path / "1.csv").write_text("x,at\nc,1\nb,2\na,2\nd,0\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""
            REGISTER SOURCE R (x VARCHAR, at BIGINT) FROM FILES '{tmp_path}/1.csv'
            WITH (timestamp = 'at', lateness = 5, batch_rows = 1);
            CREATE TAGGED STREAM S OVER R;
            CREATE VIEW V AS SELECT list(x) AS l, first(x) AS f, last(x) AS z, string_agg(x, '') AS s FROM S
        """)
        db.run()
        assert db.query("SELECT * FROM V").to_pylist() == [{"l": ["d", "c", "a", "b"], "f": "d", "z": "b", "s": "dcab"}]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("quantile_cont(v, 1.5)", "TM206"),
        ("quantile_disc(v, v)", "TM206"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY v, w)", "TM206"),
        ("reservoir_quantile(v, 0.5)", "TM207"),
        ("bitstring_agg(v, 0, 5)", "TM625"),
    ],
)
def test_wrong_arguments_are_refused_where_they_stand(tmp_path, call, code):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(write(tmp_path, [((1, "x", 1, 1, "a"), "u")], 1))
        with pytest.raises(TidemillError) as refused:
            db.execute(f"CREATE VIEW V AS SELECT {call} AS a FROM K")
        assert refused.value.code == code and refused.value.line == 1


def test_a_window_and_a_join_have_them_too(tmp_path):
    (tmp_path / "1.csv").write_text("k,x,at\n" + "".join(f"{i % 2},{i},{i}\n" for i in range(8)))
    (tmp_path / "t.csv").write_text("k,name\n0,even\n1,odd\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""
            REGISTER SOURCE R (k INTEGER, x INTEGER, at BIGINT) FROM FILES '{tmp_path}/1.csv'
            WITH (timestamp = 'at', batch_rows = 3);
            REGISTER TABLE T (k INTEGER, name VARCHAR) FROM FILES '{tmp_path}/t.csv';
            CREATE TAGGED STREAM S OVER R;
            CREATE STREAMED VIEW W AS SELECT k, median(x) AS m, list(x) AS l FROM S [RANGE 4 SLIDE 4] GROUP BY k;
            CREATE VIEW J AS SELECT name, sum(DISTINCT x % 3) AS s, list(x) AS l FROM S, T WHERE S.k = T.k GROUP BY name
        """)
        db.run()
        windows = [(c["k"], c["m"], c["l"]) for c in db.changes("W").to_pylist() if c["TS"] == 4 and c["TAG"] != "-"]
        assert sorted(windows) == [(0, 1.0, [0, 2]), (1, 2.0, [1, 3])]
        joined = {r["name"]: (r["s"], r["l"]) for r in db.query("SELECT * FROM J").to_pylist()}
        assert joined == {"even": (3, [0, 2, 4, 6]), "odd": (3, [1, 3, 5, 7])}
