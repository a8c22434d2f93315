"""`tidemill explain`: the plan of a query or of a whole file, as text, JSON or a Mermaid drawing. Nothing runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tidemill.serve.script import placed
from tidemill.sql.statements import CreateView, Select

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

    In a `fresh` database everything else is executed first, so that a file explains itself, and
    its views appear in one plan together. In a database that stays, nothing is created.
    """
    plans = []
    for part in placed(text):
        asked = isinstance(part.statement, Select)
        if asked or (isinstance(part.statement, CreateView) and not fresh):
            plans.append((part.statement.text, db.explain(part.text)))
        elif fresh:
            db.execute(part.text)
    if not plans:
        plans.append(("everything", db.execute("EXPLAIN")))
    return plans


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
