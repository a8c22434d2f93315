"""Scalar expressions as trees over the columns of one relation, made in `sql.bind` and by the rules.

`nodes` are what rules and predicate programs look into, and `Template` for all other SQL; `times` are the bounds of
windows. What crosses to DuckDB is the text that a tree renders.
"""

from __future__ import annotations

from tidemill.plan.scalars.nodes import (
    Between,
    Cast,
    Chain,
    ColumnRef,
    Hidden,
    In,
    IsNull,
    Literal,
    Negative,
    Not,
    Operation,
    Paren,
    Scalar,
    Template,
    When,
    WhereCounted,
    conjunction,
    flatten,
    quoted,
    sql_of,
    template,
)
from tidemill.plan.scalars.times import Ceiling, Epoch, Extreme, Shift, Timestamp, shift_of, undo_rounding

__all__ = [
    "Between",
    "Cast",
    "Ceiling",
    "Chain",
    "ColumnRef",
    "Epoch",
    "Extreme",
    "Hidden",
    "In",
    "IsNull",
    "Literal",
    "Negative",
    "Not",
    "Operation",
    "Paren",
    "Scalar",
    "Shift",
    "Template",
    "Timestamp",
    "When",
    "WhereCounted",
    "conjunction",
    "flatten",
    "quoted",
    "shift_of",
    "sql_of",
    "template",
    "undo_rounding",
]
