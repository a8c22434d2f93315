"""Runs of aggregation joins under plans that the test chooses, and which plan really ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.harness import LocalDatabase
from tests.joins.shapes import JoinView, Workload
from tests.properties.query_text import View
from tests.properties.streams import Stream
from tests.properties.trial import database
from tests.share.outcomes import Outcome, outcome
from tidemill.errors import TidemillError
from tidemill.plan.physical import JoinAggregate, Physical

METHODS = ("hash", "nested loop")
PLAIN_JOINS = ("join_aggregates",)  # rules to go without: pairs, then groups


def switch(db: LocalDatabase, plan: str) -> None:
    """Another plan from the next batch on: 'auto', 'late', 'early' or bits; or 'hash' or 'nested loop'."""
    db.execute(f"SET {'join_method' if plan in METHODS else 'early_aggregation'} = '{plan}'")


def install(db: LocalDatabase, views: Iterable[View]) -> None:
    """Create the views; what is no aggregation join here has no input to spread."""
    for view in views:
        try:
            db.execute(view.statement)
        except TidemillError as problem:
            if problem.code not in ("TM110", "TM222") or not isinstance(view, JoinView):
                raise
            db.execute(replace(view, spread="").statement)


def running_plans(db: LocalDatabase) -> list[str]:
    """The bits of every aggregation join in the newest published plan; '-' for an input with nothing to fold.

    Of such an input an aggregation set is its window: there is nothing to choose.
    """
    with open(db.paths.plan(db.catalog.version)) as file:
        plan = Physical.from_json(file.read())
    joined = [op for op in plan.stage if isinstance(op, JoinAggregate)]
    return ["".join("01"[i.early] if i.args else "-" for i in op.joined) for op in joined]


def obeys(running: str, plan: str) -> bool:
    """A join of as many inputs runs as it was told.

    >>> obeys("1-", "10"), obeys("1-", "00"), obeys("---", "10")
    (True, False, True)
    """
    return len(running) != len(plan) or all(r in ("-", p) for r, p in zip(running, plan, strict=True))


def run(streams: Iterable[Stream], workload: Workload, plan: str = "auto", **options) -> tuple[Outcome, list[str]]:
    """What one run leaves behind, and the plans of its joins; `plan` may name a method behind a slash."""
    with database(streams, **options) as db:
        for one in plan.split("/"):
            switch(db, one)
        install(db, all_views(workload))
        db.run()
        return outcome(db, all_views(workload)), running_plans(db)


def all_views(workload: Workload) -> list[View]:
    """Views that keep something, below and above."""
    return [*workload.below, *workload.views]
