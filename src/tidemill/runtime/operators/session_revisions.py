"""The sessions of one partition whose rows may be taken back, or come after their stamps.

Changes are applied in the order of time. A change of a row with stamp x touches the sessions that have a stamp less
than a gap away from x, and no others: what was shown of these is taken back, and what they have become is shown if it
has ended, or waits for its end. The work is O(log n) and the rows of the touched sessions.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import NamedTuple

Session = tuple[int, int]  # start and end
Shown = tuple[int, int, int, int, int]  # row, start, end, time, copies


class Change(NamedTuple):
    """`diff` copies of a row come or go at a time."""

    time: int
    row: int
    stamp: int
    diff: int


class Revisions:
    """One partition with the rows that were there before; all times before `frontier` have been shown."""

    def __init__(self, gap: int, rows: list[Change], frontier: int) -> None:
        self.gap = gap
        self.rows: dict[int, Counter[int]] = {}  # copies of each row, by stamp
        for change in rows:
            self.rows.setdefault(change.stamp, Counter())[change.row] += change.diff
        self.stamps = sorted(self.rows)
        sessions = self._sessions_of(self.stamps)
        self.shown = {s for s in sessions if s[1] < frontier}
        self.waiting = [(end, (start, end)) for start, end in sessions if end >= frontier]
        heapify(self.waiting)
        self.made = set[Session]()
        self.changes = Counter[tuple[int, int, int, int]]()
        self.open_ends: list[int] = []

    def revise(self, changes: list[Change], frontier: int) -> list[Shown]:
        """The changes of the output before the frontier; `open_ends` has the ends of sessions that are new and open."""
        changes = sorted(changes, key=lambda c: c.time)
        for time, group in groupby(changes, key=lambda c: c.time):
            self._show_ended(time - 1)
            self._apply(time, list(group))
        self._show_ended(frontier - 1)
        self.open_ends = [end for start, end in self.made if end >= frontier and self._is_session((start, end))]
        return [(*key, copies) for key, copies in self.changes.items() if copies]

    def _apply(self, time: int, changes: list[Change]) -> None:
        touched = {s for c in changes for s in self._sessions_near(c.stamp)}
        for session in touched & self.shown:
            self._emit(session, time, -1)
        self.shown -= touched
        stamps = {c.stamp for c in changes}.union(*(self._stamps_of(s) for s in touched))
        for change in changes:
            self._add(change)
        for session in self._sessions_of([x for x in sorted(stamps) if x in self.rows]):
            self.made.add(session)
            heappush(self.waiting, (max(session[1], time), session))

    def _add(self, change: Change) -> None:
        found = self.rows.get(change.stamp)
        if found is None:
            found = self.rows[change.stamp] = Counter()
            insort(self.stamps, change.stamp)
        found[change.row] += change.diff
        if not found[change.row]:
            del found[change.row]
        if not found:
            del self.rows[change.stamp]
            del self.stamps[bisect_left(self.stamps, change.stamp)]

    def _show_ended(self, time: int) -> None:
        """Show the sessions that end at this time or before, each at its end."""
        while self.waiting and self.waiting[0][0] <= time:
            at, session = heappop(self.waiting)
            if session not in self.shown and self._is_session(session):
                self._emit(session, at, 1)
                self.shown.add(session)

    def _emit(self, session: Session, time: int, sign: int) -> None:
        for stamp in self._stamps_of(session):
            for row, copies in self.rows[stamp].items():
                self.changes[row, *session, time] += sign * copies

    def _is_session(self, session: Session) -> bool:
        at = bisect_left(self.stamps, session[0])
        return at < len(self.stamps) and self.stamps[at] == session[0] and self._session_at(at) == session

    def _session_at(self, index: int) -> Session:
        """The session of a stamp."""
        first = last = index
        while first > 0 and self.stamps[first] - self.stamps[first - 1] < self.gap:
            first -= 1
        while last + 1 < len(self.stamps) and self.stamps[last + 1] - self.stamps[last] < self.gap:
            last += 1
        return self.stamps[first], self.stamps[last] + self.gap

    def _sessions_near(self, stamp: int) -> set[Session]:
        """The sessions that a row with this stamp belongs to, or would connect."""
        at = bisect_left(self.stamps, stamp)
        near = [i for i in (at - 1, at) if 0 <= i < len(self.stamps) and abs(self.stamps[i] - stamp) < self.gap]
        return {self._session_at(i) for i in near}

    def _stamps_of(self, session: Session) -> list[int]:
        return self.stamps[bisect_left(self.stamps, session[0]) : bisect_left(self.stamps, session[1] - self.gap + 1)]

    def _sessions_of(self, stamps: list[int]) -> list[Session]:
        """The sessions of these stamps, which are present and in order."""
        found: list[Session] = []
        for stamp in stamps:
            if not found or stamp >= found[-1][1]:
                found.append(self._session_at(bisect_left(self.stamps, stamp)))
        return found
