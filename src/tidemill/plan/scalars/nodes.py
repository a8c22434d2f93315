"""The nodes of scalar expressions: each has its SQL text, the columns it reads, and `substitute`.

A node says what it is written as (`pieces`: texts, and the expressions between them); the text is made of that in one
place. Two scalars with the same text are equal: a plan is fingerprinted by that text (`plan.node`), so it must not
change from version to version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any, Union
from typing import Literal as Word

from tidemill.plan.cached import cached_property

_HOLE = re.compile(r"\{(\d)\}")
Columns = Mapping[str, "Scalar"]
Piece = Union[str, "Scalar"]


def quoted(name: str) -> str:
    """A column name as SQL text.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, eq=False, repr=False)
class Scalar:
    """An expression over the columns of one relation.

    Not an ABC: to ask whether something is one would take longer, and binding asks it of every part of every query.
    """

    @cached_property
    def sql(self) -> str:
        """The expression as DuckDB text."""
        return "".join([piece if isinstance(piece, str) else piece.sql for piece in self.pieces()])

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that the expression reads."""
        return frozenset().union(*(part.columns for part in self.parts))

    @property
    def parts(self) -> tuple[Scalar, ...]:
        """The expressions that this one is made of."""
        found: list[Scalar] = []
        kind: Any = type(self)
        for name in _operands(kind):
            value = getattr(self, name)
            found += [value] if isinstance(value, Scalar) else value if _is_list(value) else []
        return tuple(found)

    def pieces(self) -> Iterable[Piece]:
        """The texts and the expressions that DuckDB reads one after the other."""
        raise NotImplementedError

    def substitute(self, columns: Columns) -> Scalar:
        """The expression with columns replaced by other expressions, in parentheses where these are no columns.

        >>> more = {"a": Operation("+", ColumnRef("x"), Literal("1"))}
        >>> Operation(">", ColumnRef("a"), Literal("3")).substitute(more).sql
        '("x" + 1) > 3'
        """
        if self.columns.isdisjoint(columns):
            return self
        kind: Any = type(self)
        found: Scalar = kind(*[_substitute(getattr(self, name), columns) for name in _operands(kind)])
        return found

    def over(self, columns: Columns) -> Scalar:
        """`substitute` for a whole item of a select list: a column becomes the other expression as it is."""
        return columns[self.name] if isinstance(self, ColumnRef) else self.substitute(columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.sql == other.sql

    def __hash__(self) -> int:
        return hash(self.sql)

    def __str__(self) -> str:
        return self.sql

    def __repr__(self) -> str:
        return f"<{self.sql}>"


@dataclass(frozen=True, eq=False, repr=False)
class ColumnRef(Scalar):
    """A column of the relation."""

    name: str

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset((self.name,))

    def pieces(self) -> Iterable[Piece]:
        return (quoted(self.name),)

    def substitute(self, columns: Columns) -> Scalar:
        new = columns.get(self.name)
        return self if new is None else new if isinstance(new, ColumnRef) else Paren(new)


@dataclass(frozen=True, eq=False, repr=False)
class _Constant(Scalar):
    text: str

    def pieces(self) -> Iterable[Piece]:
        return (self.text,)


class Literal(_Constant):
    """A number, a quoted text or NULL."""

    @property
    def number(self) -> int | None:
        """The value of a literal that is a whole number without a sign."""
        return int(self.text) if self.text.isdigit() else None


class Hidden(_Constant):
    """A column that operators add to the rows of a relation: `__n`, `__time`, `__diff`."""


@dataclass(frozen=True, eq=False, repr=False)
class Paren(Scalar):
    """(value)"""

    value: Scalar

    def pieces(self) -> Iterable[Piece]:
        return ("(", self.value, ")")


@dataclass(frozen=True, eq=False, repr=False)
class Not(Scalar):
    """NOT value"""

    value: Scalar

    def pieces(self) -> Iterable[Piece]:
        return ("NOT ", self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Negative(Scalar):
    """-value"""

    value: Scalar

    def pieces(self) -> Iterable[Piece]:
        # Two signs in a row would begin a comment.
        return ("- " if self.value.sql.startswith("-") else "-", self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Operation(Scalar):
    """left sign right: a comparison, or arithmetic."""

    sign: str
    left: Scalar
    right: Scalar

    def pieces(self) -> Iterable[Piece]:
        return (self.left, f" {self.sign} ", self.right)


@dataclass(frozen=True, eq=False, repr=False)
class Chain(Scalar):
    """Two conditions or more, all joined by the same word."""

    word: Word["AND", "OR"]
    conditions: tuple[Scalar, ...]

    def pieces(self) -> Iterable[Piece]:
        return separate(self.conditions, f" {self.word} ")


@dataclass(frozen=True, eq=False, repr=False)
class In(Scalar):
    """value IN (options)"""

    value: Scalar
    options: tuple[Scalar, ...]

    def pieces(self) -> Iterable[Piece]:
        return (self.value, " IN (", *separate(self.options, ", "), ")")


@dataclass(frozen=True, eq=False, repr=False)
class Between(Scalar):
    """value BETWEEN low AND high"""

    value: Scalar
    low: Scalar
    high: Scalar

    def pieces(self) -> Iterable[Piece]:
        return (self.value, " BETWEEN ", self.low, " AND ", self.high)


@dataclass(frozen=True, eq=False, repr=False)
class IsNull(Scalar):
    """value IS NULL"""

    value: Scalar

    def pieces(self) -> Iterable[Piece]:
        return (self.value, " IS NULL")


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Scalar):
    """CAST(value AS type)"""

    value: Scalar
    type: str

    def pieces(self) -> Iterable[Piece]:
        return ("CAST(", self.value, f" AS {self.type})")


@dataclass(frozen=True, eq=False, repr=False)
class When(Scalar):
    """CASE WHEN test THEN value END: NULL where the test does not hold."""

    test: Scalar
    value: Scalar

    def pieces(self) -> Iterable[Piece]:
        return ("CASE WHEN ", self.test, " THEN ", self.value, " END")


@dataclass(frozen=True, eq=False, repr=False)
class WhereCounted(Scalar):
    """CASE WHEN count > 0 THEN value END: an aggregate of no values is NULL."""

    count: Scalar
    value: Scalar

    def pieces(self) -> Iterable[Piece]:
        return ("CASE WHEN ", self.count, " > 0 THEN ", self.value, " END")


@dataclass(frozen=True, eq=False, repr=False)
class Template(Scalar):
    """Any other SQL: texts, and expressions between them. There is one text more than there are holes."""

    texts: tuple[str, ...]
    holes: tuple[Scalar, ...]

    def pieces(self) -> Iterable[Piece]:
        first, *rest = self.texts
        return [first, *(piece for pair in zip(self.holes, rest, strict=True) for piece in pair)]


def separate(values: Iterable[Scalar], separator: str) -> list[Piece]:
    """The expressions with a text between each two."""
    return [piece for value in values for piece in (separator, value)][1:]


def flatten(value: Scalar) -> Template:
    """The same text, as columns and what stands between them.

    >>> flat = flatten(Operation("<", Paren(ColumnRef("a")), ColumnRef("b")))
    >>> flat.texts, flat.holes
    (('(', ') < ', ''), (<"a">, <"b">))
    """
    texts, holes, left = [""], list[Scalar](), list[Piece]([value])
    while left:
        piece = left.pop()
        if isinstance(piece, str):
            texts[-1] += piece
        elif isinstance(piece, ColumnRef):
            holes.append(piece)
            texts.append("")
        else:
            left += reversed(list(piece.pieces()))
    return Template(tuple(texts), tuple(holes))


@cache
def _operands(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Scalar)


def _substitute(value: Any, columns: Columns) -> Any:
    if isinstance(value, Scalar):
        return value.substitute(columns)
    return tuple([v.substitute(columns) for v in value]) if _is_list(value) else value


def template(text: str, *values: Scalar) -> Template:
    """SQL text in which {0}, {1}, … stand for these expressions.

    >>> template("{0} * {0} + {1}", ColumnRef("a"), ColumnRef("b")).sql
    '"a" * "a" + "b"'
    """
    texts, numbers = _cut(text)
    return Template(texts, tuple([values[n] for n in numbers]))


@lru_cache(maxsize=4096)
def _cut(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    found = _HOLE.split(text)
    return tuple(found[::2]), tuple(map(int, found[1::2]))


def sql_of(scalar: Scalar | None) -> str | None:
    """The text of an expression, if there is one."""
    return None if scalar is None else scalar.sql


def conjunction(*predicates: Scalar | None) -> Scalar | None:
    """All of the predicates at once; None stands for TRUE.

    >>> conjunction(ColumnRef("a"), None, ColumnRef("b")).sql, conjunction(None)
    ('("a") AND ("b")', None)
    """
    given = [p for p in predicates if p is not None]
    if len(given) <= 1:
        return given[0] if given else None
    return Chain("AND", tuple(map(Paren, given)))
