"""parse → bind → optimize → run → serve: the only place that calls all of them."""

from __future__ import annotations

from tidemill.engine.database import Database
from tidemill.engine.directory.backup import Backup, restore
from tidemill.engine.directory.directory import is_held
from tidemill.engine.directory.requests import ask_for_backup
from tidemill.engine.results import Created, Moment, RunSummary, Subscription
from tidemill.engine.show.status import read_status

__all__ = [
    "Backup",
    "Created",
    "Database",
    "Moment",
    "RunSummary",
    "Subscription",
    "ask_for_backup",
    "is_held",
    "open",
    "read_status",
    "restore",
]

open = Database
