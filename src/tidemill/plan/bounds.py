"""When rows enter and leave windows, as SQL text: written here, and read back here.

Rules understand only what these functions write; any other text is an expression like others: nothing is guessed.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import exp, parse_one

from tidemill.plan.relations import sync_ceiling

_SUM = re.compile(r'\(("(?:[^"]|"")+") ([+-]) ([0-9]+)\)')


def shift_of(sql: str) -> tuple[str, int] | None:
    """(column, c) when the expression is a column plus a constant c; None for anything else.

    >>> shift_of('(("__ts" - 3) + 10)'), shift_of('least(("__ts" + 5), "__ts")'), shift_of('"a" * 2')
    (('__ts', 7), ('__ts', 0), None)
    """
    written = _SUM.fullmatch(sql)
    if written is not None:  # as windows write it: thousands of queries, and no need of a parser
        return written[1][1:-1].replace('""', '"'), int(written[2] + written[3])
    return _parsed(sql)


@lru_cache(maxsize=4096)
def _parsed(sql: str) -> tuple[str, int] | None:
    return _shift(parse_one(sql, dialect="duckdb"))


def _shift(node: exp.Expr) -> tuple[str, int] | None:
    if isinstance(node, exp.Paren):
        return _shift(node.this)
    if isinstance(node, exp.Column):
        return (node.name, 0) if len(node.parts) == 1 and node.this.quoted else None
    if isinstance(node, (exp.Add, exp.Sub)):
        base, length = _shift(node.this), node.expression
        if base is None or not isinstance(length, exp.Literal) or length.is_string or not length.name.isdigit():
            return None
        return base[0], base[1] + (int(length.name) if isinstance(node, exp.Add) else -int(length.name))
    if isinstance(node, (exp.Greatest, exp.Least)):
        found = [_shift(n) for n in (node.this, *node.expressions)]
        known = [f for f in found if f is not None]
        if len(known) == len(found) and len({column for column, _ in known}) == 1:
            extreme = max if isinstance(node, exp.Greatest) else min
            return known[0][0], extreme(c for _, c in known)
    return None


def ceiling_of(sql: str, every: int, offset: int) -> str | None:
    """The time of which the expression is the `sync_ceiling`; None for anything else.

    >>> ceiling_of(sync_ceiling('("__ts" + 1)', 5, 3), 5, 3)
    '("__ts" + 1)'
    """
    time = sql.partition(f" + (({offset} - ")[0][1:]
    return time if sql == sync_ceiling(time, every, offset) else None


def epoch_number(time: str, length: int, type_name: str) -> str:
    """SQL for ⌊time / length⌋: one number for each epoch of this length, before time 0 too.

    >>> epoch_number('"__ts"', 5, "INTEGER")
    'CAST("__ts" // 5 - CASE WHEN "__ts" % 5 < 0 THEN 1 ELSE 0 END AS INTEGER)'
    """
    # DuckDB divides towards zero: without the correction the epochs beside time 0 would share a number.
    return f"CAST({time} // {length} - CASE WHEN {time} % {length} < 0 THEN 1 ELSE 0 END AS {type_name})"


def epoch_of(sql: str, length: int, type_name: str) -> str | None:
    """The time of which the expression is the `epoch_number`; None for anything else.

    >>> epoch_of(epoch_number('("__ts" - 3)', 5, "BIGINT"), 5, "BIGINT")
    '("__ts" - 3)'
    """
    time = sql.partition(f" // {length} - ")[0].removeprefix("CAST(")
    return time if sql == epoch_number(time, length, type_name) else None
