"""Values of every type in every row end as data or as a dead letter, and can be shown."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from tests.faults.extremes import EXTREMES
from tests.harness import LocalDatabase
from tests.properties.effort import thorough
from tidemill.plan.python_values import python_rows, python_values
from tidemill.runtime.sources.columns import event_time_us
from tidemill.runtime.views import sinks
from tidemill.serve.render import change_lines, table_of

FORMATS = ("parquet", "arrow", "csv", "json")
DATES = ("DATE", "TIMESTAMP")
TIMES = (*DATES, "TIMESTAMP WITH TIME ZONE", "BIGINT", "DOUBLE", "UBIGINT", "HUGEINT", "DECIMAL(38,0)")
LATE, FAILING = 3, 1_000


def connected() -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    return duck


def rows_of(kind: str) -> pa.Table:
    """For each value a good row, then the same late, then on a row for which CAST(n AS TINYINT) fails."""
    values = [v for v in EXTREMES[kind] for _ in range(3)]
    shapes = [(1, 100), (2, LATE), (FAILING, 100)] * len(EXTREMES[kind])
    duck = connected()
    raw = pa.table({"v": values, "n": [n for n, _ in shapes], "at": [at for _, at in shapes], "i": range(len(values))})
    duck.register("raw", raw)
    return duck.sql(
        f"SELECT CAST(v AS {kind}) AS v, CAST(n AS INTEGER) AS n, CAST(raw.at AS BIGINT) AS at, v AS text"
        f" FROM raw ORDER BY i"
    ).to_arrow_table()


def write(folder: Path, form: str, rows: pa.Table) -> str:
    folder.mkdir(exist_ok=True)
    typed = rows.select(["v", "n", "at"])
    path = folder / f"rows.{form}"
    if form == "parquet":
        pq.write_table(typed, path)
    elif form == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, typed.schema) as writer:
            writer.write_table(typed)
    else:
        plain = rows.select(["text", "n", "at"]).to_pylist()
        with open(path, "w", encoding="utf-8", newline="") as out:
            if form == "json":
                out.writelines(json.dumps({"v": r["text"], "n": r["n"], "at": r["at"]}) + "\n" for r in plain)
                out.write('{"v": "\\ud800", "n": "no number", "at": 100}\n')
            else:
                csv.writer(out).writerows([["v", "n", "at"], *([r["text"], r["n"], r["at"]] for r in plain)])
                csv.writer(out).writerow(["", "no number", 100])
    return str(path)


def pairs(kinds: tuple[str, ...]) -> list[tuple[str, str]]:
    """(type, format): all of them when asked, else every type in one format and dates in all."""
    return [
        (k, f)
        for i, k in enumerate(kinds)
        for j, f in enumerate(FORMATS)
        if thorough() or k in DATES or (i + j) % len(FORMATS) == 0
    ]


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(sinks, "printer", lines.append)
    return lines


@pytest.mark.parametrize(("kind", "form"), pairs(tuple(EXTREMES)))
def test_every_value_is_data_or_a_dead_letter(tmp_path, kind, form, shown):
    """One line from a sender bricks the database for good: a late row, or one whose expression fails, with a DATE or
    TIMESTAMP outside years 1 to 9999, or infinity, raises OverflowError in row_texts.
    """
    rows = rows_of(kind)
    path = write(tmp_path / "in", form, rows)
    with LocalDatabase(str(tmp_path / "db")) as db:
        options = ", header = true" if form == "csv" else ""
        db.execute(f"""
            REGISTER SOURCE S (v {kind}, n INTEGER, at BIGINT) FROM FILES '{path}'
            WITH (format = '{form}', timestamp = 'at', max_record_bytes = 2000000{options});
            CREATE TAGGED STREAM T OVER S;
            CREATE TAGGED STREAM K OVER S KEY n;
            CREATE STREAMED VIEW Good AS SELECT v, n FROM T;
            CREATE VIEW Casts AS SELECT v, CAST(n AS TINYINT) AS small FROM T;
            CREATE VIEW Latest AS SELECT n, v FROM K;
            CREATE VIEW Groups AS SELECT v, count(*) AS rows FROM T GROUP BY v;
            CREATE VIEW Ends AS SELECT n, max(v) AS most FROM T GROUP BY n;
            CREATE SINK J FROM Good TO FILES '{tmp_path}/json' WITH (format = 'json');
            CREATE SINK P FROM Good TO FILES '{tmp_path}/parquet';
            CREATE SINK C FROM Good TO CONSOLE;
        """)
        db.run()
        count, text = len(EXTREMES[kind]), form in ("csv", "json")
        lost = db.query("SELECT reason, raw FROM dead_letters").to_pylist()
        late = [x for x in lost if "late" in x["reason"]]
        bad = [x for x in lost if "cannot read" in x["reason"] or "not" in x["reason"].split(":")[0]]
        good = db.changes("Good")
        assert good.num_rows + len(late) + len(bad) == 3 * count + text, lost
        assert len(late) == count - len(bad) + text or text
        failed = [x for x in lost if x not in late and x not in bad]
        assert len(failed) + db.query("SELECT * FROM Casts").num_rows == good.num_rows
        assert len(failed) == python_values(good.column("n")).count(FAILING)
        for table in (
            good,
            *(db.query(f"SELECT * FROM {v}") for v in ("Casts", "Latest", "Groups", "Ends")),
            db.query("SELECT * FROM dead_letters"),
            db.subscribe("Good").next(0.0),
        ):
            show(table)
        assert len(shown) == good.num_rows
        written = [json.loads(line) for file in (tmp_path / "json").iterdir() for line in file.open(encoding="utf-8")]
        assert len(written) == good.num_rows


def show(table: pa.Table) -> None:
    console = Console(file=open("/dev/null", "w"), width=200)  # noqa: SIM115 - closed with the test
    console.print(table_of(table, title="all"))
    for line in change_lines("v", table):
        console.print(line)
    assert len(python_rows(table)) == table.num_rows


@pytest.mark.parametrize(("kind", "form"), pairs(TIMES))
def test_an_event_time_that_nothing_can_be_added_to_is_a_dead_letter(tmp_path, kind, form):
    """One row with the event time infinity closes all time: every row after it is late, for ever."""
    stamps = {
        "DATE": "2020-01-02",
        "TIMESTAMP": "2020-01-02 00:00:00",
        "TIMESTAMP WITH TIME ZONE": "2020-01-02 00:00:00+00",
    }
    values = [*EXTREMES[kind], stamps.get(kind, "7")]
    duck = connected()
    duck.register("raw", pa.table({"v": values, "i": range(len(values))}))
    rows = duck.sql(f"SELECT CAST(v AS {kind}) AS v, 1 AS n, i AS at, v AS text FROM raw ORDER BY i").to_arrow_table()
    path = write(tmp_path / "in", form, rows)
    with LocalDatabase(str(tmp_path / "db")) as db:
        options = ", header = true" if form == "csv" else ""
        db.execute(f"""
            REGISTER SOURCE S (v {kind}, n INTEGER, at BIGINT) FROM FILES '{path}'
            WITH (format = '{form}', timestamp = 'v', lateness = '6000000 days'{options});
            CREATE TAGGED STREAM T OVER S;
            CREATE VIEW Windows AS SELECT n, count(*) AS c FROM T [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY n;
            CREATE VIEW Points AS SELECT count(*) AS c FROM T SYNC EVERY 7 SECONDS;
        """)
        db.run()
        reasons = db.query("SELECT reason FROM dead_letters").column(0).to_pylist()
        assert db.status()["sources"][0]["rows"] + len(reasons) == len(values) + (form in ("csv", "json"))
        assert db.status()["sources"][0]["rows"] >= 1


def test_values_keep_their_order_and_nulls_among_strange_ones():
    days = pa.array([None, 0, 2**31 - 1, 5], pa.int32()).cast(pa.date32())
    nested = pa.StructArray.from_arrays([days], ["d"])
    listed = pa.ListArray.from_arrays([0, 2, 3, 4], days)
    assert [str(v) for v in python_values(days)] == ["None", "1970-01-01", "infinity", "1970-01-06"]
    assert [str(v["d"]) for v in python_values(nested)] == ["None", "1970-01-01", "infinity", "1970-01-06"]
    assert [len(v) for v in python_values(listed)] == [2, 1, 1]


def test_more_digits_than_a_type_has_are_no_event_time():
    """A file with decimal128(38, 0) and 39 digits: Arrow refused to compute, the batch failed for ever."""
    raw = pa.py_buffer((2**127 - 1).to_bytes(16, "little") + (7).to_bytes(16, "little"))
    column = pa.chunked_array([pa.Array.from_buffers(pa.decimal128(38, 0), 2, [None, raw])])
    assert event_time_us(column, "DECIMAL(38,0)", 1_000_000).to_pylist() == [None, 7_000_000]
