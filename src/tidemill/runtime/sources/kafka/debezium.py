"""Envelopes of Debezium: {"before": …, "after": …, "op": "c"} with or without {"schema": …, "payload": …} around it.

The row is what is after the change, or before it where the change is a deletion; `op` becomes the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import query
from tidemill.runtime.sources.records import good_numbers
from tidemill.runtime.sources.text.decode import Decoded, decode
from tidemill.runtime.sources.text.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

OPERATIONS = ("c", "r", "u", "d")
_SQL = """
SELECT op, CAST(CASE WHEN op = 'd' THEN before ELSE after END AS VARCHAR) AS record
FROM (SELECT e ->> '$.op' AS op, e -> '$.before' AS before, e -> '$.after' AS after
      FROM (SELECT CASE WHEN json_exists(v, '$.payload.op') THEN v -> '$.payload' ELSE v END AS e
            FROM (SELECT CASE WHEN json_valid(line) THEN CAST(line AS JSON) END AS v FROM lines)))
"""


def unwrap(spec: SourceSpec, narrow: SourceSpec, values: Sequence[bytes]) -> Decoded:
    """The rows of envelopes: the columns of the source that are in the record, then the operation."""
    bad: dict[int, str] = {}
    texts = _texts(values, bad)
    found = query(_SQL, "lines", pa.table({"line": pa.array(texts, pa.string())}))
    operations, records = found.column("op").to_pylist(), found.column("record").to_pylist()
    for i, (text, operation, record) in enumerate(zip(texts, operations, records, strict=True)):
        if i not in bad and text is not None:
            reason = _why_not(operation, record)
            if reason is not None:
                bad[i] = reason
    index = good_numbers(len(values), bad)
    decoded = decode(_lines([records[i].encode() for i in index.tolist()]), narrow, None)
    bad |= {int(index[i]): reason for i, reason in decoded.bad.items()}
    kept = index[decoded.index]
    words = pa.array([operations[i] for i in kept.tolist()], pa.string())
    rows = decoded.rows.append_column(pa.field(str(spec.operation), pa.string()), pc.cast(words, pa.string()))
    return Decoded(rows, kept, bad, decoded.undeclared)


def _texts(values: Sequence[bytes], bad: dict[int, str]) -> list[str | None]:
    texts: list[str | None] = []
    for i, value in enumerate(values):
        try:
            texts.append(value.decode())
        except UnicodeDecodeError:
            bad[i] = "not valid UTF-8"
            texts.append(None)
    return texts


def _why_not(operation: str | None, record: str | None) -> str | None:
    if operation is None:
        return "no envelope of Debezium: there is no op"
    if operation not in OPERATIONS:
        return f'an envelope with op "{operation}", which is no change of a row'
    if record is None or record == "null":
        return f'an envelope with op "{operation}" without the row {"before" if operation == "d" else "after"} it'
    return None


def _lines(records: list[bytes]) -> Lines:
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(lengths + 1) - 1
    return Lines(b"\n".join(records) + b"\n" if records else b"", ends - lengths, ends, whole=True)
