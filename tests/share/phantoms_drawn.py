"""Random relations, configurations and statistics for the phantom tests."""

from __future__ import annotations

from hypothesis import strategies as st

from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.feeding import assemble
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.statistics import Statistics

LETTERS = "ABCDE"
LONG = ("A", "B", "sip", "dip", "IP", "a b", "x·y", "n#1", "f(x)", "50%", "∅", "größe", "wow!")


def queries(letters: str = LETTERS, most: int = 5) -> st.SearchStrategy[list[Relation]]:
    """A few different attribute sets."""
    one = st.frozensets(st.sampled_from(letters), min_size=1, max_size=3).map(Relation)
    return st.lists(one, min_size=1, max_size=most, unique=True)


@st.composite
def configurations(draw: st.DrawFn, names: tuple[str, ...] = tuple(LETTERS), tags: bool = True) -> Configuration:
    """A forest: each relation hangs below any relation drawn before it that may feed it."""
    attributes = st.frozensets(st.sampled_from(names), max_size=4)
    tag = st.one_of(st.none(), st.integers(0, 12)) if tags else st.none()
    drawn = draw(st.lists(st.builds(Relation, attributes, tag), min_size=1, max_size=8, unique=True))
    drawn.sort(key=lambda r: (-len(r.attributes), r.tag is not None))
    feeders: dict[Relation, Relation | None] = {}
    for r in drawn:
        able = [f for f in feeders if f.feeds(r)]
        feeders[r] = draw(st.sampled_from([None, *able]))
    return Configuration.of(feeders, draw(st.lists(st.sampled_from(drawn), max_size=3)))


@st.composite
def shared(draw: st.DrawFn, most: int = 5) -> Configuration:
    """A configuration as GC builds it: queries, some feeders, the smallest feeder feeds."""
    asked = draw(queries(most=most))
    feeders = draw(st.lists(st.frozensets(st.sampled_from(LETTERS), min_size=2).map(Relation), max_size=4, unique=True))
    return assemble(asked, feeders, lambda r: len(r.attributes))


@st.composite
def statistics(draw: st.DrawFn) -> Statistics:
    """Group counts that grow with the attributes, and flow lengths that fall with the depth."""
    values = {letter: draw(st.integers(2, 40)) for letter in LETTERS}
    cap = draw(st.integers(50, 5000))

    def groups(r: Relation) -> float:
        count = 1.0
        for letter in r.attributes:
            count *= values.get(letter, 3)
        return count * cap / (count + cap)

    flows = draw(st.lists(st.floats(1, 60), min_size=1, max_size=3).map(lambda l: tuple(sorted(l, reverse=True))))
    return Statistics(groups, flows, tuples=draw(st.sampled_from([1e4, 1e6])))


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Statistics with constants; hash table evictions are not counted."""
    return Model(draw(statistics()), Constants(1.0, draw(st.sampled_from([2.0, 15.0, 50.0]))))
