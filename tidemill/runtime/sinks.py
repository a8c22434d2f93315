"""Change logs outside the database: one file for each micro-batch that changed something, or the console.

A file is renamed into place when it is complete and named by its batch, so a replayed batch writes the
same file again and a reader never sees half of one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.plan.python_values import json_text, python_rows
from tidemill.runtime import duck
from tidemill.runtime.views import StoredView, present

printer: Callable[[str], None] = print


def write(view: StoredView, changes: pa.Table, batch: int) -> None:
    """Send one batch of tagged changes to every sink of the view."""
    log = present(view, changes, duck.connection())
    for sink in view.sinks:
        _WRITERS[sink["target"]](sink, log, batch)


def _to_files(sink: dict[str, Any], log: pa.Table, batch: int) -> None:
    form = sink["options"].get("format", "parquet")
    folder = sink["path"]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"changes-{batch:012d}.{'parquet' if form == 'parquet' else 'jsonl'}")
    temporary = os.path.join(folder, f".{os.path.basename(path)}.part")
    if form == "parquet":
        pq.write_table(log, temporary)
    else:
        with open(temporary, "w", encoding="utf-8") as out:
            out.writelines(json_text(row) + "\n" for row in python_rows(log))
    os.replace(temporary, path)


def _to_console(sink: dict[str, Any], log: pa.Table, batch: int) -> None:
    for row in python_rows(log):
        tag, stamp = row.pop("TAG"), row.pop("TS", "")
        old = row.pop("OLD")
        was = f"  was {', '.join(str(v) for v in old.values())}" if old else ""
        printer(f"{sink['name']} {tag} <{', '.join(str(v) for v in row.values())}> {stamp}{was}")


_WRITERS: dict[str, Callable[[dict[str, Any], pa.Table, int], None]] = {"files": _to_files, "console": _to_console}
