"""Configurations (paper 002, section 3.1): which relations are maintained, and which relation feeds which."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

_TOKENS = re.compile(r"[()]|[^\s()]+")
_SPECIAL = re.compile(r"[\s()·#!%∅]")
_ONE_LETTER = re.compile(r"[A-Z]+")
EMPTY = "∅"


@dataclass(frozen=True)
class Relation:
    """A set of grouping attributes with its own hash table.

    A tag distinguishes relations with the same attributes: the leaves of different weaved groups. A tagged relation
    never feeds another one. Capital one-letter attributes are written as in the paper, others with a dot between them
    (a dot before a single name in capitals); characters of the notation are percent-quoted.

    >>> str(Relation(frozenset("CAB"))), str(Relation(frozenset({"sip", "dip"}), 2)), str(Relation(frozenset()))
    ('ABC', 'dip·sip#2', '∅')
    """

    attributes: frozenset[str]
    tag: int | None = None

    def __post_init__(self) -> None:
        if "" in self.attributes:
            raise ValueError("an attribute needs a name")
        object.__setattr__(self, "_hash", hash((self.attributes, self.tag)))

    def __hash__(self) -> int:
        # Optimizers look the same few hundred relations up hundreds of thousands of times.
        return self._hash  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[type[Relation], tuple[Any, ...]]:
        return Relation, (self.attributes, self.tag)  # the cached hash is valid in this process only

    @cached_property
    def order(self) -> tuple[tuple[str, ...], int]:
        """The sorting key that makes the text of a configuration unique."""
        return tuple(sorted(self.attributes)), -1 if self.tag is None else self.tag

    @cached_property
    def alone(self) -> frozenset[Relation]:
        """The set with only this relation."""
        return frozenset([self])

    @cached_property
    def text(self) -> str:
        names = [_SPECIAL.sub(lambda m: quote(m[0], safe=""), name) for name in self.order[0]]
        if all(len(name) == 1 and _ONE_LETTER.fullmatch(name) for name in names):
            shown = "".join(names) or EMPTY
        else:
            shown = "·".join(names)
            shown = f"·{shown}" if _ONE_LETTER.fullmatch(shown) else shown
        return shown if self.tag is None else f"{shown}#{self.tag}"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Relation({self.text})"

    def feeds(self, other: Relation) -> bool:
        """Whether this relation's entries can be aggregated further to the other's."""
        return self.tag is None and self != other and self.attributes >= other.attributes


def relation(text: str) -> Relation:
    """The relation that prints as `text`.

    >>> relation("AB#2") == Relation(frozenset("AB"), 2), relation("sip·dip") == relation("dip·sip")
    (True, True)
    """
    names, hash_sign, tag = text.partition("#")
    if names == EMPTY:
        attributes: Iterable[str] = ()
    elif _ONE_LETTER.fullmatch(names):
        attributes = names
    else:
        attributes = [unquote(name) for name in names.removeprefix("·").split("·")]
    return Relation(frozenset(attributes), int(tag) if hash_sign else None)


def relations(text: str) -> tuple[Relation, ...]:
    """Several relations separated by spaces: `relations("AB BC BD CD")`."""
    return tuple(relation(word) for word in text.split())


@dataclass(frozen=True)
class Configuration:
    """A forest of relations; raw relations are its roots and probed by every tuple.

    Leaves are queries and evict to the exchange. A query may also be an inner relation: then an evicted entry goes to
    its children *and* to the exchange, and it is written with an exclamation mark. A phantom is an inner relation
    that is no query. `relations` is in preorder, children sorted, so equal forests are equal objects;
    `parents[i]` is the position of the parent of relation i, -1 for a raw one.

    >>> c = Configuration.parse("ABCD(BCD(BC CD BD) AB)")
    >>> str(c), [str(r) for r in c.phantoms], c.depth(relation("BC"))
    ('ABCD(AB BCD(BC BD CD))', ['ABCD', 'BCD'], 3)
    >>> str(Configuration.parse("AB!(A B) C"))
    'AB!(A B) C'
    """

    relations: tuple[Relation, ...]
    parents: tuple[int, ...]
    emits: tuple[bool, ...]

    @classmethod
    def of(cls, feeders: Mapping[Relation, Relation | None], queries: Iterable[Relation] = ()) -> Configuration:
        """The forest in which each relation has the given feeder; None for a raw relation. Leaves are queries."""
        for child, feeder in feeders.items():
            if feeder is not None and (feeder not in feeders or not feeder.feeds(child)):
                raise ValueError(f"{feeder} cannot feed {child}")
        asked = frozenset(queries)
        if not asked <= feeders.keys():
            raise ValueError(f"no feeder is given for {', '.join(map(str, sorted(asked - feeders.keys(), key=str)))}")
        return cls.of_valid(feeders, asked)

    @classmethod
    def of_valid(cls, feeders: Mapping[Relation, Relation | None], asked: Container[Relation]) -> Configuration:
        """Like `of`, without checking that each feeder can feed its children."""
        below: dict[Relation | None, list[Relation]] = {None: []}
        for child, feeder in feeders.items():
            below.setdefault(feeder, []).append(child)
        placed: list[Relation] = []
        parents: list[int] = []

        def place(feeder: Relation | None, parent: int) -> None:
            for child in sorted(below[feeder], key=lambda r: r.order):
                placed.append(child)
                parents.append(parent)
                if child in below:
                    place(child, len(placed) - 1)

        place(None, -1)
        # Feeding never goes up to more attributes and never back, so every relation hangs below a raw one.
        return cls(tuple(placed), tuple(parents), tuple(r in asked or r not in below for r in placed))

    @classmethod
    def without_phantoms(cls, queries: Iterable[Relation]) -> Configuration:
        """No phantom: every query is raw."""
        return cls.of({query: None for query in queries})

    @classmethod
    def parse(cls, text: str) -> Configuration:
        """Read the notation of section 3.1."""
        words = iter(_TOKENS.findall(text))
        feeders: dict[Relation, Relation | None] = {}
        queries: set[Relation] = set()
        if _read(words, None, feeders, queries):
            raise ValueError(f"a closing parenthesis too many in {text!r}")
        return cls.of(feeders, queries)

    def __str__(self) -> str:
        return " ".join(self._text(i) for i in self.raw)

    def _text(self, i: int) -> str:
        below = self.children[i]
        if not below:
            return self.relations[i].text
        mark = "!" if self.emits[i] else ""
        return f"{self.relations[i]}{mark}({' '.join(self._text(c) for c in below)})"

    @cached_property
    def position(self) -> dict[Relation, int]:
        return {r: i for i, r in enumerate(self.relations)}

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The positions of each relation's children."""
        below: list[list[int]] = [[] for _ in self.relations]
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                below[parent].append(i)
        return tuple(map(tuple, below))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """1 for a raw relation, one more for each feeder above."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def raw(self) -> tuple[int, ...]:
        return tuple(i for i, parent in enumerate(self.parents) if parent < 0)

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        return tuple(i for i, below in enumerate(self.children) if not below)

    @cached_property
    def phantoms(self) -> tuple[Relation, ...]:
        return tuple(r for r, query in zip(self.relations, self.emits, strict=True) if not query)

    @cached_property
    def queries(self) -> tuple[Relation, ...]:
        return tuple(r for r, query in zip(self.relations, self.emits, strict=True) if query)

    @cached_property
    def answered(self) -> tuple[frozenset[Relation], ...]:
        """L_R of each relation: the queries at or below it, whose epochs decide when it is evicted."""
        found: list[frozenset[Relation]] = [r.alone for r in self.relations]  # right for leaves: they are queries
        for i in reversed(range(len(self.relations))):
            if self.children[i]:
                below = (found[c] for c in self.children[i])
                found[i] = (found[i] if self.emits[i] else frozenset()).union(*below)
        return tuple(found)

    def depth(self, relation: Relation) -> int:
        return self.depths[self.position[relation]]

    def feeder(self, relation: Relation) -> Relation | None:
        parent = self.parents[self.position[relation]]
        return None if parent < 0 else self.relations[parent]

    def ancestors(self, relation: Relation) -> tuple[Relation, ...]:
        """A_R, from the feeder up to the raw relation."""
        found = []
        above = self.feeder(relation)
        while above is not None:
            found.append(above)
            above = self.feeder(above)
        return tuple(found)

    def descendants(self, relation: Relation) -> tuple[Relation, ...]:
        """D_R, in preorder."""
        first = self.position[relation]
        after = first + 1
        while after < len(self.relations) and self.depths[after] > self.depths[first]:
            after += 1
        return self.relations[first + 1 : after]


def _read(
    words: Iterator[str], feeder: Relation | None, feeders: dict[Relation, Relation | None], queries: set[Relation]
) -> bool:
    """Read siblings up to a closing parenthesis (True) or the end (False)."""
    last: Relation | None = None
    for word in words:
        if word == ")":
            return True
        if word == "(":
            if last is None or not _read(words, last, feeders, queries):
                raise ValueError("parentheses do not match")
            last = None
            continue
        last = relation(word.removesuffix("!"))
        if last in feeders:
            raise ValueError(f"{last} is maintained twice")
        feeders[last] = feeder
        if word.endswith("!"):
            queries.add(last)
    if feeder is not None:
        raise ValueError("a closing parenthesis is missing")
    return False
