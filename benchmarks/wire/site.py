"""One site as a process without Spark: commands as lines of JSON, micro-batches in between."""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

from tests.harness import LocalDatabase


def answer(db: LocalDatabase, command: dict[str, Any], idle: float) -> Any:
    """Do what a line says; `idle` are the seconds in which there was nothing else to do."""
    if "idle" in command:
        return idle
    if "execute" in command:
        db.execute(command["execute"])
        return "done"
    if "start" in command:
        db.start()
        return "started"
    if "rows" in command:
        return db.changes(command["rows"]).num_rows
    reads = [edge for site in db.status()["sites"] for edge in site["reads"]]
    return [(edge["name"], edge["frontier"], edge["problem"]) for edge in reads]


def main(folder: str) -> None:
    """Until the end of the input."""
    with LocalDatabase(folder, shards=1, cores=1) as db:
        print(json.dumps("ready"), flush=True)
        worked = time.monotonic()
        while True:
            busy = db.planner is not None and db.step()
            worked = time.monotonic() if busy else worked
            if select.select([sys.stdin], [], [], 0.0 if busy else 0.02)[0]:
                line = sys.stdin.readline()
                if not line:
                    return
                print(json.dumps(answer(db, json.loads(line), time.monotonic() - worked)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
