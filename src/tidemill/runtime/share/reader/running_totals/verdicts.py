"""How running totals decide predicates: by classes of rows, by groups, or by both.

A program over columns of rows is a set of classes. A program over group attributes is decided once for each group. Any
other program is a union of disjoint *terms*, each of them a program over columns of rows for the groups that satisfy
one over attributes:

    len > 100 OR sp < 1024    =    all rows of groups with sp < 1024  +  rows with len > 100 of the others

A predicate without a program is treated as a column whose values are its truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from tidemill.plan.predicate_programs import Program, atoms, columns_of, evaluate
from tidemill.runtime.kernels.share.intercede_rows import classify
from tidemill.runtime.share.reader.running_totals.cuts import Cuts, find_cuts, near
from tidemill.runtime.thresholds import sizes

_PIECES = 3  # programs over attributes in one predicate, at most; a predicate with more is treated as a column


class Term(NamedTuple):
    """Rows of value `value` (0 are all, 1 + r those that satisfy row program r) of the groups that satisfy group
    program `test`, of all groups if that is -1.
    """

    value: int
    test: int


EVERYTHING = (Term(0, -1),)


@dataclass(frozen=True)
class Verdicts:
    """`wanted[r, c]`: row program r holds for rows of class c. `terms` are those of each predicate; a predicate that is
    missing there does not fit. `bits` are predicates that are treated as columns, by column name.
    """

    terms: dict[int, tuple[Term, ...]]
    cuts: dict[str, Cuts]
    wanted: np.ndarray
    tests: list[Program]  # over columns of attributes
    grouping: frozenset[str]  # the columns that tests look at
    bits: dict[str, int]

    @classmethod
    def of(cls, programs: Sequence[Program | None], attributes: set[str], users: Sequence[int] = ()) -> Verdicts:
        """`users` is the number of queries with each predicate: where there are too many classes, the columns that most
        queries read are kept.
        """
        split = [_split(i, program, attributes) for i, program in enumerate(programs)]
        popular: dict[str, int] = {}
        for i, pieces in enumerate(split):
            for column in _row_columns(pieces):
                popular[column] = popular.get(column, 0) + (users[i] if users else 1)
        cuts: dict[str, set[int]] = {}
        fitting: dict[int, list[Piece]] = {}
        for i in sorted(range(len(split)), key=lambda i: -min((popular[c] for c in _row_columns(split[i])), default=0)):
            own: list[Piece] = [(_bit(i), None)]
            for pieces in (split[i], own):
                more = _with_cuts(cuts, pieces)
                if more is not None:
                    cuts, fitting[i] = more, pieces
                    break
        return cls._make(fitting, {c: Cuts.at(sorted(found)) for c, found in sorted(cuts.items())})

    @classmethod
    def _make(cls, fitting: Mapping[int, list[Piece]], cuts: dict[str, Cuts]) -> Verdicts:
        classes, scale, grid = prod(map(len, cuts.values())), 1, {}
        for column, found in cuts.items():
            grid[column] = found.values[np.arange(classes) // scale % len(found)]
            scale *= len(found)
        sets: dict[bytes, int] = {np.ones(classes, bool).tobytes(): 0}
        tests: dict[str, tuple[int, Program]] = {}
        terms = {}
        for i, pieces in sorted(fitting.items()):
            own = []
            for row, group in pieces:
                holds = np.ones(classes, bool) if row is None else evaluate(row, grid)
                value = sets.setdefault(holds.tobytes(), len(sets))
                test = -1 if group is None else tests.setdefault(repr(group), (len(tests), group))[0]
                own.append(Term(value, test))
            terms[i] = tuple(own)
        wanted = np.array([np.frombuffer(s, bool) for s in list(sets)[1:]], bool).reshape(-1, classes)
        asked = [group for _, group in tests.values()]
        grouping = frozenset(c for group in asked for c in columns_of(group))
        bits = {_name(i): i for i in fitting if _name(i) in cuts}
        return cls(terms, cuts, wanted, asked, grouping, bits)

    @property
    def count(self) -> int:
        """How many classes there are."""
        return self.wanted.shape[1]

    def classes(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """The class of each row."""
        found, scale = np.zeros(rows, np.uint8), 1
        for column, cuts in self.cuts.items():
            classify(columns[column], cuts.least, cuts.table, scale, found)
            scale *= len(cuts)
        return found


Piece = tuple[Program | None, Program | None]  # over columns of rows, over attributes; None holds for all


def _name(i: int) -> str:
    """The column of predicate i; no column of a source has such a name."""
    return f"\x00{i}"


def _bit(i: int) -> Program:
    return [">", _name(i), 0]


def _row_columns(pieces: list[Piece]) -> set[str]:
    return {c for row, _ in pieces if row is not None for c in columns_of(row)}


def _with_cuts(cuts: dict[str, set[int]], pieces: list[Piece]) -> dict[str, set[int]] | None:
    """The cuts with those of more programs; None where that makes too many classes, or no table of them."""
    found = dict(cuts)
    for row, _ in pieces:
        for atom in atoms(row) if row is not None else ():
            found[atom[1]] = found.get(atom[1], set()) | find_cuts(atom)
    changed = [own for column, own in found.items() if own is not cuts.get(column)]
    fits = prod(len(own) + 1 for own in found.values()) <= sizes.running_classes and all(map(near, changed))
    return found if fits else None


def _split(i: int, program: Program | None, attributes: set[str]) -> list[Piece]:
    """The terms of predicate i.

    >>> _split(0, ["or", [">", "v", 1], ["<", "a", 5]], {"a"})
    [(None, ['<', 'a', 5]), (['>', 'v', 1], ['not', ['<', 'a', 5]])]
    >>> _split(0, ["and", [">", "v", 1], ["<", "a", 5]], {"a"})
    [(['>', 'v', 1], ['<', 'a', 5])]
    """
    if program is None:
        return [(_bit(i), None)]
    columns = columns_of(program)
    if columns <= attributes:
        return [(None, program)]
    if not columns & attributes:
        return [(program, None)]
    found: dict[str, Program] = {}
    _collect(program, attributes, found)
    if len(found) > _PIECES:
        return [(_bit(i), None)]
    pieces: dict[str, tuple[Program | None, list[Program]]] = {}
    for truths in product((True, False), repeat=len(found)):
        row = _assume(program, dict(zip(found, truths, strict=True)))
        if row is False:
            continue
        holds = [p if truth else ["not", p] for p, truth in zip(found.values(), truths, strict=True)]
        rest = None if row is True else row
        pieces.setdefault(repr(rest), (rest, []))[1].append(holds[0] if len(holds) == 1 else ["and", *holds])
    return [(row, groups[0] if len(groups) == 1 else ["or", *groups]) for row, groups in pieces.values()]


def _collect(program: Program, attributes: set[str], found: dict[str, Program]) -> None:
    """The largest parts of a program that look at attributes only."""
    if columns_of(program) <= attributes:
        found.setdefault(repr(program), program)
    elif program[0] in ("and", "or", "not"):
        for part in program[1:]:
            _collect(part, attributes, found)


def _assume(program: Program, known: Mapping[str, bool]) -> Program | bool:
    """The program where the truth of some parts is known."""
    if repr(program) in known:
        return known[repr(program)]
    if program[0] not in ("and", "or", "not"):
        return program
    parts = [_assume(p, known) for p in program[1:]]
    if program[0] == "not":
        return not parts[0] if isinstance(parts[0], bool) else ["not", parts[0]]
    decided = program[0] == "or"
    if any(p is decided for p in parts):
        return decided
    rest = [p for p in parts if not isinstance(p, bool)]
    return not decided if not rest else rest[0] if len(rest) == 1 else [program[0], *rest]
