"""Whether a view answers is decided by what operators have counted, where they have, and never decided again."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.statements import parse_one
from tidemill.optimize.views.added_cost import ASSUMED_RATE, AddedCost, Estimate
from tidemill.optimize.views.answer import show_cost
from tidemill.plan import relations as r
from tidemill.plan.scalars import ColumnRef, Literal, Operation
from tidemill.plan.sources import Column

ROWS, SECONDS = 1_000, 100
SETUP = """
REGISTER SOURCE Readings (k INTEGER, v INTEGER, at BIGINT) FROM FILES '{}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM Log OVER Readings;
CREATE TAGGED STREAM Rooms OVER Readings KEY k;
"""
VIEW, QUERY = "SELECT k, v FROM Log WHERE v > 10", "SELECT k FROM Log WHERE v > 20"
FEW, MOST = 0.03, 0.97  # of the rows are above 10


def write_readings(folder, share, number=1):
    """Rows of which this share has a v above 10; every second ten of them."""
    values = [(i * 37 % 100 < share * 100) * 30 + i % 10 for i in range(ROWS)]
    first = (number - 1) * SECONDS
    lines = [f"{i % 50},{v},{first + 1 + i * SECONDS // ROWS}" for i, v in enumerate(values)]
    (folder / f"{number}.csv").write_text("\n".join(["k,v,at", *lines, ""]))


def answered(db, name):
    return [part.view.name for part in db.workload.views[name.lower()].answer.parts]


@pytest.fixture
def run(tmp_path):
    """A database in which older views have read such rows."""
    opened = []

    def start(share, *older):
        write_readings(tmp_path, share)
        db = LocalDatabase(str(tmp_path / "db"))
        opened.append(db)
        db.execute(SETUP.format(tmp_path))
        for i, text in enumerate(older):
            db.execute(f"CREATE VIEW Old{i} AS {text}")
        if older:
            db.run(final=False)
        return db

    yield start
    for db in opened:
        db.close()


@pytest.mark.parametrize(("share", "found"), [(FEW, ["V"]), (MOST, [])])
def test_counts_of_an_older_view_decide(run, share, found):
    """A view of nearly all rows saves nothing; without counts it is taken to keep a third."""
    db = run(share, VIEW)
    db.execute(f"CREATE VIEW V AS {VIEW}; CREATE VIEW Q AS {QUERY}")
    assert answered(db, "Q") == found
    if not found:
        assert "it would not be cheaper" in db.workload.views["q"].answer.refused["V"]
        assert "partly measured" in db.workload.views["q"].answer.refused["V"]


@pytest.mark.parametrize("share", [FEW, MOST])
def test_without_counts_shares_are_assumed(run, share):
    db = run(share)
    db.execute(f"CREATE VIEW V AS {VIEW}")
    text = str(db.explain(f"CREATE VIEW Q AS {QUERY}"))
    assert "cost    from V 0.0067 · from Log 0.02 ms/s, assumed; chosen" in text


def test_explain_says_what_was_measured(run, tmp_path):
    """10 rows a second of which 3 in 100 are above 10, all of them above 20: 15 ns for the filter and 15 for the rows
    that it lets through. The query has run before, from such a view and from the stream.
    """
    db = run(FEW, VIEW, QUERY)
    assert answered(db, "Old1") == ["Old0"]
    db.execute(f"SET view_matching = off; CREATE VIEW Plain AS {QUERY}; SET view_matching = auto")
    write_readings(tmp_path, FEW, 2)
    db.run(final=False)
    db.execute(f"CREATE VIEW V AS {VIEW}")
    text = str(db.explain(f"CREATE VIEW Q AS {QUERY}"))
    few, every = 60 / (2 * SECONDS - 1), 2 * ROWS / (2 * SECONDS - 1)  # rows in a second, from first to last event
    view, streams = (show_cost(rows * 15) for rows in (few + few, every + 30 / SECONDS))
    assert f"cost    from V {view} · from Log {streams} ms/s, measured; chosen" in text


def test_rates_of_keyed_streams_are_measured(run):
    hot = "SELECT k, v FROM Rooms SYNC EVERY 2 SECONDS WHERE v > 10"
    db = run(FEW, hot)
    db.execute(f"CREATE VIEW V AS {hot}")
    text = str(db.explain("CREATE VIEW Q AS SELECT k FROM Rooms SYNC EVERY 4 SECONDS WHERE v > 20"))
    assert "answered from V" in text and "ms/s, partly measured; chosen" in text


def test_the_decision_stays_whatever_is_counted_later(run, tmp_path):
    db = run(FEW, VIEW)
    db.execute(f"CREATE VIEW V AS {VIEW}; CREATE VIEW Q AS {QUERY}")
    node = db.workload.views["q"].node
    for number in (2, 3):
        write_readings(tmp_path, MOST, number)
    db.run(final=False)
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert answered(again, "Q") == ["V"] and again.workload.views["q"].node is node
        assert "cost    decided when it was created" in str(again.explain("EXPLAIN VIEW Q"))
        again.execute(f"CREATE VIEW V2 AS {VIEW}; CREATE VIEW Q2 AS {QUERY}")
        assert answered(again, "Q2") == [], "what is created now is decided by what is counted now"


def test_the_log_is_the_same_either_way(run, tmp_path):
    db = run(FEW, VIEW)
    db.execute(f"CREATE STREAMED VIEW V AS {VIEW}; CREATE STREAMED VIEW Q AS {QUERY}")
    db.execute(f"SET view_matching = off; CREATE STREAMED VIEW P AS {QUERY}")
    write_readings(tmp_path, MOST, 2)
    db.run()
    assert answered(db, "Q") == ["V"] and not answered(db, "P")
    assert db.changes("Q").to_pylist() == db.changes("P").to_pylist() != []


def test_an_ad_hoc_query_reads_the_view_with_the_least_rows(run):
    """Both keep a third as far as is assumed; the one that was counted to be smaller answers."""
    db = run(FEW, "SELECT k, v FROM Log WHERE k < 40", VIEW)
    db.run(final=False)
    asked = parse_one("SELECT k FROM Log WHERE v > 20 AND k < 9").query
    found = db.workload.answering.find_stored(db.workload.bind(asked).node)
    assert found[0] == "Old1"


def test_a_measured_node_rests_on_no_assumption():
    scan = r.Scan("s", (Column("a", "INTEGER"),))
    few = r.Filter(scan, Operation(">", ColumnRef("a"), Literal("3")))

    def counting(counts: dict[r.Relation, float]) -> AddedCost:
        return AddedCost(measured=lambda node: counts.get(node))

    assert AddedCost().rows(few).basis == "assumed" and AddedCost().rows(few).value == pytest.approx(ASSUMED_RATE / 3)
    assert counting({scan: 60.0}).rows(few) == Estimate(20.0, is_measured=True, is_assumed=True)
    assert counting({few: 7.0}).rows(few) == Estimate(7.0, is_measured=True)
    assert counting({few: 7.0}).of(r.Filter(few, Literal("TRUE"))).basis == "partly measured"
    assert counting({few: 7.0, scan: 50.0}).of(r.Filter(few, Literal("TRUE"))).basis == "measured"
