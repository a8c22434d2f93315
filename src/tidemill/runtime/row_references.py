"""Texts of joined rows as references to the rows they come from.

A join repeats a row as often as it has partners, and with it texts of hundreds of bytes. In Arrow a column may be a
dictionary with an index for each row: here the dictionary is the column of the input, and all columns of one input have
the same index. Filters, sorts and further joins then move indexes of four bytes; texts are copied when they are stored
or sent, and only those that are left.

    rows          partners of rows     a column of the joined rows
    0 "a long text"    1, 1, 0         index 1, 1, 0 of ["a long text", "another one"]
    1 "another one"

The values of such a dictionary may be equal, and some may be used by no row. A column with NULLs is not referred to, so
that the count of its NULLs is known. Only operators that say so (`takes_references`) get such columns; for all others
`write_out` makes the plain ones.

The fast path `row_references`: exactly the same rows, in another form of the same values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidemill.runtime import fast_paths

_REFERRED = (pa.string(), pa.binary())
_MOST = (1 << 31) - 1  # rows that an index of 32 bits can name
_FEW = 2  # where less than one row in this many is taken, texts are copied: the others need not be kept in memory


def take_rows(table: pa.Table, rows: np.ndarray, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Columns of some rows, texts as references.

    >>> taken = take_rows(pa.table({"t": ["x", "y"], "n": [1, 2]}), np.array([1, 1, 0]), ["t", "n"])
    >>> str(taken["t"].type), taken["t"].to_pylist(), taken["n"].to_pylist()
    ('dictionary<values=string, indices=int32, ordered=0>', ['y', 'y', 'x'], [2, 2, 1])
    """
    table = write_unless_one(table.select(list(names)))
    refers = fast_paths.is_on("row_references") and table.num_rows <= min(_MOST, _FEW * len(rows))
    wide = [f.name for f in table.schema if refers and f.type in _REFERRED and not table.column(f.name).null_count]
    plain = table.drop_columns(wide)
    others = plain.combine_chunks().take(pa.array(rows)) if plain.num_columns else plain
    index = pa.array(rows.astype(np.int32)) if wide else None
    return {name: _refer(table.column(name), index) if name in wide else others.column(name) for name in names}


def write_out(table: pa.Table) -> pa.Table:
    """The same rows with texts in the place of references."""
    for place, field in enumerate(table.schema):
        if is_reference(field.type):
            plain = pa.field(field.name, field.type.value_type, metadata=field.metadata)
            table = table.set_column(place, plain, _write_column(table.column(place)))
    return table


def write_unless_one(table: pa.Table) -> pa.Table:
    """The same rows; texts where a column refers to several dictionaries, which cannot be put together for nothing."""
    several = any(is_reference(f.type) and table.column(f.name).num_chunks > 1 for f in table.schema)
    return write_out(table) if several else table


def keep_dictionaries(table: pa.Table, rows: int) -> tuple[pa.Table, int]:
    """(the rows with those references kept of which a dictionary without equal values has at most half as many as
    `rows`, the bytes of the largest of these dictionaries). They can be written to a file as they are.
    """
    largest = 0
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if not is_reference(field.type):
            continue
        if column.num_chunks == 1 and 2 * len(column.chunk(0).dictionary) <= rows:
            column = pa.chunked_array([_merge_equal(column.chunk(0))])
            largest = max(largest, column.chunk(0).dictionary.nbytes)
            table = table.set_column(place, field.name, column)
        else:
            table = table.set_column(place, field.name, _write_column(column))
    return table, largest


def concat_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows; with texts where some tables have them."""
    alike = all(t.schema.equals(tables[0].schema) for t in tables)
    return pa.concat_tables(tables if alike else [write_out(t) for t in tables])


def is_reference(kind: pa.DataType) -> bool:
    """Whether a column of this type refers to texts."""
    return bool(pa.types.is_dictionary(kind) and kind.value_type in _REFERRED)


def _refer(column: pa.ChunkedArray, index: pa.Array) -> pa.ChunkedArray:
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # more bytes than one array of texts can have
        return column.take(index)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(index, column)])


def _merge_equal(column: pa.DictionaryArray) -> pa.DictionaryArray:
    values = column.dictionary.dictionary_encode()
    index = values.indices.take(column.indices)
    return pa.DictionaryArray.from_arrays(index.cast(pa.int32()), values.dictionary)


def _write_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [chunk.dictionary.take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type.value_type)
