"""Dead letters: rows and records that are put aside, as tables (source, reason, raw, position).

Rows become JSON column by column, without an object for each: a source that is late altogether has millions of them.
The text of a row is that of `json_text`, to the letter.
"""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.python_values import json_text, python_values
from tidemill.plan.sources import registered_name
from tidemill.runtime.sources.records import RAW_BYTES

# Characters that JSON writes in another way.
_ESCAPED = r"[^ !#-\[\]-~]"
# Python's years, 1 to 9999, in seconds.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


def make_dead_letters(source: str, reason: str, raws: pa.Array, places: pa.Array | None = None) -> pa.Table:
    """Dead letters of one source with one reason."""
    count = len(raws)
    return pa.table(
        {
            "source": pa.repeat(pa.scalar(source, pa.string()), count),
            "reason": pa.repeat(pa.scalar(reason, pa.string()), count),
            "raw": raws,
            "position": pa.repeat(pa.scalar("", pa.string()), count) if places is None else places,
        }
    )


def row_texts(rows: pa.Table) -> pa.Array:
    """Rows as JSON, without hidden columns and not longer than a dead letter may be."""
    names = [n for n in rows.column_names if not n.startswith("__")]
    if not names:
        return pa.repeat(pa.scalar(b"{}", pa.binary()), rows.num_rows)
    pieces: list[pa.Array | pa.Scalar] = []
    for name in names:
        before = f"{', ' if pieces else '{'}{json.dumps(name)}: "
        pieces += [pa.scalar(before, pa.large_string()), column_texts(rows.column(name)).cast(pa.large_string())]
    texts = pc.binary_join_element_wise(*pieces, pa.scalar("}", pa.large_string()), pa.scalar("", pa.large_string()))
    texts = texts.cast(pa.large_binary())
    if len(texts) and pc.max(pc.binary_length(texts)).as_py() > RAW_BYTES:
        texts = pc.binary_slice(texts, 0, RAW_BYTES)
    return _one(texts).cast(pa.binary())


def column_texts(column: pa.ChunkedArray) -> pa.Array:
    """Each value as JSON."""
    whole = _one(column)
    found = _plain_texts(whole)
    return _each_text(whole) if found is None else pc.fill_null(found, "null")


def row_positions(rows: pa.Table) -> pa.Array | None:
    """The position of each row in its source, where it has one."""
    return _one(rows.column("__seq").cast(pa.string())) if "__seq" in rows.column_names else None


def present_letters(letters: pa.Table, names: dict[str, str]) -> pa.Table:
    """Dead letters as users see them: sources by `names`, without instance numbers, raw bytes as text."""
    sources = _one(letters.column("source")).dictionary_encode()
    shown = [registered_name(names.get(s, s)) for s in sources.dictionary.to_pylist()]
    owners = pa.array(shown, pa.string()).take(sources.indices)
    raws = letters.column("raw")
    try:
        texts = raws.cast(pa.string())
    except pa.ArrowInvalid:  # some bytes are no text
        texts = pa.array([r.decode("utf-8", "replace") for r in raws.to_pylist()], pa.string())
    at = letters.column_names.index
    return letters.set_column(at("raw"), "raw", texts).set_column(at("source"), "source", owners)


def _plain_texts(column: pa.Array) -> pa.Array | None:
    """The texts of a column whose values all are spelled alike by Arrow; None where some may not be."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        plain = pc.and_not(pc.string_is_ascii(column), pc.match_substring_regex(column, _ESCAPED))
        return _quote(column) if pc.all(plain).as_py() else None
    if pa.types.is_timestamp(kind) and kind.tz is None and kind.unit == "us":
        return _moments(column)
    return None


def _moments(column: pa.Array) -> pa.Array | None:
    """As Python writes moments: with a fraction only where it is not zero."""
    ticks = column.cast(pa.int64())
    ends = pc.min_max(ticks)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and not (low >= _FIRST * 1_000_000 and high < (_LAST + 1) * 1_000_000):
        return None
    texts = column.cast(pa.string())
    short = pc.utf8_slice_codeunits(texts, 0, len(str(datetime.min)))
    return _quote(pc.if_else(pc.ends_with(texts, ".000000"), short, texts))


def _quote(texts: pa.Array) -> pa.Array:
    mark = pa.scalar('"', texts.type)
    return pc.binary_join_element_wise(mark, texts, mark, pa.scalar("", texts.type))


def _each_text(column: pa.Array) -> pa.Array:
    """By Python, one by one."""
    return pa.array([json_text(value) for value in python_values(column)], pa.large_string())


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
