"""What EXPLAIN says about load shedding."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.engine.show.lateness import exactly
from tidemill.engine.state import DatabaseState
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation, Shed
from tidemill.plan.sources import ALWAYS, SHED


def remarks_on_shedding(state: DatabaseState, roots: Iterable[Relation]) -> tuple[str, ...]:
    """A sentence for each source whose updates may be dropped before these queries see them."""
    found = {node.input.source: node for root in roots for node in walk(root) if isinstance(node, Shed)}
    entries = {e.spec.name: e for e in state.catalog.of("source") if e.spec is not None}
    remarks = []
    for source, node in found.items():
        spec = entries[source].spec
        assert spec is not None
        when = "always" if spec.options.get(SHED) == ALWAYS else "when it is overloaded"
        total = state.outlet.source_totals.get(source)
        rows = total.get("shed", 0) if total is not None else 0
        remarks.append(
            f"source {entries[source].name} sheds {when}: at most {node.updates:,} updates for each key"
            f" and {exactly(node.every_us)}; {rows:,} dropped so far"
        )
    return tuple(remarks)
