"""What a statement gives: rows that are taken piece by piece, a tag, notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from tidemill.engine.results import Moment, Subscription
from tidemill.interrupts import Cancellation
from tidemill.serve.postgres.fields import Field, fields_of
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.rows import ROWS_AT_ONCE, CopyFormat

_LOOK_S = 1.0  # how often a subscription looks whether its job has failed
_AT_ONCE_S = 0.001  # long enough for a subscription to notice that its job has failed
PROGRESS = "p"  # the TAG of a row that says up to which time all changes were delivered

Run = Callable[..., Any]  # calls a function in a thread


class RowSource(Protocol):
    """Rows in tables, one after the other."""

    schema: pa.Schema
    is_endless: bool

    @property
    def is_behind(self) -> bool:
        """Whether rows were dropped because they were not taken in time."""
        ...

    async def next(self, cancellation: Cancellation, timeout: float | None = None) -> pa.Table | None:
        """The next rows; None at the end, or when nothing came in time."""

    def close(self) -> None:
        """No more rows are wanted."""


class Answer:
    """The rows of an answer that is complete."""

    is_endless = False
    is_behind = False

    def __init__(self, table: pa.Table) -> None:
        self.schema, self._table = table.schema, table

    async def next(self, cancellation: Cancellation, timeout: float | None = None) -> pa.Table | None:
        if not self._table.num_rows:
            return None
        cancellation.check()
        found, self._table = self._table.slice(0, ROWS_AT_ONCE), self._table.slice(ROWS_AT_ONCE)
        return found

    def close(self) -> None:
        self._table = self._table.slice(0, 0)


class Follow:
    """The changes of a view, as long as the client takes them. `check` refuses them once the right is revoked."""

    is_endless = True

    def __init__(
        self, subscription: Subscription[Any, Any], schema: pa.Schema, run: Run, check: Callable[[], None]
    ) -> None:
        self.schema, self._subscription, self._run, self._check = schema, subscription, run, check
        self._loop, self._came = asyncio.get_running_loop(), asyncio.Event()
        self._rest: pa.Table | None = None
        subscription.notify(self._wake)
        self._came.set()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._came.set)

    @property
    def is_behind(self) -> bool:
        return self._subscription.has_fallen_behind

    async def next(self, cancellation: Cancellation, timeout: float | None = None) -> pa.Table | None:
        """The next changes. Waits until there are some, for `timeout` seconds at most; a problem of the subscription is
        raised.
        """
        if self._rest is None:
            self._rest = await self._wait(cancellation, timeout)
        if self._rest is None:
            return None
        found, rest = self._rest.slice(0, ROWS_AT_ONCE), self._rest.slice(ROWS_AT_ONCE)
        self._rest = rest if rest.num_rows else None
        return found

    async def _wait(self, cancellation: Cancellation, timeout: float | None) -> pa.Table | None:
        until = None if timeout is None else self._loop.time() + timeout
        with cancellation.interrupts(self._wake):
            while True:
                cancellation.check()
                self._check()
                self._came.clear()
                found = await self._run(self._subscription.next, _AT_ONCE_S)
                if found is not None:
                    self._came.set()
                    return self._shape(found)
                if self._subscription.closed:
                    return None
                left = _LOOK_S if until is None else min(_LOOK_S, until - self._loop.time())
                if left <= 0:
                    return None
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._came.wait(), left)

    def _shape(self, found: pa.Table | Moment) -> pa.Table:
        """Changes as rows; the time of a moment is a row after them."""
        if not isinstance(found, Moment):
            return _conform(found, self.schema)
        tables = [_conform(table, self.schema) for table in found.changes.values()]
        if found.as_of is not None or found.batch is not None:
            told = {"TAG": PROGRESS, "TS": found.as_of}
            columns = [pa.array([told.get(field.name)], field.type) for field in self.schema]
            if found.batch is not None:
                columns[-1] = pa.array([found.batch], self.schema[-1].type)
            tables.append(pa.table(columns, schema=self.schema))
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def close(self) -> None:
        self._subscription.close()


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with the types that the client was told, and columns for what only progress tells."""
    for more in list(schema)[table.num_columns :]:
        table = table.append_column(more, pa.nulls(table.num_rows, more.type))
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise ProtocolProblem("22003", f"a value does not fit into its column: {error}") from None


@dataclass
class Outcome:
    """The result of a statement. `tag` is completed by the number of rows where `counts`; `copy`: rows go out so."""

    tag: str
    rows: RowSource | None = None
    counts: bool = False
    notices: list[str] = field(default_factory=list)
    copy: CopyFormat | None = None
    changed: tuple[str, ...] = ()  # parameters that the client is told of
    tags: tuple[str, ...] = ()  # of the statements that were executed before, in one step

    @property
    def fields(self) -> list[Field] | None:
        """The columns; None where there are no rows, or they go out by COPY."""
        return None if self.rows is None or self.copy is not None else fields_of(self.rows.schema)

    def close(self) -> None:
        """No more rows are wanted."""
        if self.rows is not None:
            self.rows.close()


class Portal:
    """An outcome of which rows are taken in portions."""

    def __init__(self, outcome: Outcome, formats: list[int]) -> None:
        self.outcome, self.formats = outcome, formats
        self.is_done = False
        self._rest: pa.Table | None = None

    async def take(
        self, most: int | None, cancellation: Cancellation, timeout: float | None = None
    ) -> AsyncIterator[pa.Table]:
        """At most `most` rows; `is_done` says afterwards whether there are no more. Of rows that come live, the first
        are waited for, and those that are there with them are taken.
        """
        rows, left = self.outcome.rows, most
        if rows is None:
            self.is_done = True
            return
        while left is None or left > 0:
            found, self._rest = self._rest, None
            if found is None:
                found = await rows.next(cancellation, timeout)
            if found is None:
                self.is_done = not rows.is_endless
                return
            if left is not None and found.num_rows > left:
                found, self._rest = found.slice(0, left), found.slice(left)
            left = None if left is None else left - found.num_rows
            if rows.is_endless and (most is not None or timeout is not None):
                timeout = 0.0
            yield found

    @property
    def has_waiting_rows(self) -> bool:
        """Whether rows were read that did not fit into the last portion."""
        return self._rest is not None

    def close(self) -> None:
        self.is_done = True
        self.outcome.close()
