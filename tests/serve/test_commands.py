"""The commands from outside: what they print, what they leave, how they exit."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pyarrow as pa
import pytest
from fake_db import STATUS, FakeDatabase, FakeSubscription
from typer.testing import CliRunner

import tidemill
from tests.harness import LocalDatabase
from tests.places import ROOT
from tidemill.engine import machine as machine_module
from tidemill.errors import EngineProblem
from tidemill.runtime.kernels.compiling import warm as warm_module
from tidemill.serve import demo as demo_module
from tidemill.serve import doctor as doctor_module
from tidemill.serve import opening
from tidemill.serve.cli import app
from tidemill.serve.demo_screen import Picture, screen
from tidemill.sql.parse.statements import parse

FILE = """CREATE VIEW v AS SELECT a FROM s;
SELECT STREAMED a FROM R(s);
SELECT * FROM v;
"""
EXAMPLES = ROOT / "examples"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "x.sql"
    path.write_text(FILE)
    return str(path)


def invoke(*arguments, text=None, code=0):
    result = CliRunner().invoke(app, list(arguments), input=text)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_version_and_help():
    assert invoke("--version").strip() == f"tidemill {tidemill.__version__}"
    for command in ("run", "sql", "explain", "status", "doctor", "demo"):
        assert f"tidemill {command}" in re.sub(r"\s+", " ", invoke(command, "--help"))


def test_run_answers_questions_after_the_data_is_in(db, script):
    output = invoke("run", script)
    assert [entry.split(" ")[0] for entry in db.log] == ["SHOW", "CREATE", "SELECT", "<final>", "SELECT", "<close>"]
    assert "1,200" in output and "Changes of query_1" in output and "NULL" in output


def test_run_leaves_alone_what_stands_already(db, tmp_path):
    path = tmp_path / "x.sql"
    path.write_text("CREATE VIEW Lot AS SELECT b FROM s; CREATE VIEW v AS SELECT a FROM s;")
    assert "Lot stands already" in invoke("run", str(path))
    assert db.log == ["SHOW ALL", "CREATE VIEW v AS SELECT a FROM s", "<final>", "<close>"]


def test_watch_tells_when_the_job_has_ended(db, script, monkeypatch):
    monkeypatch.setattr(db, "start", lambda: None)
    assert "TM504" in invoke("run", script, "--watch", code=1)


def test_a_temporary_database_is_announced_and_removed(db, script):
    output = invoke("run", script)
    path = re.search(r"database: (\S+)", output)[1]
    assert not Path(path).exists()


def test_settings_reach_the_database(monkeypatch, script, tmp_path):
    seen = []
    monkeypatch.setattr(opening, "connect", lambda path, **settings: seen.append((path, settings)) or FakeDatabase())
    invoke("run", script, "--db", str(tmp_path), "--shards", "4", "--clock", "1 minute")
    invoke("run", script, "--db", str(tmp_path))
    assert seen == [(str(tmp_path), {"shards": 4, "clock": "1 minute"}), (str(tmp_path), {})]


def test_run_points_at_an_error_in_the_file(db, tmp_path):
    path = tmp_path / "bad.sql"
    path.write_text("SHOW ALL;\n\n  SELECT * FROM missing; SHOW ALL; CREATE VIEW v AS SELECT a FROM s;")
    output = invoke("run", str(path), code=1)
    assert "bad.sql:3:17" in output and "3 │   SELECT * FROM missing" in output and "hint:" in output
    assert db.log[-1] == "<close>"


def test_run_refuses_a_file_before_it_executes_anything(db, tmp_path):
    path = tmp_path / "bad.sql"
    path.write_text("SHOW ALL;\nSELEC 1;")
    assert "TM105" in invoke("run", str(path), code=1)
    assert db.log == ["<close>"]


def test_watch_follows_streams_until_ctrl_c(db, script):
    output = invoke("run", script, "--watch")
    begins = [entry.split(" ")[0] for entry in db.log]
    assert begins == ["SHOW", "CREATE", "SELECT", "<start>", "<stop>", "SELECT", "<close>"]
    assert "u 2 query_1 VType=car n=2 (was 1)" in output
    assert len(db.subscriptions) == 1 and db.subscriptions[0].closed


def test_watch_follows_every_view_where_nothing_is_streamed(db, tmp_path):
    path = tmp_path / "x.sql"
    path.write_text("CREATE VIEW v AS SELECT a FROM s;")
    assert "+ 1 v" in invoke("run", str(path), "--watch")


def test_a_subscription_in_a_file_shows_what_is_there(db, tmp_path):
    path = tmp_path / "x.sql"
    path.write_text("CREATE VIEW v AS SELECT a FROM s; SUBSCRIBE v;")
    assert "+ 1 v" in invoke("run", str(path)) and db.subscriptions[0].closed


def test_a_database_in_use_is_refused(monkeypatch, script):
    def refuse(path, **settings):
        raise EngineProblem("TM601", "the directory is in use", hint="stop the other process")

    monkeypatch.setattr(opening, "connect", refuse)
    for arguments in (("run", script), ("sql",), ("explain", "SELECT 1")):
        assert "TM601" in invoke(*arguments, "--db", "somewhere", code=1)


def test_sql_from_a_pipe(db):
    output = invoke("sql", text="CREATE VIEW v AS SELECT a FROM s;\nSELECT *\nFROM v;")
    assert db.log == ["CREATE VIEW v AS SELECT a FROM s", "<run>", "SELECT *\nFROM v", "<close>"]
    assert "car" in output and "2 rows" in output


def test_sql_from_a_pipe_fails_with_a_caret(db):
    output = invoke("sql", text="SELECT * FROM missing;", code=1)
    assert "TM301" in output and "^" in output


def test_explain_a_query_in_a_database(db, tmp_path):
    assert "Filter" in invoke("explain", "SELECT a FROM v", "--db", str(tmp_path))
    assert json.loads(invoke("explain", "SELECT a FROM v", "--db", str(tmp_path), "--json")) == {"node": "Filter"}
    assert invoke("explain", "SELECT a FROM v", "--db", str(tmp_path), "--mermaid").startswith("flowchart")


def test_a_file_explains_itself_without_touching_a_database(db, script):
    invoke("explain", script)
    assert [entry.split(" ")[0] for entry in db.log] == ["CREATE", "SELECT", "EXPLAIN", "<close>"]


def test_a_file_is_explained_in_a_database_without_changing_it(db, script, tmp_path):
    invoke("explain", script, "--db", str(tmp_path))
    assert [entry.split(" ")[0] for entry in db.log] == ["<explain>", "<explain>", "<explain>", "<close>"]


def test_explain_refuses_what_is_not_there(db):
    assert "nowhere.sql" in invoke("explain", "nowhere.sql", code=2)
    assert "choose one" in invoke("explain", "SELECT 1", "--json", "--mermaid", code=2)


def test_status(monkeypatch):
    monkeypatch.setattr(opening, "stored_status", lambda path: STATUS)
    output = invoke("status", "--db", "d")
    assert "running · batch 4" in output and "1,200" in output and "56.8 kB" in output
    assert json.loads(invoke("status", "--db", "d", "--json")) == STATUS


def test_status_of_an_empty_database(monkeypatch):
    monkeypatch.setattr(opening, "stored_status", lambda path: {"running": False})
    assert "stopped · no batch yet" in invoke("status", "--db", "d")


def test_doctor_reports_and_fails_with_a_taken_port(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor_module, "check_java", lambda: doctor_module.Check("ok", "Java", "21"))
    output = invoke("doctor", "--db", str(tmp_path / "new"))
    assert "all is well" in output and "pyspark" in output and "will be made" in output
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert f"fail port {port}" in re.sub(" +", " ", invoke("doctor", "--port", str(port), code=1))


def test_doctor_looks_at_every_part_of_a_database(monkeypatch, tmp_path):
    LocalDatabase(str(tmp_path / "db")).close()
    views = tmp_path / "db" / "views.duckdb"
    views.write_bytes(views.read_bytes()[:5000])
    monkeypatch.setattr(doctor_module, "check_java", lambda: doctor_module.Check("ok", "Java", "21"))
    output = " ".join(invoke("doctor", "--db", str(tmp_path / "db"), code=1).split())
    assert "fail views.duckdb" in output and "TM607" in output and "put the whole directory back" in output


@pytest.mark.parametrize("mode, state", [(0o700, "ok"), (0o777, "warn")])
def test_doctor_warns_of_compiled_code_that_others_can_change(monkeypatch, tmp_path, mode, state):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(mode)
    monkeypatch.setattr(machine_module, "warm", lambda: warm_module.Warmth(9, 0, str(tmp_path / "kept")))
    assert doctor_module.check_kernels().state == state


def test_doctor_knows_ranges():
    ranges = doctor_module.wanted_ranges()
    assert ">=" in ranges["pyspark"] and ranges["prompt_toolkit"]
    assert doctor_module.is_inside("3.0.50", ">=3.0.50,<4") and not doctor_module.is_inside("4.0", ">=3.0.50,<4")


def test_a_check_that_breaks_is_a_failed_check():
    def broken():
        raise RuntimeError("no")

    assert doctor_module._safely(broken).state == "fail"


@pytest.fixture
def demo_db(monkeypatch):
    fake = FakeDatabase(
        LotByType=pa.table({"VType": ["car", "bus"], "vehicles": [12, 3]}),
        LotAtPolice=pa.table({"VType": ["car"], "vehicles": [9]}),
        LastFiveCount=pa.table({"vehicles": [30]}),
        HotRooms=pa.table({"RoomID": [7], "Building": ["North"], "Temperature": [91.25]}),
        HotByBuilding=pa.table({"Building": ["North"], "rooms": [1], "hottest": [91.25]}),
    )
    monkeypatch.setattr(demo_module, "connect", lambda path: fake)
    monkeypatch.setattr(demo_module, "PLAIN_EVERY", 0.01)
    return fake


def test_the_demo_prints_lines_where_there_is_no_terminal(demo_db):
    output = invoke("demo", "--seconds", "0.05")
    assert "parking_and_rooms.sql" in output and "starting Spark" in output
    assert "lot     car 12, bus 3" in output and "hot     North: 1 rooms, up to 91.2 degrees" in output
    assert "change  + 1 ParkLot" in output and demo_db.log[-1] == "<close>"


def test_the_demo_screen_shows_every_panel(demo_db, console):
    picture = Picture()
    demo_db.start()
    picture.refresh(demo_db, FakeSubscription(interrupt=False))
    console.print(screen(picture, "ctrl-C ends the demo"))
    text = console.file.getvalue()
    for part in ("Parking lot by type", "████", "Hot rooms", "91.2", "Changes of ParkLot", "micro-batch 1 (0.45 s)"):
        assert part in text


def test_a_demo_without_results_ends_with_an_error(monkeypatch):
    empty = pa.table({"a": pa.array([], pa.int64())})
    fake = FakeDatabase(SELECT=empty)
    monkeypatch.setattr(demo_module, "connect", lambda path: fake)
    assert demo_module.wait_for_results.__defaults__ == (demo_module.PATIENCE,)
    monkeypatch.setattr(demo_module.wait_for_results, "__defaults__", (0.0,))
    assert "TM502" in invoke("demo", "--seconds", "1", code=1) and fake.log[-1] == "<close>"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.sql")), ids=lambda path: path.name)
def test_the_examples_are_statements(path):
    assert parse(path.read_text())


def test_skip_speaks_of_the_source_and_makes_no_directory(tmp_path, monkeypatch):
    """tidemill skip Orders --db misspelled: made a database, and said that it has no source."""
    missing = tmp_path / "misspelled"
    assert "TM622" in invoke("skip", "Orders", "--db", str(missing), code=1)
    assert not missing.exists()
    monkeypatch.setattr(opening, "connect", LocalDatabase)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute('REGISTER SOURCE "Or""ders" (k INTEGER) FROM GENERATE (rows = 1)')
    assert "TM301" in invoke("skip", "Orders", "--db", str(tmp_path / "db"), code=1)
    assert "TM512" in invoke("skip", 'Or"ders', "--db", str(tmp_path / "db"), code=1)
