"""A shared tagger keeps the rows that some of its queries select: their predicates, joined by OR."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.pipelines.test_shared_taggers import (
    GROUPED,
    POINTS,
    PREDICATES,
    SOURCE,
    contents_in_runs,
    create,
    logs_of,
    records,
    taggers_of,
    write_records,
)
from tests.properties.effort import effort
from tidemill.optimize.views.disjunction import (
    MOST_SELECTIONS,
    selection_from_json,
    selection_to_json,
    unite_selections,
)
from tidemill.optimize.views.shared_taggers import SharedTagger
from tidemill.plan.scalars import Chain, ColumnRef, In, Literal, Operation, Paren

A, B, S = ColumnRef("a"), ColumnRef("b"), ColumnRef("s")
TYPES = {"a": "INTEGER", "b": "INTEGER", "s": "VARCHAR"}
HOT, HOTTER = (Operation(">", A, Literal(n)) for n in ("80", "90"))


# ---- the predicate -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selections", "found"),
    [
        ([HOT, HOTTER], '"a" > 80'),
        ([HOT, Operation("=", B, Literal("1"))], '("a" > 80) OR ("b" = 1)'),
        ([HOT, Paren(HOT)], '"a" > 80'),
        ([Chain("AND", (HOTTER, Operation("=", B, Literal("1")))), HOT], '"a" > 80'),
        ([HOT, None], None),
        ([In(S, (Literal("'x'"), Literal("'\"a\"'"))), HOT], '("a" > 80) OR ("s" IN (\'x\', \'"a"\'))'),
    ],
)
def test_what_some_query_selects(selections, found):
    united = unite_selections(selections, TYPES)
    assert (None if united is None else united.sql) == found
    assert (None if united is None else united.columns) == (None if found is None else united.columns)


def test_too_many_selections_keep_everything():
    some = [Operation("=", A, Literal(str(i))) for i in range(MOST_SELECTIONS + 1)]
    assert unite_selections(some[:-1], TYPES) is not None and unite_selections(some, TYPES) is None


def test_the_predicate_is_kept_with_the_catalog():
    both = unite_selections([HOT, In(S, (Literal("'it''s'"), Literal("'\"a\"'")))], TYPES)
    again = selection_from_json(selection_to_json(both))
    assert again == both and again.columns == {"a", "s"}
    shared = SharedTagger(("a", "s"), None, both)
    assert SharedTagger.from_json(shared.to_json()) == shared
    older = {"columns": ["a"], "periods": None}
    assert SharedTagger.from_json(older) == SharedTagger(("a",), None)


# ---- the plan ------------------------------------------------------------------------------------

ROWS = [(r % 10, "ab"[r % 2], r % 10, "0.25", "upsert", r % 3 == 0) for r in range(60)]
COOL = "room, degrees FROM Rooms SYNC EVERY 2 WHERE degrees < 2"
WARM = "building, count(*) AS n FROM Rooms SYNC EVERY 3 WHERE degrees > 7 GROUP BY building"


@pytest.fixture
def run(tmp_path):
    def start(*views, rows=ROWS):
        write_records(tmp_path, rows)
        db = LocalDatabase(str(tmp_path / "db"))
        opened.append(db)
        db.execute("SET shared_tagging = tagger")
        db.execute(SOURCE.format(folder=tmp_path, rows=1000))
        create(db, views)
        return db

    opened = []
    yield start
    for db in opened:
        db.close()


def tagger_count(db):
    (tagger,) = taggers_of(db)
    return db.state.operators.counts[tagger]


def deletes(db):
    """The tests by which records delete their key."""
    plan = db.execute("EXPLAIN").physical
    return {sql for op in plan.reader if op.kind == "project" for name, sql in op.items if name == "__gone"}


def test_rows_that_no_query_selects_are_not_kept(run):
    """Every room has one temperature, from 0 to 9: 4 of the 10 rooms are below 2 or above 7."""
    db = run(COOL, WARM)
    db.run()
    assert tagger_count(db).growth == 4
    (gone,) = deletes(db)
    assert 'NOT (("degrees" < 2) OR ("degrees" > 7))' in gone


def test_one_query_without_a_predicate_keeps_all_rows(run):
    db = run(COOL, WARM, "building, sum(degrees) AS s FROM Rooms GROUP BY building")
    db.run()
    assert tagger_count(db).growth == 10 and not any("degrees" in gone for gone in deletes(db))


def test_a_selection_that_implies_another_adds_nothing(run):
    db = run(COOL, "room FROM Rooms WHERE degrees < 1")
    assert 'NOT ("degrees" < 2)' in next(iter(deletes(db)))


def test_keys_that_no_query_selects_do_not_travel(run):
    db = run(
        "room, degrees FROM Rooms WHERE room = 1", "building, count(*) AS n FROM Rooms WHERE room > 8 GROUP BY building"
    )
    db.run()
    assert tagger_count(db).rows_in == sum(room in (1, 9) for room, *_ in ROWS)


def test_the_predicate_outlives_its_queries_and_the_process(run, tmp_path):
    """The state was made with it."""
    db = run(COOL, WARM, "room FROM Rooms SYNC EVERY 2 WHERE building = 'a'")
    db.run(final=False)
    before = taggers_of(db)
    db.execute("DROP VIEW V2")
    assert taggers_of(db) == before and len(before) == 1
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert taggers_of(again) == before


# ---- meaning -------------------------------------------------------------------------------------

selective = st.builds(
    lambda text, points, predicate: text.format(points=points, where=f" WHERE {predicate}"),
    st.sampled_from(GROUPED),
    st.sampled_from(POINTS),
    st.sampled_from([p for p in PREDICATES if p]),
)


@effort(8, thorough_cases=240)
@given(rows=st.lists(records, min_size=1, max_size=30), views=st.lists(selective, min_size=2, max_size=4, unique=True))
def test_logs_do_not_depend_on_the_setting(rows, views):
    with tempfile.TemporaryDirectory() as folder:
        write_records(folder, rows)
        expected = logs_of(folder, views, "off")
        for mode in ("tagger", "phantom"):
            assert logs_of(folder, views, mode) == expected, mode


@effort(4)
@given(
    parts=st.lists(st.lists(records, min_size=1, max_size=15), min_size=2, max_size=3),
    views=st.lists(selective, min_size=2, max_size=4, unique=True),
)
def test_views_of_open_runs_do_not_depend_on_the_setting(parts, views):
    with tempfile.TemporaryDirectory() as folder:
        expected = contents_in_runs(folder, views, "off", parts)
        assert contents_in_runs(folder, views, "tagger", parts) == expected
