"""Groupings by the same key of one shared tagger's changes: the changes travel once, and all groupings walk them.

    Group[k; sum(a)] Partial Project Filter[p] ┐           Group[k; sum(a), p] ┐
    Group[k; count]  Partial Project Filter[q] ┴ tagger →  Group[k; count, q]  ┴ Numbered[k] Project tagger

A partial aggregate saves work where many changes of a time fall into one group. Without it, each change is sent once
for each key instead of once for each query, and is ordered and numbered once for all queries of a key.

A grouping joins in when its parts are sums of whole numbers over columns, and when its key has a value on every row: a
row on which it fails would be missing in the others. Where it has other points than the tagger it does not: its changes
would wait for them. Which keys there are is decided when the queries begin, and kept with the shared tagger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.optimize.views.canonical import canonical
from tidemill.optimize.views.shared_taggers import SharedTagger, TaggerParts, take_apart
from tidemill.optimize.views.total import is_total
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS, Aggregate, parts
from tidemill.plan.relations import Item
from tidemill.plan.scalars import ColumnRef, Scalar

_KEY_TYPES = INTEGERS | {"BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP"}
_WORDS = INTEGERS - {"UBIGINT", "HUGEINT"}  # types whose values are words
FEWEST = 2  # groupings of a key for which reading together pays


@dataclass(frozen=True)
class JointGrouping:
    """A grouping that can read the changes of a shared tagger beside others: its key over the tagger's columns, its
    arguments, and its parts.
    """

    node: r.GroupBy
    tagger: TaggerParts
    items: tuple[Item, ...]  # the key
    arguments: Mapping[str, Scalar]
    addends: tuple[p.Addend, ...]

    @property
    def key(self) -> str:
        """What groupings that read together have in common: the key, and the points of their taggers."""
        points = "" if self.tagger.periods is None else f" at {self.tagger.periods}"
        return ", ".join(f"{item.value.sql} {item.type}" for item in self.items) + points


def find_joint(node: r.GroupBy, taggers: Mapping[str, SharedTagger]) -> JointGrouping | None:
    """The grouping where it reads its tagger together with others; None for any other."""
    found = join_grouping(node)
    shared = None if found is None else taggers.get(found.tagger.tag.fingerprint)
    return None if found is None or shared is None or found.key not in shared.joint else found


def join_grouping(node: r.GroupBy) -> JointGrouping | None:
    """A grouping of a tagger's rows that can read it together with others; None for any other."""
    below = node.input
    if not node.keys or not isinstance(below, r.Project) or not isinstance(below.input, r.Tag):
        return None
    found = take_apart(below.input)
    if found is None:
        return None
    items = {item.name: item for item in below.items}
    arguments = {a.argument: items[a.argument].value for a in node.aggregates if a.argument is not None}
    addends = [_addends(a, arguments) for a in node.aggregates]
    key = tuple(items[name] for name in node.keys)
    types = {canonical(ColumnRef(c.name)): c.type for c in found.tag.schema}
    if not all(item.type in _KEY_TYPES and is_total(item.value, types) for item in key) or None in addends:
        return None
    different = dict.fromkeys(addend for each in addends if each is not None for addend in each)
    return JointGrouping(node, found, key, arguments, tuple(different))


def _addends(aggregate: Aggregate, arguments: Mapping[str, Scalar]) -> tuple[p.Addend, ...] | None:
    """The parts as sums over single changes; None where a part is anything else."""
    if aggregate.keeps_values(append_only=False) or aggregate.function not in ("count", "sum", "avg"):
        return None
    if aggregate.argument is None:
        return ()
    value = arguments[aggregate.argument]
    if not isinstance(value, ColumnRef) or (aggregate.function != "count" and aggregate.argument_type not in _WORDS):
        return None
    return tuple(p.Addend(part.name, value.name, x == 0) for x, part in enumerate(parts(aggregate, False)))


def plain_answers(aggregates: Sequence[Aggregate]) -> tuple[p.PlainAnswer, ...]:
    """The answers as parts, where all are counts and sums; none otherwise.

    >>> plain_answers([Aggregate("count", None, None, "n", "BIGINT"), Aggregate("sum", "x", "INTEGER", "s", "HUGEINT")])
    (PlainAnswer(part='', guard=''), PlainAnswer(part='x__s', guard='x__c'))
    """
    if not {a.function for a in aggregates} <= {"count", "sum"}:
        return ()
    names = [[part.name for part in parts(a, False)] for a in aggregates]
    return tuple(p.PlainAnswer(each[-1] if each else "", each[0] if len(each) > 1 else "") for each in names)
