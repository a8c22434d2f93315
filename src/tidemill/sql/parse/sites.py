"""CREATE SITE, EXPORT … TO SITE and REVOKE … FROM SITE."""

from __future__ import annotations

from typing import Any, Literal, cast

from tidemill.plan.statements import CreateSite, Export
from tidemill.sql.lexical.cursor import Cursor
from tidemill.sql.parse.options import parse_options

_AT_HINT = "write AT 'host:7443'"


def parse_site(cursor: Cursor, local: bool) -> CreateSite:
    """Read what follows CREATE SITE, or CREATE LOCAL SITE, which listens on its address."""
    name = cursor.take_name("the name of the site")
    address = None
    if local or cursor.word() == "AT":
        cursor.expect("AT", hint=_AT_HINT)
        address = cursor.take_string("an address in quotes", _AT_HINT)
    options: dict[str, Any] = {}
    parse_options(cursor, "site", options)
    return CreateSite(name, address, options, local)


def parse_export(cursor: Cursor) -> Export:
    """Read what follows EXPORT: STREAM or VIEW name TO SITE name."""
    kind, name = _parse_exported(cursor)
    cursor.expect("TO", hint="write EXPORT STREAM s TO SITE lyon")
    cursor.expect("SITE", hint="write EXPORT STREAM s TO SITE lyon")
    return Export(kind, name, cursor.take_name("the name of a site"))


def parse_revoke_export(cursor: Cursor) -> Export:
    """Read what follows REVOKE: STREAM or VIEW name FROM SITE name."""
    kind, name = _parse_exported(cursor)
    cursor.expect("FROM", hint="write REVOKE STREAM s FROM SITE lyon")
    cursor.expect("SITE", hint="write REVOKE STREAM s FROM SITE lyon")
    return Export(kind, name, cursor.take_name("the name of a site"), revoked=True)


def _parse_exported(cursor: Cursor) -> tuple[Literal["stream", "view"], str]:
    kind = cursor.choose(("STREAM", "VIEW"), "STREAM or VIEW").lower()
    return cast(Literal["stream", "view"], kind), cursor.take_name(f"the name of a {kind}")
