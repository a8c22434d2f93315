"""A look at a few rows before the first batch changes how much it takes and by which plan, never an answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tidemill.runtime.messages.control import PreviewNote
from tidemill.runtime.paths import load_plan, read_json
from tidemill.runtime.planning import planner, preview
from tidemill.runtime.planning.batch_size import Portion, rows_after_preview, rows_to_take
from tidemill.runtime.thresholds import sizes

FILES, ROWS = 8, 2_000
COUNTS = "CREATE VIEW C AS SELECT a, count(*) AS n, sum(v) AS s FROM S GROUP BY a"
WINDOWS = ";".join(
    f"CREATE RSTREAM VIEW W{i} AS SELECT {by}, count(*) AS n, sum(v) AS s FROM S [RANGE {r} SLIDE {s}] GROUP BY {by}"
    for i, (by, r, s) in enumerate([("a, b", 60, 20), ("b, c", 60, 20), ("a, c", 60, 20)])
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The same rules, a thousandth of the size."""
    for name in ("aggregated_rows", "raw_rows", "assumed_rows", "least_rows", "most_rows", "most_first_rows"):
        monkeypatch.setattr(sizes, name, getattr(sizes, name) // 1000)
    monkeypatch.setattr(sizes, "telling_rows", 100)
    monkeypatch.setattr(sizes, "preview_rows", 1_000)


def write(folder, files=FILES, rows=ROWS, keys=7):
    folder.mkdir(exist_ok=True)
    for i in range(files):
        at = np.arange(i * rows, (i + 1) * rows)
        columns = {"a": at % keys, "b": at * at % 11, "c": at // 3 % 13, "v": at, "ts": at // 10}
        pq.write_table(pa.table(columns), folder / f"{i:04d}.parquet", row_group_size=500)


def opened(place, files, statements, more=""):
    db = LocalDatabase(str(place))
    db.execute(
        f"REGISTER SOURCE P (a BIGINT, b BIGINT, c BIGINT, v BIGINT, ts BIGINT) FROM FILES '{files}'"
        f" WITH (timestamp = 'ts'{more}); CREATE TAGGED STREAM S OVER P; {statements}"
    )
    return db


def ran(db):
    """Rows of every batch, and what the control file says of trials."""
    found = []
    db.run(lambda at: found.append(at["rows"]))
    return [rows for rows in found if rows], read_json(db.paths.control)["previews"]


@pytest.mark.parametrize(("statements", "views"), [(COUNTS, ["C"]), (WINDOWS, ["W0", "W1", "W2"])])
def test_a_warm_engine_takes_all_at_once_and_says_the_same(tmp_path, statements, views):
    write(tmp_path / "in")
    answers = []
    for name, warm in (("cold", False), ("warm", True)):
        with opened(tmp_path / name, tmp_path / "in" / "*.parquet", "") as db:
            if warm:
                db.warm()
            db.execute(statements)
            batches, previews = ran(db)
            assert sum(batches) == FILES * ROWS
            assert (len(batches) == 1 and set(previews) == {"P"}) if warm else (len(batches) > 1 and not previews)
            answers.append({v: sorted(map(str, db.query(f"SELECT * FROM {v}").to_pylist())) for v in views})
    assert answers[0] == answers[1] and all(answers[0].values())


def test_the_statistics_are_those_of_the_rows(tmp_path):
    write(tmp_path / "in")
    with opened(tmp_path / "db", tmp_path / "in" / "*.parquet", "") as db:
        db.warm()
        db.execute(WINDOWS)
        db.runner.publisher.publish(mode="finite", run=1)
        found = db.workload.sharing.settings.statistics["P"]
        # Squares have 6 remainders modulo 11.
        assert found["tuples"] == 1_000 and abs(found["groups"]["a\x1fb"] - 7 * 6) <= 4


def test_the_end_that_sends_more_counts(tmp_path):
    write(tmp_path / "in", files=4)
    at = np.arange(4 * ROWS, 5 * ROWS)
    pq.write_table(pa.table({n: at for n in ("a", "b", "c", "v")} | {"ts": at // 10}), tmp_path / "in" / "z.parquet")
    with opened(tmp_path / "db", tmp_path / "in" / "*.parquet", "") as db:
        db.warm()
        db.execute(COUNTS)
        plan = db.workload.physical(db.workload.pending, (0, 1))
        assert preview.preview_source(db.paths.root, plan, "P").sent > 16 * 1_000, (
            "each row of the last file has its own key"
        )


@pytest.mark.parametrize(
    ("statements", "more"),
    [
        ("CREATE VIEW V AS SELECT a, v FROM S", ""),  # raw rows travel: the first batch is small whatever they are
        (COUNTS, ", batch_rows = 3000"),  # the user has decided
    ],
)
def test_no_look_where_it_would_change_nothing(tmp_path, statements, more):
    write(tmp_path / "in")
    with opened(tmp_path / "db", tmp_path / "in" / "*.parquet", "", more) as db:
        db.warm()
        db.execute(statements)
        assert ran(db)[1] == {}


def test_no_look_at_few_rows_nor_at_what_is_known(tmp_path):
    write(tmp_path / "in", files=1)
    with opened(tmp_path / "db", tmp_path / "in" / "*.parquet", "") as db:
        db.warm()
        db.execute(COUNTS)
        assert ran(db) == ([ROWS], {})
        write(tmp_path / "in")
        db.execute("CREATE VIEW D AS SELECT b, count(*) AS n FROM S GROUP BY b")
        assert ran(db)[1] == {}


@pytest.mark.parametrize("which", [0, FILES - 1])
def test_a_damaged_file_is_found_by_the_batch_and_not_by_the_look(tmp_path, which):
    write(tmp_path / "in")
    bad = tmp_path / "in" / f"{which:04d}.parquet"
    bad.write_bytes(bad.read_bytes()[:-20])
    with opened(tmp_path / "db", tmp_path / "in" / "*.parquet", "") as db:
        db.warm()
        db.execute(COUNTS)
        batches, previews = ran(db)
        assert sum(batches) == (FILES - 1) * ROWS and previews == {}
        assert db.query("SELECT count(*) AS n FROM dead_letters").to_pylist() == [{"n": 1}]


def test_a_trial_counts_for_its_own_plan_only_and_not_while_live(tmp_path):
    write(tmp_path / "in")
    with opened(tmp_path / "db", tmp_path / "in" / "*.parquet", COUNTS) as db:
        db.runner.publisher.publish(mode="finite", run=1)
        plan = load_plan(db.paths.plan(db.catalog.version))
        for version, rows in ((plan.version, 32_000), (plan.version + 1, 4_000)):
            look: PreviewNote = {"plan": version, "rows": 1_000, "sent": 100}
            assert rows_to_take({}, plan, plan.sources[0], None, look) == rows
        db.runner.publisher.write_control(
            mode="live", previews={"P": {"plan": plan.version, "rows": 1_000, "sent": 100}}
        )
        made = planner.Planner(db.paths.root, 2)
        made.latest(made.initial())
        assert made.portions == {"P": Portion(made.portions["P"].ports, 4_000, sizes.folded_bytes)}


def test_much_that_is_sent_makes_the_first_batch_small():
    assert rows_after_preview(1_000, sizes.folded_bytes) == sizes.least_rows
    assert rows_after_preview(1_000, 0) == sizes.most_first_rows
