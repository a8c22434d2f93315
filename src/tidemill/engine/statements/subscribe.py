"""SUBSCRIBE: live changes of a view."""

from __future__ import annotations

import pyarrow as pa

from tidemill.engine.recovery.repair import stopped_problem
from tidemill.engine.results import Subscription
from tidemill.engine.run.runner import Runner
from tidemill.engine.state import DatabaseState
from tidemill.engine.views.bound_view import BoundView
from tidemill.errors import TidemillError
from tidemill.runtime.views.store import present
from tidemill.runtime.views.subscriptions import QUEUE_BYTES


def subscribe(state: DatabaseState, runner: Runner, name: str, most_bytes: int = QUEUE_BYTES) -> Subscription:
    """The contents of a view, then its changes; at most `most_bytes` of them wait for the reader (TM518)."""
    view = state.find_view(name, "a subscription")
    snapshot, inbox = state.outlet.subscribe(view.stored, most_bytes)
    return Subscription(
        snapshot,
        inbox,
        lambda table: _present(state, view, table),
        lambda: runner.is_running,
        lambda: state.outlet.unsubscribe(view.stored, inbox),
        lambda: _why_ended(state, runner, view),
    )


def _present(state: DatabaseState, view: BoundView, table: pa.Table) -> pa.Table:
    """Changes as users see them."""
    duck = state.store.cursor()
    try:
        return present(view.stored, table, duck)
    finally:
        duck.close()


def _why_ended(state: DatabaseState, runner: Runner, view: BoundView) -> TidemillError | None:
    """Why no more changes of a view will come; None while they may."""
    stopped = state.workload.stopped.get(view.entry.id)
    return stopped_problem(view.entry.name, stopped) if stopped else runner.failure
