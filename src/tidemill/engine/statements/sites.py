"""CREATE SITE, EXPORT, REVOKE and SHOW SITES."""

from __future__ import annotations

import pyarrow as pa

from tidemill.engine.results import Created
from tidemill.engine.sites.exports import EXPORTS, LOCAL, PLAINTEXT, create_site, export
from tidemill.engine.sites.sites import Sites
from tidemill.engine.state import DatabaseState
from tidemill.engine.statements.definitions import Definitions
from tidemill.plan.statements import CreateSite, Export
from tidemill.sql.catalog import Catalog


class SiteStatements:
    """Executes statements about sites; all calls hold the lock of the state."""

    def __init__(self, state: DatabaseState, definitions: Definitions) -> None:
        self._state, self._definitions = state, definitions
        state.sites.service.changed = self._change_edges

    def create(self, statement: CreateSite) -> Created:
        """CREATE SITE; a database that runs begins to listen, or to ask, at once."""
        entry = create_site(self._state.catalog, statement)
        self._definitions.record(changes_plan=False)
        if self._state.sites.is_open:
            self._state.sites.open()
        return Created("site", entry.name, f"site {entry.name} created")

    def export(self, statement: Export) -> Created:
        """EXPORT and REVOKE. Edges that read what was revoked are forgotten."""
        done = export(self._state.catalog, self._state.workload, statement)
        before = set(self._state.workload.shipped)
        self._state.sites.service.revoke()
        self._definitions.record(changes_plan=before != set(self._state.workload.shipped))
        return Created("site", statement.site, done)

    def _change_edges(self, cause: str) -> None:
        """Another site has begun or ended edges."""
        self._state.workload.history.record_cause(cause)
        self._definitions.record(changes_plan=True)
        self._definitions.take_up_plan()


def sites_table(catalog: Catalog, sites: Sites) -> pa.Table:
    """SHOW SITES: this site and the others, what each may read and whether it is there."""
    shown = {status["name"]: status for status in sites.status()}
    rows = []
    for entry in catalog.of("site"):
        status = shown.get(entry.name)
        rows.append(
            {
                "name": entry.name,
                "local": entry.options[LOCAL],
                "address": entry.options["address"],
                "security": "plaintext" if entry.options[PLAINTEXT] else "mutual TLS",
                "exports": ", ".join(entry.options[EXPORTS]),
                "reads": ", ".join(e["name"] for e in status["reads"]) if status else "",
                "connected": status["connected"] if status else None,
                "problem": status["problem"] if status else None,
            }
        )
    return pa.Table.from_pylist(rows, _SHOWN)


_SHOWN = pa.schema(
    [
        ("name", pa.string()),
        ("local", pa.bool_()),
        ("address", pa.string()),
        ("security", pa.string()),
        ("exports", pa.string()),
        ("reads", pa.string()),
        ("connected", pa.bool_()),
        ("problem", pa.string()),
    ]
)
