"""Checks the values of options when a statement is executed: wrong ones never reach the runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tidemill.errors import PlanProblem, SourceProblem, TidemillError
from tidemill.plan.sources import ALWAYS, APPLY, OVERLOAD
from tidemill.plan.statements import (
    CreateSink,
    CreateSite,
    CreateView,
    RegisterSource,
    RegisterTable,
    RestartSource,
    Select,
    Set,
    Statement,
)
from tidemill.sql.lexical.durations import LONGEST_US, duration_from_text

Check = Callable[[Any], Any]
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Wrong(ValueError):
    """A wrong value; the text says what is possible instead."""


@contextmanager
def point_at_option(statement: Statement) -> Iterator[None]:
    """Errors about an option of the statement point at its value."""
    try:
        yield
    except TidemillError as error:
        said = error.message.lower()
        named = [
            name
            for name in statement.places
            if isinstance(statement, Set) or re.search(rf"\b{re.escape(name)}\b", said)
        ]
        if error.line is not None or not named:
            raise
        raise error.at(statement.places[max(named, key=len)]) from None


_WITH_OPTIONS = (RegisterSource, RegisterTable, RestartSource, CreateView, CreateSink, CreateSite, Select)


def check_options(statement: Any) -> Any:
    """The statement with checked and converted option values."""
    if not isinstance(statement, _WITH_OPTIONS):
        return statement
    options = {name: _check_option(statement, name, value) for name, value in statement.options.items()}
    return replace(statement, options=options)


def _check_option(statement: Any, name: str, value: Any) -> Any:
    check = CHECKS.get(name)
    try:
        return check(value) if check is not None else value
    except Wrong as wrong:
        source = isinstance(statement, (RegisterSource, RegisterTable, RestartSource))
        error: TidemillError = (
            SourceProblem("TM407", f'{name} cannot be "{value}"', hint=str(wrong))
            if source
            else PlanProblem("TM307", f'{name} cannot be "{value}"', hint=str(wrong))
        )
        place = statement.places.get(name)
        raise error.at(place) if place else error from None


def _switch(value: Any) -> bool:
    if str(value).lower() not in _WORDS:
        raise Wrong("true or false")
    return _WORDS[str(value).lower()]


def _whole(example: int, least: int = 1, most: int = 1 << 31) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Wrong(f"a whole number from {least:,} to {most:,}, for example {example}")
        return value

    return check


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e9:
        raise Wrong("a number of seconds, for example 2")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise Wrong("a text that is not empty")
    return value


def _delimiter(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in '"\r\n\0':
        raise Wrong("one character, for example ';'")
    return value


def duration(example: str, zero: bool = False) -> Check:
    """A length of time as text, or in clock units."""

    def check(value: Any) -> Any:
        if zero and str(value).strip() in ("0", "0 seconds"):
            return value
        if isinstance(value, (bool, float)) or (isinstance(value, int) and not 0 < value <= LONGEST_US >> 24):
            raise Wrong(f"a length of time, for example '{example}'")
        try:
            found = duration_from_text(str(value))
        except ValueError as error:
            raise Wrong(f"a length of time, for example '{example}' ({error})") from None
        if (found.us or 0) > LONGEST_US >> 4 or (found.units or 0) > LONGEST_US >> 24:
            raise Wrong(f"a length of time that is not so long, for example '{example}'")
        return value

    return check


def _ahead(value: Any) -> Any:
    return value if str(value).strip().lower() == "any" else duration("1 day' or 'any", zero=True)(value)


def _late(value: Any) -> Any:
    if str(value) not in ("dead_letter", APPLY):
        raise Wrong(f"'dead_letter' or '{APPLY}'")
    return value


def _beginning(value: Any) -> Any:
    if str(value).lower() not in ("creation", "history"):
        raise Wrong("'creation' or 'history'")
    return str(value).lower()


def _check_shed(value: Any) -> Any:
    if str(value) not in (ALWAYS, OVERLOAD):
        raise Wrong(f"'{OVERLOAD}' or '{ALWAYS}'")
    return value


def microseconds(value: Any, unit_us: int) -> int:
    """A checked length of time in microseconds; a number counts clock units."""
    if str(value).strip() in ("0", "0 seconds"):
        return 0
    found = duration_from_text(str(value))
    return found.us if found.us is not None else int(found.units or 0) * unit_us


def check_open(shards: Any, clock: Any, trigger: Any) -> None:
    """The arguments of tidemill.open."""
    for name, value, check in (
        ("shards", shards, _whole(4, most=4096)),
        ("clock", clock, duration("1 second")),
        ("trigger", trigger or None, duration("2 seconds")),
    ):
        try:
            if value is not None:
                check(value)
        except Wrong as wrong:
            raise PlanProblem("TM308", f'{name} cannot be "{value}"', hint=str(wrong)) from None


CHECKS: dict[str, Check] = {
    "timestamp": _text,
    "operation": _text,
    "host": _text,
    "spread": _text,
    "format": _text,
    "on_error": _text,
    "lateness": duration("5 seconds", zero=True),
    "late": _late,
    "begin": _beginning,
    "shed_updates": _whole(10),
    "shed": _check_shed,
    "ahead": _ahead,
    "idle_timeout": duration("5 seconds", zero=True),
    "batch_rows": _whole(100000),
    "max_record_bytes": _whole(1048576, most=1 << 30),
    "max_connections": _whole(256, most=65536),
    "connection_timeout": duration("1 hour"),
    "line_timeout": duration("1 minute"),
    "backlog_bytes": _whole(67108864, most=1 << 50),
    "settle_seconds": _number,
    "key_null": _switch,
    "header": _switch,
    "tail": _switch,
    "follow_links": _switch,
    "unbounded_state": _switch,
    "keep": duration("1 day"),
    "empty_windows": _switch,
    "delimiter": _delimiter,
    "at": _text,
    "site_join": _text,
    "ca": _text,
    "certificate": _text,
    "key": _text,
    "token_file": _text,
    "mode": _text,
    "snapshot": _switch,
    "catalog": _text,
    "warehouse": _text,
    **dict.fromkeys(
        (
            "key_column",
            "partition_column",
            "offset_column",
            "time_column",
            "headers_column",
            "schema",
            "registry",
            "registry_login",
            "security",
            "mechanism",
            "username",
            "password",
            "private_key",
            "private_key_password",
            "client_settings",
        ),
        _text,
    ),
    "plaintext": _switch,
}


def keep_of(options: Mapping[str, Any], unit_us: int) -> int | None:
    """WITH (keep = …) of a view in microseconds; None where nothing is forgotten."""
    if options.get("keep") is None:
        return None
    found = duration_from_text(str(options["keep"]))
    return found.us if found.us is not None else int(found.units or 0) * unit_us
