"""Names of other sites in FROM: `paris.Packets` becomes a stream of this catalog over a source that paris delivers.

The description is asked for when a view that reads the name is created. Only columns that the view reads are shipped,
and only rows that satisfy its plain conditions; views whose columns and rows are all there share what is delivered.
The source is an edge: its instance is never used again, so a view that is created later may begin with an edge of its
own. What a view of another site holds is delivered first, so each view that reads one later has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.engine.directory.consistency import mark_source
from tidemill.engine.sites.edges import LENT
from tidemill.engine.sites.exports import find_other_site
from tidemill.engine.sites.fragments import fragment_text
from tidemill.engine.workload import Workload
from tidemill.errors import TidemillError
from tidemill.plan.sources import SITE, Schema, SourceSpec
from tidemill.plan.statements import CreateView
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.protocol import Description
from tidemill.sql.bind.imported_names import IMPORTS, PLACED
from tidemill.sql.bind.scope import problem
from tidemill.sql.catalog import VIRTUAL, Catalog, Entry
from tidemill.sql.dialect.nodes import Difference, all_nodes
from tidemill.sql.pushed_conditions import pushed_conditions
from tidemill.sql.scopes import read_columns

Describe = Callable[[Entry, str], Description]  # a site and a name there
Known = dict[int, tuple[Entry, Description]]  # the site and description of a table, by its id
# Options that say how a statement is joined; without streams to read: everything is shipped here.
Plan = Callable[[Any, Known], dict[str, Any] | None]


class Imports:
    """The streams and views of other sites that this database reads."""

    def __init__(self, paths: Paths, catalog: Catalog, workload: Workload, describe: Describe) -> None:
        self._paths, self._catalog, self._workload, self._describe = paths, catalog, workload, describe
        self._edges: dict[str, list[SourceSpec]] = {}
        self.plan: Plan = lambda statement, known: None
        self.forget_edge: Callable[[Entry], None] = lambda entry: None

    @contextmanager
    def resolve_names(self, statement: Any) -> Iterator[Any]:
        """The statement with an option that says what its names of other sites mean; unread ones are forgotten."""
        try:
            options = self._resolve(statement)
            yield replace(statement, options={**statement.options, **options}) if options else statement
        finally:
            self.forget_unread()

    def _resolve(self, statement: Any) -> dict[str, Any]:
        """The options that say what the names of other sites mean; {} where there are none."""
        known = self.ask_names(statement)
        if not known:
            return {}
        tables = _tables_of(statement)
        planned = self.plan(statement, known) or {}
        if IMPORTS in planned or PLACED in planned:
            return planned
        named: dict[str, str] = {}
        for table in tables:
            if id(table) in known:
                self.import_whole(table, statement, *known[id(table)], named)
        return {**planned, IMPORTS: named}

    def ask_names(self, statement: Any) -> Known:
        """The sites of names in a statement, and what they say about them."""
        named = (t for t in _tables_of(statement) if t.args.get("db") and not t.args.get("catalog"))
        return {id(table): self._ask(table, statement) for table in named}

    def edges(self, site: str) -> list[SourceSpec]:
        """The sources that a site delivers and that a view reads, as they were when the plan last changed."""
        return self._edges.get(site.lower(), [])

    def note_edges(self) -> None:
        """The plan has changed. Conversations look at the edges while statements are executed."""
        found: dict[str, list[SourceSpec]] = {}
        for entry, spec in self._sources():
            if any(d.is_stored or d.kind == "edge" for d in self._catalog.dependents(entry.name)):
                found.setdefault(str(spec.origin["site"]).lower(), []).append(spec)
        self._edges = found

    def forget_unread(self) -> None:
        """Forget streams of other sites that nothing reads, and what was lent for them."""
        while self._forget_some():
            pass

    def _forget_some(self) -> bool:
        found = False
        for entry, _ in self._sources():
            readers = self._catalog.dependents(entry.name)
            if all(r.kind == "stream" for r in readers):
                for gone in (*reversed(readers), entry):
                    self._workload.drop(gone.name)
                found = True
        lent = {name for _, spec in self._sources() for name in spec.origin.get("lends", ())}
        for entry in [e for e in self._catalog.of("edge") if LENT in e.options]:
            if entry.options["edge"] not in lent:
                self._workload.drop(entry.name)
                self.forget_edge(entry)
                found = True
        return found

    def _sources(self) -> list[tuple[Entry, SourceSpec]]:
        return [(e, e.spec) for e in self._catalog.of("source") if e.spec is not None and e.spec.kind == SITE]

    def _ask(self, table: exp.Table, statement: Any) -> tuple[Entry, Description]:
        """The site of a name and what it says about it."""
        try:
            site = find_other_site(self._catalog, table.db)
            found = self._describe(site, table.name)
        except TidemillError as error:
            raise problem(error.message, table, code=error.code, detail=error.detail, hint=error.hint) from None
        self._check(site, found, table, statement)
        return site, found

    def import_whole(
        self, table: exp.Table, statement: Any, site: Entry, found: Description, named: dict[str, str]
    ) -> None:
        """Find or make the stream that a name stands for in a statement, and note it in `named`."""
        columns = self._columns(found, table, statement.query)
        plain = not found.key and not found.is_view and not found.edge and statement.query.find(Difference) is None
        types = {c.name: c.type for c in found.columns} if plain else {}
        text = fragment_text(found.name, columns, pushed_conditions(statement.query, table, types))
        entry = self._find(site, found, columns, text) or self._add(site, found, columns, text)
        named[f"{site.name}.{found.name}".lower()] = entry.name

    def _check(self, site: Entry, found: Description, table: exp.Table, statement: Any) -> None:
        if found.unit_us != self._workload.unit_us:
            raise problem(
                f'site "{site.name}" counts in another clock unit',
                table,
                code="TM707",
                detail=f"{found.unit_us} microseconds there, {self._workload.unit_us} here",
                hint="databases that read each other are made with the same clock",
            )
        if isinstance(statement, CreateView) and statement.output == VIRTUAL:
            raise problem(
                "a virtual view cannot read another site",
                table,
                code="TM704",
                hint="leave VIRTUAL out, and let other views read this one",
            )

    def _columns(self, found: Description, table: exp.Table, query: exp.Expression) -> Schema:
        """The columns that are shipped: those that the query reads, the key, and what gives records their meaning."""
        compared = found.key_null or found.is_view or query.find(Difference) is not None  # whole rows
        if compared or found.edge:
            return found.columns
        read = {*read_columns(query, table, [c.name for c in found.columns]), *found.key, found.event, found.operation}
        return tuple(c for c in found.columns if c.name in read) or found.columns[:1]

    def _find(self, site: Entry, found: Description, columns: Schema, text: str) -> Entry | None:
        """A stream that is delivered already, with these columns and all rows or those of the same conditions; of a
        view only one that begins with this query.
        """
        for entry in self._catalog.of("stream"):
            spec = self._catalog.find(entry.needs[0], "source").spec
            if spec is None or spec.kind != SITE:
                continue
            same = (spec.origin["site"], spec.origin["name"]) == (site.name, found.name)
            begins = not found.is_view or entry.birth == self._workload.pending
            rows = text.partition(" WHERE ")[2], entry.text.partition(" WHERE ")[2]
            if (
                same
                and begins
                and rows[1] in ("", rows[0])
                and set(columns) <= set(spec.columns)
                and entry.key == found.key
            ):
                return entry
        return None

    def _add(self, site: Entry, found: Description, columns: Schema, text: str) -> Entry:
        return self.add(site, replace(found, columns=columns), text)

    def add(self, site: Entry, found: Description, text: str, **origin: Any) -> Entry:
        """A stream that a site delivers, as it is described."""
        name = found.edge or self._catalog.next_id(f"{site.name}.{found.name}#")
        options: dict[str, Any] = {"event": found.event, "key_null": found.key_null, "unit_us": found.unit_us}
        if found.is_view:
            period = list(found.period) if found.period else None  # as JSON has it
            options |= {"changes": True, "keyed": found.keyed, "domain": found.domain, "period": period}
            options |= {"stamp": found.stamp} if found.stamp else {}
        spec = SourceSpec(
            name=name,
            kind=SITE,
            columns=found.columns,
            origin={"site": site.name, "name": found.name, "text": text, **origin},
            operation=found.operation,
            options=options,
        )
        birth = self._workload.pending
        source = Entry("source", f"{name} delivered", text, (site.name,), spec=spec, birth=birth)
        stream = Entry("stream", name, text, (source.name,), key=found.key, birth=birth)
        for entry in (source, stream):
            self._catalog.add(entry)
        mark_source(self._paths, spec.name)
        return stream


def _tables_of(statement: Any) -> list[exp.Table]:
    query = getattr(statement, "query", None)
    return [n for n in all_nodes(query) if isinstance(n, exp.Table)] if query is not None else []
