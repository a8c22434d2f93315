"""Opens a database, says how far it is, and runs until all input is taken in or until it is killed.

    python -m tests.spark.crash_child DATABASE DATA OUT
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import tidemill
from tests.spark import scenario
from tidemill.errors import EngineProblem

VIEWS = ("Levels", "Sizes", "SizesNow", "Occupied", "OccupiedNow")
BATCH_ROWS = 24
_PATIENCE = 30.0


def opened(path: str) -> Any:
    """The database; a process that has just been killed may hold it for a moment longer."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return tidemill.open(path, shards=2)
        except EngineProblem as problem:
            if problem.code != "TM601" or time.monotonic() > end:
                raise
            time.sleep(0.1)


def main(path: str, data: str, out: str) -> None:
    with opened(path) as db:
        if not db.execute("SHOW VIEWS").num_rows:
            scenario.create(db, Path(data), Path(out), batch_rows=BATCH_ROWS, views=VIEWS)
        db.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
