"""COUNT(DISTINCT): how the number of different values of each group changes.

State: the multiplicity of every value of a group. A value is counted from when its multiplicity becomes positive until
it falls to zero. Only values that the batch touches are looked up, and only those whose multiplicity has changed after
the batch are written. Values come one by one or in lists, each list with one multiplicity for all of its values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.value_codes import distinct, number, number_column, number_rows, one_array
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.state.arrangements import Arrangement, Layout

COUNT = Column("__n", "BIGINT")


@dataclass(frozen=True)
class Cells:
    """The different (group, value) pairs of a batch: list s has the cells number[start[s]:start[s + 1]], -1 is NULL."""

    start: np.ndarray
    number: np.ndarray
    rows: pa.Table  # keys and value of each cell


class DistinctValues:
    """The values of one column of this type, with `sets` of lists of them; `columns` are the keys of the groups and
    `__v`.
    """

    def __init__(self, keys: tuple[Column, ...], type_name: str, sets: bool) -> None:
        self.keys, self.sets = [c.name for c in keys], sets
        self.columns = (*keys, Column("__v", type_name.removesuffix("[]") if sets else type_name))
        self.layout = Layout("__h", self.columns, ((COUNT, "sum"),), "__n")

    def count_changes(
        self, closed: pa.Table, group: np.ndarray, rank: np.ndarray, state: Arrangement
    ) -> tuple[np.ndarray, pa.Table | None]:
        """(turns, what is to be added to the state): for each row the change of the number of values of its group, if
        rows come in the order of time ranks; to be added up for each group and time.
        """
        # Imported on first use: most plans never need numba, and loading it costs a second.
        from tidemill.runtime.kernels.grouping.distinct import turn_values
        from tidemill.runtime.kernels.joins.delta_join_rows import order_rows

        rows = closed.num_rows
        if not rows:
            return np.empty(0, np.int64), None
        groups, ranks = int(group.max()) + 1, int(rank.max()) + 1
        # A list that is inserted is often deleted in the same batch: it is unnested once.
        values, width = number_column(closed.column("__v"))
        lists, first = number(group * width + values)
        cells = self._number_cells(closed, first, group[first])
        before = self._stored_counts(cells, state)
        count, turn = before.copy(), np.empty(rows, np.int64)
        order = order_rows(group, rank, groups, ranks, np.empty(groups + 1, np.int64))
        n = closed.column("__n").to_numpy().astype(np.int64)
        turn_values(order, cells.start, cells.number, lists, n, count, turn)
        return turn, self._delta(cells, count - before)

    def _number_cells(self, closed: pa.Table, first: np.ndarray, group: np.ndarray) -> Cells:
        column = one_array(closed.column("__v").take(pa.array(first)))
        if self.sets:
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            values = column.flatten()
        else:
            lengths, values = np.ones(len(first), np.int64), column
        start = np.append(0, np.cumsum(lengths))
        codes, width = number_column(values)
        known = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        of_group = np.repeat(group, lengths)
        found = np.full(len(values), -1, np.int64)
        found[known], at = number(of_group[known] * width + codes[known])
        at = known[at]
        row = np.repeat(first, lengths)[at]
        columns = {k: closed.column(k).take(pa.array(row)) for k in self.keys}
        return Cells(start, found, pa.table(columns | {"__v": values.take(pa.array(at))}))

    def _stored_counts(self, cells: Cells, state: Arrangement) -> np.ndarray:
        """The stored multiplicity of each cell."""
        count = np.zeros(cells.rows.num_rows, np.int64)
        if not state.segments or not len(count):
            return count
        base = state.probe(distinct(self._hashes(cells.rows)))
        if base.num_rows:
            names = [c.name for c in self.columns]
            held = _match_rows(cells.rows.select(names), base.select(names))
            known = held < len(count)
            np.add.at(count, held[known], base.column("__n").to_numpy()[known])
        return count

    def _delta(self, cells: Cells, change: np.ndarray) -> pa.Table | None:
        moved = np.flatnonzero(change)
        if not len(moved):
            return None
        rows = cells.rows.take(pa.array(moved))
        hashes = pa.array(self._hashes(rows))
        return rows.append_column("__n", pa.array(change[moved])).append_column("__h", hashes)

    def _hashes(self, rows: pa.Table) -> np.ndarray:
        sql = f"SELECT {hash_sql([*self.keys, '__v'])} AS __h FROM {duck.source('rows', self.columns)}"
        return duck.run(sql, rows=rows).column("__h").to_numpy()


def _match_rows(held: pa.Table, sought: pa.Table) -> np.ndarray:
    """For each sought row the equal row of `held`, whose rows all differ; a number behind them where there is none."""
    both = pa.concat_tables([held, sought.cast(held.schema)])
    return number_rows([both.column(c) for c in both.column_names], both.num_rows)[0][held.num_rows :]
