"""The views and questions of the load are ones that the server takes, and the page is made of what was measured."""

from __future__ import annotations

from benchmarks.load.page import Measured, render
from benchmarks.load.workload import VIEWS, followed, questions, statements
from tests.harness import LocalDatabase


def test_readers_and_subscribers_find_their_views(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(statements(1000))
        assert len(db.status()["views"]) == VIEWS
        for text in {text for reader in range(20) for text in questions(reader)}:
            assert db.query(text).num_rows == 0
        with_names = {view["name"] for view in db.status()["views"]}
        assert {followed(subscriber) for subscriber in range(20)} <= with_names


def test_the_page_has_what_was_measured():
    answers = [i / 1000 for i in range(1, 101)]
    found = Measured(1.0, 11.0, 5_000_000, 2.0**30, 2.0**29, 2.0**31, answers, [0.5, 1.5], ["x"], 1_000_000, 20, 20)
    page = render(found)
    for cell in ("500,000 |", "10.0 |", "51 ms |", "96 ms |", "1.50 s |", "1.00 GB | 0.50 at first", "1 | x |"):
        assert cell in page, cell
