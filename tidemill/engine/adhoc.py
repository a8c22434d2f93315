"""Ad hoc SELECT over stored views and tables: parsed, checked, names replaced, then answered by DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one

from tidemill.engine.workload import Workload
from tidemill.errors import PlanProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.connector import arrow_schema, open_connector
from tidemill.runtime.views import DEAD_LETTERS, ViewStore
from tidemill.sql.bind.functions import aggregate_name, allowed
from tidemill.sql.bind.scalar import stamp_sql
from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect_nodes import Difference, Now

_STRUCTURE = (
    exp.Select, exp.SetOperation, exp.Subquery, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order,
    exp.Ordered,
    exp.Limit, exp.Offset, exp.With, exp.CTE, exp.TableAlias, exp.Table, exp.Window, exp.WindowSpec, exp.Exists,
    exp.Filter,
    exp.Any, exp.All, exp.Tuple, exp.Qualify, exp.Fetch,
)
_WINDOWED = {"rownumber", "rank", "denserank", "lag", "lead", "firstvalue", "lastvalue", "ntile", "percentrank",
             "median",
             "quantile", "arrayagg", "stringagg", "groupconcat", "anyvalue", "argmax", "argmin", "countif", "list",
             "percent_rank", "cumedist", "percentilecont", "percentiledisc", "approxdistinct",
             "logicaland", "logicalor"}


def answer(query: exp.Expression, workload: Workload, store: ViewStore, clock: int | None, folder: str) -> pa.Table:
    """Run one ad hoc query; what it may read is COMPLETE and RSTREAM views, tables and dead_letters."""
    query = query.copy()
    _check(query)
    with store.reading() as duck:
        tables = _replace_names(query, workload, store, duck, folder)
        for node in list(query.find_all(Now)):
            node.replace(parse_one(stamp_sql(str(clock or 0), "timestamp", workload.unit_us), dialect="duckdb"))
        for name, table in tables.items():
            duck.register(name, table)
        try:
            return duck.sql(query.sql(dialect="duckdb")).to_arrow_table()
        except duckdb.Error as error:
            message = str(error).split("\n")[0]
            raise PlanProblem("TM203", message.partition(": ")[2] or message,
                              hint="DESCRIBE name shows the columns") from None


def _check(query: exp.Expression) -> None:
    for node in query.walk():
        windowed = isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("window")
        if isinstance(node, Difference) or node.args.get("sync") or windowed:
            raise problem("SYNC, windows and differences belong to standing queries", node, code="TM214",
                          hint="create a view, or use SELECT STREAMED …")
        known = isinstance(node, (*_STRUCTURE, Now)) or allowed(node) or aggregate_name(node) or node.key in _WINDOWED
        if not known:
            name = node.name if isinstance(node, exp.Anonymous) else node.key
            raise problem(f'"{name}" is not part of the language', node, code="TM207",
                          hint="the language reference lists all functions")


def _replace_names(query: exp.Expression, workload: Workload, store: ViewStore, duck: duckdb.DuckDBPyConnection,
                   folder: str) -> dict[str, pa.Table]:
    local = {c.alias.lower() for c in query.find_all(exp.CTE)}
    tables: dict[str, pa.Table] = {}
    for node in list(query.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
            raise problem("only views and tables can be read", node, code="TM202", hint="SHOW VIEWS lists them")
        if node.name.lower() in local:
            continue
        inner = parse_one(_relation(node, workload, store, duck, tables, folder), dialect="duckdb")
        alias = node.alias or node.name
        node.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
                                  joins=node.args.get("joins")))
    return tables


def _relation(node: exp.Table, workload: Workload, store: ViewStore, duck: duckdb.DuckDBPyConnection,
              tables: dict[str, pa.Table], folder: str) -> str:
    if node.name.lower() == DEAD_LETTERS:
        return "SELECT * FROM dead_letters"
    place = problem("", node)
    entry = workload.catalog.find(node.name, line=place.line, column=place.column)
    if entry.kind == "table":
        assert entry.spec is not None
        tables[f"static {entry.name}"] = read_table(entry.spec, folder)
        return f'SELECT * FROM "static {entry.name}"'
    view = workload.views.get(entry.name.lower())
    if view is None or view.stored.output == "streamed":
        what = "STREAMED view" if view else entry.kind
        raise problem(f'"{entry.name}" is a {what}: it has no stored answer to read', node,
                      code="TM215", hint=f"CREATE COMPLETE VIEW … AS SELECT * FROM {entry.name}, or SELECT STREAMED …")
    return store.relation_sql(view.stored, duck)


def read_table(spec: SourceSpec, folder: str) -> pa.Table:
    """All rows of a static table."""
    connector: Any = open_connector(spec, folder)
    names = [c.name for c in spec.columns]
    start, pieces = connector.initial(), []
    while True:
        progress = connector.latest(start, None, False, 0)
        for piece in connector.split(start, progress.end, 1):
            pieces += [chunk.rows.select(names) for chunk in connector.read(piece)]
        if progress.exhausted:
            return pa.concat_tables(pieces) if pieces else arrow_schema(spec.columns).empty_table()
        start = progress.end
