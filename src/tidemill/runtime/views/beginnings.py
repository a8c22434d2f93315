"""From which time on a view that began with the contents of others is known: what it held before is not its own."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.runtime.evaluation.failures import operators_above
from tidemill.runtime.views.feedback import last_closed
from tidemill.runtime.views.moments import read_frontiers
from tidemill.runtime.views.stored_view import StoredView

BEGAN = "began"  # the name under which these times are stored


def note_beginnings(
    plan: Physical, delivered: Collection[str], views: Mapping[str, StoredView], known: Mapping[str, str]
) -> str:
    """JSON of view → the time of the contents that it begins with in this batch, or began with before. `delivered` are
    the seeds of earlier batches; `known` is what is stored of the batch before.
    """
    before, frontiers = json.loads(known.get(BEGAN, "{}")), read_frontiers(known)
    found = {view: time for view, time in before.items() if view in views}
    since = {op.id: op.since for op in plan.reader if isinstance(op, p.Seed)}
    for op, seeding in plan.seeds:
        if op in delivered or seeding not in views:
            continue
        earliest = since.get(op)
        time = last_closed(frontiers, views[seeding]) if earliest is None else earliest
        above = operators_above(plan, [op])
        for output in plan.outputs:
            if output.op in above and output.view in views and output.view not in before:
                found[output.view] = max(time, found.get(output.view, BEGINNING))
    return json.dumps(found)
