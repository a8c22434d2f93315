"""Notebooks: `%load_ext tidemill`, then `%tidemill DIR` or `%tidemill postgresql://…`, and cells of SQL.

%%tidemill            executes the cell and shows the result of each statement
%tidemill_follow V 5  shows a view for five seconds, in place
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from tidemill.engine import Database
from tidemill.engine.script import group_definitions, join_group, place_statements
from tidemill.engine.show.notebook import arrow_html, show_tables
from tidemill.errors import EngineProblem, TidemillError
from tidemill.plan.html import html_text
from tidemill.serve.remote import RemoteDatabase


class Magics:
    """The database that the cells of a notebook talk to."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.db: Any = None

    def choose(self, line: str) -> Any:
        """%tidemill PLACE: open a directory, connect to a server, or take a variable that holds a database."""
        place = line.strip()
        if place:
            known = self.shell.user_ns.get(place)
            if known is not None and hasattr(known, "execute"):
                self.db = known
            else:
                self.db = RemoteDatabase(place) if "://" in place else Database(place)
        return self.db

    def execute(self, line: str, cell: str) -> Any:
        """%%tidemill [VARIABLE]: show the result of every statement; the last one is kept in the variable."""
        display, as_html = _display()
        result = None
        try:
            for group in group_definitions(place_statements(cell)):
                result = self._database().execute(join_group(group))
                if isinstance(result, pa.Table) or hasattr(result, "_repr_html_"):
                    display(as_html(html_of(result)))
                elif result is not None:
                    display(as_html(html_text(str(result))))
        except TidemillError as problem:
            display(as_html(html_text(str(problem))))
            raise
        if line.strip():
            self.shell.user_ns[line.strip()] = result

    def follow(self, line: str) -> None:
        """%tidemill_follow VIEW [SECONDS]: the contents of a view, kept up to date in place."""
        display, as_html = _display()
        name, _, seconds = line.strip().partition(" ")
        end = time.monotonic() + float(seconds or 10)
        quoted = '"' + name.replace('"', '""') + '"'
        shown = display(as_html(""), display_id=True)
        with self._database().subscribe(name) as changes:
            while (left := end - time.monotonic()) > 0:
                changes.next(left)
                answer = self._database().query(f"SELECT * FROM {quoted}")
                shown.update(as_html(html_of(answer)))

    def _database(self) -> Any:
        if self.db is None:
            raise EngineProblem(
                "TM534", "the notebook has no database", hint="%tidemill DIR or %tidemill postgresql://…"
            )
        return self.db


def _display() -> tuple[Any, Any]:
    """What shows things in a notebook; imported late, because only notebooks have it."""
    from IPython import display as shown

    return shown.display, shown.HTML


def html_of(result: Any) -> str:
    """A result as HTML."""
    return arrow_html(result) if isinstance(result, pa.Table) else str(result._repr_html_())


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tidemill` calls."""
    show_tables()
    magics = Magics(shell)
    shell.register_magic_function(magics.choose, "line", "tidemill")
    shell.register_magic_function(magics.execute, "cell", "tidemill")
    shell.register_magic_function(magics.follow, "line", "tidemill_follow")
