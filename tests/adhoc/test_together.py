"""A query that takes long holds up no other one."""

from __future__ import annotations

import threading
import time

from tidemill.errors import TidemillError


def test_other_statements_do_not_wait_for_a_query(db):
    """execute("SELECT …") of one thread held the lock of all statements until it was answered."""
    problems: list[str] = []

    def ask() -> None:
        try:
            db.execute("SELECT count(*) AS n FROM Log a, Log b, Log c, Log d, Log e")
        except TidemillError as error:
            problems.append(error.code)

    db.query("SELECT 1")
    db.execute("SET query_time = '6 seconds'")
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        time.sleep(0.5)
        began = time.monotonic()
        db.execute("CREATE VIEW Beside AS SELECT room FROM T; SELECT 1; DROP VIEW Beside; SHOW VIEWS")
        assert time.monotonic() - began < 4 and thread.is_alive()
    finally:
        thread.join()
        db.execute("SET query_time = '1 minute'")
    assert problems == ["TM517"]


def test_results_come_in_the_order_of_the_statements(db):
    told: list[str] = []
    last = db.execute(
        "CREATE VIEW A1 AS SELECT room FROM T; SELECT 7 AS x; DROP VIEW A1; SELECT 8 AS x",
        lambda result: told.append(str(result) if hasattr(result, "kind") else str(result.to_pylist())),
    )
    assert told[0].startswith("view A1 created")
    assert told[1:] == ["[{'x': 7}]", "view A1 dropped", "[{'x': 8}]"]
    assert last.to_pylist() == [{"x": 8}]
