"""Users' aggregates give what the language's own give, for any windows, cuts, configurations and crashes."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.streams import cuts
from tests.properties.test_invariance import Crashing
from tests.properties.trial import database
from tests.share.outcomes import check_same, outcome
from tests.share.user_aggregates_drawn import pairs, teach
from tests.share.workloads import Taste, settings_text, shared_streams
from tidemill.errors import PlanProblem

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


def run(stream, views, *statements, **options):
    """The outcome of one run, and the rows that it put aside."""
    with database([stream], **options) as db:
        teach(db)
        for text in (*statements, *(v.statement for v in views)):
            try:
                db.execute(text)
            except PlanProblem as problem:
                assume(problem.detail != "no row is ever inside")  # refused, and rightly
                raise
        db.run()
        return outcome(db, views), set(db.query("SELECT raw FROM dead_letters").column("raw").to_pylist())


@effort(20)
@given(stream=shared_streams(Taste()), views=pairs(), first=places, second=places, data=st.data())
def test_own_aggregates_equal_those_of_the_language(stream, views, first, second, data):
    expected, bad = run(stream, [v for v, _ in views], **first)
    found, aside = run(
        stream.recut(*data.draw(cuts(len(stream.rows)))), [v for _, v in views], data.draw(settings_text()), **second
    )
    check_same(found, expected)
    assert aside == bad


@effort(6)
@given(
    stream=shared_streams(Taste()),
    views=pairs(most=2),
    place=places,
    faults=st.lists(st.sampled_from(["", "computed", "applied", "kept", "committed"]), min_size=1, max_size=8),
)
def test_a_crash_between_any_two_steps_changes_nothing(stream, views, place, faults):
    own = [v for _, v in views]
    expected, _ = run(stream, own, **place)
    Crashing.faults = list(faults)
    found, _ = run(stream, own, kind=Crashing, **place)
    assert (found.logs, found.contents) == (expected.logs, expected.contents)
