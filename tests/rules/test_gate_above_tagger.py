"""What a tagger lets out is closed and cancels nowhere, so the gate above it lets everything pass as it comes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.optimize.lower.edges import Edges
from tidemill.plan.physical import ViewOutput
from tidemill.runtime.paths import load_plan

RECORDS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]),
                             st.integers(0, 6)), min_size=1, max_size=20)  # fmt: skip


def statements(folder: str, select: str, rows: int = 100) -> str:
    return f"""REGISTER SOURCE P (k INT, v DOUBLE, ts TIMESTAMP) FROM FILES '{folder}/*.parquet'
               WITH (timestamp = 'ts', lateness = '2 seconds', batch_rows = {rows});
               CREATE TAGGED STREAM S OVER P KEY k; CREATE STREAMED VIEW V AS {select}"""


def write(folder, records) -> str:
    keys, values, seconds = zip(*records, strict=True)
    times = pa.array([s * 1_000_000 for s in seconds], pa.int64()).cast(pa.timestamp("us"))
    table = pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(values, pa.float64()), "ts": times})
    pq.write_table(table, folder / "000.parquet")
    return str(folder)


@pytest.mark.parametrize(
    ("select", "closed"),
    [
        ("SELECT R.k, R.v FROM R(S) R", True),
        ("SELECT R.v AS w, R.k, R.v + 1 AS next FROM R(S) R WHERE R.v > 0", True),
        ("SELECT R.k FROM R(S) R", True),
        ("SELECT R.k, R.v > 0 AS high FROM R(S) R", False),
        ("SELECT R.v FROM R(S) R", False),
        ("SELECT R.k, count(*) AS n FROM R(S) R GROUP BY R.k", True),
        ("SELECT count(*) AS n FROM R(S) R GROUP BY R.k", False),
    ],
    ids=[
        "all columns",
        "renamed and more",
        "the key alone",
        "a value as another",
        "without the key",
        "a group",
        "a group without its key",
    ],
)
def test_only_where_rows_of_a_tagger_stay_apart(tmp_path, select, closed):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(statements(write(tmp_path, [(1, 1.0, 0)]), select))
        db.run()
        (gate,) = (op for op in load_plan(db.paths.plan(db.catalog.version)).stage if isinstance(op, ViewOutput))
    assert gate.closed == closed


@effort(25)
@given(records=RECORDS, rows=st.integers(1, 7), where=st.sampled_from(["", " WHERE R.v > 0", " WHERE R.k < 2"]))
def test_it_says_what_a_gate_says_that_adds_up(tmp_path_factory, records, rows, where):
    folder = tmp_path_factory.mktemp("gate")
    text = statements(write(folder, records), f"SELECT R.k, R.v FROM R(S) R{where}", rows)
    said = []
    for closes in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not closes:
                patch.setattr(Edges, "_is_closed", lambda *_: False)
            with LocalDatabase(str(folder / f"db{closes}")) as db:
                db.execute(text)
                db.run()
                said.append(sorted(map(repr, db.changes("V").to_pylist())))
    assert said[0] == said[1]
