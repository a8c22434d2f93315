"""Answers as tables in notebooks: Arrow tables have no HTML of their own."""

from __future__ import annotations

import sys

import pyarrow as pa

from tidemill.plan.html import html_table
from tidemill.plan.python_values import python_values

SHOWN = 50  # rows


def show_tables() -> None:
    """Let the notebook that runs this process, if one does, show Arrow tables as HTML."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(pa.Table, arrow_html)


def arrow_html(table: pa.Table) -> str:
    """The first rows of a table, and how many there are.

    >>> arrow_html(pa.table({"n": [1, None]}))[-29:]
    '</tbody></table><p>2 rows</p>'
    """
    head = [python_values(column) for column in table.slice(0, SHOWN).columns]
    more = f", the first {SHOWN} shown" if table.num_rows > SHOWN else ""
    rows = f"{table.num_rows:,} row{'' if table.num_rows == 1 else 's'}{more}"
    return f"{html_table(table.column_names, zip(*head, strict=True))}<p>{rows}</p>"
