"""Every change of plan: when, why, from what to what, what was predicted and what was measured.

A *subject* is what has a plan of its own: the shared windows of a source, one aggregation join, or the join between
sites of one view. `publish` compares
the plans of a new version with those in force and records what differs, whether statistics, SET or another statement
caused it. Optimizers add what they know: `record_reason` says why the next version will differ, `record_cost` what a
batch has cost, in the unit of the prediction.

The history is kept with the catalog, so a version and the record of its changes are written together. At most `LENGTH`
changes are kept; the oldest go first.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from tidemill.engine.adapt.drift import differs
from tidemill.sql.catalog import Catalog

LENGTH = 256  # changes of plans: with `LONGEST` some 116 KB, which the catalog writes in 0.3 ms with each statement
LONGEST = 400  # characters of a plan: a configuration of many hundred relations is cut
_LAST_WEIGHT = 0.5  # of the last batch in a measured average that is shown, and decides nothing

Kind = Literal["windows", "join", "site"]


class Subject(NamedTuple):
    """What has a plan: the shared windows of a source (`id` is its name), an aggregation join (its fingerprint), or the
    join between sites of a view (its id).
    """

    kind: Kind
    id: str

    @property
    def key(self) -> str:
        """
        >>> Subject("join", "a1b2").key
        'join a1b2'
        """
        return f"{self.kind} {self.id}"


@dataclass(frozen=True)
class InForce:
    """A plan as users read it. `name`: the source, or the views that read the join. `cost`: predicted when it was
    chosen; probes of a table for each row (windows), nanoseconds for each second of event time (join), seconds of
    transmission and work for each second (site).
    """

    name: str
    plan: str
    cost: float | None


@dataclass
class PlanChange:
    """One change. `before` is None for a new subject, `after` for one that was dropped. `batch` is the last one before
    the change. Measured costs are averages that weigh recent batches more; an average begins again where costs change
    by more than a quarter.
    """

    subject: str
    kind: Kind
    name: str
    version: int
    batch: int
    at: float
    reason: str
    before: str | None
    after: str | None
    predicted_before: float | None = None
    predicted_after: float | None = None
    measured_before: float | None = None
    measured_after: float | None = None

    def describe(self) -> dict[str, Any]:
        """As users see it."""
        found = asdict(self)
        del found["subject"]
        found["at"] = dt.datetime.fromtimestamp(self.at, dt.UTC).replace(tzinfo=None)
        return found


@dataclass
class PlanHistory:
    """The plans in force and the changes that led to them."""

    changes: list[PlanChange] = field(default_factory=list)
    in_force: dict[str, dict[str, Any]] = field(default_factory=dict)
    stored: dict[str, Any] = field(default_factory=dict)
    length: int = LENGTH

    @classmethod
    def of(cls, catalog: Catalog, length: int = LENGTH) -> PlanHistory:
        """The history in a catalog; changes are added in place."""
        stored: dict[str, Any] = catalog.settings.setdefault("plan_history", {})
        changes = [PlanChange(**c) for c in stored.setdefault("changes", [])]
        return cls(changes, stored.setdefault("in_force", {}), stored, length)

    def __post_init__(self) -> None:
        self._reasons: dict[str, tuple[str, float | None]] = {}
        self._causes: list[str] = []

    def record_reason(self, subject: Subject, reason: str, cost: float | None = None) -> None:
        """Why the next version will have another plan for this subject; `cost` is what the plan in force is predicted
        to cost by the statistics of today, where that is known.
        """
        self._reasons[subject.key] = reason, cost

    def record_cause(self, statement: str) -> None:
        """A statement leads to a new version: the reason of changes for which no optimizer gives one."""
        self._causes.append(statement)

    def record_cost(self, subject: Subject, cost: float) -> None:
        """A batch under the plan in force has cost this much."""
        plan = self.in_force.get(subject.key)
        if plan is None:
            return
        old = plan.get("measured")
        # After a jump in cost the average would mix two different inputs: begin again.
        plan["measured"] = cost if old is None or differs(old, cost) else _LAST_WEIGHT * cost + (1 - _LAST_WEIGHT) * old
        for change in reversed(self.changes):
            if change.subject == subject.key:
                change.measured_after = plan["measured"]
                break

    def publish(self, version: int, batch: int, plans: Mapping[Subject, InForce]) -> list[PlanChange]:
        """Version `version` takes over after `batch` with these plans; the changes, which are recorded."""
        incoming = {subject.key: (subject, plan) for subject, plan in plans.items()}
        made = []
        for key, (subject, plan) in incoming.items():
            if self.in_force.get(key, {}).get("plan") != shorten(plan.plan):
                made.append(self._change(subject, version, batch, plan))
        for key in [k for k in self.in_force if k not in incoming]:
            kind, _, id_ = key.partition(" ")
            made.append(self._change(Subject(kind, id_), version, batch, None))  # type: ignore[arg-type]
        self._reasons.clear()
        self._causes.clear()
        self.changes = [*self.changes, *made][-self.length :]
        return made

    def save(self) -> None:
        """Copy the changes into the catalog, which the caller writes."""
        self.stored["changes"] = [asdict(c) for c in self.changes]

    def _change(self, subject: Subject, version: int, batch: int, plan: InForce | None) -> PlanChange:
        old = self.in_force.pop(subject.key, {})
        if plan is not None:
            self.in_force[subject.key] = {"name": plan.name, "plan": shorten(plan.plan), "cost": plan.cost}
        reason, cost = self._reasons.get(subject.key, (causes_text(self._causes), None))
        return PlanChange(
            subject.key,
            subject.kind,
            plan.name if plan else old.get("name", subject.id),
            version,
            batch,
            time.time(),
            reason,
            old.get("plan"),
            shorten(plan.plan) if plan else None,
            old.get("cost") if cost is None else cost,
            plan.cost if plan else None,
            old.get("measured"),
        )


def causes_text(causes: Sequence[str]) -> str:
    """
    >>> causes_text(["CREATE VIEW a"]), causes_text([f"CREATE VIEW v{i}" for i in range(9)])
    ('CREATE VIEW a', 'CREATE VIEW v0 and 8 more')
    """
    if not causes:
        return "start"
    return causes[0] if len(causes) == 1 else f"{causes[0]} and {len(causes) - 1} more"


def shorten(text: str) -> str:
    """
    >>> shorten("ab(a b)"), len(shorten("x" * 1000)) == LONGEST
    ('ab(a b)', True)
    """
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
