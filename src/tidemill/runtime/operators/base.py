"""What every stateful operator is: change batches in, change batches out, exact for any cut.

A change batch is an Arrow table of the operator's columns plus `__time` and `__diff`. Its frontier is a
promise: no change before it will come any more. Times before the frontier are closed; an operator that
needs order processes closed changes only and keeps the others on its agenda.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import Op
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.state import Arrangement, Layout, Shelf

TIME = Column("__time", "BIGINT")
DIFF = Column("__diff", "BIGINT")
HASH = Column("__h", "UBIGINT")


@dataclass
class Batch:
    """Changes (None when there are none) and the frontier behind which no more will come.

    An operator with many outputs leaves them in `picks`, by name.
    """

    rows: pa.Table | None
    frontier: int
    picks: dict[str, pa.Table] | None = None

    @property
    def empty(self) -> bool:
        return self.rows is None or self.rows.num_rows == 0


class Operator:
    """One stateful operator of one shard; the object lives for a batch, its state on the shelf."""

    def __init__(self, op: Op, first: bool = True) -> None:
        self.op = op
        self.first = first  # the shard to which keyless rows belong
        self.id = op.id
        self.schema = op.schema
        self.params: dict[str, Any] = op.params
        self.complain: Callable[[Op, pa.Table, str], None] | None = None  # rows on which an expression fails go there
        self.shard = (0, 1)  # which one of how many
        self.note: dict[str, Any] | None = None  # what it counted in this batch, for the optimizer

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        """Take one micro-batch of input changes to output changes."""
        raise NotImplementedError

    def arrangement(self, shelf: Shelf, name: str, layout: Layout) -> Arrangement:
        """This operator's arrangement `name`."""
        return shelf.arrangement(self.id, name, layout)


def change_agenda(columns: tuple[Column, ...]) -> Layout:
    """Layout of changes that wait for their time; equal changes add up, opposite ones cancel."""
    return Layout("__time", columns, ((DIFF, "sum"),))


def contents_layout(columns: tuple[Column, ...]) -> Layout:
    """Layout of a relation's current rows with their multiplicity `__n`."""
    return Layout("__h", columns, ((Column("__n", "BIGINT"), "sum"),), "__n")


def take_closed(agenda: Arrangement, rows: pa.Table | None, frontier: int) -> pa.Table:
    """Closed changes, old and new; the rest waits on the agenda."""
    ready = agenda.pop(frontier)
    if rows is None or rows.num_rows == 0:
        return ready
    if ready.num_rows == 0 and pc.max(rows.column("__time")).as_py() < frontier:
        return rows.select([c.name for c in agenda.layout.columns()])
    mask = pc.less(rows.column("__time"), frontier)
    fresh = rows.filter(mask)
    agenda.append(rows.filter(pc.invert(mask)))
    agenda.compact()
    names = [c.name for c in agenda.layout.columns()]
    if fresh.num_rows == 0:
        return ready
    fresh = fresh.select(names)
    return pa.concat_tables([ready.cast(fresh.schema), fresh]) if ready.num_rows else fresh


def net(rows: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """The changes of each row and time added up; what cancels is gone."""
    group = ", ".join([*(quoted(c.name) for c in columns), "__time"])
    return duck.run(
        f"SELECT {group}, CAST(sum(__diff) AS BIGINT) AS __diff"
        f" FROM {duck.source('rows', columns, '__time', '__diff')} GROUP BY {group} HAVING sum(__diff) <> 0",
        rows=rows,
    )


def hashes_of(table: pa.Table) -> np.ndarray:
    """The distinct `__h` values, sorted, as `Arrangement.probe` wants them."""
    return np.unique(table.column("__h").to_numpy())


def hash_sql(names: tuple[str, ...] | list[str]) -> str:
    """SQL for the hash by which rows are arranged and sharded; keyless rows share one hash."""
    return f"hash({', '.join(quoted(n) for n in names)})" if names else "CAST(0 AS UBIGINT)"


def key_hashes(rows: pa.Table, schema: Iterable[Column], keys: Iterable[str]) -> np.ndarray:
    """For each row the hash of its key, modulo the number of shards the one that is its home."""
    keys = list(keys)
    wanted = [c for c in schema if c.name in keys] or [Column(k, "") for k in keys]
    sql = f"SELECT {hash_sql(keys)} AS h FROM {duck.source('rows', wanted)}"
    return duck.run(sql, rows=rows.select(keys)).column("h").to_numpy()


def name_list(names: tuple[str, ...] | list[str]) -> str:
    """Quoted names, comma separated."""
    return ", ".join(quoted(n) for n in names)


def same_row(names: tuple[str, ...] | list[str], left: str, right: str) -> str:
    """SQL: the two rows agree on all columns, NULL equal to NULL."""
    tests = [f"{left}.{quoted(n)} IS NOT DISTINCT FROM {right}.{quoted(n)}" for n in names]
    return " AND ".join(tests) if tests else "TRUE"


def hashed(rows: pa.Table, columns: tuple[Column, ...], keys: tuple[str, ...] | list[str], *hidden: str) -> pa.Table:
    """The rows with `__h` over `keys` in front."""
    inner = duck.source("rows", columns, *hidden)
    return duck.run(f"SELECT {hash_sql(keys)} AS __h, * FROM {inner}", rows=rows)
