"""Virtual views: named queries without operators and tables, unfolded into the queries that read them.

    CREATE VIRTUAL VIEW v AS q;    SELECT … FROM v  means  SELECT … FROM (q) v

The plan of a reader is the plan of that text, whatever rules apply to it, and a reader begins with its own creation.
"""

from __future__ import annotations

from tidemill.errors import CatalogProblem
from tidemill.sql.catalog import VIRTUAL, Catalog, Entry


def find_stored(catalog: Catalog, name: str, what: str) -> Entry:
    """The view or standing query of this name; `what` needs its answers or changes, which a virtual view has not."""
    entry = catalog.find(name, "view", "query")
    if entry.output == VIRTUAL:
        raise CatalogProblem(
            "TM230",
            f'"{entry.name}" is a virtual view: {what} needs a view that is kept',
            detail="a virtual view is unfolded into its readers and has no answers or changes of its own",
            hint=f"CREATE STREAMED VIEW … AS SELECT * FROM {entry.name}, and name that view",
        )
    return entry


def remark_on(entry: Entry, catalog: Catalog) -> str:
    """What EXPLAIN says about a virtual view."""
    readers = [e.name for e in catalog.of("view", "query") if entry.name in e.needs]
    where = f"its readers: {', '.join(readers)}" if readers else "its readers; there is none"
    return f"{entry.name} is virtual: it does not run by itself but as a part of {where}"


def remarks_on_reader(entry: Entry, catalog: Catalog) -> tuple[str, ...]:
    """What EXPLAIN says about the virtual views that a view unfolds."""
    found = [e.name for e in catalog.of("view") if e.output == VIRTUAL and e.name in entry.needs]
    return (f"{entry.name} unfolds virtual view{'s' * (len(found) > 1)} {', '.join(found)}",) if found else ()
