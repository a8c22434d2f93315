"""Window aggregates over streams are recognised, in every spelling, so that they can share their work (paper 003)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.plan import relations as r
from tidemill.plan.aggregates import why_not_weavable
from tidemill.plan.nested_types import is_nested
from tidemill.plan.relations import Item, Relation, WindowAggregate
from tidemill.plan.scalars import ColumnRef, Epoch, Scalar, conjunction, shift_of, undo_rounding
from tidemill.plan.windows import Window

_OTHER_INPUTS: dict[type[Relation], str] = {
    r.Tag: "a keyed stream takes rows back",
    r.View: "it reads a view, not a stream",
    r.Clock: "it reads clockStr",
    r.Join: "it groups a join",
    r.Union: "it groups a union",
    r.SetCombine: "it groups a set operation",
    r.GroupBy: "it groups groups",
    r.WindowAggregate: "it groups groups",
    r.SynchronizePeriods: "its points are those of several periods, or begin with a first one",
    r.SynchronizeOn: "its points come from data",
}


def window_aggregates(node: Relation) -> Relation | None:
    """Turn a grouping over a window of a stream into one node.

        GroupBy[k; f(a)]                              WindowAggregate[p; k = e; f(a); W]
          Project[k = e, a]                             Scan
            Filter[p]                           →
              Temporal[⌈ts + 1⌉, ⌈ts + r + 1⌉]
                Scan

    Filter, Project, Temporal, Synchronize and a Stamp that is not read may stand in any order and number. Sound when
    1. they stand over the rows of a stream, which are never taken back: no tagger, no table, no view; 2. all that
    depends on time has one rhythm: the points at which windows are evaluated; 3. every bound is `__ts` plus a constant,
    rounded up to a point or not; 4. rows leave again, or never (a landmark window), or (`once`) a key is the number of
    the epoch that ends at a point: then each group belongs to one epoch, which is its window, and nothing leaves;
    5. there are keys, and neither they nor the rest depend on the order of arrival;
    6. every aggregate can be put together from parts (`why_not_weavable`), and no value is a list, struct or map.
    A window that counts rows (RowsWindow) may stand in the place of the stream, over any append-only relation, when
    nothing above it depends on time.
    Proof: a row's presence is always of the form ts + after <= p < ts + until (`_Presence`), as
    `expand_window_aggregate` writes it.
    """
    found = _recognise(node) if isinstance(node, r.GroupBy) else None
    return found if isinstance(found, Relation) else None


def why_not(node: r.GroupBy) -> str | None:
    """Why a grouping is no window aggregate, in words for EXPLAIN; None when it is one."""
    found = _recognise(node)
    return found if isinstance(found, str) else None


class _Otherwise(Exception):
    """A condition that does not hold, in words."""


def _recognise(node: r.GroupBy) -> WindowAggregate | str:
    try:
        return _Reading().aggregate(node)
    except _Otherwise as reason:
        return str(reason)


@dataclass(frozen=True)
class _Presence:
    """When a row is inside: at time t with ts + after <= p < ts + until, for the last point p <= t of the rhythm.

    Without a rhythm every time is a point.
    """

    after: int = 0
    until: int | None = None
    rhythm: tuple[int, int] | None = None

    def also(self, after: int, until: int | None) -> _Presence:
        """Inside both, where both are evaluated at the same points."""
        ends = [u for u in (self.until, until) if u is not None]
        return _Presence(max(self.after, after), min(ends) if ends else None, self.rhythm)

    def at(self, rhythm: tuple[int, int]) -> _Presence:
        """Evaluated at points only."""
        if self.rhythm not in (None, rhythm):
            raise _Otherwise("two different rhythms")
        return _Presence(self.after, self.until, rhythm)


@dataclass
class _Reading:
    """A chain of operators, read from the stream upwards; `columns` are expressions over the stream."""

    presence: _Presence = _Presence()
    predicates: list[Scalar] = field(default_factory=list)
    columns: dict[str, Scalar] = field(default_factory=dict)
    counted: r.RowsWindow | None = None

    def aggregate(self, node: r.GroupBy) -> WindowAggregate:
        for a in node.aggregates:
            if reason := why_not_weavable(a):
                raise _Otherwise(reason)
        if not node.keys:
            raise _Otherwise("a grouping without keys has one row at all times")
        stream = self.read(node.input)
        named = dict.fromkeys(a.argument for a in node.aggregates if a.argument is not None)
        keys, arguments = (
            tuple(Item(n, self._over_stream(ColumnRef(n)), node.input.type_of(n)) for n in names)
            for names in (node.keys, named)
        )
        if nested := next((i for i in keys + arguments if is_nested(i.type)), None):
            raise _Otherwise(f"its tables have no codes for values of type {nested.type}")
        predicate = conjunction(*self.predicates)
        values = [*(i.value for i in keys + arguments), *self.predicates]
        if any(r.SEQ in value.columns for value in values):
            raise _Otherwise("it depends on the order of arrival")
        window, once = self.window(keys)
        if window.until is None and any(a.user_functions is not None for a in node.aggregates):
            raise _Otherwise("nothing leaves, and it is a user aggregate")
        return WindowAggregate(stream, predicate, keys, arguments, node.aggregates, window, once)

    def window(self, keys: tuple[Item, ...]) -> tuple[Window, bool]:
        """The window, and whether each group stays once it was reported."""
        inside = self.presence
        if self.counted is not None:
            return Window(self.counted.slide, 0, 0, self.counted.rows), False
        if inside.rhythm is None:
            raise _Otherwise("it refreshes at every change: no SLIDE, SYNC EVERY or epoch")
        slide, offset = inside.rhythm
        if inside.until is not None:
            if inside.until <= inside.after:
                raise _Otherwise("no row is ever inside")
            return Window(slide, offset, inside.after, inside.until), False
        if inside.after == 1 and any(_is_epoch(k, slide, offset) for k in keys):
            return Window(slide, offset, 1, slide + 1), True
        return Window(slide, offset, inside.after, None), False

    def read(self, node: Relation) -> r.Scan | r.RowsWindow:
        """Read the operators from the stream up to `node`; returns the stream, or its last rows."""
        if isinstance(node, r.RowsWindow):
            self.counted = node
            self.columns = {c: ColumnRef(c) for c in node.names}
            return node
        if isinstance(node, r.Scan):
            if node.static:
                raise _Otherwise("a table has no time")
            self.columns = {c: ColumnRef(c) for c in node.names}
            return node
        if not isinstance(node, (r.Filter, r.Project, r.Temporal, r.Synchronize, r.Stamp)):
            raise _Otherwise(_OTHER_INPUTS.get(type(node), "it does not read a stream"))
        stream = self.read(node.input)
        if self.counted is not None and isinstance(node, (r.Temporal, r.Synchronize)):
            raise _Otherwise("its window counts rows")
        if isinstance(node, r.Filter):
            self.predicates.append(self._over_stream(node.predicate))
        elif isinstance(node, r.Project):
            self.columns = {i.name: self._over_stream(i.value) for i in node.items}
        elif isinstance(node, r.Synchronize):
            self.presence = self.presence.at((node.every_us, node.offset_us))
        elif isinstance(node, r.Stamp):
            self.columns.pop(r.TS, None)  # from here on it is the time of a change
        else:
            self.presence = self._inside(node)
        return stream

    def _over_stream(self, value: Scalar) -> Scalar:
        """An expression over the columns of the stream."""
        if r.TS in value.columns and r.TS not in self.columns:
            raise _Otherwise("its times are those of changes, not of rows")
        return value.over(self.columns)

    def _inside(self, node: r.Temporal) -> _Presence:
        bounds = [None if b is None else self._shift(b, node.period) for b in (node.lower, node.upper)]
        after, until = bounds[0] or 0, bounds[1]
        before = self.presence
        if node.period is None:
            if before.rhythm is not None:
                raise _Otherwise("a window over what was synchronized before")
            return before.also(after, until)
        if before.rhythm is None and (node.lower is None or after < before.after or before.until is not None):
            raise _Otherwise("rows come or go between the points")
        return before.at(node.period).also(after, until)

    def _shift(self, bound: Scalar, period: tuple[int, int] | None) -> int:
        """c of a bound `__ts` + c."""
        time = bound if period is None else undo_rounding(bound, period)
        found = shift_of(self._over_stream(time)) if time is not None else None
        if found is None or found[0] != r.TS:
            raise _Otherwise("the window is not bounded by TS plus a constant")
        return found[1]


def _is_epoch(key: Item, length: int, offset: int) -> bool:
    """True when the key numbers the epochs of this length that begin at the points."""
    if not isinstance(key.value, Epoch) or (key.value.length, key.value.type) != (length, key.type):
        return False
    shift = shift_of(key.value.time)
    return shift is not None and shift[0] == r.TS and (shift[1] + offset) % length == 0
