"""The low level of shared aggregation (paper 002): pushes rows of one source through a configuration of hash tables.

An `Lfta` lives for one reader's share of a micro-batch. For each chunk of rows it evaluates every distinct predicate
once (the row's *pattern*), finds the fragment of each row, codes the group attributes, and pushes all through the
tables (`branch`). What leaves evict goes to the exchange, as rows of (group, fragment start in `__time`, signature
words, parts), made in `evictions`. Tables are flushed at the end of the share, or earlier where codes change their
meaning; flushing at any time is correct.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidemill.plan.measured.windows import ReaderCounts, TableCounts
from tidemill.plan.physical import HashTables
from tidemill.runtime.share.part_values import PartValues, lift_parts
from tidemill.runtime.share.reader.attribute_codes import AttributeCodes
from tidemill.runtime.share.reader.branch import Branch, OnRowError, Parts
from tidemill.runtime.share.reader.division import divide
from tidemill.runtime.share.reader.expressions import Expressions
from tidemill.runtime.share.sketches import Sketches
from tidemill.runtime.thresholds import sizes


class Lfta:
    """The tables of one source, from the parameters of an "lfta" operator."""

    def __init__(self, op: HashTables, on_row_error: OnRowError | None = None) -> None:
        self.op, self.on_row_error = op, on_row_error
        self.parts = op.parts
        self.expressions = Expressions(op, on_row_error)
        self.active: tuple[str, ...] = ()
        self.apart = False  # a value was missing: counts of rows and of values may differ
        self.same: dict[str, str] = {}  # a part that is not in the tables → one with the same values
        self.coders: list[AttributeCodes] = []
        self.branches: list[Branch] = []  # none before the first rows
        self.given_up = False  # running totals were abandoned in this share
        self.totals = np.zeros((len(op.relations), 4), np.int64)
        self.rows = self.flushes = 0
        self.span: tuple[int, int] | None = None
        self.sketches = Sketches(op.candidates)
        self.unfailing = not op.accumulators and _cannot_fail(op)

    # ---- in ------------------------------------------------------------------------------------

    def push(
        self, rows: pa.Table, times: np.ndarray, numbers: np.ndarray | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Add a chunk; yield (leaf operator, rows) that leave.

        Fragments are cut by `numbers` where windows count rows, else by event times.
        """
        if not len(times):
            return
        self._count_rows(times)
        found = self.expressions.evaluate(rows, times)
        values = self._values(found.arguments)
        if self._needs_new_tables(values, found.attributes):
            yield from self._begin(values)
        attributes = [coder.encode(column) for coder, column in zip(self.coders, found.attributes, strict=True)]
        self.sketches.add(attributes)
        for piece in self._pieces(len(times)):
            part = found if piece == slice(None) else found.piece(piece)
            for branch in self.branches:
                yield from branch.push(
                    branch.chunk(
                        rows[piece],
                        (times if numbers is None else numbers)[piece],
                        [a[piece] for a in attributes],
                        part,
                        {name: None if v is None else v[piece] for name, v in values.items()},
                    )
                )
        if any(branch.full or len(branch.now.fragments) > sizes.fragments for branch in self.branches):
            yield from self._begin(values)

    def _pieces(self, count: int) -> list[slice]:
        """Blocks of rows: the truth of all predicates, a byte each, must fit into the budget if there is one."""
        budget = self.op.budget
        if budget is None or not self.op.predicates:
            return [slice(None)]
        step = max(sizes.predicate_rows, max(budget, sizes.beside_bytes_least) // len(self.op.predicates))
        return [slice(low, low + step) for low in range(0, count, step)] if step < count else [slice(None)]

    def _needs_new_tables(self, values: PartValues, attributes: Sequence[pa.ChunkedArray]) -> bool:
        """True when the rows need codes or parts that the tables do not have."""
        if not self.branches:
            return True
        self.apart = self.apart or any(values.get(n, 0) is not None for pair in self.same.items() for n in pair)
        return (
            not set(values) <= set(self.active)
            or bool(self.apart and self.same)
            or any(coder.changes(column) for coder, column in zip(self.coders, attributes, strict=True))
        )

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        """The end-of-epoch update of the reader's share."""
        for branch in self.branches:
            yield from branch.finish()
            self._count(branch)
        self.flushes += bool(self.branches)
        self.branches = []

    def _values(self, arguments: dict[str, pa.ChunkedArray]) -> PartValues:
        values: PartValues = {}
        for name in dict.fromkeys(p.argument for p in self.parts):
            wanted = tuple(p for p in self.parts if p.argument == name)
            values |= lift_parts(wanted, None if name is None else arguments[name])
        return values

    def _begin(self, values: PartValues) -> Iterator[tuple[str, pa.Table]]:
        """New tables: after a flush, codes, fragments and parts may change their meaning."""
        yield from self.finish()
        needed = {*self.active, *values}
        self.active = tuple(p.name for p in self.parts if p.name in needed)
        ones = [p.name for p in self.parts if values.get(p.name, 0) is None]
        self.same = {} if self.apart else {name: ones[0] for name in ones[1:]}
        ints = tuple(p for p in self.parts if p.name in needed and p.type != "DOUBLE" and p.name not in self.same)
        floats = tuple(p for p in self.parts if p.name in needed and p.type == "DOUBLE")
        parts = Parts(ints, floats, self.same, tuple(p.name for p in self.parts), next(iter(ones), None))
        self.coders = [AttributeCodes() for _ in self.op.attributes]
        limit = self.op.budget
        shares = divide(self.op, frozenset(p.name for p in floats))
        budget = None if limit is None else limit // len(shares)
        self.branches = [
            Branch(self.op, share, parts, self.coders, not self.given_up, self.on_row_error, budget, len(shares))
            for share in shares
        ]
        if len(shares) == 1 and not self.flushes:  # a share sees only some predicates: its patterns would be incomplete
            self.branches[0].watch = self.sketches.add_patterns

    # ---- statistics ----------------------------------------------------------------------------

    def _count(self, branch: Branch) -> None:
        """Add the counters of a branch's tables. A row counts once for a relation of which several branches have a
        table.
        """
        self.given_up = self.given_up or branch.given_up
        counted = branch.totals
        if branch is not self.branches[0] and branch.numbers[0] == self.branches[0].numbers[0]:
            counted = counted[1:]
        self.totals[branch.numbers[len(branch.numbers) - len(counted) :]] += counted

    def _count_rows(self, times: np.ndarray) -> None:
        low, high = int(times.min()), int(times.max())
        self.span = (low, high) if self.span is None else (min(low, self.span[0]), max(high, self.span[1]))
        self.rows += len(times)

    def counts(self) -> ReaderCounts:
        """Statistics for a tick."""
        first, last = self.span or (0, 0)
        tables, seen = tuple(TableCounts(*row) for row in self.totals.tolist()), self.sketches
        return ReaderCounts(
            self.rows, first, last, self.flushes, tables, seen.block, seen.early, seen.pairs, seen.tables, seen.patterns
        )


def _cannot_fail(op: HashTables) -> bool:
    """True when there is no row on which an expression fails: columns as they are, and comparisons of integers."""
    return all(predicate.program is not None for predicate in op.predicates) and all(
        expression.column is not None for expression in (*op.attributes, *op.arguments)
    )
