"""How much work a function with a lambda may do for one row: bounded where it is called, as lengths are (`lengths`).

A text that is joined to itself at every element of a list doubles each time, a lambda within a lambda is evaluated for
each pair of elements, and one that reads a column copies it for each element. A row for which that is too much becomes
a dead letter before the work begins.

    list_reduce(l, lambda x, y: b)     →  list_reduce(l, lambda x, y: CASE WHEN x is long THEN error(…) ELSE b END)
    list_transform(l, lambda x: … s …)
      →  list_transform(CASE WHEN len(l) * strlen(s) > most THEN error(…) ELSE l END, lambda x: … s …)
    list_transform(l, lambda x: … list_filter(m, lambda y: c) …)
      →  the same, with len(l) * len(m)

A list within a list of which all parts are visited once, as in `lambda x: list_transform(x, lambda y: c)`, is as much
work as the row is long, and is not tested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from tidemill.sql.bind.lengths import MOST_BYTES, MOST_NESTED, MOST_STEPS, guard, sql_of
from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import PlanColumn, children

MOST_CALLS = 1 << 24  # of a lambda within another: a second
MOST_COPIED = 1 << 30  # bytes that a reduction writes, one step after the other: half a second
_STEP = "__step"
TypeOf = Callable[[str], str]


@dataclass(frozen=True)
class _Call:
    """A call of a function over the elements of a list."""

    node: exp.Expression
    body: exp.Lambda

    @property
    def list(self) -> exp.Expression:
        if self.whole is not self.node:
            return self.whole.this
        return self.node.expressions[0] if isinstance(self.node, exp.Anonymous) else self.node.this

    @property
    def whole(self) -> exp.Expression:
        """The call with its list, which may be before a dot: l.list_filter(lambda x: x > 0)."""
        above = self.node.parent
        return above if isinstance(above, exp.Dot) and self.node.arg_key == "expression" else self.node

    @property
    def reduces(self) -> bool:
        return len(self.body.expressions) > 1 and self.node.name.lower() in ("list_reduce", "array_reduce", "reduce")

    @property
    def first(self) -> str:
        """The name of what the first argument of the lambda is known by in it."""
        return sql_of(self.body.expressions[0])


def guard_lambdas(node: exp.Expression, type_of: TypeOf) -> exp.Expression:
    """The expression with tests of the work of its lambdas; `node` is translated, `type_of` as for `guard_length`."""
    _guard_below(node, type_of, inside=False)
    return node


def _guard_below(node: exp.Expr, type_of: TypeOf, inside: bool) -> int:
    """Guard the calls in a tree; how many guarded calls are within each other."""
    call = _call(node)
    # What a test is about is looked at before other tests are written into it.
    tests = [] if call is None or inside else list(_tests(call, type_of))
    deep = max((_guard_below(n, type_of, inside or n is (call and call.body)) for n in children(node)), default=0)
    if call is None:
        return deep
    if call.reduces:
        _guard_reduction(call, "" if inside else type_of(sql_of(call.whole)))
        deep += 1
    if tests:
        call.list.replace(guard(" OR ".join(tests), call.list))
        deep += 1
    if deep > MOST_NESTED:
        raise problem(
            "functions with lambdas are nested too deeply",
            call.node,
            code="TM621",
            hint=f"at most {MOST_NESTED} within each other",
        )
    return deep


def _tests(call: _Call, type_of: TypeOf) -> Iterator[str]:
    """Conditions under which a call that is in no lambda is too much work."""
    sizes = [s for s in (_size(column, type_of(column)) for column in _columns(call.body)) if s]
    if sizes:
        yield f"{_product(_count(call), _sum(sizes))} > {MOST_STEPS}"
    inner = [c for c in _calls_below(call.body) if not _is_linear(call, c)]
    if inner:
        whole = _size(sql_of(call.list), type_of(sql_of(call.list)))
        around = _sum([*sizes, *([whole] if any(_parameters(call, c) for c in inner) and whole else [])])
        depth = max(_depth(c) for c in inner)
        # Where only parts of the element are visited, what is counted is bytes, of which few are read each time.
        most = MOST_STEPS if depth == 1 and all(_is_part(c.list, call.first) for c in inner) else MOST_CALLS
        yield f"{_product(_count(call), *[around] * depth)} > {most}"


def _guard_reduction(call: _Call, kind: str) -> None:
    """Test what a reduction has made so far in every step, before the next one makes more of it."""
    size = _size(call.first, kind) if kind else f"strlen(CAST({call.first} AS VARCHAR))"
    if size is None:
        return
    if len(call.body.expressions) == 2:  # by the number of the step: the list itself would be made anew in each one
        call.body.append("expressions", exp.to_identifier(_STEP))
    step = sql_of(call.body.expressions[2])
    test = f"{size} > {MOST_BYTES} OR {_product(size, step)} > {MOST_COPIED}"
    call.body.set("this", guard(test, call.body.this))


def _is_linear(outer: _Call, inner: _Call) -> bool:
    """Whether a call within a lambda goes through a part of the element, and reads nothing else.

    Over all elements, these are as many steps as the outer list has parts.
    """
    own = {sql_of(n) for n in inner.body.expressions}
    read = set(_names(inner.node)) - own
    return (
        not outer.reduces
        and _is_part(inner.list, outer.first)
        and read <= {outer.first}
        and not (outer.first in _names(inner.body.this) or _depth(inner) > 1 or list(_columns(inner.node)))
    )


def _is_part(node: exp.Expr, name: str) -> bool:
    """Whether an expression is a name, or a field or element of it."""
    while isinstance(node, (exp.Dot, exp.Bracket, exp.Paren)):
        node = node.this
    return isinstance(node, (exp.Identifier, exp.Column)) and sql_of(node) == name


def _parameters(outer: _Call, inner: _Call) -> bool:
    """Whether the list of a call within a lambda depends on the arguments of the lambda."""
    return not {sql_of(n) for n in outer.body.expressions}.isdisjoint(_names(inner.list))


def _depth(call: _Call) -> int:
    return 1 + max((_depth(c) for c in _calls_below(call.body)), default=0)


def _call(node: exp.Expr) -> _Call | None:
    found = [n for n in children(node) if isinstance(n, exp.Lambda)]
    return _Call(node, found[0]) if found and isinstance(node, exp.Expression) else None


def _calls_below(node: exp.Expr) -> Iterator[_Call]:
    """The outermost calls in a lambda."""
    for child in children(node):
        call = _call(child)
        if call is not None:
            yield call
        else:
            yield from _calls_below(child)


def _columns(node: exp.Expr) -> list[str]:
    """Columns of the row that an expression reads, each once.

    Tests of lengths inside a lambda have its arguments as columns. Those of the row are quoted.
    """
    arguments = {sql_of(a) for found in node.root().find_all(exp.Lambda) for a in found.expressions}
    return [s for s in dict.fromkeys(sql_of(n) for n in node.find_all(exp.Column, PlanColumn)) if s not in arguments]


def _names(node: exp.Expr) -> list[str]:
    """Names in an expression, without those of fields."""
    return [sql_of(n) for n in node.find_all(exp.Identifier) if not _is_field(n)]


def _is_field(name: exp.Expr) -> bool:
    return isinstance(name.parent, exp.Dot) and name.arg_key != "this"


def _count(call: _Call) -> str:
    return f"len({sql_of(call.list)})"


def _size(sql: str, kind: str) -> str | None:
    """SQL of how much a value is; None for one of fixed size."""
    if kind in ("VARCHAR", "BLOB"):
        return f"strlen({sql})" if kind == "VARCHAR" else f"octet_length({sql})"
    has_texts = re.search(r"VARCHAR|BLOB|JSON|MAP|UNION", kind) is not None
    if not has_texts and "[" not in kind:
        return None
    return f"len({sql})" if not has_texts and re.fullmatch(r"[^\[]*\[\d*\]", kind) else _deep(sql)


def _deep(sql: str) -> str:
    return f"strlen(CAST({sql} AS VARCHAR))"


def _sum(sizes: list[str]) -> str:
    """A sum in which a missing value counts nothing."""
    return "(" + " + ".join(["1", *(f"coalesce({s}, 0)" for s in sizes)]) + ")"


def _product(*factors: str) -> str:
    return " * ".join(f"CAST({f} AS DOUBLE)" for f in factors)
