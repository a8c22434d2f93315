"""The queries as files: what each engine is asked, and what the answer is.

`queries/qN.sql` has the view for Tidemill. `answers/qN.sql` is a SELECT for DuckDB over all events, where it is not the
SELECT of the view itself: of a view that shows window after window it has all windows that have ended. `flink/qN.sql`
has the SELECT for Flink, the official text but for the names of files and sinks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.nexmark.events import COLUMNS, SIDE

_HERE = Path(__file__).parent
NAMES = tuple(f"q{i}" for i in range(24))


@dataclass(frozen=True)
class Question:
    """One query: its text for each engine, and which streams it reads."""

    name: str
    view: str
    answer: str
    flink: str | None

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that it reads."""
        words = set(re.findall(r"\w+", self.view))
        return tuple(name for name in COLUMNS if name in words)


@cache
def question(name: str) -> Question:
    """The question of this name.

    >>> question("q3").streams, question("q0").answer
    (('person', 'auction'), 'SELECT auction, bidder, price, dateTime, extra FROM bid')
    """
    view = _text("queries", name)
    assert view is not None
    body = "\n".join(line for line in view.splitlines() if not line.startswith("--"))
    asked = body.split(" AS\n", 1)[1].rstrip().rstrip(";")
    return Question(name, body, _text("answers", name) or asked, _text("flink", name))


def sources(folder: str, streams: tuple[str, ...] = tuple(COLUMNS), options: str = "") -> str:
    """The statements that register the streams of a folder, and the table."""
    made = [
        f"REGISTER SOURCE {name}_source ({_typed(COLUMNS[name])}) FROM FILES '{folder}/{name}/*.parquet'"
        f" WITH (timestamp = 'dateTime'{options}); CREATE TAGGED STREAM {name} OVER {name}_source"
        for name in streams
    ]
    return ";\n".join([*made, f"REGISTER TABLE side_input ({_typed(SIDE)}) FROM FILES '{folder}/side_input/*.parquet'"])


def _typed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _text(kind: str, name: str) -> str | None:
    path = _HERE / kind / f"{name}.sql"
    return path.read_text(encoding="utf-8").strip() if path.exists() else None
