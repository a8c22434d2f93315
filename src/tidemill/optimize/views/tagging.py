"""Which of the pipelines of figure 12 the queries over one keyed stream get, by the cost of section 9 (paper 004).

    (a)   separate  every query has a tagger of its own
    (a′)  tagger    one tagger for all of them
    (b)   phantom   one tagger, and one finer grouping that feeds theirs

Between (a) and (a′) is decided when the queries begin, once and for all: a tagger has state. A finer grouping has none,
so (b) may come and go with every plan version: the model decides where the stream was counted, and what the grouping
itself counts decides again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from tidemill.optimize.views.cost import Load, RowCosts, groups_touched, pipeline_cost
from tidemill.optimize.views.joint_groups import FEWEST, join_grouping
from tidemill.optimize.views.phantoms import FinerGrouping, feed_grouping, find_finer
from tidemill.optimize.views.shared_taggers import (
    SharedTagger,
    TaggerParts,
    find_taggers,
    share_tagger,
    take_apart,
    widen_tagger,
)
from tidemill.optimize.views.streams import StreamRate, changes_by_point, count_groups, stream_name, synchronized_rate
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.periods import Every
from tidemill.plan.relations import Relation

MODES = ("auto", "off", "tagger", "phantom")
PLANS = {"separate": "a", "tagger": "a′", "phantom": "b"}
_KEYS_SELECTED, _ROWS_SELECTED = 0.1, 0.5  # assumed shares of the keys and of the rows that a predicate selects
_FINER_ROWS = 1.0  # rows out for each row in of a finer grouping of which nothing is known: nothing is saved


@dataclass
class TaggingSettings:
    """Settings, statistics and choices. `taggers` has the shared tagger of each query that reads one, by the
    fingerprint of the query's own; `rates` are by stream (`stream_name`), and so are `values`: how many a column has;
    `finer_rows` are by the shared tagger.
    """

    mode: str = "auto"
    costs: RowCosts = field(default_factory=RowCosts)
    taggers: dict[str, SharedTagger] = field(default_factory=dict)
    rates: dict[str, StreamRate] = field(default_factory=dict)
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    finer_rows: dict[str, float] = field(default_factory=dict)

    def finer_share(self, parts: TaggerParts, shared: SharedTagger, keys: Iterable[str]) -> FinerShare:
        """What the finer grouping by `keys` behind a shared tagger passes on: as it was counted, or as the model says
        of a stream that was.
        """
        counted = self.finer_rows.get(widen_tagger(parts, shared).fingerprint)
        if counted is not None:
            return FinerShare(counted, "counted")
        stream = stream_name(parts)
        rate = self.rates.get(stream)
        if rate is None or shared.periods is None:
            return FinerShare(_FINER_ROWS, "assumed")
        groups = count_groups(keys, self.values.get(stream, {}), rate.keys)
        return FinerShare(predict_finer(shared.periods, rate, groups), "predicted")

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
    """The tagger of some queries: how many groupings read it, how many of these a finer one can feed, and the columns
    that it needs as keys for that; `keys` are those of the groupings that can read it together with others.
    """

    parts: TaggerParts
    groupings: int = 0
    fed: int = 0
    finer_keys: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The share of the rows that it selects, as assumed."""
        if self.parts.selects_keys:
            return _KEYS_SELECTED
        return 1.0 if self.parts.predicate is None else _ROWS_SELECTED

    @property
    def reads(self) -> float:
        """How often its groupings read the changes of all keys."""
        return self.share * self.groupings

    def count_joint(self, shared: SharedTagger) -> int:
        """How many of its groupings read the shared tagger together with others."""
        return sum(key in shared.joint for key in self.keys)

    def rounds_again(self, shared: SharedTagger) -> bool:
        """Whether it has a synchronizer of its own above the shared tagger (`synchronize_shared`)."""
        return self.parts.synchronizer is not None and self.parts.periods != shared.periods


def choose_taggers(roots: Iterable[Relation], version: int, settings: TaggingSettings) -> None:
    """Choose the taggers of queries that begin with this plan version; those of others stay as they are."""
    roots = list(roots)
    for members in group_members(roots, {}).values():
        if members[0].parts.records.birth != version:
            continue
        shared = _join_groupings(members, share_tagger(m.parts for m in members), settings)
        if is_shared(members, shared, settings):
            settings.taggers |= {m.parts.tag.fingerprint: shared for m in members}
        else:
            for member in members:
                settings.taggers.pop(member.parts.tag.fingerprint, None)


def _join_groupings(members: Sequence[Member], shared: SharedTagger, settings: TaggingSettings) -> SharedTagger:
    """The shared tagger with the keys by which groupings read it together, where a finer grouping is not cheaper."""
    keys = Counter(key for m in members if not m.rounds_again(shared) for key in m.keys)
    joint = replace(shared, joint=tuple(sorted(key for key, count in keys.items() if count >= FEWEST)))
    if settings.mode == "auto" and joint.joint:
        prices = price_members(members, joint, settings)
        return shared if prices["phantom"].cost < prices["tagger"].cost else joint
    return shared if settings.mode == "phantom" else joint


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
    """n groupings read every change, or one that costs f of theirs does and n read a share: f + n·share < n."""
    parts, groupings = finer.groupings[0].tagger, len(finer.groupings)
    share = settings.finer_share(parts, settings.taggers[parts.tag.fingerprint], finer.keys)
    return settings.costs.finer / settings.costs.grouping + groupings * share.rows < groupings


def predict_finer(periods: Sequence[Every], rate: StreamRate, groups: float) -> float:
    """Rows out for each row in of a finer grouping that was never counted.

    At a point every key that was updated brings its old and its new row, m rows together; as drawn at random among G
    groups they touch G (1 - (1 - 1/G)^m) of them.

    >>> round(predict_finer([Every(1_000_000)], StreamRate(100_000.0, 200.0), 400), 2)  # every key in every second
    0.63
    >>> round(predict_finer([Every(1_000_000)], StreamRate(20.0, 200.0), 400), 2)  # hardly ever two rows in one group
    0.96
    >>> round(predict_finer([Every(1_000_000)], StreamRate(100_000.0, 200.0), 40), 2)
    0.1
    """
    found = changes_by_point(periods, rate)
    rows = sum(times * changes for times, changes in found)
    return min(1.0, sum(n * groups_touched(groups, m) for n, m in found) / rows) if rows > 0 else _FINER_ROWS


def group_members(roots: Iterable[Relation], taggers: Mapping[str, SharedTagger]) -> dict[str, list[Member]]:
    """The taggers that can be shared, by stream; with the groupings that read each. `taggers`: those that are."""
    roots = list(roots)
    found: dict[str, list[Member]] = {}
    readers = _count_groupings(roots)
    for tag in find_taggers(roots):
        parts = take_apart(tag)
        if parts is not None and (not taggers or tag.fingerprint in taggers):
            found.setdefault(parts.stream, []).append(Member(parts, *readers.get(tag.fingerprint, ())))
    return found


def _count_groupings(roots: Iterable[Relation]) -> dict[str, tuple[int, int, frozenset[str], tuple[str, ...]]]:
    """By tagger: how many groupings read it, how many of them a finer grouping can feed, the keys of that, and the keys
    of those that can read it together.
    """
    found: dict[str, tuple[int, int, frozenset[str], tuple[str, ...]]] = {}
    groupings = {n.fingerprint: n for root in roots for n in walk(root) if isinstance(n, r.GroupBy)}
    for node in groupings.values():
        below = node.input.input if isinstance(node.input, r.Project) else None
        if isinstance(below, r.Tag):
            all_of_them, fed, keys, joint = found.get(below.fingerprint, (0, 0, frozenset(), ()))
            can = feed_grouping(node, {below.fingerprint: SharedTagger((), None)})
            joins = join_grouping(node)
            found[below.fingerprint] = (
                all_of_them + 1,
                fed + (can is not None),
                keys | (can.keys if can else set()),
                (*joint, joins.key) if joins else joint,
            )
    return found


def price_members(members: Sequence[Member], shared: SharedTagger, settings: TaggingSettings) -> dict[str, Price]:
    """NS, NG and cost of the three pipelines, by the name of the setting that asks for each.

    A synchronizer above the shared tagger reads all changes of the shared tagger or of the finer grouping, one for each
    query that has other points. It rounds their times in the statement of the next operator, as cheaply as a filter;
    the synchronizer of records below a tagger sorts them.
    """
    first, costs = members[0].parts, settings.costs
    rate = settings.rates.get(stream_name(first), StreamRate())
    once = synchronized_rate(shared.periods, rate)
    arriving = rate.records if shared.periods is not None else 0.0
    changes = rate.changes * once  # of all keys
    kept = changes * (_union_share(members) if shared.predicate is not None else 1.0)  # those that some query selects
    finer = kept * settings.finer_share(first, shared, finer_keys(members)).rows
    again = [m for m in members if m.rounds_again(shared)]
    joint = kept * sum(m.count_joint(shared) for m in members)
    alone = sum(changes * m.share * (m.groupings - m.count_joint(shared)) for m in members)
    filtering = sum(m.groupings == 0 or m.groupings > m.count_joint(shared) for m in members)
    fed = sum(m.share * changes * (finer / kept * m.fed + m.groupings - m.fed) for m in members) if kept else 0.0
    return {
        "separate": _price_separate(members, rate, costs),
        "tagger": _price_pipeline(
            Rows(arriving, once, kept * len(again), kept * (filtering + len(shared.joint)), alone, joint=joint), costs
        ),
        "phantom": _price_pipeline(
            Rows(arriving, once, _rounded_finer(again, kept, finer), finer * len(members), fed, finer=kept), costs
        ),
    }


def _price_separate(members: Sequence[Member], rate: StreamRate, costs: RowCosts) -> Price:
    alone = [synchronized_rate(m.parts.periods, rate) for m in members]
    records = sum(rate.records for m in members if m.parts.periods is not None)
    tagged = sum(n * m.share for m, n in zip(members, alone, strict=True))
    grouped = sum(rate.changes * n * m.reads for m, n in zip(members, alone, strict=True))
    return _price_pipeline(Rows(records, tagged, 0.0, 0.0, grouped), costs)


def _rounded_finer(again: Sequence[Member], kept: float, finer: float) -> float:
    """Rows into synchronizers of (b): behind the finer grouping, and behind the tagger for what it cannot feed."""
    unfed = sum(not m.groupings or m.groupings > m.fed for m in again)
    return kept * unfed + finer * sum(m.fed for m in again)


class Rows(NamedTuple):
    """Rows in a second into synchronizers of records, into taggers, into synchronizers and filters above taggers, into
    groupings, into a finer one, and into those that read together.
    """

    records: float
    tagged: float
    rounded: float
    filtered: float
    grouped: float
    finer: float = 0.0
    joint: float = 0.0


def _price_pipeline(rows: Rows, costs: RowCosts) -> Price:
    loads = (
        Load(rows.records, costs.synchronizer),
        Load(rows.tagged, costs.tagger),
        Load(rows.rounded + rows.filtered, costs.filter),
        Load(rows.grouped, costs.grouping),
        Load(rows.finer, costs.finer),
        Load(rows.joint, costs.joint),
    )
    return Price(rows.records + rows.rounded, rows.grouped + rows.finer + rows.joint, pipeline_cost(loads))


def finer_keys(members: Iterable[Member]) -> frozenset[str]:
    """The keys of the finer grouping that feeds all groupings of these taggers that it can."""
    return frozenset[str]().union(*(m.finer_keys for m in members))


def _union_share(members: Sequence[Member]) -> float:
    """The share of the rows that some query selects, where each selects independently of the others."""
    missed = 1.0
    for member in members:
        missed *= 1 - (_KEYS_SELECTED if member.parts.selects_keys else _ROWS_SELECTED)
    return 1 - missed


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
        chosen = next((settings.taggers[tag] for tag in sorted(tags) if tag in settings.taggers), None)
        shared, first = chosen or share_tagger(m.parts for m in members), members[0].parts
        wide = widen_tagger(first, shared)
        plan = "separate" if chosen is None else "phantom" if wide.fingerprint in finer else "tagger"
        prices = price_members(members, shared, settings)
        names = [n for n, root in roots.items() if any(t.fingerprint in tags for t in find_taggers([root]))]
        reports.append(
            {
                "source": first.records.source,
                "key": list(first.tag.keys),
                "queries": names,
                "taggers": len(members),
                "statistics": "measured" if stream_name(first) in settings.rates else "assumed",
                "finer": settings.finer_share(first, shared, finer_keys(members))._asdict(),
                "plans": [
                    {"plan": PLANS[name], "name": name, **price._asdict(), "chosen": name == plan}
                    for name, price in prices.items()
                ],
            }
        )
    return reports
