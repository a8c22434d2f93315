"""Messages to typed rows: the value by its format, the other columns from around it.

What becomes of a message never depends on the messages around it. A message without a value deletes its key where the
source has a column of operations and one of keys; otherwise it is bad. After a deletion Debezium sends such a message
once more: it says nothing new, and is no row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import arrow_schema, convert
from tidemill.runtime.sources.kafka.avro import decode_avro
from tidemill.runtime.sources.kafka.debezium import unwrap
from tidemill.runtime.sources.kafka.metadata import KEY, metadata_array, metadata_columns, value_columns
from tidemill.runtime.sources.records import good_numbers
from tidemill.runtime.sources.text.decode import Decoded, decode
from tidemill.runtime.sources.text.lines import Lines, declared_layout

NO_VALUE = "it has no value"


@dataclass
class Rows:
    """Typed rows, the message of each, the reason of each message that is bad, and fields that are not declared."""

    table: pa.Table
    index: np.ndarray
    bad: dict[int, str]
    undeclared: dict[str, int] = field(default_factory=dict)


def decode_messages(spec: SourceSpec, messages: list[Any]) -> Rows:
    """The rows of some messages, in their order."""
    values = [message.value() for message in messages]
    empty = [i for i, value in enumerate(values) if value is None]
    deletes = _deletes(spec)
    bad = {} if deletes or spec.format == "debezium" else dict.fromkeys(empty, NO_VALUE)
    filled = np.delete(np.arange(len(values)), empty) if empty else np.arange(len(values))
    found = _decode_values(spec, [value for value in values if value is not None] if empty else values)
    bad |= {int(filled[i]): reason for i, reason in found.bad.items()}
    index, table = filled[found.index], found.rows
    if deletes and empty:
        table, index = _add_deletions(spec, table, index, np.array(empty))
    return _add_metadata(spec, table, index, messages, Rows(table, index, bad, found.undeclared))


def _deletes(spec: SourceSpec) -> bool:
    """Whether a message without a value deletes its key."""
    return spec.operation is not None and KEY in spec.options and spec.format != "debezium"


def _decode_values(spec: SourceSpec, values: list[bytes]) -> Decoded:
    """The columns that values hold; with the format debezium also the operation, as the last one."""
    narrow = replace(spec, columns=value_columns(spec))
    if spec.format == "debezium":
        return unwrap(spec, narrow, values)
    if not narrow.columns:
        return Decoded(_columnless(len(values)), np.arange(len(values)), {})
    if spec.format == "avro":
        return decode_avro(narrow, values)
    return decode(as_lines(values), narrow, declared_layout(narrow) if spec.format == "csv" else None)


def as_lines(values: list[bytes]) -> Lines:
    """Values in one buffer, as the decoders of text take them; a value may hold line ends."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(lengths + 1) - 1
    return Lines(b"\n".join(values) + b"\n" if values else b"", ends - lengths, ends, whole=True)


def _columnless(rows: int) -> pa.Table:
    return pa.table({"none": pa.nulls(rows)}).select([])


def _add_deletions(
    spec: SourceSpec, table: pa.Table, index: np.ndarray, empty: np.ndarray
) -> tuple[pa.Table, np.ndarray]:
    """Rows for messages without a value: all NULL but the operation; the key comes from around the value."""
    columns = [
        pa.array(["delete"] * len(empty)) if f.name == spec.operation else pa.nulls(len(empty), f.type)
        for f in table.schema
    ]
    whole = pa.concat_tables([table, pa.Table.from_arrays(columns, schema=table.schema)])
    numbers = np.concatenate([index, empty])
    order = np.argsort(numbers, kind="stable")
    return whole.take(pa.array(order)), numbers[order]


def _add_metadata(spec: SourceSpec, table: pa.Table, index: np.ndarray, messages: list[Any], rows: Rows) -> Rows:
    """The columns in their declared order, with those from around the values."""
    options = {name.lower(): option for option, name in metadata_columns(spec).items()}
    extra = [column for column in spec.columns if column.name.lower() in options]
    if not extra:
        return replace(rows, table=table.select([c.name for c in spec.columns]))
    kept = messages if len(index) == len(messages) else [messages[i] for i in index.tolist()]
    raw = [metadata_array(options[column.name.lower()], column, kept) for column in extra]
    made, reasons = convert(raw, extra)
    for i in range(len(extra)):
        table = table.append_column(made.schema.field(i), made.column(i))
    ordered = table.select([c.name for c in spec.columns])
    if reasons:
        rows.bad.update({int(index[i]): reason for i, reason in reasons.items()})
        good = good_numbers(len(index), reasons)
        ordered, index = ordered.take(pa.array(good)), index[good]
    return replace(rows, table=ordered.cast(arrow_schema(spec.columns)), index=index)
