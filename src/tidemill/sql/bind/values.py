"""VALUES as an item of FROM, and the one row of a SELECT without FROM: rows that are there before all others.

The plan has numbered rows only, and a list of each column: row number i takes its i-th value. So what stands in VALUES
is checked, typed and computed as every other expression is.
"""

from __future__ import annotations

import duckdb
from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS
from tidemill.plan.relations import Item
from tidemill.plan.scalars import ColumnRef, Scalar, Template, template
from tidemill.plan.sources import Column
from tidemill.sql.bind.scalar import Bound, Scalars, cast_null_column, first_value, fit_arrow, types_of
from tidemill.sql.bind.scope import Field, Input, Scope, problem
from tidemill.sql.bind.stars import star_of

ROW = Column("__row", "BIGINT")
ROWS = "__rows"  # and how many: the name of the source of numbered rows
MOST_VALUES = 100_000
MOST_NUMBERS = 1_000_000


def one_row(select: exp.Select) -> exp.Values:
    """What a SELECT without FROM reads."""
    if any(star_of(item) is not None for item in select.expressions):
        raise problem("* without FROM has no columns", select, code="TM202", hint="name a stream or a view in FROM")
    return exp.Values(expressions=[])


def bind_values(node: exp.Values, alias: str, unit_us: int, birth: int) -> Input:
    """The rows of VALUES, in columns col0, col1, …; without any, one row whose only column no query can name."""
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    constants = r.Constants(f"{ROWS}{len(rows) or 1}", (ROW,), birth, static=True, rows=len(rows) or 1)
    if not rows:
        return Input(alias, constants, (Field(ROW.name, ROW.name, ROW.type),), None, None, None)
    _check_shape(rows, node)
    scalars = Scalars(Scope([], constants, unit_us))
    columns = [_column(index, list(cells), scalars) for index, cells in enumerate(zip(*rows, strict=True))]
    items = tuple(Item(f"col{i}", column.value, column.type) for i, column in enumerate(columns))
    fields = tuple(Field(i.name, i.name, i.type) for i in items)
    return Input(alias, r.Project(constants, items), fields, None, None, None)


def bind_series(node: exp.Table, alias: str, unit_us: int, birth: int) -> Input:
    """range(begin, end, step) and generate_series(begin, end, step) of whole numbers that are constants."""
    call = node.this
    empty = Scalars(Scope([], r.Constants(f"{ROWS}1", (ROW,), birth, static=True), unit_us))
    given = [call.args.get("start"), call.args.get("end"), call.args.get("step") or exp.Literal.number(1)]
    begin, end, step = (_whole_number(part, empty, node) for part in given)
    if step == 0:
        raise problem("the step of a series cannot be 0", node, code="TM202", hint="for example  range(0, 10, 2)")
    last = end if call.args.get("is_end_exclusive") else end + (1 if step > 0 else -1)
    numbers = range(begin, last, step)
    if len(numbers) > MOST_NUMBERS:
        raise problem(f"a series has at most {MOST_NUMBERS} numbers", node, code="TM104", hint="a shorter one")
    constants = r.Constants(f"{ROWS}{len(numbers)}", (ROW,), birth, static=True, rows=len(numbers))
    value = template(f"CAST({begin} AS BIGINT) + {{0}} * CAST({step} AS BIGINT)", ColumnRef(ROW.name))
    name = "range" if call.args.get("is_end_exclusive") else "generate_series"
    fields = (Field(name, name, "BIGINT"),)
    return Input(alias, r.Project(constants, (Item(name, value, "BIGINT"),)), fields, None, None, None)


def _whole_number(part: exp.Expression | None, empty: Scalars, node: exp.Table) -> int:
    """The value of a constant that DuckDB takes for a BIGINT."""
    bound = empty.bind(part) if part is not None else None
    found = first_value(f"SELECT {bound.sql}") if bound is not None and bound.type in INTEGERS else None
    if not isinstance(found, int) or not -(1 << 62) < found < 1 << 62:
        raise problem(
            "the bounds and the step of a series are constants, whole numbers",
            node,
            code="TM202",
            hint="for example  range(0, 10, 2)",
        )
    return found


def _check_shape(rows: list[list[exp.Expression]], node: exp.Values) -> None:
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        least, most = min(widths), max(widths)
        raise problem(
            f"rows of VALUES have {least} and {most} columns", node, code="TM202", hint="all rows have the same columns"
        )
    if len(rows) * max(widths) > MOST_VALUES:
        raise problem(
            f"VALUES has more than {MOST_VALUES} values",
            node,
            code="TM104",
            hint="put them into a file: REGISTER TABLE name (…) FROM FILES '…'",
        )


def _column(index: int, cells: list[exp.Expression], scalars: Scalars) -> Bound:
    """Column number `index` of all rows; refused where a value has no type in common with the others, or fails."""
    values = tuple(scalars.value(cell) for cell in cells)
    listed = Template(("[", *([", "] * (len(values) - 1)), "]"), values)
    try:
        (kind,) = types_of([f"({listed.sql})[1]"], ())
        first_value(f"SELECT {listed.sql}")
    except Exception as error:
        message = getattr(error, "message", None) or str(error).splitlines()[0].partition(": ")[2]
        if not isinstance(error, duckdb.Error) and getattr(error, "code", "") != "TM203":
            raise
        hint = "the values of a column have one type, as in DuckDB"
        raise problem(f"column {index + 1} of VALUES: {message}", cells[0], code="TM203", hint=hint) from None
    value: Scalar = values[0] if len(values) == 1 else template("({0})[{1} + 1]", listed, ColumnRef(ROW.name))
    return cast_null_column(fit_arrow(Bound(value, kind), cells[0]))
