"""From the name of an algorithm, or a method for each input, to the tree of what is shipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tidemill.errors import PlanProblem
from tidemill.plan.sites.query import Equality, SiteQuery
from tidemill.plan.sites.tree import JoinAt, Keys, Leaf, Matching, Ship

MethodName = Literal["whole", "keys", "both", "bloom"]
# (method, whether the join is where the left input is)
ALGORITHMS: dict[str, tuple[MethodName, bool]] = {
    "sp_s": ("whole", True),
    "sp_d": ("whole", False),
    "sm_s1": ("keys", True),
    "sm_s2": ("both", True),
    "sm_d1": ("keys", False),
    "sm_d2": ("both", False),
    "bloom": ("bloom", True),
}
# Types whose equal values have equal text, so that fingerprints of equal values are equal. Floats have two zeros.
PRINTED_ALIKE = frozenset(
    "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT VARCHAR DATE TIMESTAMP UUID".split()
)


@dataclass(frozen=True)
class Method:
    """How an input gets to the site of the join: `whole`; `keys`: rows that match the join values of input `by`;
    `both`: of those values only those that the input has itself; `bloom`: fingerprints of the values.
    """

    name: MethodName
    by: str | None = None


def methods_of(query: SiteQuery, algorithm: str) -> tuple[dict[str, Method], str]:
    """(methods by alias, site of the join) of one of the seven algorithms for a join of two inputs at two sites.

    The first input is the paper's S1 at N1, the second S2 at N2.
    """
    if algorithm not in ALGORITHMS:
        raise PlanProblem(
            "TM242", f'there is no join algorithm "{algorithm}"', hint=f"use {', '.join(ALGORITHMS)}, or auto"
        )
    if len(query.inputs) != 2:
        raise PlanProblem(
            "TM242",
            f"{algorithm} joins two inputs, and this query has {len(query.inputs)}",
            hint="SET site_join = auto chooses a method for each input",
        )
    name, at_left = ALGORITHMS[algorithm]
    left, right = query.inputs
    near, far = (left, right) if at_left else (right, left)
    return {far.alias: Method(name, near.alias)}, near.site


def build_tree(query: SiteQuery, methods: Mapping[str, Method], join_site: str) -> JoinAt:
    """Every input brought to the site of the join. An input without a method, and one of which every row counts, is
    shipped whole.
    """
    found: list[Leaf | Ship] = []
    for each in query.inputs:
        leaf = Leaf(each.alias)
        if each.site == join_site:
            found.append(leaf)
            continue
        method = methods.get(each.alias, Method("whole"))
        equality = None if method.name == "whole" else _reducer(query, each.alias, method)
        found.append(Ship(leaf if equality is None else _reduce(query, leaf, method, equality), join_site))
    return JoinAt(tuple(found), join_site, query.equalities)


def _reducer(query: SiteQuery, alias: str, method: Method) -> Equality | None:
    """The equality by which rows are left out; None where every row counts."""
    listed = query.reducers(alias)
    if method.by is not None:
        listed = [e for e in listed if e.other(alias) == method.by]
    if method.name == "bloom":
        listed = [e for e in listed if _printed_alike(query, e)]
    return listed[0] if listed else None


def _printed_alike(query: SiteQuery, equality: Equality) -> bool:
    left, right = query.input(equality.left), query.input(equality.right)
    types = [
        (left.type_of(a), right.type_of(b)) for a, b in zip(equality.left_columns, equality.right_columns, strict=True)
    ]
    return all(a == b and a in PRINTED_ALIKE for a, b in types)


def _reduce(query: SiteQuery, leaf: Leaf, method: Method, equality: Equality) -> Matching:
    """R ⋉ ship D(L), or R ⋉ ship(D(L) ∩ ship D(R)); what is at one site is not shipped."""
    other = Leaf(equality.other(leaf.alias))
    here, there = query.input(leaf.alias).site, query.input(other.alias).site
    own, theirs = equality.columns_of(leaf.alias), equality.columns_of(other.alias)
    keys: Keys | Matching = Keys(other, theirs, method.name == "bloom")
    if method.name == "both" and here != there:
        keys = Matching(Keys(other, theirs), Ship(Keys(leaf, own), there), theirs)
    return Matching(leaf, keys if here == there else Ship(keys, here), own)
