"""How far sources are read and closed in event time: what every shard knows alike, and tells the outlet."""

from __future__ import annotations

from typing import Required, TypedDict


class SourceTimes(TypedDict, total=False):
    """One source. It is kept in the state of a shard as it is here, so it stays JSON."""

    top: Required[int]  # the greatest time seen
    floor: Required[int]  # everything before it is closed
    first: int | None  # before the earliest row that may still come
    over: int  # the note of the planner that there is nothing more
    shed: bool  # updates beyond the cap are dropped; only of sources with a cap
    again: bool  # it can be read a second time with the same late rows
    behind: bool  # only of a second reading: the first one is further
    share: float  # only of a second reading: of what the first one has read


Sources = dict[str, SourceTimes]
