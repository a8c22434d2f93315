"""A database that another process serves: `tidemill.connect("postgresql://…")`. It has the calls of a local one that
read and define; running and closing it is the server's business.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import pyarrow as pa

from tidemill.engine.results import Moment
from tidemill.errors import EngineProblem, PlanProblem, TidemillError

_ROWS_AT_ONCE = 10_000
_LOOK_S = 1.0
_TYPES = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    25: pa.string(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
_CODE = re.compile(r"(TM\d{3}) (.*)", re.DOTALL)


class RemoteDatabase:
    """A connection; statements are executed one after the other. `url` is what drivers of Postgres take."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._notices: list[str] = []
        self._connection = _open(url)
        self._connection.add_notice_handler(lambda notice: self._notices.append(notice.message_primary))

    def execute(self, text: str) -> Any:
        """Run statements one after the other; the result of the last one: a table, or what was done."""
        self._notices.clear()
        with _translate_errors(), self._connection.cursor() as cursor:
            cursor.execute(text)
            while cursor.nextset():
                pass
            if cursor.description is not None:
                return _table(cursor)
            return "\n".join(self._notices) or cursor.statusmessage

    def query(self, text: str, timeout: float | None = None) -> pa.Table:
        """Answer an ad hoc SELECT, in at most `timeout` seconds."""
        milliseconds = 0 if timeout is None else max(1, round(timeout * 1000))
        with _translate_errors(), self._connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = {milliseconds}")
            cursor.execute(text)
            if cursor.description is None:
                raise PlanProblem("TM214", "only a query can be queried", hint="execute other statements")
            return _table(cursor)

    def subscribe(
        self,
        view: str,
        as_of: int | dt.datetime | None = None,
        *,
        as_of_batch: int | None = None,
        by_batch: bool = False,
    ) -> RemoteSubscription:
        """The contents of a view and then its changes; with `as_of`, the changes after that time. Both go on until it
        is closed. `as_of` of the last moment that was taken is where a later subscription goes on.

        `as_of_batch`: the changes after that batch. With it, or `by_batch`, each moment has whole batches, and `batch`
        of the last one is where a later subscription goes on.
        """
        if as_of_batch is None:
            return RemoteSubscription(_open(self._url), view, _as_of(as_of), by_batch)
        if as_of is not None:
            raise PlanProblem("TM112", "a subscription is as of a time or as of a batch", hint="leave one of them out")
        return RemoteSubscription(_open(self._url), view, f" AS OF BATCH {int(as_of_batch)}", True)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteSubscription:
    """Yields a `Moment` after the other: after each, all changes up to `as_of` were given, each once."""

    def __init__(self, connection: Any, view: str, begin: str, by_batch: bool) -> None:
        self.view, self._by_batch = view, by_batch
        self.as_of: int | dt.datetime | None = None
        self.batch: int | None = None
        self._connection, self._rows, self._columns = connection, list[tuple[Any, ...]](), list[Any]()
        self.closed = False
        name = '"' + view.replace('"', '""') + '"'
        try:
            with _translate_errors():
                progress = "'batch'" if by_batch else "true"
                statement = f"SUBSCRIBE {name}{begin} WITH (progress = {progress})"
                connection.execute(f"DECLARE changes CURSOR FOR {statement}")
        except TidemillError:
            self.close()
            raise

    def next(self, timeout: float | None = None) -> Moment | None:
        """The next moment; None when none came in time, or the subscription is closed."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self.closed:
            found = self._take()
            if found is not None:
                return found
            left = _LOOK_S if until is None else min(_LOOK_S, until - time.monotonic())
            if left <= 0:
                return None
            with _translate_errors(), self._connection.cursor() as cursor:
                cursor.execute(f"FETCH {_ROWS_AT_ONCE} FROM changes WITH (timeout = '{max(1, round(left * 1000))}ms')")
                self._columns = list(cursor.description)
                self._rows += cursor.fetchall()
        return None

    def _take(self) -> Moment | None:
        """The rows up to the first that tells progress; later ones stay."""
        for place, row in enumerate(self._rows):
            if row[0] == "p":
                taken, self._rows = self._rows[:place], self._rows[place + 1 :]
                self.as_of = row[1]
                if self._by_batch:
                    self.batch = row[-1]
                    taken = [row[:-1] for row in taken]
                columns = self._columns[:-1] if self._by_batch else self._columns
                changes = {self.view: _make_table(columns, taken)} if taken else {}
                return Moment(row[1], changes, self.batch)
        return None

    def __iter__(self) -> Iterator[Moment]:
        while (found := self.next()) is not None:
            yield found

    def close(self) -> None:
        """End the subscription."""
        self.closed = True
        with suppress(Exception):
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(url: str) -> Any:
    try:
        import psycopg
    except ImportError:
        raise EngineProblem(
            "TM540", "a client of another process needs psycopg", hint="pip install 'tidemill[client]'"
        ) from None
    with _translate_errors():
        return psycopg.connect(url, autocommit=True)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Errors of the server as the engine raises them."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        primary = error.diag.message_primary or str(error).strip()
        found = _CODE.fullmatch(primary)
        if found is None:
            raise EngineProblem("TM533", primary, hint=error.diag.message_hint) from None
        raise TidemillError(
            found[1], found[2], detail=error.diag.message_detail, hint=error.diag.message_hint
        ) from None


def _table(cursor: Any) -> pa.Table:
    return _make_table(cursor.description, cursor.fetchall())


def _make_table(columns: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as Arrow; types that Postgres has not are inferred from the values."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [_array(column.type_code, found) for column, found in zip(columns, values, strict=True)]
    return pa.table(arrays, names=[column.name for column in columns])


def _array(oid: int, values: Sequence[Any]) -> pa.Array:
    if oid in _TYPES:
        return pa.array(values, _TYPES[oid])
    found = pa.array(values)
    return found.cast(pa.string()) if pa.types.is_null(found.type) else found


def _as_of(moment: int | dt.datetime | None) -> str:
    """
    >>> _as_of(None), _as_of(5), _as_of(dt.datetime(2026, 1, 2))
    ('', ' AS OF 5', " AS OF TIMESTAMP '2026-01-02 00:00:00'")
    """
    if moment is None:
        return ""
    if isinstance(moment, dt.datetime):
        return f" AS OF TIMESTAMP '{moment.replace(tzinfo=None).isoformat(' ')}'"
    return f" AS OF {moment}"
