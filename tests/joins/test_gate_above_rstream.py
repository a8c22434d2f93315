"""What an rstream or a grouping shows is closed and cancels nowhere: a view above it takes everything as it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tests.rules.test_gate_above_tagger import write
from tidemill.optimize.lower.edges import Edges
from tidemill.plan.physical import ViewOutput
from tidemill.runtime.paths import load_plan

RECORDS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]),
                             st.integers(0, 9)), min_size=1, max_size=20)  # fmt: skip
JOINED = (
    "SELECT A.k, count(*) AS n, sum(B.v) AS s FROM S AS A [RANGE 4 SECONDS SLIDE 2 SECONDS],"
    " S AS B [RANGE 2 SECONDS SLIDE 2 SECONDS] WHERE A.k = B.k GROUP BY A.k"
)
ROWS = "SELECT A.k, A.v FROM S AS A [RANGE 4 SECONDS SLIDE 2 SECONDS]"
KINDS = st.sampled_from(["RSTREAM", "STREAMED"])
EVERY = "SELECT A.v, count(*) AS n FROM S AS A [WINDOW 3 SECONDS] GROUP BY A.v"


def statements(folder: str, kind: str, select: str, rows: int = 100) -> str:
    return f"""REGISTER SOURCE P (k INT, v DOUBLE, ts TIMESTAMP) FROM FILES '{folder}/*.parquet'
               WITH (timestamp = 'ts', lateness = '2 seconds', batch_rows = {rows});
               CREATE TAGGED STREAM S OVER P; CREATE {kind} VIEW V AS {select}"""


@pytest.mark.parametrize(
    ("kind", "select", "closed"),
    [("RSTREAM", JOINED, True), ("RSTREAM", ROWS, True), ("STREAMED", JOINED, True), ("STREAMED", ROWS, False)],
    ids=["joined and shown", "rows shown", "grouped", "rows"],
)
def test_only_above_an_rstream_or_a_grouping(tmp_path, kind, select, closed):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(statements(write(tmp_path, [(1, 1.0, 0)]), kind, select))
        db.run()
        (gate,) = (op for op in load_plan(db.paths.plan(db.catalog.version)).stage if isinstance(op, ViewOutput))
    assert gate.closed == closed


@effort(10)
@given(records=RECORDS, rows=st.integers(1, 7), select=st.sampled_from([JOINED, ROWS, EVERY]), kind=KINDS)
def test_it_says_what_a_gate_says_that_adds_up(tmp_path_factory, records, rows, select, kind):
    folder = tmp_path_factory.mktemp("gate")
    text = statements(write(folder, records), kind, select, rows)
    said = []
    for closes in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not closes:
                patch.setattr(Edges, "_is_closed", lambda self, name: False)
            with LocalDatabase(str(folder / f"db{closes}"), shards=2) as db:
                db.execute(text)
                db.run()
                shown = db.query("SELECT * FROM V") if kind == "RSTREAM" else db.changes("V")
                said.append(sorted(map(str, shown.to_pylist())))
    assert said[0] == said[1]
