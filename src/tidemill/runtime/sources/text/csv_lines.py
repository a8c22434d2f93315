"""CSV lines into undecoded columns.

The Arrow parser reads a block at once. It lets a quoted field run over line ends, which would make
a record depend on its neighbours, so the count of parsed records is checked against the count of
lines: with no CR in the text each line end closes at most one record, hence equal counts prove
that every line was read alone. A block that fails is halved until the guilty lines are alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tidemill.plan.sources import Column
from tidemill.runtime.sources.columns import type_name
from tidemill.runtime.sources.records import good_numbers
from tidemill.runtime.sources.text.lines import CR, Fields, Layout, Lines


def csv_fields(lines: Lines, layout: Layout, columns: Sequence[Column]) -> Fields:
    """The declared columns as text, NULL where the field is the null string.

    A quoted empty field is an empty VARCHAR, and NULL in a column of any other type.
    """
    bad = _inner_returns(lines)
    index = good_numbers(len(lines), bad)
    tables: list[pa.Table] = []
    kept: list[np.ndarray] = []
    _parse_halving(lines.pick(index), index, layout, tables, kept, bad)
    table = pa.concat_tables(tables) if tables else _empty(layout)
    raw = [table.column(f"f{place}") for place in layout.places]
    for i, column in enumerate(columns):
        if type_name(column.type) != "VARCHAR":
            raw[i] = _without_empty(raw[i])
    return Fields(raw, np.concatenate(kept) if kept else np.empty(0, np.int64), bad)


def _inner_returns(lines: Lines) -> dict[int, str]:
    octets = np.frombuffer(lines.data, np.uint8)
    returns = np.flatnonzero(octets == CR)
    owner = np.searchsorted(lines.starts, returns, "right") - 1
    inside = (owner >= 0) & (returns < lines.ends[owner]) if len(lines) else np.zeros(len(owner), bool)
    return {int(i): "carriage return inside the record" for i in np.unique(owner[inside])}


def _parse_halving(
    lines: Lines, index: np.ndarray, layout: Layout, tables: list[pa.Table], kept: list[np.ndarray], bad: dict[int, str]
) -> None:
    if not len(lines):
        return
    table, wrong = _parse(lines.text(), layout)
    if table is not None and table.num_rows + len(wrong) == len(lines) + 2:
        for i, width in wrong.items():
            bad[int(index[i])] = f"{width} fields where {layout.width} were expected"
        tables.append(table.slice(1, table.num_rows - 2))
        kept.append(np.delete(index, list(wrong)))
    elif len(lines) == 1:
        bad[int(index[0])] = "quoted field is not closed"
    else:
        half = len(lines) // 2
        for part in (np.arange(half), np.arange(half, len(lines))):
            _parse_halving(lines.pick(part), index[part], layout, tables, kept, bad)


def _parse(text: bytes, layout: Layout) -> tuple[pa.Table | None, dict[int, int]]:
    # A guard line before keeps the parser from eating a byte order mark of the first record; one
    # behind makes an unclosed quote in the last record visible in the count.
    guard = layout.delimiter.encode() * (layout.width - 1) + b"\n"
    data = b"".join([guard, text, b"" if text.endswith(b"\n") else b"\n", guard])
    wrong: dict[int, int] = {}

    def skip(row: pacsv.InvalidRow) -> str:
        wrong[row.number - 2] = row.actual_columns
        return "skip"

    names = [f"f{i}" for i in range(layout.width)]
    wanted = [f"f{place}" for place in layout.places]
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            parse_options=pacsv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char=layout.quote or False,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=wanted,
                column_types={name: pa.string() for name in names},
                null_values=[layout.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None, {}
    return table, wrong


def _empty(layout: Layout) -> pa.Table:
    return pa.schema([(f"f{place}", pa.string()) for place in layout.places]).empty_table()


def _without_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    empty = pc.equal(column, "")
    return pc.if_else(empty, pa.scalar(None, pa.string()), column) if pc.any(empty).as_py() else column
