"""`tidemill explain`: the plan of a query or of a whole file, as text, JSON or a Mermaid drawing. Nothing runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tidemill.engine.script import is_question, place_statements
from tidemill.plan.statements import CreateView, Select

if TYPE_CHECKING:
    from tidemill.engine import Database


def read_target(target: str) -> tuple[str, str | None]:
    """The SQL, and the name of its file when the target is one.

    >>> read_target("SELECT 1")
    ('SELECT 1', None)
    """
    looks_like_path = "\n" not in target and (target.endswith(".sql") or " " not in target.strip())
    if looks_like_path:
        return Path(target).read_text(encoding="utf-8"), target
    return target, None


def plans_of(db: Database, text: str, fresh: bool) -> list[tuple[str, Any]]:
    """The question and the plan of each query in `text`.

    In a `fresh` database a file explains itself: its declarations are executed, and everything that stands
    then has one plan together. In a database that stays, nothing is created.
    """
    parts = place_statements(text)
    if fresh and not all(isinstance(part.statement, Select) for part in parts):
        for part in parts:
            if not is_question(part.statement):
                db.execute(part.text)
        return [("everything", db.execute("EXPLAIN"))]
    asked = [part for part in parts if isinstance(part.statement, (Select, CreateView))]
    plans = [(part.statement.text, db.explain(part.text)) for part in asked]
    return plans or [("everything", db.execute("EXPLAIN"))]


def print_plans(console: Console, plans: list[tuple[str, Any]], form: str) -> None:
    """All plans, each under its question; as JSON, one object or a list of them."""
    if form == "json":
        found = [plan.to_dict() for _, plan in plans]
        console.file.write(json.dumps(found[0] if len(found) == 1 else found, indent=2, default=str) + "\n")
        return
    for question, plan in plans:
        if form == "mermaid":
            console.file.write(plan.to_mermaid().rstrip() + "\n")
            continue
        if len(plans) > 1:
            console.print(Text(question, style="bold"))
        console.print(Text(str(plan)))
