"""Ad hoc SELECT over stored views and tables: parsed, checked, and answered by DuckDB in a process of its own.

Three barriers, each of which suffices alone: only expressions of the language are allowed; every table name is looked
up by scope and replaced by the name of an input; and the process that answers can read nothing but these inputs.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one

from tidemill.engine.settings.zones import USUAL
from tidemill.engine.statements.moment import Asked, ReadMoment, choose_moment
from tidemill.engine.views.virtual_tables import Definitions, VirtualTables
from tidemill.engine.workload import Workload
from tidemill.interrupts import Cancellation, plain_interrupts
from tidemill.plan.relations import quoted
from tidemill.plan.sources import SourceSpec
from tidemill.plan.statements import Select
from tidemill.runtime.sandbox import pool
from tidemill.runtime.sandbox.pool import Deadline, Inputs, Limits
from tidemill.runtime.sources.connector import arrow_schema
from tidemill.runtime.sources.registry import open_connector
from tidemill.runtime.views import stand_ins
from tidemill.runtime.views.moments import METAS
from tidemill.runtime.views.past import Past
from tidemill.runtime.views.store import DEAD_LETTERS, ViewStore
from tidemill.sql.bind.functions import aggregate_name, hint_for, is_allowed, name_in_sql
from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import Difference, Now
from tidemill.sql.scopes import outside_tables, plain_conditions, read_columns

_STRUCTURE = (
    exp.Select,
    exp.SetOperation,
    exp.Subquery,
    exp.From,
    exp.Join,
    exp.Where,
    exp.Group,
    exp.Having,
    exp.Order,
    exp.Ordered,
    exp.Limit,
    exp.Offset,
    exp.With,
    exp.CTE,
    exp.TableAlias,
    exp.Table,
    exp.Window,
    exp.WindowSpec,
    exp.Exists,
    exp.Filter,
    exp.Any,
    exp.All,
    exp.Tuple,
    exp.Qualify,
    exp.Fetch,
    exp.LimitOptions,
    exp.IgnoreNulls,
    exp.RespectNulls,
    exp.WithinGroup,
    exp.Unnest,
    exp.Explode,
    exp.Values,
)
_WINDOWED = {
    "rownumber",
    "rank",
    "denserank",
    "lag",
    "lead",
    "firstvalue",
    "lastvalue",
    "nthvalue",
    "first",
    "last",
    "ntile",
    "percentrank",
    "median",
    "quantile",
    "arrayagg",
    "stringagg",
    "groupconcat",
    "anyvalue",
    "argmax",
    "argmin",
    "countif",
    "list",
    "percent_rank",
    "cumedist",
    "percentilecont",
    "percentiledisc",
    "approxdistinct",
    "logicaland",
    "logicalor",
}
_ROWS = "__rows"  # the only column of an input whose rows are just counted


def answer(
    selects: Sequence[Select],
    workload: Workload,
    store: ViewStore,
    clock: int | None,
    folder: str,
    limits: Limits,
    cancellation: Cancellation | None = None,
    shape_only: bool = False,
    definitions: Definitions | None = None,
    zone: str = USUAL,
) -> list[pa.Table]:
    """Run ad hoc queries, all as of one moment; what they may read is COMPLETE and RSTREAM views, tables and
    dead_letters. AS OF of the first one holds for all of them. `shape_only`: over no rows, for the columns.
    `definitions`: of virtual views, where they are not to be read as they are written. `zone`: in which they compute.
    """
    queries = [select.query.copy() for select in selects]
    for query in queries:
        check_expressions(query)
        _name_columns(query)
    deadline = Deadline(limits.seconds, cancellation)
    with ExitStack() as opened, plain_interrupts():
        inputs = []
        for _ in queries:
            inputs.append(Inputs(folder, limits.bytes, deadline))
            opened.callback(inputs[-1].close)
        with store.reading() as duck, _interrupt_at(duck, deadline):
            virtual = [VirtualTables(workload, check_expressions, definitions) for _ in range(2 * len(queries))]
            tables = [found for query in queries for found in _tables_read(query, virtual.pop())]
            moment, waiting = _choose_moment(tables, selects[0], workload, store, duck)
            for query, own in zip(queries, inputs, strict=True):
                _Leaves(workload, store, duck, own, moment, waiting, shape_only).replace(query, virtual.pop())
        answers = []
        for query, own in zip(queries, inputs, strict=True):
            for node in list(query.find_all(Now)):
                node.replace(parse_one(f"make_timestamp({moment.now(clock)})", dialect="duckdb"))
            found = pool.answer(query.sql(dialect="duckdb"), own, limits, deadline, zone)
            answers.append(moment.mark(found, workload.unit_us))
        return answers


def _choose_moment(
    tables: Sequence[tuple[str, exp.Table]],
    select: Select,
    workload: Workload,
    store: ViewStore,
    duck: duckdb.DuckDBPyConnection,
) -> tuple[ReadMoment, Collection[str]]:
    """The moment of all views that the queries read, from what the last batch stored with them; and the views in whose
    place is read what they have replaced, unless the query names a time.
    """
    asked: dict[str, Asked] = {}
    for name, node in tables:
        view = workload.views.get(name)
        if view is not None:
            place = problem("", node)
            asked.setdefault(view.entry.id, Asked(view, (place.line or 1, place.column or 1)))
    metas = store.read_metas((*METAS, stand_ins.META), duck) if asked else {}
    named = select.as_of is not None and select.as_of.value is not None
    waiting = {} if named else stand_ins.read_stand_ins(metas)
    asked = {view: found for view, found in asked.items() if view not in waiting}
    return choose_moment(asked, select.as_of, metas, workload.unit_us), waiting


def _tables_read(query: exp.Expression, virtual: VirtualTables) -> list[tuple[str, exp.Table]]:
    """The names of all tables that a query reads, itself or through virtual views, with the table of its own text."""
    found: list[tuple[str, exp.Table]] = []
    for node in outside_tables(query):
        definition = virtual.definition(node)
        if definition is None:
            found.append((node.name.lower(), node))
            continue
        with virtual.errors_at(node):
            found += [(name, node) for name, _ in _tables_read(definition, virtual)]
    return found


def check_expressions(query: exp.Expression) -> None:
    """Refuse what is not part of the language of ad hoc queries."""
    for node in query.walk():
        windowed = isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("window")
        if isinstance(node, Difference) or node.args.get("sync") or windowed:
            raise problem(
                "SYNC, windows and differences belong to standing queries",
                node,
                code="TM214",
                hint="create a view, or use SELECT STREAMED …",
            )
        structural = isinstance(node, (*_STRUCTURE, Now)) or node.key in _WINDOWED
        known = structural or is_allowed(node) or aggregate_name(node)
        if not known:
            raise problem(f'"{name_in_sql(node)}" is not part of the language', node, code="TM207", hint=hint_for(node))


def _name_columns(query: exp.Expression) -> None:
    """Name columns that are subqueries by the text of the user, before table names in it are replaced."""
    selects = query.selects if isinstance(query, exp.Query) else []
    for node in selects:
        if not node.alias and node.find(exp.Table):
            node.replace(exp.alias_(node.copy(), node.sql(dialect="duckdb"), quoted=True))


@contextmanager
def _interrupt_at(duck: duckdb.DuckDBPyConnection, deadline: Deadline) -> Iterator[None]:
    """Interrupt reading of views at the deadline of the query, or when it is cancelled."""
    timer = threading.Timer(deadline.left, duck.interrupt)
    timer.daemon = True
    timer.start()
    try:
        with deadline.cancellation.interrupts(duck.interrupt):
            yield
    except duckdb.InterruptException:
        deadline.check()
        raise
    finally:
        timer.cancel()


class _Leaves:
    """Replaces the views and tables of a query by inputs of the process that answers it."""

    def __init__(
        self,
        workload: Workload,
        store: ViewStore,
        duck: duckdb.DuckDBPyConnection,
        inputs: Inputs,
        moment: ReadMoment,
        waiting: Collection[str],
        shape_only: bool,
    ) -> None:
        self.workload, self.duck, self.inputs, self.moment = workload, duck, inputs, moment
        self.waiting, self.shape_only = waiting, shape_only
        self.past = Past(store, duck)
        self.made: dict[tuple[str, tuple[str, ...]], str] = {}

    def replace(self, query: exp.Expression, virtual: VirtualTables) -> None:
        """Give every table from outside of the query the name of an input."""
        prefix = _unused_prefix(virtual.all_names(query))
        self._replace_in(query, prefix, virtual)

    def _replace_in(self, query: exp.Expression, prefix: str, virtual: VirtualTables) -> None:
        for node in outside_tables(query):
            definition = virtual.definition(node)
            if definition is not None:
                # Its tables are replaced here, before it stands where WITH may give their names to others.
                with virtual.errors_at(node):
                    self._replace_in(definition, prefix, virtual)
                virtual.put(definition, node)
                continue
            if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
                raise problem("only views and tables can be read", node, code="TM202", hint="SHOW VIEWS lists them")
            relation = self._filter(query, node, self._relation(node))
            columns = tuple(read_columns(query, node, relation.columns))
            key = (node.name.lower(), columns)
            if key not in self.made:
                self.made[key] = f"{prefix}{len(self.made)}"
                self._add(self.made[key], relation, columns)
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
            node.set("this", exp.to_identifier(self.made[key], quoted=True))
            node.set("alias", alias)

    def _filter(
        self, query: exp.Expression, node: exp.Table, relation: duckdb.DuckDBPyRelation
    ) -> duckdb.DuckDBPyRelation:
        """The rows that satisfy the plain conditions of the query, which checks them again."""
        types = {c: str(t) for c, t in zip(relation.columns, relation.types, strict=True)}
        for condition in plain_conditions(query, node, types):
            column, literal = condition.args["this"].name, condition.args["expression"]
            bare = type(condition)(this=exp.column(exp.to_identifier(column, quoted=True)), expression=literal.copy())
            relation = relation.filter(bare.sql(dialect="duckdb"))
        return relation

    def _add(self, name: str, relation: duckdb.DuckDBPyRelation, columns: tuple[str, ...]) -> None:
        types = {c: str(t) for c, t in zip(relation.columns, relation.types, strict=True)}
        relation = relation.limit(0) if self.shape_only else relation
        rows = relation.project(", ".join(map(quoted, columns)) or f"true AS {_ROWS}")
        typed = [(c, types[c]) for c in columns] or [(_ROWS, "BOOLEAN")]
        self.inputs.add(name, typed, rows.to_arrow_reader(1 << 16))

    def _relation(self, node: exp.Table) -> duckdb.DuckDBPyRelation:
        if node.name.lower() == DEAD_LETTERS:
            return self.duck.sql("SELECT * FROM dead_letters")
        place = problem("", node)
        entry = self.workload.catalog.find(node.name, line=place.line, column=place.column)
        if entry.kind == "table":
            assert entry.spec is not None
            # Each table lists its files in a folder of its own.
            with tempfile.TemporaryDirectory(dir=self.inputs.folder) as folder:
                rows = read_table(entry.spec, folder, self.inputs.deadline)
            return self.duck.from_arrow(rows).project(
                ", ".join(f"CAST({quoted(c.name)} AS {c.type}) AS {quoted(c.name)}" for c in entry.spec.columns)
            )
        view = self.workload.views.get(entry.name.lower())
        if view is None or view.stored.output == "streamed":
            what = "STREAMED view" if view else entry.kind
            raise problem(
                f'"{entry.name}" is a {what}: it has no stored answer to read',
                node,
                code="TM215",
                hint=f"CREATE COMPLETE VIEW … AS SELECT * FROM {entry.name}, or SELECT STREAMED …",
            )
        if view.entry.id in self.waiting:
            return self.duck.sql(f"SELECT * FROM {stand_ins.stand_in_table(view.entry.id)}")
        return self.duck.sql(self.past.relation_sql(view.stored, *self.moment.bound_of(view.entry.id)))


def _unused_prefix(names: set[str]) -> str:
    """A prefix for the names of inputs that no name of the query has."""
    prefix = "input "
    while any(name.startswith(prefix) for name in names):
        prefix = "_" + prefix
    return prefix


def read_table(spec: SourceSpec, folder: str, deadline: Deadline) -> pa.Table:
    """All rows of a static table."""
    connector: Any = open_connector(spec, folder)
    names = [c.name for c in spec.columns]
    start, pieces = connector.initial(), []
    while True:
        progress = connector.latest(start, None, False, 0)
        for piece in connector.split(start, progress.end, 1):
            for chunk in connector.read(piece):
                pieces.append(chunk.rows.select(names))
                deadline.check()
        if progress.exhausted:
            return pa.concat_tables(pieces) if pieces else arrow_schema(spec.columns).empty_table()
        start = progress.end
