"""Fragments: the SQL text that another site sends for the rows it wants, bound here against what is exported to it.

A fragment selects columns of one exported stream or view, and may filter a stream without a key by plain comparisons of
its columns with constants. Of a stream the records are shipped as they came, with their
times and numbers, below the tagger and below any window: the site that reads them does everything else itself, so its
answer is the one that it would have if the source were its own. Of a view the changes are shipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp

from tidemill.engine.views.inputs import view_input
from tidemill.engine.workload import Workload
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation, quoted
from tidemill.plan.scalars import ColumnRef, Literal, Operation, Scalar, conjunction
from tidemill.plan.sources import APPLY, SHED_UPDATES, SITE, Column, Schema, SourceSpec
from tidemill.plan.statements import Select
from tidemill.runtime.sites.protocol import Description
from tidemill.runtime.views.stored_view import StoredView
from tidemill.sql.catalog import Entry
from tidemill.sql.parse.statements import parse_one
from tidemill.sql.pushed_conditions import SIGNS
from tidemill.sql.scopes import is_plain

MOST_TEXT = 64 << 10  # characters of a fragment


def fragment_text(name: str, columns: Iterable[Column], conditions: Iterable[exp.Expr] = ()) -> str:
    """The text that asks for columns of a stream or view, and of a stream for rows that satisfy plain conditions.

    >>> fragment_text("S", (Column("a", "INTEGER"), Column("b c", "DOUBLE")))
    'SELECT "a", "b c" FROM "S"'
    """
    where = " AND ".join(_compare(c).sql for c in conditions)
    return f"SELECT {', '.join(quoted(c.name) for c in columns)} FROM {quoted(name)}{where and ' WHERE '}{where}"


def describe_export(workload: Workload, exported: Collection[str], name: str) -> Description:
    """What another site is told about a stream or view; one that is not exported to it is not known."""
    entry = find_exported(workload, exported, name)
    if entry.kind == "stream":
        spec = _spec_of(workload, entry)
        return Description(
            entry.name,
            spec.columns,
            workload.unit_us,
            entry.key,
            spec.timestamp,
            spec.operation,
            bool(spec.options.get("key_null")),
        )
    view = workload.views[entry.name.lower()]
    return Description(
        entry.name,
        view.node.schema,
        workload.unit_us,
        view.stored.keys or (),
        is_view=True,
        keyed=view.stored.keys is not None,
        domain=view.query.domain,
        period=view.query.rhythm.period,
    )


def check_exportable(workload: Workload, name: str) -> Entry:
    """The stream or view of a name, if it can be shipped."""
    entry = find_exported(workload, (name.lower(),), name)
    if entry.kind == "stream":
        _spec_of(workload, entry)
    elif workload.views[entry.name.lower()].query.rhythm.points is not None:
        raise _unable(entry, "it is refreshed at the points of SYNC ON or of rows, which the other site does not have")
    return entry


def bind_fragment(workload: Workload, exported: Collection[str], text: str, birth: int) -> tuple[Entry, Relation]:
    """What a fragment reads, and the relation that is shipped; anything but a plain SELECT is refused."""
    select = _parse(text)
    entry = find_exported(workload, exported, select.args["from_"].this.name)
    if entry.kind == "stream":
        spec = _spec_of(workload, entry)
        columns = _columns(select, entry, spec.columns)
        rows: Relation = r.Scan(spec.name, spec.columns, birth)
        condition = _condition(select, entry, spec.columns)
        rows = r.Filter(rows, condition) if condition is not None else rows
        return entry, r.Project(rows, (*map(Item.of, columns), Item.of(Column(r.SEQ, "BIGINT"))))
    if select.args.get("where"):
        raise refuse_fragment("rows of a view are shipped whole")
    view = view_input(workload.views[entry.name.lower()], birth)
    return entry, r.Project(view.node, tuple(map(Item.of, _columns(select, entry, view.node.schema))))


def departing_view(entry: Entry, node: Relation) -> StoredView:
    """An edge as the outlet sees it."""
    name = entry.options["edge"]
    return StoredView(entry.id, name, "streamed", node.schema, None, "", "BIGINT", r.append_only(node))


def _columns(select: exp.Select, entry: Entry, known: Schema) -> list[Column]:
    names = {c.name: c for c in known}
    for item in select.expressions:
        if not isinstance(item, exp.Column) or item.table or item.name not in names:
            raise refuse_fragment(f"{item.sql()[:60]} is not a column of {entry.name}")
    return [names[item.name] for item in select.expressions]


def _condition(select: exp.Select, entry: Entry, known: Schema) -> Scalar | None:
    """Plain comparisons, of a stream without a key: a record of a key that fails one still replaces another."""
    where = select.args.get("where")
    if where is None:
        return None
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    types = {c.name.lower(): c.type for c in known}
    if entry.key or not all(is_plain(part, types, "") and not part.this.table for part in parts):
        raise refuse_fragment("its condition is not a plain comparison of a column of a stream without a key")
    return conjunction(*map(_compare, parts))


def _compare(part: exp.Expr) -> Scalar:
    return Operation(SIGNS[type(part)], ColumnRef(part.this.name), Literal(part.expression.sql("duckdb")))


def is_distinct(text: str) -> bool:
    """Whether a text asks for join values."""
    return text.startswith("SELECT DISTINCT ")


def name_read(text: str) -> str:
    """The name that a plain text reads, in lower case."""
    return str(_parse(text).args["from_"].this.name).lower()


def is_plain_text(text: str) -> bool:
    """Whether a text is columns of one name: then records are shipped, or the changes of a view.

    >>> is_plain_text('SELECT a FROM S WHERE b > 1'), is_plain_text('SELECT DISTINCT a FROM S')
    (True, False)
    """
    try:
        return bool(_parse(text))
    except PlanProblem as error:
        if error.code != "TM705":
            raise
        return False


def _parse(text: str) -> exp.Select:
    if len(text) > MOST_TEXT:
        raise refuse_fragment(f"it has {len(text):,} characters")
    statement = parse_one(text)
    plain = isinstance(statement, Select) and statement.output is None and not statement.options and not statement.as_of
    query = statement.query if isinstance(statement, Select) and plain else None
    if not isinstance(query, exp.Select):
        raise refuse_fragment("it is not a SELECT")
    others = [name for name, value in query.args.items() if value and name not in ("expressions", "from_", "where")]
    table = query.args["from_"].this if query.args.get("from_") else None
    alone = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if others or table is None or not alone or any(value for name, value in table.args.items() if name != "this"):
        raise refuse_fragment("it may select columns of one stream or view, and nothing else")
    return query


def find_exported(workload: Workload, exported: Collection[str], name: str) -> Entry:
    entry = workload.catalog.entries.get(name.lower()) if name.lower() in exported else None
    if entry is None or not (entry.kind == "stream" or entry.is_stored):
        # The same words for what is not there and for what is not exported.
        raise CatalogProblem(
            "TM703",
            f'no stream or view "{name}" is exported to this site',
            hint=f"there: EXPORT STREAM {name} TO SITE …",
        )
    return entry


def _spec_of(workload: Workload, entry: Entry) -> SourceSpec:
    spec = workload.catalog.find(entry.needs[0], "source").spec
    assert spec is not None
    if spec.kind == SITE:
        raise _unable(entry, "it belongs to another site", "read it from the site that it belongs to")
    if spec.options.get("late") == APPLY or SHED_UPDATES in spec.options:
        raise _unable(entry, "its source applies late rows or sheds updates")
    return spec


_EXPORTABLE = "export a stream, or a view that is refreshed at every change or periodically"


def _unable(entry: Entry, why: str, hint: str = _EXPORTABLE) -> CatalogProblem:
    return CatalogProblem("TM704", f'{entry.kind} "{entry.name}" cannot be exported', detail=why, hint=hint)


def refuse_fragment(why: str) -> PlanProblem:
    return PlanProblem(
        "TM705", "a fragment is refused", detail=why, hint="a fragment is SELECT column, … FROM an exported stream"
    )
