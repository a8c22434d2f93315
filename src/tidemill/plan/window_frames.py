"""Frames of window functions: which rows around a row a call looks at.

A frame is written as text in one place, `Frame.sql`: that text is what DuckDB reads, and what a plan is fingerprinted
by. Plans of before frames were trees have the text itself; `Frame.of` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Unit = Literal["ROWS", "RANGE", "GROUPS"]
PRECEDING, FOLLOWING, CURRENT = "PRECEDING", "FOLLOWING", "CURRENT ROW"
Peers = Literal["", "GROUP", "TIES"]
_EXCLUDED = " EXCLUDE CURRENT ROW"


@dataclass(frozen=True)
class Bound:
    """An end of a frame: a distance before or behind the current row, None for all rows there, or the row itself.

    >>> Bound(PRECEDING, "2").sql, Bound(FOLLOWING).sql, Bound(CURRENT).sql
    ('2 PRECEDING', 'UNBOUNDED FOLLOWING', 'CURRENT ROW')
    """

    side: str
    distance: str | None = None

    @property
    def sql(self) -> str:
        return CURRENT if self.side == CURRENT else f"{self.distance or 'UNBOUNDED'} {self.side}"

    @classmethod
    def of(cls, text: str) -> Bound:
        """A bound from its text."""
        distance, _, side = text.rpartition(" ")
        return cls(CURRENT) if text == CURRENT else cls(side, None if distance == "UNBOUNDED" else distance)

    def rows(self, side: str) -> int | None:
        """How many rows the frame extends to this side at most; None where there is no bound."""
        if self.side != side:
            return 0
        return int(self.distance) if self.distance is not None and self.distance.isdigit() else None


@dataclass(frozen=True)
class Frame:
    """The rows, the values, or the groups of peers between two bounds, with or without the current row; without its
    peers where they are excluded: all of them (TIES), or all and the row itself (GROUP).
    """

    unit: Unit
    start: Bound
    end: Bound
    excludes_current: bool = False
    excludes_peers: Peers = ""

    @property
    def sql(self) -> str:
        """The frame in DuckDB's words.

        >>> Frame("ROWS", Bound(PRECEDING, "2"), Bound(CURRENT), True).sql
        'ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW'
        """
        excluded = f" EXCLUDE {self.excludes_peers}" if self.excludes_peers else ""
        excluded = _EXCLUDED if self.excludes_current else excluded
        return f"{self.unit} BETWEEN {self.start.sql} AND {self.end.sql}{excluded}"

    @classmethod
    def of(cls, text: str) -> Frame:
        """A frame from its text.

        >>> Frame.of("RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND UNBOUNDED FOLLOWING").end
        Bound(side='FOLLOWING', distance=None)
        >>> Frame.of("GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES").excludes_peers
        'TIES'
        """
        whole, _, excluded = text.partition(" EXCLUDE ")
        name, _, bounds = whole.partition(" BETWEEN ")
        start, _, end = bounds.partition(" AND ")
        unit: Unit = next(unit for unit in get_args(Unit) if unit == name)
        peers: Peers = next((p for p in get_args(Peers) if p == excluded), "")
        return cls(unit, Bound.of(start), Bound.of(end), text.endswith(_EXCLUDED), peers)

    @property
    def by_value(self) -> bool:
        """True when a bound is a distance of values."""
        return self.unit == "RANGE" and any(b.distance is not None for b in (self.start, self.end))

    @property
    def reach(self) -> tuple[int, int] | None:
        """How many rows before and behind a row it holds at most; None where that is not known."""
        before, behind = self.start.rows(PRECEDING), self.end.rows(FOLLOWING)
        return None if self.unit != "ROWS" or before is None or behind is None else (before, behind)
