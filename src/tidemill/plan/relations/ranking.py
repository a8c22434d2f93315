"""Rows by their place in an order: the first ones of each partition, ranks, and other window functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.plan.cached import cached_property
from tidemill.plan.relations.base import Relation
from tidemill.plan.sort_keys import SortKey
from tidemill.plan.sources import Column, Schema
from tidemill.plan.window_calls import WindowCall

RankFunction = Literal["row_number", "rank", "dense_rank"]


@dataclass(frozen=True, eq=False)
class Ranked(Relation):
    """The rows of each partition whose rank is greater than `after` and at most `last`, with the rank as column `name`.

    Without `last` there is no end, without `name` the rank is not shown. `row_number` counts in the completed order
    (`plan.sort_keys`). It is LIMIT and OFFSET (one partition), DISTINCT ON (last = 1), and a ranking function.
    """

    input: Relation
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    function: RankFunction
    after: int = 0
    last: int | None = None
    name: str | None = None

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, *([Column(self.name, "BIGINT")] if self.name is not None else []))

    def check(self) -> None:
        assert self.after >= 0 and (self.last is None or self.last >= 0), "ranks begin with 1"


@dataclass(frozen=True, eq=False)
class WindowFunctions(Relation):
    """Every row with the results of some window functions over its partition, all in the same order."""

    input: Relation
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, *(Column(c.name, c.type) for c in self.calls))
