"""CREATE, ALTER and DROP USER, GRANT and REVOKE."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.engine.results import Created
from tidemill.engine.state import DatabaseState
from tidemill.engine.users.verifiers import make_verifier
from tidemill.errors import CatalogProblem
from tidemill.plan.statements import AlterUser, CreateUser, DropUser, Grant, Revoke
from tidemill.sql.catalog import Kind, User

_READABLE: tuple[Kind, ...] = ("view", "query", "table", "stream")


class Users:
    """Changes users and their rights; all calls hold the lock of the state."""

    def __init__(self, state: DatabaseState) -> None:
        self._state, self._catalog = state, state.catalog

    def create(self, statement: CreateUser) -> Created:
        """A user without any right; the catalog gets the verifier of the password. The first user has all rights:
        from now on everyone needs a password, and one user must be able to manage the others.
        """
        known = self._catalog.users.get(statement.name.lower())
        if known is not None:
            if statement.if_not_exists:
                return Created("user", known.name, f"user {known.name} exists already")
            raise CatalogProblem(
                "TM331", f'there is a user "{known.name}" already', hint=f"ALTER USER {known.name} PASSWORD '…'"
            )
        rights = [] if self._catalog.users else ["all"]
        made = User(statement.name, str(make_verifier(statement.password)), rights)
        self._catalog.users[statement.name.lower()] = made
        return self._save(made.name, f"user {made.name} created" + (" with all rights: it is the first" * bool(rights)))

    def alter(self, statement: AlterUser) -> Created:
        """Another password."""
        user = self._find(statement.name)
        user.verifier = str(make_verifier(statement.password))
        return self._save(user.name, f"user {user.name} has another password")

    def drop(self, statement: DropUser) -> Created:
        """The user and its rights are gone; the last one who may do everything stays while there are others."""
        if statement.if_exists and statement.name.lower() not in self._catalog.users:
            return Created("user", statement.name, f"there is no user {statement.name}")
        user = self._find(statement.name)
        self._check_keeper(user)
        del self._catalog.users[user.name.lower()]
        return self._save(user.name, f"user {user.name} dropped")

    def grant(self, statement: Grant) -> Created:
        """Give a right to users."""
        users = [self._find(name) for name in statement.users]
        names = [self._catalog.find(name, *_READABLE).name.lower() for name in statement.names]
        for user in users:
            user.reads += [name for name in names if name not in user.reads]
            if not names and statement.privilege not in user.privileges:
                user.privileges.append(statement.privilege)
        return self._save(users[0].name, f"granted to {_list(users)}")

    def revoke(self, statement: Revoke) -> Created:
        """Take a right back from users."""
        users = [self._find(name) for name in statement.users]
        names = {name.lower() for name in statement.names}
        for user in users:
            if statement.privilege == "all":
                self._check_keeper(user)
            user.reads = [name for name in user.reads if name not in names]
            user.privileges = [p for p in user.privileges if names or p != statement.privilege]
        return self._save(users[0].name, f"revoked from {_list(users)}")

    def _find(self, name: str) -> User:
        user = self._catalog.users.get(name.lower())
        if user is None:
            raise CatalogProblem("TM331", f'there is no user "{name}"', hint="SHOW USERS lists them")
        return user

    def _check_keeper(self, user: User) -> None:
        """Refuse to leave users without one who may do everything."""
        others = [u for u in self._catalog.users.values() if u is not user]
        if "all" in user.privileges and others and not any("all" in u.privileges for u in others):
            raise CatalogProblem(
                "TM332", f'"{user.name}" is the last user with all rights', hint="GRANT ALL TO another user first"
            )

    def _save(self, name: str, message: str) -> Created:
        self._state.save_catalog()
        return Created("user", name, message)


def _list(users: Iterable[User]) -> str:
    return ", ".join(user.name for user in users)
