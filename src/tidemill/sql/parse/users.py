"""CREATE, ALTER and DROP USER, GRANT and REVOKE.

No error of these statements quotes their text behind the name of the user: it may be a password.
"""

from __future__ import annotations

from typing import cast

from sqlglot.tokens import TokenType

from tidemill.plan.statements import AlterUser, CreateUser, DropUser, Grant, Privilege, Revoke
from tidemill.sql.lexical.cursor import Cursor

MAX_PASSWORD = 1024
_PASSWORD = "write CREATE USER name PASSWORD '…'"
_GRANT = "write GRANT SELECT ON view TO user, GRANT CREATE TO user or GRANT ALL TO user"


def parse_create_user(cursor: Cursor) -> CreateUser:
    """Read what follows CREATE USER."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    return CreateUser(cursor.take_name("the name of a user"), _parse_password(cursor), if_not_exists)


def parse_alter_user(cursor: Cursor) -> AlterUser:
    """Read what follows ALTER USER."""
    return AlterUser(cursor.take_name("the name of a user"), _parse_password(cursor))


def parse_drop_user(cursor: Cursor) -> DropUser:
    """Read what follows DROP USER."""
    if_exists = cursor.take("IF", "EXISTS")
    return DropUser(cursor.take_name("the name of a user"), if_exists)


def _parse_password(cursor: Cursor) -> str:
    cursor.take("WITH")
    if not cursor.take("PASSWORD"):
        cursor.fail("a user needs PASSWORD and a string", hint=_PASSWORD)
    token = cursor.token
    if token is None or token.token_type != TokenType.STRING or not 0 < len(token.text) <= MAX_PASSWORD:
        cursor.fail(f"a password is a string of 1 to {MAX_PASSWORD:,} characters", hint=_PASSWORD)
    if "\0" in token.text:
        cursor.fail("a password cannot have a zero character", hint=_PASSWORD)
    cursor.advance()
    if cursor.token is not None:
        cursor.fail("a statement about a user ends with the password", hint="end the statement with ;")
    return token.text


def parse_grant(cursor: Cursor) -> Grant:
    """Read what follows GRANT."""
    privilege, names = _parse_privilege(cursor)
    cursor.expect("TO", hint=_GRANT)
    return Grant(privilege, names, _parse_names(cursor, "the name of a user"))


def parse_revoke(cursor: Cursor) -> Revoke:
    """Read what follows REVOKE."""
    privilege, names = _parse_privilege(cursor)
    cursor.expect("FROM", hint="write REVOKE SELECT ON view FROM user, REVOKE CREATE FROM user")
    return Revoke(privilege, names, _parse_names(cursor, "the name of a user"))


def _parse_privilege(cursor: Cursor) -> tuple[Privilege, tuple[str, ...]]:
    privilege = cursor.choose(("SELECT", "CREATE", "ALL"), "a privilege").lower()
    if privilege != "select":
        return cast(Privilege, privilege), ()
    cursor.expect("ON", hint=_GRANT)
    if cursor.word() in ("VIEW", "TABLE", "STREAM") and cursor.word(1) not in ("TO", "FROM", ",", ""):
        cursor.advance()
    return "select", _parse_names(cursor, "the name of a view")


def _parse_names(cursor: Cursor, what: str) -> tuple[str, ...]:
    names = [cursor.take_name(what)]
    while cursor.take(","):
        names.append(cursor.take_name(what))
    return tuple(names)
