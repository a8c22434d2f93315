"""Queries that read their streams a second time, from the beginning: how a new view is backfilled.

    the query            SELECT … FROM S                 created with plan 7
    its plan             CatchUp[S#history7, moment]
                           the query over S#history7     a source of its own: what S has had, then what S gets

The operators over the second reading get every row that the first reading of the source has had, so they compute what
they would have computed if the query had stood since then. Their answer is held back until the second reading is where
the first one is; then what is present at the moment of creation appears, and every later change at its own time.

Views that the query reads are computed once more in the same way: only then every change of them is at its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation
from tidemill.plan.sources import SourceSpec

_SECOND = "#history"


class NotAgain(Exception):
    """Why a query cannot be answered by reading its streams again."""


def second_name(source: str, birth: int) -> str:
    """The second reading of a source for the queries that begin with plan `birth`.

    >>> second_name("Temps", 7), first_name("Temps#history7"), first_name("Temps")
    ('Temps#history7', 'Temps', 'Temps')
    """
    return f"{source}{_SECOND}{birth}"


def first_name(source: str) -> str:
    """The source itself, where this is a second reading of it."""
    return source.partition(_SECOND)[0]


def second_readings(node: Relation) -> tuple[str, ...]:
    """The second readings that a query needs."""
    return tuple(sorted({n.source for n in walk(node) if isinstance(n, r.Scan) and _SECOND in n.source}))


def second_specs(roots: Iterable[Relation], specs: dict[str, SourceSpec]) -> dict[str, SourceSpec]:
    """The second readings of all queries, as sources."""
    names = {name for root in roots for name in second_readings(root)}
    return {name: replace(specs[first_name(name)], name=name, rereads=first_name(name)) for name in sorted(names)}


def hold_back(node: Relation, moment: int | None) -> Relation:
    """The answer of a query; that of one that reads its streams again from the `moment` of its creation on."""
    return node if moment is None else r.CatchUp(node, second_readings(node), moment)


@dataclass(frozen=True)
class SecondReadings:
    """Puts second readings in the place of the streams of a query that begins with plan `birth`."""

    birth: int
    was_read: Callable[[str], bool]  # whether a source was read before
    why_incomplete: Callable[[r.View], str | None]
    _known: dict[Relation, Relation] = field(default_factory=dict, init=False)

    def replace(self, node: Relation) -> Relation:
        """The query over all rows of its streams; NotAgain where that is not possible."""
        if node not in self._known:
            self._known[node] = self._replace(node)
        return self._known[node]

    def _replace(self, node: Relation) -> Relation:
        if isinstance(node, r.Scan):
            return self._replace_scan(node)
        if isinstance(node, r.View):
            reason = self.why_incomplete(node)
            if reason is not None:
                raise NotAgain(reason)
            return r.View(node.name, self.replace(node.input))
        if isinstance(node, r.CatchUp):  # all that it reads was found complete when it was created
            return replace(self, why_incomplete=lambda _: None).replace(node.input)
        if isinstance(node, r.Union):
            # Contents that a later reader began with are part of the whole history.
            rest = [i for i in node.inputs if not all(isinstance(leaf, r.Seed) for leaf in _leaves(i))]
            return r.Union(tuple(map(self.replace, rest))) if len(rest) > 1 else self.replace(rest[0])
        self._check(node)
        inputs = [c for c in node.children if isinstance(c, Relation)]
        return r.with_children(node, *map(self.replace, inputs)) if inputs else node

    def _replace_scan(self, node: r.Scan) -> Relation:
        source = first_name(node.source)
        if node.static or not self.was_read(source):
            return replace(node, source=source, birth=self.birth)
        return r.Scan(second_name(source, self.birth), node.columns, self.birth)

    def _check(self, node: Relation) -> None:
        """Refuse what depends on more than the rows: the clock, and what was stored at another moment."""
        if isinstance(node, r.Clock):
            raise NotAgain("clockStr is not read again")
        if isinstance(node, r.Seed):
            raise NotAgain("it reads what a view held at another moment")
        if isinstance(node, (r.GroupBy, r.JoinAggregate)) and not node.keys and r.beginning(node) == "first row":
            raise NotAgain("its row without groups may begin with the end of an earlier run, which is not known")


def _leaves(node: Relation) -> list[Relation]:
    return [n for n in walk(node) if isinstance(n, Relation) and not any(isinstance(c, Relation) for c in n.children)]
