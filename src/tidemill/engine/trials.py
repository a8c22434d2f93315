"""What a few rows tell before the first batch: a plan with statistics, and how many rows the batch may take."""

from __future__ import annotations

from typing import Any

from tidemill.engine.sharing import Sharing
from tidemill.plan.physical import Physical
from tidemill.runtime.garbage import seldom_collected
from tidemill.runtime.layout import Paths, read_json
from tidemill.runtime.trial import Tried, tried


def tried_sources(paths: Paths, plan: Physical) -> dict[str, Tried]:
    """The sources of a plan that nobody has read yet, where a look at them tells something."""
    known = (read_json(paths.progress) or {"sources": {}})["sources"]
    with seldom_collected():
        looks = {s.name: tried(paths.root, plan, s.name) for s in plan.sources if s.name not in known}
    return {name: look for name, look in looks.items() if look is not None}


def learn_from(sharing: Sharing, plan: Physical, looks: dict[str, Tried]) -> bool:
    """Take in the statistics; True when another plan is better by them."""
    ops = {op.id: op for op in plan.reader}
    counted = {name: look.counted for name, look in looks.items() if look.counted}
    return any([sharing.learn_trial(ops[f"lfta.{name}"], note) for name, note in counted.items()])


def noted(looks: dict[str, Tried], version: int) -> dict[str, Any]:
    """For the planner: what so many rows have sent. Another plan, or other tables, send something else in time; the
    batches tell.
    """
    return {name: {"plan": version, "rows": look.rows, "sent": look.sent} for name, look in looks.items()}
