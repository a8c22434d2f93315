"""Equal rows have equal numbers, found column by column, where Arrow and SQL agree on what is equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def compares_as_sql(kind: pa.DataType) -> bool:
    """SQL and Arrow agree on which values are equal; they do not for −0.0 and NaN, intervals and nested values."""
    kinds = pa.types
    tests = (
        kinds.is_boolean,
        kinds.is_integer,
        kinds.is_decimal,
        kinds.is_string,
        kinds.is_binary,
        kinds.is_date,
        kinds.is_time,
        kinds.is_timestamp,
    )
    return any(test(kind) for test in tests)


def has_plain_floats(column: pa.ChunkedArray) -> bool:
    """Whether a column of floats has neither −0.0 nor NaN.

    >>> [has_plain_floats(pa.chunked_array([[value, None]])) for value in (0.0, 1.5, -0.0, float("nan"))]
    [True, True, False, False]
    """
    if not pa.types.is_floating(column.type):
        return False
    values = pc.fill_null(column, 1).to_numpy()
    return not bool((np.isnan(values) | ((values == 0) & np.signbit(values))).any())


def number_rows(columns: Sequence[pa.ChunkedArray], rows: int) -> np.ndarray:
    """For each row a number 0, 1, … by first appearance; rows that agree on the columns, NULL equal to NULL, have the
    same.

    >>> number_rows([pa.chunked_array([["b", "a", None, "b", None]])], 5).tolist()
    [0, 1, 2, 0, 2]
    """
    number = np.zeros(rows, np.int64)
    for column in columns:
        coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        # Both factors are at most the number of rows, so the product is a word.
        pair = number * len(coded.dictionary) + coded.indices.to_numpy()
        number = pair if len(columns) == 1 else number_values(pa.array(pair))
    return number


def number_values(values: pa.Array) -> np.ndarray:
    """The same for one column without NULLs."""
    return values.dictionary_encode().indices.to_numpy().astype(np.int64)


def first_places(number: np.ndarray) -> np.ndarray:
    """Where each number comes first.

    >>> first_places(np.array([0, 1, 0, 2, 1])).tolist()
    [0, 1, 3]
    """
    first = np.empty(int(number.max(initial=-1)) + 1, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    return first
