"""What is known of a keyed stream: how often its keys are updated, how evenly, and how many groups its columns make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidemill.optimize.views.cost import Gap, Updates, synchronizer_output, union_gaps
from tidemill.optimize.views.shared_taggers import TaggerParts
from tidemill.plan.periods import Every

SECOND = 1_000_000


class Counted(NamedTuple):
    """What was counted of an operator: rows in, rows of its answer, seconds of event time, rows out."""

    rows_in: float
    size: float
    seconds: float
    rows_out: float


Lookup = Callable[[str], Counted | None]  # by the id of an operator; None: not counted


class StreamRate(NamedTuple):
    """Records of a keyed stream in a second of event time, how many keys there are, how regularly each is updated
    (`cost.Updates`), and how many changes a record makes of its key's row: two, less where the row stays as it is.
    """

    records: float = 1_000.0
    keys: float = 1_000.0
    regularity: float = 0.0
    changes: float = 2.0

    @property
    def updates(self) -> Updates:
        """Updates in a microsecond."""
        return Updates(self.keys, self.records / self.keys / SECOND, self.regularity)


def gaps_of(periods: Sequence[Every]) -> tuple[Gap, ...]:
    """The gaps between the points of a second."""
    return union_gaps([(p.every_us, p.offset_us) for p in periods], SECOND)


def synchronized_rate(periods: Sequence[Every] | None, rate: StreamRate) -> float:
    """Records that reach a tagger in a second, where all of them come at points of these periods."""
    if periods is None:
        return rate.records
    return min(rate.records, synchronizer_output([rate.updates], gaps_of(periods)))


def changes_by_point(periods: Sequence[Every] | None, rate: StreamRate) -> list[tuple[float, float]]:
    """(points in a second, changes of a tagger at each of them); without points every record is one."""
    if periods is None:
        return [(rate.records, rate.changes)]
    return [
        (gap.times, rate.changes * synchronizer_output([rate.updates], [Gap(gap.length, 1.0)]))
        for gap in gaps_of(periods)
    ]


def stream_name(parts: TaggerParts) -> str:
    """What statistics of a keyed stream are kept under: its source and its key."""
    return " ".join([parts.records.source, *parts.tag.keys])


def count_groups(columns: Iterable[str], values: Mapping[str, float], keys: float) -> float:
    """The groups of several columns: the product of their values, as if they were independent of each other. Where a
    column was not counted 2·K: at one time each key is in one group, so that a point has no more, old and new.

    >>> count_groups(["building", "degrees"], {"building": 20, "degrees": 10}, 2_000)
    200
    >>> count_groups(["building", "name"], {"building": 20}, 2_000)
    4000
    """
    found = [values.get(column) for column in columns]
    return 2 * keys if None in found else math.prod(value for value in found if value is not None)
