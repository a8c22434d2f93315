"""Views with subqueries equal DuckDB's answer to the same text over the rows of each moment.

Two properties share the work: the plan that the binder makes of a text, evaluated by the slow reference, against
DuckDB, for many texts; and the engine against both, for fewer.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import streams, subqueries
from tests.properties.effort import effort
from tests.properties.query_text import stream_source
from tests.properties.streams import UNIT
from tests.properties.test_answers import places
from tests.properties.trial import (
    REFUSED,
    check_directly,
    check_view,
    create,
    difference,
    drawn_database,
    oracle,
    plain_sql,
    watch,
)
from tests.reference.logs import canonical_row, same_rows
from tests.statements import parse_one
from tidemill.engine.views.answering import Beginning
from tidemill.errors import PlanProblem


@st.composite  # type: ignore[arg-type]
def workloads(draw, most):
    """Streams A (append-only) and K (keyed, with deletions), at times B, L and the table D, and views on them."""
    found = [draw(streams.append_only("A", odd=False)), draw(streams.keyed("K", odd=False))]
    found += [draw(streams.append_only("B", odd=False))] if draw(st.booleans()) else []
    found += [draw(streams.keyed("L", odd=False))] if draw(st.booleans()) else []
    found += [draw(streams.static_table("D"))] if draw(st.booleans()) else []
    sources = [stream_source(s) for s in found]
    return found, draw(subqueries.views(sources, [], most))


@effort(24, thorough_cases=1_000)
@given(workload=workloads(12))
def test_plans_of_subqueries_mean_what_the_text_says(workload):
    sources, views = workload
    with drawn_database(sources) as db:
        watch(db, sources)
        if any(s.static for s in sources):
            db.execute("CREATE VIEW watchD AS SELECT COUNT(*) AS n FROM D")
        with oracle(db, sources) as truth, plain_sql(sources) as duck:
            moments = sorted({*truth.universe[:: len(truth.universe) // 4 + 1], truth.universe[-1]})
            for view in views:
                try:
                    plan = db.workload.bind(parse_one(view.statement).query, Beginning(db.workload.pending)).node
                except PlanProblem as problem:
                    assert problem.code in REFUSED
                    continue
                for moment, found in truth.history(plan, moments).items():
                    sql = view.query.direct(moment // UNIT)
                    if sql is not None:
                        expected = Counter(map(canonical_row, duck.sql(sql).fetchall()))
                        rows = Counter(map(canonical_row, found))
                        assert same_rows(rows, expected), difference(view, moment, rows, expected) + f"\n{sql}"


@effort(8, thorough_cases=1_000)
@given(workload=workloads(2), place=places)
def test_subqueries_have_the_answer_of_every_moment(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        watch(db, sources)
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)
        with plain_sql(sources) as duck:
            for view in made:
                check_directly(db, view, duck, list(truth.universe[::3]))
