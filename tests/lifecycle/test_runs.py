"""Input that comes in pieces, a run for each: nothing is late that would not be late in one run."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as opened:
        opened.folder = tmp_path  # type: ignore[attr-defined]
        yield opened


def put(db, stream, number, *lines):
    (db.folder / stream).mkdir(exist_ok=True)
    (db.folder / stream / f"{number}.csv").write_text("\n".join(lines) + "\n")


def register(db, stream, columns, **options):
    (db.folder / stream).mkdir(exist_ok=True)
    text = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    db.execute(
        f"REGISTER SOURCE {stream}Raw ({columns}) FROM FILES '{db.folder}/{stream}/*.csv'"
        f"{f' WITH ({text})' if text else ''}; CREATE TAGGED STREAM {stream} OVER {stream}Raw"
    )


def rows(db, sql):
    return [tuple(row.values()) for row in db.query(sql).to_pylist()]


def test_arrival_times_close_no_event_times(db):
    register(db, "Events", "k INTEGER, at TIMESTAMP", timestamp="at")
    register(db, "Pings", "host VARCHAR")
    db.execute(
        "CREATE VIEW ByKey AS SELECT k, COUNT(*) AS n FROM Events GROUP BY k;"
        "CREATE VIEW Hosts AS SELECT host, COUNT(*) AS n FROM Pings GROUP BY host"
    )
    put(db, "Events", 1, "k,at", "1,2023-01-01 10:00:00")
    put(db, "Pings", 1, "host", "a")
    db.run(final=False)
    put(db, "Events", 2, "k,at", "1,2023-01-01 10:00:00", "2,2023-01-02 10:00:00")
    put(db, "Pings", 2, "host", "a")
    summary = db.run(final=False)
    assert (summary.late, summary.rows) == (0, 3)
    assert sorted(rows(db, "SELECT * FROM ByKey")) == [(1, 2), (2, 1)]
    assert rows(db, "SELECT * FROM Hosts") == [("a", 2)]


def test_lateness_is_that_of_the_source_and_holds_from_run_to_run(db):
    register(db, "Orders", "id INTEGER, at TIMESTAMP", timestamp="at", lateness="1 hour")
    register(db, "Payments", "id INTEGER, at TIMESTAMP", timestamp="at", lateness="1 hour")
    db.execute(
        "CREATE VIEW Paid AS SELECT o.id FROM Orders [WINDOW 1 DAY] o JOIN Payments [WINDOW 1 DAY] p ON o.id = p.id"
    )
    put(db, "Orders", 1, "id,at", "1,2026-01-01 12:00:00", "2,2026-01-01 11:30:00")
    put(db, "Payments", 1, "id,at", "7,2026-01-01 11:00:00")
    assert db.run(final=False).late == 0
    put(db, "Payments", 2, "id,at", "1,2026-01-01 11:30:00", "2,2026-01-01 10:30:00", "9,2026-01-01 10:29:59")
    assert db.run(final=False).late == 1, "one is more than an hour behind the payment of 11:30"
    put(db, "Orders", 2, "id,at", "8,2026-01-01 12:00:01")
    db.run(final=False)
    assert sorted(rows(db, "SELECT * FROM Paid")) == [(1,), (2,)]


def test_a_view_is_closed_by_its_own_inputs(db):
    """The window of the old stream is not empty because another stream is years ahead."""
    register(db, "Old", "v INTEGER, at TIMESTAMP", timestamp="at")
    register(db, "New", "v INTEGER, at TIMESTAMP", timestamp="at")
    db.execute(
        "CREATE VIEW OldSum AS SELECT SUM(v) AS s FROM Old [WINDOW 1 HOUR];"
        "CREATE VIEW NewSum AS SELECT SUM(v) AS s FROM New [WINDOW 1 HOUR]"
    )
    put(db, "Old", 1, "v,at", "1,2020-01-01 10:00:00", "2,2020-01-01 10:30:00")
    put(db, "New", 1, "v,at", "5,2026-01-01 10:00:00", "6,2026-01-01 10:10:00")
    db.run(final=False)
    assert rows(db, "SELECT * FROM OldSum") == [(1,)] and rows(db, "SELECT * FROM NewSum") == [(5,)]
    db.run(final=True)
    assert rows(db, "SELECT * FROM OldSum") == [(None,)], "the input is over for all, at the greatest time of all"


def test_what_may_still_change_is_in_queries_and_not_in_sinks_or_subscriptions(db):
    register(db, "Log", "v INTEGER, at INTEGER", timestamp="at")
    out = db.folder / "out"
    db.execute(
        "CREATE STREAMED VIEW Counted AS SELECT COUNT(*) AS n FROM Log;"
        f"CREATE SINK Counts FROM Counted TO FILES '{out}' WITH (format = 'json')"
    )
    put(db, "Log", 1, "v,at", "1,1", "1,2")

    def sunk():
        return [json.loads(line)["n"] for file in sorted(out.glob("*.json*")) for line in file.open()]

    with db.subscribe("Counted") as changes:
        heard = []

        def hear():
            while (table := changes.next(0)) is not None:
                heard.extend(table.column("n").to_pylist())
            return heard

        def shown():
            return [change["n"] for change in db.changes("Counted").to_pylist()]

        db.run(final=False)
        assert shown() == [1, 2] and hear() == sunk() == [1]
        put(db, "Log", 2, "v,at", "1,2")
        db.run(final=False)
        assert shown() == [1, 3] and hear() == sunk() == [1]
        db.run(final=True)
        assert shown() == hear() == sunk() == [1, 3]


def test_a_view_created_later_begins_with_what_stays(db):
    register(db, "Log", "v INTEGER, at INTEGER", timestamp="at")
    db.execute("CREATE VIEW Sums AS SELECT v, COUNT(*) AS n FROM Log GROUP BY v")
    put(db, "Log", 1, "v,at", "1,1", "1,2")
    db.run(final=False)
    db.execute("CREATE VIEW Total AS SELECT SUM(n) AS total FROM Sums")
    db.run(final=False)
    assert rows(db, "SELECT * FROM Sums") == [(1, 2)] and rows(db, "SELECT * FROM Total") == [(2,)]
    put(db, "Log", 2, "v,at", "2,2", "1,3")
    db.run(final=False)
    assert rows(db, "SELECT * FROM Total") == [(4,)]


def test_a_dropped_view_takes_what_it_showed_with_it(db):
    register(db, "Log", "v INTEGER, at INTEGER", timestamp="at")
    db.execute("CREATE VIEW One AS SELECT v FROM Log; CREATE VIEW Two AS SELECT v FROM Log WHERE v > 1")
    put(db, "Log", 1, "v,at", "1,1", "2,1")
    db.run(final=False)
    assert sorted(rows(db, "SELECT * FROM One")) == [(1,), (2,)]
    db.execute("DROP VIEW One; CREATE VIEW One AS SELECT v FROM Log")
    assert rows(db, "SELECT * FROM One") == [] and rows(db, "SELECT * FROM Two") == [(2,)]


def test_status_counts_the_rows_that_are_shown(db):
    register(db, "Log", "v INTEGER, at INTEGER", timestamp="at")
    db.execute("CREATE VIEW One AS SELECT v FROM Log")
    put(db, "Log", 1, "v,at", "1,1", "2,1")
    db.run(final=False)
    assert [v["rows"] for v in db.status()["views"]] == [2]


def test_the_summary_says_which_lateness_would_have_helped(db):
    register(db, "Log", "v INTEGER, at TIMESTAMP", timestamp="at", lateness="1 minute")
    db.execute("CREATE VIEW One AS SELECT v FROM Log")
    put(db, "Log", 1, "v,at", "1,2026-01-01 10:00:00", "2,2026-01-01 09:58:59.5", "3,2026-01-01 09:59:30")
    first = db.run(final=False)
    put(db, "Log", 2, "v,at", "4,2026-01-01 09:00:00")
    assert first.warnings == (
        "1 row of LogRaw was late, up to 61 seconds behind a row before it: WITH (lateness = '61 seconds') takes it in",
    )
    assert "'60 minutes'" in str(db.run(final=False))


def test_what_comes_round_without_rows_closes_what_it_must(db):
    """A grouping over a RIGHT JOIN with a band: the unmatched rows are none, but their time has to come round."""
    for stream in "AB":
        register(db, stream, "k INTEGER, v INTEGER, TS BIGINT", timestamp="TS")
    put(db, "A", 1, "k,v,TS", "1,9,3", "0,1,5")
    put(db, "B", 1, "k,v,TS", "1,1,3", "1,0,4")
    for kind in ("RIGHT", "FULL"):
        db.execute(
            f"CREATE VIEW {kind}V AS SELECT x.k AS xk, y.v AS yv FROM A AS x {kind} JOIN B AS y"
            " ON x.k = y.k AND y.TS BETWEEN x.TS - 5 AND x.TS + 4;"
            f"CREATE VIEW {kind}G AS SELECT xk, count(*) AS n FROM {kind}V GROUP BY xk"
        )
    db.run(final=False)
    assert rows(db, "SELECT * FROM RIGHTG") == [(1, 2)]
    assert rows(db, "SELECT * FROM FULLG ORDER BY xk") == [(0, 1), (1, 2)]


def test_the_row_of_no_rows_does_not_depend_on_other_sources(db):
    for stream in "AE":
        register(db, stream, "k INTEGER, v INTEGER, at BIGINT", timestamp="at")
    db.execute(
        "CREATE VIEW Ones AS SELECT count(*) AS n FROM A; CREATE VIEW None_ AS SELECT count(*) AS n FROM E;"
        "CREATE VIEW G AS SELECT k, sum(v) AS s FROM E GROUP BY k;"
        "CREATE VIEW GG AS SELECT count(*) AS n FROM G"
    )
    for number, wanted in ((0, 0), (1, 1), (2, 2)):
        if number:
            put(db, "A", number, "k,v,at", f"0,1,{number}")
        db.run(final=False)
        assert rows(db, "SELECT * FROM Ones") == [(wanted,)]
        assert rows(db, "SELECT * FROM None_") == [(0,)] == rows(db, "SELECT * FROM GG")


def test_a_run_says_which_views_have_stopped(db):
    register(db, "A", "v DECIMAL(38,0), at BIGINT", timestamp="at")
    put(db, "A", 1, "v,at", f"{10**38 - 1},0", "1,1", "-7,2")
    db.execute("CREATE VIEW T AS SELECT sum(v) AS s FROM A")
    assert "view T has stopped: " in str(db.run(final=False))
