"""Neighbours of the benchmarks: the engine takes every workload with every change; answers of the mixture."""

from __future__ import annotations

from unittest.mock import patch

import duckdb
import pytest

from benchmarks import answers, neighbours, packets
from benchmarks.inprocess import InProcess
from benchmarks.neighbours.measure import Sizes, cost, statements
from benchmarks.neighbours.reasons import REASONS
from benchmarks.neighbours.works import CHANGES, UNLIKE, UNLIKE_WORK, WORKS, Change
from benchmarks.packets import COLUMNS
from benchmarks.peers.mixture import mixed


@pytest.mark.parametrize("name", ["W2", "J1 sparse", "refreshed", "tagger"])
def test_every_change_of_a_workload_runs(name):
    for what, change in CHANGES.items():
        if what != "live" and (what != "MAX" or WORKS[name].maximum):
            assert cost(WORKS[name], change, Sizes(20_000, 4, 1)).row_ns > 0


@pytest.mark.parametrize("name", UNLIKE)
def test_one_unlike_query_among_those_of_w5(name):
    sizes = Sizes(20_000, 5, 1)
    plain, unlike = (statements(UNLIKE_WORK, change, sizes).split(";") for change in (Change(""), UNLIKE[name]))
    views = [[s for s in made if "RSTREAM VIEW" in s] for made in (plain, unlike)]
    assert len(views[0]) == len(views[1]) == 5
    assert views[0][:4] == views[1][:4] and (name == "disorder") == (views[0] == views[1])
    assert cost(UNLIKE_WORK, UNLIKE[name], sizes).row_ns > 0


def test_the_page_says_what_a_batch_costs():
    class Steps:
        def expect(self, count): ...
        def done(self, what): ...

    with patch.dict(neighbours.WORKS, {"tagger": WORKS["tagger"]}, clear=True):
        tables = {t.title: t for t in neighbours.run(True, Steps()).tables}
    assert [row[0] for row in tables["W5 with one unlike query"].rows] == ["none", *(c.title for c in UNLIKE.values())]
    rows = tables["What a micro-batch costs whatever is in it"].rows
    assert {row[0] for row in rows} >= {"tagger, live"}
    assert all(count <= 50_000 and ms >= 0 and 0 <= share <= 100 for _, count, ms, share in rows)


class Quiet:
    """Steps that are not shown."""

    def expect(self, count: int) -> None: ...
    def done(self, what: str = "") -> None: ...


@pytest.mark.parametrize(
    ("ratios", "missed"),
    [
        ({"live": 30.0, "groups": 1.9}, ""),
        ({"live": 300.0}, "windows, live: 300.00"),
        ({"disorder": 2.1}, "windows, disorder: 2.10"),
    ],
)
def test_a_reason_holds_for_its_workload_and_up_to_a_ratio(ratios, missed):
    def slowdowns(work, sizes, done, changes=CHANGES):
        return 60.0, ratios if changes is CHANGES else dict.fromkeys(changes, 1.0), {}

    with (
        patch.dict(neighbours.WORKS, {"windows": WORKS["windows"]}, clear=True),
        patch.object(neighbours, "slowdowns", slowdowns),
    ):
        (check,) = neighbours.run(True, Quiet()).checks
    assert (check.met, check.measured) == (not missed, missed or "none")


def test_every_reason_is_of_a_workload_and_a_change():
    assert {name for name, _ in REASONS} <= set(WORKS) and {change for _, change in REASONS} <= set(CHANGES)
    assert all(reason.most > neighbours.LIMIT for reason in REASONS.values())


def test_answers_of_the_mixture_are_those_of_duckdb(tmp_path):
    folder, queries = packets.trace(600_000, 2), mixed(24)
    with InProcess(str(tmp_path / "db")) as db, duckdb.connect() as duck:
        db.execute(
            f"REGISTER SOURCE P ({COLUMNS}) FROM FILES '{folder}/*.parquet' WITH (timestamp = 'ts');"
            " CREATE TAGGED STREAM S OVER P;" + ";".join(q.statement() for q in queries)
        )
        db.run()
        for query in queries:
            rows = db.query(f'SELECT "TS", {", ".join(query.columns)} FROM {query.name}')
            answers.store(str(tmp_path / "ours"), query, rows)
            theirs = duck.sql(query.answer(f"read_parquet('{folder}/*.parquet')")).to_arrow_table()
            answers.store(str(tmp_path / "theirs"), query, theirs)
    assert answers.check_equal(queries, str(tmp_path / "ours"), str(tmp_path / "theirs"), answers.last_time(folder))
