"""What the names in a query mean: the relation behind a stream, a table, a view or the clock."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tidemill.engine.alter_sources import as_of
from tidemill.engine.views.bound_view import BoundView
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Chain, ColumnRef, IsNull, Literal, Operation, Paren, Scalar, conjunction, template
from tidemill.plan.sources import APPLY, DELETES, SHED_UPDATES, SourceSpec
from tidemill.plan.statements import CreateView
from tidemill.sql.bind.scope import EVERY_CHANGE, Field, Input, Rhythm, problem
from tidemill.sql.catalog import CLOCK, VIRTUAL, Catalog, Entry
from tidemill.sql.parse.statements import parse_one


class Inputs:
    """Looks names of queries up in the catalog."""

    def __init__(self, catalog: Catalog, unit_us: int, views: Mapping[str, BoundView]) -> None:
        self._catalog, self._unit_us, self._views = catalog, unit_us, views
        self._streams: dict[str, tuple[Entry, int, Input]] = {}  # by name: the entry, the birth it was read for
        self._virtual: dict[str, tuple[Entry, exp.Expression]] = {}

    def forget(self, name: str | None = None) -> None:
        """A stream or virtual view was dropped, or, without a name, the columns of a source have changed."""
        if name is None:
            self._streams.clear()
        else:
            self._streams.pop(name, None)
            self._virtual.pop(name, None)

    def find(self, name: str, node: exp.Expression | None, birth: int) -> Input:
        """What a query that begins in plan version `birth` reads under a name; errors point at `node`."""
        if name.lower() == CLOCK:
            return self._clock()
        entry = self._catalog.entries.get(name.lower())
        if entry is None or entry.kind in ("sink", "aggregate", "function"):
            place = problem("", node)
            self._catalog.find(name, "stream", "view", "table", "query", line=place.line, column=place.column)
        assert entry is not None
        if entry.kind == "source":
            raise problem(
                f'"{entry.name}" is a raw source; queries read tagged streams',
                node,
                code="TM212",
                hint=f"CREATE TAGGED STREAM {entry.name}Str OVER {entry.name};",
            )
        if entry.kind == "table":
            return self._table(entry, birth)
        if entry.kind == "stream":
            return self._cached_stream(entry, birth)
        return view_input(self._views[entry.name.lower()], birth)

    def definition(self, name: str) -> exp.Expression | None:
        """The query that the name of a virtual view stands for; None for other names. Its text is parsed once."""
        entry = self._catalog.entries.get(name.lower())
        if entry is None or entry.output != VIRTUAL:
            return None
        known = self._virtual.get(entry.name)
        if known is None or known[0] is not entry:
            statement = parse_one(entry.text)
            assert isinstance(statement, CreateView)
            known = self._virtual[entry.name] = entry, statement.query
        return known[1]

    def _clock(self) -> Input:
        clock = r.Clock(self._unit_us)
        point = ColumnRef("TimePoint")
        time = Paren(Operation("*", point, Literal(str(self._unit_us))))
        items = (Item("TimePoint", point, "BIGINT"), Item(r.TS, time, "BIGINT"))
        node = r.Project(clock, items)
        return Input("clockStr", node, (Field("TimePoint", "TimePoint", "BIGINT"),), r.TS, None, None)

    def _table(self, entry: Entry, birth: int) -> Input:
        spec = entry.spec
        assert spec is not None
        node = r.Scan(spec.name, spec.columns, birth, static=True)
        fields = tuple(Field(c.name, c.name, c.type) for c in spec.columns)
        return Input(entry.name, node, fields, None, None, None, needs=frozenset([entry.name]))

    def _cached_stream(self, entry: Entry, birth: int) -> Input:
        """Most queries read the same few streams: the last input of each is kept."""
        known = self._streams.get(entry.name)
        if known is None or known[0] is not entry or known[1] != birth:
            known = self._streams[entry.name] = entry, birth, self._stream(entry, birth)
        return known[2]

    def _stream(self, entry: Entry, birth: int) -> Input:
        spec = as_of(self._catalog.find(entry.needs[0], "source"), birth)
        if spec.options.get("changes"):
            return _delivered_input(entry, spec, self._unit_us)
        scan: Relation = r.Scan(spec.name, spec.columns, birth)
        if spec.options.get("late") == APPLY:
            scan = r.Amended(scan)
        domain = "timestamp"
        if spec.event:
            kind = next(c.type for c in spec.columns if c.name == spec.event)
            domain = "timestamp" if kind.startswith(("TIMESTAMP", "DATE")) else "units"
        columns = [c for c in spec.columns if c.name != spec.operation]
        fields = tuple(Field(c.name, c.name, c.type) for c in columns)
        keys = None
        if entry.key:
            keys = entry.key
            names = (*(c.name for c in columns), r.TS)
            deleted = _delete_test(spec, entry.key)
            if isinstance(scan, r.Scan) and SHED_UPDATES in spec.options:
                scan = r.Shed(scan, entry.key, int(spec.options[SHED_UPDATES]), self._unit_us, deleted)
            scan = r.Tag(scan, entry.key, names, deleted)
        return Input(
            entry.name,
            scan,
            fields,
            r.TS,
            keys,
            domain,  # type: ignore[arg-type]  # one of the two words
            needs=frozenset([entry.name]),
            event=spec.event,
        )


def _delivered_input(entry: Entry, spec: SourceSpec, unit_us: int) -> Input:
    """A view of another site, as it would be read if it were here; or the rows of a stream that a join needs, each with
    its stamp in a column.
    """
    options = spec.options
    items = tuple(map(r.Item.of, (c for c in spec.columns if c.name != options.get("stamp"))))
    fields = tuple(Field(i.name, i.name, i.type) for i in items)
    stamp = (_stamp(spec, unit_us),) if options.get("stamp") else ()
    node = r.Project(r.Delivered(spec.name, spec.columns, entry.birth), (*items, *stamp))
    rhythm = Rhythm(tuple(options["period"])) if options["period"] else EVERY_CHANGE
    keys = entry.key if options["keyed"] else None
    return Input(
        entry.name,
        node,
        fields,
        r.TS if stamp else None,
        keys,
        options["domain"],
        rhythm,
        frozenset([entry.name]),
        event=spec.event if stamp else None,
    )


def _stamp(spec: SourceSpec, unit_us: int) -> Item:
    """TS of a shipped row, which may be older than the time at which it came."""
    column = ColumnRef(spec.options["stamp"])
    units = Paren(Operation("*", column, Literal(str(unit_us))))
    return Item(r.TS, template("epoch_us({0})", column) if spec.options["domain"] == "timestamp" else units, "BIGINT")


def view_input(view: BoundView, birth: int) -> Input:
    """A view as a query that begins in plan version `birth` reads it: an older one with what is stored of it."""
    entry = view.entry
    node: Relation = r.View(entry.name, view.node)
    if entry.birth < birth:
        node = r.Union((r.View(entry.name, view.node, late=True), r.Seed(entry.id, view.node.schema, birth)))
    fields = tuple(Field(c.name, c.name, c.type) for c in view.node.schema)
    return Input(
        entry.name, node, fields, None, view.stored.keys, view.query.domain, view.query.rhythm, frozenset([entry.name])
    )


def _delete_test(spec: SourceSpec, key: tuple[str, ...]) -> Scalar | None:
    """The condition under which a record deletes its key; None where no record does."""
    tests: list[Scalar] = []
    if spec.operation:
        words = ", ".join(f"'{w}'" for w in DELETES)
        tests.append(template(f"lower(CAST({{0}} AS VARCHAR)) IN ({words})", ColumnRef(spec.operation)))
    if spec.options.get("key_null"):
        rest = [c.name for c in spec.columns if c.name not in key and c.name not in (spec.event, spec.operation)]
        empty = conjunction(*(IsNull(ColumnRef(n)) for n in rest))
        tests.append(Literal("FALSE") if empty is None else empty)
    if not tests:
        return None
    return Paren(tests[0]) if len(tests) == 1 else Chain("OR", tuple(map(Paren, tests)))
