"""What conditions imply: never what does not hold, whatever the rows are, and quickly however many ORs there are."""

from __future__ import annotations

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.optimize.views.implication import Implication
from tidemill.plan.scalars import Chain, ColumnRef, In, IsNull, Literal, Not, Operation, Paren, Scalar, template

V, W, S = ColumnRef("v"), ColumnRef("w"), ColumnRef("s")
ROWS = """CREATE TABLE rows AS SELECT v, w, s FROM (VALUES (NULL), (-1), (0), (1), (2), (3)) a(v),
  (VALUES (NULL), (0), (1), (2)) b(w), (VALUES (NULL), ('a'), ('b'), ('c')) c(s)"""
numbers = st.sampled_from(("0", "1", "2", "1.5")).map(Literal)
texts = st.sampled_from(("'a'", "'b'")).map(template)
signs = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))
simple = st.one_of(
    st.builds(Operation, signs, st.sampled_from((V, W)), numbers),
    st.builds(Operation, signs, st.just(S), texts),
    st.builds(In, st.sampled_from((V, W)), st.lists(numbers, min_size=1, max_size=3).map(tuple)),
    st.builds(lambda column: Not(IsNull(column)), st.sampled_from((V, W, S))),
)
_implied = []
conditions: st.SearchStrategy[Scalar] = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(
            lambda word, parts: Paren(Chain(word, tuple(parts))),
            st.sampled_from(("AND", "OR")),
            st.lists(inner, min_size=2, max_size=3),
        ),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)


@effort(80)
@given(known=st.lists(conditions, min_size=1, max_size=3), wanted=conditions)
def test_what_is_implied_holds_for_every_row(known, wanted):
    if not Implication(['"s"']).holds(known, wanted):
        return
    _implied.append(wanted)
    with duckdb.connect() as duck:
        duck.execute(ROWS)
        where = " AND ".join(f"({c.sql})" for c in known)
        found = duck.sql(f"SELECT * FROM rows WHERE {where} AND ({wanted.sql}) IS NOT TRUE").fetchall()
    assert not found, (where, wanted.sql)


def test_many_conditions_were_implied():
    assert len(_implied) >= 10


def _either(*conditions: Scalar) -> Scalar:
    return Chain("OR", conditions)


def _is(column: ColumnRef, number: int) -> Scalar:
    return Operation("=", column, Literal(str(number)))


def test_many_ors_are_looked_at_once():
    """The time grew with the factorial of their number: ten took minutes."""
    columns = [ColumnRef(f"c{i}") for i in range(40)]
    known = [_either(_is(column, 1), _is(V, i)) for i, column in enumerate(columns)]
    assert not Implication().holds(known, Operation(">", V, Literal("80")))
    assert not Implication().holds(known, Operation(">", ColumnRef("other"), Literal("80")))
    assert Implication().holds([*known, _either(_is(V, 90), _is(V, 99))], Operation(">", V, Literal("80")))


def test_ways_of_several_ors_imply_together():
    known = [_either(_is(V, 1), _is(V, 2)), _either(_is(W, 1), _is(W, 2))]
    both = Chain("AND", (Operation(">", V, Literal("0")), Operation(">", W, Literal("0"))))
    assert Implication().holds(known, _either(both, Operation("=", S, template("'a'"))))
    assert not Implication().holds(known[:1], _either(both, Operation("=", S, template("'a'"))))
