"""What an RSTREAM, ISTREAM or DSTREAM view shows are not the rows of its query: they come again, or once a change."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.harness import LocalDatabase
from tests.properties.trial import contents_of

SETUP = """
REGISTER SOURCE S (k INTEGER, x INTEGER)
FROM GENERATE (rate = 1, rows = 20, seed = 3, k = 'uniform(1,3)', x = 'uniform(1,3)');
CREATE TAGGED STREAM T OVER S;
CREATE TAGGED STREAM K OVER S KEY k;
CREATE {kind} VIEW R AS SELECT k, x FROM K SYNC EVERY 2 SECONDS;
CREATE {kind} VIEW W AS SELECT window_start, k, count(*) AS n FROM T [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE VIEW A AS SELECT k, count(*) AS n, sum(x) AS s FROM K SYNC EVERY 2 SECONDS GROUP BY k;
CREATE VIEW G AS SELECT k, count(*) AS n FROM T [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k;
SET view_matching = {matching}
"""
READERS = {
    "OfRows": "SELECT k, count(*) AS n FROM R GROUP BY k",
    "Rows": "SELECT k, x FROM R",
    "Times": "SELECT k, a.TS AS t FROM R AS a WHERE a.x > 1",
    "OfWindows": "SELECT k, sum(n) AS n FROM W GROUP BY k",
    "Starts": "SELECT k, n, window_start AS w FROM W WHERE n > 1",
    "Same": "SELECT k, x FROM K SYNC EVERY 2 SECONDS",
}


def answers(folder: Path, kind: str, matching: str) -> dict[str, Counter]:
    with LocalDatabase(str(folder / matching)) as db:
        db.execute(SETUP.format(kind=kind, matching=matching))
        for name, query in READERS.items():
            db.execute(f"CREATE VIEW {name} AS {query} WITH (unbounded_state = true)")
        db.run()
        return {name: contents_of(db, name) for name in READERS}


@pytest.mark.parametrize("kind", ["RSTREAM", "ISTREAM", "DSTREAM"])
def test_readers_see_what_it_shows(tmp_path, kind):
    """SELECT k, count(*) FROM R GROUP BY k over an RSTREAM view was answered from a view that groups the rows of its
    query, which come once; and SELECT TS FROM R ended in KeyError: 'TS'.
    """
    wanted = answers(tmp_path, kind, "off")
    assert all(wanted.values())
    assert answers(tmp_path, kind, "always") == wanted == answers(tmp_path, kind, "auto")
