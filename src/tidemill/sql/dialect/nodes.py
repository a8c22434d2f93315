"""Nodes of the query tree that SQL does not have.

`sync` and `window` are extra args of an exp.Table or exp.Subquery in FROM; Difference is allowed wherever a table is;
Now and PlanColumn are values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from sqlglot import exp

from tidemill.sql.lexical.durations import Duration

Place = tuple[int, int]
Tree = TypeVar("Tree", bound=exp.Expr)


@dataclass(frozen=True)
class Sync:
    """When an input is let through; exactly one of the three is given.

    `every` a length of time, after every `rows` rows, or `on` the time points of a view.
    `place` is the line and column of the clause.
    """

    every: Duration | None = None
    rows: int | None = None
    on: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False)

    def sql(self) -> str:
        """The clause as the parser reads it."""
        if self.on is not None:
            return f"SYNC ON {exp.to_identifier(self.on, quoted=True).sql(dialect='duckdb')}"
        return f"SYNC EVERY {self.rows} ROWS" if self.every is None else f"SYNC EVERY {self.every.sql()}"


@dataclass(frozen=True)
class WindowSpec:
    """Which part of an input counts.

    window    [WINDOW 1 HOUR]                      `size`
    landmark  [WINDOW UNTIL NOW]
    rows      [ROWS 1000 SLIDE 100]                `rows`, `slide_rows` (None: at every row)
    range     [RANGE 60 SECONDS SLIDE 1 SECOND]    `size`, `slide` (equal to size where not given)
    session   [SESSION 10 SECONDS PARTITION BY a]  `size` (the gap), `partition` (None: the keys of GROUP BY)

    As a table function, over the time in `column`; its windows are columns of the input:

    tumble    TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE)
    hop       HOP(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)       `slide`, `size`
    hopping   the same, below a grouping by its bounds
    cumulate  CUMULATE(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)  `slide` (the step), `size`
    session   SESSION(TABLE s PARTITION BY a, DESCRIPTOR(at), INTERVAL '10' SECOND)
    """

    kind: Literal["window", "landmark", "rows", "range", "session", "tumble", "hop", "hopping", "cumulate"]
    size: Duration | None = None
    slide: Duration | None = None
    rows: int | None = None
    slide_rows: int | None = None
    partition: tuple[str, ...] | None = None
    column: str | None = None
    read: frozenset[str] | None = field(default=None, compare=False, repr=False)  # columns by name; None: all
    place: Place | None = field(default=None, compare=False, repr=False)

    def around(self, table: str) -> str:
        """The table function over a table."""
        assert self.column is not None and self.size is not None
        by = f" PARTITION BY {_names(self.partition)}" if self.partition else ""
        lengths = [d.sql() for d in (self.slide, self.size) if d is not None]
        arguments = [f"TABLE {table}{by}", f"DESCRIPTOR({_names((self.column,))})", *lengths]
        return f"{self.kind.upper()}({', '.join(arguments)})"

    def sql(self) -> str:
        """The clause as the parser reads it."""
        if self.kind == "landmark":
            return "[WINDOW UNTIL NOW]"
        if self.kind == "rows":
            slide = "" if self.slide_rows is None else f" SLIDE {self.slide_rows}"
            return f"[ROWS {self.rows}{slide}]"
        assert self.size is not None
        if self.kind == "session":
            by = f" PARTITION BY {_names(self.partition)}" if self.partition else ""
            return f"[SESSION {self.size.sql()}{by}]"
        if self.kind == "window":
            return f"[WINDOW {self.size.sql()}]"
        slide = "" if self.slide is None or self.slide == self.size else f" SLIDE {self.slide.sql()}"
        return f"[RANGE {self.size.sql()}{slide}]"


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(exp.to_identifier(n, quoted=True).sql(dialect="duckdb") for n in columns)


class Now(exp.Expression, exp.Func):
    """The current time of the clock."""

    arg_types: ClassVar = {}


class PlanColumn(exp.Expression):
    """A column of the plan by its name; the binder puts it in the place of a subquery, whose value it holds."""

    arg_types: ClassVar = {"this": True}


class Difference(exp.Expression):
    """Multiset difference of two relations, `this` minus `expression`, known by the left alias."""

    arg_types: ClassVar = {"this": True, "expression": True, "joins": False, "pivots": False}

    @property
    def alias_or_name(self) -> str:
        return self.this.alias_or_name


def copy_tree(node: Tree) -> Tree:
    """A deep copy of the tree, like `node.copy()` but faster: meta data is copied shallowly, since it holds plain
    numbers only. Binding a thousand queries copies many trees.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("a + f(b, 1)")
    >>> copy_tree(tree) == tree, copy_tree(tree).this is tree.this, copy_tree(tree).this.parent is tree
    (True, False, False)
    """
    args: dict[str, Any] = {}
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            args[key] = copy_tree(value)
        elif type(value) is list:
            args[key] = [copy_tree(v) if isinstance(v, exp.Expr) else v for v in value]
        else:
            args[key] = value
    fresh = node.__class__(**args)
    if node._meta is not None:
        fresh._meta = dict(node._meta)
    if node.comments is not None:
        fresh.comments = list(node.comments)
    fresh._type, fresh._hash = node._type, node._hash
    return fresh


def children(node: Tree) -> list[Tree]:
    """The nodes right below a node: `iter_expressions` as a list, without the cost of a generator.

    >>> from sqlglot import parse_one
    >>> children(parse_one("f(b, 1) + a")) == list(parse_one("f(b, 1) + a").iter_expressions())
    True
    """
    found: list[Any] = []
    for value in node.args.values():
        if isinstance(value, exp.Expr):
            found.append(value)
        elif type(value) is list:
            found += [v for v in value if isinstance(v, exp.Expr)]
    return found


def all_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """The tree and all nodes below it, level by level: `tree.walk()` as a list, without the cost of a generator.

    >>> from sqlglot import parse_one
    >>> all_nodes(parse_one("a + f(b, 1)")) == list(parse_one("a + f(b, 1)").walk())
    True
    """
    found = [tree]
    for node in found:  # the loop appends to `found`
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                found.append(value)
            elif type(value) is list:
                found += [v for v in value if isinstance(v, exp.Expr)]
    return found
