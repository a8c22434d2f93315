"""Input as it comes: late, broken, deleted, idle, through a port, made up, and more of it later."""

from __future__ import annotations

import json
import socket
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle, step_until
from tests.network import free_port
from tests.paper.notation import Feed, rows_of, tagged, write
from tidemill.errors import TidemillError


def source_status(db, name: str) -> dict:
    return next(s for s in db.status()["sources"] if s["name"] == name)


# ---- late and bad ------------------------------------------------------------------------------


def test_rows_out_of_order_within_the_lateness_are_not_late(db, tmp_path):
    Feed(db, tmp_path, "Raw", "x VARCHAR", options="lateness = '3 seconds'").send("<a>5 <b>3 <c>8 <d>5 <e>4 <f>9")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT x FROM S")
    summary = db.run()
    assert tagged(db, "V") == ["+<b>3", "+<a>5", "+<d>5", "+<c>8", "+<f>9"]
    assert (summary.rows, summary.late, summary.bad) == (5, 1, 0)
    assert source_status(db, "Raw")["late"] == 1
    dead = db.query("SELECT source, reason, raw FROM dead_letters").to_pylist()
    assert [(d["source"], json.loads(d["raw"])) for d in dead] == [("Raw", {"x": "e", "at": 4})]
    assert dead[0]["reason"].startswith("late")


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_the_same_rows_are_late_for_any_cut(tmp_path, batch_rows):
    db = LocalDatabase(str(tmp_path / "db"))
    Feed(db, tmp_path, "Raw", "x VARCHAR", options=f"lateness = 2, batch_rows = {batch_rows}").send(
        "<a>5 <b>3 <c>2 <d>9 <e>7 <f>6"
    ).send("<g>8 <h>6 <i>20 <j>18 <k>17")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT x FROM S")
    db.run()
    assert tagged(db, "V") == ["+<b>3", "+<a>5", "+<e>7", "+<g>8", "+<d>9", "+<j>18", "+<i>20"]
    assert sorted(json.loads(r)["x"] for (r,) in rows_of(db, "SELECT raw FROM dead_letters")) == ["c", "f", "h", "k"]
    db.close()


BAD = [
    '{"id": 1, "v": 5, "at": 1}',
    "not json",
    '{"id": "x", "v": 5, "at": 2}',
    '{"id": 2, "at": 3}',
    '{"id": 3, "v": 1}',
    '{"id": 4, "v": 99999999999, "at": 4}',
    '{"id": 5, "v": 7, "at": 5}',
]


def broken(db, tmp_path, on_error: str) -> None:
    (tmp_path / "bad.json").write_text("\n".join(BAD) + "\n")
    db.execute(
        f"REGISTER SOURCE Raw (id INTEGER, v INTEGER, at BIGINT) FROM FILES '{tmp_path}/bad.json'"
        f" WITH (timestamp = 'at', on_error = '{on_error}')"
    )
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT id, v FROM S")


@pytest.mark.parametrize("reading", ["", "CREATE COMPLETE VIEW Sums AS SELECT sum(v) AS s FROM S"])
def test_a_row_is_bad_whoever_reads_its_column(db, tmp_path, reading):
    """A view that reads another column of a Parquet file must not see other rows for that."""
    pq.write_table(pa.table({"v": ["1", "x", "3"], "at": [1, 2, 3]}), tmp_path / "in.parquet")
    db.execute(
        f"REGISTER SOURCE Raw (v INTEGER, at BIGINT) FROM FILES '{tmp_path}/in.parquet' WITH (timestamp = 'at');"
        f" CREATE TAGGED STREAM S OVER Raw; CREATE COMPLETE VIEW N AS SELECT count(*) AS n FROM S; {reading}"
    )
    summary = db.run()
    assert (summary.rows, summary.bad) == (2, 1)
    assert rows_of(db, "SELECT n FROM N") == [(2,)]


def test_bad_records_become_dead_letters_and_the_rest_goes_on(db, tmp_path):
    broken(db, tmp_path, "dead_letter")
    summary = db.run()
    good = tagged(db, "V")
    assert good[0] == "+<1,5>1" and good[-1] == "+<5,7>5"
    dead = db.query("SELECT * FROM dead_letters").to_pylist()
    assert len(dead) + len(good) == len(BAD)
    assert {"not json", BAD[2], BAD[5]} <= {d["raw"] for d in dead}
    assert all(d["source"] == "Raw" and d["reason"] and d["position"] is not None for d in dead)
    assert summary.bad == source_status(db, "Raw")["bad"] == len(dead) == db.status()["dead_letters"]
    assert db.execute("SHOW DEAD_LETTERS").num_rows == len(dead)


def test_bad_records_may_be_skipped_but_are_counted(db, tmp_path):
    broken(db, tmp_path, "skip")
    summary = db.run()
    assert tagged(db, "V")[-1] == "+<5,7>5"
    assert summary.bad >= 3
    assert not {"not json", BAD[2], BAD[5]} & {r for (r,) in rows_of(db, "SELECT raw FROM dead_letters")}


def test_bad_records_may_stop_the_run(db, tmp_path):
    broken(db, tmp_path, "fail")
    with pytest.raises(TidemillError) as caught:
        db.run()
    assert caught.value.code.startswith("TM4") and caught.value.hint
    assert tagged(db, "V") == [], "nothing of the batch is visible"


def test_csv_with_quotes_missing_and_extra_fields(db, tmp_path):
    text = 'id,name,at\n1,"a, ""quoted""",1\n2,plain,2\n3,too,many,3\n4\n,,5\n6,ünï,6\n'
    (tmp_path / "f.csv").write_text(text)
    db.execute(
        f"REGISTER SOURCE Raw (id INTEGER, name VARCHAR, at BIGINT) FROM FILES '{tmp_path}/f.csv'"
        " WITH (timestamp = 'at', header = true)"
    )
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT id, name FROM S")
    db.run()
    found = rows_of(db, "SELECT * FROM V ORDER BY id")
    assert found[:2] == [(1, 'a, "quoted"'), (2, "plain")] and (6, "ünï") in found
    assert db.query("SELECT * FROM dead_letters").num_rows == 2


# ---- deletion ----------------------------------------------------------------------------------


def test_an_operation_column_says_what_is_deleted(db, tmp_path):
    Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER, op VARCHAR", options="operation = 'op'").send(
        "<a,1,insert>1 <b,2,insert>2 <a,3,update>3 <b,,delete>4 <z,,delete>5 <b,7,insert>6 <a,,D>7 <b,8,u>8 <b,9,>9"
    )
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k; CREATE STREAMED VIEW V AS SELECT * FROM K")
    db.execute("CREATE STREAMED VIEW N AS SELECT k, v FROM K")
    db.run()
    assert tagged(db, "N") == ["+<a,1>1", "+<b,2>2", "u<a,3>3", "-<b,2>4", "+<b,7>6", "-<a,3>7", "u<b,8>8"]
    assert db.changes("V").column_names == ["TAG", "TS", "k", "v", "at", "OLD"], "the operation is no attribute"
    assert source_status(db, "Raw")["bad"] == 1, "a record without operation"


def test_a_null_value_may_delete_its_key(db, tmp_path):
    Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER, w INTEGER", options="key_null = true").send(
        [("a", 1, 1, 1), ("b", 2, None, 2), ("a", None, None, 3), ("b", None, 5, 4), ("a", 4, 4, 5)]
    )
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k; CREATE STREAMED VIEW V AS SELECT k, v, w FROM K")
    db.run()
    assert tagged(db, "V") == ["+<a,1,1>1", "+<b,2,>2", "-<a,1,1>3", "u<b,,5>4", "+<a,4,4>5"]


def test_without_the_option_nulls_are_values(db, tmp_path):
    Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send([("a", 1, 1), ("a", None, 2), (None, 3, 3), (None, 4, 4)])
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k; CREATE STREAMED VIEW V AS SELECT k, v FROM K")
    db.run()
    assert tagged(db, "V") == ["+<a,1>1", "u<a,>2", "+<,3>3", "u<,4>4"]


# ---- sources that fall silent ------------------------------------------------------------------


@pytest.mark.parametrize("timeout", ["", "idle_timeout = '0.1 seconds'"], ids=["waits", "goes on"])
def test_a_silent_source_holds_the_clock_until_its_idle_timeout(db, tmp_path, timeout):
    quiet = Feed(db, tmp_path, "Quiet", "x VARCHAR", options=timeout).send("<q>1")
    busy = Feed(db, tmp_path, "Busy", "x VARCHAR").send("<a>1 <b>5 <c>9")
    db.execute("CREATE TAGGED STREAM Q OVER Quiet; CREATE TAGGED STREAM B OVER Busy")
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM Q UNION ALL SELECT x FROM B")
    db.start()
    settle(db)
    if not timeout:
        time.sleep(0.15)
        settle(db)
        assert tagged(db, "V") == []
        return
    step_until(db, lambda: len(tagged(db, "V")) == 3)
    assert tagged(db, "V") == ["+<a>1", "+<q>1", "+<b>5"]
    quiet.send("<late>4 <r>10 <s>20")
    busy.send("<d>12")
    step_until(db, lambda: "+<r>10" in tagged(db, "V"))
    assert tagged(db, "V")[3:] == ["+<c>9", "+<r>10"]
    assert source_status(db, "Quiet")["late"] == 1, "what comes behind the clock is late"


# ---- ports -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_port_from_end_to_end(db, form):
    port = free_port()
    db.execute(
        f"REGISTER SOURCE P (k VARCHAR, v INTEGER, at BIGINT) FROM PORT {port} "
        f"WITH (timestamp = 'at', format = '{form}')"
    )
    db.execute("CREATE TAGGED STREAM K OVER P KEY k; CREATE STREAMED VIEW V AS SELECT k, v FROM K")
    rows = [("a", 1, 1), ("b", 2, 2), ("a", 3, 3), ("bad", "x", 4), ("c", 4, 5), ("late", 1, 1)]
    records = [dict(zip(("k", "v", "at"), row, strict=True)) for row in rows]
    lines = [",".join(map(str, r.values())) if form == "csv" else json.dumps(r) for r in records]
    with socket.create_connection(("127.0.0.1", port)) as sender:
        sender.sendall(("\n".join(lines) + "\n").encode())
    db.start()
    step_until(db, lambda: source_status(db, "P")["late"] == 1)
    db.stop()
    db.run()
    assert tagged(db, "V") == ["+<a,1>1", "+<b,2>2", "u<a,3>3", "+<c,4>5"]
    assert (source_status(db, "P")["rows"], source_status(db, "P")["bad"]) == (4, 1)
    assert db.query("SELECT * FROM dead_letters").num_rows == 2


def test_a_port_in_use_is_refused_and_leaves_no_trace(db):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TidemillError) as caught:
            db.execute(f"REGISTER SOURCE P (k VARCHAR) FROM PORT {port}")
    assert str(port) in str(caught.value) and caught.value.hint
    assert db.execute("SHOW SOURCES").num_rows == 0
    db.execute(f"REGISTER SOURCE P (k VARCHAR) FROM PORT {port}")


def test_a_dropped_port_is_free_again(db):
    port = free_port()
    for _ in range(2):
        db.execute(f"REGISTER SOURCE P (k VARCHAR) FROM PORT {port}")
        with socket.create_connection(("127.0.0.1", port)):
            pass
        db.execute("DROP SOURCE P")
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


# ---- files and generated rows ------------------------------------------------------------------


def test_run_again_takes_in_what_is_new(db, tmp_path):
    feed = Feed(db, tmp_path, "Raw", "x VARCHAR").send("<a>1 <b>2")
    db.execute(
        "CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT x FROM S; "
        "CREATE VIEW N AS SELECT count(*) AS n FROM S"
    )
    assert db.run().rows == 2
    assert db.run().rows == 0
    feed.send("<c>3").send("<d>4")
    assert db.run().rows == 2
    feed.send("<e>4 <late>3 <f>9")
    summary = db.run()
    assert (summary.rows, summary.late) == (1, 2), "time 4 was closed when the run before ended"
    assert tagged(db, "V") == ["+<a>1", "+<b>2", "+<c>3", "+<d>4", "+<f>9"]
    assert rows_of(db, "SELECT n FROM N") == [(5,)]


def test_a_run_without_views_or_without_rows(db, tmp_path):
    assert db.run().batches == 0
    Feed(db, tmp_path, "Raw", "x VARCHAR")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT x FROM S")
    assert db.run().rows == 0
    assert tagged(db, "V") == []


def test_static_tables_join_streams(db, tmp_path):
    write(tmp_path / "t.json", ["k", "label"], [("a", "Alpha"), ("b", "Beta"), ("b", "Bis")])
    feed = Feed(db, tmp_path, "Raw", "k VARCHAR").send("<a>1 <b>2")
    db.execute(f"REGISTER TABLE T (k VARCHAR, label VARCHAR) FROM FILES '{tmp_path}/t.json'")
    db.execute(
        "CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW J AS SELECT S.k, T.label FROM S JOIN T ON S.k = T.k"
    )
    db.run()
    feed.send("<c>3 <b>4")
    db.run()
    assert tagged(db, "J") == ["+<a,Alpha>1", "+<b,Beta>2", "+<b,Bis>2", "+<b,Beta>4", "+<b,Bis>4"]
    assert rows_of(db, "SELECT label FROM T WHERE k = 'b' ORDER BY 1") == [("Beta",), ("Bis",)]


def generated(folder, **options) -> list[str]:
    db = LocalDatabase(str(folder), **options)
    db.execute("""REGISTER SOURCE G (k INTEGER, v DOUBLE, t VARCHAR, at BIGINT)
        FROM GENERATE (rate = 10, rows = 300, seed = 11, k = 'uniform(1,9)', v = 'normal(50,9)', t = 'choice(x:3,y:1)')
        WITH (timestamp = 'at', batch_rows = 70)""")
    db.execute("CREATE TAGGED STREAM K OVER G KEY k")
    db.execute("CREATE STREAMED VIEW V AS SELECT t, count(*) AS n, max(v) AS m FROM K SYNC EVERY 5 GROUP BY t")
    assert db.run().rows == 300
    log = tagged(db, "V")
    db.close()
    return log


def test_generated_streams_are_the_same_each_time(tmp_path):
    one = generated(tmp_path / "one")
    assert one == generated(tmp_path / "two", shards=3, cores=1) and len(one) > 5
