"""What leaves the database: subscriptions, sinks, retained changes; and what a replayed batch does to them."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest

from tests.lifecycle.pace import settle
from tests.paper.notation import Feed, rows_of, tagged
from tidemill.errors import TidemillError
from tidemill.runtime.views import sinks


@pytest.fixture
def feed(db, tmp_path):
    made = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER")
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k; CREATE TAGGED STREAM S OVER Raw")
    return made


def brief(table) -> list[tuple]:
    return [(c["TAG"], c["k"], c["v"], c["TS"]) for c in table.to_pylist()]


# ---- subscribe ---------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
def test_subscribe_gives_the_contents_then_every_change(db, feed, output):
    db.execute(f"CREATE {output} VIEW V AS SELECT k, v FROM K")
    db.start()
    feed.send("<a,1>1 <b,2>2 <a,3>3 <z,0>4")
    settle(db)
    following = db.subscribe("V")
    assert brief(following.next(0)) == [("+", "a", 3, 3), ("+", "b", 2, 3)]
    assert following.next(0) is None
    feed.send("<b,5>5 <c,6>6 <z,1>7")
    settle(db)
    seen = []
    while (table := following.next(0)) is not None:
        assert table.column_names == ["TAG", "TS", "k", "v", "OLD"]
        seen += brief(table)
    assert seen == [("+", "z", 0, 4), ("u", "b", 5, 5), ("+", "c", 6, 6)]
    following.close()
    feed.send("<b,7>8")
    settle(db)
    assert following.next(0) is None


def test_subscribe_to_an_empty_view_and_to_whole_answers(db, feed):
    db.execute("CREATE VIEW V AS SELECT k, v FROM K; CREATE RSTREAM VIEW W AS SELECT k, v FROM K SYNC EVERY 2")
    db.start()
    following, whole = db.subscribe("V"), db.subscribe("W")
    assert following.next(0) is None
    feed.send("<a,1>1 <b,2>2 <a,3>3 <z,0>5")
    settle(db)
    assert brief(following.next(0)) == [("+", "a", 1, 1), ("+", "b", 2, 2), ("u", "a", 3, 3)]
    assert brief(whole.next(0)) == [("+", "a", 1, 2), ("+", "b", 2, 2), ("+", "a", 3, 4), ("+", "b", 2, 4)]


def test_a_subscription_ends_when_the_database_stops(db, feed):
    db.execute("CREATE VIEW V AS SELECT k, v FROM K")
    db.start()
    feed.send("<a,1>1 <b,2>2")
    settle(db)
    following = iter(db.subscribe("V"))
    assert brief(next(following)) == [("+", "a", 1, 1)]
    db.stop()
    assert list(following) == []


# ---- sinks -------------------------------------------------------------------------------------


def files_of(folder) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_parquet_and_json_sinks_have_one_file_for_each_batch_that_changed_something(db, feed, tmp_path):
    db.execute("CREATE STREAMED VIEW V AS SELECT k, v FROM K; CREATE VIEW N AS SELECT k, v FROM K WHERE v > 100")
    db.execute(
        f"CREATE SINK P FROM V TO FILES '{tmp_path}/p'; "
        f"CREATE SINK J FROM V TO FILES '{tmp_path}/j' WITH (format = 'json')"
    )
    db.execute(f"CREATE SINK Never FROM N TO FILES '{tmp_path}/n'")
    db.start()
    for chunk in ("<a,1>1 <b,2>2", "<a,3>3", "<b,4>4 <c,5>5"):
        feed.send(chunk)
        settle(db)
    db.stop()
    db.run()
    log = db.changes("V").to_pylist()
    assert [c["TAG"] for c in log] == ["+", "+", "u", "u", "+"]
    parquet = [row for f in files_of(tmp_path / "p") for row in pq.read_table(tmp_path / "p" / f).to_pylist()]
    texts = [(tmp_path / "j" / f).read_text() for f in files_of(tmp_path / "j")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    assert parquet == log == lines
    assert len(files_of(tmp_path / "p")) >= 3 and all(f.endswith(".parquet") for f in files_of(tmp_path / "p"))
    assert not (tmp_path / "n").exists()


def test_a_sink_gets_the_changes_from_its_creation_on(db, feed, tmp_path):
    db.execute("CREATE VIEW V AS SELECT k, v FROM K")
    db.start()
    feed.send("<a,1>1 <b,2>2")
    settle(db)
    db.execute(f"CREATE SINK P FROM V TO FILES '{tmp_path}/p'")
    feed.send("<a,3>3 <b,4>4")
    settle(db)
    db.execute("DROP SINK P")
    feed.send("<a,5>5 <b,6>6")
    settle(db)
    rows = [row for f in files_of(tmp_path / "p") for row in pq.read_table(tmp_path / "p" / f).to_pylist()]
    assert [(r["TAG"], r["k"], r["v"]) for r in rows] == [("+", "b", 2), ("u", "a", 3)]


def test_the_console_is_a_sink(db, feed, monkeypatch):
    said = []
    monkeypatch.setattr(sinks, "printer", said.append)
    db.execute("CREATE VIEW V AS SELECT k, v FROM K; CREATE SINK Screen FROM V TO CONSOLE")
    feed.send("<a,1>1 <a,3>3")
    db.run()
    assert said == ["Screen + <a, 1> 1", "Screen u <a, 3> 3  was a, 1"]


# ---- replay ------------------------------------------------------------------------------------


def test_a_replayed_batch_changes_nothing_and_writes_the_same_files(db, feed, tmp_path):
    db.execute("CREATE STREAMED VIEW V AS SELECT k, v FROM K; CREATE VIEW N AS SELECT count(*) AS n FROM S")
    db.execute(f"CREATE SINK P FROM V TO FILES '{tmp_path}/p' WITH (format = 'json')")
    db.start()
    feed.send("<a,1>1 <b,2>2 <a,9>3 <c,1>4")
    end = db.plan()
    blobs, out = db.compute(end)
    db.outlet.apply(db.batch, out)
    first = {f: (tmp_path / "p" / f).read_bytes() for f in files_of(tmp_path / "p")}
    log, count = tagged(db, "V"), rows_of(db, "SELECT n FROM N")
    assert first and log == ["+<a,1>1", "+<b,2>2", "u<a,9>3"] and count == [(3,)]
    # The process dies after the outlet has committed, before anybody else knows.
    db.reopen_outlet()
    again, sent = db.compute(end)
    assert again == blobs or [set(again)] == [set(blobs)]
    db.outlet.apply(db.batch, sent)
    assert {f: (tmp_path / "p" / f).read_bytes() for f in files_of(tmp_path / "p")} == first
    assert (tagged(db, "V"), rows_of(db, "SELECT n FROM N")) == (log, count)
    db.finish(end)
    settle(db)
    db.stop()
    db.run()
    assert tagged(db, "V") == [*log, "+<c,1>4"] and rows_of(db, "SELECT n FROM N") == [(4,)]


def test_files_of_a_batch_that_never_committed_are_written_over(db, feed, tmp_path):
    """Dead between the sink and the commit: the same batch comes again and its file is the same."""
    db.execute(f"CREATE STREAMED VIEW V AS SELECT k, v FROM K; CREATE SINK P FROM V TO FILES '{tmp_path}/p'")
    db.start()
    feed.send("<a,1>1 <b,2>2")
    end = db.plan()
    _, out = db.compute(end)
    commit = db.outlet._store_dead_letters
    db.outlet._store_dead_letters = lambda *_: (_ for _ in ()).throw(OSError("no space left on device"))
    with pytest.raises(OSError, match="no space"):
        db.outlet.apply(db.batch, out)
    db.outlet._store_dead_letters = commit
    assert files_of(tmp_path / "p") and tagged(db, "V") == []
    shutil.copytree(tmp_path / "p", tmp_path / "before")
    db.reopen_outlet()
    db.finish(end)
    assert tagged(db, "V") == ["+<a,1>1"]
    assert files_of(tmp_path / "p") == files_of(tmp_path / "before")
    for name in files_of(tmp_path / "p"):
        assert pq.read_table(tmp_path / "p" / name) == pq.read_table(tmp_path / "before" / name)


# ---- retain ------------------------------------------------------------------------------------


def test_retained_changes_are_the_youngest(db, feed):
    db.execute("CREATE STREAMED VIEW V WITH (retain = '3 seconds') AS SELECT k, v FROM K")
    db.execute("CREATE STREAMED VIEW A WITH (retain = 3) AS SELECT k, v FROM S")
    db.start()
    for chunk in ("<a,1>1 <b,2>2", "<a,3>3 <c,4>4", "<c,5>6 <d,6>7", "<e,7>8"):
        feed.send(chunk)
        settle(db)
    assert tagged(db, "V") == ["+<c,4>4", "u<c,5>6", "+<d,6>7"]
    assert tagged(db, "A") == ["+<c,4>4", "+<c,5>6", "+<d,6>7"]
    db.execute("CREATE VIEW Later AS SELECT k, v FROM V; CREATE VIEW LaterA AS SELECT k, v FROM A")
    settle(db)
    assert rows_of(db, "SELECT * FROM Later ORDER BY ALL") == [("a", 3), ("b", 2), ("c", 5), ("d", 6)]
    assert db.query("SELECT * FROM LaterA").num_rows == 6, "the contents stay when the log is cut"


@pytest.mark.parametrize("made", ["to_days(v)", "CAST(make_timestamp(v) AS TIMESTAMP_S)"])
def test_a_sink_that_parquet_cannot_hold_is_refused(db, tmp_path, made):
    """A parquet sink of an INTERVAL was taken, and its first batch stopped the view."""
    Feed(db, tmp_path, "Raw", "v INTEGER").send("<1>1")
    db.execute(f"CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT v, {made} AS x FROM S")
    with pytest.raises(TidemillError, match="TM211") as refused:
        db.execute(f"CREATE SINK P FROM V TO FILES '{tmp_path}/p'")
    assert '"x"' in refused.value.message
    db.execute(f"CREATE SINK J FROM V TO FILES '{tmp_path}/j' WITH (format = 'json')")
    db.run()
    assert not db.status()["views"][0]["stopped"] and len(files_of(tmp_path / "j")) == 1
