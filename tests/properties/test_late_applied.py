"""late = 'apply': at the end COMPLETE views are those of all rows, however late they came and however they were cut."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.errors import TidemillError
from tidemill.runtime.thresholds import smallest

# The view, and what DuckDB says of all rows when time has passed the greatest of them, `e`.
VIEWS = {
    "groups": (
        "SELECT k, count(*) AS n, sum(v) AS s, min(v) AS a, max(v) AS b, count(DISTINCT v) AS d FROM A GROUP BY k",
        "SELECT k, count(*), sum(v), min(v), max(v), count(DISTINCT v) FROM a GROUP BY k",
    ),
    "epochs": (
        "SELECT m, k, sum(v) AS s FROM A GROUP BY TS/4 AS m, k",
        "SELECT tm // 4, k, sum(v) FROM a WHERE (tm // 4 + 1) * 4 <= e GROUP BY ALL",
    ),
    "window": ("SELECT k, v FROM A [WINDOW 6]", "SELECT k, v FROM a WHERE e - 6 <= tm AND tm < e"),
    "now": ("SELECT max(v) AS m FROM A WHERE NOW - 5 < TS AND TS <= NOW", "SELECT max(v) FROM a WHERE e - 5 < tm"),
    "slides": (
        "SELECT k, count(*) AS n, max(v) AS m FROM A [RANGE 8 SLIDE 3] GROUP BY k",
        "SELECT k, count(*), max(v) FROM a WHERE (e - 2) // 3 * 3 + 2 - 8 <= tm AND tm < (e - 2) // 3 * 3 + 2"
        " GROUP BY k",
    ),
    "join": (
        "SELECT x.v, y.v AS w FROM A [WINDOW 9] x JOIN B [WINDOW 5] y ON x.k = y.k",
        "SELECT x.v, y.v FROM a x JOIN b y ON x.k = y.k WHERE x.e - 9 <= x.tm AND x.tm < x.e AND y.e - 5 <= y.tm"
        " AND y.tm < y.e",
    ),
    "outer": (
        "SELECT x.k, count(y.v) AS n FROM A [WINDOW UNTIL NOW] x LEFT JOIN B [WINDOW UNTIL NOW] y ON x.k = y.k"
        " GROUP BY x.k",
        "SELECT x.k, count(y.v) FROM a x LEFT JOIN b y ON x.k = y.k GROUP BY x.k",
    ),
    "sets": ("SELECT k FROM A EXCEPT SELECT k FROM B", "SELECT k FROM a EXCEPT SELECT k FROM b"),
    "synced": ("SELECT k, count(*) AS n FROM A SYNC EVERY 1 GROUP BY k", "SELECT k, count(*) FROM a GROUP BY k"),
}
row = st.tuples(st.integers(0, 2), st.integers(-3, 9), st.integers(0, 30))
streams = st.lists(row, min_size=1, max_size=24)


def write(folder: Path, name: str, rows, sizes) -> None:
    (folder / name).mkdir()
    parts, at = [*sizes, len(rows)], 0
    for i, size in enumerate(parts):
        text = "".join(f"{k},{v},{tm}\n" for k, v, tm in rows[at : at + size])
        (folder / name / f"{i:02}.csv").write_text("k,v,tm\n" + text)
        at += size


def truth(sql: str, a, b) -> Counter:
    with duckdb.connect() as duck:
        for name, rows in (("a", a), ("b", b)):
            table = pa.table({c: pa.array([r[i] for r in rows], pa.int64()) for i, c in enumerate(("k", "v", "tm"))})
            duck.register(f"{name}_rows", table)
            duck.execute(f"CREATE TABLE {name} AS SELECT *, {max(r[2] for r in (*a, *b))} AS e FROM {name}_rows")
        return Counter(duck.sql(sql).fetchall())


@effort(20, thorough_cases=600)
@given(
    a=streams,
    b=streams,
    sizes=st.lists(st.integers(1, 9), max_size=3),
    lateness=st.sampled_from([0, 0, 3]),
    batch=st.sampled_from([1, 3, 50]),
    view=st.sampled_from(sorted(VIEWS)),
)
def test_complete_views_are_those_of_all_rows(a, b, sizes, lateness, batch, view):
    text, wanted = VIEWS[view]
    with tempfile.TemporaryDirectory() as place, smallest(), LocalDatabase(f"{place}/db", shards=2) as db:
        for name, rows in (("A", a), ("B", b)):
            write(Path(place), name, rows, sizes)
            db.execute(
                f"REGISTER SOURCE {name}Raw (k BIGINT, v BIGINT, tm BIGINT) FROM FILES '{place}/{name}/*.csv'"
                f" WITH (timestamp = 'tm', lateness = {lateness}, late = 'apply', batch_rows = {batch});"
                f"CREATE TAGGED STREAM {name} OVER {name}Raw; CREATE VIEW Every{name} AS SELECT v FROM {name}"
            )
        db.execute(f"CREATE VIEW V AS {text}")
        db.run(final=True)
        found = Counter(tuple(r.values()) for r in db.query("SELECT * FROM V").to_pylist())
        assert db.status()["dead_letters"] == 0
    assert found == truth(wanted, a, b)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE TAGGED STREAM K OVER Raw KEY k", "TM310"),
        ("CREATE VIEW V AS SELECT k FROM S [ROWS 3]", "TM209"),
        ("CREATE VIEW V AS SELECT a.k FROM S a, S b WHERE a.k = b.k AND b.TS BETWEEN a.TS AND a.TS + 5", "TM204"),
        ("REGISTER SOURCE X (k INTEGER) FROM FILES '*.csv' WITH (late = 'apply')", "TM407"),
        ("REGISTER SOURCE X (k INTEGER) FROM FILES '*.csv' WITH (timestamp = 'k', late = 'never')", "TM407"),
    ],
)
def test_what_needs_the_order_of_time_is_refused(tmp_path, text, code):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER, tm INTEGER) FROM FILES '{tmp_path}/*.csv'"
            " WITH (timestamp = 'tm', late = 'apply'); CREATE TAGGED STREAM S OVER Raw"
        )
        with pytest.raises(TidemillError) as caught:
            db.execute(text)
        assert caught.value.code == code and caught.value.hint
