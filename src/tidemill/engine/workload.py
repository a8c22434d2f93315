"""Everything that stands: catalog entries bound to relations, and the physical plan of all of them."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidemill.engine.altering import add_columns, as_of
from tidemill.engine.history import PlanHistory
from tidemill.engine.joining import Joining
from tidemill.engine.sharing import Sharing
from tidemill.engine.sources import source_spec
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.optimize.joins.report import report as join_report
from tidemill.optimize.lower import lower
from tidemill.optimize.optimizer import optimize
from tidemill.optimize.rewrite.window_aggregates import why_not
from tidemill.optimize.share.fed import fed_by, settings_for
from tidemill.optimize.share.report import report
from tidemill.optimize.share.weave import Bits
from tidemill.plan import relations as r
from tidemill.plan.aggregation_joins import spread_over
from tidemill.plan.empty_windows import filled_windows
from tidemill.plan.homes import Home
from tidemill.plan.node import walk
from tidemill.plan.physical import OPERATOR_SECONDS, Physical
from tidemill.plan.relations import Item, Relation, quoted
from tidemill.plan.scalars import conjunction
from tidemill.plan.sources import APPLY, DELETES
from tidemill.plan.statements import (
    AlterSource,
    CreateSink,
    CreateTaggedStream,
    CreateView,
    RegisterSource,
    RegisterTable,
    Select,
)
from tidemill.plan.validate import check_bounded
from tidemill.runtime.garbage import seldom_collected
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.views import StoredView
from tidemill.sql.bind.functions import recognised
from tidemill.sql.bind.query import Binder, BoundQuery
from tidemill.sql.bind.scalar import stamp_sql
from tidemill.sql.bind.scope import Field, Input, place_of, problem
from tidemill.sql.bind.window_bounds import Bounds, without_bounds
from tidemill.sql.catalog import CLOCK, Catalog, Entry
from tidemill.sql.lexical_duration import duration_from_text
from tidemill.sql.parse import parse_one

Planned = tuple[BoundQuery, Relation, tuple[tuple[str, str], ...]]  # bound, optimized, what the rules did


@dataclass(frozen=True)
class BoundView:
    """A standing query: its relation after optimization, and what is stored of it."""

    entry: Entry
    query: BoundQuery
    node: Relation
    stored: StoredView
    trace: tuple[tuple[str, str], ...]


class Workload:
    """The catalog and the relations behind its names. Nothing here runs anything."""

    def __init__(self, catalog: Catalog, unit_us: int, without: tuple[str, ...] = ()) -> None:
        self.catalog = catalog
        self.unit_us = unit_us
        self.without = without
        self.sharing = Sharing(catalog)
        self.history = PlanHistory.of(catalog)
        self.joining = Joining(catalog, self.history)
        self.views: dict[str, BoundView] = {}
        self.stopped: dict[str, dict[str, Any]] = {}  # by the id of a view: why it goes on no more
        self._read: dict[str, tuple[Entry, int, Input]] = {}  # the streams that were read last: entry, birth, input
        sinks: dict[str, list[dict[str, Any]]] = {}
        for sink in catalog.of("sink"):
            sinks.setdefault(sink.needs[0].lower(), []).append(sink.options)
        with seldom_collected():
            for entry in catalog.of("view", "query"):
                self._rebind(entry, tuple(sinks.get(entry.name.lower(), ())))

    @property
    def pending(self) -> int:
        """The plan version in which what is created now begins to read."""
        return self.catalog.version + 1

    # ---- statements ----------------------------------------------------------------------------

    def register(self, statement: RegisterSource | RegisterTable) -> Entry:
        """A new source or static table."""
        self.catalog.check_free(statement.name)
        spec = source_spec(statement, self.unit_us)
        used = self.catalog.settings.setdefault("used", [])
        if statement.name.lower() in used:
            spec = replace(spec, name=f"{spec.name}#{self.catalog.next_id('')}")
        used.append(statement.name.lower())
        kind = "table" if isinstance(statement, RegisterTable) else "source"
        entry = Entry(kind, statement.name, statement.text, spec=spec, birth=self.pending)  # type: ignore[arg-type]
        self.catalog.add(entry)
        return entry

    def alter(self, statement: AlterSource) -> Entry:
        """More columns of a source, for what is created from now on; all that stands has been published."""
        entry = self.catalog.find(statement.name, "source")
        add_columns(entry, statement.columns, self.pending)
        self._read.clear()
        return entry

    def create_stream(self, statement: CreateTaggedStream) -> Entry:
        """A tagged stream over a source."""
        self.catalog.check_free(statement.name)
        source = self.catalog.find(statement.source, "source")
        assert source.spec is not None
        known = {c.name.lower(): c.name for c in source.spec.columns}
        for column in statement.key:
            if column.lower() not in known:
                raise CatalogProblem("TM303", f'source "{source.name}" has no column "{column}"',
                                     hint=f"its columns are {', '.join(known.values())}")
        if source.spec.operation and not statement.key:
            raise CatalogProblem("TM304", f'source "{source.name}" carries operations, so its stream needs a key',
                                 hint=f"add KEY, for example KEY {source.spec.columns[0].name}")
        if source.spec.options.get("late") == APPLY and statement.key:
            raise CatalogProblem("TM310", f'a stream over "{source.name}" cannot have a key: its late rows are applied',
                                 detail="a late record would replace one that is newer",
                                 hint="a stream without KEY, or a longer lateness in place of late = 'apply'")
        key = tuple(known[c.lower()] for c in statement.key)
        entry = Entry("stream", statement.name, statement.text, (source.name,), key=key, birth=self.pending)
        self.catalog.add(entry)
        return entry

    def create_view(self, statement: CreateView) -> BoundView:
        """A standing view."""
        self.catalog.check_free(statement.name)
        entry = Entry("view", statement.name, statement.text, birth=self.pending, id=self.catalog.next_id("v"),
                      output=statement.output, options=self._options(statement.options))
        return self._install(entry, statement.query)

    def create_query(self, statement: Select) -> BoundView:
        """A standing SELECT STREAMED or SELECT RSTREAM; the engine names it."""
        number = int(self.catalog.settings.get("queries", 0)) + 1
        self.catalog.settings["queries"] = number
        name = f"query_{number}"
        entry = Entry("query", name, statement.text, birth=self.pending, id=self.catalog.next_id("v"),
                      output=str(statement.output), options=self._options(statement.options))
        return self._install(entry, statement.query)

    def _check_parquet(self, view: Entry) -> None:
        """Refuse a sink that could not write: Parquet has no intervals, and no endless times in seconds."""
        for column in self.views[view.name.lower()].node.schema:
            if column.type in ("INTERVAL", "TIMESTAMP_S"):
                raise PlanProblem("TM211", f'a parquet file cannot hold "{column.name}", which is {column.type}',
                                  hint="WITH (format = 'json'), or cast it in the view")

    def create_sink(self, statement: CreateSink) -> Entry:
        """A sink fed by a view; it receives the changes from its creation on."""
        self.catalog.check_free(statement.name)
        view = self.catalog.find(statement.view, "view", "query")
        form = statement.options.get("format", "parquet")
        if form not in ("parquet", "json"):
            raise PlanProblem("TM211", f'unknown sink format "{form}"', hint="parquet or json")
        if statement.path and form == "parquet":
            self._check_parquet(view)
        path = os.path.abspath(statement.path) if statement.path else None
        options = {"target": statement.target, "path": path, "options": dict(statement.options), "name": statement.name}
        entry = Entry("sink", statement.name, statement.text, (view.name,), options=options)
        self.catalog.add(entry)
        self._restore(view.name)
        return entry

    def drop(self, name: str) -> Entry:
        """Take an entry out; the caller has dealt with its dependents."""
        entry = self.catalog.remove(name)
        self.views.pop(name.lower(), None)
        self._read.pop(entry.name, None)
        if entry.kind == "sink":
            self._restore(entry.needs[0])
        return entry

    # ---- binding -------------------------------------------------------------------------------

    def bind(self, query: exp.Expression, birth: int) -> BoundQuery:
        """A query over the catalog, as it would begin in plan version `birth`."""
        query, used = recognised(query, self.catalog.custom)
        bound = Binder(lambda name, node: self._lookup(name, node, birth), self.unit_us).query(query)
        return replace(bound, needs=bound.needs | used)

    def plan_query(self, query: exp.Expression, output: str, options: dict[str, Any]) -> Planned:
        """What a query would become if it were created now."""
        return self._planned(query, output, self._options(options), self.pending)

    def _planned(self, query: exp.Expression, output: str, options: dict[str, Any], birth: int) -> Planned:
        """Bind, check and optimize."""
        query, bounds = self._without_bounds(query, birth)
        bound = self.bind(query, birth)
        if (output == "rstream" or bounds) and not options.get("empty_windows"):
            bound = replace(bound, node=filled_windows(bound.node))
        if not options.get("unbounded_state"):
            check_bounded(bound.node, lambda: self._streams(bound.needs), self._endless(), lambda n: place_of(n, query))
        done = optimize(bound.node, options.get("without", ()))
        node = _spread(done.node, options.get("spread"))
        _check_names(node, output)
        _check_custom(node)
        if bounds:
            node = bounds.over(bound, node, output, self.unit_us)
        elif output == "rstream":
            stamp = stamp_sql("CAST(__time AS BIGINT)", bound.domain, self.unit_us)
            node = r.Rstream(node, bound.rhythm.period, bound.rhythm.points, stamp, _stamp_type(bound))
        trace = tuple((rule, f"{type(a).__name__} → {type(b).__name__}") for rule, a, b in done.trace)
        return bound, node, trace

    def _without_bounds(self, query: exp.Expression, birth: int) -> tuple[exp.Expression, Bounds | None]:
        """A query without window_start and window_end, and these; unless they are columns like any other."""
        rest, bounds = without_bounds(query, self.unit_us)
        if bounds is not None:
            with suppress(PlanProblem):
                self.bind(query, birth)
                return query, None
        return rest, bounds

    def _endless(self) -> frozenset[str]:
        """The views whose state may grow for ever, as their users have said."""
        return frozenset(v.entry.name for v in self.views.values() if v.entry.options.get("unbounded_state"))

    def _streams(self, needs: frozenset[str]) -> dict[str, str]:
        """For each source the stream over it that a query reads, or else the oldest one."""
        found: dict[str, str] = {}
        for entry in sorted(self.catalog.of("stream"), key=lambda e: e.name not in needs):
            spec = self.catalog.find(entry.needs[0], "source").spec
            if spec is not None:
                found.setdefault(spec.name, entry.name)
        return found

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Options of a view; rules that were off when it was planned stay off for it, or its state would not fit."""
        return {**given, "without": list(self.without)} if self.without else dict(given)

    def running_views(self) -> list[BoundView]:
        """The views that no failure has stopped."""
        return [v for v in self.views.values() if v.entry.id not in self.stopped]

    def _install(self, entry: Entry, query: exp.Expression) -> BoundView:
        view = self._bound(entry, query)
        self._check_reads_running(view.query.needs)
        entry.needs = tuple(sorted(view.query.needs))
        self.catalog.add(entry)
        self.views[entry.name.lower()] = view
        return view

    def _rebind(self, entry: Entry, sinks: tuple[dict[str, Any], ...]) -> None:
        statement = parse_one(entry.text)
        assert isinstance(statement, (CreateView, Select))
        self.views[entry.name.lower()] = self._bound(entry, statement.query, sinks)

    def _bound(self, entry: Entry, query: exp.Expression, sinks: tuple[dict[str, Any], ...] = ()) -> BoundView:
        bound, node, trace = self._planned(query, entry.output, entry.options, entry.birth)
        retain = entry.options.get("retain")
        keys = None if entry.output == "rstream" else bound.keys
        stored = StoredView(
            entry.id, entry.name, entry.output, node.schema, keys,  # type: ignore[arg-type]
            stamp_sql("__time", bound.domain, self.unit_us), _stamp_type(bound), r.insert_only(node),
            _retain_us(retain, self.unit_us), sinks,
        )
        return BoundView(entry, bound, node, stored, trace)

    def _restore(self, name: str) -> None:
        view = self.views.get(name.lower())
        if view:
            self.views[name.lower()] = replace(view, stored=replace(view.stored, sinks=self._sinks(name)))

    def _sinks(self, view: str) -> tuple[dict[str, Any], ...]:
        return tuple(e.options for e in self.catalog.of("sink") if e.needs[0].lower() == view.lower())

    def _check_reads_running(self, needs: Iterable[str]) -> None:
        """A new view cannot read one that has stopped."""
        for name in sorted(needs):
            view = self.views.get(name.lower())
            if view is not None and view.entry.id in self.stopped:
                raise CatalogProblem(
                    "TM509", f'view "{view.entry.name}" has stopped and cannot be read by another view',
                    detail=self.stopped[view.entry.id]["reason"], hint=f"RESTART VIEW {view.entry.name} first")

    def _lookup(self, name: str, node: exp.Expression | None, birth: int) -> Input:
        if name.lower() == CLOCK:
            return self._clock()
        entry = self.catalog.entries.get(name.lower())
        if entry is None or entry.kind in ("sink", "aggregate"):
            place = problem("", node)
            self.catalog.find(name, "stream", "view", "table", "query", line=place.line, column=place.column)
        assert entry is not None
        if entry.kind == "source":
            raise problem(f'"{entry.name}" is a raw source; queries read tagged streams', node, code="TM212",
                          hint=f"CREATE TAGGED STREAM {entry.name}Str OVER {entry.name};")
        if entry.kind == "table":
            return self._table(entry, birth)
        if entry.kind == "stream":
            # Of a thousand queries most read the same stream.
            known = self._read.get(entry.name)
            if known is None or known[0] is not entry or known[1] != birth:
                known = self._read[entry.name] = entry, birth, self._stream(entry, birth)
            return known[2]
        return self._view(entry, birth)

    def _clock(self) -> Input:
        clock = r.Clock(self.unit_us)
        items = (Item("TimePoint", '"TimePoint"', "BIGINT"), Item(r.TS, f'("TimePoint" * {self.unit_us})', "BIGINT"))
        node = r.Project(clock, items)
        return Input("clockStr", node, (Field("TimePoint", "TimePoint", "BIGINT"),), r.TS, None, None)

    def _table(self, entry: Entry, birth: int) -> Input:
        spec = entry.spec
        assert spec is not None
        node = r.Scan(spec.name, spec.columns, birth, static=True)
        fields = tuple(Field(c.name, c.name, c.type) for c in spec.columns)
        return Input(entry.name, node, fields, None, None, None, needs=frozenset([entry.name]))

    def _stream(self, entry: Entry, birth: int) -> Input:
        spec = as_of(self.catalog.find(entry.needs[0], "source"), birth)
        scan: Relation = r.Scan(spec.name, spec.columns, birth)
        if spec.options.get("late") == APPLY:
            scan = r.Amended(scan)
        domain = "timestamp"
        if spec.timestamp:
            kind = next(c.type for c in spec.columns if c.name == spec.timestamp)
            domain = "timestamp" if kind.startswith(("TIMESTAMP", "DATE")) else "units"
        columns = [c for c in spec.columns if c.name != spec.operation]
        fields = tuple(Field(c.name, c.name, c.type) for c in columns)
        keys = None
        if entry.key:
            keys = entry.key
            names = (*(c.name for c in columns), r.TS)
            scan = r.Tag(scan, entry.key, names, _deleted(spec, entry.key))
        return Input(entry.name, scan, fields, r.TS, keys, domain, needs=frozenset([entry.name]),  # type: ignore[arg-type]
                     event=spec.timestamp)

    def _view(self, entry: Entry, birth: int) -> Input:
        view = self.views[entry.name.lower()]
        node: Relation = r.View(entry.name, view.node)
        if entry.birth < birth:
            node = r.Union((r.View(entry.name, view.node, late=True), r.Seed(entry.id, view.node.schema, birth)))
        fields = tuple(Field(c.name, c.name, c.type) for c in view.node.schema)
        return Input(entry.name, node, fields, None, view.stored.keys, view.query.domain, view.query.rhythm,
                     frozenset([entry.name]))

    # ---- the plan ------------------------------------------------------------------------------

    def physical(self, version: int, shards: tuple[int, ...], roots: dict[str, Relation] | None = None,
                 keep: bool = False) -> Physical:
        """One plan for everything that stands, or for some relations alone; to `keep` it remembers what it gave away.
        """
        specs = {e.spec.name: e.spec for e in self.catalog.of("source", "table") if e.spec}
        roots = {v.entry.id: v.node for v in self.running_views()} if roots is None else roots
        settings = self.sharing.settings if keep else self.sharing.settings.copy()
        joining = self.joining.settings if keep else self.joining.settings.copy()
        if keep:
            self.joining.forget(roots.values())
            windows = (n for root in roots.values() for n in walk(root) if isinstance(n, r.WindowAggregate))
            self.sharing.forget({fed_by(n) for n in windows} | set(specs))
        with seldom_collected():
            plan = lower(roots, specs, version=version, unit_us=self.unit_us, shards=shards, bits=self._bits(keep),
                         sharing=settings, joining=joining)
        given = self.catalog.settings
        return replace(plan, sealed_rows=given.get("sealed_rows", sizes.sealed_rows),
                       operator_memory=given.get("operator_memory", 0),
                       operator_seconds=given.get("operator_time", OPERATOR_SECONDS))

    def homes(self, shards: tuple[int, ...]) -> dict[str, Home]:
        """How the rows of all operators and ports of the newest plan lie in the shards."""
        specs = {e.spec.name: e.spec for e in self.catalog.of("source", "table") if e.spec}
        found: dict[str, Home] = {}
        lower({v.entry.id: v.node for v in self.running_views()}, specs, version=0, unit_us=self.unit_us, shards=shards,
              bits=self._bits(False), sharing=self.sharing.settings.copy(), joining=self.joining.settings.copy(),
              homes=found)
        return found

    def joins_of(self, roots: dict[str, Relation]) -> tuple[dict[str, Any], ...]:
        """Every plan of the aggregation joins of these queries."""
        settings = self.joining.settings.copy()
        return tuple(join_report(name, n, settings) for name, node in roots.items() for n in walk(node)
                     if isinstance(n, r.JoinAggregate))

    def sharing_of(self, roots: dict[str, Relation]) -> tuple[tuple[dict[str, Any], ...], tuple[tuple[str, str], ...]]:
        """How window aggregates share their work once these queries stand beside the others; and why some do not."""
        everything = {v.entry.name: v.node for v in self.views.values()} | roots
        settings = self.sharing.settings.copy()
        specs = {e.spec.name: e.spec for e in self.catalog.of("source", "table") if e.spec}
        lower(everything, specs, version=0, unit_us=self.unit_us, shards=(0,), bits={}, sharing=settings,
              joining=self.joining.settings.copy())
        nodes = {name: [n for n in walk(node) if isinstance(n, r.WindowAggregate)] for name, node in everything.items()}
        names = {n.fingerprint: name for name, found in nodes.items() for n in found}
        asked = {fed_by(n): n for name in roots for n in nodes[name]}
        reports = tuple(
            report(fed, settings.shapes[fed], settings_for(node, settings), names) | _rows_title(node)
            for fed, node in sorted(asked.items())
        )
        alone = tuple(
            (name, reason) for name, node in roots.items() for n in walk(node)
            if isinstance(n, r.GroupBy) and not isinstance(_below(n), r.WindowAggregate) and (reason := why_not(n))
        )
        return reports, alone

    def _bits(self, keep: bool) -> Bits:
        """Which bit of a signature belongs to which query: kept with the catalog; a plan that is only looked at gets a
        copy.
        """
        known: Bits = self.catalog.settings.setdefault("bits", {})
        return known if keep else copy.deepcopy(known)


def _rows_title(node: r.WindowAggregate) -> dict[str, Any]:
    """Windows that count rows share by what they number; rates are then for a million rows."""
    if not node.counts_rows:
        return {}
    below = next((n.source for n in walk(node) if isinstance(n, r.Scan)), "a view")
    return {"source": f"the rows of {below} by number (rates for 1,000,000 rows)"}


def _below(node: Relation) -> Relation:
    """What a grouping groups, without projections: of a distinct count's upper level, a window aggregate."""
    below = node.children[0]
    while isinstance(below, (r.Project, r.Filter)):
        below = below.input
    assert isinstance(below, Relation)
    return below


def _deleted(spec: Any, key: tuple[str, ...]) -> str | None:
    tests = []
    if spec.operation:
        words = ", ".join(f"'{w}'" for w in DELETES)
        tests.append(f"lower(CAST({quoted(spec.operation)} AS VARCHAR)) IN ({words})")
    if spec.options.get("key_null"):
        rest = [c.name for c in spec.columns if c.name not in key and c.name not in (spec.timestamp, spec.operation)]
        tests.append(str(conjunction(*(f"{quoted(n)} IS NULL" for n in rest))) if rest else "FALSE")
    return " OR ".join(f"({t})" for t in tests) or None


def _spread(node: Relation, label: Any) -> Relation:
    """WITH (spread = 'A'): the rows of A over all shards, whatever their key."""
    if label is None:
        return node
    found = spread_over(node, str(label))
    if found is None:
        raise PlanProblem("TM222", f'no join that is grouped has an input "{label}" to spread',
                          hint="name an input of FROM by its alias; the query must group a join")
    return found


def _check_names(node: Relation, output: str) -> None:
    """TAG and OLD stand beside the columns of changes, TS beside those of RSTREAM."""
    for name in node.names:
        if name in ("TAG", "OLD") or (output == "rstream" and name.lower() == "ts"):
            raise PlanProblem("TM219", f'a column of this view cannot be named "{name}"',
                              hint=f"give it another name: {name} AS …")


def _check_custom(node: Relation) -> None:
    """A user's aggregate is put together from fragments, or grows: nothing can be taken out of it alone."""
    for below in walk(node):
        own = [a for a in below.aggregates if a.fold is not None] if isinstance(below, r.GroupBy) else []
        if own and isinstance(below, r.GroupBy) and not r.insert_only(below.input):
            raise PlanProblem("TM220", f"{own[0].function} needs a window over a stream, or rows that never leave",
                              detail=why_not(below), hint="for example  FROM S [RANGE 10 SLIDE 5]  or  [ROWS 100]")


def _stamp_type(bound: BoundQuery) -> str:
    return "TIMESTAMP" if bound.domain == "timestamp" else "BIGINT"


def _retain_us(text: Any, unit_us: int) -> int | None:
    if text is None:
        return None
    try:
        length = duration_from_text(str(text))
    except ValueError as error:
        raise PlanProblem("TM213", f"retain: {error}", hint="for example WITH (retain = '1 day')") from None
    return length.us if length.us is not None else int(length.units or 0) * unit_us

