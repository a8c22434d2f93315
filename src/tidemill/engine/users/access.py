"""What a user may do. It is checked before a statement is bound, so that no error tells of names that are not granted.

    SELECT ON view    read it: queries, subscriptions, DESCRIBE; listings show nothing else
    CREATE            all statements, and reading everything, except what concerns users
    ALL               everything

A database without users is open to everyone who reaches it; the server then listens to this machine only.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import CatalogProblem
from tidemill.plan.statements import (
    AlterUser,
    CreateUser,
    Describe,
    DropUser,
    Grant,
    Revoke,
    Select,
    Set,
    Show,
    Statement,
    Subscribe,
)
from tidemill.sql.catalog import Catalog, User
from tidemill.sql.scopes import outside_tables

_ABOUT_USERS = (CreateUser, AlterUser, DropUser, Grant, Revoke)
_LISTINGS = ("sources", "tables", "streams", "views", "sinks", "queries", "aggregates", "all")


class Access:
    """The rights of one user. None is the process that has the database open: it may do everything."""

    def __init__(self, catalog: Catalog, user: str | None) -> None:
        self._catalog, self.user = catalog, user

    @property
    def reads_everything(self) -> bool:
        """Whether no name is hidden from the user."""
        return self.user is None or self._find().reads_everything

    def may_read(self, name: str) -> bool:
        """Whether the user may read the relation of this name, if there is one."""
        return self.reads_everything or name.lower() in self._find().reads

    def check(self, statement: Statement) -> None:
        """Refuse what the user may not do (TM330)."""
        if self.user is None:
            return
        user = self._find()
        if "all" in user.privileges:
            return
        if isinstance(statement, _ABOUT_USERS) or (isinstance(statement, Show) and statement.what == "users"):
            if not (isinstance(statement, AlterUser) and statement.name.lower() == user.name.lower()):
                raise _denied_problem(f'user "{user.name}" may not manage users', f"GRANT ALL TO {user.name}")
        elif not user.reads_everything:
            self._check_reader(user, statement)

    def _check_reader(self, user: User, statement: Statement) -> None:
        if isinstance(statement, Select) and statement.output is None:
            names = [table.name for table in outside_tables(statement.query)]
        elif isinstance(statement, Subscribe):
            names = list(statement.names)
        elif isinstance(statement, Describe):
            names = [statement.name]
        elif isinstance(statement, Show) and statement.what in (*_LISTINGS, "time_zone"):
            names = []
        else:
            what = "change settings" if isinstance(statement, Set) else "execute this statement"
            raise _denied_problem(f'user "{user.name}" may not {what}', f"GRANT CREATE TO {user.name}")
        for name in names:
            if name.lower() not in user.reads:
                raise _denied_problem(
                    f'user "{user.name}" may not read "{name}"',
                    f"GRANT SELECT ON {name} TO {user.name}",
                    "there is no view of this name that was granted",
                )

    def select_visible(self, statement: Statement, result: Any) -> Any:
        """The result of a statement as the user may see it: listings have the names that were granted, without the
        text that defines them.
        """
        if not isinstance(statement, Show) or statement.what not in _LISTINGS or self.reads_everything:
            return result
        names = pc.utf8_lower(result.column("name"))
        shown = result.filter(pc.is_in(names, pa.array(self._find().reads, pa.string())))
        for hidden in ("reads", "definition"):
            place = shown.column_names.index(hidden)
            shown = shown.set_column(place, hidden, pa.nulls(shown.num_rows, pa.string()))
        return shown

    def _find(self) -> User:
        assert self.user is not None
        user = self._catalog.users.get(self.user.lower())
        if user is None:
            raise CatalogProblem("TM331", f'there is no user "{self.user}"', hint="the user was dropped; log in again")
        return user


def _denied_problem(message: str, statement: str, detail: str | None = None) -> CatalogProblem:
    return CatalogProblem("TM330", message, detail=detail, hint=f"a user with all rights can say {statement}")
