"""What the choice of an algorithm goes by is what streams and links are like now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sqlglot import exp

from tests.harness import LocalDatabase
from tests.sites.test_algorithms import STREAMS
from tidemill.engine.sites.placing import PlacedItem
from tidemill.engine.sites.reducers import SPAN_US, Reducers
from tidemill.engine.sites.sessions import Session
from tidemill.engine.sites.traffic import Traffic
from tidemill.plan.sites import Equality, SiteInput, SiteQuery
from tidemill.plan.sources import Column
from tidemill.runtime.sites.protocol import Delivery, Description
from tidemill.sql.bind.imported_names import IMPORTS, PLACED

COLUMNS = (Column("k", "INTEGER"),)


def query(condition=""):
    a, b = (SiteInput(alias, alias, site, COLUMNS, filter=condition) for alias, site in (("a", "lyon"), ("b", "paris")))
    return SiteQuery((a, b), (Equality.inner("a", ("k",), "b", ("k",)),), "lyon")


@pytest.mark.parametrize(
    ("options", "reduced"),
    [
        ({IMPORTS: {"paris.far b": "q1_b_rows"}, "site_plan": {"methods": {"b": ["keys", "a"]}}}, ("b", "a")),
        ({PLACED: ["q1_answer", "k"], "site_plan": {"methods": {"a": ["both", "b"]}}}, ("a", "b")),
    ],
)
def test_reducers_say_how_many_rows_pass_now(options, reduced):
    crossed = {f"q1_{reduced[0]}_rows": Traffic()}
    named = (("a", "lyon", "Near"), ("b", "paris", "Far"))
    items = {alias: PlacedItem(exp.Table(), site, Description(name, COLUMNS, 1)) for alias, site, name in named}
    reducers = Reducers(crossed.get)
    assert reducers.count(options, query(), items) == {}
    [traffic] = crossed.values()
    for number in range(5):  # ten rows a second
        traffic.add(100, 10, number * SPAN_US // 10)
    assert reducers.count(options, query(), items) == {}, "that is too short a time"
    traffic.add(100, 60, 2 * SPAN_US)
    first = reducers.count(options, query(), items)[reduced]
    traffic.add(100, 20, 4 * SPAN_US)
    assert first == pytest.approx(60e6 / (1.6 * SPAN_US))
    assert reducers.count(options, query(), items)[reduced] == pytest.approx(20e6 / (2 * SPAN_US))
    assert reducers.count(options, query("a.v > 2"), items) == {}, "a condition leaves out rows as well"


def test_samples_and_rates_are_those_of_late(tmp_path):
    folder = tmp_path / "Far"
    folder.mkdir()

    def write(file, keys, start, rows=40):
        lines = [f"{keys[n % len(keys)]},{n},{start + n}" for n in range(rows)]
        (folder / f"{file}.csv").write_text("k,v,tm\n" + "\n".join(lines) + "\n")

    with LocalDatabase(str(tmp_path / "db")) as db:
        write(1, [1, 2, 3], 0)
        db.execute(STREAMS.format("Far", tmp_path) + "CREATE VIEW W AS SELECT k FROM Far")
        measures = db.state.sites.service.measures
        measures.measure("Far", ("k",))
        db.run(final=False)
        assert measures.statistics("Far", ("k",)).rows == 40
        measures.age()
        assert measures.statistics("Far", ("k",)).rows == 40, "a stream that is silent keeps its sample"
        write(2, [7], 40)
        db.run(final=False)
        assert measures.statistics("Far", ("k",)).rows == 80
        measures.age()
        lines = [f"7,{n},{80 + n // 4}" for n in range(80)]
        (folder / "3.csv").write_text("k,v,tm\n" + "\n".join(lines) + "\n")
        db.run(final=False)
        found = measures.statistics("Far", ("k",))
        assert found.rows == 120, "the first rows are forgotten"
        assert found.rate == pytest.approx(4.0, rel=0.1), "four rows a second now, one before"


def test_a_round_trip_is_what_a_request_takes_on_the_way(tmp_path):
    class Peer:
        """Another site that holds each request for ten seconds."""

        def greet(self, database, wishes):
            return {}

        def fetch(self, wants, patience):
            return Delivery(held=10.0)

    paths = SimpleNamespace(database="x", source=lambda name: str(tmp_path / name))
    source = SimpleNamespace(name="edge", origin={"text": ""})
    given: Any = ("paris", paths, Peer, lambda: [source], lambda *_: None, 1 << 20)
    session = Session(*given)
    session.step()
    assert session.round_trip_s is not None and session.round_trip_s < 0.5
    session._note_round_trip(1.0)
    assert 0.2 <= session.round_trip_s < 0.6
