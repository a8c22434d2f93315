"""Everything that stands: catalog entries bound to relations, and the physical plan of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from sqlglot import exp

from tidemill.engine.adapt.history import PlanHistory
from tidemill.engine.adapt.joins import JoinPlanning
from tidemill.engine.adapt.measured_rates import MeasuredRates
from tidemill.engine.adapt.operator_totals import OperatorTotals
from tidemill.engine.adapt.sharing import Sharing
from tidemill.engine.adapt.tagging import Tagging
from tidemill.engine.alter_sources import add_columns
from tidemill.engine.physical_plans import PhysicalPlans
from tidemill.engine.settings.options import keep_of
from tidemill.engine.sinks import describe_sink
from tidemill.engine.sources import source_spec
from tidemill.engine.views.answering import Answering, Beginning, decisions_of
from tidemill.engine.views.bound_view import BoundView, PlannedQuery, bind_view, stream_of
from tidemill.engine.views.checks import UnboundedViews, check_names, check_user_aggregates, spread_input
from tidemill.engine.views.history import HISTORY, OPTION, begins_with_history
from tidemill.engine.views.inputs import Inputs, view_input
from tidemill.engine.views.rereading import hold_back
from tidemill.engine.views.virtual import find_stored
from tidemill.engine.views.ways import begin_of, name_ways, next_of, put_together
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.optimize.optimizer import optimize, recognise_limits, younger_rules
from tidemill.optimize.views.tagging import TaggingSettings
from tidemill.plan.empty_windows import drop_empty_windows
from tidemill.plan.homes import Home
from tidemill.plan.physical import Physical
from tidemill.plan.relations import Relation
from tidemill.plan.sources import APPLY, SHED_UPDATES, name_again
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
from tidemill.runtime.garbage_collection import seldom_collected
from tidemill.runtime.views.sink import Sink
from tidemill.runtime.views.stopped_views import StoppedNote
from tidemill.sql.bind.functions import mark_user_aggregates
from tidemill.sql.bind.imported_names import replace_imported
from tidemill.sql.bind.query import Binder, BoundQuery
from tidemill.sql.bind.scope import Input, place_of
from tidemill.sql.bind.unfolding import unfold
from tidemill.sql.bind.user_functions import mark_user_functions
from tidemill.sql.bind.window_bounds import Bounds, remove_bounds
from tidemill.sql.catalog import PLANNING, VIRTUAL, Catalog, Entry
from tidemill.sql.parse.statements import parse_one


def _creation(entry: Entry) -> int:
    """The order in which views were created; their ids are numbered."""
    return int(entry.id.removeprefix("v"))


class Workload:
    """The catalog and the relations behind its names. Nothing here runs anything."""

    def __init__(
        self, catalog: Catalog, unit_us: int, without: tuple[str, ...] = (), totals: OperatorTotals | None = None
    ) -> None:
        self.catalog = catalog
        self.unit_us = unit_us
        self.without = without
        self.sharing = Sharing(catalog)
        self.tagging = Tagging(catalog)
        self.history = PlanHistory.of(catalog)
        self.join_planning = JoinPlanning(catalog, self.history)
        self._plans = PhysicalPlans(catalog, unit_us, self.sharing, self.join_planning, self.tagging)
        self.views: dict[str, BoundView] = {}
        self.stopped: dict[str, StoppedNote] = {}  # by the id of a view: why it goes on no more
        self.shipped: dict[str, Relation] = {}  # what leaves for other sites, by the id of its edge
        self._inputs = Inputs(catalog, unit_us, self.views)
        self._hidden: dict[str, BoundView] = {}  # dropped views that others are answered from, by id
        rates, costs = MeasuredRates(totals), self.tagging.settings.costs
        self.answering = Answering(catalog, self.views, self._hidden, lambda: self.stopped, rates, costs)
        sinks: dict[str, list[Sink]] = {}
        for sink in catalog.of("sink"):
            sinks.setdefault(sink.needs[0].lower(), []).append(Sink.from_dict(sink.options))
        with seldom_collected():
            stored = (e for e in catalog.of("view", "query") if e.is_stored)
            for entry in sorted((*stored, *catalog.hidden.values()), key=lambda e: e.number):
                self._rebind(entry, tuple(sinks.get(entry.name.lower(), ())))

    @property
    def pending(self) -> int:
        """The plan version in which what is created now begins to read."""
        return self.catalog.version + 1

    @property
    def fast_paths_off(self) -> tuple[str, ...]:
        """The fast paths that the database does without (`SET fast_paths_off`)."""
        return self._plans.fast_paths_off

    # ---- statements ----------------------------------------------------------------------------

    def register(self, statement: RegisterSource | RegisterTable) -> Entry:
        """A new source or static table."""
        self.catalog.check_free(statement.name)
        spec = source_spec(statement, self.unit_us)
        used = self.catalog.settings.setdefault("used", [])
        if statement.name.lower() in used:
            spec = replace(spec, name=name_again(spec.name, self.catalog.next_id("")))
        used.append(statement.name.lower())
        kind = "table" if isinstance(statement, RegisterTable) else "source"
        entry = Entry(kind, statement.name, statement.text, spec=spec, birth=self.pending)  # type: ignore[arg-type]
        self.catalog.add(entry)
        return entry

    def alter(self, statement: AlterSource) -> Entry:
        """More columns of a source, for what is created from now on; all that stands has been published."""
        entry = self.catalog.find(statement.name, "source")
        add_columns(entry, statement.columns, self.pending)
        self._inputs.forget()
        return entry

    def create_stream(self, statement: CreateTaggedStream) -> Entry:
        """A tagged stream over a source."""
        self.catalog.check_free(statement.name)
        source = self.catalog.find(statement.source, "source")
        assert source.spec is not None
        known = {c.name.lower(): c.name for c in source.spec.columns}
        for column in statement.key:
            if column.lower() not in known:
                raise CatalogProblem(
                    "TM303",
                    f'source "{source.name}" has no column "{column}"',
                    hint=f"its columns are {', '.join(known.values())}",
                )
        if source.spec.operation and not statement.key:
            raise CatalogProblem(
                "TM304",
                f'source "{source.name}" carries operations, so its stream needs a key',
                hint=f"add KEY, for example KEY {source.spec.columns[0].name}",
            )
        if source.spec.options.get("late") == APPLY and statement.key:
            raise CatalogProblem(
                "TM310",
                f'a stream over "{source.name}" cannot have a key: its late rows are applied',
                detail="a late record would replace one that is newer",
                hint="a stream without KEY, or a longer lateness in place of late = 'apply'",
            )
        if SHED_UPDATES in source.spec.options and not statement.key:
            raise CatalogProblem(
                "TM320",
                f'a stream over "{source.name}" needs a key: its source sheds updates',
                detail="shed_updates counts the updates of each key, and an append-only stream has none",
                hint=f"add KEY, for example KEY {source.spec.columns[0].name}",
            )
        key = tuple(known[c.lower()] for c in statement.key)
        entry = Entry("stream", statement.name, statement.text, (source.name,), key=key, birth=self.pending)
        self.catalog.add(entry)
        return entry

    def create_view(self, statement: CreateView) -> BoundView:
        """A standing view."""
        self.catalog.check_free(statement.name)
        return self._install(self._new_entry("view", statement.name, statement), statement.query)

    def create_virtual_view(self, statement: CreateView) -> Entry:
        """A view that is unfolded into its readers; its query must be one that could be read."""
        self.catalog.check_free(statement.name)
        needs = self.bind(statement.query).needs
        entry = Entry("view", statement.name, statement.text, tuple(sorted(needs)), output=VIRTUAL, birth=self.pending)
        self.catalog.add(entry)
        return entry

    def create_query(self, statement: Select, name: str = "") -> BoundView:
        """A standing SELECT STREAMED, RSTREAM, ISTREAM or DSTREAM; the engine names it, unless it had a `name`."""
        if not name:
            number = int(self.catalog.settings.get("queries", 0)) + 1
            self.catalog.settings["queries"] = number
            name = f"query_{number}"
        return self._install(self._new_entry("query", name, statement), statement.query)

    def _new_entry(self, kind: Literal["view", "query"], name: str, statement: CreateView | Select) -> Entry:
        made = Entry(kind, name, statement.text, birth=self.pending, id=self.catalog.next_id("v"), planning=PLANNING)
        made.output, made.options = str(statement.output), name_ways(self._options(statement.options), made.id)
        return made

    def create_sink(self, statement: CreateSink) -> Entry:
        """A sink fed by a view; it receives the changes from its creation on, with a snapshot also what is there."""
        self.catalog.check_free(statement.name)
        view = find_stored(self.catalog, statement.view, "a sink")
        bound = self.views[view.name.lower()]
        options = describe_sink(statement, bound.node, bound.stored).to_dict()
        entry = Entry("sink", statement.name, statement.text, (view.name,), options=options)
        self.catalog.add(entry)
        self._refresh_sinks(view.name)
        return entry

    def drop(self, name: str) -> Entry:
        """Take an entry out; the caller has dealt with its dependents."""
        entry = self.catalog.remove(name)
        view = self.views.pop(name.lower(), None)
        if view is not None:
            self._hidden[entry.id] = view
            self.answering.forget()
        for gone in self._hidden.keys() - self.catalog.hidden.keys():
            del self._hidden[gone]
        self._inputs.forget(entry.name)
        self.answering.forget_source(entry)
        if entry.kind == "sink":
            self._refresh_sinks(entry.needs[0])
        return entry

    def bind(self, query: exp.Expression, begin: Beginning | None = None, keep_us: int | None = None) -> BoundQuery:
        """A query over the catalog, as it begins where it is said, or as it would begin now."""
        begin = begin or Beginning(self.pending)
        query = unfold(query, self._inputs.definition)
        query, called = mark_user_functions(query, self.catalog.user_function)
        query, used = mark_user_aggregates(query, self.catalog.user_aggregate)
        find = partial(self._find_input, begin=begin)
        points, dates = begin.planning >= 1, begin.planning >= 3
        binder = Binder(find, self.unit_us, points, dates=dates, keep_us=keep_us, birth=begin.birth)
        bound = binder.new_query(query) if begin.decided is None else binder.query(query)
        return replace(bound, needs=bound.needs | used | called)

    def _find_input(self, name: str, node: exp.Expression | None, begin: Beginning) -> Input:
        """What a name means that was not unfolded; SYNC ON may name a virtual view, and a query that stands a view
        that was dropped.
        """
        hidden = begin.aliases.get(name.lower())
        if hidden is not None:
            return view_input(self._hidden[hidden], begin.birth)
        definition = self._inputs.definition(name)
        if definition is None:
            return self._inputs.find(name, node, begin.birth)
        bound = self.bind(definition, begin)
        entry = self.catalog.find(name)
        return replace(bound.as_input(entry.name), needs=bound.needs | {entry.name})

    def virtual_query(self, entry: Entry) -> exp.Expression:
        """The query of a virtual view, as its text has it."""
        found = self._inputs.definition(entry.name)
        assert found is not None
        return found

    def names_read(self, statement: CreateView) -> frozenset[str]:
        """The names that a view would need if it were created now; an error where it could not be."""
        if statement.output == VIRTUAL:
            return self.bind(statement.query).needs
        return self.plan_query(statement.query, statement.output, statement.options).bound.needs

    def plan_query(self, query: exp.Expression, output: str, options: dict[str, Any]) -> PlannedQuery:
        """What a query would become if it were created now."""
        given = self._options(options)
        return self._plan(query, output, given, Beginning(self.pending, history=begins_with_history(given)))

    def plan_fragment(self, query: exp.Expression, options: dict[str, Any], birth: int) -> PlannedQuery:
        """What leaves for another site: as it is written, no other view answers a part of it."""
        return self._plan(query, "streamed", options, Beginning(birth, decided=[]))

    def _plan(self, query: exp.Expression, output: str, options: dict[str, Any], begin: Beginning) -> PlannedQuery:
        """Bind, check, answer from other views, and optimize."""
        planned, bounds = self._plan_answer(query, output, options, begin_of(options, begin))
        later = next_of(options, begin)
        others = [self._plan_answer(query, output, *later)[0].node] if later is not None else []
        node = put_together(options, [planned.node, *others])
        if output != "rstream" or not bounds:
            node = stream_of(node, output, planned.bound, self.unit_us)
        return replace(planned, node=hold_back(node, planned.answer.shown_from))

    def _plan_answer(
        self, query: exp.Expression, output: str, options: dict[str, Any], begin: Beginning
    ) -> tuple[PlannedQuery, Bounds | None]:
        """The answer of a query, before its output makes a stream of it; and the bounds of windows that it shows."""
        query, bounds = self._without_bounds(replace_imported(query, options), begin)
        bound = self.bind(query, begin, keep_of(options, self.unit_us))
        if (output == "rstream" or bounds) and not options.get("empty_windows"):
            bound = replace(bound, node=drop_empty_windows(bound.node))
        if not options.get("unbounded_state"):
            rows, unbounded = recognise_limits(bound.node), UnboundedViews(self.views)
            check_bounded(rows, lambda: self._streams(bound.needs), unbounded, lambda n: place_of(n, query))
        without = (*options.get("without", ()), *younger_rules(begin.planning))
        searches = bounds is None and begin.searches(output)
        answer = self.answering.answer(bound.node, begin, without, searches)
        done = optimize(answer.node, without)
        node = spread_input(done.node, options.get("spread"))
        check_names(node, output)
        check_user_aggregates(node)
        if bounds:
            node = bounds.over(bound, node, output, self.unit_us)
        trace = tuple((rule, f"{type(a).__name__} → {type(b).__name__}") for rule, a, b in done.trace)
        return PlannedQuery(bound, node, trace, answer), bounds

    def _without_bounds(self, query: exp.Expression, begin: Beginning) -> tuple[exp.Expression, Bounds | None]:
        """A query without window_start and window_end, and these; unless they are columns like any other."""
        rest, bounds = remove_bounds(query, self.unit_us)
        if bounds is not None:
            with suppress(PlanProblem):
                self.bind(query, begin)
                return query, None
        return rest, bounds

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
        usual = {OPTION: HISTORY} if self.catalog.settings.get(OPTION) == HISTORY else {}
        return {**usual, **given, **({"without": list(self.without)} if self.without else {})}

    def running_views(self) -> list[BoundView]:
        """The views that no failure has stopped."""
        return [v for v in self.views.values() if v.entry.id not in self.stopped]

    def _install(self, entry: Entry, query: exp.Expression) -> BoundView:
        view = self._bind_view(entry, query, (), Beginning(entry.birth, history=begins_with_history(entry.options)))
        self._check_reads_running(view.query.needs)
        entry.answered, entry.moment = decisions_of(view.answer), view.answer.moment
        entry.needs = tuple(sorted(view.query.needs))
        self.catalog.add(entry)
        self.views[entry.name.lower()] = view
        self.answering.add(view)
        return view

    def bind_again(self, name: str) -> None:
        """The plans of a view have changed: it, and what reads it, are bound anew."""
        self.answering.forget()
        named = (self.catalog.find(name), *self.catalog.dependents(name), *self.catalog.hidden.values())
        for entry in sorted((e for e in named if e.is_stored), key=lambda e: e.number):
            self._rebind(entry, self._sinks(entry.name))

    def _rebind(self, entry: Entry, sinks: tuple[Sink, ...]) -> None:
        statement = parse_one(entry.text)
        assert isinstance(statement, (CreateView, Select))
        begin = Beginning.of_standing(entry)
        view = self._bind_view(entry, statement.query, sinks, begin)
        if entry.id in self.catalog.hidden:
            self._hidden[entry.id] = view
        else:
            self.views[entry.name.lower()] = view
        self.answering.add(view)

    def _bind_view(self, entry: Entry, query: exp.Expression, sinks: tuple[Sink, ...], begin: Beginning) -> BoundView:
        planned = self._plan(query, entry.output, entry.options, begin)
        return bind_view(entry, planned, self.unit_us, sinks)

    def _refresh_sinks(self, name: str) -> None:
        """A sink of a view was created or dropped."""
        view = self.views.get(name.lower())
        if view:
            self.views[name.lower()] = replace(view, stored=replace(view.stored, sinks=self._sinks(name)))

    def _sinks(self, view: str) -> tuple[Sink, ...]:
        return tuple(Sink.from_dict(e.options) for e in self.catalog.of("sink") if e.needs[0].lower() == view.lower())

    def _check_reads_running(self, needs: Iterable[str]) -> None:
        """A new view cannot read one that has stopped."""
        for name in sorted(needs):
            view = self.views.get(name.lower())
            if view is not None and view.entry.id in self.stopped:
                raise CatalogProblem(
                    "TM509",
                    f'view "{view.entry.name}" has stopped and cannot be read by another view',
                    detail=self.stopped[view.entry.id]["reason"],
                    hint=f"RESTART VIEW {view.entry.name} first",
                )

    # ---- the plan ------------------------------------------------------------------------------

    def physical(
        self, version: int, shards: tuple[int, ...], roots: dict[str, Relation] | None = None, keep: bool = False
    ) -> Physical:
        """One plan for everything that stands, or for `roots` alone; with `keep` its ids stay assigned."""
        roots = self._roots() if roots is None else roots
        return self._plans.lower(version, shards, roots, None if keep else self.choose_taggers(version, roots.values()))

    def choose_taggers(self, version: int, roots: Iterable[Relation]) -> TaggingSettings:
        """Which queries would share a tagger; those that begin with plan `version` get theirs now."""
        return self._plans.choose_taggers(version, [*self._roots().values(), *roots])

    def homes(self, shards: tuple[int, ...]) -> dict[str, Home]:
        """How the rows of all operators and ports of the newest plan lie in the shards."""
        return self._plans.homes(shards, self._roots())

    def _roots(self) -> dict[str, Relation]:
        return {v.entry.id: v.node for v in self.running_views()} | self.shipped
