"""What aggregation joins may use and have learned: settings that a user changes, statistics that the shards bring.

Both are kept with the catalog, as those of shared aggregation are (`engine.sharing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tidemill.engine.sharing import kept_join_constants
from tidemill.errors import PlanProblem
from tidemill.optimize.joins.decide import METHODS, JoinSettings, better
from tidemill.optimize.joins.measure import statistics
from tidemill.plan.aggregation_joins import meeting
from tidemill.plan.node import walk
from tidemill.plan.physical import Op
from tidemill.plan.relations import JoinAggregate, Relation
from tidemill.sql.catalog import Catalog


class Joining:
    """Settings and statistics of all aggregation joins."""

    def __init__(self, catalog: Catalog) -> None:
        self.kept: dict[str, Any] = catalog.settings.setdefault("joining", {})
        self.settings = JoinSettings(
            mode=self.kept.get("early_aggregation", "auto"), method=self.kept.get("join_method", "hash"),
            constants=kept_join_constants(), statistics=self.kept.setdefault("statistics", {}),
            plans=self.kept.setdefault("plans", {}),
        )

    def set(self, name: str, value: str) -> None:
        """Change one setting; bad values are refused with what is possible."""
        found = JOINING[name](name, value)
        self.kept[name] = found
        setattr(self.settings, {"early_aggregation": "mode", "join_method": "method"}[name], found)
        if name == "early_aggregation" and found == "auto":
            self.settings.plans.clear()

    def shown(self) -> dict[str, Any]:
        """What SHOW SETTINGS says: the values in force."""
        return {"early_aggregation": self.settings.mode, "join_method": self.settings.method}

    def forget(self, roots: Iterable[Relation]) -> None:
        """Drop what is known of joins that do not stand any more."""
        live = {n.fingerprint for root in roots for n in walk(root) if isinstance(n, JoinAggregate)}
        for known in (self.settings.statistics, self.settings.plans):
            for gone in [print_ for print_ in known if print_ not in live]:
                del known[gone]

    def learn(self, node: JoinAggregate, op: Op, notes: Sequence[Mapping[str, Any]], seconds: float, *,
              look: bool, pinned: bool) -> bool:
        """Take in what the shards counted in a batch; True when one has looked and another plan is to be installed."""
        if not any(i["changes"] for note in notes for i in note["inputs"]):
            return False
        early = [i["early"] for i in op.params["inputs"]]
        before = self.settings.statistics.get(node.fingerprint)
        self.settings.statistics[node.fingerprint] = statistics(
            node, meeting(node), notes, early, max(seconds, 1e-3), before)
        self.settings.pinned = pinned
        best = better(node, self.settings) if look else None
        if best is None:
            return False
        self.settings.plans[node.fingerprint] = best.plan
        return True


def _plan(name: str, value: str) -> str:
    text = value.lower()
    if text in ("auto", "late", "early") or (len(text) >= 2 and set(text) <= {"0", "1"}):
        return text
    raise PlanProblem("TM217", f'{name} cannot be "{value}"',
                      hint="auto, late, early, or a bit for each input, for example '10'")


def _method(name: str, value: str) -> str:
    text = value.lower().replace("_", " ")
    if text not in METHODS:
        raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"one of {', '.join(METHODS)}")
    return text


JOINING: dict[str, Callable[[str, str], Any]] = {"early_aggregation": _plan, "join_method": _method}
