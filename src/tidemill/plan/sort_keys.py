"""Orders of rows: what a user sorts by, and the total order that is made of it.

An order may leave rows equal. What depends on their order all the same (ROW_NUMBER, LIMIT, LAG) would then depend on
how rows arrive. So every order is completed by the other columns of the relation, from left to right, ascending, NULLs
last. Rows that still are equal agree in all columns, and which of them comes first makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.plan.scalars import quoted


@dataclass(frozen=True)
class SortKey:
    """One column of an order."""

    column: str
    descending: bool = False
    nulls_first: bool = False

    @property
    def sql(self) -> str:
        """As DuckDB writes it, with nothing left to its settings.

        >>> SortKey("a", descending=True).sql
        '"a" DESC NULLS LAST'
        """
        return f"{quoted(self.column)} {'DESC' if self.descending else 'ASC'} NULLS {_place(self.nulls_first)}"

    @property
    def text(self) -> str:
        """For people: what is usual is left out.

        >>> SortKey("a").text, SortKey("b", True, True).text
        ('a', 'b desc nulls first')
        """
        return self.column + (" desc" if self.descending else "") + (" nulls first" if self.nulls_first else "")


def complete_order(
    order: tuple[SortKey, ...], names: Iterable[str], partition: tuple[str, ...] = ()
) -> tuple[SortKey, ...]:
    """A total order of the rows of a partition: the given one, then all other columns.

    >>> [k.text for k in complete_order((SortKey("b", True),), ("a", "b", "c"), ("c",))]
    ['b desc', 'a']
    """
    known = {key.column for key in order} | set(partition)
    return (*order, *(SortKey(name) for name in names if name not in known))


def order_sql(order: Iterable[SortKey]) -> str:
    """The list behind ORDER BY."""
    return ", ".join(key.sql for key in order)


def _place(first: bool) -> str:
    return "FIRST" if first else "LAST"
