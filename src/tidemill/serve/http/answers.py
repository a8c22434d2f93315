"""Results and errors as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from tidemill.errors import TidemillError
from tidemill.plan.python_values import json_text, python_values

_LARGEST = 1 << 53  # whole numbers beyond it are not exact in JavaScript


class Json(Response):
    """Any value as JSON that every reader takes."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json_text(content).encode()


def problem_dict(problem: TidemillError) -> dict[str, Any]:
    """An error with its code, place and hint."""
    return {name: getattr(problem, name) for name in ("code", "message", "detail", "hint", "line", "column")}


def status_of(problem: TidemillError) -> int:
    """The status of an answer that is an error."""
    return {"TM330": 403, "TM331": 401}.get(problem.code, 400)


def table_dict(table: pa.Table, most: int | None = None) -> dict[str, Any]:
    """Columns with types, rows as lists; of more than `most` rows the first, and how many there are."""
    shown = table if most is None else table.slice(0, most)
    columns = [[_exact(v) for v in python_values(c)] for c in shown.columns]
    return {
        "columns": [{"name": f.name, "type": str(f.type), "numeric": _is_numeric(f.type)} for f in table.schema],
        "rows": list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in range(shown.num_rows)],
        "total": table.num_rows,
    }


def rows_of(table: pa.Table) -> Iterable[dict[str, Any]]:
    """Rows as dictionaries."""
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in table_dict(table)["rows"]]


def _exact(value: Any) -> Any:
    """
    >>> _exact(2**53 + 1), _exact(7), _exact(True)
    ('9007199254740993', 7, True)
    """
    return str(value) if isinstance(value, int) and abs(value) > _LARGEST else value


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
