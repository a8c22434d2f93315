"""The finer grouping of figure 12 (b): changes of a shared tagger, added up once for all groupings that read it.

For COUNT and SUM it needs no state: the parts of a grouping (`plan.aggregates`) add up over any cut of its changes, so
they may be added up by finer keys first. It runs in the shard of the tagger, behind it.

    Partial[k; sum(a)] Project Filter[p] ┐           Partial[k; sum(s)] Project Filter[p] ┐
    Partial[l; count]  Project           ┴ tagger  →  Partial[l; sum(n)] Project          ┴ Finer[k, l, p; s, n] tagger

A grouping reads it when all its parts are sums of whole numbers and its arguments are columns: an expression that fails
would put rows aside that others need. The columns of keys and predicates must have one text for each value: 0.0 and
-0.0 are one group and print differently. MIN, MAX and DISTINCT keep values and read the tagger itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidemill.optimize.views.joint_groups import find_joint
from tidemill.optimize.views.shared_taggers import SharedTagger, TaggerParts, take_apart, widen_tagger
from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS, Part, parts
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef

_EXACT_SUMS = {"BIGINT", "HUGEINT"}
_KEY_TYPES = INTEGERS | {"BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP"}
FEWEST = 2  # groupings for which a finer one may pay


@dataclass(frozen=True)
class FedGrouping:
    """A grouping that can read a finer one: the columns that it needs as keys, and its parts over columns."""

    node: r.GroupBy
    tagger: TaggerParts
    keys: frozenset[str]
    parts: Mapping[str, Part]  # by name; values are over the columns of the tagger


@dataclass
class FinerGrouping:
    """What the finer grouping of one shared tagger adds up: keys, and parts by their SQL."""

    tagger: r.Tag
    groupings: list[FedGrouping] = field(default_factory=list)

    @property
    def keys(self) -> tuple[str, ...]:
        """In the order of the tagger's columns."""
        wanted = frozenset[str]().union(*(g.keys for g in self.groupings))
        return tuple(c for c in self.tagger.columns if c in wanted)

    @property
    def columns(self) -> dict[str, tuple[str, Part]]:
        """(column of the finer grouping, part), by the SQL of the part."""
        found = {part.sql: part for g in self.groupings for part in g.parts.values()}
        return {sql: (f"__part{i}", part) for i, (sql, part) in enumerate(sorted(found.items()))}


def find_finer(roots: Iterable[Relation], taggers: Mapping[str, SharedTagger]) -> dict[str, FinerGrouping]:
    """The possible finer groupings, by the fingerprint of the shared tagger."""
    found: dict[str, FinerGrouping] = {}
    seen = set[str]()
    for root in roots:
        for node in walk(root):
            if isinstance(node, r.GroupBy) and node.fingerprint not in seen:
                seen.add(node.fingerprint)
                fed = feed_grouping(node, taggers)
                if fed is not None and find_joint(node, taggers) is None:
                    wide = widen_tagger(fed.tagger, taggers[fed.tagger.tag.fingerprint])
                    found.setdefault(wide.fingerprint, FinerGrouping(wide)).groupings.append(fed)
    return {name: finer for name, finer in found.items() if len(finer.groupings) >= FEWEST}


def feed_grouping(node: r.GroupBy, taggers: Mapping[str, SharedTagger]) -> FedGrouping | None:
    """A grouping of a shared tagger's rows that a finer one can feed; None for any other."""
    below = node.input
    if not isinstance(below, r.Project) or not isinstance(below.input, r.Tag):
        return None
    tag = below.input
    found = take_apart(tag) if tag.fingerprint in taggers else None
    if found is None or any(a.keeps_values(append_only=False) for a in node.aggregates):
        return None
    items = {item.name: item.value for item in below.items}
    arguments = {a.argument: items[a.argument] for a in node.aggregates if a.argument is not None}
    if not all(isinstance(value, ColumnRef) for value in arguments.values()):
        return None
    needed = {
        part.name: Part(part.name, part.value.substitute(arguments), part.type, part.combine)
        for a in node.aggregates
        for part in parts(a, False)
    }
    read = [items[key].columns for key in node.keys]
    keys = frozenset[str]().union(*read, frozenset() if found.predicate is None else found.predicate.columns)
    exact = all(part.type in _EXACT_SUMS and part.combine == "sum" for part in needed.values())
    plain = all(found.records.type_of(c) in _KEY_TYPES for c in keys)
    return FedGrouping(node, found, keys, needed) if exact and plain else None
