"""Ad hoc queries that name a stream: its rows are read from a view that has seen all of them and contains those asked.

`SELECT a FROM Stream WHERE b > 5` becomes `SELECT a FROM (SELECT … FROM view WHERE …) WHERE b > 5`; the subquery has
the columns that the query reads, and at least the rows that satisfy its conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from sqlglot import exp, parse_one

from tidemill.engine.settings.zones import USUAL
from tidemill.engine.statements.adhoc import check_expressions
from tidemill.engine.statements.moment import read_time
from tidemill.engine.views.contents import known_from
from tidemill.engine.views.history import began_later
from tidemill.engine.views.virtual_tables import Definitions, VirtualTables
from tidemill.engine.workload import Workload
from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import quoted
from tidemill.plan.statements import AsOf
from tidemill.runtime.views.moments import read_standings
from tidemill.runtime.views.stand_ins import read_stand_ins
from tidemill.runtime.views.store import ViewStore
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.subqueries.forms import has_subquery
from tidemill.sql.bind.unnest import is_unnest
from tidemill.sql.bind.windows import conjuncts
from tidemill.sql.scopes import outside_tables, read_columns

_PLAIN = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is, exp.And, exp.Or, exp.Not),
)


def names_streams(query: exp.Expression, workload: Workload) -> bool:
    """Whether a query may read a stream, itself or through virtual views; all of their names count."""
    names = VirtualTables(workload, check_expressions).all_names(query)
    entries = (workload.catalog.entries.get(name) for name in names)
    return any(entry is not None and entry.kind == "stream" for entry in entries)


def definitions_over_views(
    queries: Iterable[exp.Expression], workload: Workload, store: ViewStore, as_of: AsOf | None, zone: str
) -> Definitions:
    """The virtual views that ad hoc queries read, with views in the place of the streams that they read."""
    found: dict[str, exp.Expression] = {}

    def visit(query: exp.Expression, virtual: VirtualTables) -> None:
        for table in outside_tables(query):
            definition = virtual.definition(table)
            if definition is not None:
                with virtual.errors_at(table):
                    read_streams_from_views(definition, workload, store, as_of, zone)
                    visit(definition, virtual)
                found[table.name.lower()] = definition

    for query in queries:
        visit(query, VirtualTables(workload, check_expressions))
    return found


def read_streams_from_views(
    query: exp.Expression, workload: Workload, store: ViewStore, as_of: AsOf | None, zone: str
) -> None:
    """Put a subquery over a view in the place of each stream; TM215 where no view contains what is asked."""
    unfit = _find_unfit(workload, store, as_of)
    for table in outside_tables(query):
        entry = workload.catalog.entries.get(table.name.lower())
        if entry is not None and entry.kind == "stream" and isinstance(table.this, exp.Identifier):
            _replace(table, workload, unfit, zone)


def _find_unfit(workload: Workload, store: ViewStore, as_of: AsOf | None) -> dict[str, str]:
    """The ids of views that do not have the rows of their streams, now or as of the time that is named, with why."""
    metas = store.metas()
    standings = read_standings(metas, [view.entry.id for view in workload.views.values()])
    found = dict.fromkeys(read_stand_ins(metas), "it has not taken over from the view that it replaces yet")
    for view in workload.views.values():
        standing = standings.get(view.entry.id)
        if view.entry.id in found:
            continue
        if standing is None or not standing.has_begun:
            if began_later(view.node):
                found[view.entry.id] = "it has not caught up with its streams yet"
        elif as_of is not None and as_of.value is not None and not standing.is_static:
            with suppress(PlanProblem):  # no time of this view
                time, first = read_time(as_of, view.stored.stamp_type, workload.unit_us), known_from(view.node)
                if first is None:
                    found[view.entry.id] = "since when it has what another view held is not kept"
                elif time < first:
                    found[view.entry.id] = "it began with what was there at a later time"
                elif not standing.reaches(time + 1):
                    found[view.entry.id] = "what it has shown since that time is not kept"
    return found


def _replace(table: exp.Table, workload: Workload, unfit: Mapping[str, str], zone: str) -> None:
    select = table.find_ancestor(exp.Select)
    name = table.name
    if (
        select is None
        or not all(is_unnest(join.this) for join in select.args.get("joins") or ())
        or table.find_ancestor(exp.From, exp.Join) is not select.args["from_"]
    ):
        raise _no_answer(table, "a query that reads a stream from a view reads nothing else beside it")
    wanted = _rows_asked(select, table, workload, zone)
    try:
        found = workload.answering.find_stored(workload.bind(wanted).node, unfit)
    except PlanProblem as error:
        raise _no_answer(table, f"its conditions: {error.message}") from None
    if isinstance(found, str):
        raise _no_answer(table, found)
    view, node = found
    rows = _select_text(view, node)
    if rows is None:
        raise _no_answer(table, f"{view}: a window is needed")
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    table.replace(exp.Subquery(this=parse_one(rows, dialect="duckdb"), alias=alias))


def _rows_asked(select: exp.Select, table: exp.Table, workload: Workload, zone: str) -> exp.Expression:
    """SELECT of the columns that the query reads, of the rows that it may use.

    Conditions with subqueries, those that read an outer row, and those that may depend on a zone that is not UTC, in
    which views are computed, are evaluated by the query itself.
    """
    types = {column.name: column.type for column in workload.bind(exp.select("*").from_(table.copy())).schema}
    known = list(types)
    columns = read_columns(select, table, [*known, "TS"] if "ts" not in map(str.lower, known) else known)
    if any(isinstance(n, exp.Star) and not isinstance(n.parent, exp.Count) for n in select.walk()):
        columns = known
    source = table.copy()
    made = exp.Select().select(*(exp.column(exp.to_identifier(c, quoted=c != "TS")) for c in columns or known[:1]))
    made = made.from_(source)
    for condition in conjuncts(select.args.get("where")):
        if zone != USUAL and not _is_without_zone(condition, types):
            continue
        if not has_subquery(condition) and _reads_only(condition, table, [*known, "TS"]):
            made = made.where(condition.copy())
    return made


def _is_without_zone(condition: exp.Expr, types: Mapping[str, str]) -> bool:
    """Whether a condition says the same in all time zones: it compares plain columns and constants, none of which is
    a time with a zone.
    """
    zoned = {name.lower() for name, kind in types.items() if "TIMESTAMPTZ" in kind or "TIME ZONE" in kind}
    return all(
        isinstance(node, _PLAIN) and not (isinstance(node, exp.Column) and node.name.lower() in zoned)
        for node in condition.walk()
    )


def _reads_only(condition: exp.Expr, table: exp.Table, columns: list[str]) -> bool:
    """Whether a condition is about the rows of a table alone; one of a subquery may also read rows around it."""
    known = {column.lower() for column in columns}
    return all(
        c.table.lower() == table.alias_or_name.lower() if c.table else c.name.lower() in known
        for c in condition.find_all(exp.Column)
    )


def _select_text(view: str, node: r.Relation) -> str | None:
    """A projection over a selection over a view as SQL; None where it is more than that."""
    assert isinstance(node, r.Project)
    below = node.input
    where = ""
    if isinstance(below, r.Filter):
        where, below = f" WHERE {below.predicate.sql}", below.input
    if isinstance(below, r.Temporal):
        return None
    shown = ", ".join(f"{item.sql} AS {quoted(item.name)}" for item in node.items)
    return f"SELECT {shown} FROM {quoted(view)}{where}"


def _no_answer(table: exp.Table, why: str) -> PlanProblem:
    return problem(
        f'"{table.name}" is a stream, and no view that has seen all of its rows contains what is asked',
        table,
        code="TM215",
        detail=why,
        hint=f"CREATE COMPLETE VIEW … AS SELECT * FROM {table.name}, or SELECT STREAMED …",
    )
