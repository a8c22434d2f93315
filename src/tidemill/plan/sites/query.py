"""A join of inputs with a placement: which site owns which input, and where the answer is wanted."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.errors import PlanProblem
from tidemill.plan.cached import cached_property
from tidemill.plan.sources import Column


@dataclass(frozen=True)
class SiteInput:
    """One item of FROM, and what decides how it may be shipped.

    `columns` are all that the query reads of it, join columns included. `stamp` is the column from which TS follows:
    the event-time column, or TS itself. `window` is the text behind the name. A `row_local` window decides about each
    row by its stamp and the time alone, so it commutes with leaving rows out; [ROWS n], SYNC, and whatever a view
    does, do not. `retention_us`: so long after its stamp a row counts no more; or, in a band join of streams without
    windows and SYNC, whose rows are there from their stamps on, finds no new partner. `filter` are conditions on this
    input alone, qualified by its alias.
    """

    alias: str
    stream: str
    site: str
    columns: tuple[Column, ...]
    stamp: str | None = None
    window: str = ""
    row_local: bool = True
    append_only: bool = True
    retention_us: int | None = None
    filter: str = ""
    stamp_as: str = ""  # the name under which TS is shipped; "": the receiver takes it from `stamp`

    def type_of(self, column: str) -> str:
        """DuckDB type of a column."""
        found = next((c.type for c in self.columns if c.name == column), None)
        if found is None:
            raise PlanProblem(
                "TM240",
                f'input "{self.alias}" has no column "{column}"',
                hint=f"it has {', '.join(c.name for c in self.columns)}",
            )
        return found


@dataclass(frozen=True)
class Equality:
    """Columns of two inputs that are equal in joined rows; `reduces` names the inputs of which rows without a partner
    cannot change the answer: both in an inner join, the optional side of an outer join, none in a full join.
    """

    left: str
    left_columns: tuple[str, ...]
    right: str
    right_columns: tuple[str, ...]
    reduces: frozenset[str]

    def __post_init__(self) -> None:
        assert len(self.left_columns) == len(self.right_columns) > 0, "an equality compares columns in pairs"
        assert self.reduces <= {self.left, self.right}, "an equality reduces its own inputs"

    @classmethod
    def inner(cls, left: str, left_columns: tuple[str, ...], right: str, right_columns: tuple[str, ...]) -> Equality:
        """The equality of an inner join: rows of either side without a partner are not needed."""
        return cls(left, left_columns, right, right_columns, frozenset({left, right}))

    def other(self, alias: str) -> str:
        """The input on the other side."""
        return self.right if alias == self.left else self.left

    def columns_of(self, alias: str) -> tuple[str, ...]:
        """The columns of one of the two inputs."""
        return self.left_columns if alias == self.left else self.right_columns


@dataclass(frozen=True)
class SiteQuery:
    """A join over sites. `site` is where the answer is wanted; `text` is the query with ⟨alias⟩ for each item."""

    inputs: tuple[SiteInput, ...]
    equalities: tuple[Equality, ...]
    site: str
    text: str = ""

    def __post_init__(self) -> None:
        assert len({i.alias for i in self.inputs}) == len(self.inputs), "aliases differ"
        for equality in self.equalities:
            for alias in (equality.left, equality.right):
                for column in equality.columns_of(alias):
                    self.input(alias).type_of(column)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """All sites, the querying one first."""
        return tuple(dict.fromkeys((self.site, *(i.site for i in self.inputs))))

    def input(self, alias: str) -> SiteInput:
        """The input of an alias."""
        found = next((i for i in self.inputs if i.alias == alias), None)
        if found is None:
            listed = ", ".join(i.alias for i in self.inputs)
            raise PlanProblem("TM241", f'no input "{alias}" in this join', hint=f"it has {listed}")
        return found

    def reducers(self, alias: str) -> list[Equality]:
        """Equalities through which rows of an input may be left out."""
        return [e for e in self.equalities if alias in e.reduces]
