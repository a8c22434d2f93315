"""Settings that users change: the limits of ad hoc queries, stored in the catalog, and how values of SET are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidemill.errors import PlanProblem
from tidemill.runtime.sandbox.pool import Limits
from tidemill.sql.catalog import Catalog
from tidemill.sql.lexical.durations import duration_from_text

_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
# bytes; more than any machine has is a slip
LEAST_MEMORY, MOST = 32 << 20, 1 << 50
# A day; a hundred years, which is less than the greatest number of seconds that times can be apart.
LONGEST_TRIGGER, LONGEST = 86_400.0, 3.2e9
_FIELDS = {"query_time": "seconds", "query_memory": "memory", "query_bytes": "bytes"}


class QueryLimits:
    """The limits of all ad hoc queries of a database."""

    def __init__(self, catalog: Catalog) -> None:
        self.stored: dict[str, Any] = catalog.settings.setdefault("querying", {})

    def set(self, name: str, value: str) -> None:
        """Change one limit; bad values are refused with what is possible."""
        self.stored[name] = QUERYING[name](name, value)

    def limits(self, timeout: float | None = None) -> Limits:
        """The limits in force; `timeout` in seconds for this query only."""
        given = {_FIELDS[name]: value for name, value in self.stored.items() if name in _FIELDS}
        found = replace(Limits(), **given)
        if timeout is None:
            return found
        if not 0 < timeout < MOST:
            raise PlanProblem("TM217", f'timeout cannot be "{timeout}"', hint="seconds, for example timeout=5")
        return replace(found, seconds=float(timeout))

    def describe(self) -> dict[str, Any]:
        """What SHOW SETTINGS says: the values in force."""
        found = self.limits()
        return {"query_time": f"{found.seconds:g} seconds", "query_memory": found.memory, "query_bytes": found.bytes}


def seconds(name: str, value: str) -> float:
    """
    >>> seconds("query_time", "2 minutes"), seconds("query_time", "5")
    (120.0, 5.0)
    """
    try:
        length = duration_from_text(value)
    except ValueError as error:
        raise PlanProblem(
            "TM217",
            f'{name} cannot be "{value}"',
            detail=str(error),
            hint=f"a length of time, for example SET {name} = '2 minutes'",
        ) from None
    found = length.us / 1e6 if length.us is not None else float(length.units or 0)
    if found > LONGEST:
        raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint="at most a hundred years")
    return found


def trigger_length(value: str, unit_us: int) -> str | None:
    """The least time between micro-batches as Spark reads it; a number counts clock units, '' is none.

    >>> trigger_length("1 minute 30 seconds", 1), trigger_length("2", 1_000_000), trigger_length("", 1)
    ('90000 milliseconds', '2000 milliseconds', None)
    """
    if not value:
        return None
    length = seconds("trigger", value) * (unit_us / 1e6 if value.isdecimal() else 1)
    if length > LONGEST_TRIGGER:
        raise PlanProblem("TM217", f'trigger cannot be "{value}"', hint="at most a day, for example '2 seconds'")
    return f"{max(1, round(length * 1000))} milliseconds"


def rows(name: str, value: str) -> int:
    """
    >>> rows("sealed_rows", "1000"), rows("sealed_rows", "off")
    (1000, 0)
    """
    if value.lower() == "off":
        return 0
    if not (value.isascii() and value.isdecimal()) or not 1 <= int(value) < 1 << 31:
        raise PlanProblem(
            "TM217", f'{name} cannot be "{value}"', hint=f"a number of rows or off, for example SET {name} = 1000"
        )
    return int(value)


def size(name: str, value: str) -> int:
    """
    >>> size("query_memory", "2 GB"), size("query_memory", "100000000")
    (2000000000, 100000000)
    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)", value)
    least = LEAST_MEMORY if name.endswith("_memory") else 1
    count = int(float(found[1]) * _BYTES[found[2].lower()]) if found and found[2].lower() in _BYTES else 0
    if not least <= count <= MOST:
        raise PlanProblem(
            "TM217",
            f'{name} cannot be "{value}"',
            detail=f"at least {least >> 20} MB" if least > 1 and found else None,
            hint=f"bytes, for example SET {name} = '2 GB'",
        )
    return count


QUERYING: dict[str, Callable[[str, str], Any]] = {"query_time": seconds, "query_memory": size, "query_bytes": size}
OPERATORS: dict[str, Callable[[str, str], Any]] = {"operator_time": seconds, "operator_memory": size}
