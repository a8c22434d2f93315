"""Files that grow while a database stands: answers of one run over everything, and loud words where that cannot be."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.errors import TidemillError
from tidemill.serve.status import status_view


@pytest.fixture
def db(tmp_path):
    (tmp_path / "in").mkdir()
    with LocalDatabase(str(tmp_path / "db")) as opened:
        opened.folder = tmp_path / "in"  # type: ignore[attr-defined]
        yield opened


def register(db, folder, pattern="*", options="", columns="id INTEGER, b VARCHAR"):
    options = f" WITH ({options})" if options else ""
    db.execute(
        f"REGISTER SOURCE Raw ({columns}) FROM FILES '{folder}/{pattern}'{options};"
        " CREATE TAGGED STREAM S OVER Raw;"
        " CREATE VIEW V AS SELECT count(*) AS n, sum(id) AS total FROM S;"
        " CREATE STREAMED VIEW L AS SELECT id FROM S"
    )


def answer(db):
    return tuple(db.query("SELECT n, total FROM V").to_pylist()[0].values())


def append(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def source(db):
    return db.status()["sources"][0]


def shown(db) -> str:
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(status_view(db.status()))
    return console.export_text()


def test_a_file_that_grows_between_runs(db):
    path = db.folder / "access.json"
    append(path, '{"id": 1}\n{"id": 2}\n')
    register(db, db.folder)
    assert db.run(final=False).rows == 2
    append(path, '{"id": 3}\n')
    summary = db.run(final=False)
    assert (summary.rows, summary.bad, summary.warnings) == (1, 0, ())
    assert answer(db) == (3, 6)
    assert db.run(final=False).rows == 0


def test_a_file_that_grows_while_the_job_is_live(db):
    path = db.folder / "a.csv"
    append(path, "id,b\n1,x\n")
    register(db, db.folder)
    db.start()
    while db.step():
        pass
    for i in range(2, 6):
        append(path, f"{i},")
        while db.step():
            pass
        append(path, "y\n")
        while db.step():
            pass
    assert source(db)["rows"] == 5
    db.stop()
    db.run()
    assert db.changes("L").column("id").to_pylist() == [1, 2, 3, 4, 5]


@effort(15, thorough_cases=500)
@given(st.data())
def test_runs_over_files_that_grow_equal_one_run_over_all(data):
    """With crashes: before a batch is logged, before it is computed, before it is stored, after it."""
    texts = ["".join(f"{100 * i + k},x\n" for k in range(data.draw(st.integers(1, 6)))) for i in range(2)]
    left = [f"id,b\n{text}" for text in texts]
    batch = data.draw(st.sampled_from([None, 1, 2]))
    with tempfile.TemporaryDirectory() as name, LocalDatabase(f"{name}/db") as db:
        folder = Path(name) / "in"
        folder.mkdir()
        register(db, folder, options="tail = true" + (f", batch_rows = {batch}" if batch else ""))
        for _ in range(data.draw(st.integers(0, 4))):
            for i in range(2):
                cut = data.draw(st.integers(0, len(left[i])))
                append(folder / f"{i}.csv", left[i][:cut])
                left[i] = left[i][cut:]
            if data.draw(st.booleans()):
                db.run(final=False)
            else:
                db.start()
                for _ in range(data.draw(st.integers(0, 2))):
                    planned = db.logged or db.plan()
                    if planned is not None:
                        db.logged = planned
                        if data.draw(st.booleans()):
                            db.compute(planned)
                        if data.draw(st.booleans()):
                            db.finish(planned)
                    db.reopen_outlet()
                db.stop()
        for i in range(2):
            append(folder / f"{i}.csv", left[i])
        db.run()
        ids = sorted(int(line.split(",")[0]) for text in texts for line in text.splitlines())
        assert sorted(db.changes("L").column("id").to_pylist()) == ids
        assert answer(db) == (len(ids), sum(ids))


def test_a_changed_file_is_in_the_summary_the_status_and_the_dead_letters(db):
    path = db.folder / "a.csv"
    append(path, "id,b\n1,x\n2,y\n")
    register(db, db.folder)
    db.run(final=False)
    path.write_text("id,b\n7,x\n")
    summary = db.run(final=False)
    assert summary.bad == 1 and str(path) in summary.warnings[0] and "has changed" in summary.warnings[0]
    assert str(path) in source(db)["files"][0] and str(path) in shown(db)
    assert db.query("SELECT raw FROM dead_letters").to_pylist() == [{"raw": str(path)}]
    assert answer(db) == (2, 3)
    assert db.run(final=False).warnings == ()


def test_links_out_of_the_folder_are_said_and_followed_on_request(db, tmp_path):
    (tmp_path / "else").mkdir()
    append(tmp_path / "else" / "real.csv", "id,b\n1,x\n")
    (db.folder / "link.csv").symlink_to(tmp_path / "else" / "real.csv")
    register(db, db.folder)
    summary = db.run(final=False)
    assert summary.bad == 1 and "link.csv" in summary.warnings[0] and "follow_links = true" in summary.warnings[0]
    db.execute("DROP VIEW V; DROP VIEW L; DROP STREAM S; DROP SOURCE Raw")
    register(db, db.folder, options="follow_links = true")
    assert db.run(final=False).rows == 1
    append(tmp_path / "else" / "real.csv", "2,x\n")
    db.run(final=False)
    assert answer(db) == (2, 3)


def test_a_folder_that_is_not_there_is_refused(db, tmp_path):
    for pattern in ("nowhere/*.csv", "nowhere/a.csv", "nowhere/**/x.csv"):
        with pytest.raises(TidemillError, match="TM630") as caught:
            db.execute(f"REGISTER SOURCE Q (a INTEGER) FROM FILES '{tmp_path}/{pattern}'")
        assert f"{tmp_path}/nowhere" in str(caught.value) and "make the folder" in str(caught.value.hint)
    (tmp_path / "empty").mkdir()
    db.execute(f"REGISTER SOURCE Q (a INTEGER) FROM FILES '{tmp_path}/empty/*/later.csv'")


def test_undeclared_fields_are_counted_and_said_once(db):
    lines = [{"id": 1, "user": "a", "B": "x"}, {"id": 2, "user": {"name": "b"}, "extra": 1}, {"id": 3}]
    append(db.folder / "a.json", "".join(json.dumps(line) + "\n" for line in lines))
    register(db, db.folder)
    summary = db.run(final=False)
    assert summary.warnings == ("Raw has no column for these fields, which are not read: user (2), extra (1)",)
    assert source(db)["undeclared"] == {"user": 2, "extra": 1}
    assert "no column is declared for user (2), extra (1)" in shown(db)
    append(db.folder / "a.json", '{"id": 4, "user": "c"}\n')
    assert db.run(final=False).warnings == ()
    assert source(db)["undeclared"] == {"user": 3, "extra": 1}
    append(db.folder / "a.json", '{"id": 5, "user": "c", "more": 1}\n')
    assert db.run(final=False).warnings == ("Raw has no column for these fields, which are not read: more (1)",)


# ---- operations ------------------------------------------------------------------------------------

WORDS = ["insert", "update", "truncate", None, "D", "c", "", "U", "r", "delete", "t", "+", "-"]


def operations(db, on_error="dead_letter", batch=100, form="json"):
    rows = [{"k": i % 3, "v": i, "op": word, "at": i} for i, word in enumerate(WORDS)]
    text = "".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows)
    append(db.folder / "a.json", text)
    db.execute(
        f"REGISTER SOURCE Ops (k INTEGER, v INTEGER, op VARCHAR, at BIGINT) FROM FILES '{db.folder}/*.{form}'"
        f" WITH (timestamp = 'at', operation = 'op', on_error = '{on_error}', batch_rows = {batch});"
        " CREATE TAGGED STREAM K OVER Ops KEY k; CREATE VIEW V AS SELECT k, v FROM K"
    )


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_unknown_operations_are_bad_records(db, batch):
    operations(db, batch=batch)
    summary = db.run()
    assert (summary.rows, summary.bad, summary.late) == (9, 4, 0)
    dead = db.query("SELECT reason, raw FROM dead_letters ORDER BY raw").to_pylist()
    assert {json.loads(d["raw"])["op"] for d in dead} == {"truncate", None, "", "t"}
    assert {d["reason"] for d in dead} == {'column "op" has no known operation'}
    alive = {}
    for i, word in enumerate(WORDS):
        if (word or "").lower() in ("delete", "d", "-"):
            alive.pop(i % 3, None)
        elif word not in ("truncate", None, "", "t"):
            alive[i % 3] = i
    assert {r["k"]: r["v"] for r in db.query("SELECT k, v FROM V").to_pylist()} == alive


def test_unknown_operations_may_be_skipped_or_stop_the_run(db):
    operations(db, on_error="skip")
    assert db.run().bad == 4 and db.query("SELECT * FROM dead_letters").num_rows == 0
    db.execute("DROP VIEW V; DROP STREAM K; DROP SOURCE Ops")
    operations(db, on_error="fail")
    with pytest.raises(TidemillError, match="TM400"):
        db.run()


# ---- limits of the dead letters --------------------------------------------------------------------


def test_dead_letters_are_bounded_and_the_oldest_go_first(db):
    register(db, db.folder)
    db.execute("SET dead_letter_rows = 16")
    append(db.folder / "a.csv", "id,b\n")
    for i in range(10):
        append(db.folder / "a.csv", "".join(f"bad{10 * i + k},x\n" for k in range(5)))
        db.run(final=False)
        assert db.status()["dead_letters"] <= 16
    raws = [r["raw"] for r in db.execute("SHOW DEAD LETTERS").to_pylist()]
    assert raws == [f"bad{10 * i + k},x" for i in range(10) for k in range(5)][-len(raws) :] and len(raws) >= 10
    status = db.status()
    assert status["dead_letters_dropped"] == 50 - len(raws)
    assert f"{50 - len(raws)} dead letters were dropped" in shown(db)
    assert source(db)["bad"] == 50


def test_one_batch_with_more_dead_letters_than_are_kept(db):
    register(db, db.folder)
    db.execute("SET dead_letter_rows = 8")
    append(db.folder / "a.csv", "id,b\n" + "".join(f"bad{k},x\n" for k in range(100)))
    db.run(final=False)
    assert [r["raw"] for r in db.execute("SHOW DEAD LETTERS").to_pylist()] == [f"bad{k},x" for k in range(92, 100)]
    assert db.status()["dead_letters_dropped"] == 92


def test_dead_letters_are_bounded_in_bytes(db):
    register(db, db.folder)
    db.execute("SET dead_letter_bytes = '2 KB'")
    append(db.folder / "a.csv", "id,b\n")
    for i in range(6):
        append(db.folder / "a.csv", f"bad{i},{'y' * 500}\n")
        db.run(final=False)
    raws = [r["raw"][:4] for r in db.execute("SHOW DEAD LETTERS").to_pylist()]
    assert raws == [f"bad{i}" for i in range(6)][-len(raws) :] and 1 <= len(raws) <= 3
    for wrong in ("0", "off", "x"):
        with pytest.raises(TidemillError, match="TM217"):
            db.execute(f"SET dead_letter_rows = '{wrong}'")


def test_the_bounds_of_dead_letters_are_kept_with_the_database(tmp_path):
    (tmp_path / "in").mkdir()
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("SET dead_letter_rows = 5")
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.outlet.bounds.rows == 5
        shown = {r["name"]: r["value"] for r in db.execute("SHOW SETTINGS").to_pylist()}
        assert shown["dead_letter_rows"] == "5"
