"""A session: one user's way into a database, for servers. Every statement is checked against the user's rights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import pyarrow as pa

from tidemill.engine.database import Database
from tidemill.engine.script import Placed, is_question, place_statements
from tidemill.engine.settings.zones import zone_of
from tidemill.engine.show.tables import columns_table
from tidemill.engine.statements.subscribe import AnySubscription, changes_schema, open_subscription
from tidemill.engine.users.access import Access
from tidemill.errors import PlanProblem, TidemillError
from tidemill.interrupts import Cancellation
from tidemill.plan.statements import Describe, Select, Show, Subscribe
from tidemill.runtime.views.subscriptions import QUEUE_BYTES

# PostgreSQL gives objects of users such numbers; clients read them as signed ones
_FIRST_ID, _LAST_ID = 16_384, 1 << 31


@dataclass(frozen=True)
class RelationInfo:
    """A relation that a user may read. `id` is a number that stays the same as long as the name does."""

    id: int
    name: str
    kind: str  # source, table, stream, view, query
    columns: tuple[tuple[str, str], ...]  # name, DuckDB type
    key: tuple[str, ...]
    definition: str


@dataclass(frozen=True)
class UserInfo:
    """A user as others may see it."""

    id: int
    name: str
    has_all_rights: bool
    may_create: bool


class Session:
    """What one user does with a database. `user` None stands for the process that has it open."""

    def __init__(self, db: Database, user: str | None = None) -> None:
        self._db, self.user = db, user
        self.access = Access(db.catalog, user)

    def parse(self, text: str) -> list[Placed]:
        """The statements of a text, each checked against the rights of the user."""
        found = place_statements(text)
        for part in found:
            self.access.check(part.statement)
        return found

    def execute(self, text: str, tell: Callable[[Any], None] | None = None) -> Any:
        """Execute statements as `Database.execute` does, as far as the user may."""
        statements = iter([part.statement for part in self.parse(text)])

        def tell_visible(result: Any) -> None:
            shown.append(self.access.select_visible(next(statements), result))
            if tell is not None:
                tell(shown[-1])

        shown: list[Any] = []
        self._db.execute(text, tell_visible)
        return shown[-1] if shown else None

    def query(
        self,
        text: str,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        shape_only: bool = False,
        zone: str | None = None,
    ) -> pa.Table:
        """Answer an ad hoc SELECT; `cancellation` ends it from another thread. `shape_only`: without rows. `zone`: in
        which it is computed, in place of the setting.
        """
        select = self._parse_one(text)
        if not isinstance(select, Select) or select.output is not None:
            raise PlanProblem("TM214", "only an ad hoc SELECT can be queried", hint="execute other statements")
        return self._db.executor.answer([select], timeout, cancellation, shape_only, zone)[0]

    def time_zone(self) -> str:
        """The zone of ad hoc queries that do not bring their own."""
        return zone_of(self._db.catalog)

    def subscribe(self, text: str, most_bytes: int = QUEUE_BYTES) -> AnySubscription:
        """Open what a SUBSCRIBE statement asks for; at most `most_bytes` wait for the reader (TM518)."""
        statement = self._parse_one(text)
        if not isinstance(statement, Subscribe):
            raise PlanProblem("TM214", "this is no SUBSCRIBE statement", hint="write SUBSCRIBE view")
        with self._db.state.lock:
            return open_subscription(self._db.state, self._db.runner, statement, most_bytes)

    def describe(self, text: str) -> pa.Schema | None:
        """The columns that a statement answers with, without executing what changes something; None: no columns."""
        statement = self._parse_one(text)
        if isinstance(statement, Subscribe):
            return changes_schema(self._db.state, statement.name, statement.by_batch)
        if isinstance(statement, Select):
            return self.query(text, shape_only=True).schema if statement.output is None else None
        if isinstance(statement, (Show, Describe)):
            return self.execute(text).schema
        return pa.schema([("plan", pa.string())]) if is_question(statement) else None

    def relations(self) -> list[RelationInfo]:
        """Everything with columns that the user may read, in the order of creation."""
        found, taken = [], set[int]()
        with self._db.state.lock:
            for entry in self._db.catalog.of("source", "table", "stream", "view", "query"):
                if self.access.may_read(entry.name):
                    number = _number(entry.name, taken)
                    shown = self.access.reads_everything
                    columns, key = self._columns(entry.name)
                    found.append(
                        RelationInfo(number, entry.name, entry.kind, columns, key, entry.text if shown else "")
                    )
        return found

    def users(self) -> list[UserInfo]:
        """All users; of a user without rights on users, only itself."""
        users = self._db.catalog.users.values()
        return [
            UserInfo(_number(f"user {u.name}", set()), u.name, "all" in u.privileges, bool(u.privileges))
            for u in users
            if self.access.reads_everything or u.name.lower() == (self.user or "").lower()
        ]

    def catalog_version(self) -> int:
        """A number that grows with every change of relations and users."""
        return self._db.catalog.saved

    def _columns(self, name: str) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        try:
            table = columns_table(name, self._db.catalog, self._db.workload)
        except TidemillError:  # a virtual view over something that has changed
            return (), ()
        rows = table.select(["column", "type", "key"]).to_pylist()
        return tuple((r["column"], r["type"]) for r in rows), tuple(r["column"] for r in rows if r["key"])

    def _parse_one(self, text: str) -> Any:
        found = self.parse(text)
        if len(found) != 1:
            raise PlanProblem("TM105", "one statement is wanted", hint="keep one of them")
        return found[0].statement


def find_verifier(db: Database, user: str) -> str | None:
    """The verifier of a user's password; None where there is no such user."""
    found = db.catalog.users.get(user.lower())
    return found.verifier if found else None


def has_users(db: Database) -> bool:
    """Whether passwords are needed."""
    return bool(db.catalog.users)


def _number(name: str, taken: set[int]) -> int:
    number = _FIRST_ID + crc32(name.lower().encode()) % (_LAST_ID - _FIRST_ID)
    while number in taken:
        number += 1
    taken.add(number)
    return number
