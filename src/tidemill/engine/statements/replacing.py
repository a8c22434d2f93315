"""CREATE OR REPLACE VIEW: what reads the old definition begins anew over the new one, in the same statement.

    Hot           dropped                  created with the new definition
    HotCount      dropped with it          created from its text, over the new Hot

All of it is tried on a copy of the catalog first: either every reader can go on, or nothing changes. A reader goes on
if the columns that it reads have the names and types that they had, and its own columns stay what they are; so those
who read the reader see the same table.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tidemill.engine.settings.options import check_options
from tidemill.engine.sites.exports import EXPORTS, LOCAL
from tidemill.engine.sites.fragments import check_exportable
from tidemill.engine.state import DatabaseState
from tidemill.engine.views.bound_view import BoundView
from tidemill.engine.views.history import BEGINNINGS
from tidemill.engine.views.history import OPTION as BEGIN
from tidemill.engine.workload import Workload
from tidemill.errors import CatalogProblem, TidemillError
from tidemill.plan.sources import Schema
from tidemill.plan.statements import CreateSink, CreateView, Select
from tidemill.runtime.views.successions import Shown, Succession, can_stand_in
from tidemill.sql.bind.imported_names import IMPORTS, PLACED
from tidemill.sql.catalog import VIRTUAL, Catalog, Entry
from tidemill.sql.dialect.nodes import all_nodes
from tidemill.sql.parse.statements import parse_one

_NAMES_OF_TIME = frozenset(["ts"])  # what a query may read without naming it


@dataclass(frozen=True)
class Replacement:
    """A view that is replaced, what reads it in the order of creation, and the sites that may read which of them."""

    existing: Entry
    readers: list[Entry]
    exports: dict[str, list[str]]  # by the name of the site
    shown: dict[str, Shown] = field(default_factory=dict)  # what they are until they are forgotten, by name

    @classmethod
    def of(cls, catalog: Catalog, existing: Entry) -> Replacement:
        """What is concerned when a view is replaced."""
        readers = catalog.dependents(existing.name)
        names = {e.name.lower() for e in (existing, *readers)}
        sites = [s for s in catalog.of("site") if not s.options[LOCAL]]
        exports = {s.name: [n for n in s.options[EXPORTS] if n in names] for s in sites}
        return cls(existing, readers, {site: listed for site, listed in exports.items() if listed})

    def check(self, state: DatabaseState, statement: CreateView) -> None:
        """Refuse a definition that is not possible without the old one, or over which a reader cannot go on."""
        check_new_definition(state.workload, self.existing, self.readers, statement)
        named = {self.existing.name.lower()}
        for reader in self.readers:
            if not named & {need.lower() for need in reader.needs}:  # its query does not say that it reads the view
                raise self._refuse(reader, "it is answered from a view that was dropped and reads the old one")
            named.add(reader.name.lower())
            if reader.kind == "edge" or {IMPORTS, PLACED} & reader.options.keys():
                raise self._refuse(reader, "another site takes part in it")
        if self.readers or self.exports:
            self._rehearse(state, statement)

    def note_shown(self, view: BoundView | None) -> None:
        """Remember a view that is about to be forgotten; a virtual one and a sink show nothing."""
        if view is not None:
            self.shown[view.entry.name.lower()] = Shown(view.stored, view.entry.moment)

    def let_stand_in(self, state: DatabaseState) -> None:
        """Let ad hoc queries read what was shown until all of the new views have begun."""
        pending = state.pending
        waiting = {s.new.id: s.old for s in pending.successions}
        pairs = [
            (old, state.workload.views[name].stored) for name, old in self.shown.items() if name in state.workload.views
        ]
        pairs = [(waiting.pop(old.view.id, old), new) for old, new in pairs]
        pairs = [(old, new) for old, new in pairs if can_stand_in(old.view, new, state.outlet.known)]
        pending.successions[:] = [s for s in pending.successions if s.new.id in waiting]
        pending.successions += [Succession(old, new, pairs[0][1].id) for old, new in pairs]

    def restore_exports(self, catalog: Catalog) -> None:
        """Let other sites read what they might read before."""
        for site, names in self.exports.items():
            listed: list[str] = catalog.find(site, "site").options[EXPORTS]
            listed += [name for name in names if name not in listed]

    def _rehearse(self, state: DatabaseState, statement: CreateView) -> None:
        """Do it on a copy, and compare."""
        before, after = state.workload, _copy_of(state)
        for entry in (*reversed(self.readers), self.existing):
            after.drop(entry.name)
        _create(after, statement, self.existing)
        for reader in self.readers:
            made = statement_again(reader, after.catalog)
            self._check_columns(reader, made, before, after)
            try:
                _create(after, made, reader)
            except TidemillError as error:
                raise self._refuse(reader, error.message) from error
            if reader.kind != "sink" and _columns(before, reader.name) != _columns(after, reader.name):
                raise self._refuse(reader, "its own columns would change")
        for name in {name for names in self.exports.values() for name in names}:
            check_exportable(after, name)

    def _check_columns(self, reader: Entry, made: Any, before: Workload, after: Workload) -> None:
        """The columns that a reader may read of the replaced view have the names and types that they had."""
        name = self.existing.name
        if name.lower() not in {need.lower() for need in reader.needs}:
            return
        old, new = _columns(before, name), _columns(after, name)
        wanted = None if isinstance(made, CreateSink) else _names_read(made.query, name)
        if wanted is None:
            if old != new:
                raise self._refuse(reader, f"it reads all columns of {name}: {_differences(old, new)}")
            return
        read = [tuple(c for c in columns if c.name.lower() in wanted) for columns in (old, new)]
        if set(read[0]) != set(read[1]):
            raise self._refuse(reader, _differences(*read))

    def _refuse(self, reader: Entry, reason: str) -> CatalogProblem:
        return CatalogProblem(
            "TM306",
            f'{self.existing.kind} "{self.existing.name}" cannot be replaced: {reader.kind} "{reader.name}" reads it',
            detail=f"and cannot go on over the new definition: {reason}",
            hint=f"DROP {reader.kind.upper()} {reader.name} first, or keep the columns that it reads as they are",
        )


def check_new_definition(workload: Workload, existing: Entry, readers: list[Entry], statement: CreateView) -> None:
    """The new definition must be possible without the old one, and without what reads the old one."""
    with workload.answering.leaving_out(existing.id):
        read = workload.names_read(statement)
    through = next((e.name for e in (existing, *readers) if e.name in read), None)
    if through is not None:
        detail = None if through == existing.name else f'through "{through}"'
        raise CatalogProblem(
            "TM306",
            f'{existing.kind} "{existing.name}" cannot be replaced by a query that reads it',
            detail=detail,
            hint="create the new view under another name",
        )


def statement_again(entry: Entry, catalog: Catalog) -> Any:
    """The statement that made an entry. A view begins with what was said then, whatever the setting is now."""
    statement = check_options(parse_one(entry.text))
    begin = entry.options.get(BEGIN, BEGINNINGS[0])
    if not isinstance(statement, (CreateView, Select)) or catalog.settings.get(BEGIN, BEGINNINGS[0]) == begin:
        return statement
    return replace(statement, options={**statement.options, BEGIN: begin})


def _copy_of(state: DatabaseState) -> Workload:
    """Everything that stands, to try a statement on."""
    real = state.workload
    made = Workload(Catalog.from_dict(deepcopy(real.catalog.to_dict())), real.unit_us, real.without, state.operators)
    made.stopped = real.stopped
    made.answering.sources, made.answering.last_closed = real.answering.sources, real.answering.last_closed
    return made


def _create(workload: Workload, statement: Any, entry: Entry) -> None:
    if isinstance(statement, Select):
        workload.create_query(statement, entry.name)
    elif isinstance(statement, CreateSink):
        workload.create_sink(statement)
    elif statement.output == VIRTUAL:
        workload.create_virtual_view(statement)
    else:
        workload.create_view(statement)


def _columns(workload: Workload, name: str) -> Schema:
    """The columns of a view, stored or virtual."""
    entry = workload.catalog.find(name)
    if entry.output == VIRTUAL:
        return workload.bind(workload.virtual_query(entry)).schema
    return workload.views[name.lower()].node.schema


def _names_read(query: exp.Expression, view: str) -> set[str] | None:
    """The names, in lower case, that may be columns of a view in a query; None where it may read all of them.

    All names of the text count, but for columns of which it says that they are of something else.
    """
    nodes = list(all_nodes(query))
    tables = [n for n in nodes if isinstance(n, exp.Table)]
    aliases = {n.alias_or_name.lower() for n in tables if n.name.lower() == view.lower()}
    others = {n.alias_or_name.lower() for n in tables} - aliases
    wanted = set(_NAMES_OF_TIME)
    for node in nodes:
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
        if isinstance(node, exp.Join) and str(node.args.get("method") or "").upper() == "NATURAL":
            return None
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            return None  # a whole row
        elsewhere = isinstance(node.parent, exp.Column) and node.parent.table.lower() in others
        if isinstance(node, exp.Identifier) and not elsewhere:
            wanted.add(node.name.lower())
    return wanted


def _differences(old: Schema, new: Schema) -> str:
    """What of the columns is not as it was.

    >>> from tidemill.plan.sources import Column
    >>> one, two = Column("a", "INTEGER"), Column("b", "VARCHAR")
    >>> _differences((one, two), (Column("a", "BIGINT"),)), _differences((one, two), (two, one))
    ('a was INTEGER and would be BIGINT, b would be gone', 'their order would change')
    """
    was, is_now = ({c.name: c.type for c in columns} for columns in (old, new))
    found = [f"{n} was {was[n]} and would be {t}" for n, t in is_now.items() if n in was and was[n] != t]
    found += [f"{name} would be gone" for name in was if name not in is_now]
    found += [f"{name} would be new" for name in is_now if name not in was]
    return ", ".join(found) or "their order would change"
