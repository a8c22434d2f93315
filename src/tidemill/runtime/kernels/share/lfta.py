"""An LFTA configuration: a forest of fixed-size hash tables that rows fall through (paper 002, sections 2.2 to 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tidemill.runtime.kernels.share import lfta_loops as loops
from tidemill.runtime.kernels.share.lfta_loops import GREATEST, LEAST, STEP, STRIDE, SUM
from tidemill.runtime.thresholds import sizes

__all__ = ["GREATEST", "LEAST", "RAW", "SUM", "Counters", "Emitted", "TableSpec", "Tables"]

RAW = -1
Columns = Sequence[ArrayLike | None] | np.ndarray


@dataclass(frozen=True)
class TableSpec:
    """One relation: its parent (RAW or an earlier relation), its group attributes (rows of `attrs`) and its buckets.

    What its table evicts goes to its children, and to the output if it `emits`.
    """

    parent: int
    attributes: tuple[int, ...]
    buckets: int
    emits: bool


class Emitted(NamedTuple):
    """Evicted entries of one relation in order of eviction: column i of every array is entry i."""

    fragments: np.ndarray  # int32, of this relation
    codes: np.ndarray  # int32, of this relation
    attrs: np.ndarray  # int64[group attributes, entries]
    ints: np.ndarray  # int64[int parts, entries]
    floats: np.ndarray  # float64[float parts, entries]


class Counters(NamedTuple):
    """For each relation: int64 totals since construction."""

    probes: np.ndarray  # records that met a bucket; of a raw relation: rows
    collisions: np.ndarray  # another group took the bucket
    turnovers: np.ndarray  # the same group in another fragment took the bucket
    flushed: np.ndarray  # entries that a flush, or the end of a fragment, evicted from the relation's table


class Tables:
    """The hash tables of a configuration, empty at first.

    A bucket holds the most recent group. A record probes it: same fragment, signature and group combine; else the old
    entry is evicted to every child and to the output, and the new one takes the bucket. The hash covers group and
    signature, not the fragment, so that a group in a later fragment meets its own old entry. Relations that feed others
    are emptied when a fragment begins that is later than all before it and some rows have come since the last time.

    Not for two threads at once; different `Tables` are independent, and the loops release the GIL.

    >>> tables = Tables([TableSpec(RAW, attributes=(0,), buckets=1, emits=True)], attributes=1, int_kinds=[SUM])
    >>> tables.map(fragments=[[0]], codes=[[0]])
    >>> tables.push(attrs=[[7, 7, 8]], codes=[0, 0, 0], frags=[0, 0, 0], ints=[None])
    >>> tables.flush()
    >>> emitted = tables.take()[0]
    >>> emitted.attrs.tolist(), emitted.ints.tolist()
    ([[7, 8]], [[2, 1]])
    """

    def __init__(
        self,
        specs: Sequence[TableSpec],
        attributes: int,
        int_kinds: Sequence[int] = (),
        float_kinds: Sequence[int] = (),
        step: int = STEP,
        room: int = 8 * STEP,
        edge_rows: int | None = None,
    ):
        """`attributes` counts the columns of `attrs`; kinds are SUM, LEAST or GREATEST, one for each part.

        `step` rows (at most STEP) pass the forest at a time; an output holds `room` entries before it is drained.
        Tables that feed others are emptied when a fragment begins and `edge_rows` rows have come since the last time.
        """
        _check(specs, attributes)
        self._specs = tuple(specs)
        self._attributes, self._ints, self._floats = attributes, len(int_kinds), len(float_kinds)
        self._step, self._room = min(step, STEP), max(room, step)
        self._int_order, self._float_order = (np.argsort(k, kind="stable") for k in (int_kinds, float_kinds))
        kinds = (list(int_kinds), list(float_kinds))
        self._ends = np.cumsum([of_type.count(kind) for of_type in kinds for kind in (SUM, LEAST, GREATEST)])
        self._order = _raw_order(specs, attributes)
        self._taken: dict[int, list[np.ndarray]] = {r: [] for r, spec in enumerate(specs) if spec.emits}
        self._lengths: list[int] = []
        self._maps = np.empty(0, np.int32)
        self._layout()
        least = sizes.edge_rows if edge_rows is None else edge_rows
        self._place = np.array([1, 0, -1, -1, 0, least], np.int64)

    def _layout(self) -> None:
        """Places of all relations in the flat arrays that the loops share."""
        parts, n = self._ints + self._floats, len(self._specs) + 1
        self._relations = np.zeros((n, 13), np.int64)
        self._relations[0, [loops.PARENT, loops.ATTRIBUTES]] = RAW, self._attributes
        held = [self._order, *(spec.attributes for spec in self._specs)]
        picks: list[int] = []
        table, batch, output, used = 0, STRIDE * (1 + self._attributes + parts), 0, 0
        for r, spec in enumerate(self._specs, 1):
            width = 1 + len(spec.attributes) + parts
            self._relations[r, : loops.PICKS] = spec.parent + 1, spec.buckets, width, table, batch, spec.emits, output
            self._relations[r, [loops.PICKS, loops.ATTRIBUTES, loops.USED]] = len(picks), len(spec.attributes), used
            self._relations[spec.parent + 1, loops.FEEDS] = 1
            picks += [1 + held[spec.parent + 1].index(a) for a in spec.attributes]
            table += spec.buckets * width
            batch += STRIDE * width
            output += self._room * width * spec.emits
            used += spec.buckets
        self._picks, self._factors = np.array(picks, np.int64), _odd_numbers(len(picks) + n)
        self._tables = np.full(table, loops.EMPTY, np.int64)
        self._used = np.empty(used, np.uint32)  # for each table the buckets in use, as they were filled
        self._words, self._outputs = np.empty(batch, np.int64), np.empty(output, np.int64)
        self._counts, self._filled = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._counters = np.zeros((n, 5), np.int64)
        self._scratch = np.ones((loops.KEYS + self._attributes) * STRIDE, np.int64)

    def map(self, fragments: Sequence[ArrayLike], codes: Sequence[ArrayLike]) -> None:
        """Say for each relation which of its own fragments and codes the parent's (raw: the rows') fall into.

        `codes[r][c] == -1` (or a fragment's -1): nothing below r wants it, no probe. To be called before the first
        push, and again when fragments or codes are added: numbers already given keep their meaning.
        """
        maps = [np.asarray(m, np.int32) for pair in zip(fragments, codes, strict=True) for m in pair]
        if len(maps) != 2 * len(self._specs):
            raise ValueError("one fragment map and one code map for each relation expected")
        self._check_maps(maps)
        self._lengths = [len(m) for m in maps]
        starts = np.cumsum([0, *self._lengths])
        self._relations[1:, loops.FRAGMENTS], self._relations[1:, loops.CODES] = starts[:-1:2], starts[1:-1:2]
        self._maps = np.concatenate([*maps, np.empty(0, np.int32)])

    def push(
        self, attrs: Columns, codes: ArrayLike, frags: ArrayLike, ints: Columns = (), floats: Columns = ()
    ) -> None:
        """Let rows fall through the forest; `attrs`, `ints`, `floats` have an array for each column, of equal length.

        int64 and int32 columns are read where they are, others are converted; None in `ints` is a column of ones.
        Codes and fragments must have a place in the maps of the raw relations. O(rows) for each raw relation, less
        where neighbours of the same group, fragment and code probe as one. Integers do not depend on how rows are cut
        into pushes; the last bits of a float sum may: such neighbours are added up before they meet the bucket.
        """
        code, frag = np.ascontiguousarray(codes, np.int32), np.ascontiguousarray(frags, np.int32)
        n = len(code)
        if len(frag) != n:
            raise ValueError(f"{n} codes, {len(frag)} fragments: as many rows expected")
        self._check_range(0, frag)
        self._check_range(1, code)
        whole, real = _columns(ints, self._ints, n, np.int64), _columns(floats, self._floats, n, np.float64)
        given = _columns(attrs, self._attributes, n, np.int64)
        columns = [given[a] for a in self._order]
        columns += [whole[p] for p in self._int_order] + [real[p] for p in self._float_order]
        addresses = np.array([0 if c is None else c.__array_interface__["data"][0] for c in columns], np.int64)
        item_sizes = np.array([loops.ONES if c is None else c.itemsize for c in columns], np.int64)
        rows, forest, done = loops.Rows(addresses, item_sizes, code, frag), self._forest(), 0
        while done < n:
            done = loops.push_rows(rows, done, forest)
            if done < n:
                self._drain()

    def flush(self) -> None:
        """End-of-epoch update: top-down, every entry is evicted to children and outputs. All tables are empty then."""
        if not self._lengths:
            return
        while not loops.flush_tables(self._forest()):
            self._drain()

    def take(self) -> dict[int, Emitted]:
        """For each emitting relation what it has evicted since the last take."""
        self._drain()
        emitted = {r: self._emit_rows(r, chunks) for r, chunks in self._taken.items()}
        self._taken = {r: [] for r in self._taken}
        return emitted

    @property
    def pending(self) -> int:
        """Number of evicted entries that wait to be taken."""
        return int(self._filled.sum()) + sum(chunk.shape[1] for chunks in self._taken.values() for chunk in chunks)

    @property
    def counters(self) -> Counters:
        """Probes, collisions, turnovers and flushed entries of each relation so far."""
        order = [loops.PROBES, loops.COLLISIONS, loops.TURNOVERS, loops.FLUSHED]
        return Counters(*(self._counters[1:, c].copy() for c in order))

    def bucket(self, relation: int, code: int, group: Sequence[int]) -> int:
        """The bucket of the relation's table that a group with this signature code hashes to."""
        start = int(self._relations[relation + 1, loops.PICKS]) + relation
        values = np.array([code, *group], np.int64)
        return int(loops.bucket_of(values, self._factors[start : start + len(values)], self._specs[relation].buckets))

    def _check_maps(self, maps: list[np.ndarray]) -> None:
        """Every fragment and code that a parent can evict has a place in its children's maps, now and as before."""
        if any(len(new) < old for new, old in zip(maps, self._lengths, strict=False)):
            raise ValueError("a map never shrinks")
        for r, spec in enumerate(self._specs):
            for kind in (0, 1):
                most = -1 if spec.parent == RAW else int(maps[2 * spec.parent + kind].max(initial=-1))
                if len(maps[2 * r + kind]) <= most:
                    raise ValueError(f"relation {r}: its map ends before {most}, which its parent evicts")

    def _check_range(self, kind: int, numbers: np.ndarray) -> None:
        """The loops read the maps without looking at their ends."""
        if not self._lengths and self._specs:
            raise ValueError("map() comes before push()")
        lengths = [self._lengths[2 * r + kind] for r, spec in enumerate(self._specs) if spec.parent == RAW]
        # Without its sign a negative number is too great as well.
        if len(numbers) and numbers.view(np.uint32).max() >= min(lengths, default=0):
            raise ValueError("a code or a fragment of a row has no place in the maps")

    def _forest(self) -> loops.Forest:
        return loops.Forest(
            self._place,
            self._step,
            self._counts,
            self._relations,
            self._picks,
            self._factors,
            self._maps,
            self._tables,
            self._used,
            self._words,
            self._ends,
            self._outputs,
            self._room,
            self._filled,
            self._scratch,
            self._counters,
        )

    def _drain(self) -> None:
        for r, chunks in self._taken.items():
            start, width = self._relations[r + 1, [loops.OUTPUT, loops.WIDTH]]
            columns = self._outputs[start : start + width * self._room].reshape(width, self._room)
            if self._filled[r + 1]:
                chunks.append(columns[:, : self._filled[r + 1]].copy())
        self._filled[:] = 0

    def _emit_rows(self, r: int, chunks: list[np.ndarray]) -> Emitted:
        words = np.concatenate([np.empty((self._relations[r + 1, loops.WIDTH], 0), np.int64), *chunks], axis=1)
        first = 1 + len(self._specs[r].attributes)
        ints = _in_order(words[first : first + self._ints], self._int_order)
        floats = _in_order(words[first + self._ints :], self._float_order).view(np.float64)
        return Emitted((words[0] >> 32).astype(np.int32), words[0].astype(np.int32), words[1:first], ints, floats)


def _raw_order(specs: Sequence[TableSpec], attributes: int) -> tuple[int, ...]:
    """All attributes in the order in which the first relation has them: it takes them from where they are.

    >>> _raw_order([TableSpec(RAW, attributes=(2, 0), buckets=1, emits=True)], 3)
    (2, 0, 1)
    """
    first = specs[0].attributes if specs else ()
    return (*first, *(a for a in range(attributes) if a not in first))


def _in_order(rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Row i of the result is the one that `order` has put elsewhere; most often none was."""
    return rows if (order[1:] > order[:-1]).all() else rows[np.argsort(order)]


def _check(specs: Sequence[TableSpec], attributes: int) -> None:
    feeding = {spec.parent for spec in specs}
    for r, spec in enumerate(specs):
        if not RAW <= spec.parent < r:
            raise ValueError(f"relation {r}: its parent must come before it")
        held = range(attributes) if spec.parent == RAW else specs[spec.parent].attributes
        if not set(spec.attributes) <= set(held):
            raise ValueError(f"relation {r}: its attributes are not all in its parent")
        if not 1 <= spec.buckets < 1 << 32:
            raise ValueError(f"relation {r}: a table has 1 to 2**32 - 1 buckets")
        if not spec.emits and r not in feeding:
            raise ValueError(f"relation {r}: a leaf must emit")


def _columns(columns: Columns, count: int, n: int, kind: type) -> list[np.ndarray | None]:
    """Contiguous arrays that the loops can read: float64, int64 or, as it is, int32. None is a column of ones."""
    if kind is np.float64 and any(c is None for c in columns):
        raise ValueError("a column of floats expected, not None")
    found = [None if c is None else _readable(np.asarray(c), kind) for c in columns]
    if len(found) != count or any(c is not None and c.shape != (n,) for c in found):
        raise ValueError(f"{count} columns of {n} rows expected")
    return found


def _readable(column: np.ndarray, kind: type) -> np.ndarray:
    if kind is np.int64 and column.dtype.kind not in "iub" and len(column):
        raise ValueError(f"a column of integers expected, not of {column.dtype}")
    narrow = kind is np.int64 and column.dtype == np.int32
    return np.ascontiguousarray(column, None if narrow else kind)


def _odd_numbers(n: int) -> np.ndarray:
    """Fixed random odd factors: every relation hashes in its own way, the same in every run."""
    return np.random.default_rng(2002).integers(0, 1 << 64, n, np.uint64) | np.uint64(1)
