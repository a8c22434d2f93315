"""What people write first means what they expect, and what is refused is said in their words."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.thresholds import smallest


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as opened:
        opened.folder = tmp_path  # type: ignore[attr-defined]
        yield opened


def register(db, name, columns, rows, timestamp="at"):
    """A source of CSV rows, and a stream over it with the name's first letter."""
    folder = db.folder / name
    folder.mkdir()
    header = ",".join(part.split()[0] for part in columns.split(", "))
    (folder / "0.csv").write_text("\n".join([header, *rows]) + "\n")
    db.execute(
        f"REGISTER SOURCE {name} ({columns}) FROM FILES '{folder}/*.csv'"
        f" WITH (timestamp = '{timestamp}', batch_rows = 100)"
    )
    db.execute(f"CREATE TAGGED STREAM {name[0]} OVER {name}")


def rows(db, sql):
    return [tuple(row.values()) for row in db.query(sql).to_pylist()]


def two_streams(db):
    register(db, "Ins", "k INTEGER, at INTEGER", ["1,1", "2,2", "3,3", "1,30"])
    register(db, "Outs", "k INTEGER, at INTEGER", ["3,3", "1,4", "2,20"])


# ---- state for ever -----------------------------------------------------------------------------


def test_what_a_view_may_keep_for_ever_its_readers_may_as_well(db):
    two_streams(db)
    db.execute("CREATE VIEW Pairs WITH (unbounded_state = true) AS SELECT I.k, O.at AS o FROM I JOIN O ON I.k = O.k")
    db.execute("CREATE VIEW Many AS SELECT k, count(*) AS n FROM Pairs GROUP BY k")
    db.execute("CREATE VIEW Few AS SELECT P.k, Q.n FROM Pairs P JOIN Many Q ON P.k = Q.k WHERE Q.n > 1")
    db.run(final=True)
    assert rows(db, "SELECT k, n FROM Many ORDER BY k") == [(1, 2), (2, 1), (3, 1)]
    assert rows(db, "SELECT * FROM Few") == [(1, 2), (1, 2)]


def test_a_join_that_keeps_state_for_ever_is_named_with_its_place(db):
    two_streams(db)
    db.execute("CREATE VIEW Late AS SELECT k, at FROM O WHERE at > 2")
    with pytest.raises(TidemillError) as caught:
        db.execute("CREATE VIEW Bad AS\nSELECT I.k FROM I [WINDOW 5] JOIN\n  Late L ON I.k = L.k")
    assert caught.value.code == "TM204" and 'stream "I" and view "Late"' in caught.value.message
    assert (caught.value.line, caught.value.column) == (3, 3)
    assert "Late [WINDOW 10 MINUTES]" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("LEFT", [(1, 4), (1, None), (2, None), (3, 3)]),
        ("RIGHT", [(1, 4), (3, 3), (None, 20)]),
        ("FULL", [(1, 4), (1, None), (2, None), (3, 3), (None, 20)]),
    ],
)
def test_an_outer_join_with_a_band_is_bounded(db, kind, expected):
    """docs/language.md: between two append-only streams a band on TS in both directions is enough."""
    two_streams(db)
    with smallest():
        db.execute(
            f"CREATE VIEW J AS SELECT I.k, O.at FROM I {kind} JOIN O ON I.k = O.k AND O.TS BETWEEN I.TS AND I.TS + 5"
        )
        db.run(final=True)
    assert sorted(rows(db, "SELECT * FROM J"), key=str) == sorted(expected, key=str)


def test_the_state_of_an_outer_band_join_does_not_grow(db):
    register(db, "Ins", "k INTEGER, at INTEGER", [f"{t},{t}" for t in range(500)])
    register(db, "Outs", "k INTEGER, at INTEGER", [f"{t - 3},{t}" for t in range(0, 500, 2)])
    with smallest():
        db.execute(
            "CREATE VIEW J AS SELECT count(*) AS n, count(o) AS m FROM (SELECT I.k, O.at AS o FROM I LEFT JOIN O"
            " ON I.k = O.k AND O.TS BETWEEN I.TS AND I.TS + 5) q"
        )
        db.run(final=True)
    assert rows(db, "SELECT n, m FROM J") == [(500, 248)]
    assert db.status()["state"]["rows"] < 100


# ---- words and types ----------------------------------------------------------------------------


def test_epochs_of_timestamps(db):
    register(
        db,
        "Log",
        "v INTEGER, at TIMESTAMP",
        ["1,2024-01-01 00:00:05", "2,2024-01-01 00:00:59.9", "3,2024-01-01 00:01:00", "9,2024-01-01 00:05:00"],
    )
    db.execute(
        "CREATE STREAMED VIEW Minutes AS SELECT TS/60 AS minute, sum(v) AS s FROM L GROUP BY TS/60;"
        "CREATE VIEW Same AS SELECT m, count(*) AS n FROM L GROUP BY at/60 AS m;"
        "CREATE VIEW Buckets AS SELECT time_bucket(INTERVAL '1 minute', at) AS b, sum(v) AS s FROM L GROUP BY b"
    )
    db.run(final=True)
    first = 1_704_067_200 // 60
    assert [(c["minute"] - first, c["s"]) for c in db.changes("Minutes").to_pylist()] == [(0, 3), (1, 3)]
    assert str(db.changes("Minutes").column("TS")[0]) == "2024-01-01 00:01:00"
    assert rows(db, f"SELECT m - {first}, n FROM Same ORDER BY 1") == [(0, 2), (1, 1)]
    assert [s for _, s in rows(db, "SELECT * FROM Buckets ORDER BY b")] == [3, 3]


def test_errors_use_the_words_of_the_user(db):
    register(db, "Log", "v INTEGER, at INTEGER", ["1,1"])
    with pytest.raises(TidemillError, match="list_random"):
        db.execute("CREATE VIEW V AS SELECT list_random([v]) AS r FROM L")


def test_sums_of_integers_are_integers(db):
    register(
        db,
        "Log",
        "k INTEGER, v INTEGER, w BIGINT, d DECIMAL(38,0), at INTEGER",
        ["1,5,9223372036854775807,7,1", "1,6,9223372036854775807,8,2"],
    )
    db.execute(
        "CREATE STREAMED VIEW V AS SELECT k, sum(v) AS s, sum(w) AS big, max(d) AS d FROM L GROUP BY k;"
        "CREATE VIEW W AS SELECT k, sum(v) AS s, sum(w) AS big, max(d) AS d FROM L GROUP BY k"
    )
    db.run(final=True)
    wide = pa.decimal128(38, 0)
    found = db.query("SELECT *, sum(k) OVER () AS t FROM W")
    assert {f.name: f.type for f in found.schema} == {
        "k": pa.int32(),
        "s": pa.int64(),
        "big": wide,
        "d": wide,
        "t": pa.int64(),
    }
    assert found.to_pylist() == [{"k": 1, "s": 11, "big": 2**64 - 2, "d": Decimal(8), "t": 1}]
    changes = db.changes("V")
    assert changes.schema.field("s").type == pa.int64() and changes.schema.field("big").type == wide
    assert changes.column("OLD").to_pylist()[-1] == {"k": 1, "s": 5, "big": 2**63 - 1, "d": 7}
    assert changes.schema.field("OLD").type.field("s").type == pa.int64()


# ---- why is my view empty -----------------------------------------------------------------------


def findings(db, view):
    return [f"{row['about']}: {row['finding']}" for row in db.execute(f"EXPLAIN WHY {view}").to_pylist()]


def test_create_view_says_what_it_will_see(db):
    two_streams(db)
    assert str(db.execute("CREATE VIEW First AS SELECT k FROM I")) == "view First created"
    db.run()
    assert str(db.execute("CREATE VIEW Later AS SELECT k FROM I")) == (
        "view Later created; it does not see the 4 rows of I that came before it"
    )
    assert str(db.execute("CREATE VIEW Above AS SELECT count(*) AS n FROM First")) == (
        "view Above created; it begins with what First now holds"
    )
    db.run()
    assert rows(db, "SELECT * FROM Later") == [] and rows(db, "SELECT * FROM Above") == [(4,)]
    assert "view Later: it was created after 4 rows of I had been taken in, and does not see them" in findings(
        db, "Later"
    )


def test_why_nothing_is_there(db):
    two_streams(db)
    db.execute("CREATE VIEW J AS SELECT I.k FROM I [WINDOW 9] JOIN O [WINDOW 9] ON I.k = O.k WHERE I.k > 5")
    assert any("nothing has been taken in yet" in line for line in findings(db, "J"))
    db.run(final=False)
    found = findings(db, "view J")
    assert any(line.startswith("source Ins: 4 rows taken in") for line in found)
    assert any(line.startswith("source Outs: the answer waits for it") for line in found)
    assert any(line.startswith("view J: 0 rows") for line in found)


def test_why_counts_files_bad_and_late_rows(db):
    register(db, "Log", "v INTEGER, at INTEGER", ["1,10", "x,11", "2,5"])
    db.execute(
        f"REGISTER SOURCE None_ (v INTEGER) FROM FILES '{db.folder}/*.nothing' WITH (format = 'csv');"
        "CREATE TAGGED STREAM N OVER None_;"
        "CREATE VIEW V AS SELECT v FROM L UNION ALL SELECT v FROM N"
    )
    db.run()
    found = "\n".join(findings(db, "V"))
    assert "source Log: 1 records could not be read" in found and "source Log: 1 rows came after their time" in found
    assert "source None_: no row yet; 0 files match" in found


@pytest.mark.parametrize(
    "view, said",
    [
        ("SELECT v FROM L SYNC EVERY 5 ROWS", "it refreshes with every 5 rows"),
        ("SELECT v FROM L SYNC ON Never", "it refreshes at the points of SYNC ON"),
        ("SELECT TimePoint FROM clockStr", "it is as far as the slowest of all sources"),
        ("SELECT TimePoint FROM clockStr", "source Log: 1 rows taken in"),
    ],
)
def test_why_names_what_a_view_waits_for(db, view, said):
    register(db, "Log", "v INTEGER, at INTEGER", ["1,10"])
    db.execute("CREATE STREAMED VIEW Never AS SELECT TS FROM L WHERE v = 7; CREATE VIEW V AS " + view)
    db.run(final=False)
    assert any(said in line for line in findings(db, "V"))


def test_why_says_the_lateness_as_it_was_written(db):
    (db.folder / "in.csv").write_text("v,at\n1,10\n")
    db.execute(
        f"REGISTER SOURCE Raw (v INTEGER, at INTEGER) FROM FILES '{db.folder}/in.csv'"
        " WITH (timestamp = 'at', lateness = '5 seconds'); CREATE TAGGED STREAM L OVER Raw;"
        "CREATE VIEW V AS SELECT v FROM L"
    )
    db.run(final=False)
    assert any("its lateness is 5 seconds" in line for line in findings(db, "V"))


def test_a_clock_that_ran_away_is_pointed_at(db):
    register(db, "Log", "v INTEGER, at TIMESTAMP", ["1,9999-01-01 00:00:00"])
    db.execute("CREATE VIEW V AS SELECT v FROM L")
    db.run()
    assert db.status()["sources"][0]["ahead_seconds"] > 1e11
    assert any("ahead of the wall clock" in line for line in findings(db, "V"))


def test_notebooks_show_tables(db):
    register(db, "Log", "v INTEGER, at INTEGER", ["1,1"])
    db.execute("CREATE VIEW V AS SELECT v, '<b>' AS \"<i>\" FROM L")
    summary = db.run()
    assert "1 rows in" in summary._repr_html_()
    status = db.status()._repr_html_()
    assert "<caption>Sources</caption>" in status and "<td>Log</td>" in status
    assert "&lt;i&gt;" in db.explain("SELECT * FROM V")._repr_html_()
