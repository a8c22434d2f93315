"""The runner of SQL test files reads both formats, and the files of the project are right in every mode."""

from __future__ import annotations

from pathlib import Path

from benchmarks.corpus.__main__ import OWN, report
from benchmarks.corpus.files import Limits, Tally, run_file
from benchmarks.corpus.oracle import Oracle, Question, Unasked, same
from benchmarks.corpus.records import read_records
from benchmarks.corpus.streams import MODES
from benchmarks.corpus.views import without_order


def test_records_with_loops_conditions_and_the_end_of_a_file(tmp_path):
    path = tmp_path / "x.test"
    path.write_text(
        "loop i 0 2\n\nforeach t INTEGER DATE\n\nquery I\nSELECT ${i}::${t}\n----\n1\n\nendloop\n\nendloop\n\n"
        "skipif duckdb\nstatement ok\nNEVER\n\nonlyif duckdb\nstatement error\nOFTEN\n----\nno\n\n"
        "mode skip\n\nstatement ok\nSKIPPED\n\nmode unskip\n\nquery I\nSELECT 2\n\nrestart\n\nquery I\nSELECT 3\n"
    )
    found = [(r.sql, r.line, r.is_query, r.fails) for r in read_records(path)]
    loops = [(f"SELECT {i}::{t}", 5, True, False) for i in "01" for t in ("INTEGER", "DATE")]
    assert found == [*loops, ("OFTEN", 18, False, True), ("SELECT 2", 31, True, False)]


def test_the_oracle_compares_only_what_does_not_depend_on_the_order_of_rows():
    oracle = Oracle()
    assert oracle.execute("CREATE TABLE t AS SELECT range AS a FROM range(5)")
    assert isinstance(oracle.ask("SELECT sum(a) FROM t", 1), Question)
    assert oracle.ask("SELECT first(a) FROM t", 2) == Unasked(2, "depends on the order of rows")
    assert oracle.ask("SELECT b FROM t", 3) == Unasked(3, "DuckDB: Binder Error")
    oracle.execute("CREATE TABLE u AS SELECT 3 AS a, [1, 2] AS l")
    asked = [oracle.ask(sql, 4) for sql in ("SELECT a FROM t ANTI JOIN u USING (a)", "SELECT x FROM u, UNNEST(l) v(x)")]
    assert [q.tables for q in asked if isinstance(q, Question)] == [("t", "u"), ("u",)]
    assert same([(1, 0.1 + 0.2)], [(1, 0.3)]) and not same([(1,)], [(1,), (1,)])
    assert without_order("SELECT a FROM (SELECT 1 ORDER BY 1) ORDER BY a DESC") == "SELECT a FROM (SELECT 1 ORDER BY 1)"


def test_the_files_of_the_project_are_right_in_every_mode():
    tally = Tally()
    for path in sorted(Path(OWN).glob("*.test")):
        run_file(path, MODES, tally, Limits())
    text = report(tally, 1)
    for mode in MODES:
        kinds = [outcome.kind for _, outcome in tally.outcomes[mode]]
        assert set(kinds) == {"right"} and len(kinds) >= 12, text
    assert tally.unasked["depends on the order of rows"] == 1
