"""CREATE SINK to what is stored of a sink: where it writes, how, and who it is."""

from __future__ import annotations

import os
import uuid
from typing import Any

from tidemill.engine.views.checks import check_parquet
from tidemill.errors import PlanProblem
from tidemill.plan.relations import Relation
from tidemill.plan.statements import CreateSink
from tidemill.runtime.targets.target import KINDS, UPSERT, mode_of, open_target
from tidemill.runtime.views.sinks import target_spec
from tidemill.runtime.views.stored_view import StoredView

_FILES = ("format",)
_ALWAYS = ("snapshot",)


def sink_options(statement: CreateSink, node: Relation, view: StoredView) -> dict[str, Any]:
    """The description of a sink, for the catalog and the outlet.

    `id` names the sink in its target: a sink that is created again is another one.
    """
    options = dict(statement.options)
    path = os.path.abspath(statement.path) if statement.path else None
    made = {"target": statement.target, "path": path, "options": options, "name": statement.name}
    made |= {"id": uuid.uuid4().hex, "place": dict(statement.place)}
    if statement.target in KINDS:
        return _external(made, view)
    _check_options(statement.target, options, _FILES)
    form = options.get("format", "parquet")
    if form not in ("parquet", "json"):
        raise PlanProblem("TM211", f'unknown sink format "{form}"', hint="parquet or json")
    if path and form == "parquet":
        check_parquet(node)
    return made


def _external(made: dict[str, Any], view: StoredView) -> dict[str, Any]:
    options, kind = made["options"], made["target"]
    _check_options(kind, options, ("mode", *KINDS[kind].options))
    options["mode"] = mode_of(kind, made["name"], options.get("mode"), view.keys is not None)
    options.setdefault("snapshot", options["mode"] == UPSERT)
    if made["path"]:
        made["place"]["path"] = made["path"]
    open_target(target_spec(made, view)).check()
    return made


def _check_options(target: str, options: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in (*known, *_ALWAYS):
            raise PlanProblem(
                "TM211", f'a sink to {target} has no option "{name}"', hint=f"it has {', '.join((*known, *_ALWAYS))}"
            )
