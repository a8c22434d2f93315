"""What is known of the rows that one reader takes from one micro-batch: its *share*.

All tables are empty when a share begins and are emptied when it ends, so a share is an epoch of paper 002, cut further
by the edges of windows. How many entries a table makes in it depends on how many different keys come in each
fragment. A key is a group *and* the predicates it satisfies, as far as the queries below distinguish them; rows that
none of these queries selects do not reach the table.

- Distinct groups of m rows: readers count them over a block of rows and over its first part. Each count is converted to
  a number of equally frequent groups; between the two that number grows as a power of m, because skewed streams, and
  those whose groups come and go, have fewer groups in short stretches.
- Distinct keys: rows are counted by pattern (the set of predicates that hold). A predicate over the group's own
  attributes divides no group. The others are taken to be independent of the group, corrected by the number of
  (group, pattern) pairs that were observed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise

from tidemill.optimize.share.phantoms.configuration import Relation
from tidemill.optimize.share.phantoms.fill import entries_made, total_groups
from tidemill.optimize.share.phantoms.statistics import Statistics
from tidemill.optimize.share.stored_statistics import FlowLength, WindowStatistics
from tidemill.optimize.share.weaving.edges import Edges, edge_rate

SECOND = 1_000_000
_ASSUMED_RATE, _ASSUMED_ROWS = 10_000.0, 100_000.0
_STEEPEST = 0.9  # of the power by which groups grow with rows
_MET = 30  # collisions of a trial table below which it says little
_LEAST_SKEW, _STEPS = 1e-3, 16  # halvings of 6 decades: within 0.02 %, far less than what a sample of rows can tell
_SURE = 0.95  # where more of the rows have different groups, they do not determine the number of groups
_TELLING = 0.05  # pairs that predicates make, for each group, from which on a correction is meaningful


@dataclass(frozen=True)
class Wants:
    """The rows that some queries select: those for which one of the predicates holds, or all rows."""

    predicates: frozenset[str] = frozenset()
    everything: bool = True

    @classmethod
    def of(cls, predicates: Iterable[str | None]) -> Wants:
        """Of queries with these predicates; None is a query without one."""
        given = frozenset(predicates)
        return cls(frozenset(p for p in given if p is not None), None in given)


@dataclass(frozen=True)
class StreamStatistics:
    """Measured or assumed: rows a second, groups and flow lengths; rows and seconds of a share; rows by pattern.

    `first` has the groups of the first rows of the block, `pairs` the (group, pattern) pairs of some rows, both as
    (rows, count by attribute set). `patterns` has the share of the rows for each set of predicates that hold, as bits
    in the order of `predicates`, and `reads` the columns of each; statistics of an older version lack them, and such a
    predicate counts as one over other columns than the attributes.
    """

    rate: float
    statistics: Statistics
    rows: float
    seconds: float
    block: float = _ASSUMED_ROWS
    first: tuple[float, Mapping[str, float]] = (1.0, {})
    predicates: tuple[str, ...] = ()
    patterns: tuple[tuple[int, float], ...] = ()
    pairs: tuple[float, Mapping[str, float]] = (1.0, {})
    trials: tuple[float, Sequence[float], Mapping[str, Sequence[float]]] = (1.0, (), {})
    lengths: Mapping[str, FlowLength] = field(default_factory=dict)  # of tables that were there, by label
    idle: Mapping[str, float] = field(default_factory=dict)  # phantoms that evicted all: rows for each group
    loose: float = 1.0  # fragments of a share that no edge ends
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    assumed: bool = False  # nothing was measured
    _found: dict[frozenset[str], list[tuple[float, float]]] = field(default_factory=dict, compare=False, repr=False)

    def epochs(self, edges: Edges) -> float:
        """Stretches into which the edges of windows cut a share: one more than there are edges in its time, unless its
        ends are edges as well.
        """
        return max(1.0, self.loose + edge_rate(edges).value * SECOND * self.seconds)

    def distinct(self, attributes: frozenset[str], rows: float) -> float:
        """The expected number of distinct groups in `rows` rows."""
        if rows <= 1 or not attributes:
            return min(1.0, rows)
        groups = self._groups(attributes, rows)
        return min(rows, -groups * math.expm1(-rows / groups))

    def keys(self, attributes: frozenset[str], wants: Wants, rows: float, passed: Wants | None = None) -> float:
        """The expected number of distinct (group, predicates) pairs in `rows` rows, as far as these queries distinguish
        them; only pairs that `passed` selects, if that is given.
        """
        total = 0.0
        for able, share in self._classes(attributes, wants, passed or wants):
            total += able * self.distinct(attributes, share * rows)
        bound = self.wanted_share(passed or wants) * self.distinct(attributes, rows)
        return max(min(total, bound), bound + self._pair_independence(attributes) * (total - bound))

    def skew(self, attributes: frozenset[str], buckets: float) -> float:
        """How many equally frequent groups in random order collide like one group of the rows, in a table of `buckets`
        buckets: interpolated from the trial tables next in size.
        """
        points = self._skews(attributes)
        if not points or buckets <= points[0][0]:
            return points[0][1] if points else 1.0
        for (low, one), (high, other) in pairwise(points):
            if buckets <= high:
                return one * float((other / one) ** (math.log(buckets / low) / math.log(high / low)))
        return points[-1][1]

    def _skews(self, attributes: frozenset[str]) -> list[tuple[float, float]]:
        """(buckets, skew) of the trial tables that collided often enough to tell."""
        if attributes not in self._found:
            rows, sizes, met = self.trials
            distinct = self.distinct(attributes, rows)
            made = met.get("\x1f".join(sorted(attributes)), ())
            telling = [(size, count) for size, count in zip(sizes, made, strict=False) if count - distinct >= _MET]
            self._found[attributes] = [(size, _fit_skew(rows, distinct, size, count)) for size, count in telling]
        return self._found[attributes]

    def length(self, label: str, feeder: str | None, buckets: float) -> float | None:
        """The flow length of a table that was there with the same feeder and in shares of much the same size, as far as
        chance does not explain it; all of it if the table had the same size.
        """
        met = self.lengths.get(label)
        if met is None or met["feeder"] != feeder or not 0.5 <= met["rows"] / self.rows <= 2:
            return None
        if 0.9 * met["buckets"] <= buckets <= 1.1 * met["buckets"]:
            return float(met["met"])
        return float(met["certain"]) if 0.5 * met["buckets"] <= buckets <= 2 * met["buckets"] else None

    def is_refused(self, attributes: frozenset[str]) -> bool:
        """True for a phantom that evicted nearly all it was fed with, when a group had half as many rows or more."""
        each = self.idle.get("\x1f".join(sorted(attributes)))
        return each is not None and self.rows_per_group(attributes) < 2 * each

    def rows_per_group(self, attributes: frozenset[str]) -> float:
        """Rows of a share for each of its groups."""
        return self.rows / max(1.0, self.distinct(attributes, self.rows))

    def wanted_share(self, wants: Wants) -> float:
        """The share of the rows that these queries select."""
        if wants.everything or not self.patterns:
            return 1.0
        mask = self._mask(wants)
        if mask is None:
            return 1.0
        return sum(share for pattern, share in self.patterns if pattern & mask)

    @cached_property
    def _bits(self) -> dict[str, int]:
        return {p: 1 << i for i, p in enumerate(self.predicates)}

    def _reads_only(self, predicate: str, attributes: frozenset[str]) -> bool:
        return predicate in self.reads and self.reads[predicate] <= attributes

    def _mask(self, wants: Wants) -> int | None:
        """The bits of the predicates; None where one was never evaluated: then nothing is known of the others' rows."""
        if not wants.predicates <= self._bits.keys():
            return None
        return sum(self._bits[p] for p in wants.predicates)

    def _classes(self, attributes: frozenset[str], wants: Wants, passed: Wants) -> list[tuple[float, float]]:
        """Classes of keys: the share of the groups that can have such keys, and the share of the rows in the class."""
        mask, inner = self._mask(wants), self._mask(passed)
        if not self.patterns or not wants.predicates or mask is None or inner is None:
            return [(1.0, 1.0)]
        free = sum(self._bits[p] for p in wants.predicates if not self._reads_only(p, attributes))
        every: dict[int, float] = {}
        given: dict[int, float] = {}
        for pattern, share in self.patterns:
            kind = pattern & free
            every[kind] = every.get(kind, 0.0) + share
            if passed.everything or pattern & inner:
                given[kind] = given.get(kind, 0.0) + share
        return [(share / every[kind], every[kind]) for kind, share in given.items()]

    def _pair_independence(self, attributes: frozenset[str]) -> float:
        """How independent of the groups the predicates are: 1 if they make all pairs they can, 0 if none."""
        rows, met = self.pairs
        name = "\x1f".join(sorted(attributes))
        if name not in met or not self.patterns:
            return 1.0
        wants = Wants(frozenset(self.predicates))
        all_pairs = sum(
            able * self.distinct(attributes, share * rows) for able, share in self._classes(attributes, wants, wants)
        )
        alone = self.distinct(attributes, rows)
        if all_pairs - alone < _TELLING * alone:
            return 1.0
        return min(1.0, max(0.0, (met[name] - alone) / (all_pairs - alone)))

    def _groups(self, attributes: frozenset[str], rows: float) -> float:
        """The number of equally frequent groups of which `rows` rows contain as many as of the real ones."""
        last = self.statistics.of(Relation(attributes))
        most = total_groups(self.block, min(self.block, last))
        rows_first, met = self.first
        few = met.get("\x1f".join(sorted(attributes)))
        if few is None or few >= _SURE * rows_first or rows_first >= self.block:
            return most
        least = min(most, total_groups(rows_first, max(1.0, few)))
        power = min(_STEEPEST, math.log(most / least) / math.log(self.block / rows_first))
        return least * float(max(1.0, rows / rows_first) ** power)


@lru_cache(maxsize=4096)  # a search for a plan asks for the same trial tables several times
def _fit_skew(rows: float, distinct: float, buckets: float, met: float) -> float:
    """The skew for which a table of `buckets` buckets makes `met` entries from `rows` rows."""
    low, high = _LEAST_SKEW, 1 / _LEAST_SKEW
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if entries_made(rows, distinct, buckets, middle) < met else (low, middle)
    return middle


def read_statistics(measured: WindowStatistics) -> StreamStatistics:
    """Statistics as the readers report them. Where nothing was measured, a busy stream with few groups: a phantom too
    many costs a probe, one too few an eviction for every query.
    """
    if not measured:
        assumed = Statistics(lambda r: float(min(10 ** len(r.attributes), 100_000)), (1.0,), _ASSUMED_ROWS)
        return StreamStatistics(_ASSUMED_RATE, assumed, _ASSUMED_ROWS, _ASSUMED_ROWS / _ASSUMED_RATE, assumed=True)
    groups = {frozenset(name.split("\x1f")): float(count) for name, count in measured.get("groups", {}).items()}
    flows = tuple(f for f in measured.get("flows", ()) if 0 < f < math.inf) or (1.0,)
    rate, block = float(measured.get("rate", _ASSUMED_RATE)), max(1.0, float(measured.get("tuples", _ASSUMED_ROWS)))
    rows, seconds = measured.get("share") or (block, block / rate)
    first, pairs = measured.get("first") or (1.0, {}), measured.get("pairs") or (1.0, {})
    tried = measured.get("tried") or (1.0, [], {})
    counted = measured.get("patterns", {})
    total = sum(counted.values())
    return StreamStatistics(
        rate,
        Statistics(groups, flows, block),
        max(1.0, float(rows)),
        float(seconds),
        block,
        (first[0], first[1]),
        tuple(measured.get("predicates", ())),
        tuple((int(p, 16), count / total) for p, count in counted.items()),
        (pairs[0], pairs[1]),
        (tried[0], tried[1], tried[2]),
        measured.get("lengths", {}),
        measured.get("idle", {}),
        min(1.0, max(0.0, float(measured.get("loose", (1.0,))[0]))),
        {p: frozenset(columns) for p, columns in measured.get("reads", {}).items()},
    )
