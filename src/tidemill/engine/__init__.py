"""parse → bind → optimize → run → serve: the only place that calls all of them."""

from __future__ import annotations

from tidemill.engine.backup import Backup, restore
from tidemill.engine.database import Database
from tidemill.engine.directory import held
from tidemill.engine.requests import ask_for_backup
from tidemill.engine.results import Created, RunSummary, Subscription
from tidemill.engine.status import read_status

__all__ = ["Backup", "Created", "Database", "RunSummary", "Subscription", "ask_for_backup", "held", "open",
           "read_status", "restore"]

open = Database
