"""The low level of shared aggregation (paper 002): rows of one source through a configuration of hash tables.

An `Lfta` lives for one reader's share of a micro-batch. For each chunk of rows it evaluates every distinct predicate
once (the row's *pattern*), finds the fragment of each row, codes the group attributes, and pushes all through the
tables (`branch`). What leaves evict goes to the exchange, as rows of (group, fragment start in `__time`, signature
words, parts), made in `evictions`. Tables are flushed at the end of the share, or earlier where codes change their
meaning; flushing is always right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.fragments import FragmentPart
from tidemill.plan.physical import Op
from tidemill.plan.relations import quoted
from tidemill.plan.scalars import columns_of
from tidemill.runtime.branch import Branch, Complain, Parts
from tidemill.runtime.coding import Coder
from tidemill.runtime.division import divide
from tidemill.runtime.expressions import Expressions
from tidemill.runtime.lifting import Lifted, lifted
from tidemill.runtime.sketches import Sketches
from tidemill.runtime.thresholds import sizes


class Lfta:
    """The tables of one source, from the parameters of an "lfta" operator."""

    def __init__(self, op: Op, complain: Complain | None = None) -> None:
        self.op, self.params, self.complain = op, op.params, complain
        self.parts = tuple(FragmentPart(**p) for p in self.params["parts"])
        self.expressions = Expressions(op, complain)
        self.active: tuple[str, ...] = ()
        self.apart = False  # a value was missing: what counts rows and what counts values may differ
        self.same: dict[str, str] = {}  # parts that are not in tables, by another one that has the same values
        self.coders: list[Coder] = []
        self.branches: list[Branch] = []  # none before the first rows
        self.given_up = False  # running totals did not pay in this share
        self.totals = np.zeros((len(self.params["relations"]), 4), np.int64)
        self.rows = self.flushes = 0
        self.span: tuple[int, int] | None = None
        self.sketches = Sketches(self.params["candidates"])
        self.unfailing = not self.params.get("objects") and _unfailing(self.params)

    # ---- in ------------------------------------------------------------------------------------

    def push(self, rows: pa.Table, times: np.ndarray,
             numbers: np.ndarray | None = None) -> Iterator[tuple[str, pa.Table]]:
        """Take a chunk in; (leaf operator, rows) of what had to leave.

        Fragments are by `numbers` where windows count rows, else by the event times.
        """
        if not len(times):
            return
        self._seen(times)
        found = self.expressions.evaluate(rows, times)
        values = self._values(found.arguments)
        if self._means_something_else(values, found.attributes):
            yield from self._begin(values)
        attributes = [coder.encode(column) for coder, column in zip(self.coders, found.attributes, strict=True)]
        self.sketches.add(attributes)
        for piece in self._pieces(len(times)):
            part = found if piece == slice(None) else found.piece(piece)
            for branch in self.branches:
                yield from branch.push(branch.chunk(
                    rows[piece], (times if numbers is None else numbers)[piece], [a[piece] for a in attributes], part,
                    {name: None if v is None else v[piece] for name, v in values.items()}))
        if any(branch.full or len(branch.now.fragments) > sizes.fragments for branch in self.branches):
            yield from self._begin(values)

    def _pieces(self, count: int) -> list[slice]:
        """Rows that go on together. Each has a byte for each predicate, which is within the budget if there is one."""
        budget = self.params.get("budget")
        if budget is None or not self.params["predicates"]:
            return [slice(None)]
        step = max(sizes.predicate_rows, max(budget, sizes.beside_bytes_least) // len(self.params["predicates"]))
        return [slice(low, low + step) for low in range(0, count, step)] if step < count else [slice(None)]

    def _means_something_else(self, values: Lifted, attributes: Sequence[pa.ChunkedArray]) -> bool:
        """Whether rows need codes or parts that the tables do not have."""
        if not self.branches:
            return True
        self.apart = self.apart or any(values.get(n, 0) is not None for pair in self.same.items() for n in pair)
        return not set(values) <= set(self.active) or bool(self.apart and self.same) or any(
            coder.changes(column) for coder, column in zip(self.coders, attributes, strict=True))

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        """The end-of-epoch update of the reader's share."""
        for branch in self.branches:
            yield from branch.finish()
            self._count(branch)
        self.flushes += bool(self.branches)
        self.branches = []

    def _values(self, arguments: dict[str, pa.ChunkedArray]) -> Lifted:
        values: Lifted = {}
        for name in dict.fromkeys(p.argument for p in self.parts):
            wanted = tuple(p for p in self.parts if p.argument == name)
            values |= lifted(wanted, None if name is None else arguments[name])
        return values

    def _begin(self, values: Lifted) -> Iterator[tuple[str, pa.Table]]:
        """New tables: after a flush, codes, fragments and parts may change their meaning."""
        yield from self.finish()
        needed = {*self.active, *values}
        self.active = tuple(p.name for p in self.parts if p.name in needed)
        ones = [p.name for p in self.parts if values.get(p.name, 0) is None]
        self.same = {} if self.apart else {name: ones[0] for name in ones[1:]}
        ints = tuple(p for p in self.parts if p.name in needed and p.type != "DOUBLE" and p.name not in self.same)
        floats = tuple(p for p in self.parts if p.name in needed and p.type == "DOUBLE")
        parts = Parts(ints, floats, self.same, tuple(p.name for p in self.parts), next(iter(ones), None))
        self.coders = [Coder() for _ in self.params["attributes"]]
        limit = self.params.get("budget")
        shares = divide(self.params, frozenset(p.name for p in floats))
        budget = None if limit is None else limit // len(shares)
        self.branches = [
            Branch(self.op, share, parts, self.coders, not self.given_up, self.complain, budget, len(shares))
            for share in shares]
        if len(shares) == 1 and not self.flushes:  # patterns of some of the predicates tell nothing of the others
            self.branches[0].watch = self.sketches.add_patterns

    # ---- statistics ----------------------------------------------------------------------------

    def _count(self, branch: Branch) -> None:
        """Add up what happened in the tables of a branch. A row counts once for a relation of which several branches
        have a table.
        """
        self.given_up = self.given_up or branch.given_up
        counted = branch.totals
        if branch is not self.branches[0] and branch.numbers[0] == self.branches[0].numbers[0]:
            counted = counted[1:]
        self.totals[branch.numbers[len(branch.numbers) - len(counted):]] += counted

    def _seen(self, times: np.ndarray) -> None:
        low, high = int(times.min()), int(times.max())
        self.span = (low, high) if self.span is None else (min(low, self.span[0]), max(high, self.span[1]))
        self.rows += len(times)

    def note(self) -> dict[str, Any]:
        """What happened in the tables, for the statistics: for each relation probes, collisions, turnovers, flushed
        entries.
        """
        first, last = self.span or (0, 0)
        return {"rows": self.rows, "first": first, "last": last, "relations": self.totals.tolist(),
                "flushes": self.flushes, **self.sketches.note()}


def _unfailing(params: dict[str, Any]) -> bool:
    """True when there is no row on which an expression fails: columns as they are, and comparisons of integers."""
    named = [e["sql"] for e in (*params["attributes"], *params["arguments"])]
    return all(p["program"] is not None for p in params["predicates"]) and all(
        sql in map(quoted, columns_of(sql)) for sql in named)
