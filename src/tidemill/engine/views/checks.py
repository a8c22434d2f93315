"""What is refused of a query that could be bound, and options that change its relation."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.engine.views.bound_view import BoundView
from tidemill.errors import PlanProblem
from tidemill.optimize.rewrite.window_aggregates import why_not
from tidemill.plan import relations as r
from tidemill.plan.aggregation_joins import with_spread_input
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation
from tidemill.plan.statements import STREAM_OUTPUTS


@dataclass(frozen=True)
class UnboundedViews(Container[str]):
    """The names of views whose state may grow for ever, as their users have said."""

    views: Mapping[str, BoundView]

    def __contains__(self, name: object) -> bool:
        view = self.views.get(str(name).lower())
        return view is not None and bool(view.entry.options.get("unbounded_state"))


def spread_input(node: Relation, label: Any) -> Relation:
    """WITH (spread = 'A'): distribute the rows of A over all shards, whatever their key."""
    if label is None:
        return node
    found = with_spread_input(node, str(label))
    if found is None:
        raise PlanProblem(
            "TM222",
            f'no join that is grouped has an input "{label}" to spread',
            hint="name an input of FROM by its alias; the query must group a join",
        )
    return found


def check_names(node: Relation, output: str) -> None:
    """Refuse names of columns that the engine adds: TAG and OLD to changes, TS to the rows of RSTREAM and its like."""
    for name in node.names:
        if name in ("TAG", "OLD") or (output in STREAM_OUTPUTS and name.lower() == "ts"):
            raise PlanProblem(
                "TM219", f'a column of this view cannot be named "{name}"', hint=f"give it another name: {name} AS …"
            )


def check_user_aggregates(node: Relation) -> None:
    """Refuse user aggregates over rows that may leave: nothing can be taken out of their accumulators."""
    for below in walk(node):
        own = [a for a in below.aggregates if a.user_functions is not None] if isinstance(below, r.GroupBy) else []
        if own and isinstance(below, r.GroupBy) and not r.append_only(below.input):
            raise PlanProblem(
                "TM220",
                f"{own[0].function} needs a window over a stream, or rows that never leave",
                detail=why_not(below),
                hint="for example  FROM S [RANGE 10 SLIDE 5]  or  [ROWS 100]",
            )


def check_parquet(node: Relation) -> None:
    """Refuse a sink that could not write: Parquet has no intervals, and no endless times in seconds."""
    for column in node.schema:
        if column.type in ("INTERVAL", "TIMESTAMP_S"):
            raise PlanProblem(
                "TM211",
                f'a parquet file cannot hold "{column.name}", which is {column.type}',
                hint="WITH (format = 'json'), or cast it in the view",
            )
