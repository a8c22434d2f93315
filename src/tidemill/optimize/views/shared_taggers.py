"""One tagger in the place of several over one keyed stream (paper 004, figure 12, from (a) to (a′)).

    Tag[key, a; p] Synchronize[s] records        Project[a] Filter[p] Synchronize[s] ┐ Tag[key, a, b; p OR q]
    Tag[key, b; q] Synchronize[t] records   →    Project[b] Filter[q] Synchronize[t] ┴   Synchronize[s ∪ t]
                                                                                           records

Sound because a tagger's rows depend on the last record of each key only: synchronizers pass it (theorem 2), and a
selection that is merged into it is the selection above it; of p OR q (`disjunction`) and then p, p is left. Rows that
differ in columns that a query does not read change nothing for it: they cancel at their time, before doubles are added
up (`find_rounding`). Must not fire where a selection can fail: a record on which it does is put aside before the tagger
and would replace a row behind it.

Which tagger a query has is decided once, for all queries that begin with the same plan version, before they run. The
choice is kept with the catalog by the fingerprint of the query's own tagger; so no operator of a running query changes
because of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.optimize.rewrite.select_tagger import merge_any_selection, split_selection
from tidemill.optimize.views.disjunction import selection_from_json, selection_to_json, unite_selections
from tidemill.optimize.views.implication import constant_of
from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS, Aggregate, parts
from tidemill.plan.node import walk
from tidemill.plan.periods import Every, is_covered
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Chain, ColumnRef, In, Literal, Negative, Not, Operation, Paren, Scalar, conjunction

_SYNCHRONIZERS = (r.Synchronize, r.SynchronizePeriods)
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}
_MOST_PERIODS = 16  # of a shared synchronizer; with more of them records are tagged as they come


@dataclass(frozen=True)
class TaggerParts:
    """A query's own tagger, taken apart: what it selects, and its synchronizer, below or (None) none."""

    tag: r.Tag
    records: r.Scan
    deleted: Scalar | None
    predicate: Scalar | None
    synchronizer: r.Synchronize | r.SynchronizePeriods | None
    selects_keys: bool

    @property
    def stream(self) -> str:
        """What taggers must have in common to be shared: source, birth, key, and which records delete."""
        return f"{self.records.fingerprint} {self.tag.keys} {self.deleted}"

    @property
    def periods(self) -> tuple[Every, ...] | None:
        """The points at which the tagger's rows change; None: with every record."""
        node = self.synchronizer
        if isinstance(node, r.Synchronize):
            return (Every(node.every_us, node.offset_us),)
        return None if node is None else node.periods

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the query needs of the records."""
        return frozenset(self.tag.columns) | (frozenset() if self.predicate is None else self.predicate.columns)


@dataclass(frozen=True)
class SharedTagger:
    """The columns of a tagger that several queries read, the points at which its rows change, and which rows it has:
    those that satisfy the predicate, or all. `joint` has the keys by which several groupings read its rows together
    (`joint_groups`).
    """

    columns: tuple[str, ...]
    periods: tuple[Every, ...] | None
    predicate: Scalar | None = None
    joint: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        periods = None if self.periods is None else [[p.every_us, p.offset_us, p.since_us] for p in self.periods]
        selection = selection_to_json(self.predicate)
        return {"columns": list(self.columns), "periods": periods, "predicate": selection, "joint": list(self.joint)}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> SharedTagger:
        """
        >>> shared = SharedTagger(("room", "degrees"), (Every(5, 1), Every(3)), joint=("room INTEGER",))
        >>> SharedTagger.from_json(shared.to_json()) == shared
        True
        """
        periods = found["periods"]
        return SharedTagger(
            tuple(found["columns"]),
            None if periods is None else tuple(Every(*p) for p in periods),
            selection_from_json(found.get("predicate")),  # older databases have none
            tuple(found.get("joint", ())),
        )


def take_apart(tag: r.Tag) -> TaggerParts | None:
    """The parts of a tagger over the records of a stream; None where it cannot be shared."""
    node, predicates = tag.input, list[Scalar]()
    synchronizer: r.Synchronize | r.SynchronizePeriods | None = None
    while isinstance(node, (r.Filter, *_SYNCHRONIZERS)):
        if isinstance(node, r.Filter):
            predicates.append(node.predicate)
        elif synchronizer is not None:
            return None
        else:
            synchronizer = node
        node = node.input
    deleted, selection = split_selection(tag)
    predicate = conjunction(*predicates, selection)
    if not isinstance(node, r.Scan) or node.static:
        return None
    if predicate is not None and not never_fails(predicate, {c.name: c.type for c in node.schema}):
        return None
    return TaggerParts(tag, node, deleted, predicate, synchronizer, bool(predicates))


def never_fails(predicate: Scalar, types: Mapping[str, str]) -> bool:
    """True for comparisons of columns with values of their own kind, joined by AND, OR and NOT.

    >>> never_fails(Operation(">", ColumnRef("a"), Literal("3")), {"a": "INTEGER"})
    True
    >>> never_fails(Operation("=", ColumnRef("a"), Literal("'x'")), {"a": "INTEGER"})  # 'x' is no number
    False
    """
    if isinstance(predicate, (Paren, Not)):
        return never_fails(predicate.value, types)
    if isinstance(predicate, Chain):
        return all(never_fails(c, types) for c in predicate.conditions)
    if isinstance(predicate, In):
        return _comparable((predicate.value, *predicate.options), types)
    if isinstance(predicate, Operation):
        return predicate.sign in _COMPARISONS and _comparable((predicate.left, predicate.right), types)
    return False


def _comparable(values: Sequence[Scalar], types: Mapping[str, str]) -> bool:
    kinds = {_kind(value, types) for value in values}
    return len(kinds) == 1 and None not in kinds


def _kind(value: Scalar, types: Mapping[str, str]) -> str | None:
    if isinstance(value, (Paren, Negative)):
        return _kind(value.value, types)
    if isinstance(value, ColumnRef):
        type_name = types.get(value.name, "")
        return "number" if type_name in INTEGERS | {"DOUBLE", "FLOAT"} else {"VARCHAR": "text"}.get(type_name)
    if isinstance(value, Literal):
        return "text" if value.text.startswith("'") else "number" if value.text.replace(".", "", 1).isdigit() else None
    return "text" if isinstance(constant_of(value), str) else None


def share_tagger(members: Iterable[TaggerParts]) -> SharedTagger:
    """The tagger that all of them can read: the union of their columns, of their points and of what they select."""
    members = list(members)
    schema = members[0].records.schema
    wanted = frozenset[str]().union(*(m.columns for m in members), members[0].tag.keys)
    columns = tuple(c.name for c in schema if c.name in wanted)
    selected = unite_selections([m.predicate for m in members], {c.name: c.type for c in schema})
    return SharedTagger(columns, _unite([m.periods for m in members]), selected)


def _unite(found: Sequence[tuple[Every, ...] | None]) -> tuple[Every, ...] | None:
    """The union of the points, without periods that others cover; None where rows may change at any time.

    >>> _unite([(Every(6),), (Every(3),), (Every(4),)])
    (Every(every_us=3, offset_us=0, since_us=None), Every(every_us=4, offset_us=0, since_us=None))
    """
    periods = {period for each in found if each is not None for period in each}
    if None in found or len(periods) > _MOST_PERIODS:
        return None
    kept = sorted(periods, key=lambda period: period.order)
    for period in reversed(tuple(kept)):
        others = [other for other in kept if other is not period]
        if others and is_covered(period, others):
            kept = others
    return tuple(kept)


def widen_tagger(parts: TaggerParts, shared: SharedTagger) -> r.Tag:
    """The shared tagger. A selection by the key alone drops records before they travel, as in a query's own tagger.

    No predicate of a member can fail (`take_apart`), so their disjunction cannot either.
    """
    records: Relation = parts.records
    selection = shared.predicate
    if selection is not None and selection.columns <= set(parts.tag.keys):
        records, selection = r.Filter(records, selection), None
    if shared.periods is not None:
        first = shared.periods[0]
        plain = len(shared.periods) == 1 and first.since_us is None
        records = (
            r.Synchronize(records, first.every_us, first.offset_us)
            if plain
            else r.SynchronizePeriods(records, shared.periods)
        )
    tag = r.Tag(records, parts.tag.keys, shared.columns, parts.deleted)
    merged = tag if selection is None else merge_any_selection(r.Filter(tag, selection))
    assert isinstance(merged, r.Tag)
    return merged


def read_shared(parts: TaggerParts, shared: SharedTagger) -> Relation:
    """The rows of a query's own tagger, from the shared one."""
    node = synchronize_shared(parts, shared, widen_tagger(parts, shared))
    if parts.predicate is not None and parts.predicate != shared.predicate:
        node = r.Filter(node, parts.predicate)
    return r.Project(node, tuple(Item.of(column) for column in parts.tag.schema))


def synchronize_shared(parts: TaggerParts, shared: SharedTagger, node: Relation) -> Relation:
    """Changes of the shared tagger at the points of the query."""
    if parts.synchronizer is None or parts.periods == shared.periods:
        return node
    return r.with_children(parts.synchronizer, node)


def find_rounding(roots: Iterable[Relation]) -> frozenset[str]:
    """The taggers under groupings that add doubles up: what comes and goes at one time must cancel before that."""
    found = set[str]()
    for root in roots:
        for node in walk(root):
            if isinstance(node, (r.GroupBy, r.JoinAggregate)) and _adds_doubles(node.aggregates):
                found |= {tag.fingerprint for tag in find_taggers([node])}
    return frozenset(found)


def _adds_doubles(aggregates: Iterable[Aggregate]) -> bool:
    return any(part.type == "DOUBLE" for a in aggregates for part in parts(a, False))


def find_taggers(roots: Iterable[Relation]) -> Iterator[r.Tag]:
    """The taggers of some queries, each once."""
    seen = set[str]()
    for root in roots:
        for node in walk(root):
            if isinstance(node, r.Tag) and node.fingerprint not in seen:
                seen.add(node.fingerprint)
                yield node
