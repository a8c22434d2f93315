"""Whole answers at each synchronization point, in arrays: rows are numbered, and their runs found.

A run is a row with the points from one of its changes to the next, and how often it is there. O(changes · log changes),
and the rows of the answers.

The fast path `numbered_answers`: gives exactly the rows that the statement in `rstream.py` gives; where a column cannot
be numbered, the statement is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.runtime.dataflow.value_codes import number_rows
from tidemill.runtime.duckdb import duck


@dataclass
class Runs:
    """Row `row` is there m times from point `begin` to before point `end`."""

    row: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    m: np.ndarray


def find_runs(row: np.ndarray, rows: int, place: np.ndarray, points: int, m: np.ndarray) -> Runs:
    """The runs of changes by m[i] of row row[i] at point place[i], by row and point; the last ones end at `points`.

    >>> found = find_runs(np.array([0, 0, 1]), 2, np.array([0, 2, 1]), 3, np.array([1, -1, 4]))
    >>> [x.tolist() for x in (found.row, found.begin, found.end, found.m)]
    [[0, 0, 1], [0, 2, 1], [2, 3, 3], [1, 0, 4]]
    """
    from tidemill.runtime.kernels.joins.delta_join_rows import order_rows, run_versions

    m, none = m.copy(), np.empty((len(m), 0), np.int64)
    order = order_rows(row, place, rows, points, np.empty(rows + 1, np.int64))
    kept = np.empty(len(m), np.bool_)
    run_versions(order, row, place, m, none, np.empty((len(m), 0)), none, kept, np.empty_like(m))
    order = order[kept[order]]
    row, begin = row[order], place[order]
    end = np.full(len(order), points, np.int64)
    end[:-1] = np.where(row[1:] == row[:-1], begin[1:], points)
    return Runs(row, begin, end, m[order])


@dataclass
class NumberedAnswers:
    """The answers of a relation with these columns; `stamp` is SQL that makes `TS` of `__time`."""

    names: Sequence[str]
    stamp: str

    def answers(self, base: pa.Table, changes: pa.Table, points: np.ndarray) -> tuple[pa.Table, pa.Table]:
        """(the rows of the answer at every point, how the relation has changed after the last one)."""
        rows = changes.select(self.names)
        rows = pa.concat_tables([base.select(self.names).cast(rows.schema), rows])
        row, first = number_rows([rows.column(n) for n in self.names], rows.num_rows)
        place = np.searchsorted(points, changes.column("__time").to_numpy(), side="left")
        place = np.concatenate([np.zeros(base.num_rows, np.int64), place])
        held = base.column("__n").to_numpy().astype(np.int64)
        m = np.concatenate([held, changes.column("__diff").to_numpy().astype(np.int64)])
        runs = find_runs(row, len(first), place, len(points), m)
        return self._expand(runs, rows, first, points), _net_changes(runs, rows, first, row[: base.num_rows], held)

    def _expand(self, runs: Runs, rows: pa.Table, first: np.ndarray, points: np.ndarray) -> pa.Table:
        lengths = np.where(runs.m > 0, runs.end - runs.begin, 0)
        run = np.repeat(np.arange(len(lengths)), lengths)
        point = np.arange(len(run)) - (np.cumsum(lengths) - lengths)[run] + runs.begin[run]
        moments = pa.table({"__time": points})
        stamps = duck.run(f"SELECT {self.stamp} AS x FROM moments", moments=moments).column("x")
        which = pa.array(first[runs.row[run]])
        columns = {"TS": stamps.take(pa.array(point))} | {n: rows.column(n).take(which) for n in self.names}
        return pa.table(columns | {"__time": pa.array(points[point]), "__diff": pa.array(runs.m[run])})


def _net_changes(runs: Runs, rows: pa.Table, first: np.ndarray, held_row: np.ndarray, held: np.ndarray) -> pa.Table:
    last = np.append(runs.row[1:] != runs.row[:-1], True) if len(runs.row) else np.empty(0, np.bool_)
    diff = np.zeros(len(first), np.int64)
    diff[runs.row[last]] = runs.m[last]
    np.subtract.at(diff, held_row, held)
    moved = np.flatnonzero(diff)
    return rows.take(pa.array(first[moved])).append_column("__diff", pa.array(diff[moved]))
