"""Rows far ahead of their time are put aside and do not move the clock."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.pace import step_until
from tidemill.errors import TidemillError


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as opened:
        opened.folder = tmp_path  # type: ignore[attr-defined]
        yield opened


def run(db, options, *lines, kind="TIMESTAMP"):
    """(rows that count, late, reasons of dead letters) of a file with a column `at`, in pieces of two rows."""
    (db.folder / "in.csv").write_text("\n".join(["v,at", *lines]) + "\n")
    db.execute(
        f"REGISTER SOURCE Raw (v INTEGER, at {kind}) FROM FILES '{db.folder}/in.csv'"
        f" WITH (timestamp = 'at', batch_rows = 2{options}); CREATE TAGGED STREAM S OVER Raw;"
        "CREATE VIEW V AS SELECT v FROM S"
    )
    summary = db.run()
    shown = sorted(row["v"] for row in db.query("SELECT v FROM V").to_pylist())
    return shown, summary.late, db.query("SELECT reason FROM dead_letters").column("reason").to_pylist()


FAR = ("1,2023-01-01 10:00:00", "2,9999-12-31 00:00:00", "3,2023-01-01 10:00:01", "4,2025-01-01 00:00:00")


def test_a_row_of_the_year_9999_makes_nothing_late(db):
    assert run(db, ", ahead = '1 day'", *FAR) == ([1, 3, 4], 0, ["too far ahead of its time: option ahead"])


def test_a_gap_in_the_past_is_believed_and_without_the_option_everything(db):
    shown, late, reasons = run(db, "", *FAR)
    assert shown == [1, 2] and late == 2 and len(reasons) == 2


def test_numbers_are_compared_with_the_newest_row(db):
    assert run(db, ", ahead = 10", "1,100", "2,111", "3,110", "4,120", "5,131", "6,5000000", kind="BIGINT") == (
        [1, 3, 4],
        0,
        ["too far ahead of its time: option ahead"] * 3,
    )


@pytest.mark.parametrize(("option", "later"), [("", 0), (", ahead = '10 days'", 1), (", ahead = 'any'", 2)])
def test_a_port_believes_a_day(db, option, later):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    db.execute(
        f"REGISTER SOURCE Raw (v INTEGER, at TIMESTAMP) FROM PORT {port} WITH (timestamp = 'at'{option});"
        "CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT count(*) AS n FROM S"
    )
    db.quiet_s = 0.05
    db.start()
    now = datetime.now(UTC)
    times = [now, now + timedelta(days=5), now + timedelta(days=3000)]
    with socket.create_connection(("127.0.0.1", port)) as sender:
        sender.sendall("".join(f"1,{at:%Y-%m-%d %H:%M:%S}\n" for at in times).encode())
    step_until(db, lambda: [row["n"] for row in db.query("SELECT n FROM V").to_pylist()] == [1 + later])
    deadline = time.monotonic() + 10
    while db.status()["sources"][0]["bad"] != 2 - later and time.monotonic() < deadline:
        db.step()
    assert db.status()["sources"][0]["bad"] == 2 - later


@pytest.mark.parametrize("options", ["timestamp = 'at', ahead = 'soon'", "ahead = '1 day'"])
def test_what_cannot_be_is_refused(db, options):
    with pytest.raises(TidemillError) as refused:
        db.execute(f"REGISTER SOURCE Raw (v INTEGER, at TIMESTAMP) FROM FILES '{db.folder}/*.csv' WITH ({options})")
    assert refused.value.code in ("TM308", "TM407")
