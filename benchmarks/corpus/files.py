"""One file: its statements go to the oracle, its queries to standing views, moment by moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.corpus.oracle import Oracle, Question, Table, Unasked
from benchmarks.corpus.records import Record, read_records
from benchmarks.corpus.streams import Mode
from benchmarks.corpus.views import Outcome, run_views


@dataclass
class Tally:
    """Outcomes by mode, and the reasons of queries that are not compared."""

    outcomes: dict[Mode, list[tuple[Path, Outcome]]] = field(default_factory=dict)
    unasked: Counter[str] = field(default_factory=Counter)

    def add(self, mode: Mode, path: Path, found: Iterable[Outcome]) -> None:
        self.outcomes.setdefault(mode, []).extend((path, outcome) for outcome in found)


@dataclass(frozen=True)
class Limits:
    """Larger tables are left out, as are queries beyond this many of a file; `only_plan`: views get no rows."""

    rows: int = 5000
    queries: int = 1000
    only_plan: bool = False


def run_file(path: Path, modes: Iterable[Mode], tally: Tally, limits: Limits) -> None:
    """Add what becomes of the queries of a file."""
    oracle = Oracle(limits.rows)
    waiting: list[Question] = []
    asked = 0

    def flush() -> None:
        if waiting:
            _run_moment(path, oracle, waiting, modes, tally, limits.only_plan)
            waiting.clear()

    for record in read_records(path):
        if record.is_query and _reads(record):
            if asked >= limits.queries:
                continue
            found = oracle.ask(record.sql, record.line)
            asked += 1
            if isinstance(found, Unasked):
                tally.unasked[found.reason] += 1
            elif not found.tables:
                tally.unasked["reads no table"] += 1
            else:
                waiting.append(found)
        elif not record.fails:
            flush()
            oracle.execute(record.sql)
    flush()
    oracle.duck.close()


def _reads(record: Record) -> bool:
    first = record.sql.lstrip("( \n\t").split(None, 1)[:1]
    return bool(first) and first[0].upper() in ("SELECT", "WITH", "FROM", "VALUES")


def _run_moment(
    path: Path, oracle: Oracle, waiting: list[Question], modes: Iterable[Mode], tally: Tally, only_plan: bool
) -> None:
    names = sorted({name for question in waiting for name in question.tables})
    tables: dict[str, Table] = {}
    for name in names:
        found = oracle.contents(name)
        if found is not None:
            tables[name] = found
    able = [q for q in waiting if all(name in tables for name in q.tables)]
    tally.unasked["reads a large or a foreign table"] += len(waiting) - len(able)
    if able:
        for mode in modes:
            tally.add(mode, path, run_views(able, tables, mode, only_plan))
