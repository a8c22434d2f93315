"""Time zones: in which one an ad hoc query is computed and answers, and which ones there are."""

from __future__ import annotations

import re
import zoneinfo
from functools import lru_cache

from tidemill.errors import PlanProblem
from tidemill.runtime.duckdb.duck import run
from tidemill.sql.catalog import Catalog
from tidemill.sql.lexical.tokens import did_you_mean

SETTING, USUAL = "time_zone", "UTC"
_OFFSET = re.compile(r"(?:GMT|UTC)([+-]\d{1,2})")  # whole hours to the west, as Postgres reads them
_EXAMPLES = "for example SET TIME ZONE 'Europe/Paris', or 'Etc/GMT-2' for two hours east of UTC"


def zone_of(catalog: Catalog) -> str:
    """The zone of ad hoc queries that do not bring their own."""
    return str(catalog.settings.get(SETTING, USUAL))


def read_zone(text: str) -> str:
    """A zone by its name in the tz database, as it is spelled there; DEFAULT and LOCAL are UTC.

    >>> read_zone("europe/PARIS"), read_zone("GMT-2"), read_zone("local")
    ('Europe/Paris', 'Etc/GMT-2', 'UTC')
    """
    word = text.strip()
    if word.upper() in ("DEFAULT", "LOCAL"):
        return USUAL
    offset = _OFFSET.fullmatch(word.upper())
    found = _zones().get(f"etc/gmt{int(offset[1]):+d}" if offset else word.lower())
    if found is None:
        cities = [name for name in _zones().values() if word and name.lower().endswith("/" + word.lower())]
        meant = cities[0] if cities else did_you_mean(word, _zones().values())
        hint = f"did you mean '{meant}'?" if meant else _EXAMPLES
        raise PlanProblem("TM217", f'there is no time zone "{text}"', hint=hint)
    return found


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    """The zones that DuckDB computes in and Python shows, by their names in lower case."""
    computed = run("SELECT name FROM pg_timezone_names()").column("name").to_pylist()
    names = {USUAL} | (set(computed) & zoneinfo.available_timezones())
    return {name.lower(): name for name in sorted(names)}
