"""CREATE SINK to what is stored of a sink: where it writes, how, and who it is."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import Any

from tidemill.engine.views.checks import check_parquet
from tidemill.errors import PlanProblem
from tidemill.plan.relations import Relation
from tidemill.plan.statements import CreateSink
from tidemill.runtime.targets.target import KINDS, UPSERT, mode_of, open_target
from tidemill.runtime.views.sink import Sink
from tidemill.runtime.views.sinks import target_spec
from tidemill.runtime.views.stored_view import StoredView

_FILES = ("format",)
_ALWAYS = ("snapshot",)


def describe_sink(statement: CreateSink, node: Relation, view: StoredView) -> Sink:
    """The sink of a statement, its options checked."""
    path = os.path.abspath(statement.path) if statement.path else ""
    options, place = dict(statement.options), dict(statement.place)
    made = Sink(statement.name, statement.target, path, options, uuid.uuid4().hex, place)
    if made.is_external:
        return _describe_external(made, view)
    _check_options(made.target, options, _FILES)
    if made.format not in ("parquet", "json"):
        raise PlanProblem("TM211", f'unknown sink format "{made.format}"', hint="parquet or json")
    if path and made.format == "parquet":
        check_parquet(node)
    return made


def _describe_external(given: Sink, view: StoredView) -> Sink:
    kind = given.target
    _check_options(kind, given.options, ("mode", *KINDS[kind].options))
    mode = mode_of(kind, given.name, given.options.get("mode"), view.keys is not None)
    options = {"snapshot": mode == UPSERT, **given.options, "mode": mode}
    place = {**given.place, "path": given.path} if given.path else given.place
    made = replace(given, options=options, place=place)
    open_target(target_spec(made, view)).check()
    return made


def _check_options(target: str, options: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in (*known, *_ALWAYS):
            raise PlanProblem(
                "TM211", f'a sink to {target} has no option "{name}"', hint=f"it has {', '.join((*known, *_ALWAYS))}"
            )
