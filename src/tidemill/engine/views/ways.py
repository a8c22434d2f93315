"""The plans of one query over other sites: the one in force, and one that takes over at an agreed time.

All of it is in the options of the view's entry, so it is stored with the catalog and bound again at every opening.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.engine.views.answering import Beginning
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.sql.bind.imported_names import EVALUATED, IMPORTS, PLACED

# The option: {"view": id, "number", "birth", "next", "counts", "near", "given_up"}; without it a plan stays as it is.
WAYS = "ways"
SITE_PLAN = "site_plan"  # the option: how the join between sites of the plan in force is done
PLANNED = (IMPORTS, EVALUATED, PLACED, SITE_PLAN)  # what a plan consists of
FIRST: dict[str, Any] = {"number": 0, "birth": None, "next": None}  # of a view that begins


def begin_of(options: Mapping[str, Any], begin: Beginning) -> Beginning:
    """Where the plan in force begins: with the view, or when it was made."""
    birth = options.get(WAYS, FIRST)["birth"]
    return begin if birth is None else Beginning(birth, decided=[], planning=begin.planning)


def next_of(options: Mapping[str, Any], begin: Beginning) -> tuple[dict[str, Any], Beginning] | None:
    """The options of a view by the plan that will take over, and where that begins; None where there is none."""
    coming = options.get(WAYS, FIRST)["next"]
    if coming is None:
        return None
    return options_by(options, coming["options"]), Beginning(coming["birth"], decided=[], planning=begin.planning)


def options_by(options: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a view with another plan."""
    return {**{name: value for name, value in options.items() if name not in PLANNED}, **plan}


def name_ways(options: dict[str, Any], view: str) -> dict[str, Any]:
    """The options of a new view: plans that may change have its name."""
    return {**options, WAYS: {**options[WAYS], "view": view}} if WAYS in options else options


def put_together(options: Mapping[str, Any], plans: list[Relation]) -> Relation:
    """The answer of a query; where its plan may change, under a name that all its plans have."""
    if not is_changeable(options):
        return plans[0]
    ways = options[WAYS]
    coming = ways["next"] or {}
    numbers = (ways["number"], *([coming["number"]] if coming else []))
    return r.Alternatives(ways["view"], plans[0].schema, tuple(plans), numbers, coming.get("agreed"))


def is_changeable(options: Mapping[str, Any]) -> bool:
    """Whether another plan may take over for a view."""
    return "view" in options.get(WAYS, {})


def names_read(plan: Mapping[str, Any]) -> Iterator[str]:
    """The streams that deliver what a plan reads of other sites."""
    yield from plan.get(IMPORTS, {}).values()
    yield from plan.get(PLACED, ())[:1]
