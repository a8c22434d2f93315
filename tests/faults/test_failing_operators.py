"""A failing operator stops its own views and what reads them; the others go on as if nothing had happened."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.evaluation import evaluate
from tidemill.runtime.operators.grouping.group import GroupBy
from tidemill.runtime.paths import load_plan
from tidemill.runtime.share.reader.branch import Branch
from tidemill.runtime.stage import ports
from tidemill.runtime.stage.stage import Stage
from tidemill.runtime.thresholds import changed
from tidemill.runtime.views.pools import Pools

SOURCE = """
    REGISTER SOURCE S (k INTEGER, v INTEGER, at BIGINT) FROM FILES '{data}/*.json'
    WITH (timestamp = 'at', batch_rows = 40);
    CREATE TAGGED STREAM T OVER S;
"""
VIEWS = """
    CREATE STREAMED VIEW Plain AS SELECT k, v FROM T WHERE v % 2 = 0;
    CREATE VIEW Sums AS SELECT k, sum(v) AS s FROM T GROUP BY k;
    CREATE VIEW Counts AS SELECT s, count(*) AS n FROM Sums GROUP BY s;
    CREATE VIEW Windows AS SELECT k, count(*) AS n FROM T [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k;
    CREATE VIEW Pairs AS SELECT A.k, A.v, B.v AS w FROM T [WINDOW 5 SECONDS] AS A, T [WINDOW 5 SECONDS] AS B
      WHERE A.k = B.k AND A.v < B.v;
"""
NAMES = ("Plain", "Sums", "Counts", "Windows", "Pairs")


def write(data: Path, rows: int = 200) -> None:
    data.mkdir(exist_ok=True)
    lines = [json.dumps({"k": i % 7, "v": i, "at": i // 4}) for i in range(rows)]
    (data / "rows.json").write_text("\n".join(lines) + "\n")


def answers(db: Any, names: tuple[str, ...] = NAMES) -> dict[str, list[Any]]:
    found = {n: db.query(f"SELECT * FROM {n} ORDER BY ALL").to_pylist() for n in names if n != "Plain"}
    return found | ({"Plain": db.changes("Plain").to_pylist()} if "Plain" in names else {})


@pytest.fixture
def wanted(tmp_path) -> dict[str, list[Any]]:
    write(tmp_path / "in")
    with LocalDatabase(str(tmp_path / "calm")) as db:
        db.execute(SOURCE.format(data=tmp_path / "in") + VIEWS)
        db.run()
        return answers(db)


@pytest.fixture
def db(tmp_path, wanted):
    with LocalDatabase(str(tmp_path / "db")) as found:
        found.execute(SOURCE.format(data=tmp_path / "in") + VIEWS)
        yield found


def stopped(db: Any) -> dict[str, str]:
    return {v["name"]: v["stopped"] for v in db.status()["views"] if v["stopped"]}


def fail_after(monkeypatch, owner: Any, method: str, times: int, guilty=lambda *a: True, error: Any = None) -> None:
    """The method fails from its call number `times` on, for the guilty."""
    before, calls = getattr(owner, method), [0]

    def failing(self, *args):
        if guilty(self, *args):
            calls[0] += 1
            if calls[0] > times:
                raise error or ZeroDivisionError("of a thousand things")
        return before(self, *args)

    monkeypatch.setattr(owner, method, failing)


@pytest.mark.parametrize("times", [0, 3, 7])
def test_an_operator_of_a_shard_that_fails_stops_its_views_only(db, wanted, monkeypatch, times):
    """A batch that fails for certain: an operator in a shard raises. Its own views stop, with the reason in status."""
    fail_after(monkeypatch, GroupBy, "step", times)
    db.run()
    assert set(stopped(db)) == {"Sums", "Counts"} and "a thousand things" in stopped(db)["Sums"]
    rest = ("Plain", "Windows", "Pairs")
    assert answers(db, rest) == {n: wanted[n] for n in rest}
    shown = dict(zip(*(db.execute("SHOW VIEWS").column(c).to_pylist() for c in ("name", "detail")), strict=True))
    assert shown["Sums"].startswith("stopped: ") and not shown["Pairs"].startswith("stopped")


def test_an_operator_of_a_reader_that_fails_stops_its_views_only(db, wanted, monkeypatch):
    """A filter that raises in the reader, and cannot be put down to a row."""
    for name in ("run", "run_put_aside"):
        before = getattr(evaluate.duck, name)  # type: ignore[attr-defined]

        def failing(sql: str, *args: Any, before=before, **feeds: Any) -> pa.Table:
            if "% 2" in sql:
                raise RuntimeError("no single row is to blame")
            return before(sql, *args, **feeds)

        monkeypatch.setattr(evaluate.duck, name, failing)  # type: ignore[attr-defined]
    db.run()
    assert stopped(db) == {"Plain": "RuntimeError: no single row is to blame"}
    rest = NAMES[1:]
    assert answers(db, rest) == {n: wanted[n] for n in rest}


def test_hash_tables_that_fail_stop_the_windows_only(db, wanted, monkeypatch):
    fail_after(monkeypatch, Branch, "push", 2)
    db.run()
    assert set(stopped(db)) == {"Windows"}
    rest = ("Plain", "Sums", "Counts", "Pairs")
    assert answers(db, rest) == {n: wanted[n] for n in rest}


def test_a_view_that_cannot_be_stored_stops_alone(db, wanted, monkeypatch):
    """A view whose expression raises for one row in the outlet."""
    fail_after(monkeypatch, Pools, "store", 1, lambda _, changes, *a: "Sums" in {v.name for v in changes.views})
    db.run()
    assert set(stopped(db)) == {"Sums"}
    rest = ("Plain", "Counts", "Windows", "Pairs")
    assert answers(db, rest) == {n: wanted[n] for n in rest}


@pytest.mark.parametrize("alone", [0, 1 << 30], ids=["each view alone", "views together"])
@pytest.mark.parametrize("which", [0, 1])
def test_rows_of_one_shard_that_do_not_fit_stop_their_views_only(db, wanted, monkeypatch, alone, which):
    """One shard sent a column of another type: an Arrow error in the outlet ended the job."""
    before = Stage._pack_blocks
    more = "CREATE VIEW Others AS SELECT k, sum(v) AS s FROM T WHERE v > 3 GROUP BY k"  # a view of the same kind
    db.execute(more)
    gate = next(o.op for o in plan_of(db).outputs if o.view == db.workload.views["sums"].entry.id)

    def damaged(self, rows, failed):
        if self.shard == self.plan.shards[which]:
            rows = [
                (g, t.set_column(t.schema.get_field_index("s"), "s", pa.array(["?"] * t.num_rows)))
                if g == gate
                else (g, t)
                for g, t in rows
            ]
        return before(self, rows, failed)

    monkeypatch.setattr(Stage, "_pack_blocks", damaged)
    with changed(alone_rows=alone):
        db.run()
    # Arrow says so where numbers come first, the view store where texts do.
    assert set(stopped(db)) == {"Sums"} and re.search("Arrow|Conversion", stopped(db)["Sums"])
    rest = ("Plain", "Counts", "Windows", "Pairs")
    assert answers(db, rest) == {n: wanted[n] for n in rest}
    assert db.query("SELECT sum(s) AS s FROM Others").to_pylist() == [{"s": sum(range(4, 200))}]


def test_rows_of_one_reader_that_do_not_fit_stop_their_views_only(db, wanted, monkeypatch):
    """The same on the way into a shard."""
    before = ports._same

    def failing(tables):
        if "k" in tables[0].column_names and any("s" in c or "__n" in c for c in tables[0].column_names):
            raise pa.ArrowInvalid("Integer value out of bounds")
        return before(tables)

    monkeypatch.setattr(ports, "_same", failing)
    db.run()
    found = stopped(db)
    assert found and all("ArrowInvalid" in reason for reason in found.values())
    rest = tuple(n for n in NAMES if n not in found)
    assert "Plain" in rest and answers(db, rest) == {n: wanted[n] for n in rest}


def plan_of(db: Any) -> Any:
    db.runner.publisher.publish()
    return load_plan(db.paths.plan(db.catalog.version))


def test_a_replay_agrees_about_what_stopped(db, wanted, monkeypatch):
    """A crash between the outlet's commit and Spark's: the replay does not fail, and the view stays stopped."""
    fail_after(monkeypatch, GroupBy, "step", 0)
    db.warm()
    db.runner.publisher.publish(mode="finite", run=1)
    end = db.plan()
    _, out = db.compute(end)
    db.outlet.apply(db.batch, out)
    monkeypatch.undo()
    db.reopen_outlet()
    assert {"Sums", "Counts"} <= {v.name for v in db.outlet.views.values() if v.id in db.outlet.stopped}
    db.finish(end)
    db.run()
    assert {"Sums", "Counts"} <= set(stopped(db))
    assert answers(db, ("Plain", "Windows")) == {n: wanted[n] for n in ("Plain", "Windows")}


def test_a_stopped_view_begins_anew(db, tmp_path, monkeypatch):
    """A failed view can be started anew."""
    fail_after(monkeypatch, GroupBy, "step", 0)
    db.run()
    monkeypatch.undo()
    with pytest.raises(TidemillError, match="TM509"):
        db.execute("CREATE VIEW More AS SELECT s FROM Sums")
    with pytest.raises(TidemillError, match="TM508"):
        db.subscribe("Counts").next(5.0)
    with pytest.raises(TidemillError, match="TM509"):
        db.execute("RESTART VIEW Plain")
    db.execute("RESTART VIEW Counts")
    assert "Sums" not in stopped(db) and "Counts" not in stopped(db)
    lines = [json.dumps({"k": 1, "v": 5, "at": 900 + i}) for i in range(9)]
    (tmp_path / "in" / "z.json").write_text("\n".join(lines) + "\n")
    db.run()
    assert stopped(db) == {}
    assert db.query("SELECT * FROM Sums").to_pylist() == [{"k": 1, "s": 45}]
    assert db.query("SELECT * FROM Counts").to_pylist() == [{"s": 45, "n": 1}]


def test_a_stopped_view_is_stopped_after_reopening(tmp_path, wanted, monkeypatch):
    write(tmp_path / "in")
    path = str(tmp_path / "again")
    fail_after(monkeypatch, GroupBy, "step", 0)
    with LocalDatabase(path) as db:
        db.execute(SOURCE.format(data=tmp_path / "in") + VIEWS)
        db.run()
        offset, blobs, batch = db.offset, db.blobs, db.batch
    monkeypatch.undo()
    with LocalDatabase(path) as db:
        db.offset, db.blobs, db.batch = offset, blobs, batch
        assert "Sums" in stopped(db)
        db.run()
        assert "Sums" in stopped(db) and answers(db, ("Plain",)) == {"Plain": wanted["Plain"]}
        db.execute("DROP VIEW Sums CASCADE")
        assert "Sums" not in stopped(db)
        assert db.outlet.committed >= 0


def test_a_sink_that_cannot_write_holds_nobody_up_and_loses_nothing(db, tmp_path, wanted):
    """A sink that cannot write: its directory is removed and something else is in its place."""
    out = tmp_path / "out"
    db.execute(f"CREATE SINK F FROM Plain TO FILES '{out}'; CREATE SINK J FROM Sums TO FILES '{tmp_path}/sums'")
    db.start()
    db.step()
    before = sorted(p.name for p in out.iterdir())
    shutil.move(out, tmp_path / "elsewhere")
    out.write_text("in the way")
    while db.step():
        pass
    sink = next(s for s in db.status()["sinks"] if s["name"] == "F")
    assert sink["undelivered"] >= 1 and sink["problem"]
    assert stopped(db) == {}
    out.unlink()
    shutil.move(tmp_path / "elsewhere", out)
    db.stop()
    lines = [json.dumps({"k": 1, "v": 4, "at": 901})]
    (tmp_path / "in" / "z.json").write_text("\n".join(lines) + "\n")
    db.run()
    sink = next(s for s in db.status()["sinks"] if s["name"] == "F")
    assert sink == {"name": "F", "undelivered": 0, "problem": None}
    rows = [r for p in sorted(out.glob("changes-*.parquet")) for r in pq.read_table(p).to_pylist()]
    assert rows == db.changes("Plain").to_pylist() and len(before) < len(list(out.iterdir()))
