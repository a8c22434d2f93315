"""Operators that keep rows by partition, in an order: ranks, window functions, sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemill.plan.physical.base import Op
from tidemill.plan.sort_keys import SortKey
from tidemill.plan.sources import Column
from tidemill.plan.window_calls import WindowCall


@dataclass(frozen=True)
class Ranked(Op):
    """Rows of an input with `columns` whose rank in their partition is in (after, last], with the rank as `name`.

    `bounded`: the input is append-only, so rows behind `last` are forgotten.
    """

    kind: ClassVar[str] = "ranked"

    columns: tuple[Column, ...]
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    function: str
    after: int = 0
    last: int | None = None
    name: str | None = None
    bounded: bool = False


@dataclass(frozen=True)
class WindowFunctions(Op):
    """All rows of an input with `columns`, with the results of window functions over their partitions."""

    kind: ClassVar[str] = "window_functions"

    columns: tuple[Column, ...]
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True)
class Sessions(Op):
    """Rows of an input with `columns` whose session is over, with its bounds; `closing`: such sessions never change, so
    their rows are forgotten.
    """

    kind: ClassVar[str] = "sessions"

    columns: tuple[Column, ...]
    partition: tuple[str, ...]
    stamp: str
    gap_us: int
    closing: bool
