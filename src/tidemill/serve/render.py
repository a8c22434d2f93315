"""Arrow tables and tagged changes as text. Control characters in the data never reach the terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from tidemill.plan.python_values import python_rows, python_values
from tidemill.plan.value_text import clean, plain

TAG_STYLES = {"+": "green", "u": "yellow", "-": "red"}
LONGEST_CELL = 200


def format_count(number: float) -> str:
    """A number of things.

    >>> format_count(1234567), format_count(12.34)
    ('1,234,567', '12.3')
    """
    return f"{number:,.1f}" if isinstance(number, float) and number < 100 else f"{round(number):,}"


def format_size(number: float) -> str:
    """A number of bytes.

    >>> format_size(999), format_size(12_345_678)
    ('999 B', '12.3 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def format_length(seconds: float) -> str:
    """A length of time.

    >>> format_length(0.84), format_length(600), format_length(200_000)
    ('0.8 s', '10.0 min', '2.3 days')
    """
    for unit, many in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * many:
            return f"{seconds / many:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def grid(title: str | None = None, *columns: str) -> Table:
    """An empty table in our look; a column whose name begins with > is aligned to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(
            name.removeprefix(">"), justify="right" if name[:1] == ">" else "left", no_wrap=True, overflow="ellipsis"
        )
    return table


def table_of(table: pa.Table, limit: int | None = None, title: str | None = None, width: int | None = None) -> Table:
    """An Arrow table with numbers to the right, nulls dim, tags in colour; its first `limit` rows, `width` wide."""
    shown = grid(title, *((">" if _is_number(field.type) else "") + clean(field.name) for field in table.schema))
    head = table if limit is None else table.slice(0, limit)
    rows = [[_cell(name, value) for name, value in zip(table.column_names, row, strict=True)] for row in rows_of(head)]
    for row in rows:
        shown.add_row(*row)
    if width is not None:
        natural = [
            max([cell_len(str(column.header)), *(row[i].cell_len for row in rows)])
            for i, column in enumerate(shown.columns)
        ]
        for column, wide in zip(shown.columns, fit_widths(natural, width - 3 * len(natural)), strict=True):
            column.width = wide
    return shown


def fit_widths(widths: list[int], room: int) -> list[int]:
    """Column widths that fit into `room`: the widest columns are cut, narrow ones keep their width.

    >>> fit_widths([3, 40, 90], 63), fit_widths([3, 4], 63)
    ([3, 30, 30], [3, 4])
    """
    left, cap = room, max(widths, default=0)
    for place, wide in enumerate(sorted(widths)):
        share = max(1, left // (len(widths) - place))
        if wide > share:
            cap = share
            break
        left -= wide
    return [min(wide, cap) for wide in widths]


def rows_line(table: pa.Table, limit: int | None = None) -> str:
    """How many rows there are, and how many of them are shown.

    >>> rows_line(pa.table({"a": [1, 2, 3]}), limit=2)
    '3 rows, the first 2 shown'
    """
    rows = table.num_rows
    text = f"{rows:,} row" + ("" if rows == 1 else "s")
    return text if limit is None or rows <= limit else f"{text}, the first {limit:,} shown"


def rows_of(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    """The rows as tuples of Python values; columns may have equal names."""
    return zip(*(_values(column) for column in table.columns), strict=True)


def change_lines(name: str, table: pa.Table, limit: int | None = None) -> list[Text]:
    """One line for each tagged change, and a last one that counts what is left out."""
    lines = [_change_line(name, row) for row in python_rows(table if limit is None else table.slice(0, limit))]
    if limit is not None and table.num_rows > limit:
        lines.append(Text(f"  … {table.num_rows - limit:,} more changes of {clean(name)}", style="dim"))
    return lines


def _change_line(name: str, row: dict[str, Any]) -> Text:
    """+ 12:00:01 ParkLot VID=7 VType=car; an update shows what was there before."""
    tag, old = row.get("TAG") or "?", row.get("OLD") or {}
    line = Text()
    line.append(f"{clean(tag)} ", style=f"bold {TAG_STYLES.get(tag, 'white')}")
    line.append(f"{short_moment(row.get('TS'))} ", style="dim")
    line.append(clean(name), style="cyan")
    for key, value in row.items():
        if key in ("TAG", "TS", "OLD"):
            continue
        line.append(f" {clean(key)}=")
        line.append(_short(value), style=TAG_STYLES.get(tag, ""))
        if tag == "u" and key in old and old[key] != value:
            line.append(f" (was {_short(old[key])})", style="dim")
    return line


def short_moment(value: Any) -> str:
    """The time of day of a time; anything else as it is."""
    if isinstance(value, dt.datetime):
        return f"{value:%H:%M:%S}.{value.microsecond // 1000:03d}"
    return "" if value is None else plain(value)


def _short(value: Any) -> str:
    text = plain(value)
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def _cell(name: str, value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    return Text(_short(value), style=TAG_STYLES.get(value, "") if name == "TAG" and isinstance(value, str) else "")


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return [_number(value) for value in python_values(column)]


def _number(value: Any) -> Any:
    return format(value, "f") if isinstance(value, Decimal) else value
