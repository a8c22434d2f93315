"""A row behind the frontier of its source is put aside, and which rows those are does not depend on the cut."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import queries, streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import check_view, create, database, oracle, watch


@st.composite
def late_workloads(draw):
    found = [draw(streams.append_only("A", late=True, most=18)), draw(streams.keyed("K", late=True, most=18))]
    return found, draw(queries.views(found, odd=True, most=2))


@effort(25)
@given(workload=late_workloads(), place=places)
def test_late_rows_are_dead_letters_and_the_rest_is_answered(workload, place):
    sources, views = workload
    with database(sources, **place) as db:
        made = create(db, views)
        # Both sources are read, whatever the views read.
        watch(db, sources)
        db.run()
        found = db.query("SELECT source, reason, raw FROM dead_letters").to_pylist()
        assert all(row["reason"].startswith("late") for row in found)
        for stream in sources:
            expected = Counter((r["k"], r["s"], r["tm"]) for r in stream.punctual()[1])
            raws = [json.loads(row["raw"]) for row in found if row["source"] == stream.source]
            assert Counter((r.get("k"), r.get("s"), r["tm"]) for r in raws) == expected or stream.format == "parquet"
            assert Counter(r["tm"] for r in raws) == Counter(r["tm"] for r in stream.punctual()[1])
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)
