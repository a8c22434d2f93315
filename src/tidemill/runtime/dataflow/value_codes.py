"""Column values as 64-bit codes that are equal exactly where the values are equal in SQL.

Whole numbers and times are their own codes; the code of a double is its bits, with one zero and one NaN. The code of
any other value is its number in a dictionary, of lists, structs and maps as bytes (`nested_bytes`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.runtime.dataflow.nested_bytes import is_nested, nested_bytes, words_as_bytes
from tidemill.runtime.duckdb import duck

_NONE = np.empty(0, np.int64)


class JoinValues:
    """Codes of one class of equal columns: the same value has the same code in every column of the class."""

    def __init__(self) -> None:
        self.values: pa.Array | None = None

    def codes(self, column: pa.ChunkedArray | pa.Array) -> np.ndarray:
        """One code for each row; the column has no NULL."""
        column = _flat_column(column)
        own = own_codes(column)
        if own is not None:
            return own
        coded = one_array(column).dictionary_encode()
        if self.values is None:
            self.values = coded.dictionary
            return _words(coded.indices)
        place = _words(pc.fill_null(pc.index_in(coded.dictionary, value_set=self.values), -1))
        fresh = place < 0
        place[fresh] = len(self.values) + np.arange(fresh.sum())
        self.values = pa.concat_arrays([self.values, coded.dictionary.filter(pa.array(fresh))])
        return place[_words(coded.indices)]


def hash_rows(columns: Sequence[pa.ChunkedArray | pa.Array], rows: int) -> np.ndarray:
    """A hash of each row: equal values have equal hashes, in every process and for ever. No column has a NULL."""
    from tidemill.runtime.kernels.joins.delta_join_rows import hash_texts, hash_words

    hashes = np.zeros(rows, np.uint64)
    for column in map(_flat_column, columns):
        own = own_codes(column)
        if own is not None:
            hash_words(own, hashes)
        elif pa.types.is_decimal(column.type):
            for word in decimal_words(one_array(column)).T:
                hash_words(np.array(word), hashes)
        else:
            texts = one_array(column).cast(pa.large_binary())
            _, offsets, data = texts.buffers()
            bounds = np.array(np.frombuffer(offsets, np.int64, rows + 1, 8 * texts.offset))
            letters = np.frombuffer(data, np.uint8).copy() if data is not None else np.empty(0, np.uint8)
            hash_texts(bounds, letters, hashes)
    return hashes


def decimal_words(column: pa.Array) -> np.ndarray:
    """(low, high) words of each value of a DECIMAL of more than 18 digits."""
    return np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset).reshape(-1, 2)


def number_rows(columns: Sequence[pa.ChunkedArray | pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(ids, first): rows that agree on all columns, NULL equal to NULL, have one id; first[id] is the first of them.

    >>> ids, first = number_rows([pa.array([7, 8, 7]), pa.array(["a", "a", "a"])], 3)
    >>> ids.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    if not columns:
        return np.zeros(rows, np.int64), np.zeros(min(rows, 1), np.int64)
    ids, first = _NONE, _NONE
    for at, column in enumerate(columns):
        own, width = number_column(column)
        # Both factors are at most the number of rows, so the product is a word.
        ids, first = number(own if at == 0 else ids * width + own)
    return ids, first


def number(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ids, first) of words, in order of first appearance."""
    ids, _, first = match(values, _NONE)
    return ids, first


def rank_times(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the different times in order, the rank of each row's time from 0).

    >>> [x.tolist() for x in rank_times(np.array([30, 10, 30]))]
    [[10, 30], [1, 0, 1]]
    """
    ids, first = number(times.astype(np.int64))
    order = np.argsort(times[first], kind="stable")
    ranks = np.empty(len(first), np.int64)
    ranks[order] = np.arange(len(first))
    return times[first][order].astype(np.int64), ranks[ids]


def match(held: np.ndarray, sought: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ids of `held`, ids of `sought` or -1, first row of each id)."""
    # Imported on first use, as in every operator: loading numba costs a second.
    from tidemill.runtime.kernels.joins.delta_join_rows import match_values

    held_ids, sought_ids, first = (np.empty(len(a), np.int64) for a in (held, sought, held))
    count = match_values(held, sought, held_ids, sought_ids, first)
    return held_ids, sought_ids, first[:count].copy()


def distinct(hashes: np.ndarray) -> np.ndarray:
    """The different hashes, sorted, as `Arrangement.probe` takes them."""
    _, first = number(hashes.astype(np.int64))
    return np.sort(hashes[first])


def among(hashes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which hashes are wanted."""
    return match(wanted.astype(np.int64), hashes.astype(np.int64))[1] >= 0


def match_all(held: Sequence[np.ndarray], sought: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, int]:
    """(ids of `held`, ids of `sought` or -1, how many ids) for rows of several codes each."""
    held_ids, sought_ids, first = match(held[0], sought[0])
    for more_held, more_sought in zip(held[1:], sought[1:], strict=True):
        own, own_sought, own_first = match(more_held, more_sought)
        both = np.where((sought_ids < 0) | (own_sought < 0), -1, sought_ids * len(own_first) + own_sought)
        held_ids, sought_ids, first = match(held_ids * len(own_first) + own, both)
    return held_ids, sought_ids, len(first)


def own_codes(column: pa.ChunkedArray | pa.Array) -> np.ndarray | None:
    """The codes of values that are words, in the order of the values; None for other types. NULLs have any code."""
    kind = column.type
    if pa.types.is_floating(kind):
        numbers = _fill_nulls(column).astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.int64)
        return np.where(bits < 0, bits ^ np.int64((1 << 63) - 1), bits)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        column = column.cast(pa.int64())
    elif kind == pa.uint64():
        return _fill_nulls(column).view(np.int64) ^ np.int64(-(1 << 63))
    elif not pa.types.is_integer(kind):
        return None
    return _fill_nulls(column).astype(np.int64)


def number_column(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, int]:
    """Dense ids of a column's values and how many there are; NULL is one more value."""
    column = _plain_column(column)
    if is_nested(column.type):
        column = _pack(one_array(column))
    own = own_codes(column)
    if own is not None:
        ids, first = number(own)
    elif pa.types.is_decimal128(column.type):
        ids, first = _number_wide(decimal_words(one_array(column)))
    else:
        coded = one_array(column).dictionary_encode()
        ids, first = _words(pc.fill_null(coded.indices, len(coded.dictionary))), np.arange(len(coded.dictionary))
    count = len(first)
    if column.null_count:
        ids[one_array(column).is_null().to_numpy(zero_copy_only=False)] = count
        count += 1
    return ids, count


def differs(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """For each value but the first whether it is another than the one before, NULL equal to NULL.

    >>> differs(pa.array([1, 1, None, None, 2])).tolist()
    [False, True, False, True]
    """
    column = _plain_column(column)
    codes = own_codes(column)
    if codes is not None:
        found = codes[1:] != codes[:-1]
    elif pa.types.is_decimal128(column.type):
        words = decimal_words(one_array(column))
        found = (words[1:] != words[:-1]).any(axis=1)
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = one_array(column)
        found = ~pc.fill_null(pc.equal(texts[1:], texts[:-1]), True).to_numpy(zero_copy_only=False)
    else:
        numbers, _ = number_column(column)
        found = numbers[1:] != numbers[:-1]
    if column.null_count:
        null = one_array(column).is_null().to_numpy(zero_copy_only=False)
        found = np.where(null[1:] | null[:-1], null[1:] != null[:-1], found)
    return np.asarray(found)


def differ_at(column: pa.ChunkedArray | pa.Array, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each of some rows whether its value is another than that of the other row, NULL equal to NULL.

    >>> differ_at(pa.array([1, 2, None, None]), np.array([0, 2, 2]), np.array([1, 3, 0])).tolist()
    [True, False, True]
    """
    column = _plain_column(column)
    codes = own_codes(column)
    if codes is not None:
        found = codes[rows] != codes[others]
    elif pa.types.is_decimal128(column.type):
        words = decimal_words(one_array(column))
        found = (words[rows] != words[others]).any(axis=1)
    else:
        numbers, _ = number_column(column)
        found = numbers[rows] != numbers[others]
    if column.null_count:
        null = one_array(column).is_null().to_numpy(zero_copy_only=False)
        found = np.where(null[rows] | null[others], null[rows] != null[others], found)
    return np.asarray(found)


def _flat_column(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The column, of lists, structs and maps their bytes, which are the same whatever else is in the column."""
    column = _plain_column(column)
    return nested_bytes(one_array(column), _bytes_of) if is_nested(column.type) else column


def _pack(column: pa.Array) -> pa.Array:
    """Lists, structs and maps as bytes that are equal within this column where the values are."""
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_integer(kind.value_type) and not column.flatten().null_count:
        return _pack_numbers(column)
    return nested_bytes(column, _bytes_of)


def _pack_numbers(lists: pa.Array) -> pa.Array:
    """The bytes of lists of whole numbers without NULL."""
    values = lists.flatten()
    width = values.type.bit_width // 8
    data = values.buffers()[1].slice(width * values.offset) if len(values) else pa.py_buffer(b"")
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.append(0, np.cumsum(width * lengths))
    packed = pa.Array.from_buffers(pa.large_binary(), len(lists), [None, pa.py_buffer(offsets), data])
    return pc.if_else(pc.is_valid(lists), packed, None) if lists.null_count else packed


def _bytes_of(values: pa.Array) -> pa.Array:
    """Values that hold no others."""
    column = one_array(_plain_column(values))
    codes = own_codes(column)
    if codes is not None:
        found = words_as_bytes(codes)
    elif pa.types.is_decimal128(column.type):
        found = words_as_bytes(decimal_words(column), 16)
    else:
        return column.cast(pa.large_binary())
    return pc.if_else(column.is_valid(), found, None) if column.null_count else found


def _number_wide(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ids, first) of 128-bit numbers."""
    ids, first = number(np.ascontiguousarray(words[:, 0]))
    if (words[:, 1] == words[:, 0] >> 63).all():
        return ids, first
    high, high_first = number(np.ascontiguousarray(words[:, 1]))
    return number(ids * len(high_first) + high)


def _plain_column(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_interval(kind):
        # In SQL a month equals 30 days: intervals are compared by their length.
        length = "date_part('year', x) * 360 + date_part('month', x) * 30 + date_part('day', x)"
        sql = (
            f"SELECT CAST({length} AS HUGEINT) * 86400000000 + date_part('hour', x) * 3600000000"
            f" + date_part('minute', x) * 60000000 + date_part('microsecond', x) AS x FROM rows"
        )
        return duck.run(sql, rows=pa.table({"x": column})).column("x")
    return column


def _fill_nulls(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    if column.null_count:
        column = pc.fill_null(column, 0)
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)


def _words(column: pa.Array) -> np.ndarray:
    return column.to_numpy(zero_copy_only=False).astype(np.int64)


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column in one piece."""
    if isinstance(column, pa.Array):
        return column
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
