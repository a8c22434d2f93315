"""The items of FROM of a plain SELECT, and the equalities between their columns by which rows may be left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

_KEPT_WHOLE = ("FULL", "RIGHT", "SEMI", "ANTI")  # joins of which nothing is said here


@dataclass(frozen=True)
class ItemEquality:
    """Columns of two items that are equal in joined rows. Of the items in `reduces`, rows without a partner cannot
    change the answer.
    """

    left: str
    left_columns: tuple[str, ...]
    right: str
    right_columns: tuple[str, ...]
    reduces: frozenset[str]


def joined_items(query: exp.Expression) -> list[exp.Table] | None:
    """The tables that a SELECT joins, in their order; None where something else stands in FROM, or is read elsewhere.

    >>> from sqlglot import parse_one
    >>> [t.alias_or_name for t in joined_items(parse_one("SELECT 1 FROM s AS a JOIN t ON a.k = t.k"))]
    ['a', 't']
    >>> joined_items(parse_one("SELECT 1 FROM s JOIN (SELECT 2) AS u ON TRUE")) is None
    True
    """
    if not isinstance(query, exp.Select) or query.args.get("with_") or query.args.get("laterals"):
        return None
    given = query.args.get("from_")
    items = [given.this, *(join.this for join in query.args.get("joins") or ())] if given is not None else []
    named = [i for i in items if isinstance(i, exp.Table) and isinstance(i.this, exp.Identifier)]
    columns = any(i.args.get("alias") is not None and i.args["alias"].args.get("columns") for i in named)
    if columns or len(named) < len(items) or len(list(query.find_all(exp.Table))) != len(items) or len(items) < 2:
        return None
    return named


def item_equalities(query: exp.Select) -> list[ItemEquality]:
    """The equalities of a SELECT whose items are known, those between the same two items together.

    >>> from sqlglot import parse_one
    >>> [e.reduces for e in item_equalities(parse_one("SELECT 1 FROM a LEFT JOIN b ON a.k = b.k AND a.l = b.l"))]
    [frozenset({'b'})]
    """
    joins = list(query.args.get("joins") or ())
    first = query.args["from_"].this.alias_or_name.lower()
    if any(_word(join) in _KEPT_WHOLE or join.args.get("method") for join in joins):
        return []
    optional = {join.this.alias_or_name.lower() for join in joins if _word(join) == "LEFT"}
    found: dict[tuple[str, str, bool], list[tuple[str, str]]] = {}
    known = [first]
    for join in joins:
        own = join.this.alias_or_name.lower()
        pairs = [*_pairs(join.args.get("on")), *_using(join, known, own)]
        for pair in pairs:
            _note(found, pair, own if own in optional else "", optional)
        known.append(own)
    where = query.args.get("where")
    for pair in _pairs(where.this if where is not None else None):
        _note(found, pair, "", optional)
    return [
        ItemEquality(
            a, tuple(x for x, _ in columns), b, tuple(y for _, y in columns), frozenset({b} if one else {a, b})
        )
        for (a, b, one), columns in found.items()
    ]


_Pair = tuple[tuple[str, str], tuple[str, str]]  # (item, column) twice


def _note(found: dict[tuple[str, str, bool], list[tuple[str, str]]], pair: _Pair, own: str, optional: set[str]) -> None:
    """An equality in ON of an outer join reduces its optional item; others count between items that are never NULL."""
    (a, x), (b, y) = pair
    if own:
        if own not in (a, b):
            return
        (a, x), (b, y) = ((b, y), (a, x)) if own == a else ((a, x), (b, y))
        found.setdefault((a, b, True), []).append((x, y))
    elif not {a, b} & optional:
        if (b, a, False) in found:
            (a, x), (b, y) = (b, y), (a, x)
        found.setdefault((a, b, False), []).append((x, y))


def _pairs(condition: exp.Expr | None) -> Iterator[_Pair]:
    """Equalities of two qualified columns among the conditions that AND connects."""
    if condition is None:
        return
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        node = part.unnest() if isinstance(part, exp.Paren) else part
        if isinstance(node, exp.And):
            yield from _pairs(node)
        elif isinstance(node, exp.EQ):
            left, right = node.this, node.expression
            plain = all(isinstance(c, exp.Column) and c.table and not c.args.get("db") for c in (left, right))
            if plain and left.table.lower() != right.table.lower():
                yield (left.table.lower(), left.name), (right.table.lower(), right.name)


def _using(join: exp.Join, known: list[str], own: str) -> list[_Pair]:
    """USING between two items; with more of them it is not said which one is meant."""
    columns = join.args.get("using") or ()
    return [((known[0], c.name), (own, c.name)) for c in columns] if len(known) == 1 else []


def _word(join: exp.Join) -> str:
    return str(join.args.get("side") or join.args.get("kind") or "").upper()
