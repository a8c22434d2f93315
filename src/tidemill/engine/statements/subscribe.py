"""SUBSCRIBE: live changes of a view, or of several as of one moment after the other; and from a time on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.engine.recovery.repair import stopped_problem
from tidemill.engine.results import Moment, Subscription
from tidemill.engine.run.runner import Runner
from tidemill.engine.state import DatabaseState
from tidemill.engine.statements.moment import Asked, check_resumable, check_resumable_batch, check_together, time_value
from tidemill.engine.views.bound_view import BoundView
from tidemill.errors import EngineProblem, PlanProblem, TidemillError
from tidemill.plan.statements import AsOf, Subscribe
from tidemill.runtime.views.store import present
from tidemill.runtime.views.subscriptions import QUEUE_BYTES, MomentChanges
from tidemill.runtime.views.tables import null_old

TableSubscription = Subscription[pa.Table, pa.Table]
MomentSubscription = Subscription[MomentChanges, Moment]
AnySubscription = TableSubscription | MomentSubscription

BATCH = "BATCH"  # the last column of changes that come in whole batches


def subscribe(
    state: DatabaseState, runner: Runner, names: str | Sequence[str], most_bytes: int = QUEUE_BYTES
) -> AnySubscription:
    """The contents of a view or of several, then the changes; at most `most_bytes` wait for the reader (TM518)."""
    return (
        _subscribe_one(state, runner, names, most_bytes)
        if isinstance(names, str)
        else _subscribe_together(state, runner, names, most_bytes)
    )


def open_subscription(
    state: DatabaseState, runner: Runner, statement: Subscribe, most_bytes: int = QUEUE_BYTES
) -> AnySubscription:
    """What a SUBSCRIBE statement asks for."""
    if statement.as_of is not None or statement.progress:
        return follow(state, runner, statement.name, statement.as_of, most_bytes, statement.by_batch)
    return subscribe(state, runner, statement.names if statement.others else statement.name, most_bytes)


def follow(
    state: DatabaseState,
    runner: Runner,
    name: str,
    as_of: AsOf | None,
    most_bytes: int = QUEUE_BYTES,
    by_batch: bool = False,
) -> MomentSubscription:
    """The contents of a view, or the changes after a time or a batch, then the changes: each moment says up to which
    time they are complete; of whole batches also which is the last. The changes after the time must be kept (TM233),
    and the time must be closed (TM232).
    """
    view, outlet, unit_us = state.find_view(name, "a subscription"), state.outlet, state.workload.unit_us
    domain = view.stored.stamp_type
    with outlet.lock:
        start = None if as_of is None else _find_start(state, view, as_of)
        unit = unit_us if domain == "BIGINT" else 1
        snapshot, queue = outlet.resumable.add(view.stored, outlet.known, unit, start, most_bytes, by_batch)
        if (snapshot.time is not None or snapshot.batch is not None) and not snapshot.num_rows:
            queue.queue.put(snapshot)

    def shape(found: MomentChanges) -> Moment:
        table = found.changes.get(view.entry.id)
        shown = {} if table is None else {view.entry.name: _present(state, view, table)}
        return Moment(None if found.time is None else time_value(found.time, domain, unit_us), shown, found.batch)

    def end() -> None:
        with outlet.lock:
            outlet.resumable.remove(queue)

    alive, failure = (lambda: runner.is_running), (lambda: _why_ended(state, runner, view))
    made: MomentSubscription = Subscription(snapshot, queue.queue, shape, alive, end, failure)
    return made


def _find_start(state: DatabaseState, view: BoundView, given: AsOf) -> int:
    """The time from which on the changes are those that are asked for."""
    known, unit_us = state.outlet.known, state.workload.unit_us
    if given.batch is None:
        return check_resumable(Asked(view), given, known, unit_us) + 1
    return check_resumable_batch(Asked(view), given, known, state.outlet.resumable.times)


def _subscribe_one(state: DatabaseState, runner: Runner, name: str, most_bytes: int) -> TableSubscription:
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


def _subscribe_together(
    state: DatabaseState, runner: Runner, names: Sequence[str], most_bytes: int
) -> MomentSubscription:
    """All views as of one moment, then their changes in the order of time."""
    if not names:
        raise PlanProblem("TM214", "a subscription needs a view", hint='subscribe(["A", "B"])')
    found = [state.find_view(name, "a subscription") for name in names]
    views = {view.entry.id: view for view in found}
    with state.outlet.lock:
        domain = _check_moment(state, views)
        snapshot, joint = state.outlet.subscribe_together([v.stored for v in views.values()], most_bytes)
    unit_us = state.workload.unit_us

    def shape(found: MomentChanges) -> Moment:
        shown = {views[v].entry.name: _present(state, views[v], table) for v, table in found.changes.items()}
        return Moment(None if found.time is None else time_value(found.time, domain, unit_us), shown)

    return Subscription(
        snapshot,
        joint.queue,
        shape,
        lambda: runner.is_running,
        lambda: state.outlet.unsubscribe_together(joint),
        lambda: next(filter(None, (_why_ended(state, runner, v) for v in views.values())), None),
    )


def _check_moment(state: DatabaseState, views: Mapping[str, BoundView]) -> str:
    """The time domain of the views; refused where they have no common moment that is kept (TM231, TM233)."""
    asked = {v: Asked(view) for v, view in views.items()}
    metas = {**state.outlet.known, "peek": "0"}
    return check_together(asked, metas, state.workload.unit_us)


def changes_schema(state: DatabaseState, name: str, by_batch: bool = False) -> pa.Schema:
    """The columns of the changes of a view; whole numbers of 128 bits are decimals, whatever their values."""
    view = state.find_view(name, "a subscription").stored
    shown = [("TAG", "VARCHAR"), *([] if "TS" in view.names else [("TS", view.stamp_type)])]
    shown += [(c.name, c.type) for c in view.columns]
    duck = state.store.cursor()
    try:
        # One by one: TS and a column ts would be the same name.
        types = [
            duck.sql(f"SELECT CAST(NULL AS {kind}) AS v").to_arrow_table().schema.field("v").type for _, kind in shown
        ]
        old = duck.sql(f"SELECT {null_old(view)} AS v").to_arrow_table().schema.field("v").type
    finally:
        duck.close()
    told = [(BATCH, pa.int64())] if by_batch else []
    return pa.schema([*((name, kind) for (name, _), kind in zip(shown, types, strict=True)), ("OLD", old), *told])


def _present(state: DatabaseState, view: BoundView, table: pa.Table) -> pa.Table:
    """Changes as users see them."""
    duck = state.store.cursor()
    try:
        return present(view.stored, table, duck)
    finally:
        duck.close()


def _why_ended(state: DatabaseState, runner: Runner, view: BoundView) -> TidemillError | None:
    """Why no more changes of a view will come; None while they may."""
    now = state.workload.views.get(view.entry.name.lower())
    if now is None or now.entry.id != view.entry.id:
        return EngineProblem(
            "TM523",
            f'view "{view.entry.name}" was dropped or replaced',
            hint="subscribe again: to a new view of this name, from its contents on",
        )
    stopped = state.workload.stopped.get(view.entry.id)
    return stopped_problem(view.entry.name, stopped) if stopped else runner.failure
