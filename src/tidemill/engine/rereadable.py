"""Which sources can be read a second time so that the same rows are found late, and how far the first reading is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sources import ALWAYS, SHED, SHED_UPDATES, SourceSpec
from tidemill.runtime.paths import Paths
from tidemill.runtime.sources.columns import is_wall_time
from tidemill.runtime.sources.connector import Rereadable
from tidemill.runtime.sources.registry import open_connector
from tidemill.runtime.views.outlet import Outlet
from tidemill.sql.catalog import Entry

SKIPPED = "skipped"  # an option of the catalog entry: records of the source were skipped by hand


@dataclass(frozen=True)
class RereadableSources:
    """The sources of an open database."""

    paths: Paths
    outlet: Callable[[], Outlet]

    def closed_until(self, spec: SourceSpec) -> int:
        """How far the source is closed."""
        read = self.outlet().read_sources.get(spec.name)
        return read["floor"] if read is not None else BEGINNING

    def why_not(self, entry: Entry, first_read: int) -> str | None:
        """Why a source that was first read in a plan version cannot be read again; None where it can."""
        spec = entry.spec
        assert spec is not None
        return _why_undecided(entry, spec, first_read) or self._why_unknown(spec) or self._why_gone(spec)

    def _why_unknown(self, spec: SourceSpec) -> str | None:
        """The first reading has noted what a second one must know, unless it was of an earlier version."""
        read = self.outlet().read_sources.get(spec.name)
        known = read["again"] if read is not None else spec.name not in self.outlet().source_totals
        return None if known else "which of its rows were late is not known any more"

    def _why_gone(self, spec: SourceSpec) -> str | None:
        if spec.kind == "port":
            return "a port keeps what came until it was read"
        try:
            connector = open_connector(spec, self.paths.source(spec.name))
            return connector.why_gone() if isinstance(connector, Rereadable) else "sources of its kind are read once"
        except TidemillError as error:
            return error.message


def _why_undecided(entry: Entry, spec: SourceSpec, first_read: int) -> str | None:
    """What was taken of a source may have depended on more than its records."""
    if entry.options.get(SKIPPED):
        return "records of it were skipped by hand"
    added = [name for name, version in entry.options.get("added", {}).items() if version > first_read]
    if added:
        return f"column {added[0]} was added after it was first read"
    if spec.ahead_us is not None and spec.timestamp is not None:
        kind = next(c.type for c in spec.columns if c.name == spec.timestamp)
        if is_wall_time(kind):
            return "with the option ahead, which rows are taken depends on when they came"
    if SHED_UPDATES in spec.options and spec.options.get(SHED) != ALWAYS:
        return "which updates were shed depends on how fast they came"
    return None
