"""What ad hoc queries may use: settings that a user changes, kept with the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidemill.errors import PlanProblem
from tidemill.runtime.sandbox.pool import Limits
from tidemill.sql.catalog import Catalog
from tidemill.sql.lexical_duration import duration_from_text

_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
LEAST_MEMORY, MOST = 32 << 20, 1 << 50
_FIELDS = {"query_time": "seconds", "query_memory": "memory", "query_bytes": "bytes"}


class Querying:
    """The limits of all ad hoc queries of a database."""

    def __init__(self, catalog: Catalog) -> None:
        self.kept: dict[str, Any] = catalog.settings.setdefault("querying", {})

    def set(self, name: str, value: str) -> None:
        """Change one limit; bad values are refused with what is possible."""
        self.kept[name] = QUERYING[name](name, value)

    def limits(self, timeout: float | None = None) -> Limits:
        """The limits in force; `timeout` in seconds for this query only."""
        given = {_FIELDS[name]: value for name, value in self.kept.items() if name in _FIELDS}
        found = replace(Limits(), **given)
        if timeout is None:
            return found
        if not 0 < timeout < MOST:
            raise PlanProblem("TM217", f'timeout cannot be "{timeout}"', hint="seconds, for example timeout=5")
        return replace(found, seconds=float(timeout))

    def shown(self) -> dict[str, Any]:
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
        raise PlanProblem("TM217", f'{name} cannot be "{value}"', detail=str(error),
                          hint=f"a length of time, for example SET {name} = '2 minutes'") from None
    return length.us / 1e6 if length.us is not None else float(length.units or 0)


def size(name: str, value: str) -> int:
    """
    >>> size("query_memory", "2 GB"), size("query_memory", "100000000")
    (2000000000, 100000000)
    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)", value)
    least = LEAST_MEMORY if name == "query_memory" else 1
    count = int(float(found[1]) * _BYTES[found[2].lower()]) if found and found[2].lower() in _BYTES else 0
    if not least <= count <= MOST:
        raise PlanProblem("TM217", f'{name} cannot be "{value}"',
                          detail=f"at least {least >> 20} MB" if least > 1 and found else None,
                          hint=f"bytes, for example SET {name} = '2 GB'")
    return count


QUERYING: dict[str, Callable[[str, str], Any]] = {"query_time": seconds, "query_memory": size, "query_bytes": size}
