"""The rows of a fragment store: (start, group, signature, parts), sorted by start; equal ones are combined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.runtime.kernels.sliding_rows import codes_of, combine
from tidemill.runtime.operators.objects import group_numbers
from tidemill.runtime.state import Arrangement

_KINDS = {"sum": 0, "min": 1, "max": 2}


class Fragments(Arrangement):
    """An arrangement by time whose rows combine in kernels: millions of rows in a batch are nothing special here.

    Every store counts rows, so no row of it has sums of zero only.
    """

    def least(self) -> int | None:
        """The least start of all."""
        starts = [self.shelf.read(s).column("__time")[s.start].as_py() for s in self.segments]
        return min(starts, default=None)

    def _combine(self, tables: list[pa.Table], everything: bool) -> pa.Table:
        table = self._concat(tables)
        if table.schema.types != self.empty().schema.types:
            return super()._combine([table], everything)  # DuckDB knows how to turn one into the other
        parts = [(c, _KINDS[how]) for c, how in self.layout.adds]
        ints = [(c.name, kind) for c, kind in parts if c.type != "DOUBLE"]
        floats = [(c.name, kind) for c, kind in parts if c.type == "DOUBLE"]
        starts = table.column("__time").to_numpy()
        # Rows in the order of their starts, then those of one start next to each other: `combine` keeps the order.
        order = np.argsort(starts, kind="stable") if (starts[1:] < starts[:-1]).any() else None
        table = table if order is None else table.take(pa.array(order))
        identity = [group_numbers(table.column(c.name)) for c in self.layout.keys]
        found = combine(
            [table.column("__time").to_numpy(), *identity],
            [table.column(n).to_numpy() for n, _ in ints], [kind for _, kind in ints],
            [table.column(n).to_numpy() for n, _ in floats], [kind for _, kind in floats],
        )
        names = [name for name, _ in (*ints, *floats)]
        values = dict(zip(names, (*found.ints, *found.floats), strict=True))
        rest = table.select([n for n in table.column_names if n not in values]).take(pa.array(found.first))
        for column, _ in self.layout.adds:
            rest = rest.append_column(column.name, pa.array(values[column.name]))
        return rest.combine_chunks()


@dataclass(frozen=True)
class Signatures:
    """Different signatures: for each word one array."""

    words: dict[int, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.words.values())))

    def has(self, bit: int) -> np.ndarray:
        """Which of them have this bit."""
        return (self.words[bit // 64] >> np.int64(bit % 64) & 1).astype(bool)


def signatures_of(rows: pa.Table) -> tuple[np.ndarray, Signatures]:
    """The number of each row's signature, and the signatures.

    >>> codes, found = signatures_of(pa.table({"__s0": [3, 1, 3]}))
    >>> codes.tolist(), found.has(1).tolist()
    ([0, 1, 0], [True, False])
    """
    words = {int(n[3:]): rows.column(n).to_numpy() for n in rows.column_names if n.startswith("__s")}
    codes, first = codes_of(list(words.values()))
    return codes, Signatures({w: column[first] for w, column in words.items()})


def least_starts(starts: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """The least start of each code.

    >>> least_starts(np.array([5, 3, 4]), np.array([0, 1, 0]), 2).tolist()
    [4, 3]
    """
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, codes, starts)
    return least
