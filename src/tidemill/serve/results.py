"""What a statement returned, printed: tables, plans, messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from tidemill.engine.statements.moment import as_of
from tidemill.plan.value_text import clean
from tidemill.serve.render import rows_line, table_of

SCREEN_ROWS = 60


def print_result(console: Console, result: Any, title: str | None = None) -> None:
    """Print whatever `Database.execute` returned, a subscription excepted; nothing for None."""
    if result is None:
        return
    if isinstance(result, pa.Table):
        print_table(console, result, title)
    elif getattr(result, "message", None):
        console.print(Text(clean(result.message), style="green"))
    else:
        console.print(Text(str(result)))


def print_table(console: Console, table: pa.Table, title: str | None = None) -> None:
    """All rows where the output goes to a file or a pipe, the first ones on a screen."""
    limit = SCREEN_ROWS if console.is_terminal else None
    if table.num_columns:
        console.print(table_of(table, limit, title, console.width if console.is_terminal else None))
    moment = as_of(table)
    console.print(Text(rows_line(table, limit) + (f", as of {moment}" if moment is not None else ""), style="dim"))
