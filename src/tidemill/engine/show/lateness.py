"""Why rows were late, and which option would have kept them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from tidemill.plan.sources import registered_name
from tidemill.runtime.messages.source_counts import TallyCounts

# In microseconds.
_UNITS = (
    ("days", 86_400_000_000),
    ("hours", 3_600_000_000),
    ("minutes", 60_000_000),
    ("seconds", 1_000_000),
    ("milliseconds", 1_000),
    ("microseconds", 1),
)
_DAY = 86_400  # seconds
LONG_AGO = 946_684_800_000_000  # the year 2000: smaller event times are not wall times


def late_warnings(tallies: Iterable[dict[str, TallyCounts]], tops: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each source that had late rows, from the tallies of micro-batches and the newest times.

    >>> list(late_warnings([{"Pay@1": {"late": 2, "behind": 5}}, {"Pay@1": {"late": 1, "behind": 3_723_000_000}}], {}))
    ["3 rows of Pay were late, up to 63 minutes behind a row before them: WITH (lateness = '63 minutes') takes them in"]
    """
    late: dict[str, tuple[int, int]] = {}
    ahead = {registered_name(source): ahead_of_wall(top, True) for source, top in tops.items()}
    for tally in tallies:
        for source, found in tally.items():
            name = registered_name(source)
            rows, behind = late.get(name, (0, 0))
            late[name] = rows + found["late"], max(behind, found.get("behind", 0))
    for name, (rows, behind) in late.items():
        if rows:
            far = at_least(behind)
            what, them = (f"{rows:,} rows of {name} were", "them") if rows > 1 else (f"1 row of {name} was", "it")
            helps = f"WITH (lateness = '{far}') takes {them} in"
            if ahead.get(name):
                helps = f"a row is far ahead of today; RESTART SOURCE {name} WITH (ahead = '1 day') reads without it"
            yield f"{what} late, up to {far} behind a row before {them}: {helps}"


def at_least(us: int) -> str:
    """A duration that is not shorter, in a unit of which there are ten or more.

    >>> at_least(3_723_000_000), at_least(10_000_000), at_least(7)
    ('63 minutes', '10 seconds', '7 microseconds')
    """
    unit, size = next(((unit, size) for unit, size in _UNITS if us >= 10 * size), _UNITS[-1])
    return f"{-(-us // size)} {unit}"


def exactly(us: int) -> str:
    """A duration in the largest unit that divides it.

    >>> exactly(2_000_000), exactly(90_000_000), exactly(86_400_000_000)
    ('2 seconds', '90 seconds', '1 day')
    """
    unit, size = next(((unit, size) for unit, size in _UNITS if us % size == 0), _UNITS[-1])
    number = us // size
    return f"{number} {unit if number != 1 else unit[:-1]}"


def ahead_of_wall(top: int | None, timed: bool) -> float | None:
    """Seconds by which the newest row of a source is ahead of the wall clock; None below a day, or for other times.

    >>> ahead_of_wall(4_102_444_800_000_000, True) > 0, ahead_of_wall(5, True), ahead_of_wall(None, True)
    (True, None, None)
    """
    if not timed or top is None or top <= LONG_AGO:
        return None
    ahead = top / 1e6 - time.time()
    return round(ahead) if ahead > _DAY else None
