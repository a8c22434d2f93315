"""parse → bind → optimize → run → serve: the only place that calls all of them.

`database` is what users hold, `state` what is open, `workload` what stands, `physical_plans` what runs of it.

sources   `sources`, `kafka_sources`, `postgres_sources`, `alter_sources`, `rereadable`, `ports`, `slot_lags`
results   `results`, `sinks`
texts     `script`
clients   `machine`
folders   `statements/`, `views/`, `run/`, `adapt/`, `recovery/`, `directory/`, `settings/`, `show/`, `sites/`, `users/`
"""

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
