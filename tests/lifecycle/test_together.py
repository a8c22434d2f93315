"""Definitions that come in one text are kept, and installed where the job runs, as one change."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle
from tidemill.engine import state
from tidemill.errors import TidemillError

MANY = ";".join(f"CREATE VIEW V{i} AS SELECT k, v FROM K WHERE v > {i}" for i in range(20))


@pytest.fixture
def written(db, monkeypatch) -> list[str]:
    """The catalogs that are written."""
    paths: list[str] = []
    plain = state.write_json  # type: ignore[attr-defined]
    monkeypatch.setattr(state, "write_json", lambda path, data: (paths.append(path), plain(path, data))[1])
    return paths


def shown(db, name: str) -> list[tuple]:
    return sorted((r["k"], r["v"]) for r in db.query(f"SELECT k, v FROM {name}").to_pylist())


def test_many_views_are_one_catalog(db, feed, written):
    db.execute(MANY)
    assert written.count(db.paths.catalog) == 1
    assert len(db.workload.views) == 20


def test_many_views_are_one_plan_of_a_running_job(db, feed):
    db.start()
    feed.send("<a,1>1 <b,30>2")
    settle(db)
    before = db.catalog.version
    db.execute(MANY + "; CREATE VIEW W AS SELECT k, v FROM V3 WHERE v < 9; DROP VIEW V7")
    assert db.catalog.version == before + 1
    feed.send("<c,5>3 <d,40>4 <z,0>9")
    settle(db)
    assert shown(db, "V3") == [("b", 30), ("c", 5), ("d", 40)]
    assert shown(db, "W") == [("c", 5)]
    assert "v7" not in db.workload.views


def test_a_query_between_two_definitions_sees_the_first(db, feed):
    db.start()
    feed.send("<a,1>1 <b,30>2 <z,0>9")
    settle(db)
    version = db.catalog.version
    db.execute("CREATE VIEW V AS SELECT k, v FROM K; SHOW VIEWS; CREATE VIEW W AS SELECT k, v FROM K")
    assert db.catalog.version == version + 2


def test_what_stands_before_a_statement_that_fails_stays(db, feed, tmp_path):
    with pytest.raises(TidemillError, match="TM301"):
        db.execute("CREATE VIEW V AS SELECT k, v FROM K; CREATE VIEW W AS SELECT k FROM Nowhere")
    path = db.paths.root
    db.close()
    with LocalDatabase(path) as again:
        assert list(again.workload.views) == ["v"]
