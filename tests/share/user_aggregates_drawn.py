"""Built-in aggregates written again as users' aggregates, and pairs of queries that ask the same of both."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.query_text import View
from tests.share.workloads import KEYS, OUTPUTS, TESTS, view, window_spelling


class Sum:
    """SUM of whole numbers."""

    accepts, returns, zero = "BIGINT", "HUGEINT", 0

    def add(self, total, value):
        return total + value

    def combine(self, total, other):
        return total + other


class Moving(Sum):
    """SUM that takes out what goes."""

    def invert(self, total, other):
        return total - other


class Mean:
    """AVG; the accumulator is a list that changes in place."""

    accepts = "BIGINT"

    def zero(self):
        return [0, Fraction(0)]

    def add(self, state, value):
        state[0] += 1
        state[1] += value
        return state

    def combine(self, state, other):
        state[0] += other[0]
        state[1] += other[1]
        return state

    def invert(self, state, other):
        state[0] -= other[0]
        state[1] -= other[1]
        return state

    def finish(self, state):
        return float(state[1] / state[0])


class Least:
    """MIN of texts."""

    accepts, returns, zero = "VARCHAR", "VARCHAR", None

    def add(self, least, value):
        return value if least is None else min(least, value)

    combine = add


class Different:
    """COUNT(DISTINCT …) of a set that changes in place; `combine` may hand out its second argument."""

    accepts, returns, zero = "INTEGER", "BIGINT", set()

    def add(self, seen, value):
        seen.add(value)
        return seen

    def combine(self, seen, others):
        if not seen:
            return others
        seen |= others
        return seen

    def finish(self, seen):
        size = len(seen)
        seen.clear()  # no other accumulator may change with it
        return size


class Numbers(Sum):
    """SUM of texts that are numbers; others fail."""

    accepts = "VARCHAR"

    def add(self, total, value):
        return total + int(value)


OWN = {
    "own_sum": Sum,
    "moving_sum": Moving,
    "own_mean": Mean,
    "own_least": Least,
    "different": Different,
    "numbers": Numbers,
}
CALLS = (
    ("COUNT(*)", "COUNT(*)"),
    ("SUM(a.k)", "own_sum(a.k)"),
    ("SUM(a.k)", "moving_sum(a.k)"),
    ("AVG(a.k)", "own_mean(a.k)"),
    ("MIN(a.s)", "own_least(a.s)"),
    ("MAX(a.k)", "MAX(a.k)"),
    ("SUM(a.k) FILTER (WHERE a.s = 'a')", "own_sum(a.k) FILTER (WHERE a.s = 'a')"),
    ("SUM(a.k * 2 + 1)", "moving_sum(a.k * 2 + 1)"),
    ("SUM(a.k) + COUNT(*)", "own_sum(a.k) + COUNT(*)"),
)
FAILING = ("SUM(CAST(a.s AS INTEGER))", "numbers(a.s)")
Pair = tuple[View, View]


def teach(db: LocalDatabase) -> None:
    """Create all of them."""
    for name, own in OWN.items():
        db.create_aggregate(name, own)


@st.composite
def pairs(draw: st.DrawFn, most: int = 3) -> list[Pair]:
    """Views with aggregates of the language, each beside the same view with users' aggregates."""
    found = []
    for i in range(draw(st.integers(1, most))):
        source, conditions, epoch = draw(st.one_of(window_spelling(), window_spelling(), st.just(("A AS a", [], None))))
        if draw(st.booleans()):
            conditions = [*conditions, f"({draw(st.sampled_from(TESTS))})"]
        keys = draw(st.lists(st.sampled_from(KEYS), min_size=0 if epoch else 1, max_size=2, unique=True))
        keys = [*([epoch] if epoch else []), *keys]
        calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True))
        if draw(st.integers(0, 4)) == 0 and ("RANGE" in source or "WINDOW" in source):
            calls = [*calls, FAILING]
        elif draw(st.integers(0, 4)) == 0:
            calls = [("COUNT(DISTINCT a.k)", "coalesce(different(a.k), 0)")]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        output = draw(st.sampled_from(OUTPUTS))
        texts = []
        for side in (0, 1):
            items = [f"{k} AS o{j}" for j, k in enumerate(keys)] + [f"{c[side]} AS c{j}" for j, c in enumerate(calls)]
            texts.append(f"SELECT {', '.join(items)} FROM {source}{where} GROUP BY {', '.join(keys)}")
        found.append((view(f"v{i}", output, texts[0]), view(f"v{i}", output, texts[1])))
    return found
