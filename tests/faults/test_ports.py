"""Whatever a sender writes to a port ends as data or as a dead letter; nothing stops, and later rows arrive."""

from __future__ import annotations

import csv
import io
import json
import socket
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.extremes import COMPUTED, EXTREMES
from tests.faults.test_extreme_values import connected, show
from tests.harness import LocalDatabase
from tests.network import free_port
from tests.properties.effort import effort, thorough
from tidemill.plan.python_values import interval_text
from tidemill.runtime.views import sinks

FORMATS = ("csv", "json")
LAST = 127
VALUES = EXTREMES | COMPUTED


def line(form: str, text: str, n: int) -> bytes:
    if form == "json":
        return (json.dumps({"v": text, "n": n}) + "\n").encode()
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([text, n])
    return out.getvalue().encode()


# As bytes, for a column VARCHAR and one INTEGER.
RAW: dict[str, tuple[bytes, ...]] = {
    "csv": (
        b"\xff\xfe,1\n",
        b"\xc3\x28,1\n",
        b"\xed\xa0\x80,1\n",
        b"a\x00b,1\n",
        b"\x00\n",
        b"\xef\xbb\xbfx,1\n",
        b"\n",
        b"\r\n",
        b",\n",
        b",,,,,\n",
        b'"open,1\n',
        b'a"b"c,1\n',
        b'"a""b",1\n',
        b"x," + b"9" * 100_000 + b"\n",
        b"x,1e400\n",
        b"x,-0\n",
        b"x,0x10\n",
        b"x, 1\n",
        b"x,1_000\n",
        b"x,\xd9\xa1\n",
        b"x,NaN\n",
        b"x,1\r\n",
        b"y" * 3_000_000 + b",1\n",
        b"," * 100_000 + b"\n",
        b"\\,1\n",
        b"\\N,\\N\n",
    ),
    "json": (
        b'{"v":"\xff","n":1}\n',
        b'{"v":"\\ud800","n":1}\n',
        b'{"v":"\\u0000","n":1}\n',
        b'{"v":"\x00","n":1}\n',
        b'\xef\xbb\xbf{"v":"x","n":1}\n',
        b"\n",
        b"null\n",
        b"[]\n",
        b"[1,2]\n",
        b'"x"\n',
        b"{}\n",
        b"{\n",
        b"}\n",
        b'{"v":"x","n":1} {"v":"y","n":2}\n',
        b'{"v":"x","v":"y","n":1}\n',
        b'{"v":' + b"[" * 100_000 + b"\n",
        b'{"v":' + b"[" * 5_000 + b"]" * 5_000 + b',"n":1}\n',
        b'{"v":"x","n":1e400}\n',
        b'{"v":"x","n":NaN}\n',
        b'{"v":"x","n":' + b"9" * 100_000 + b"}\n",
        b'{"v":{"a":1},"n":1}\n',
        b'{"v":"x","n":true}\n',
        b'{"v":"x","n":1.5}\n',
        b'{"n":1,"v":"x","' + b"k" * 100_000 + b'":0}\n',
        b"\x00\n",
        b'{"v":"' + b"y" * 3_000_000 + b'","n":1}\n',
        b'{"v":"x","n":"1"}\n',
        b'{"v":5,"n":1}\n',
        b"{'v':1}\n",
    ),
}


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(sinks, "printer", lines.append)
    return lines


def step_until(db: Any, reached: Any) -> None:
    end = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < end, db.status()
        if not db.step():
            time.sleep(0.02)


def fed(tmp_path, kind: str, form: str, pieces: list[bytes], check: Any) -> None:
    """Pieces one after the other, then a good row; all views and sinks read them."""
    port = free_port()
    good = {"BLOB": "x", "VARCHAR": "x"}.get(kind, VALUES[kind][0])
    read, v = ("VARCHAR", f"CAST(v AS {kind})") if kind in COMPUTED else (kind, "v")
    with LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(f"""
            REGISTER SOURCE S (v {read}, n INTEGER) FROM PORT {port}
            WITH (format = '{form}', max_record_bytes = 2000000);
            CREATE TAGGED STREAM T OVER S;
            CREATE TAGGED STREAM K OVER S KEY n;
            CREATE STREAMED VIEW Good AS SELECT {v} AS v, n FROM T;
            CREATE VIEW Casts AS SELECT {v} AS v, CAST(n AS TINYINT) AS small FROM T;
            CREATE STREAMED VIEW Latest AS SELECT n, {v} AS v FROM K;
            CREATE VIEW Groups AS SELECT {v} AS v, count(*) AS rows FROM T GROUP BY {v};
            CREATE SINK J FROM Latest TO FILES '{tmp_path}/json' WITH (format = 'json');
            CREATE SINK C FROM Latest TO CONSOLE;
        """)
        db.start()
        with socket.create_connection(("127.0.0.1", port)) as sender:
            for piece in [*pieces, line(form, good, LAST)]:
                sender.sendall(piece)
            step_until(db, lambda: LAST in db.changes("Good").column("n").to_pylist())
        db.stop()
        assert not [v["name"] for v in db.status()["views"] if v["stopped"]]
        for table in (
            db.changes("Good"),
            db.changes("Latest"),
            db.query("SELECT * FROM Groups"),
            db.query("SELECT * FROM dead_letters"),
        ):
            show(table)
        for file in (tmp_path / "json").iterdir():
            [json.loads(text) for text in file.open(encoding="utf-8")]
        check(db)


def pairs() -> list[tuple[str, str]]:
    return [(k, f) for i, k in enumerate(VALUES) for j, f in enumerate(FORMATS) if thorough() or (i + j) % 2 == 0]


@pytest.mark.parametrize(("kind", "form"), pairs())
def test_every_value_that_is_sent_is_data_or_a_dead_letter(tmp_path, kind, form, shown):
    pieces = [line(form, text, n) for text in VALUES[kind] for n in (1, 1_000)]

    def check(db: Any) -> None:
        good = db.changes("Good").num_rows
        lost = db.query("SELECT reason FROM dead_letters").column(0).to_pylist()
        if kind in COMPUTED:
            assert good == 2 * len(kept(kind)) + 1, lost
            return
        unread = [r for r in lost if "cannot read" in r]
        assert good + len(unread) == len(pieces) + 1, lost
        assert not unread or kind in ("VARCHAR", "BLOB", "INTERVAL", "HUGEINT", "DATE"), unread
        assert len(lost) - len(unread) == len([n for n in db.changes("Good").column("n").to_pylist() if n == 1_000])

    fed(tmp_path, kind, form, pieces, check)
    assert shown and not [text for text in shown if any(ord(c) < 32 or 126 < ord(c) < 160 for c in text)]


@pytest.mark.parametrize("form", FORMATS)
def test_bytes_that_are_no_records_are_dead_letters(tmp_path, form, shown):
    """Invalid UTF-8, zero bytes, very long lines, byte order marks, half records, nesting without end."""

    def check(db: Any) -> None:
        lost, good = db.query("SELECT reason FROM dead_letters").num_rows, db.changes("Good").num_rows
        empty = sum(1 for piece in RAW[form] if not piece.strip())
        assert len(RAW[form]) + 1 - empty <= lost + good <= len(RAW[form]) + 1, (lost, good)

    fed(tmp_path, "VARCHAR", form, list(RAW[form]), check)


def kept(kind: str) -> list[str]:
    """The values of a computed type as DuckDB spells them; those that it cannot read, or Arrow cannot carry, go."""
    spelled = [
        connected().sql(f"SELECT CAST(TRY_CAST('{text}' AS {kind}) AS VARCHAR)").fetchall()[0][0]
        for text in COMPUTED[kind]
    ]
    return [text for text in spelled if text is not None and not text.lstrip("-").startswith("2562047788:")]


def test_intervals_are_spelled_as_duckdb_spells_them(tmp_path, shown):
    """MonthDayNano(months=14, days=3, nanoseconds=4500000000) on the console, [14, 3, 4500000000] in JSON; and
    3,000,000 hours were -2,124,095, because Arrow counts nanoseconds.
    """
    wanted = kept("INTERVAL")
    pieces = [line("csv", text, i) for i, text in enumerate(["3000000 hours", *COMPUTED["INTERVAL"]])]

    def check(db: Any) -> None:
        found = [json.loads(text) for file in sorted((tmp_path / "json").iterdir()) for text in file.open()]
        assert [row["v"] for row in found[:-1]] == wanted
        assert [text.partition(", ")[2].partition(">")[0] for text in shown[:-1]] == wanted
        reasons = db.query("SELECT reason FROM dead_letters").column(0).to_pylist()
        assert any("more than 2562046 hours" in r for r in reasons)

    fed(tmp_path, "INTERVAL", "csv", pieces, check)


@effort(100)
@given(
    st.integers(-(2**31), 2**31 - 1) | st.integers(-30, 30),
    st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2),
    st.integers(-(2**53), 2**53) | st.integers(-5_000_000, 5_000_000),
)
def test_the_text_of_an_interval_is_that_of_duckdb(months, days, us):
    sql = "SELECT CAST(to_months(CAST(? AS INTEGER)) + to_days(CAST(? AS INTEGER)) + to_microseconds(?) AS VARCHAR)"
    assert interval_text(months, days, us) == connected().execute(sql, [months, days, us]).fetchall()[0][0]
