"""parse → bind → optimize → run → serve: the only place that calls all of them."""

from __future__ import annotations

from tidemill.engine.database import Database
from tidemill.engine.results import Created, RunSummary, Subscription
from tidemill.engine.status import read_status

__all__ = ["Created", "Database", "RunSummary", "Subscription", "open", "read_status"]

open = Database
