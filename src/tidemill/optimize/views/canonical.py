"""Scalar expressions of different queries: a text that is equal for equal meanings, and rewriting over columns.

Two expressions with the same canonical text have the same value on every row. The reverse need not hold: what looks
different is only taken to be different.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidemill.plan.scalars import (
    Chain,
    ColumnRef,
    Epoch,
    In,
    IsNull,
    Literal,
    Not,
    Operation,
    Paren,
    Scalar,
    Timestamp,
    template,
)

_CANONICAL = "_canonical"  # where an expression keeps its canonical text
MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def bare(value: Scalar) -> Scalar:
    """The expression without the parentheses around it."""
    while isinstance(value, Paren):
        value = value.value
    return value


def canonical(value: Scalar) -> str:
    """The text by which expressions are compared: no needless parentheses, comparisons and chains in one order.

    It is made once for each expression: a new query is compared with hundreds of views.

    >>> a, three = ColumnRef("a"), Literal("3")
    >>> canonical(Paren(Operation(">", a, three))) == canonical(Operation("<", three, a))
    True
    """
    known: str | None = vars(value).get(_CANONICAL)
    if known is None:
        known = _canonical(bare(value))
        object.__setattr__(value, _CANONICAL, known)
    return known


def _canonical(value: Scalar) -> str:
    if isinstance(value, Chain):
        return "(" + f" {value.word} ".join(sorted({canonical(c) for c in value.conditions})) + ")"
    if isinstance(value, Operation):
        left, sign, right = canonical(value.left), value.sign, canonical(value.right)
        if sign in MIRROR and left > right:
            left, sign, right = right, MIRROR[sign], left
        return f"({left} {sign} {right})"
    if isinstance(value, Not):
        opposite = negate(value.value)
        return f"(NOT {canonical(value.value)})" if opposite is None else canonical(opposite)
    if isinstance(value, In):
        return f"({canonical(value.value)} IN ({', '.join(sorted({canonical(o) for o in value.options}))}))"
    if isinstance(value, ColumnRef):
        return value.sql
    parts = {name: ColumnRef(canonical(part)) for name, part in ((p.sql, p) for p in value.parts)}
    return f"({rebuild(value, lambda part: parts[part.sql]).sql})"


def negate(value: Scalar) -> Scalar | None:
    """The condition that is true exactly where this one is false, and unknown where it is; None where it is not simple,
    and where what is negated twice is no truth value: NOT (NOT 5) is TRUE.

    >>> negate(Operation("<", ColumnRef("a"), Literal("3")))
    <"a" >= 3>
    """
    value = bare(value)
    if isinstance(value, Operation) and value.sign in _OPPOSITE:
        return Operation(_OPPOSITE[value.sign], value.left, value.right)
    inner = bare(value.value) if isinstance(value, Not) else None
    is_truth = isinstance(inner, (Chain, Not, In)) or (isinstance(inner, Operation) and inner.sign in MIRROR)
    return inner if is_truth else None


def conjuncts(predicate: Scalar | None) -> Iterator[Scalar]:
    """The conditions that must all hold."""
    if predicate is None:
        return
    predicate = bare(predicate)
    if isinstance(predicate, Chain) and predicate.word == "AND":
        for condition in predicate.conditions:
            yield from conjuncts(condition)
    elif isinstance(predicate, Not) and (opposite := negate(predicate.value)) is not None:
        yield opposite
    else:
        yield predicate


def stamp_of(value: Scalar) -> tuple[ColumnRef, int | None] | None:
    """The column of microseconds that a time stamp shows, and the clock unit that it counts in; None for TIMESTAMP.

    >>> ts = ColumnRef("__ts")
    >>> stamp_of(Operation("//", ts, Literal("1000000"))), stamp_of(Timestamp(ts))
    ((<"__ts">, 1000000), (<"__ts">, None))
    """
    value = bare(value)
    time, unit = None, None
    if isinstance(value, Timestamp):
        time = bare(value.us)
    elif isinstance(value, Operation) and value.sign == "//" and isinstance(value.right, Literal):
        time, unit = bare(value.left), value.right.number
    return (time, unit) if isinstance(time, ColumnRef) else None


@dataclass
class Given:
    """The columns of a view, by the canonical text of what they hold."""

    names: dict[str, str] = field(default_factory=dict)
    epochs: list[tuple[str, int, str]] = field(default_factory=list)  # canonical text of the time, length, column
    times: dict[str, Scalar] = field(default_factory=dict)  # microseconds of a time, by its canonical text
    loose: frozenset[str] = frozenset()  # values of which one stands for all that are equal to it, such as 0.0 for -0.0

    @classmethod
    def of(cls, columns: Mapping[str, Scalar]) -> Given:
        """The columns of these names with these values."""
        given = cls()
        for name, value in columns.items():
            given.names.setdefault(canonical(value), name)
            given._learn_time(bare(value), ColumnRef(name))
        return given

    def _learn_time(self, value: Scalar, column: ColumnRef) -> None:
        """A column may be the number of an epoch, or a time stamp as users see it."""
        if isinstance(value, Epoch):
            self.epochs.append((canonical(value.time), value.length, column.name))
        elif (stamp := stamp_of(value)) is not None:
            time, unit = stamp
            us = (
                template("epoch_us({0})", column) if unit is None else Paren(Operation("*", column, Literal(str(unit))))
            )
            self.times.setdefault(canonical(time), us)


def rewrite(value: Scalar, given: Given) -> Scalar | None:
    """The expression over the columns of a view; None where it reads something that the view does not give.

    >>> third, b = Operation("%", ColumnRef("a"), Literal("3")), ColumnRef("b")
    >>> rewrite(Operation(">", third, b), Given.of({"x": third, "y": b}))
    <"x" > "y">
    >>> rewrite(ColumnRef("a"), Given.of({"x": third})) is None
    True
    """
    found = given.names.get(canonical(value))
    if found is not None:
        return ColumnRef(found)
    if isinstance(value, ColumnRef):
        return None
    if isinstance(value, Epoch) and (coarser := _coarser_epoch(value, given)) is not None:
        return coarser
    parts: dict[str, Scalar] = {}
    for part in value.parts:
        new = rewrite(part, given)
        if new is None or (canonical(part) in given.loose and not _is_same_for_equals(value)):
            return None
        parts[part.sql] = new
    return rebuild(value, lambda part: parts[part.sql])


def _is_same_for_equals(value: Scalar) -> bool:
    """True when an expression has the same value for all values of its parts that are equal to each other."""
    if isinstance(value, Operation):
        return value.sign in MIRROR
    return isinstance(value, (Paren, In, IsNull))


def _coarser_epoch(value: Epoch, given: Given) -> Scalar | None:
    """⌊t / (n·l)⌋ = ⌊⌊t / l⌋ / n⌋: an epoch from the number of a shorter one that divides it."""
    time = canonical(value.time)
    for known, length, name in given.epochs:
        if known == time and value.length % length == 0:
            return Epoch(ColumnRef(name), value.length // length, value.type)
    return None


def rebuild(value: Scalar, part: Callable[[Scalar], Scalar]) -> Scalar:
    """The same node over other parts."""

    def renew(operand: Any) -> Any:
        if isinstance(operand, Scalar):
            return part(operand)
        if isinstance(operand, tuple) and operand and isinstance(operand[0], Scalar):
            return tuple(part(o) for o in operand)
        return operand

    return type(value)(*(renew(getattr(value, f.name)) for f in fields(value)))


def subexpressions(value: Scalar) -> Iterator[Scalar]:
    """The expression and all that it is made of."""
    yield value
    for part in value.parts:
        yield from subexpressions(part)
