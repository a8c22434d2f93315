"""Window functions and QUALIFY: over the rows of FROM and WHERE, or over the groups of GROUP BY and HAVING.

Project[items]                       what is selected
  Filter[qualify]
    Ranked, WindowFunctions …        one node for each different OVER
      Project[columns, arguments]    what all of it reads: the columns by which rows of equal order are ordered
        FROM, WHERE, GROUP BY, HAVING
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Chain, ColumnRef, Literal, Operation, Paren, Scalar, When, quoted
from tidemill.plan.sort_keys import SortKey, complete_order
from tidemill.plan.sources import Column, Schema
from tidemill.plan.window_calls import FRAMELESS, RANKS, VALUES, WindowCall
from tidemill.sql.bind.projection import find_surviving_keys, make_unique
from tidemill.sql.bind.scalar import Bound, Scalars, cast_null_column, types_of
from tidemill.sql.bind.scope import Field, Input, Scope, problem
from tidemill.sql.bind.stars import star_items, star_of
from tidemill.sql.bind.window_syntax import Call, ends_here, find_windows, operands, read_call, read_frame

_SKIPPING = ("lag", "lead", *VALUES)  # functions that may skip NULLs
_PAIRS = "arg_max arg_min max_by min_by string_agg group_concat listagg quantile quantile_cont quantile_disc corr"
_MOST_ARGUMENTS = {"lag": 3, "lead": 3, **dict.fromkeys(["nth_value", *_PAIRS.split()], 2)}
_Over = tuple[tuple[str, ...], tuple[SortKey, ...]]  # partition and order


@dataclass(frozen=True)
class _Rank:
    """A ranking function that is a node of its own."""

    over: _Over
    function: r.RankFunction
    name: str


def bind_windows(select: exp.Select, scope: Scope) -> tuple[Relation, tuple[str, ...] | None]:
    """The relation of a SELECT with window functions, and its key. Its items have names, its windows are resolved."""
    return _Windows(select, scope).bind()


class _Windows:
    def __init__(self, select: exp.Select, scope: Scope) -> None:
        self.select, self.scope = select, scope
        self.scalars = Scalars(scope)
        self.computed: dict[str, Item] = {}  # columns that are expressions, by SQL
        self.read: set[str] = set()  # columns of the scope that are read
        self.calls: dict[_Over, list[WindowCall]] = {}
        self.ranks: list[_Rank] = []
        self.results: dict[str, Column] = {}  # by the text of the call

    def bind(self) -> tuple[Relation, tuple[str, ...] | None]:
        qualify = self.select.args.get("qualify")
        roots = [*self.select.expressions, *([qualify] if qualify is not None else [])]
        limited = {id(w) for w in find_windows(qualify)} if qualify is not None else set()
        for window in [w for root in roots for w in find_windows(root)]:
            column = self._bind_window(window, id(window) in limited)
            window.replace(exp.column(column.name, quoted=True))
        if qualify is not None and not any(c.name in self.results_in(qualify) for c in self.results.values()):
            raise problem(
                "QUALIFY needs a window function",
                self.select,
                code="TM246",
                hint="conditions on rows belong into WHERE",
            )
        above = self._scope_above()
        items = self._bind_items(above)
        test = Scalars(above, self._schema()).predicate(qualify.this) if qualify is not None else None
        for value in (*(i.value for i in items), *([test] if test is not None else [])):
            self.read |= value.columns
        node = self._stack(self._project())
        keys = find_surviving_keys(self.scope, items)
        keys = self._rank_keys(items, test) if keys is None else keys
        return r.Project(node if test is None else r.Filter(node, test), tuple(items)), keys

    def results_in(self, root: exp.Expression) -> set[str]:
        return {c.name for c in root.find_all(exp.Column)}

    # ---- one call ------------------------------------------------------------------------------

    def _bind_window(self, window: exp.Window, limits: bool) -> Column:
        if any(True for part in operands(window) for _ in find_windows(part)):
            raise problem(
                "a window function inside another is not possible",
                window,
                code="TM246",
                hint="compute the inner one in a subquery in FROM",
            )
        text = window.sql(dialect="duckdb")
        if text not in self.results:
            over = self._bind_over(window)
            name = f"__f{len(self.results)}"
            call = self._bind_call(window, over, name)
            self.results[text] = Column(name, call.type)
            self.calls.setdefault(over, []).append(call)
        found = self.results[text]
        if limits:
            self._rank_alone(found.name)
        return found

    def _rank_alone(self, name: str) -> None:
        """A rank that QUALIFY limits is a node of its own, on top of the others."""
        for over, calls in self.calls.items():
            call = next((c for c in calls if c.name == name and c.function in RANKS), None)
            if call is not None:
                calls.remove(call)
                self.ranks.append(_Rank(over, call.function, name))  # type: ignore[arg-type]  # one of RANKS

    def _bind_over(self, window: exp.Window) -> _Over:
        partition = [self._column(e) for e in window.args.get("partition_by") or ()]
        order: dict[str, SortKey] = {}
        clause = window.args.get("order")
        for ordered in clause.expressions if clause is not None else ():
            if isinstance(ordered.this, (exp.Var, exp.Collate)) or ordered.args.get("with_fill"):
                raise problem(
                    "the order of a window is one of columns and expressions, ASC or DESC, NULLS FIRST or LAST",
                    window,
                    code="TM246",
                    hint="for case-insensitive order  ORDER BY lower(name)",
                )
            name = self._column(ordered.this)
            if name is not None and name not in partition:
                down, first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
                order.setdefault(name, SortKey(name, down, first))
        return tuple(dict.fromkeys(p for p in partition if p is not None)), tuple(order.values())

    def _column(self, node: exp.Expression) -> str | None:
        """The column that has an expression; None for a constant, which neither divides nor orders rows."""
        bound = self.scalars.bind(node)
        return self._name_of(bound) if bound.value.columns else None

    def _name_of(self, bound: Bound) -> str:
        if isinstance(bound.value, ColumnRef):
            self.read.add(bound.value.name)
            return bound.value.name
        if bound.sql not in self.computed:
            column = cast_null_column(bound)
            self.computed[bound.sql] = Item(f"__w{len(self.computed)}", column.value, column.type)
        return self.computed[bound.sql].name

    def _bind_call(self, window: exp.Window, over: _Over, name: str) -> WindowCall:
        found = read_call(window)
        # Ranks and neighbours are those of the partition, whatever the frame: that of a named window may be for others.
        frame = None if found.name in FRAMELESS else read_frame(window)
        self._check(found, window)
        arguments, distinct = self._bind_arguments(found, window)
        call = WindowCall(
            name,
            "",
            found.name,
            arguments,
            distinct,
            found.ignore_nulls and found.name in _SKIPPING,  # any_value skips them by itself
            frame,
            _looks_back(found.name, arguments, bool(over[1]) if frame is None else ends_here(frame, bool(over[1]))),
        )
        names = [c.name for c in self._schema()]
        text = call.sql([quoted(p) for p in over[0]], over[1], complete_order(over[1], names, over[0]))
        try:
            return replace(call, type=types_of([text], self._schema())[0])
        except PlanProblem as error:
            raise problem(error.message, window, code="TM203", hint=error.hint) from None

    def _check(self, call: Call, window: exp.Window) -> None:
        wrong = ""
        if call.ignore_nulls and call.name not in (*_SKIPPING, "any_value"):
            wrong = "does not skip NULLs"
        elif call.condition is not None and call.name in (*FRAMELESS, *VALUES):
            wrong = "has no FILTER"
        elif call.node.find(exp.Order) is not None or call.node.args.get("from_first") is False:
            wrong = "has no order of its own"
        if wrong:
            hint = "leave that out; the order and the frame of aggregates stand behind OVER"
            raise problem(f"{call.name} {wrong}", window, code="TM246", hint=hint)

    def _bind_arguments(self, call: Call, window: exp.Window) -> tuple[tuple[str, ...], bool]:
        """(arguments as columns and constants, whether they are DISTINCT)."""
        given = list(call.node.iter_expressions())
        distinct = bool(given) and isinstance(given[0], exp.Distinct)
        if distinct:
            given = list(given[0].expressions)
        if given and isinstance(given[0], exp.Star):
            given = []
        most = _MOST_ARGUMENTS.get(call.name, 0 if call.name in RANKS else 1)
        if len(given) > most:
            raise problem(
                f"{call.name} takes {most or 'no'} argument{'s' if most > 1 else ''}",
                window,
                code="TM246",
                hint="leave out the others",
            )
        bounds = [self.scalars.bind(g) for g in given]
        if call.condition is not None:
            test = self.scalars.predicate(call.condition)
            value = bounds[0] if bounds else Bound(Literal("1"), "INTEGER")
            bounds = [Bound(When(test, value.value), value.type)]
        return tuple(quoted(self._name_of(b)) if b.value.columns else b.sql for b in bounds), distinct

    # ---- the relation --------------------------------------------------------------------------

    def _schema(self) -> Schema:
        """Columns that the window functions read, and their results."""
        computed = (Column(i.name, i.type) for i in self.computed.values())
        return (*self.scope.node.schema, *computed, *self.results.values())

    def _scope_above(self) -> Scope:
        results = tuple(Field(c.name, c.name, c.type) for c in self.results.values())
        return replace(self.scope, inputs=[*self.scope.inputs, Input("", self.scope.node, results, None, None, None)])

    def _bind_items(self, above: Scope) -> list[Item]:
        scalars, items = Scalars(above, self._schema()), list[Item]()
        for expression in self.select.expressions:
            if star_of(expression) is not None:
                items += star_items(expression, self.scope) or []
            else:
                bound = cast_null_column(scalars.bind(expression.this))
                items.append(Item(expression.alias, bound.value, bound.type))
        return make_unique(items, self.select)

    def _project(self) -> Relation:
        plain = [Item.of(c) for c in self.scope.node.schema if c.name in self.read]
        items = (*plain, *self.computed.values())
        return r.Project(self.scope.node, items or (Item("__one", Literal("1"), "INTEGER"),))

    def _stack(self, node: Relation) -> Relation:
        """The windows one over the other; ranks come last, since a condition on the topmost one is a limit."""
        for over, calls in self.calls.items():
            if len(calls) == 1 and calls[0].function in RANKS:
                rank = _Rank(over, calls[0].function, calls[0].name)  # type: ignore[arg-type]  # one of RANKS
                self.ranks.insert(0, rank)
            elif calls:
                node = r.WindowFunctions(node, *over, tuple(calls))
        for rank in self.ranks:
            node = r.Ranked(node, *rank.over, rank.function, name=rank.name)
        return node

    def _rank_keys(self, items: list[Item], test: Scalar | None) -> tuple[str, ...] | None:
        """A partition and a row number identify a row; the partition alone where only the first row is left."""
        shown = {i.value.name: i.name for i in reversed(items) if isinstance(i.value, ColumnRef)}
        rows = [(k, c.name) for k, calls in self.calls.items() for c in calls if c.function == "row_number"]
        rows += [(rank.over, rank.name) for rank in self.ranks if rank.function == "row_number"]
        for (partition, _), name in rows:
            wanted = partition if _is_first(test, name) else (*partition, name)
            if all(column in shown for column in wanted):
                return tuple(shown[column] for column in wanted)
        return None


def _looks_back(function: str, arguments: tuple[str, ...], frame: bool) -> bool:
    """True when no row behind the current one and its peers matters; `frame`: the frame has none of them."""
    if function in RANKS:
        return True
    if function == "lag":
        return len(arguments) < 2 or arguments[1].isdigit()
    return frame and function not in FRAMELESS


def _is_first(test: Scalar | None, name: str) -> bool:
    """True when a condition leaves only the rows whose number is 1."""
    while isinstance(test, Paren):
        test = test.value
    if isinstance(test, Chain) and test.word == "AND":
        return any(_is_first(t, name) for t in test.conditions)
    if not isinstance(test, Operation) or test.left != ColumnRef(name):
        return False
    return (test.sign, test.right.sql) in (("=", "1"), ("<=", "1"), ("<", "2"))
