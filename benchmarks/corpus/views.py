"""The queries of one moment of a file as standing views, and whether each ends with the right answer."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import TokenType

from benchmarks.corpus.oracle import Question, Table, plain_rows, same
from benchmarks.corpus.streams import Mode, write_stream
from benchmarks.inprocess import InProcess
from tidemill.errors import TidemillError

_FIRST_ROWS = re.compile(r"\bDISTINCT\s+ON\b", re.IGNORECASE)
_NAMES = re.compile(r"\"[^\"]*\"|'[^']*'|\d+|`[^`]*`")


@dataclass(frozen=True)
class Outcome:
    """What became of a query: `kind` is right, wrong, refused or failed; `reason` without the names of this query."""

    kind: str
    line: int
    sql: str
    reason: str = ""
    detail: str = ""


def run_views(
    questions: list[Question], tables: dict[str, Table], mode: Mode, only_plan: bool = False
) -> list[Outcome]:
    """The outcomes of queries over the same tables; `only_plan`: views are made but get no rows."""
    folder = Path(tempfile.mkdtemp(prefix="corpus-"))
    try:
        with InProcess(str(folder / "db"), shards=2) as db:
            return _Views(db, folder, tables, mode).run(questions, only_plan)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Views:
    def __init__(self, db: InProcess, folder: Path, tables: dict[str, Table], mode: Mode) -> None:
        self.db, self.refused_tables = db, dict[str, Exception]()
        for number, table in enumerate(tables.values()):
            try:
                self.db.execute(write_stream(table, mode, folder, number))
            except Exception as error:  # whatever the engine says of this table
                self.refused_tables[table.name] = error

    def run(self, questions: list[Question], only_plan: bool) -> list[Outcome]:
        outcomes: list[Outcome] = []
        made: list[tuple[int, Question]] = []
        for i, question in enumerate(questions):
            refused = next((self.refused_tables[t] for t in question.tables if t in self.refused_tables), None)
            try:
                if refused is not None:
                    raise refused
                self.db.execute(
                    f"CREATE VIEW answer_{i} AS {without_order(question.sql)} WITH (unbounded_state = true)"
                )
                made.append((i, question))
            except Exception as error:
                outcomes.append(_refusal(question, error))
        if only_plan:
            return outcomes + [Outcome("planned", q.line, q.sql) for _, q in made]
        try:
            self.db.run(final=True)
        except Exception as error:
            return outcomes + [_failure(question, error) for _, question in made]
        return outcomes + [self._compare(i, question) for i, question in made]

    def _compare(self, i: int, question: Question) -> Outcome:
        try:
            rows = plain_rows(self.db.query(f"SELECT * FROM answer_{i}"))
        except Exception as error:
            return _failure(question, error)
        if same(rows, question.rows):
            return Outcome("right", question.line, question.sql)
        detail = f"{rows[:6]} instead of {question.rows[:6]}"
        return Outcome("wrong", question.line, question.sql, "another answer", detail)


def without_order(sql: str) -> str:
    """A query without the ORDER BY at its end, unless LIMIT or DISTINCT ON make it part of the meaning.

    >>> without_order("SELECT a FROM t ORDER BY a;"), without_order("SELECT a FROM t ORDER BY a LIMIT 1")
    ('SELECT a FROM t', 'SELECT a FROM t ORDER BY a LIMIT 1')
    """
    text = sql.strip().rstrip(";").strip()
    if _FIRST_ROWS.search(text):
        return text
    depth, cut = 0, None
    for token in DuckDB().tokenize(text):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth:
            continue
        if token.token_type is TokenType.ORDER_BY:
            cut = token.start
        elif token.token_type in _KEEPING:
            cut = None
    return text if cut is None else text[:cut].strip()


_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_KEEPING = (TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET, TokenType.SELECT, TokenType.UNION)


def _refusal(question: Question, error: Exception) -> Outcome:
    if not isinstance(error, TidemillError):
        return _failure(question, error)
    return Outcome("refused", question.line, question.sql, f"{error.code} {_common(error.message)}", error.message)


def _failure(question: Question, error: Exception) -> Outcome:
    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return Outcome("failed", question.line, question.sql, _common(text), text)


def _common(text: Any) -> str:
    """A message without what differs from query to query, for counting; names of functions stay."""
    keep = re.match(r"(the function|\"?\w+\"? is not part)", str(text))
    return str(text)[:90] if keep else _NAMES.sub("…", str(text))[:90]
