"""How much of its log PostgreSQL keeps for each source: asked in the background, so that a status never waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from tidemill.engine.postgres_sources import POSTGRES
from tidemill.errors import TidemillError
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.postgres.slot import Slot
from tidemill.sql.catalog import Entry

_EVERY_S = 2.0


class SlotLags:
    """The last known lag of each slot in bytes; None where PostgreSQL has not answered."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}
        self._slots: dict[str, Slot] = {}
        self._asked = 0.0
        self._asking: threading.Thread | None = None

    def read(self, sources: Iterable[Entry]) -> dict[str, int | None]:
        """What is known, by the name of the source in small letters; asks anew where that is some seconds old."""
        followed = {e.name.lower(): e.spec for e in sources if e.spec is not None and e.spec.kind == POSTGRES}
        is_due = time.monotonic() - self._asked > _EVERY_S and (self._asking is None or not self._asking.is_alive())
        if followed and is_due:
            self._asked = time.monotonic()
            self._asking = threading.Thread(target=self.ask, args=(followed,), daemon=True, name="ask for slot lags")
            self._asking.start()
        return {name: self._known.get(name) for name in followed}

    def ask(self, followed: dict[str, SourceSpec]) -> None:
        """Ask for the lag of each source, over a connection that is kept."""
        for name, spec in followed.items():
            slot = self._slots.get(name)
            try:
                if slot is None or not slot.belongs_to(spec):
                    slot = self._slots[name] = Slot(spec)
                self._known[name] = slot.lag_bytes()
            except TidemillError:
                self._known[name] = None
        for name in set(self._slots) - set(followed):
            self._slots.pop(name).close()
            self._known.pop(name, None)

    def close(self) -> None:
        """Close the connections; an answer that is under way is waited for."""
        if self._asking is not None:
            self._asking.join(10)
        for slot in self._slots.values():
            slot.close()
        self._slots.clear()
