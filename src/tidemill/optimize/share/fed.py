"""What feeds a window aggregate: a source by time, or the rows of a relation by number.

Window aggregates that are fed by the same share their work. Rows are numbered as they come in the relation under the
window, so only windows over the very same relation count alike: a query that began later numbers from its own
beginning.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.optimize.share.known import SECOND
from tidemill.optimize.share.shape import Settings
from tidemill.plan.relations import RowsWindow, Scan, WindowAggregate


def fed_by(node: WindowAggregate) -> str:
    """The name under which the aggregates that share with this one are planned."""
    if isinstance(node.input, RowsWindow):
        return f"rows.{node.input.input.fingerprint}"
    assert isinstance(node.input, Scan)
    return node.input.source


def settings_for(node: WindowAggregate, settings: Settings) -> Settings:
    """What is known for these aggregates. Where windows count rows, the "time" of a row is its number: one row comes
    in each microsecond, whatever the clock says; groups are those that the readers of the source counted.
    """
    if not isinstance(node.input, RowsWindow):
        return settings
    below = node.input.input
    measured = settings.statistics.get(below.source, {}) if isinstance(below, Scan) else {}
    known = {name: value for name, value in measured.items() if name in ("groups", "flows", "tuples")}
    return replace(settings, statistics={**settings.statistics, fed_by(node): {**known, "rate": float(SECOND)}})
