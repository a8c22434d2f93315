"""The numbers of paper 004, section 10.6, from the cost model; the readings that give them are in `figure12`."""

from __future__ import annotations

import itertools
from math import ceil, floor

import pytest

from tidemill.optimize.views.cost import Updates, synchronizer_output, union_gaps
from tidemill.optimize.views.figure12 import (
    Counts,
    Grouping,
    GroupQuery,
    count_phantom,
    count_separate,
    count_tagger,
    price_pipelines,
)

UNITS, ROOMS = 650, 2_000
FAST = [Updates(ROOMS, 1.0)]  # section 10.6.2: every room, every unit
SLOW = [Updates(500, 1 / 10), Updates(500, 1 / 13), Updates(1_000, 1 / 17)]  # section 10.6.3
ARRIVING = ROOMS * UNITS
POINTS = {12: ceil(UNITS / 12), 15: ceil(UNITS / 15)}  # 0, 12, … and 0, 15, … before 650
UNION_POINTS = floor(UNITS * 8 / 60)  # eight points in each cycle of 60
CHANGING = 1.5  # rows that section 10.6.2 lets a grouping emit that has the temperature among its keys


def test_separate_pipelines_of_section_10_6_2():
    queries = [Grouping(points * ROOMS) for points in POINTS.values()]
    assert count_separate(ARRIVING, queries) == Counts(2_798_000, 198_000)


@pytest.mark.parametrize(("groups", "printed"), [(200, (1_841_300, 191_800)), (2_000, (2_069_000, 370_000))])
def test_shared_pipeline_of_section_10_6_2(groups, printed):
    finer = Grouping(UNION_POINTS * ROOMS, CHANGING)
    queries = [Grouping(POINTS[12] * groups, CHANGING), Grouping(POINTS[15] * groups)]
    assert count_phantom(ARRIVING, finer, queries) == printed


def test_pipelines_of_section_10_6_3():
    """Regular updates, counted by their rates; sums are rounded down as the paper rounds them."""
    arriving = floor(sum(u.rows(UNITS) for u in SLOW))
    every_12, every_15 = (floor(synchronizer_output(SLOW, union_gaps([(p, 0)], UNITS))) for p in (12, 15))
    assert (arriving, every_12, every_15) == (95_735, 90_318, 81_568)
    assert count_separate(arriving, [Grouping(every_12), Grouping(every_15, 2)]) == (444_924, 171_886)
    upper = [Grouping(POINTS[12] * ROOMS), Grouping(POINTS[15] * ROOMS, 2)]
    assert count_phantom(arriving, Grouping(every_12, 2), upper) == (743_007, 288_318)


def test_one_reading_of_the_union_gives_more_rows_than_section_10_6_3_has():
    assert floor(synchronizer_output(SLOW, union_gaps([(12, 0), (15, 0)], UNITS))) == 93_568


@pytest.mark.parametrize(
    ("updates", "groups", "factor", "separate", "phantom"),
    [
        (FAST, 200, 1.5, (2_798_000, 198_000), (1_841_300, 191_800)),
        (FAST, 2_000, 1.5, (2_798_000, 198_000), (2_069_000, 370_000)),
        (SLOW, 2_000, 2.0, (444_924, 171_886), (743_007, 288_318)),
    ],
)
def test_the_derived_counts_are_near_the_printed_ones(updates, groups, factor, separate, phantom):
    """The model rounds nothing and counts no point at 0, and rows fall into groups at random."""
    first, second = (12, 1.5), (15, 1.0)
    if updates is SLOW:
        first, second = (15, 2.0), (12, 1.0)
    queries = [GroupQuery((period, 0), emitted) for period, emitted in (first, second)]
    priced = price_pipelines(updates, queries, groups, factor, UNITS)
    assert pytest.approx(separate[1], rel=0.02) == priced.separate.NG
    assert pytest.approx(phantom[0], rel=0.05) == priced.phantom.NS
    assert pytest.approx(phantom[1], rel=0.12) == priced.phantom.NG


def test_the_model_prefers_the_pipelines_that_the_paper_found_faster():
    """Figure 13: 200 groups win, 2,000 only for cheap aggregates; figure 15: separate pipelines win."""
    queries = [GroupQuery((12, 0)), GroupQuery((15, 0))]
    few, many = (price_pipelines(FAST, queries, groups, 1.5, UNITS) for groups in (200, 2_000))
    for c2 in (1, 10, 100):
        assert few.phantom.cost(1, c2) < few.separate.cost(1, c2)
    assert many.phantom.cost(1, 1) < many.separate.cost(1, 1)
    assert many.phantom.cost(1, 100) > many.separate.cost(1, 100)
    slow = price_pipelines(SLOW, queries, 2_000, 2.0, UNITS)
    for c2 in (1, 10, 100):
        assert slow.phantom.cost(1, c2) > slow.separate.cost(1, c2)


def test_a_shared_tagger_saves_what_arrives_and_nothing_else():
    """Against (a), (a′) reads what arrives once, and the shared rows once for each query."""
    queries = [Grouping(100), Grouping(60)]
    assert count_tagger(1_000, 150, queries) == (1_000 + 2 * 150 + 160, 160)
    assert count_separate(1_000, queries) == (2_000 + 160, 160)


def test_gaps_of_a_union_against_its_points():
    for periods in ([(12, 0), (15, 0)], [(7, 3), (5, 1), (35, 2)], [(4, 1), (4, 3)], [(9, 0)]):
        cycle = 1_260
        points = [t for t in range(1, 4 * cycle) if any((t - offset) % every == 0 for every, offset in periods)]
        inside = [b - a for a, b in itertools.pairwise(points) if cycle <= a < 2 * cycle]
        found = {gap.length: gap.times for gap in union_gaps(periods, cycle)}
        assert found == pytest.approx({length: inside.count(length) for length in inside})


def test_gaps_of_periods_without_a_short_cycle():
    """The points of a day and of a prime number of microseconds meet after years: the beginning is enough."""
    gaps = union_gaps([(86_400_000_000, 0), (999_983, 0)], 1e9)
    assert sum(g.times * g.length for g in gaps) == pytest.approx(1e9)
    most = max(gaps, key=lambda g: g.times)
    assert most.length == 999_983 and most.times == pytest.approx(1e9 / 999_983, rel=1e-3)
