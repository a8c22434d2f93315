"""As of which time an ad hoc query reads its views: all of them as of the same, or each as it is."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pyarrow as pa

from tidemill.engine.views.bound_view import BoundView
from tidemill.engine.views.history import begins_with_history
from tidemill.errors import PlanProblem
from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.statements import AsOf
from tidemill.runtime.views.batch_times import BatchTimes
from tidemill.runtime.views.beginnings import BEGAN
from tidemill.runtime.views.moments import Standing, common_moment, newest_floor, read_standings

METADATA = b"tidemill.as_of"
_EPOCH = dt.datetime(1970, 1, 1)
_LONGEST_US = 1 << 61  # more than any event time
_FORMS = "AS OF 5 for times in clock units, AS OF TIMESTAMP '2024-03-01 12:00:00' for others"

Place = tuple[int, int]
Time = int | dt.datetime


@dataclass(frozen=True)
class Asked:
    """A view that a query reads, and where its text names it."""

    view: BoundView
    place: Place | None = None

    @property
    def domain(self) -> str:
        """The SQL type of its times."""
        return self.view.stored.stamp_type


@dataclass(frozen=True)
class ReadMoment:
    """Which changes of each view a query sees, and the time that it is as of, inclusive: None where there is none."""

    bounds: dict[str, int] = field(default_factory=dict)  # view id → the changes before this time count
    closed: dict[str, int] = field(default_factory=dict)  # view id → its frontier
    time: int | None = None
    domain: str = "BIGINT"
    latest: int = FOREVER  # NOW is not after it

    def bound_of(self, view: str) -> tuple[int, int]:
        """(the moment as of which a view is read, how far it is closed); FOREVER is the view as it is."""
        return self.bounds.get(view, FOREVER), self.closed.get(view, FOREVER)

    def now(self, clock: int | None) -> int:
        """NOW of the query: the clock, unless the query looks at an earlier time."""
        return min(clock, self.latest) if clock is not None and self.latest > BEGINNING else clock or 0

    def mark(self, answer: pa.Table, unit_us: int) -> pa.Table:
        """The answer with the time in the metadata of its schema; `as_of` reads it."""
        if self.time is None:
            return answer
        shown = time_text(self.time, self.domain, unit_us)
        return answer.replace_schema_metadata({**(answer.schema.metadata or {}), METADATA: shown.encode()})


def as_of(answer: pa.Table) -> Time | None:
    """The time that an answer is as of: in clock units, or UTC; None where no view was read that has times.

    >>> as_of(ReadMoment(time=7_999_999).mark(pa.table({"n": [1]}), 1_000_000))
    7
    """
    text = (answer.schema.metadata or {}).get(METADATA, b"").decode()
    if not text:
        return None
    return int(text) if text.lstrip("-").isdigit() else dt.datetime.fromisoformat(text)


def time_value(us: int, domain: str, unit_us: int) -> Time:
    """A time in clock units, or UTC."""
    return us // unit_us if domain == "BIGINT" else _EPOCH + dt.timedelta(microseconds=us)


def time_text(us: int, domain: str, unit_us: int) -> str:
    """A time as users see it: whole clock units, or a timestamp.

    >>> time_text(7_999_999, "BIGINT", 1_000_000), time_text(1_500_000, "TIMESTAMP", 1_000_000)
    ('7', '1970-01-01 00:00:01.500000')
    """
    if domain == "BIGINT":
        return str(us // unit_us)
    try:
        return (_EPOCH + dt.timedelta(microseconds=us)).isoformat(" ", "microseconds")
    except OverflowError:
        return f"{us} microseconds after 1970"


def choose_moment(asked: Mapping[str, Asked], given: AsOf | None, metas: Mapping[str, str], unit_us: int) -> ReadMoment:
    """The moment of a query over these views (by id). TM231 to TM233 where there is none."""
    if given is not None and given.value is None:
        return ReadMoment()
    standings = read_standings(metas, asked)
    moving = {v: s for v, s in standings.items() if not s.is_static}
    found = _Choice({v: asked[v] for v in moving}, moving, metas, unit_us)
    return found.single() if given is None and len(moving) < 2 else found.together(given)


def check_together(asked: Mapping[str, Asked], metas: Mapping[str, str], unit_us: int) -> str:
    """The time domain of views that are followed together; refused where they have no common moment that is kept."""
    moving = {v: s for v, s in read_standings(metas, asked).items() if not s.is_static}
    found = _Choice({v: asked[v] for v in moving}, moving, metas, unit_us)
    found.check_domains(None)
    domain = next((a.domain for a in found.asked.values()), "BIGINT")
    found.check_kept(common_moment(moving), domain, None)
    return domain


def check_resumable(asked: Asked, given: AsOf, metas: Mapping[str, str], unit_us: int) -> int:
    """The time after which changes of a view are asked for, where all of them are kept and the time is closed."""
    view = asked.view.entry.id
    standings = read_standings({**metas, "peek": "0"}, [view])
    time = read_time(given, asked.domain, unit_us)
    if view in standings:
        found = _Choice({view: asked}, standings, metas, unit_us)
        if not standings[view].is_static:
            found.check_known(time, asked.domain, given.place)
        found.check_kept({view: time + 1}, asked.domain, given.place)
    return time


def check_resumable_batch(asked: Asked, given: AsOf, metas: Mapping[str, str], times: BatchTimes) -> int:
    """The time from which on all changes of later batches are, where they are kept and the batch was committed."""
    view, batch, last = asked.view.entry, given.batch or 0, int(metas.get("batch", -1))
    line, column = given.place
    if batch > last:
        raise PlanProblem(
            "TM232",
            f"there is no batch {batch} yet",
            detail=f"the last one is {last}",
            hint="name an earlier batch, or leave AS OF out",
            line=line,
            column=column,
        )
    standing, noted = read_standings({**metas, "peek": "0"}, [view.id]).get(view.id), times.read(view.id, batch)
    is_known = batch == last if noted.oldest is None else batch >= noted.oldest
    start = standing.closed if standing and noted.time is None else noted.time
    if standing is None or start is None or not is_known or not standing.reaches(start):
        raise PlanProblem(
            "TM233",
            f'the changes of "{view.name}" after batch {batch} are not kept',
            hint="WITH (retain = '1 hour') keeps the changes of a view; without AS OF its contents come first",
            line=line,
            column=column,
        )
    return start


@dataclass
class _Choice:
    """The views of one query that change over time."""

    asked: dict[str, Asked]
    standings: dict[str, Standing]
    metas: Mapping[str, str]
    unit_us: int

    def single(self) -> ReadMoment:
        """One view is read as it is."""
        found = [self._describe_moment(self.standings, FOREVER, a.domain) for a in self.asked.values()]
        return found[0] if found else ReadMoment()

    def together(self, given: AsOf | None) -> ReadMoment:
        """All views as of the time that is given, or of the least frontier. Views of different time domains have no
        common time: those of each domain are as of their own.
        """
        domains = sorted({a.domain for a in self.asked.values()})
        if given is not None:
            return self._read_named_time(given, domains)
        bounds: dict[str, int] = {}
        moments = []
        for domain in domains:
            members = {v: s for v, s in self.standings.items() if self.asked[v].domain == domain}
            common = common_moment(members)
            self.check_begun(common, domain, None)
            self.check_kept(common, domain, None)
            bounds |= common
            moments.append(self._describe_moment(members, max(common.values()), domain))
        found = moments[0] if len(moments) == 1 else ReadMoment()
        return replace(
            found, bounds=dict(self._with_changes(bounds)), closed=self._closed_times(), latest=max(bounds.values())
        )

    def _read_named_time(self, given: AsOf, domains: list[str]) -> ReadMoment:
        """All views as of the time that the user names."""
        self.check_domains(given.place)
        domain = domains[0] if domains else "TIMESTAMP" if isinstance(given.value, str) else "BIGINT"
        time = read_time(given, domain, self.unit_us)
        self.check_known(time, domain, given.place)
        bounds = dict.fromkeys(self.standings, time + 1)
        self.check_begun(bounds, domain, given.place)
        self.check_kept(bounds, domain, given.place)
        return ReadMoment(dict(self._with_changes(bounds)), self._closed_times(), time, domain, time)

    def check_domains(self, place: Place | None) -> None:
        """Refuse views that have no common time."""
        names = {a.domain: a.view.entry.name for a in self.asked.values()}
        if len(names) > 1:
            where = place or (None, None)
            raise PlanProblem(
                "TM231",
                "the views have different time domains",
                detail=f'"{names["BIGINT"]}" has times in clock units, "{names["TIMESTAMP"]}" has timestamps',
                hint="take those of each domain by themselves",
                line=where[0],
                column=where[1],
            )

    def check_known(self, time: int, domain: str, place: Place) -> None:
        """Refuse a time up to which a view is not closed; where the input of all has ended, one after all of it."""
        open_views = {v: s for v, s in self.standings.items() if s.end is None}
        end = max((s.end for s in self.standings.values() if s.end is not None), default=FOREVER)
        for view, standing in (open_views or self.standings).items():
            last = standing.closed - 1 if open_views else end
            if time > last:
                until = f"it is known up to {self._text(last, domain)}"
                raise PlanProblem(
                    "TM232",
                    f'"{self.asked[view].view.entry.name}" is not known as of {self._text(time, domain)} yet',
                    detail=until if standing.has_begun else "no time of it is closed yet",
                    hint="name an earlier time, or leave AS OF out",
                    line=place[0],
                    column=place[1],
                )

    def check_begun(self, bounds: Mapping[str, int], domain: str, place: Place | None) -> None:
        """Refuse a moment before a view began with its history: what that was then is not known of it."""
        noted = json.loads(self.metas.get(BEGAN, "{}"))
        for view, moment in bounds.items():
            asked = self.asked[view]
            began = asked.view.entry.moment
            if began is None:
                began = noted.get(view, BEGINNING) if begins_with_history(asked.view.entry.options) else BEGINNING
            if BEGINNING < moment <= began:
                where = place or asked.place or (None, None)
                raise PlanProblem(
                    "TM233",
                    f'"{asked.view.entry.name}" cannot be shown as of {self._text(moment - 1, domain)}: it began with'
                    f" its history as of {self._text(began, domain)}",
                    detail="what was present then is its first contents; how they came about is not kept",
                    hint="name a later time, or ask a view that was there; AS OF LATEST reads each view as it is",
                    line=where[0],
                    column=where[1],
                )

    def check_kept(self, bounds: Mapping[str, int], domain: str, place: Place | None) -> None:
        """Refuse a moment before which the changes of a view are forgotten."""
        for view, moment in bounds.items():
            standing, asked = self.standings[view], self.asked[view]
            if standing.reaches(moment):
                continue
            at = self._text(moment - 1, domain) if moment > BEGINNING else "before all events"
            first = self._text(min(standing.since, standing.closed), domain)
            slow = min(bounds, key=lambda v: (self.standings[v].limit, self.standings[v].born))
            behind = f'; "{self.asked[slow].view.entry.name}" is closed only so far' if place is None else ""
            where = place or asked.place or (None, None)
            raise PlanProblem(
                "TM233",
                f'"{asked.view.entry.name}" cannot be shown as of {at}: what it has shown since is not kept',
                detail=f"its changes are kept from {first} on{behind}",
                hint="WITH (retain = '1 hour') keeps the changes of a view, AS OF LATEST reads each view as it is",
                line=where[0],
                column=where[1],
            )

    def _describe_moment(self, members: Mapping[str, Standing], moment: int, domain: str) -> ReadMoment:
        """The time that views are as of at a moment; FOREVER: as they are."""
        limits = [s.limit for s in members.values() if s.has_begun]
        bound = min([moment, *limits])
        if bound >= FOREVER:
            time = max((s.end for s in members.values() if s.end is not None), default=None)
        elif bound <= BEGINNING or not limits:
            time = None
        else:
            time = min(bound, newest_floor(self.metas)) - 1
        return ReadMoment(time=time, domain=domain)

    def _with_changes(self, bounds: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """The bounds of views that hold something else than what they show; the others are read as they are."""
        shows_end = self.metas.get("peek", "0") != "0"
        for view, moment in bounds.items():
            if shows_end or moment < self.standings[view].closed:
                yield view, moment

    def _closed_times(self) -> dict[str, int]:
        return {v: s.closed for v, s in self.standings.items()}

    def _text(self, us: int, domain: str) -> str:
        return time_text(us, domain, self.unit_us)


def read_time(given: AsOf, domain: str, unit_us: int) -> int:
    """The time that the user names, in the domain of the views."""
    value = given.value
    if isinstance(value, Decimal) and domain == "BIGINT" and abs(value) < _LONGEST_US // unit_us:
        return int(value * unit_us)
    if isinstance(value, str) and domain == "TIMESTAMP":
        try:
            read = dt.datetime.fromisoformat(value.strip())
            plain = read.astimezone(dt.UTC).replace(tzinfo=None) if read.tzinfo else read
            return (plain - _EPOCH) // dt.timedelta(microseconds=1)
        except (ValueError, OverflowError):
            pass
    kind = "whole clock units" if domain == "BIGINT" else "timestamps"
    raise PlanProblem(
        "TM231",
        f"AS OF {value} is no time of these views",
        detail=f"their times are {kind}",
        hint=_FORMS,
        line=given.place[0],
        column=given.place[1],
    )
