"""The contract every connector keeps.

A position is plain JSON that names a place in a source; it never moves backwards. Four laws:

1. Cuts do not matter: reading [a, b) and then [b, c) gives what reading [a, c) gives, with the same
   `__seq` and the same bad rows.
2. Reading is repeatable: the same range gives the same rows, in any process, after any crash.
3. `split` returns more than one range only when each has a `max_time` or the source has no
   timestamp column. Ranges touch each other, in order; nothing to read is no range.
4. Nothing is lost: each record is in `rows` or in `bad`, or (on_error='fail') the read raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from tidemill.plan.sources import Position, SourceSpec
from tidemill.runtime.sources.columns import arrow_schema, event_time_us

__all__ = ["Chunk", "Connector", "Position", "Progress", "Range", "Rereadable", "arrow_schema", "event_time_us"]


@dataclass(frozen=True)
class Progress:
    """How far a source reaches at this moment.

    `clock` is for sources without a timestamp column: every row beyond `end` will have an arrival
    time of at least `clock` microseconds. `top` is the greatest time of what the rows come from, where
    another site has said that its input is over.
    """

    end: Position
    exhausted: bool
    clock: int | None
    top: int | None = None


@dataclass(frozen=True)
class Range:
    """One contiguous piece of a source, in source order; picklable."""

    start: Position
    end: Position
    max_time: int | None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class Chunk:
    """Rows in source order, and the records that could not become rows.

    `plain` has the declared columns only; `stamped` makes what `rows` has. It is called lazily: most rows need no
    number. `undeclared` counts fields of JSON records that no column is declared for; `files` says which files are bad
    as a whole, and why.
    """

    plain: pa.Table
    bad: pa.Table
    stamped: Callable[[], pa.Table]
    undeclared: dict[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    @property
    def rows(self) -> pa.Table:
        """The rows with `__seq` and `__arrival`."""
        return self.stamped()


class Connector(Protocol):
    """`initial`, `latest`, `split` and `trim` run where the batch is planned, `read` in any worker."""

    spec: SourceSpec

    def initial(self) -> Position: ...

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress: ...

    def split(self, start: Position, end: Position, parts: int) -> list[Range]: ...

    def read(self, piece: Range) -> Iterator[Chunk]: ...

    def trim(self, committed: Position) -> None: ...


@runtime_checkable
class Rereadable(Connector, Protocol):
    """A connector whose records can be read again after they were committed; all of this runs where the batch is
    planned.
    """

    def why_gone(self) -> str | None:
        """Why something that was read cannot be read again; None where all of it can."""

    def order(self, position: Position) -> tuple[int, ...]:
        """A value that is greater for a later position, and equal for positions of the same place."""

    def portion(self, start: Position, end: Position, max_rows: int) -> Position:
        """A position about `max_rows` rows behind `start`; `end` itself where it would not be before that."""

    def share(self, position: Position, end: Position) -> float:
        """How much of what is before `end` is before `position`: 0 to 1."""
