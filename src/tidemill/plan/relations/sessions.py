"""Rows with the bounds of the session that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.cached import cached_property
from tidemill.plan.relations.base import Relation
from tidemill.plan.sources import Column, Schema

START, END = "__start", "__end"


@dataclass(frozen=True, eq=False)
class Sessions(Relation):
    """The rows of sessions that are over, with the bounds `__start` and `__end` of their session, in microseconds.

    The rows of a partition whose stamps follow each other by less than `gap_us` are one session: it begins with its
    first stamp and ends `gap_us` after its last one. With R(t) the input at time t, the answer at t is

        {row + bounds of its session in R(t) : row in R(t), the session ends at t or before}

    so a session is shown when it ends, and shown anew where rows are taken back. Users see bounds in multiples of
    `grain_us`.
    """

    input: Relation
    partition: tuple[str, ...]
    stamp: str
    gap_us: int
    grain_us: int = 1

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, Column(START, "BIGINT"), Column(END, "BIGINT"))

    def check(self) -> None:
        assert self.gap_us > 0, "rows of one time are one session"
