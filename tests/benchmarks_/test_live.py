"""The lines of the live benchmark, its questions, and the pages of live and start."""

from __future__ import annotations

import json
import socket

import pytest

from benchmarks import start
from benchmarks.live import comparison, sender, tidemill_side
from benchmarks.report import Result
from tests.harness import LocalDatabase
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.text.decode import decode
from tidemill.runtime.sources.text.lines import declared_layout, find_lines


def test_both_forms_say_the_same():
    spec = SourceSpec("r", "port", tuple(Column(*item.split()) for item in sender.COLUMNS.split(", ")))
    text = {form: sender.lines(form, 300, 5, 1_000_000, 7) for form in ("csv", "json")}
    csv = decode(find_lines(text["csv"]), spec, declared_layout(spec))
    assert not csv.bad and csv.rows.num_rows == 300
    assert csv.rows.equals(decode(find_lines(text["json"]), spec, None).rows)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_four_views_have_all_rows(form, tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(sender.lines(form, 5000, 1, 0, 1000) + sender.lines(form, 1, 2, 60_000_000, 1))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""
            REGISTER SOURCE Readings ({sender.COLUMNS}) FROM PORT {port} WITH (timestamp = 'at');
            REGISTER TABLE Sensors (sensor INTEGER, room VARCHAR) FROM FILES '{sender.table(str(tmp_path))}';
            CREATE TAGGED STREAM Log OVER Readings;
            {";".join(tidemill_side.VIEWS.values()).format(high=sender.HIGH)}""")
        sender.Sender().push(str(path), port)
        rows = 0
        while rows < 5001 + sender.SENSORS:  # the rows of the table are counted too
            rows += db.run().rows
        for view in ("ByKind", "ByRoom"):
            assert db.query(f"SELECT sum(n) AS n FROM {view}").to_pylist() == [{"n": 5001}]
        assert 0 < db.changes("High").num_rows < 100 and db.changes("Sliding").num_rows > 1000


def test_blocks_of_a_flood_are_rows_of_one_moment_and_one_passes():
    spec = SourceSpec("r", "port", tuple(Column(*item.split()) for item in sender.COLUMNS.split(", ")))
    blocks = sender.Blocks(50)
    for seconds in (1_700_000_000.0, 1_700_000_001.25):
        found = decode(find_lines(bytes(blocks.at(seconds))), spec, declared_layout(spec))
        assert not found.bad and found.rows.num_rows == 50
        assert set(found.rows.column("at").cast("int64").to_pylist()) == {round(seconds * 1e6)}
        assert sum(value > sender.HIGH for value in found.rows.column("value").to_pylist()) == 1


def test_latency_behind_a_fast_sender_can_be_missed():
    assert comparison.behind_check([1.0, 2.0]).met
    assert not comparison.behind_check([1.0, 15.0]).met and not comparison.behind_check([]).met


def is_page(result: Result) -> bool:
    shown = json.loads(json.dumps(result.to_dict()))
    return all(len(row) == len(table["columns"]) for table in shown["tables"] for row in table["rows"])


def test_the_page_of_live():
    runs = [{"rows": 10, "rate": 600_000.0, "processor_s": 0.1, "batches": 3}]
    rates = {side: {"csv": runs, "json": runs} for side in ("Tidemill", "Spark")}
    parsing = {form: {"in blocks": 1.0, "one by one": 2.0} for form in ("csv", "json")}
    behind = {"latency": [2.0, 3.0], "rate": 700_000.0}
    result = comparison._result(rates, {"Tidemill": [0.5, 0.6], "Spark": []}, parsing, 30.0, behind)
    assert is_page(result) and all(check.met for check in result.checks)


def test_the_page_of_start(tmp_path):
    run = {"ends": [0.1, 2.0, 3.0, 5.0, 5.5], "processor": {"JVM": 5.0, "planner": 1.0}}
    result = start._result(run, {True: [run], False: [run]})
    assert is_page(result) and result.checks[0].met
    assert result.tables[0].rows[-1][1] == 5.5
