"""Operators without state: what enters a plan, one SELECT each, and how rows of several places come together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tidemill.plan.periods import Every
from tidemill.plan.physical.base import Item, Linear, Op


@dataclass(frozen=True)
class Scan(Op):
    """The rows of a source, in the readers."""

    kind: ClassVar[str] = "scan"

    source: str


@dataclass(frozen=True)
class Seed(Op):
    """What a view holds when another view over it begins; it enters once, through the readers. With `since`, what it
    held at that time, and its changes from then on.
    """

    kind: ClassVar[str] = "seed"

    view: str
    since: int | None = None


@dataclass(frozen=True)
class Filter(Linear):
    """The changes for which the predicate is true."""

    kind: ClassVar[str] = "filter"
    passes: ClassVar[bool] = True

    predicate: str
    columns_read: tuple[str, ...] | None = None

    @property
    def reads(self) -> tuple[str, ...] | None:
        return self.columns_read


@dataclass(frozen=True)
class Project(Linear):
    """Each change with computed columns."""

    kind: ClassVar[str] = "project"

    items: tuple[Item, ...]
    columns_read: tuple[str, ...] | None = None

    @property
    def reads(self) -> tuple[str, ...] | None:
        return self.columns_read


@dataclass(frozen=True)
class Unnest(Linear):
    """Each change once for each element of a list, with the element and its number as columns."""

    kind: ClassVar[str] = "unnest"
    passes: ClassVar[bool] = True

    list: str
    element: str
    number: str | None = None
    outer: bool = False
    columns_read: tuple[str, ...] | None = None

    @property
    def reads(self) -> tuple[str, ...] | None:
        return self.columns_read


@dataclass(frozen=True)
class Synchronize(Linear):
    """Each change at the first point of a period at or after its time."""

    kind: ClassVar[str] = "synchronize"
    passes: ClassVar[bool] = True

    every: int
    offset: int

    @property
    def points(self) -> tuple[tuple[int, int], ...]:
        return ((self.every, self.offset),)


@dataclass(frozen=True)
class SynchronizePeriods(Linear):
    """Each change at the first point of any of several periods at or after its time."""

    kind: ClassVar[str] = "synchronize_periods"
    passes: ClassVar[bool] = True

    periods: tuple[Every, ...]


@dataclass(frozen=True)
class Temporal(Linear):
    """A change enters at max(time, lower), and its opposite leaves at upper."""

    kind: ClassVar[str] = "temporal"
    passes: ClassVar[bool] = True

    lower: str | None
    upper: str | None
    columns_read: tuple[str, ...] | None = None

    @property
    def reads(self) -> tuple[str, ...] | None:
        return self.columns_read


@dataclass(frozen=True)
class EarlyAggregation(Linear):
    """The parts of all aggregates, added up for each key and time.

    `count` is SQL for the number of rows. Keys in `extremes` are not grouped by: of the rows that are added up they
    keep the least value, the greatest, or the `set` of values.
    """

    keys: tuple[str, ...]
    count: str
    parts: tuple[Item, ...]
    extremes: dict[str, str] = field(default_factory=dict)
    columns_read: tuple[str, ...] | None = None

    @property
    def reads(self) -> tuple[str, ...] | None:
        return self.columns_read


@dataclass(frozen=True)
class Partial(EarlyAggregation):
    """Changes, added up for each key and time."""

    kind: ClassVar[str] = "partial"


@dataclass(frozen=True)
class Finer(EarlyAggregation):
    """Changes of a keyed stream, added up for each key and time, that several groupings add up further: a change whose
    `__diff` is the number of rows, with the parts as columns.
    """

    kind: ClassVar[str] = "finer"


@dataclass(frozen=True)
class Windowed(EarlyAggregation):
    """`Temporal`, `Synchronize` and `Partial` one after the other, in one pass over the rows of a window.

    Rows that satisfy `where` have the columns `items`, enter at `lower` and leave at `upper`, both rounded up to
    `points`; where `length` is known, every row leaves that long after it has entered.
    """

    kind: ClassVar[str] = "windowed"

    items: tuple[Item, ...] = ()
    where: str | None = None
    lower: str | None = None
    upper: str | None = None
    points: tuple[tuple[int, int], ...] = ()
    length: int | None = None


@dataclass(frozen=True)
class Values(Linear):
    """How often each value of one column appears, for each key and time."""

    kind: ClassVar[str] = "values"

    keys: tuple[str, ...]
    value: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.keys, self.value)


@dataclass(frozen=True)
class Counted(Linear):
    """Changes of the multiplicities of whole rows, of the left (0) or right (1) side of a set operator.

    Column sources[i] becomes columns[i], of type types[i].
    """

    kind: ClassVar[str] = "counted"

    columns: tuple[str, ...]
    types: tuple[str, ...]
    side: int
    sources: tuple[str, ...] = field(metadata={"json": "from"})

    @property
    def reads(self) -> tuple[str, ...]:
        return self.sources


@dataclass(frozen=True)
class Latest(Linear):
    """Of several records of one key at one time the last one."""

    kind: ClassVar[str] = "latest"
    passes: ClassVar[bool] = True

    keys: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return self.keys


@dataclass(frozen=True)
class Union(Op):
    """The changes of all inputs."""

    kind: ClassVar[str] = "union"


@dataclass(frozen=True)
class LocalRows(Op):
    """Of rows that every shard has, those whose keys belong to the shard."""

    kind: ClassVar[str] = "mine"

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Picked(Op):
    """One of several outputs of its input, by the name of this operator."""

    kind: ClassVar[str] = "picked"
