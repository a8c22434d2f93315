"""Lists, structs and maps as bytes that are equal exactly where the values are equal in SQL, in every process.

A value inside of another is 0 where it is NULL; else 1, the length of its bytes, its bytes. Those of a list or a struct
are its parts one after the other; a map is a list of structs. So no two values have the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NOTHING = pa.scalar(b"", pa.large_binary())
_NULL = pa.scalar(b"\0", pa.large_binary())
_VALUE = pa.scalar(b"\1", pa.large_binary())

BytesOf = Callable[[pa.Array], pa.Array]


def is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind)) and not pa.types.is_dictionary(kind)


def nested_bytes(column: pa.Array, bytes_of: BytesOf) -> pa.Array:
    """The bytes of each value, NULL for NULL; `bytes_of` gives those of values that hold no others.

    >>> values = pa.array([[["a"], None], [["a", None]], None])
    >>> found = nested_bytes(values, lambda texts: texts.cast(pa.large_binary()))
    >>> found.null_count, found[0].as_py() != found[1].as_py()
    (1, True)
    """
    kind = column.type
    if pa.types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return nested_bytes(column.cast(pa.list_(pair)), bytes_of)
    if pa.types.is_struct(kind):
        parts = [_frame(part, bytes_of) for part in column.flatten()]
        found = pc.binary_join_element_wise(*parts, _NOTHING)
    else:
        found = pc.binary_join(_lists_of(column, bytes_of), _NOTHING)
    return pc.if_else(column.is_valid(), found, None) if column.null_count else found


def _lists_of(column: pa.Array, bytes_of: BytesOf) -> pa.LargeListArray:
    """For each list the framed bytes of its values; an empty one for NULL."""
    values = column.flatten()  # without those of lists that are NULL
    if pa.types.is_fixed_size_list(column.type):
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), column.type.list_size, 0)
    else:
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.append(0, np.cumsum(lengths.astype(np.int64)))
    return pa.LargeListArray.from_arrays(pa.array(offsets), _frame(values, bytes_of))


def _frame(values: pa.Array, bytes_of: BytesOf) -> pa.Array:
    """Mark, length, bytes of each value."""
    own = nested_bytes(values, bytes_of) if is_nested(values.type) else bytes_of(values)
    sizes = pc.fill_null(pc.binary_length(own), 0).cast(pa.int64())
    framed = pc.binary_join_element_wise(_VALUE, words_as_bytes(sizes.to_numpy(zero_copy_only=False)), own, _NOTHING)
    return pc.if_else(own.is_valid(), framed, _NULL)


def words_as_bytes(words: np.ndarray, width: int = 8) -> pa.Array:
    """The bytes of numbers of `width` bytes each."""
    count = words.nbytes // width
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int64) * width)
    return pa.Array.from_buffers(pa.large_binary(), count, [None, offsets, pa.py_buffer(np.ascontiguousarray(words))])
