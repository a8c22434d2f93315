"""Arrow tables with nested columns, in the form that DuckDB reads: it refuses a part of an array of structs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def whole(table: pa.Table) -> pa.Table:
    """The same rows; nested columns whose arrays are parts of larger ones are copied.

    >>> part = pa.table({"s": [{"a": 1}, {"a": 2}]}).slice(1)
    >>> whole(part).column("s").chunk(0).offset, whole(part).to_pylist()
    (0, [{'s': {'a': 2}}])
    """
    for i, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) and any(chunk.offset for chunk in table.column(i).chunks):
            chunks = [chunk.take(pa.array(np.arange(len(chunk)))) for chunk in table.column(i).chunks]
            table = table.set_column(i, field, pa.chunked_array(chunks, field.type))
    return table
