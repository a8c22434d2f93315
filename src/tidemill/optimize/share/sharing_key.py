"""Which window aggregates share their work: those over one source by time, or over one relation by row number.

Rows are numbered in the relation under the window. So windows of rows share only over the same relation: a query that
was created later numbers its rows from its own beginning.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.optimize.share.reader_plan import Settings
from tidemill.optimize.share.stored_statistics import WindowStatistics
from tidemill.optimize.share.stream_statistics import SECOND
from tidemill.plan.relations import RowsWindow, Scan, WindowAggregate


def sharing_key(node: WindowAggregate) -> str:
    """The name under which this aggregate, and all that share with it, are planned."""
    if isinstance(node.input, RowsWindow):
        return f"rows.{node.input.input.fingerprint}"
    assert isinstance(node.input, Scan)
    return node.input.source


def settings_for(node: WindowAggregate, settings: Settings) -> Settings:
    """The settings with the statistics of these aggregates. Where windows count rows, the "time" of a row is its
    number, so the rate is one row per microsecond; groups are those that the readers of the source counted.
    """
    if not isinstance(node.input, RowsWindow):
        return settings
    below = node.input.input
    known: WindowStatistics = {"rate": float(SECOND)}
    measured = settings.statistics.get(below.source) if isinstance(below, Scan) else None
    if measured and "groups" in measured:
        known |= {"groups": measured["groups"], "tuples": measured["tuples"], "flows": measured["flows"]}
    return replace(settings, statistics={**settings.statistics, sharing_key(node): known})
