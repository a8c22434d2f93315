"""Functions that look at a few rows around their own are computed around the changes, with the same answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.queries import item
from tests.properties.query_text import View, stream_source
from tests.properties.trial import check_view, create, drawn_database, oracle
from tests.ranking.drawn import Ranking
from tests.ranking.test_drawn_rankings import places
from tidemill.runtime.operators.ranking.window_functions import WindowFunctions
from tidemill.runtime.thresholds import changed

NEIGHBOURS = ("lag(a.v)", "lead(a.v, 2)", "lag(a.s, 3)", "lead(a.x, 0)")
FRAMED = ("sum(a.v)", "avg(a.v)", "first_value(a.x)", "count(*)", "last_value(a.v)", "max(a.s)")
FRAMES = (
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS 2 PRECEDING",
    "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
)


@st.composite
def workloads(draw):
    """Streams, and views with one or two functions of a bounded reach, in orders that are not those of time."""
    odd = draw(st.booleans())
    found = [draw(streams.append_only("A", odd=odd)), draw(streams.keyed("K", odd=odd, most=20))]
    views = []
    for i in range(2):
        part = draw(st.sampled_from(["", "PARTITION BY a.k "]))
        over = part + "ORDER BY " + draw(st.sampled_from(["a.v", "a.x DESC", "a.s NULLS FIRST", "a.tm DESC"]))
        framed = f"{draw(st.sampled_from(FRAMED))} OVER ({over} {draw(st.sampled_from(FRAMES))})"
        plain, other = (f"{draw(st.sampled_from(NEIGHBOURS))} OVER ({over})" for _ in range(2))
        calls = draw(st.sampled_from([[framed], [plain], [framed, plain], [plain, other]]))
        shown = ", ".join(f"{call} AS f{n}" for n, call in enumerate(calls))
        query = Ranking(
            f"SELECT a.k, a.v, {shown} FROM ⟨0⟩",
            (draw(item([stream_source(s) for s in found], [], "a")),),
            {},
            plain=False,
        )
        views.append(View(f"n{i}", "STREAMED", query))
    return found, views


@effort(15, thorough_cases=2_000)
@given(workload=workloads(), place=places)
def test_neighbourhoods_give_the_answers_of_whole_partitions(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)


def test_only_bounded_functions_have_a_neighbourhood(tmp_path, monkeypatch):
    from tests.harness import LocalDatabase
    from tests.language.tables import fill

    seen = []
    monkeypatch.setattr(
        WindowFunctions, "_compare_near", lambda self, *args: seen.append(self.op.calls[0].function) or iter(())
    )
    with changed(far_rows=16), LocalDatabase(str(tmp_path / "db")) as db:
        fill(db, tmp_path)
        for i, call in enumerate(("lag(v)", "lead(v, 17)", "ntile(2)", "sum(v)", "lag(v IGNORE NULLS)")):
            db.execute(f"CREATE VIEW V{i} AS SELECT {call} OVER (ORDER BY f) AS x FROM K")
        db.execute("CREATE VIEW W AS SELECT sum(v) OVER (ORDER BY f ROWS 16 PRECEDING) AS x FROM K")
        db.run()
    assert set(seen) == {"lag", "sum"}
