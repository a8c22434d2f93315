"""Virtual views in ad hoc queries: a table name stands for a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sqlglot import exp

from tidemill.engine.workload import Workload
from tidemill.errors import TidemillError
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.unfolding import MOST_UNFOLDED
from tidemill.sql.catalog import VIRTUAL, Entry
from tidemill.sql.scopes import outside_tables

Definitions = Mapping[str, exp.Expression]


class VirtualTables:
    """The virtual views of one ad hoc query; `check` refuses what cannot be part of an ad hoc query. `given` has the
    definitions of some, by name in lower case, that are to be read in the place of their own.
    """

    def __init__(
        self, workload: Workload, check: Callable[[exp.Expression], None], given: Definitions | None = None
    ) -> None:
        self._workload, self._check, self._given = workload, check, given or {}
        self._unfolded = 0

    def definition(self, table: exp.Table) -> exp.Expression | None:
        """A copy of the query that the name of a virtual view stands for; None for everything else."""
        entry = self._entry(table)
        if entry is None:
            return None
        self._unfolded += 1
        if self._unfolded > MOST_UNFOLDED:
            raise problem(
                f"the query unfolds more than {MOST_UNFOLDED} virtual views",
                table,
                code="TM104",
                hint="make one of them a COMPLETE view",
            )
        found = self._query(entry).copy()
        with self.errors_at(table):
            self._check(found)
        return found

    @contextmanager
    def errors_at(self, table: exp.Table) -> Iterator[None]:
        """Errors inside a definition point at the name of the view in the query, and say which view it is."""
        try:
            yield
        except TidemillError as error:
            detail = f'in virtual view "{table.name}"' + (f": {error.detail}" if error.detail else "")
            raise problem(error.message, table, code=error.code, detail=detail, hint=error.hint) from None

    def put(self, definition: exp.Expression, table: exp.Table) -> None:
        """Let a definition stand in the place of a table, with the columns that DESCRIBE shows."""
        entry = self._entry(table)
        assert entry is not None
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        if not alias.args.get("columns"):
            bound = self._workload.bind(self._workload.virtual_query(entry))
            alias.set("columns", [exp.to_identifier(c.name, quoted=True) for c in bound.schema])
        place = {key: value for key, value in table.args.items() if key == "joins" and value}
        table.replace(exp.Subquery(this=definition, alias=alias, **place))

    def all_names(self, query: exp.Expression) -> set[str]:
        """Every identifier of the query and of the definitions that it unfolds, in lower case."""
        names, seen, todo = set[str](), set[str](), [query]
        while todo:
            tree = todo.pop()
            names |= {node.name.lower() for node in tree.find_all(exp.Identifier)}
            for table in outside_tables(tree):
                entry = self._entry(table)
                if entry is not None and entry.name not in seen:
                    seen.add(entry.name)
                    todo.append(self._query(entry))
        return names

    def _query(self, entry: Entry) -> exp.Expression:
        return self._given.get(entry.name.lower()) or self._workload.virtual_query(entry)

    def _entry(self, table: exp.Table) -> Entry | None:
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            return None
        entry = self._workload.catalog.entries.get(table.name.lower())
        return entry if entry is not None and entry.output == VIRTUAL else None
