"""Which of the pipelines of figure 12 the queries over one keyed stream get, by the cost of section 9 (paper 004).

    (a)   separate  every query has a tagger of its own
    (a′)  tagger    one tagger for all of them
    (b)   phantom   one tagger, and one finer grouping that feeds theirs

Between (a) and (a′) is decided when the queries begin, once and for all: a tagger has state. A finer grouping has none,
so (b) may come and go with every plan version: the model decides where the stream was counted, and what the grouping
itself counts decides again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from tidemill.optimize.views.cost import (
    Gap,
    Load,
    RowCosts,
    Updates,
    groups_touched,
    pipeline_cost,
    synchronizer_output,
    union_gaps,
)
from tidemill.optimize.views.phantoms import FinerGrouping, feed_grouping, find_finer
from tidemill.optimize.views.shared_taggers import (
    SharedTagger,
    TaggerParts,
    find_taggers,
    share_tagger,
    take_apart,
    widen_tagger,
)
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.periods import Every
from tidemill.plan.relations import Relation

MODES = ("auto", "off", "tagger", "phantom")
PLANS = {"separate": "a", "tagger": "a′", "phantom": "b"}
_SECOND = 1_000_000
_KEYS_SELECTED, _ROWS_SELECTED = 0.1, 0.5  # assumed shares of the keys and of the rows that a predicate selects
_FINER_ROWS = 1.0  # rows out for each row in of a finer grouping of which nothing is known: nothing is saved


class StreamRate(NamedTuple):
    """Records of a keyed stream in a second of event time, and how many keys there are."""

    records: float = 1_000.0
    keys: float = 1_000.0


@dataclass
class TaggingSettings:
    """Settings, statistics and choices. `taggers` has the shared tagger of each query that reads one, by the
    fingerprint of the query's own; `rates` are by stream (`stream_name`), `finer_rows` by the shared tagger.
    """

    mode: str = "auto"
    costs: RowCosts = field(default_factory=RowCosts)
    taggers: dict[str, SharedTagger] = field(default_factory=dict)
    rates: dict[str, StreamRate] = field(default_factory=dict)
    finer_rows: dict[str, float] = field(default_factory=dict)

    def finer_share(self, parts: TaggerParts, shared: SharedTagger) -> FinerShare:
        """What the finer grouping behind a shared tagger passes on: as it was counted, or as the model says of a stream
        that was.
        """
        counted = self.finer_rows.get(widen_tagger(parts, shared).fingerprint)
        if counted is not None:
            return FinerShare(counted, "counted")
        rate = self.rates.get(stream_name(parts))
        if rate is None or shared.periods is None:
            return FinerShare(_FINER_ROWS, "assumed")
        return FinerShare(predict_finer(shared.periods, rate), "predicted")

    def copy(self) -> TaggingSettings:
        """A copy for EXPLAIN: planning with it changes nothing here."""
        return replace(self, taggers=dict(self.taggers))


class FinerShare(NamedTuple):
    """Rows out for each row in of a finer grouping, and how that is known."""

    rows: float
    basis: Literal["counted", "predicted", "assumed"]


class Price(NamedTuple):
    """Of one pipeline in a second of event time: rows into synchronizers, rows into groupings, nanoseconds."""

    NS: float
    NG: float
    cost: float


@dataclass(frozen=True)
class Member:
    """The tagger of some queries: how many groupings read it, and how many of these a finer one can feed."""

    parts: TaggerParts
    groupings: int = 0
    fed: int = 0


def choose_taggers(roots: Iterable[Relation], version: int, settings: TaggingSettings) -> None:
    """Choose the taggers of queries that begin with this plan version; those of others stay as they are."""
    roots = list(roots)
    for members in group_members(roots, {}).values():
        if members[0].parts.records.birth != version:
            continue
        shared = share_tagger(m.parts for m in members)
        if is_shared(members, shared, settings):
            settings.taggers |= {m.parts.tag.fingerprint: shared for m in members}
        else:
            for member in members:
                settings.taggers.pop(member.parts.tag.fingerprint, None)


def is_shared(members: Sequence[Member], shared: SharedTagger, settings: TaggingSettings) -> bool:
    """Whether these taggers become one."""
    if len(members) < 2 or settings.mode in ("off", "tagger", "phantom"):
        return len(members) > 1 and settings.mode != "off"
    prices = price_members(members, shared, settings)
    return min(prices["tagger"].cost, prices["phantom"].cost) < prices["separate"].cost


def choose_finer(roots: Iterable[Relation], settings: TaggingSettings) -> dict[str, FinerGrouping]:
    """The finer groupings of a plan, by the fingerprint of the shared tagger that they read."""
    if settings.mode in ("off", "tagger"):
        return {}
    found = find_finer(roots, settings.taggers)
    if settings.mode == "phantom":
        return found
    return {name: finer for name, finer in found.items() if _finer_pays(finer, settings)}


def _finer_pays(finer: FinerGrouping, settings: TaggingSettings) -> bool:
    """n groupings read every change, or one does and n read a share of them: 1 + n·share < n."""
    parts, groupings = finer.groupings[0].tagger, len(finer.groupings)
    share = settings.finer_share(parts, settings.taggers[parts.tag.fingerprint])
    return 1 + groupings * share.rows < groupings


def predict_finer(periods: Sequence[Every], rate: StreamRate) -> float:
    """Rows out for each row in of a finer grouping whose groups were never counted.

    At a point every key that was updated brings its old and its new row, m rows together. They fall into groups; at one
    time each key is in one of them, so that before and after the point there are at most 2·K. Taking them as drawn at
    random among 2·K, G (1 - (1 - 1/G)^m) / m is between 0.63 and 1: the real share is lower where rows gather in few
    groups, and is counted as soon as the grouping runs.

    >>> round(predict_finer([Every(_SECOND)], StreamRate(100_000.0, 200.0)), 2)  # every key in every second
    0.63
    >>> round(predict_finer([Every(_SECOND)], StreamRate(20.0, 200.0)), 2)  # hardly ever two rows in one group
    0.96
    """
    points = sum(gap.times for gap in _gaps(periods))
    changes = 2 * _synchronized(periods, rate) / points
    return min(1.0, groups_touched(2 * rate.keys, changes) / changes) if changes > 0 else _FINER_ROWS


def group_members(roots: Iterable[Relation], taggers: Mapping[str, SharedTagger]) -> dict[str, list[Member]]:
    """The taggers that can be shared, by stream; with the groupings that read each. `taggers`: those that are."""
    roots = list(roots)
    found: dict[str, list[Member]] = {}
    readers = _count_groupings(roots)
    for tag in find_taggers(roots):
        parts = take_apart(tag)
        if parts is not None and (not taggers or tag.fingerprint in taggers):
            found.setdefault(parts.stream, []).append(Member(parts, *readers.get(tag.fingerprint, (0, 0))))
    return found


def _count_groupings(roots: Iterable[Relation]) -> dict[str, tuple[int, int]]:
    """By tagger: how many groupings read it, and how many of them a finer grouping can feed."""
    found: dict[str, tuple[int, int]] = {}
    groupings = {n.fingerprint: n for root in roots for n in walk(root) if isinstance(n, r.GroupBy)}
    for node in groupings.values():
        below = node.input.input if isinstance(node.input, r.Project) else None
        if isinstance(below, r.Tag):
            all_of_them, fed = found.get(below.fingerprint, (0, 0))
            can = feed_grouping(node, {below.fingerprint: SharedTagger((), None)}) is not None
            found[below.fingerprint] = all_of_them + 1, fed + can
    return found


def price_members(members: Sequence[Member], shared: SharedTagger, settings: TaggingSettings) -> dict[str, Price]:
    """NS, NG and cost of the three pipelines, by the name of the setting that asks for each."""
    costs, first = settings.costs, members[0].parts
    rate = settings.rates.get(stream_name(first), StreamRate())
    share = settings.finer_share(first, shared).rows
    once = _synchronized(shared.periods, rate)
    arriving = rate.records if shared.periods is not None else 0.0
    alone = [_synchronized(m.parts.periods, rate) * (_KEYS_SELECTED if m.parts.selects_keys else 1) for m in members]
    selected = [1.0 if m.parts.predicate is None or m.parts.selects_keys else _ROWS_SELECTED for m in members]
    kept = _union_share(members) if shared.predicate is not None else 1.0
    own = sum(rate.records for m in members if m.parts.periods is not None)
    separate = sum(2 * n * s * m.groupings for m, n, s in zip(members, alone, selected, strict=True))
    groupings, fed = sum(m.groupings for m in members), sum(m.fed for m in members)
    read = sum(2 * once * s * m.groupings for m, s in zip(members, selected, strict=True))
    finer = 2 * once * kept * (1 + share * fed + groupings - fed)
    reads = len(members) * 2 * once * kept

    def price(synchronized: float, tagged: float, filtered: float, grouped: float) -> Price:
        loads = [
            Load(synchronized, costs.synchronizer),
            Load(tagged, costs.tagger),
            Load(filtered, costs.filter),
            Load(grouped, costs.grouping),
        ]
        return Price(synchronized, grouped, pipeline_cost(loads))

    return {
        "separate": price(own, sum(alone), 0.0, separate),
        "tagger": price(arriving, once, reads, read),
        "phantom": price(arriving, once, share * reads, finer),
    }


def _synchronized(periods: Sequence[Every] | None, rate: StreamRate) -> float:
    """Records that reach a tagger in a second, where all of them come at points of these periods."""
    if periods is None:
        return rate.records
    updates = Updates(rate.keys, rate.records / rate.keys / _SECOND, regular=False)
    return min(rate.records, synchronizer_output([updates], _gaps(periods)))


def _gaps(periods: Sequence[Every]) -> tuple[Gap, ...]:
    return union_gaps([(p.every_us, p.offset_us) for p in periods], _SECOND)


def _union_share(members: Sequence[Member]) -> float:
    """The share of the rows that some query selects, where each selects independently of the others."""
    missed = 1.0
    for member in members:
        missed *= 1 - (_KEYS_SELECTED if member.parts.selects_keys else _ROWS_SELECTED)
    return 1 - missed


def stream_name(parts: TaggerParts) -> str:
    """What statistics of a keyed stream are kept under: its source and its key."""
    return " ".join([parts.records.source, *parts.tag.keys])


def report_tagging(roots: Mapping[str, Relation], asked: Iterable[Relation], settings: TaggingSettings) -> list[Any]:
    """What EXPLAIN says: for each keyed stream of the queries that were `asked` about, who reads it and what the three
    pipelines cost.
    """
    wanted = {tag.fingerprint for tag in find_taggers(asked)}
    finer = choose_finer(roots.values(), settings)
    reports = []
    for members in group_members(roots.values(), {}).values():
        tags = {m.parts.tag.fingerprint for m in members}
        if len(members) < 2 or not tags & wanted:
            continue
        shared = next((settings.taggers[tag] for tag in sorted(tags) if tag in settings.taggers), None)
        wide = widen_tagger(members[0].parts, shared or share_tagger(m.parts for m in members))
        plan = "separate" if shared is None else "phantom" if wide.fingerprint in finer else "tagger"
        prices = price_members(members, shared or share_tagger(m.parts for m in members), settings)
        first = members[0].parts
        names = [n for n, root in roots.items() if any(t.fingerprint in tags for t in find_taggers([root]))]
        reports.append(
            {
                "source": first.records.source,
                "key": list(first.tag.keys),
                "queries": names,
                "taggers": len(members),
                "statistics": "measured" if stream_name(first) in settings.rates else "assumed",
                "finer": settings.finer_share(first, shared or share_tagger(m.parts for m in members))._asdict(),
                "plans": [
                    {"plan": PLANS[name], "name": name, **price._asdict(), "chosen": name == plan}
                    for name, price in prices.items()
                ],
            }
        )
    return reports
