"""Rows that only ever come may stay in the files of the shards: what a view holds does not depend on where they lie."""

from __future__ import annotations

import os
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle
from tests.paper.notation import Feed, rows_of
from tests.properties.effort import effort
from tests.runtime.test_outlet_pools import STREAM, Stubborn, apart, eagerly, everything, fed, go_on, rows, run, timed
from tidemill.errors import PlanProblem
from tidemill.runtime.answer_files import write
from tidemill.runtime.thresholds import sizes


def all_sealed(patch) -> None:
    """Every row that may goes to a file, and two files of a size become one."""
    patch.setattr(sizes, "sealed_rows", 1)
    patch.setattr(sizes, "merged_files", 2)


@pytest.fixture
def into_files(monkeypatch):
    all_sealed(monkeypatch)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """What the views hold when every one has tables of its own."""
    with pytest.MonkeyPatch.context() as patch:
        apart(patch)
        return run(tmp_path_factory.mktemp("wanted"), STREAM)


def files(db) -> list[str]:
    return sorted(db.store.answer_files.all())


def known(db) -> list[str]:
    """The files that the store has."""
    return [name for (name,) in db.store.cursor().sql("SELECT file FROM __sealed_files ORDER BY 1").fetchall()]


def shares(db) -> dict[str, int]:
    """Rows of each view that lie in files."""
    return dict(db.store.cursor().sql("SELECT view, sum(number) FROM __sealed GROUP BY view").fetchall())


@effort(4)
@given(batches=st.lists(rows, min_size=2, max_size=6).map(timed), fan=st.integers(2, 4), least=st.integers(1, 6))
def test_files_change_no_log_and_no_contents(batches, fan, least, tmp_path_factory):
    def partly(patch) -> None:
        patch.setattr(sizes, "sealed_rows", least)
        patch.setattr(sizes, "merged_files", fan)
        eagerly(patch)

    found = []
    for layout in (apart, all_sealed, partly):
        with pytest.MonkeyPatch.context() as patch:
            layout(patch)
            found.append(run(tmp_path_factory.mktemp("db"), batches))
    assert all(other == found[0] for other in found)


def test_what_only_grows_lies_in_few_files_and_nothing_else_does(into_files, wanted, tmp_path):
    seen = []

    def look(db, number):
        assert files(db) == known(db)
        seen.append(len(files(db)))
        growing = {v.stored.id for v in db.workload.views.values() if v.stored.name[:-1] in ("Grown", "Whole")}
        assert set(shares(db)) <= growing

    assert run(tmp_path, STREAM, look) == wanted
    assert 0 < max(seen) <= 10  # two kinds of views, two shards, eight batches: without merging there would be 30


def test_a_setting_says_from_how_many_rows_on(tmp_path):
    seen = []

    def change(db, number):
        seen.append(sum(shares(db).values()))
        db.execute(f"SET sealed_rows = {'off' if number % 2 else 1}")

    with LocalDatabase(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM, change)
        assert {"name": "sealed_rows", "value": "0"} in db.execute("SHOW SETTINGS").to_pylist()
        with pytest.raises(PlanProblem, match="sealed_rows cannot be"):
            db.execute("SET sealed_rows = 'few'")
    grown = [b > a for a, b in pairwise([0, *seen])]
    assert grown == [False, True] * 4


def test_files_have_rows_in_order_of_their_owners(into_files, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM)
        for name in files(db):
            owners = pq.read_table(os.path.join(db.paths.answer_files, name)).column(write.WHOSE).to_pylist()
            assert owners == sorted(owners)


def test_a_batch_that_fails_leaves_the_files_as_they_were(into_files, wanted, tmp_path):
    class Restarted(Stubborn):
        def after_failure(self) -> None:
            before = known(self)
            self.reopen_outlet()
            assert files(self) == before, "what the store has stays, what it has not goes"

    with Restarted(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM)
        assert everything(db) == wanted and files(db) == known(db)
        assert len(db.failures) >= len(STREAM)


def test_a_batch_that_runs_again_after_its_commit_changes_nothing(into_files, wanted, tmp_path):
    class Twice(LocalDatabase):
        def finish(self, end):
            _, out = self.compute(end)
            self.outlet.apply(self.batch, out)
            self.outlet.apply(self.batch, out)
            self.reopen_outlet()
            super().finish(end)

    with Twice(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM)
        assert everything(db) == wanted and files(db) == known(db) != []


def test_a_reopened_database_goes_on_with_its_files(into_files, wanted, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        feed = fed(db, tmp_path, STREAM[:4])
        reached = db.blobs, db.offset, db.batch
        (tmp_path / "db" / "sealed" / "left by a crash.parquet").write_bytes(b"half")
    os.rename(tmp_path / "db", tmp_path / "elsewhere")
    with LocalDatabase(str(tmp_path / "elsewhere")) as db:
        assert files(db) == known(db) != []
        go_on(db, reached, feed, STREAM[4:])
        assert everything(db) == wanted


def test_dropped_views_leave_no_file_and_their_neighbours_everything(into_files, wanted, tmp_path):
    def drop(db, number):
        if number == 5:
            db.execute("DROP VIEW Grown1")

    with LocalDatabase(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM, drop)
        assert everything(db) == {name: rows for name, rows in wanted.items() if not name.endswith("grown1")}
        for name in ("Grown0", "Whole0", "Whole1"):
            assert files(db)
            db.execute(f"DROP VIEW {name}")
        assert files(db) == known(db) == []


def test_a_view_that_is_made_again_begins_anew(tmp_path_factory):
    again = "CREATE RSTREAM VIEW {} AS SELECT k, count(*) AS n FROM S [RANGE 4 SLIDE 2] GROUP BY k"

    def change(db, number):
        if number == 3:
            db.execute("DROP VIEW Whole1; " + again.format("Whole1"))
        if number == 5:
            db.execute(again.format("Later"))

    found = []
    for layout in (apart, all_sealed):
        with pytest.MonkeyPatch.context() as patch:
            layout(patch)
            found.append(run(tmp_path_factory.mktemp("db"), STREAM, change))
    assert found[0] == found[1]
    assert len(found[0]["whole0"]) > len(found[0]["whole1"]) > len(found[0]["later"]) > 0


def test_a_view_of_a_sealed_view_begins_with_its_contents(into_files, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        feed = fed(db, tmp_path, STREAM[:3])
        db.execute("CREATE VIEW Later AS SELECT k, n FROM Whole0; CREATE VIEW Held AS SELECT k, v FROM Grown0")
        feed.send(STREAM[3])
        settle(db)
        for later, older in (("Later", "k, n FROM Whole0"), ("Held", None)):
            found = rows_of(db, f"SELECT * FROM {later} ORDER BY ALL")
            with db.store.reading() as duck:
                view = db.workload.views["grown0"].stored
                contents = sorted(duck.sql(db.store.relation_sql(view, duck)).fetchall())
            assert found == (rows_of(db, f"SELECT {older} ORDER BY ALL") if older else contents) != []


def test_subscribers_hear_of_rows_that_would_be_sealed(into_files, tmp_path):
    heard, inboxes = [], []

    def listen(db, number):
        if number == 2:
            inboxes.append(db.subscribe("Whole0"))
        for inbox in inboxes:
            while (table := inbox.next(0)) is not None:
                heard.extend((r["TS"], r["k"], r["n"]) for r in table.to_pylist() if r["TAG"] == "+")

    with LocalDatabase(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM, listen)
        assert sorted(heard) == rows_of(db, 'SELECT "TS", k, n FROM Whole0 ORDER BY ALL') != []


def test_whoever_reads_sees_one_moment_and_keeps_its_files(into_files, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        feed = fed(db, tmp_path, STREAM[:4])
        view = db.workload.views["whole0"].stored
        with db.store.reading() as duck:
            sql = db.store.relation_sql(view, duck)
            before, there = sorted(duck.sql(sql).fetchall()), set(files(db))
            for batch in STREAM[4:]:
                feed.send(batch)
                settle(db)
            assert set(known(db)).isdisjoint(there), "all of them were merged"
            assert sorted(duck.sql(sql).fetchall()) == sorted(duck.sql(db.store.relation_sql(view, duck)).fetchall())
            assert sorted(duck.sql(sql).fetchall()) == before != []
        assert set(files(db)) > set(known(db))
        db.store.tidy()
        assert files(db) == known(db)


def test_names_of_folders_are_not_patterns(into_files, tmp_path):
    place = tmp_path / "k=7" / "a[b]*'c"
    place.mkdir(parents=True)
    with LocalDatabase(str(place / "db")) as db:
        feed = Feed(db, tmp_path, "Raw", "k INTEGER, v INTEGER")
        db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT k, v FROM S")
        db.start()
        feed.send([(1, 2, 1), (3, 4, 2), (0, 0, 3)])
        settle(db)
        assert shares(db) and rows_of(db, "SELECT * FROM V ORDER BY ALL") == [(1, 2), (3, 4)]


KINDS = {
    "tiny": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(),
    "VARCHAR": st.text(max_size=4),
    "BOOLEAN": st.booleans(),
}


@effort(20)
@given(data=st.data(), diffs=st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_a_file_gives_back_what_was_sealed(data, diffs, tmp_path_factory):
    folder, number = str(tmp_path_factory.mktemp("sealed")), len(diffs)
    columns = {
        name: data.draw(st.lists(st.none() | values, min_size=number, max_size=number), name)
        for name, values in KINDS.items()
    }
    types = {
        "tiny": pa.int8(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "VARCHAR": pa.string(),
        "BOOLEAN": pa.bool_(),
    }
    table = pa.table(
        {name: pa.array(values, types[name]) for name, values in columns.items()}
        | {"__time": list(range(number)), "__diff": diffs}
    )
    cut = data.draw(st.integers(0, number), "cut")
    file = write.write_file(folder, [("b", table.slice(cut)), ("a", table.slice(0, cut))])
    assert file is not None
    assert [(owner, copies) for owner, _, copies in file.runs] == [("a", sum(diffs[:cut])), ("b", sum(diffs[cut:]))]
    found = dict(write.read(folder, file, {"a", "b"}))
    together = pa.concat_tables([found["a"], found["b"]]).select(table.column_names)
    assert repr(together.to_pylist()) == repr(table.to_pylist())


def test_types_that_files_do_not_keep_go_to_tables(tmp_path):
    wide = pa.array([1 << 100], pa.decimal128(38, 0))
    table = pa.table({"n": wide, "__time": [1], "__diff": [1]})
    assert write.write_file(str(tmp_path), [("a", table)]) is None and not os.listdir(tmp_path)
