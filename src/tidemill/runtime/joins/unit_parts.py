"""The parts of single rows that can be read off their arguments: COUNT and SUM of whole numbers need no SQL.

A row of a window in late form then costs no more than its columns, which is what makes late aggregation cheap where
there is nothing to add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.aggregates import INTEGERS, Aggregate
from tidemill.plan.aggregates import parts as parts_of
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.annotations import PartSpec

WORDS = INTEGERS - {"UBIGINT", "HUGEINT"}  # their sum over the rows of a batch fits 128 bits


class PlainPart(NamedTuple):
    """A part that is the value of a column (NULL is 0), or whether there is one."""

    name: str
    column: str
    summed: bool


def plain_parts(args: Sequence[Column], specs: Sequence[PartSpec]) -> tuple[PlainPart, ...] | None:
    """The parts as columns of their arguments; None where one of them needs SQL.

    >>> sql = 'CAST(coalesce(sum(CAST("v" AS HUGEINT) * __diff), 0) AS HUGEINT)'
    >>> plain_parts([Column("v", "INTEGER")], [PartSpec("v__s", "HUGEINT", "sum", sql)])
    (PlainPart(name='v__s', column='v', summed=True),)
    >>> plain_parts([Column("v", "DOUBLE")], [PartSpec("v__s", "HUGEINT", "sum", sql)])
    """
    known: dict[str, tuple[str, bool]] = {}
    for arg in args:
        if arg.type in WORDS:
            count, total = parts_of(Aggregate("sum", arg.name, arg.type, "", "HUGEINT"), False)
            known |= {count.sql: (arg.name, False), total.sql: (arg.name, True)}
    if not all(spec.sql in known for spec in specs):
        return None
    return tuple(PlainPart(spec.name, *known[spec.sql]) for spec in specs)


def read_parts(rows: pa.Table, plain: Sequence[PlainPart]) -> pa.Table:
    """The parts of one copy of each row."""
    found = {}
    for part in plain:
        column = rows.column(part.column)
        if part.summed:
            found[part.name] = pc.fill_null(column, 0) if column.null_count else column
        elif column.null_count:
            found[part.name] = column.is_valid().cast(pa.int64())
        else:
            found[part.name] = pa.chunked_array([np.ones(rows.num_rows, np.int64)])
    return pa.table(found)
