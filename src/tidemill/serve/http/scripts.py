"""Statements that a client sends as one text: executed in their order, one result for each; the first error ends it."""

from __future__ import annotations

import re
import time
from typing import Any

import pyarrow as pa

from tidemill.engine.results import Created
from tidemill.engine.script import Placed, group_definitions, join_group
from tidemill.engine.statements.moment import as_of
from tidemill.engine.users.session import Session
from tidemill.errors import PlanProblem, TidemillError
from tidemill.interrupts import Cancellation
from tidemill.plan.show.plans import Explanation
from tidemill.plan.statements import CreateView, Select, Statement, Subscribe
from tidemill.serve.http.answers import problem_dict, table_dict

MOST_CHECKED = 20  # statements of a text whose names an editor is told of
MOST_ROWS = 1000  # of an answer, unless more are asked for

Result = dict[str, Any]


def run_query(session: Session, text: str, most: int, timeout: float | None, cancellation: Cancellation) -> Result:
    """Answer an ad hoc SELECT."""
    began = time.perf_counter()
    table = session.query(text, timeout, cancellation)
    moment = as_of(table)
    return {"kind": "rows", **table_dict(table, most), "as_of": moment, "seconds": time.perf_counter() - began}


def run_script(session: Session, text: str, most: int, cancellation: Cancellation) -> tuple[list[Result], Any]:
    """The results of all statements, and the error that ended them or None."""
    results: list[Result] = []
    done = 0
    try:
        for group in group_definitions(session.parse(text)):
            cancellation.check()
            try:
                _run_group(session, group, most, cancellation, results)
            except TidemillError as problem:
                return results, locate(problem, group[len(results) - done].text if len(group) > 1 else group[0].text)
            done = len(results)
    except TidemillError as problem:
        return results, problem
    return results, None


def locate(problem: TidemillError, text: str) -> TidemillError:
    """The error with a place in the text; where it has none, at the first name that it quotes, or at the beginning.

    >>> found = locate(PlanProblem("TM211", 'no column "b"'), "\\n SELECT a,\\n b")
    >>> found.line, found.column
    (3, 2)
    """
    if problem.line is not None:
        return problem
    names = re.findall(r'"((?:[^"]|"")+)"', problem.message)
    places = [m.start() for name in names for m in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]
    start = places[0] if places else len(text) - len(text.lstrip())
    before = text[:start]
    return problem.at((before.count("\n") + 1, start - before.rfind("\n")))


def _run_group(
    session: Session, group: list[Placed], most: int, cancellation: Cancellation, results: list[Result]
) -> None:
    """Add the results of statements that are executed in one step."""
    statement = group[0].statement
    if isinstance(statement, Subscribe):
        results.append({"kind": "subscription", "views": list(statement.names), "message": statement.text})
    elif isinstance(statement, Select) and statement.output is None:
        results.append(run_query(session, group[0].text, most, None, cancellation))
    else:
        session.execute(join_group(group), lambda result: results.append(describe(result, most)))


def describe(result: Any, most: int = MOST_ROWS) -> Result:
    """The result of a statement."""
    if isinstance(result, pa.Table):
        return {"kind": "rows", **table_dict(result, most), "as_of": None}
    if isinstance(result, Created):
        return {"kind": "created", "what": result.kind, "name": result.name, "message": result.message}
    if isinstance(result, Explanation):
        return {"kind": "plan", "text": str(result)}
    return {"kind": "text", "text": str(result)}


def check_script(db: Any, session: Session, text: str) -> list[dict[str, Any]]:
    """The problems of a text, for an editor; nothing is executed."""
    try:
        parts = session.parse(text)
    except TidemillError as problem:
        return [problem_dict(locate(problem, text))]
    found = []
    for part in parts[:MOST_CHECKED]:
        try:
            _check(db, session, part.statement, part.text)
        except TidemillError as problem:
            found.append(problem_dict(locate(problem, part.text)))
    return found


def _check(db: Any, session: Session, statement: Statement, text: str) -> None:
    if isinstance(statement, Select) and statement.output is None:
        session.query(text, shape_only=True)
    elif isinstance(statement, CreateView) and session.access.reads_everything:
        db.explain(text)
    elif isinstance(statement, Subscribe):
        for name in statement.names:
            if not session.access.may_read(name):
                raise PlanProblem("TM301", f'there is no view "{name}"', hint="SHOW VIEWS lists them")
