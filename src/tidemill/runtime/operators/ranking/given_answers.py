"""The answers that window functions have given, for functions whose last digits are not the same every time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.runtime.dataflow.value_codes import number_rows
from tidemill.runtime.operators.ranking.partitions import Partitions
from tidemill.runtime.state.arrangements import Arrangement


class GivenAnswers:
    """Rows with their results, as they left; `partitions` has both columns, `results` the names of the latter."""

    def __init__(self, partitions: Partitions, results: list[str], kept: Arrangement) -> None:
        self._partitions, self._results, self._kept = partitions, results, kept
        self._rows = [name for name in partitions.names if name not in results]

    def add(self, changes: pa.Table) -> None:
        """Rows with their results came and went, `__diff` times."""
        self._partitions.keep(changes, changes.column("__diff").to_numpy(), self._kept)

    def put_in_place(self, answers: pa.Table, places: np.ndarray, rows: pa.Table) -> pa.Table:
        """The answers, at these places those that were given for these rows. Equal rows have theirs in any order.

        Rows of which nothing was noted, those of an older version, keep their answers.
        """
        held, counts = self._find(rows)
        both = pa.concat_tables([rows, held.select(self._rows).cast(rows.schema)])
        ids, _ = number_rows(list(both.columns), both.num_rows)
        own, others = ids[: rows.num_rows], ids[rows.num_rows :]
        copies = np.where(np.isin(others, own), counts, 0)
        others, source = np.repeat(others, copies), np.repeat(np.arange(len(copies)), copies)
        mine, theirs = np.argsort(own, kind="stable"), np.argsort(others, kind="stable")
        if len(mine) != len(theirs) or (own[mine] != others[theirs]).any():
            return answers
        taken = np.arange(answers.num_rows)
        taken[places[mine]] = answers.num_rows + source[theirs]
        found = pa.concat_tables([answers, held.select(self._results).cast(answers.schema)])
        return found.take(pa.array(taken))

    def _find(self, rows: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """What was given in the partitions of these rows and not taken back, and how often."""
        held = self._partitions.probe(rows, self._kept)
        ids, first = number_rows(list(held.select(self._partitions.names).columns), held.num_rows)
        counts = np.zeros(len(first), np.int64)
        np.add.at(counts, ids, held.column("__n").to_numpy())
        left = np.flatnonzero(counts > 0)
        return held.take(pa.array(first[left])), counts[left]
