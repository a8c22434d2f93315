"""Sets of synchronization points against their members: the first thousand and more of each.

All periods divide 120 and begin within 40 of time 0, so that what holds between -720 and 720 holds everywhere.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan import points as pt
from tidemill.plan import relations as r
from tidemill.plan.periods import intersect_periods, is_covered
from tidemill.plan.points import AllOf, AnyOf, Every, EveryChange, Never, On, Rows, intersect, is_contained, unite
from tidemill.plan.scalars import ColumnRef, Operation, template
from tidemill.plan.sources import Column

TIMES = range(-720, 721)
periods = st.builds(
    Every,
    st.sampled_from([1, 2, 3, 4, 5, 6, 8, 10, 12]),
    st.integers(-15, 15),
    st.one_of(st.none(), st.none(), st.integers(-40, 40)),
)


def combine(inner):
    parts = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(parts.map(lambda p: unite(*p)), parts.map(lambda p: intersect(*p)))


clocks = st.recursive(st.one_of(periods, st.just(EveryChange()), st.just(Never())), combine, max_leaves=6)

# ---- points from data: a stream of events, those of them that are loud, and counts of its rows --------------------

EVENTS = r.Project(
    r.Scan("events", (Column("t", "BIGINT"), Column("loud", "BOOLEAN"))),
    (r.Item("TimePoint", ColumnRef("t"), "BIGINT"), r.Item("loud", ColumnRef("loud"), "BOOLEAN")),
)
LOUD = r.Filter(EVENTS, template("{0}", ColumnRef("loud")))
POINT = (r.Item("TimePoint", ColumnRef("TimePoint"), "BIGINT"),)
from_data = st.sampled_from(
    [On(r.Project(EVENTS, POINT)), On(r.Project(LOUD, POINT)), *(Rows(n, EVENTS) for n in (1, 2, 3, 6))]
)
mixed = st.recursive(st.one_of(periods, from_data, st.just(EveryChange())), combine, max_leaves=5)


def members(points, events):
    """The times of a set of points; `events` are (time, loud)."""
    if isinstance(points, (AnyOf, AllOf)):
        parts = [members(part, events) for part in points.parts]
        return set().union(*parts) if isinstance(points, AnyOf) else set(TIMES).intersection(*parts)
    if isinstance(points, Every):
        since = points.since_us
        return {t for t in TIMES if (t - points.offset_us) % points.every_us == 0 and (since is None or t >= since)}
    if isinstance(points, Rows):
        counts = {t: sum(time <= t for time, _ in events) for t, _ in events}
        before = {t: sum(time < t for time, _ in events) for t, _ in events}
        return {t for t in counts if counts[t] // points.n > before[t] // points.n}
    if isinstance(points, On):
        return {t for t, loud in events if loud or EVENTS in points.relation.children}
    return set(TIMES) if isinstance(points, EveryChange) else set()


@effort(600)
@given(p=clocks, q=clocks)
def test_containment_of_periods_is_exact(p, q):
    assert is_contained(p, q) is (members(p, ()) <= members(q, ()))


@effort(400)
@given(parts=st.lists(clocks, min_size=1, max_size=4))
def test_unions_and_intersections_have_the_members_they_should(parts):
    sets = [members(part, ()) for part in parts]
    assert members(unite(*parts), ()) == set().union(*sets)
    assert members(intersect(*parts), ()) == set(TIMES).intersection(*sets)


@effort(400)
@given(p=mixed, q=mixed, events=st.lists(st.tuples(st.integers(-50, 50), st.booleans()), max_size=12))
def test_what_is_said_of_points_from_data_holds_for_all_data(p, q, events):
    left, right = members(p, events), members(q, events)
    answer = is_contained(p, q)
    assert answer is not True or left <= right
    assert members(unite(p, q), events) == left | right
    assert members(intersect(p, q), events) == left & right


def test_containment_may_be_unknown():
    seldom, often = Rows(6, EVENTS), Rows(3, EVENTS)
    assert is_contained(seldom, often) is True and is_contained(often, seldom) is None
    assert is_contained(Every(2), often) is None and is_contained(often, Never()) is None
    assert is_contained(On(r.Project(LOUD, POINT)), On(r.Project(EVENTS, POINT))) is True
    assert is_contained(On(r.Project(EVENTS, POINT)), On(r.Project(LOUD, POINT))) is None


def test_a_view_over_a_view_of_points_selects_from_it():
    alarms = r.View("alarms", r.Project(EVENTS, POINT))
    fires = r.View("fires", r.Project(r.Filter(alarms, template("{0} > 3", ColumnRef("TimePoint"))), POINT))
    late = r.View("fires", fires.input, late=True)
    in_us = (r.Item("TimePoint", template("{0} * 10", ColumnRef("TimePoint")), "BIGINT"),)
    whole, some, later = (On(r.Project(view, in_us)) for view in (alarms, fires, late))
    assert (
        is_contained(some, whole) is True and is_contained(whole, some) is None and is_contained(later, whole) is None
    )
    doubled = (r.Item("TimePoint", template("{0} * 20", ColumnRef("TimePoint")), "BIGINT"),)
    assert is_contained(On(r.Project(fires, doubled)), whole) is None


def test_a_filter_below_a_projection_that_cancels_is_no_subset():
    """A deletion of the same point may cancel what the filter keeps."""
    tag = r.Tag(r.Scan("rooms", (Column("k", "INTEGER"), Column("t", "BIGINT"))), ("k",), ("k", "t"))
    items = (r.Item("TimePoint", ColumnRef("t"), "BIGINT"),)
    some = r.Filter(tag, Operation(">", ColumnRef("k"), ColumnRef("t")))
    assert is_contained(On(r.Project(some, items)), On(r.Project(tag, items))) is None


def test_several_periods_cover_one_only_together_and_the_limit_is_kept():
    halves = [Every(2), Every(2, 1)]
    assert is_covered(Every(3), halves) is True and is_covered(Every(3), halves, most=1) is None
    assert is_covered(Every(3), [Every(2), Every(4, 1)]) is False


def test_periods_of_any_length_are_compared_without_looking_at_each_class():
    day, odd = 86_400_000_000, 86_399_999_999
    assert is_contained(Every(day), unite(Every(odd), Every(7))) is False
    both = intersect_periods(Every(day), Every(odd, 5))
    assert both is not None and both.every_us == day * odd and both.offset_us % odd == 5


@effort(300)
@given(period=periods, time=st.integers(-300, 300))
def test_the_last_point_is_the_greatest_before_a_time(period, time):
    before = [t for t in members(period, ()) if t < time]
    assert period.last_point_before(time) == (max(before) if before else None)


# ---- the points of relations -------------------------------------------------------------------------------------

STREAM = r.Scan("s", (Column("k", "INTEGER"),))
TABLE = r.Scan("t", (Column("k", "INTEGER"),), static=True)


def relation(inner):
    whole = st.builds(lambda e: Every(e.every_us, e.offset_us), periods)
    return st.one_of(
        st.builds(lambda i, e: r.Synchronize(i, e.every_us, e.offset_us), inner, whole),
        st.builds(lambda i, e: r.SynchronizePeriods(i, tuple(e)), inner, st.lists(periods, min_size=1, max_size=3)),
        st.builds(lambda i, j: r.Union((i, j)), inner, inner),
        st.builds(lambda i: r.SetCombine("distinct", i), inner),
        st.builds(lambda i, j: r.SetCombine("except_all", i, j), inner, inner),
    )


relations = st.recursive(st.sampled_from([STREAM, STREAM, TABLE]), relation, max_leaves=5)


def as_of(node, time):
    """For each stream below the node, up to which time its rows are in the answer; None before the first point."""
    if isinstance(node, r.Scan):
        return [] if node.static else [time]
    if isinstance(node, (r.Synchronize, r.SynchronizePeriods)):
        own = node.periods if isinstance(node, r.SynchronizePeriods) else (Every(node.every_us, node.offset_us),)
        lasts = [p for each in own if (p := each.last_point_before(time + 1)) is not None]
        if not lasts:
            return [None for _ in as_of(node.input, time)]
        return as_of(node.input, max(lasts))
    return [t for child in node.children for t in as_of(child, time)]


@effort(300)
@given(node=relations)
def test_full_points_are_those_at_which_all_streams_are_up_to_date(node):
    full, every = members(pt.full_points(node), ()), members(pt.all_points(node), ())
    for time in range(-60, 61):
        shown, before = as_of(node, time), as_of(node, time - 1)
        assert (time in full) == all(t == time for t in shown)
        assert time in every or shown == before, "a change at no point"


def test_example_9_has_6_as_full():
    halves, thirds = r.Synchronize(STREAM, 2_000_000), r.Synchronize(STREAM, 3_000_000)
    left = r.Project(halves, (r.Item("a", ColumnRef("k"), "INTEGER"),))
    right = r.Project(thirds, (r.Item("b", ColumnRef("k"), "INTEGER"),))
    join = r.Join(left, right, (("a", "b"),))
    assert pt.show_relation_points(join, 1_000_000, "units") == "every 2 s ∪ every 3 s; full: every 6 s"
    assert pt.partial_points(join) == pt.all_points(join) and pt.partial_points(halves) == Never()


@pytest.mark.parametrize(
    "node, shown",
    [
        (r.RowsWindow(STREAM, 5, 3), "every 3 rows"),
        (r.RowPoints(STREAM, 3), "every change"),
        (r.SynchronizeOn(STREAM, r.RowPoints(STREAM, 3)), "every 3 rows"),
        (r.Temporal(STREAM, None, None), "every change"),
        (r.Synchronize(r.Temporal(STREAM, None, template("{0} + 5", ColumnRef(r.TS))), 5_000_000), "every 5 s"),
        (TABLE, "never"),
        (r.Union((r.Synchronize(STREAM, 2_000_000), TABLE)), "every 2 s"),
        (r.Union((r.Synchronize(STREAM, 2_000_000), STREAM)), "every change; full: every 2 s"),
        (r.Clock(1_000_000), "every 1 s"),
    ],
)
def test_points_in_words(node, shown):
    assert pt.show_relation_points(node, 1_000_000, "units") == shown


@effort(200)
@given(parts=st.lists(mixed, min_size=1, max_size=4), seed=st.integers(0, 5))
def test_the_order_of_parts_does_not_matter(parts, seed):
    shuffled = [*parts]
    random.Random(seed).shuffle(shuffled)
    assert is_contained(unite(*parts), unite(*shuffled)) is not False
    if all(isinstance(part, (Every, On, Rows)) for part in parts):
        assert unite(*parts) == unite(*shuffled) and intersect(*parts) == intersect(*shuffled)
