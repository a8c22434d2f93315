"""Which running totals are kept for which queries; fixed as long as the plan is."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tidemill.plan.physical import HashTables
from tidemill.runtime.kernels.share.intercede import Edges
from tidemill.runtime.share.reader.running_totals.verdicts import EVERYTHING, Term, Verdicts
from tidemill.runtime.thresholds import sizes


class Leaf(NamedTuple):
    """A relation that answers queries: its attributes among those of the raw relation, and its queries, numbered
    through all leaves from `first` on. Query i sees the rows of terms[i], and needs the parts of these names (all of
    them if None).
    """

    relation: int
    picks: list[int]
    first: int
    terms: list[tuple[Term, ...]]
    parts: list[frozenset[str] | None]


@dataclass(frozen=True)
class Layout:
    """Predicates, leaves and edges of the queries; fixed as long as the plan is."""

    verdicts: Verdicts
    columns: list[str]  # those that are the raw relation's attributes; "" for an expression
    leaves: list[Leaf]
    edges: tuple[np.ndarray, np.ndarray, np.ndarray]  # of all queries: slides, phases, where those of a query begin
    finest: Edges

    @classmethod
    def of(cls, tables: HashTables, finest: Edges) -> Layout | None:
        """None where tables are needed: a relation below the raw one has a table, or a query does not fit."""
        if not all(fitting(tables)):
            return None
        raw, columns = tables.relations[0], _columns(tables)
        verdicts = _verdicts(tables, columns)
        leaves: list[Leaf] = []
        edges: list[tuple[tuple[int, int], ...]] = []
        for r, relation in enumerate(tables.relations):
            if relation.emits < 0:
                continue
            queries = [tables.queries[q] for q in relation.own]
            picks = [raw.attributes.index(a) for a in relation.attributes]
            leaves.append(
                Leaf(
                    r,
                    picks,
                    len(edges),
                    [verdicts.terms.get(q.predicate, EVERYTHING) for q in queries],
                    [None if q.parts is None else frozenset(q.parts) for q in queries],
                )
            )
            edges += [q.edges for q in queries]
        pairs = np.array([e for classes in edges for e in classes], np.int64).reshape(-1, 2)
        bounds = np.concatenate(([0], np.cumsum([len(classes) for classes in edges])))
        return cls(verdicts, columns, leaves, (pairs[:, 0].copy(), pairs[:, 1].copy(), bounds), finest)

    @property
    def queries(self) -> int:
        return len(self.edges[2]) - 1

    @cached_property
    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums that queries see of a group, number 0 of all its rows, number 1 + r of those that satisfy row
        program r: stretches of classes, and where those of each value begin, as `refresh_values` has them.
        """
        wanted = np.vstack([np.ones((1, self.classes), bool), self.verdicts.wanted])
        edges = np.diff(np.pad(wanted, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        # Row by row, every stretch begins with +1 and ends with -1.
        stretches = np.stack([np.nonzero(edges > 0)[1], np.nonzero(edges < 0)[1]], axis=1).astype(np.int64)
        return stretches, np.concatenate(([0], np.cumsum((edges > 0).sum(axis=1)))).astype(np.int64)

    @property
    def classes(self) -> int:
        return self.verdicts.count

    def extremes(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """(value, number among these parts) of which some query needs the least or the greatest."""
        asked = [pair for leaf in self.leaves for pair in zip(leaf.terms, leaf.parts, strict=True)]
        return list(
            dict.fromkeys(
                (term.value, e)
                for terms, parts in asked
                for e, name in enumerate(names)
                if parts is None or name in parts
                for term in terms
            )
        )

    def capacity(self, sums: int, extremes: int, room: int) -> int:
        """The greatest number of groups of the raw relation that fit into `room` bytes, with these numbers of sums and
        extremes for each row.
        """
        own = len(self.verdicts.tests) // 8 + len(self.columns) + len({tuple(leaf.picks) for leaf in self.leaves}) + 4
        rows = (self.classes + 1) * (sums + extremes)
        values = sums * (1 + len(self.verdicts.wanted) + self.queries) + extremes * (1 + len(self.verdicts.wanted))
        return max(sizes.running_groups, room // 8 // (own + rows + values))


def fitting(tables: HashTables, unlike: Set[str] = frozenset()) -> list[bool]:
    """Which queries can have running totals: none where below the raw relation there are tables, or several raw ones,
    or where it answers all of a few queries itself.

    User aggregates, `unlike` parts and predicates that make too many classes are left to the tables.
    """
    raw, *below = tables.relations
    alone = not below and len(raw.own) < sizes.running_alone
    if alone or any(r.parent < 0 or r.buckets for r in below) or not raw.attributes:
        return [False] * len(tables.queries)
    verdicts = _verdicts(tables, _columns(tables))
    return [
        not q.accumulators
        and bool(q.edges)
        and not unlike & set(unlike if q.parts is None else q.parts)
        and (q.predicate < 0 or q.predicate in verdicts.terms)
        for q in tables.queries
    ]


def _columns(tables: HashTables) -> list[str]:
    return [tables.attributes[a].column or "" for a in tables.relations[0].attributes]


def _verdicts(tables: HashTables, columns: Sequence[str]) -> Verdicts:
    users = np.bincount([q.predicate + 1 for q in tables.queries], minlength=len(tables.predicates) + 1)
    return Verdicts.of([p.program for p in tables.predicates], {c for c in columns if c}, users[1:].tolist())
