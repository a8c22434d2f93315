"""The meaning of inputs and joins, moment by moment, in a few lines of Python: what one site would answer.

A relation is a function from a moment to a Counter of rows; a row is (values…, stamp). Nothing is incremental.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]  # (k, v, stamp)
Relation = Callable[[int], "Counter[Row]"]
K, V, TS = 0, 1, 2


@dataclass(frozen=True)
class Window:
    """What stands behind a stream: kind is '', 'window', 'range', 'rows' or 'until'; `sync` a period or 0."""

    kind: str = ""
    size: int = 0
    slide: int = 0
    sync: int = 0

    @property
    def text(self) -> str:
        spelled = {
            "": "",
            "window": f"[WINDOW {self.size}]",
            "range": f"[RANGE {self.size} SLIDE {self.slide}]",
            "rows": f"[ROWS {self.size}]",
        }
        return " ".join(x for x in (spelled[self.kind], f"SYNC EVERY {self.sync}" if self.sync else "") if x)

    @property
    def row_local(self) -> bool:
        return self.kind != "rows" and not self.sync

    @property
    def retention(self) -> int | None:
        """How long after its stamp a row may count; a synchronizer shows it until its next point."""
        kept = {"window": self.size, "range": self.size + self.slide}.get(self.kind)
        return None if kept is None else kept + self.sync

    def over(self, leaf: Relation) -> Relation:
        """The rows that count at a moment."""

        def at(moment: int) -> Counter[Row]:
            seen = moment - moment % self.sync if self.sync else moment
            return self._shown(leaf, seen)

        return at

    def _shown(self, leaf: Relation, moment: int) -> Counter[Row]:
        rows = leaf(moment)
        if self.kind == "window":
            return Counter({r: n for r, n in rows.items() if moment - self.size <= r[TS] < moment})
        if self.kind == "range":
            end = (moment - self.size) // self.slide * self.slide + self.size  # the last k·slide + range
            return Counter({r: n for r, n in rows.items() if end - self.size <= r[TS] < end})
        if self.kind == "rows":
            listed = sorted(rows.elements(), key=lambda r: (r[TS], _ordered(r)))
            return Counter(listed[-self.size :])
        return rows


def _ordered(row: Row) -> tuple[Any, ...]:
    """NULLs last, as in DuckDB."""
    return tuple((v is None, v if v is not None else 0) for v in row)


def stream(rows: Sequence[tuple[Row, bool]], key: bool) -> Relation:
    """A stream as a relation: all rows up to a moment; with a key (column 0) the last record of each, unless that
    deletes it. Rows are (row, whether it deletes) in the order of arrival, which is the order of time.
    """

    def at(moment: int) -> Counter[Row]:
        there = [(row, gone) for row, gone in rows if row[TS] <= moment]
        if not key:
            return Counter(row for row, _ in there)
        last = {row[K]: (row, gone) for row, gone in there}
        return Counter(row for row, gone in last.values() if not gone)

    return at


@dataclass(frozen=True)
class Join:
    """Inputs joined on column k along `edges` (pairs of input numbers); `kind` is that of a join of two; `band`: stamps
    of the first two differ by at most so much.
    """

    edges: tuple[tuple[int, int], ...]
    kind: str = "inner"
    band: int | None = None

    def at(self, inputs: Sequence[Counter[Row]]) -> Counter[tuple[Row | None, ...]]:
        found: Counter[tuple[Row | None, ...]] = Counter()
        self._extend((), 1, inputs, found)
        if self.kind == "inner":
            return found
        matched = [{row[i] for row in found} for i in range(2)]
        for i, side in enumerate(("left", "right")):
            if self.kind in (side, "full"):
                for row, copies in inputs[i].items():
                    if row not in matched[i]:
                        found[(row, None) if i == 0 else (None, row)] += copies
        return found

    def _extend(
        self, chosen: tuple[Row, ...], copies: int, inputs: Sequence[Counter[Row]], found: Counter[Any]
    ) -> None:
        if len(chosen) == len(inputs):
            found[chosen] += copies
            return
        for row, n in inputs[len(chosen)].items():
            if self._fits(chosen, row):
                self._extend((*chosen, row), copies * n, inputs, found)

    def _fits(self, chosen: tuple[Row, ...], row: Row) -> bool:
        number = len(chosen)
        for a, b in self.edges:
            if max(a, b) == number:
                other = chosen[min(a, b)][K]
                if other is None or other != row[K]:
                    return False
        return not (number == 1 and self.band is not None) or abs(chosen[0][TS] - row[TS]) <= self.band


def log_of(relation: Callable[[int], Counter[Any]], moments: Iterable[int]) -> list[tuple[int, Any, int]]:
    """The changes of a relation: (moment, row, copies that come or go), the fewest there are."""
    found, before = [], Counter[Any]()
    for moment in moments:
        now = relation(moment)
        for row in sorted({*now, *before}, key=repr):
            if now[row] != before[row]:
                found.append((moment, row, now[row] - before[row]))
        before = now
    return found
