"""Open ports of sources: what arrives on them is spooled, whether or not the job runs."""

from __future__ import annotations

from tidemill.runtime.paths import Paths
from tidemill.runtime.sources.port.spool import Spooler
from tidemill.sql.catalog import Entry


class Ports:
    """One spooler for each source that reads from a port, by the name of the source in small letters."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.spoolers: dict[str, Spooler] = {}

    def open(self, entry: Entry) -> None:
        """Open the port of a source; a source without a port, or whose port is open, is left alone."""
        if entry.spec is None or entry.spec.kind != "port" or entry.name.lower() in self.spoolers:
            return
        spooler = Spooler(entry.spec, self._paths.source(entry.spec.name))
        spooler.start()
        self.spoolers[entry.name.lower()] = spooler

    def close(self, name: str) -> None:
        """Close the port of a source, if it has one."""
        spooler = self.spoolers.pop(name.lower(), None)
        if spooler is not None:
            spooler.stop()

    def close_all(self) -> None:
        """Close every port."""
        for name in list(self.spoolers):
            self.close(name)

    def count_senders(self) -> dict[str, dict[str, int]]:
        """Connections of each open port, as the status shows them."""
        return {name: spooler.senders.describe() for name, spooler in self.spoolers.items()}
