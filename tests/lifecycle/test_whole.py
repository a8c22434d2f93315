"""A directory whose parts do not belong together is refused; what a crash leaves behind is not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import zlib
from pathlib import Path

import duckdb
import pytest

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.lifecycle.sample import begin
from tests.paper.notation import Feed, raw, rows_of, write
from tidemill.engine.directory.examine import examine
from tidemill.errors import TidemillError
from tidemill.runtime.answer_files.index import AnswerFiles
from tidemill.runtime.checkpoint.offsets import offset_sum

SETUP = """
    CREATE TAGGED STREAM S OVER Raw;
    CREATE STREAMED VIEW V AS SELECT k, v FROM S WHERE v > 1;
    CREATE VIEW G AS SELECT k, count(*) AS n, sum(v) AS s FROM S GROUP BY k;
    CREATE VIEW GG AS SELECT n, count(*) AS m FROM G GROUP BY n;
"""
CHUNKS = ["<a,1>1 <b,2>2", "<a,3>3 <c,4>5", "<b,0>6 <d,9>7"]
ANSWER = "SELECT * FROM GG ORDER BY n"


def opened(folder: Path) -> CheckpointedDatabase:
    return CheckpointedDatabase(str(folder / "db"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A database that has run twice, closed; and a copy of it from before the second run."""
    with opened(tmp_path) as db:
        feed = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send(CHUNKS[0])
        db.execute(SETUP)
        db.run()
    shutil.copytree(tmp_path / "db", tmp_path / "older")
    feed.send(CHUNKS[1])
    with opened(tmp_path) as db:
        db.execute("CREATE VIEW H AS SELECT v FROM S")
        db.run()
    return tmp_path


def refused(place: Path) -> TidemillError:
    with pytest.raises(TidemillError) as caught, opened(place) as db:
        db.run()
    assert caught.value.hint and caught.value.detail
    return caught.value


def take(place: Path, name: str) -> None:
    path = place / "db" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def put_back(place: Path, name: str, origin: str = "older") -> None:
    take(place, name)
    path = place / origin / name
    (shutil.copytree if path.is_dir() else shutil.copy)(path, place / "db" / name)


def test_nothing_is_wrong_with_it(place):
    with opened(place) as db:
        db.run()
        assert rows_of(db, ANSWER) == [(1, 2), (2, 1)]


@pytest.mark.parametrize("name", ["checkpoint", "views.duckdb", "catalog.json", "sources", "format.json", "feedback"])
def test_a_part_that_was_removed_is_missed(place, name):
    """With checkpoint/ removed, or views.duckdb removed, a run goes on and shows wrong counts."""
    take(place, name)
    problem = refused(place)
    assert problem.code in ("TM606", "TM609") and name in problem.message
    assert refused(place).message == problem.message, "looking at it has changed it"


@pytest.mark.parametrize("name", ["checkpoint", "views.duckdb", "catalog.json", "feedback"])
def test_a_part_from_an_older_copy_is_refused(place, name):
    put_back(place, name)
    assert refused(place).code in ("TM606", "TM609")


@pytest.mark.parametrize(
    "name", ["checkpoint", "views.duckdb", "catalog.json", "feedback", "sources", "plans", "format.json"]
)
def test_a_part_of_another_database_is_refused(place, name):
    other = place / "other"
    with CheckpointedDatabase(str(other / "db")) as db:
        Feed(db, other, "Raw", "k VARCHAR, v INTEGER").send(CHUNKS[0]).send(CHUNKS[1])
        db.execute(SETUP)
        db.run()
        db.execute("CREATE VIEW H AS SELECT v FROM S")
        db.run()
    put_back(place, name, "other/db")
    if name == "plans":  # a plan that no batch waits for is made anew
        with opened(place) as db:
            db.run()
            assert rows_of(db, ANSWER) == [(1, 2), (2, 1)]
    else:
        assert refused(place).code in ("TM606", "TM608", "TM609")


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def with_table(folder: Path, labels: list[str]) -> None:
    """A database with a view over a static table, and a port; closed after a run."""
    folder.mkdir()
    write(folder / "t.json", ["k", "label"], [("a", label) for label in labels])
    with opened(folder) as db:
        feed = Feed(db, folder, "Raw", "k VARCHAR, v INTEGER")
        db.execute(f"""REGISTER TABLE T (k VARCHAR, label VARCHAR) FROM FILES '{folder}/t.json';
                       REGISTER SOURCE P (v INTEGER) FROM PORT {unused_port()}; CREATE TAGGED STREAM PS OVER P;
                       CREATE TAGGED STREAM S OVER Raw; CREATE VIEW N AS SELECT v FROM PS;
                       CREATE VIEW J AS SELECT T.label, S.v FROM S JOIN T ON S.k = T.k""")
        feed.send(CHUNKS[0])
        db.run()


@pytest.mark.parametrize("name", ["sources/T@*/files.jsonl", "sources/Raw/files.jsonl", "sources/P/head"])
def test_one_file_of_a_source_of_another_database_is_refused(tmp_path, name):
    """files.jsonl of a table, taken from another database: a later view joined the other table."""
    for one in ("mine", "other"):
        with_table(tmp_path / one, [one])
    [mine], [other] = ((tmp_path / one / "db").glob(name) for one in ("mine", "other"))
    shutil.copy(other, mine)
    write(tmp_path / "mine" / "Raw" / "000002.json", ["k", "v", "at"], raw(CHUNKS[1]))
    problem = refused(tmp_path / "mine")
    assert problem.code == "TM608" and str(mine) in problem.message
    assert any(str(mine) in detail for detail in failures(tmp_path / "mine").values())


def test_the_list_of_files_of_another_source_is_refused(tmp_path):
    with_table(tmp_path / "mine", ["x"])
    sources = tmp_path / "mine" / "db" / "sources"
    [table] = sources.glob("T@*/files.jsonl")
    shutil.copy(table, sources / "Raw" / "files.jsonl")
    problem = refused(tmp_path / "mine")
    assert problem.code == "TM607" and "Raw/files.jsonl" in problem.message


def test_a_plan_that_is_lost_takes_nothing_with_it(tmp_path):
    """What only the lost plan named, the folder of a table, was swept as if it were not needed."""
    with_table(tmp_path / "mine", ["x"])
    root = tmp_path / "mine" / "db"
    shutil.rmtree(root / "plans")
    write(tmp_path / "mine" / "Raw" / "000002.json", ["k", "v", "at"], raw("<a,3>3"))
    with opened(tmp_path / "mine") as db:
        assert list(root.glob("sources/T@*/files.jsonl"))
        db.run()
        assert rows_of(db, "SELECT * FROM J ORDER BY v") == [("x", 1), ("x", 3)]


@pytest.mark.parametrize(
    "name, named",
    [
        ("checkpoint/offsets/3", "checkpoint/offsets/3"),
        ("checkpoint/tidemill.json", "checkpoint/tidemill.json"),
        ("checkpoint/metadata", "checkpoint/metadata"),
        ("checkpoint/state", "checkpoint/state"),
    ],
)
def test_one_file_of_the_checkpoint_that_was_removed_is_named(place, name, named):
    take(place, name)
    assert named in refused(place).message


@pytest.mark.parametrize("name", ["control.json", "progress.json", "plans", "status.json"])
def test_what_is_known_elsewhere_is_written_anew(place, name):
    """control.json removed: run() hung."""
    take(place, name)
    with opened(place) as db:
        write(place / "Raw" / "000003.json", ["k", "v", "at"], raw(CHUNKS[2]))
        db.run()
        assert rows_of(db, ANSWER) == [(1, 2), (2, 2)]


def test_control_that_is_removed_under_a_job_is_written_by_the_next_start(place):
    with opened(place) as db:
        db.start()
        take(place, "control.json")
        with pytest.raises(TidemillError, match="TM606") as caught:
            db.step()
        assert "start()" in (caught.value.hint or "")
        db.stop()
        write(place / "Raw" / "000003.json", ["k", "v", "at"], raw(CHUNKS[2]))
        db.run()
        assert rows_of(db, ANSWER) == [(1, 2), (2, 2)]


@pytest.mark.parametrize("name", ["catalog.json", "views.duckdb", "format.json", "checkpoint/metadata"])
@pytest.mark.parametrize("cut", [0, 40, -10])
def test_a_file_that_was_cut_is_named(place, name, cut):
    path = place / "db" / name
    os.truncate(path, cut if cut >= 0 else path.stat().st_size + cut)
    problem = refused(place)
    assert problem.code == "TM607" and name in problem.message


def test_a_commit_that_was_cut_is_named(place):
    path = place / "db" / "checkpoint" / "commits" / "3"
    os.truncate(path, 4)
    problem = refused(place)
    assert problem.code == "TM607" and "checkpoint/commits/3" in problem.message


def test_one_digit_of_the_catalog_cannot_change_unseen(place):
    path = place / "db" / "catalog.json"
    path.write_bytes(path.read_bytes().replace(b'"unit_us": 1000000', b'"unit_us": 1000001'))
    assert refused(place).code == "TM607"


def test_a_database_of_the_first_format_is_brought_up(place):
    """Its parts have no id and no checksum; the folder of a source has the name of the source."""
    as_format_1(place / "db")
    with opened(place) as db:
        write(place / "Raw" / "000003.json", ["k", "v", "at"], raw(CHUNKS[2]))
        db.run()
        assert rows_of(db, ANSWER) == [(1, 2), (2, 2)]
    with opened(place) as db:
        assert rows_of(db, ANSWER) == [(1, 2), (2, 2)]
    assert json.loads((place / "db" / "format.json").read_text())["format"] == 2


def test_a_database_whose_batches_have_no_number_goes_on(place):
    without_batches(place / "db")
    for chunk, wanted in ((CHUNKS[2], [(1, 2), (2, 2)]), ("<a,1>9", [(1, 2), (2, 1), (3, 1)])):
        with opened(place) as db:
            write(place / "Raw" / f"{chunk[1]}.json", ["k", "v", "at"], raw(chunk))
            db.run()
            assert rows_of(db, ANSWER) == wanted
    last = max((place / "db" / "checkpoint" / "offsets").iterdir(), key=lambda p: int(p.name))
    assert json.loads(last.read_text().splitlines()[-1])["batch"] == int(last.name)


@pytest.mark.parametrize("log", ["offsets", "state/2"])
def test_an_older_file_of_the_checkpoint_is_refused(place, log):
    """offsets/3 replaced by a copy of offsets/0 gave wrong answers, and so did the state of an older batch."""
    log = next(iter(sorted((place / "db" / "checkpoint").glob(log.replace("2", "*")))))
    first, last = (log / str(f({int(p.name) for p in log.iterdir()})) for f in (min, max))
    shutil.copy(first, last)
    write(place / "Raw" / "000003.json", ["k", "v", "at"], raw(CHUNKS[2]))
    problem = refused(place)
    assert problem.code == "TM609" and ("offsets/" + last.name if log.name == "offsets" else "state") in problem.message


def as_format_1(root: Path) -> None:
    """Take out what the first format did not have."""

    def rewrite(path: Path, change) -> None:
        data = json.loads(path.read_text())
        data.pop("__sum"), data.pop("database")
        path.write_text(json.dumps(change(data) or data))

    rewrite(root / "format.json", lambda d: {"format": 1, "tidemill": "0.1.0"})
    rewrite(root / "catalog.json", lambda d: None)
    rewrite(root / "control.json", lambda d: {**{k: v for k, v in d.items() if k != "sources"}, "dropped": []})
    rewrite(root / "progress.json", lambda d: d["sources"])
    for path in root.glob("plans/*.json"):
        rewrite(path, lambda d: None)
    for path in root.glob("feedback/*.json"):
        rewrite(path, lambda d: {**{k: v for k, v in d.items() if k != "batch"}, "rows": bool(d["rows"])})
    without_batches(root, checksums=False)
    for path in root.glob("sources/*/files.jsonl"):
        path.write_text("".join(line.split("\t")[0] + "\n" for line in path.read_text().splitlines()[1:]))
    for path in [*root.glob("sources/*/source.json"), root / "checkpoint" / "tidemill.json"]:
        path.unlink()
    with duckdb.connect(str(root / "views.duckdb")) as duck:
        duck.execute("DELETE FROM __meta WHERE name IN ('database', 'plan', 'final', 'state_files', 'progress')")


def without_batches(root: Path, checksums: bool = True) -> None:
    """Offsets and the state of shards did not say of which batch they are."""
    for path in root.glob("checkpoint/offsets/*"):
        *head, line = path.read_text().splitlines()
        offset = {k: v for k, v in json.loads(line).items() if k not in ("batch", "database", "sum")}
        signed = {**offset, "sum": offset_sum(offset)} if checksums else offset
        path.write_text("\n".join([*head, json.dumps(signed)]))
    for path in root.glob("checkpoint/state/*/*"):
        blob = path.read_bytes()[12:]
        (size,) = struct.unpack_from("<I", blob)
        manifest = json.loads(blob[4 : 4 + size])
        del manifest["origin"]
        short = json.dumps(manifest).encode()
        blob = struct.pack("<I", len(short)) + short + blob[4 + size :]
        path.write_bytes((b"tidemill" + struct.pack("<I", zlib.crc32(blob)) if checksums else b"") + blob)
    with duckdb.connect(str(root / "views.duckdb")) as duck:
        duck.execute("DELETE FROM __meta WHERE name IN ('offset', 'catalog')")


# ---- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../evil", "..", ".", "/etc/evil", "a/b", "a\\b", "ü" * 128, "ünïcode", " ", "~a"])
def test_the_name_of_a_source_is_never_a_path(tmp_path, name):
    """A source named "../../evil" put its spool outside of the database."""
    (tmp_path / "in").mkdir()
    with opened(tmp_path) as db:
        db.execute(f"""REGISTER SOURCE "{name}" (v INTEGER) FROM FILES '{tmp_path}/in/*.json';
                       CREATE TAGGED STREAM T OVER "{name}"; CREATE VIEW V AS SELECT v FROM T""")
        (tmp_path / "in" / "1.json").write_text('{"v": 7}\n')
        db.run()
        assert rows_of(db, "SELECT v FROM V") == [(7,)]
    assert {p.name for p in tmp_path.iterdir()} == {"db", "in"}
    [folder] = (tmp_path / "db" / "sources").iterdir()
    assert {p.name for p in folder.iterdir()} == {"source.json", "files.jsonl"}


# ---- doctor ------------------------------------------------------------------------------------


def failures(place: Path) -> dict[str, str]:
    return {one.part: one.detail for one in examine(str(place / "db")) if one.state == "fail"}


def test_the_doctor_finds_nothing_in_a_database_that_is_whole(place):
    assert failures(place) == {}
    assert {one.part for one in examine(str(place / "db"))} >= {"views.duckdb", "checkpoint", "together"}


@pytest.mark.parametrize("name", ["views.duckdb", "catalog.json", "format.json", "checkpoint", "feedback", "sources"])
def test_the_doctor_finds_every_part_that_is_missing(place, name):
    take(place, name)
    found = failures(place)
    assert found and any(name in detail for detail in found.values())


@pytest.mark.parametrize("name", ["views.duckdb", "catalog.json", "plans", "feedback", "checkpoint/offsets"])
def test_the_doctor_finds_every_part_that_was_cut(place, name):
    """doctor --db says all is well on a truncated views.duckdb."""
    path = place / "db" / name
    path = max(path.iterdir()) if path.is_dir() else path
    os.truncate(path, path.stat().st_size // 2)
    before = {p: p.stat().st_mtime_ns for p in (place / "db").rglob("*")}
    assert any(path.name in detail for detail in failures(place).values())
    assert before == {p: p.stat().st_mtime_ns for p in (place / "db").rglob("*")}, "it only looks"


def test_the_doctor_knows_how_far_a_source_was_read(place):
    """A list of files that was cut between two lines looks whole, and a run refuses it."""
    path = place / "db" / "sources" / "Raw" / "files.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert "files.jsonl" in refused(place).message
    assert "files.jsonl" in failures(place)["sources"]


def test_the_doctor_survives_views_that_only_some_can_read(place, monkeypatch):
    """A views.duckdb that opens, and whose list of sealed files cannot be read: doctor ended in DuckDB's traceback."""

    def noted(*_: object) -> None:
        raise duckdb.IOException('IO Error: Could not read enough bytes from file "views.duckdb"')

    (place / "db" / "sealed").mkdir(exist_ok=True)
    monkeypatch.setattr(AnswerFiles, "list_files", noted)
    assert "TM607" in failures(place)["sealed"]


def test_the_doctor_leaves_an_open_database_alone(place):
    with opened(place):
        assert [one.state for one in examine(str(place / "db"))] == ["warn"]


def test_the_doctor_counts_the_segments(tmp_path):
    begin(tmp_path / "place")
    for segment in (tmp_path / "place" / "db" / "state").glob("*/*.arrow"):  # some are of an end that is shown for now
        segment.unlink()
    assert "segments" in failures(tmp_path / "place")["state"]
