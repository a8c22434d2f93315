"""Sources that change while views stand: another column, another beginning."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tidemill.errors import TidemillError

FORMATS = ("csv", "json", "parquet", "arrow")


def write(folder, name, form, rows):
    """Rows as dictionaries; all of one file have the same fields."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.{form}"
    if form == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif form == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.Table.from_pylist(rows).schema) as writer:
            writer.write_table(pa.Table.from_pylist(rows))


def answers(db, view):
    return sorted((tuple(row.values()) for row in db.query(f"SELECT * FROM {view}").to_pylist()), key=str)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("again", [False, True], ids=["open", "reopened"])
def test_views_go_on_and_new_ones_see_the_column(tmp_path, form, again):
    files, path = tmp_path / "in", str(tmp_path / "db")
    write(files, "1", form, [{"k": 1, "v": 5, "tm": 1}, {"k": 2, "v": 6, "tm": 2}])
    db = CheckpointedDatabase(path)
    db.execute(
        f"REGISTER SOURCE Raw (k INTEGER, v INTEGER, tm BIGINT) FROM FILES '{files}/*.{form}'"
        " WITH (timestamp = 'tm'); CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY k;"
        "CREATE VIEW Every AS SELECT * FROM S; CREATE VIEW Sums AS SELECT k, sum(v) AS s FROM S GROUP BY k;"
        "CREATE VIEW Newest AS SELECT k, v FROM K"
    )
    db.run(final=False)
    db.execute("ALTER SOURCE Raw ADD COLUMN colour VARCHAR, ADD weight DOUBLE")
    db.execute("CREATE VIEW Colours AS SELECT colour, weight, count(*) AS n FROM S GROUP BY colour, weight")
    if again:
        db.close()
        db = CheckpointedDatabase(path)
    write(files, "2", form, [{"k": 1, "v": 7, "tm": 3}])
    write(files, "3", form, [{"colour": "red", "v": 8, "tm": 4, "k": 2, "weight": 0.5}])
    db.run(final=False)
    assert answers(db, "Every") == [(1, 5, 1), (1, 7, 3), (2, 6, 2), (2, 8, 4)]
    assert answers(db, "Sums") == [(1, 12), (2, 14)] and answers(db, "Newest") == [(1, 7), (2, 8)]
    assert answers(db, "Colours") == [("red", 0.5, 1), (None, None, 1)]
    assert "colour" in db.execute("DESCRIBE Raw").column(0).to_pylist()
    assert db.status()["sources"][0]["bad"] == 0
    db.close()


def test_records_with_the_column_may_wait_before_it_is_declared(tmp_path):
    files = tmp_path / "in"
    write(files, "1", "json", [{"k": 1, "tm": 1, "colour": "red"}])
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE Raw (k INTEGER, tm BIGINT) FROM FILES '{files}/*.json' WITH (timestamp = 'tm')")
        db.execute("ALTER SOURCE Raw ADD colour VARCHAR")
        db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT * FROM S")
        db.run(final=True)
        assert answers(db, "V") == [(1, 1, "red")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ALTER SOURCE Raw ADD COLUMN K VARCHAR", "TM309"),
        ("ALTER SOURCE Raw ADD COLUMN x NOTYPE", "TM108"),
        ("ALTER SOURCE Raw ADD COLUMN __x INTEGER", "TM108"),
        ("ALTER SOURCE None_ ADD x INTEGER", "TM301"),
        ("ALTER SOURCE Made ADD x INTEGER", "TM309"),
        ("ALTER SOURCE Raw DROP COLUMN k", "TM101"),
        ("ALTER SOURCE Wire ADD x INTEGER", "TM309"),
    ],
)
def test_what_cannot_be_added_is_refused(tmp_path, text, code):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER) FROM FILES '{tmp_path}/*.csv';"
            "REGISTER SOURCE Made (k INTEGER) FROM GENERATE (rows = 1);"
            f"REGISTER SOURCE Wire (k INTEGER) FROM FILES '{tmp_path}/*.csv' WITH (header = false)"
        )
        with pytest.raises(TidemillError) as caught:
            db.execute(text)
        assert caught.value.code == code and caught.value.hint


def test_a_clock_that_ran_away_is_repaired(tmp_path):
    """A row of the year 9999 made everything after it late, for ever."""
    (tmp_path / "1.csv").write_text("k,at\n1,2024-01-01 00:00:01\n2,9999-01-01 00:00:00\n")
    with CheckpointedDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER, at TIMESTAMP) FROM FILES '{tmp_path}/*.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY k;"
            "CREATE VIEW V AS SELECT k FROM S; CREATE VIEW N AS SELECT count(*) AS n FROM V;"
            "CREATE VIEW W AS SELECT k FROM K"
        )
        db.run(final=False)
        (tmp_path / "2.csv").write_text("k,at\n3,2024-01-01 00:00:02\n")
        late = db.run(final=False)
        assert late.late == 1 and db.status()["sources"][0]["ahead_seconds"] > 1e9
        assert "RESTART SOURCE Raw WITH (ahead = '1 day')" in str(late), "no lateness helps"
        said = str(db.execute("RESTART SOURCE Raw WITH (ahead = '1 day')"))
        assert said == "source Raw is read from its beginning; begun anew: S, K, V, N, W"
        assert db.run(final=False).late == 0
        assert answers(db, "V") == [(1,), (3,)] == answers(db, "W") and answers(db, "N") == [(2,)]
        assert db.status()["sources"][0]["ahead_seconds"] is None
        db.execute("RESTART SOURCE Raw")
        db.run(final=False)
        assert answers(db, "V") == [(1,), (3,)], "the option stays"


def test_a_source_that_cannot_be_restarted_so_stays_as_it_is(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER) FROM FILES '{tmp_path}/*.csv'; CREATE TAGGED STREAM S OVER Raw;"
            "CREATE VIEW V AS SELECT k FROM S"
        )
        for text, code in (
            ("RESTART SOURCE Raw WITH (ahead = '1 day')", "TM407"),
            ("RESTART SOURCE S", "TM301"),
            ("RESTART SOURCE Raw WITH (format = 'json')", "TM110"),
            ("RESTART SOURCE Raw WITH (batch_rows = 'x')", "TM407"),
        ):
            with pytest.raises(TidemillError) as caught:
                db.execute(text)
            assert caught.value.code == code
            assert db.query("SELECT * FROM V").num_rows == 0


@pytest.mark.parametrize("form", FORMATS)
def test_files_without_the_only_column_that_is_read(tmp_path, form):
    files = tmp_path / "in"
    write(files, "1", form, [{"k": 1}, {"k": 2}])
    write(files, "2", form, [{"k": 3, "colour": "red"}])
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER) FROM FILES '{files}/*.{form}';"
            "ALTER SOURCE Raw ADD colour VARCHAR; CREATE TAGGED STREAM S OVER Raw;"
            "CREATE VIEW V AS SELECT colour, count(*) AS n FROM S GROUP BY colour"
        )
        db.run(final=True)
        assert answers(db, "V") == [("red", 1), (None, 2)]
