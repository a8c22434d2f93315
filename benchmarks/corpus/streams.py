"""Tables as streams: the rows of a table as a log that arrives in several batches.

`append`: the rows themselves, one at each time. `keyed`: each row is first inserted with the values of another one and
then updated, and rows that are not in the table are inserted and deleted again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from benchmarks.corpus.oracle import Table

Mode = Literal["append", "keyed"]
MODES: tuple[Mode, ...] = ("append", "keyed")
_BATCHES = 3


def write_stream(table: Table, mode: Mode, folder: Path, number: int) -> str:
    """The statements that make a table a stream with a virtual view of its name over it; its file is written."""
    names = [name for name, _ in table.columns]
    log = _append_log(table.rows) if mode == "append" else _keyed_log(table.rows)
    path = folder / f"t{number}.arrow"
    renamed = log.rename_columns([f"c{i}" for i in range(len(names))] + ["id_", "op_", "at_"])
    with pa.ipc.new_file(str(path), renamed.schema) as file:
        file.write_table(renamed)
    types = ", ".join(f"c{i} {type_}" for i, (_, type_) in enumerate(table.columns))
    batch = max(1, -(-log.num_rows // _BATCHES))
    operation = ", operation = 'op_'" if mode == "keyed" else ""
    shown = ", ".join(f"c{i} AS {_quoted(name)}" for i, name in enumerate(names))
    key = " KEY id_" if mode == "keyed" else ""
    return f"""
        REGISTER SOURCE raw_{number} ({types}, id_ BIGINT, op_ VARCHAR, at_ BIGINT) FROM FILES '{path}'
        WITH (timestamp = 'at_', batch_rows = {batch}{operation});
        CREATE TAGGED STREAM stream_{number} OVER raw_{number}{key};
        CREATE VIRTUAL VIEW {_quoted(table.name)} AS SELECT {shown} FROM stream_{number};
    """


def _append_log(rows: pa.Table) -> pa.Table:
    return _log(rows, np.arange(rows.num_rows), np.arange(rows.num_rows), ["+"] * rows.num_rows)


def _keyed_log(rows: pa.Table) -> pa.Table:
    """Wrong values, rows that are too many, then the right values; rows that stay wrong are deleted."""
    n = rows.num_rows
    if n == 0:
        return _log(rows, np.arange(0), np.arange(0), [])
    own = np.arange(n)
    decoys = np.concatenate([np.roll(own, -1), own[: n // 2 + 1]])
    ids = np.concatenate([own, n + own[: n // 2 + 1]])
    picked = np.concatenate([decoys, own, own[: n // 2 + 1]])
    keys = np.concatenate([ids, own, n + own[: n // 2 + 1]])
    operations = ["+"] * len(ids) + ["u"] * n + ["-"] * (n // 2 + 1)
    return _log(rows.take(pa.array(picked)), np.arange(len(picked)), keys, operations)


def _log(rows: pa.Table, times: np.ndarray, keys: np.ndarray, operations: list[str]) -> pa.Table:
    log = rows.append_column("id_", pa.array(keys, pa.int64()))
    log = log.append_column("op_", pa.array(operations, pa.string()))
    return log.append_column("at_", pa.array(times, pa.int64()))


def _quoted(name: str) -> str:
    return '"' + name.strip('"').replace('"', '""') + '"'
