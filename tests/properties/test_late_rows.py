"""A row behind the frontier of its source is put aside, and which rows those are does not depend on the cut."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import queries, streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import check_view, create, drawn_database, oracle, watch


@st.composite
def late_workloads(draw):
    found = [draw(streams.append_only("A", late=True, most=18)), draw(streams.keyed("K", late=True, most=18))]
    return found, draw(queries.views(found, odd=True, most=2))


@effort(16, thorough_cases=500)
@given(workload=late_workloads(), place=places)
def test_late_rows_are_dead_letters_and_the_rest_is_answered(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        made = create(db, views)
        # Both sources are read, whatever the views read.
        watch(db, sources)
        db.run()
        letters = db.query("SELECT source, reason, raw FROM dead_letters").to_pylist()
        found = [row for row in letters if row["reason"].startswith("late")]
        for stream in sources:
            unknown = [r["tm"] for r in stream.punctual()[0] if r.get("op", "insert") in streams.UNKNOWN]
            others = [
                json.loads(row["raw"])["tm"]
                for row in letters
                if row not in found and row["source"] == stream.source and "operation" in row["reason"]
            ]
            assert sorted(others) == sorted(unknown)
            expected = Counter((r["k"], r["s"], r["tm"]) for r in stream.punctual()[1])
            raws = [json.loads(row["raw"]) for row in found if row["source"] == stream.source]
            assert Counter((r.get("k"), r.get("s"), r["tm"]) for r in raws) == expected or stream.format == "parquet"
            assert Counter(r["tm"] for r in raws) == Counter(r["tm"] for r in stream.punctual()[1])
        assert len(letters) == len(found) + sum(row["reason"].startswith('column "op"') for row in letters)
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)
