"""The LFTA in plain Python, one row at a time, an evicted entry sent down the tree at once (paper 002, section 2.4)."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.runtime.kernels.share.lfta import RAW, TableSpec
from tidemill.runtime.kernels.share.lfta_loops import SPARSE

Entry = tuple[int, int, tuple[int, ...], list]  # fragment, code, group, parts
COMBINE: list[Callable] = [lambda a, b: a + b, min, max]


class Twin:
    """Takes the bucket of a (code, group) from the kernel's own hash: `bucket(relation, code, group)`."""

    def __init__(
        self,
        specs: list[TableSpec],
        kinds: list[int],
        bucket: Callable[[int, int, tuple[int, ...]], int],
        edge_rows: int = 0,
    ):
        self.specs, self.kinds, self.bucket = specs, kinds, bucket
        self.children = {r: [c for c, spec in enumerate(specs) if spec.parent == r] for r in range(RAW, len(specs))}
        self.tables: list[dict[int, Entry]] = [{} for _ in specs]
        self.output: list[list[Entry]] = [[] for _ in specs]
        self.latest = self.emptied = RAW  # greatest fragment so far, and when feeders were emptied last
        self.since, self.edge_rows = 0, edge_rows
        self.probes, self.collisions, self.turnovers, self.flushed = ([0] * len(specs) for _ in range(4))

    def map(self, fragments: list[list[int]], codes: list[list[int]]) -> None:
        self.fragments, self.codes = fragments, codes

    def push(self, fragment: int, code: int, row: tuple[int, ...], parts: list) -> None:
        if fragment > self.latest and self.since >= self.edge_rows:
            for r in range(len(self.specs)):
                if self.children[r] and self._own(r, self.emptied) != self._own(r, fragment):
                    self._empty(r)
            self.emptied, self.since = fragment, 0
        self.latest = max(self.latest, fragment)
        self.since += 1
        self._feed(RAW, (fragment, code, row, parts))

    def flush(self) -> None:
        for r in range(len(self.specs)):
            self._empty(r)

    def _own(self, r: int, fragment: int) -> int:
        """The fragment of relation r in which a fragment of the rows lies."""
        if r != RAW:
            fragment = self._own(self.specs[r].parent, fragment)
        return fragment if r == RAW or fragment < 0 else self.fragments[r][fragment]

    def _empty(self, r: int) -> None:
        """Few entries leave as they came, many by their buckets."""
        table = self.tables[r]
        for bucket in list(table) if SPARSE * len(table) < self.specs[r].buckets else sorted(table):
            self.flushed[r] += 1
            self._evict(r, table.pop(bucket))

    def _feed(self, parent: int, entry: Entry) -> None:
        for child in self.children[parent]:
            self._probe(child, entry)

    def _evict(self, r: int, entry: Entry) -> None:
        if self.specs[r].emits:
            self.output[r].append(entry)
        self._feed(r, entry)

    def _probe(self, r: int, entry: Entry) -> None:
        fragment, code = self.fragments[r][entry[0]], self.codes[r][entry[1]]
        if fragment < 0 or code < 0:
            return
        self.probes[r] += 1
        spec = self.specs[r]
        held = range(len(entry[2])) if spec.parent == RAW else self.specs[spec.parent].attributes
        values = dict(zip(held, entry[2], strict=True))
        group = tuple(values[a] for a in spec.attributes)
        bucket = self.bucket(r, code, group)
        old = self.tables[r].get(bucket)
        if old is not None and old[:3] == (fragment, code, group):
            old[3][:] = [COMBINE[k](a, b) for k, a, b in zip(self.kinds, old[3], entry[3], strict=True)]
            return
        self.tables[r][bucket] = (fragment, code, group, list(entry[3]))
        if old is not None:
            counter = self.turnovers if old[1:3] == (code, group) else self.collisions
            counter[r] += 1
            self._evict(r, old)
