"""Joins with what another relation was at the time of a row."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.cached import cached_property
from tidemill.plan.relations.base import Relation
from tidemill.plan.scalars import Scalar
from tidemill.plan.sources import Schema


@dataclass(frozen=True, eq=False)
class JoinAt(Relation):
    """Each row of the left side, joined with the rows that the right side has at the time of that row, for ever.

    The left side is append-only, and each of its rows comes at its `stamp` (`comes_at_stamp`). With R(t) the right side
    at time t, the answer is the union over all left rows l of {l} ⋈ R(l.stamp); with `before`, of what R was just
    before that time. `outer`: a row without a partner is padded with NULL. Later changes of R change nothing.
    """

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...]
    stamp: str
    residual: Scalar | None = None
    outer: bool = False
    before: bool = False

    @cached_property
    def schema(self) -> Schema:
        return (*self.left.schema, *self.right.schema)

    def check(self) -> None:
        names = [c.name for c in self.schema]
        assert len(set(names)) == len(names), f"both sides have one of {names}"
