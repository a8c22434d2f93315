"""Nexmark: what is generated, the answers to all questions, and the page of what was measured."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import data
from benchmarks.inprocess import InProcess
from benchmarks.nexmark import events
from benchmarks.nexmark.measured import Measured, Sizes
from benchmarks.nexmark.page import page
from benchmarks.nexmark.questions import NAMES, question, sources
from benchmarks.nexmark.sides import DuckDBSide, differences

EVENTS = 4_000


@pytest.fixture(scope="module", autouse=True)
def inputs(tmp_path_factory):
    """Small inputs do not lie among those of the benchmarks. Times are stretched, so that windows end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_BASE", str(tmp_path_factory.mktemp("inputs")))
        patch.setattr(events, "RATE", 100)
        yield


def test_kinds_and_hot_ones_are_as_often_as_they_should_be():
    made = events.generated(0, 100_000)
    assert {kind: rows.num_rows for kind, rows in made.items()} == {"person": 2_000, "auction": 6_000, "bid": 92_000}
    bids = made["bid"]
    hot = pc.mean(pc.cast(pc.is_in(bids["channel"], pa.array(["Google", "Facebook", "Baidu", "Apple"])), pa.int8()))
    assert abs(hot.as_py() - 0.5) < 0.01
    newest = events.last_auction(np.flatnonzero(np.arange(100_000) % 50 >= 4)) // 100 * 100 + events.FIRST
    assert abs(np.mean(bids["auction"].to_numpy() == newest) - 0.5) < 0.02
    assert 60 < pc.mean(pc.binary_length(bids["extra"])).as_py() < 72
    prices = np.log10(bids["price"].to_numpy() / 100)
    assert abs(prices.mean() - 3) < 0.05 and prices.max() <= 6


def test_the_same_seed_makes_the_same_events_however_they_are_cut():
    again = events.generated(0, 1_000)
    assert all(rows.equals(again[kind]) for kind, rows in events.generated(0, 1_000).items())
    other = events.generated(0, 1_000, seed=8)
    assert not other["bid"].equals(again["bid"])


def test_every_question_has_a_text_for_flink_but_the_one_that_it_cannot_answer():
    assert [name for name in NAMES if question(name).flink is None] == ["q6"]
    assert all((question(name).flink or "SELECT").startswith("SELECT") for name in NAMES)


def test_all_questions_in_one_database_have_the_answers_of_duckdb(tmp_path):
    folder = events.folder(EVENTS)
    asked = [question(name) for name in NAMES]
    with InProcess(str(tmp_path / "db")) as db:
        db.execute(sources(folder, options=", batch_rows = 1500"))
        db.execute("\n".join(q.view for q in asked))
        db.run(final=True)
        wrong = {}
        for q in asked:
            mine, wanted = db.query(f"SELECT * FROM {q.name}"), DuckDBSide().answer(folder, q.name)
            assert wanted.num_rows, q.name
            if differences(mine, wanted) != (0, 0):
                wrong[q.name] = differences(mine, wanted)
    assert not wrong


def test_the_page_names_the_slowest_query_the_largest_process_and_the_worst_ratio():
    found = Measured(Sizes(1_000_000, 100_000, 1))
    for name, ours, theirs in (("q0", 1.0, 4.0), ("q1", 4.0, 4.0)):
        found.runs[name] = {"tidemill": [{"seconds": ours, "megabytes": 100 * ours}]}
        found.runs[name]["RocksDB, checkpoints"] = [{"seconds": theirs}]
        found.costs[name] = [
            {"seconds": 1.0, "reader": 0.5, "stage": 0.3, "outlet": 0.2, "megabytes": 1.0, "answer": 7}
        ]
        found.answers[name] = 7
    found.together = [{"seconds": 2.5, "megabytes": 1.0}]
    checks = {check.what: (check.measured, check.met) for check in page(found).checks}
    assert checks == {
        "events/s of every query": ("250,000 (q1)", False),
        "the largest Python process": ("400 MB (q1)", True),
        "all in one database, against one after the other": ("2 times", False),
        "every query against Flink with checkpoints": ("1 times (q1)", False),
        "the geometric mean of them": ("2 times", False),
    }
    alone = {name: {"tidemill": runs["tidemill"]} for name, runs in found.runs.items()}
    found.runs = alone
    assert len(page(found).checks) == 3
