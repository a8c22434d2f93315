"""How much of a source a batch takes: more while little travels, less when much does, and always what the user says."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.runtime.messages.batch_progress import SourceProgress
from tidemill.runtime.planning.batch_size import GROWTH, Portion, next_rows
from tidemill.runtime.reader.reader import Reader
from tidemill.runtime.thresholds import sizes

FILES, ROWS = 64, 1000
LEAST_ROWS, MOST_ROWS = sizes.least_rows, sizes.most_rows


@effort(200)
@given(before=st.integers(LEAST_ROWS, MOST_ROWS), rows=st.integers(1, MOST_ROWS), sent=st.integers(0, 1 << 34))
def test_the_next_batch_sends_what_it_should_as_far_as_the_limits_allow(before, rows, sent):
    found = next_rows(before, rows, sent)
    assert LEAST_ROWS <= found <= min(MOST_ROWS, max(GROWTH * before, LEAST_ROWS))
    if LEAST_ROWS < found < min(MOST_ROWS, GROWTH * before):
        assert found * sent / rows <= sizes.sent_bytes < (found + 1) * sent / rows


@effort(200)
@given(
    rows=st.integers(LEAST_ROWS, MOST_ROWS),
    more=st.integers(1, MOST_ROWS),
    base=st.integers(0, sizes.sent_bytes),
    each=st.integers(0, 200),
)
def test_what_grows_slower_than_the_rows_is_carried_on(rows, more, base, each):
    """Bytes = base + each · rows: two batches show both numbers."""
    last, now = ((r, base + each * r) for r in (rows, rows + more))
    found = next_rows(now[0], *now, last)
    assert found >= next_rows(now[0], *now)
    if each and max(LEAST_ROWS, now[0]) < found < min(MOST_ROWS, GROWTH * now[0]):
        assert base + each * found <= sizes.sent_bytes < base + each * (found + 1)


def test_a_note_counts_once_and_only_for_its_own_plan():
    portion = Portion(("p",), 200_000)
    note: SourceProgress = {"top": 0, "floor": 0, "plan": 3, "batch": 7, "rows": 200_000, "sent": 4_000}
    portion.learn(note, 4)
    assert portion.rows == 200_000, "another plan may send more"
    portion.learn({**note, "rows": sizes.telling_rows - 1}, 3)
    assert portion.rows == 200_000, "too few to tell"
    for _ in range(3):
        portion.learn(note, 3)
    assert portion.rows == 200_000 * GROWTH
    portion.learn({**note, "batch": 8}, 3)
    assert portion.rows == 200_000 * GROWTH**2


@pytest.fixture
def small(monkeypatch):
    """The same rules, a thousandth of the size."""
    for name in ("aggregated_rows", "raw_rows", "least_rows", "most_rows", "telling_rows"):
        monkeypatch.setattr(sizes, name, getattr(sizes, name) // 1000)


@pytest.fixture
def db(small, tmp_path):
    """Files of 1000 rows each, of which an aggregate for each key travels."""
    (tmp_path / "in").mkdir()
    for i in range(FILES):
        at = np.arange(i * ROWS, (i + 1) * ROWS)
        pq.write_table(pa.table({"k": at % 4, "n": at, "at": np.full(ROWS, i)}), tmp_path / "in" / f"{i:04d}.parquet")
    with LocalDatabase(str(tmp_path / "db")) as database:
        database.register = lambda more="": database.execute(  # type: ignore[attr-defined]
            f"REGISTER SOURCE Raw (k BIGINT, n BIGINT, at BIGINT) FROM FILES '{tmp_path}/in/*.parquet'"
            f" WITH (timestamp = 'at'{more}); CREATE TAGGED STREAM S OVER Raw"
        )
        yield database


def taken(db) -> list[int]:
    """Rows of every batch of a run that read some."""
    found: list[int] = []
    db.run(lambda progress: found.append(progress["rows"]))
    return [rows for rows in found if rows]


SUMS = "CREATE VIEW T AS SELECT k, count(*) AS c, sum(n) AS s FROM S GROUP BY k"


def test_batches_grow_while_little_travels(db, monkeypatch):
    monkeypatch.setattr(sizes, "aggregated_rows", 2_000)
    db.register()
    db.execute(SUMS)
    assert taken(db) == [2_000, 2_000 * GROWTH, 30_000]
    found = db.query("SELECT sum(c) AS c, sum(s) AS s FROM T").to_pylist()[0]
    assert (found["c"], int(found["s"])) == (FILES * ROWS, sum(range(FILES * ROWS)))


@pytest.mark.parametrize("portion, batches", [(52_000, [64_000]), (48_000, [48_000, 16_000])])
def test_a_small_rest_goes_with_the_batch_before_it(db, monkeypatch, portion, batches):
    monkeypatch.setattr(sizes, "aggregated_rows", portion)
    db.register()
    db.execute(SUMS)
    assert taken(db) == batches


def test_batches_shrink_when_much_travels(db, monkeypatch):
    monkeypatch.setattr(sizes, "sent_bytes", 100_000)
    db.register()
    db.execute("CREATE VIEW T AS SELECT k, n, at FROM S")
    found = taken(db)
    assert found[0] == 1_000 and sum(found) == FILES * ROWS
    assert max(found) <= 4_000, "a row of three numbers, its time and count sends some 40 bytes"


def test_the_user_decides_if_he_says_so(db):
    db.register(", batch_rows = 8000")
    db.execute(SUMS)
    assert taken(db) == [8_000] * 8


def test_what_a_batch_sent_is_counted_by_source(db):
    db.register()
    db.execute("CREATE VIEW T AS SELECT k, n FROM S")
    db.start()
    end = db.plan()
    inbox = []
    _, out = db.compute(end)
    for assignment in db.planner.assignments(db.offset, end):
        inbox += list(Reader(db.paths.root, assignment).messages())
    sent = sum(len(payload) for _, port, payload in inbox if port not in ("tick", "dead"))
    ticks = [json.loads(payload) for _, port, payload in out if port == "tick"]
    assert {t["tallies"]["Raw"]["sent"] for t in ticks} == {sent} and sent > ROWS * 16


def test_a_batch_that_runs_again_reads_the_same_rows(db):
    """The portion is in no offset: the end of the batch is, and Spark has logged it."""
    db.register()
    db.execute(SUMS)
    db.start()
    db.step()
    end = db.plan()
    first = [m for m in db.compute(end)[1] if m[1] != "tick"]
    db.reopen_outlet()
    assert db.planner.portions == {}
    again = [m for m in db.compute(end)[1] if m[1] != "tick"]
    assert len(first) == len(again)
    db.finish(end)
    while db.step():
        pass
    db.stop()
    db.run()
    assert db.query("SELECT sum(c) AS c FROM T").to_pylist() == [{"c": FILES * ROWS}]


def test_a_source_that_feeds_other_ports_begins_again(db):
    db.register()
    db.execute(SUMS)
    db.start()
    db.step()
    db.plan()
    assert db.planner.portions["Raw"].rows == 64_000
    db.execute("CREATE VIEW All_ AS SELECT k, n FROM S")
    db.plan()
    assert db.planner.portions["Raw"].rows <= 4_000
