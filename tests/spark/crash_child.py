"""A process that runs a database until all input is taken in, or until it is killed.

python -m tests.spark.crash_child DATABASE           takes in every file
python -m tests.spark.crash_child DATABASE ROWS      runs live until the view Totals has counted this many rows
"""

from __future__ import annotations

import sys
import time
from typing import Any

import tidemill
from tidemill.errors import EngineProblem

_PATIENCE = 30.0


def opened(path: str) -> Any:
    """The database; a process that has just been killed may hold it for a moment longer."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return tidemill.open(path)
        except EngineProblem as problem:
            if problem.code != "TM601" or time.monotonic() > end:
                raise
            time.sleep(0.1)


def main(path: str, rows: str | None = None) -> None:
    with opened(path) as db:
        if rows is None:
            db.run(final=True)
            return
        with db.running():
            while (db.query("SELECT sum(n) AS n FROM Totals").column("n")[0].as_py() or 0) < int(rows):
                assert db.is_running
                time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
