"""Names of sources, streams, views, sinks and columns: each is refused when it is said, or it works; none is a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.views.store import ViewStore

NAMES = (
    "../../evil",
    "/evil",
    "..",
    ".",
    "a/b",
    "a\x00b",
    "",
    "x" * 300,
    "é" * 200,
    "a'b",
    'a"b',
    "a\nb",
    "%s",
    "{x}",
    "__meta",
    "dead_letters",
    "contents v1",
    "main",
    "\u202eab",
    "a#b",
    "a\\b",
    "input 0",
    "sqlite_master",
    "a;b",
    "--",
    "NOW",
    "TS",
    " ",
    "__time",
    "__diff",
    "__ts",
    "__seq",
    "__arrival",
    "TAG",
    "OLD",
    "rowid",
    "__n",
    "__v",
    "feed",
    "NULL",
    "__enter",
    "__out",
    "e0",
)
SOURCE = "REGISTER SOURCE S (k INTEGER, at BIGINT) FROM FILES '{data}/*.csv' WITH (timestamp = 'at', header = false);"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def data(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("".join(f"{i},{i}\n" for i in range(5)))
    return tmp_path / "in"


def works_or_is_refused(tmp_path: Path, text: str, view: str) -> None:
    where = tmp_path / "deep" / "er" / "db"
    where.parent.mkdir(parents=True)
    try:
        with LocalDatabase(str(where), cores=1) as db:
            db.execute(text)
            db.run()
            assert not [v for v in db.status()["views"] if v["stopped"]]
            assert db.query(f"SELECT count(*) AS n FROM {view}").to_pylist() == [{"n": 5}]
    except TidemillError as error:
        assert error.code not in ("TM504", "TM624") and error.hint, error
    with LocalDatabase(str(where), cores=1) as db:  # and it can be opened again
        db.status()
    assert sorted(os.listdir(tmp_path)) == ["deep", "in"] and os.listdir(tmp_path / "deep") == ["er"]
    assert set(os.listdir(tmp_path / "deep" / "er")) <= {"db", "out"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_path_and_stops_nothing(tmp_path, data, name):
    """REGISTER SOURCE "../../evil": its spool was outside of the database."""
    works_or_is_refused(
        tmp_path,
        f"""
        {SOURCE.format(data=data).replace(" S (", f" {quoted(name)} (", 1)}
        CREATE TAGGED STREAM {quoted(name + "t")} OVER {quoted(name)};
        CREATE VIEW {quoted(name + "v")} AS SELECT k, at FROM {quoted(name + "t")};
        CREATE STREAMED VIEW {quoted(name + "w")} AS SELECT k, count(*) AS n FROM {quoted(name + "v")} GROUP BY k;
        CREATE SINK {quoted(name + "s")} FROM {quoted(name + "w")} TO FILES '{tmp_path}/deep/er/out';
    """,
        quoted(name + "v"),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_column_may_have_any_name_that_is_accepted(tmp_path, data, name):
    """SELECT k AS "": a raw error of DuckDB, and every later statement of the process failed as well."""
    column = quoted(name)
    works_or_is_refused(
        tmp_path,
        f"""
        {SOURCE.format(data=data)}
        CREATE TAGGED STREAM T OVER S;
        CREATE VIEW V AS SELECT k AS {column} FROM T;
        CREATE STREAMED VIEW W AS SELECT {column}, count(*) AS c FROM V GROUP BY {column};
        CREATE VIEW X AS SELECT k, count(*) AS {column} FROM T [RANGE 4 SLIDE 2] GROUP BY k;
        CREATE SINK J FROM W TO FILES '{tmp_path}/deep/er/out' WITH (format = 'json');
    """,
        "V",
    )


def test_a_view_whose_tables_cannot_be_made_is_not_there(tmp_path, data, monkeypatch):
    """CREATE VIEW on a full disk: the view was there in memory, and every later statement tried again and failed."""
    before = ViewStore.create

    def full(self: ViewStore, *views: Any, **more: Any) -> dict[str, str]:
        if any(v.name == "Lost" for v in views):
            raise duckdb.IOException("IO Error: No space left on device")
        return before(self, *views, **more)

    monkeypatch.setattr(ViewStore, "create", full)
    with LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(SOURCE.format(data=data) + "CREATE TAGGED STREAM T OVER S; CREATE VIEW Fine AS SELECT k FROM T")
        with pytest.raises(TidemillError, match="TM624"):
            db.execute(f"""CREATE VIEW Lost AS SELECT k FROM T; CREATE VIEW Above AS SELECT k FROM Lost;
                           CREATE SINK F FROM Lost TO FILES '{tmp_path}/out'""")
        assert db.execute("SHOW VIEWS").column("name").to_pylist() == ["Fine"]
        db.execute("CREATE VIEW Later AS SELECT k FROM T")
        db.run()
        assert db.query("SELECT count(*) AS n FROM Later").to_pylist() == [{"n": 5}]


@pytest.mark.parametrize("path", ["", "/state", "/plans/x", "/../db/sealed", "/checkpoint/offsets", "link"])
def test_a_sink_does_not_write_among_the_files_of_the_database(tmp_path, data, path):
    """CREATE SINK … TO FILES 'db/sealed': what the database does not know there is removed as left over."""
    target = f"{tmp_path}/db{path}"
    if path == "link":
        os.symlink(tmp_path / "db", tmp_path / "link")
        target = f"{tmp_path}/link/out"
    with LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(SOURCE.format(data=data) + "CREATE TAGGED STREAM T OVER S; CREATE VIEW V AS SELECT k FROM T")
        with pytest.raises(TidemillError, match="TM626"):
            db.execute(f"CREATE SINK F FROM V TO FILES '{target}'")
        db.execute(f"CREATE SINK F FROM V TO FILES '{tmp_path}/db2'")
