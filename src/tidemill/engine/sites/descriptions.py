"""What another site says about a stream is text from elsewhere: it is checked before anything is made of it.

Names are always quoted, but types stand in SQL as they are, so each must be a type and nothing else.
"""

from __future__ import annotations

import math

from tidemill.errors import EngineProblem, TidemillError
from tidemill.runtime.sites.messages import damaged_message
from tidemill.runtime.sites.protocol import Description
from tidemill.runtime.sources.columns import arrow_schema
from tidemill.sql.dialect.dialect import Tidemill
from tidemill.sql.lexical.types import column_type

_DOMAINS = (None, "timestamp", "units")


def check_description(site: str, asked: str, found: Description) -> Description:
    """The description; refused where it is not one of the stream that was asked for, or cannot be true."""
    names = [column.name for column in found.columns]
    if str(found.name).lower() != asked.lower() or found.edge not in ("", found.name):
        raise _refuse(site, f'"{asked}" was asked for, and another name came')
    if len({name.lower() for name in names}) != len(names) or not names:
        raise _refuse(site, "its columns have no names of their own")
    if any(not name or name.lower().startswith("__") for name in names):
        raise _refuse(site, "a column has a reserved name")
    named = (*found.key, *(name for name in (found.event, found.operation, found.stamp) if name))
    if not set(named) <= set(names):
        raise _refuse(site, "it names columns that it does not have")
    for column in found.columns:
        if column_type(Tidemill().tokenize(column.type)) != column.type:
            raise _refuse(site, f'column "{column.name[:60]}" has no type')
    _check_numbers(site, found)
    try:
        arrow_schema(found.columns)
    except TidemillError as error:
        raise _refuse(site, error.message) from None
    return found


def _check_numbers(site: str, found: Description) -> None:
    whole = [found.unit_us, *(found.period or ())]
    sound = all(isinstance(n, int) and not isinstance(n, bool) for n in whole) and found.unit_us > 0
    if sound and found.period is not None:
        sound = len(found.period) == 2 and found.period[0] > 0
    rate = found.rate
    sound = sound and isinstance(rate, (int, float)) and math.isfinite(rate) and rate >= 0
    if not sound or found.domain not in _DOMAINS:
        raise _refuse(site, "a number in it cannot be")


def _refuse(site: str, why: str) -> EngineProblem:
    return damaged_message(f"site {site}", f"the description of a stream: {why}")
