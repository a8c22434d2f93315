"""The sites of a database: what it answers to others, its conversations with them, and where both go on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from tidemill.engine.sites.changing import PlanChanges
from tidemill.engine.sites.descriptions import check_description
from tidemill.engine.sites.exports import EXPORTS, LOCAL, PLAINTEXT, find_other_site, local_site
from tidemill.engine.sites.fragments import is_distinct
from tidemill.engine.sites.imports import Imports
from tidemill.engine.sites.service import Service
from tidemill.engine.sites.sessions import INBOX_BYTES, Session
from tidemill.engine.sites.site_joins import SiteJoins
from tidemill.engine.sites.traffic import Traffic
from tidemill.engine.workload import Workload
from tidemill.errors import CatalogProblem
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.paths import Paths, load_plan
from tidemill.runtime.planning.time_batches import Awaited
from tidemill.runtime.sites.inbox import Inbox
from tidemill.runtime.sites.limits import sources_awaited
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.sites.protocol import Description, Peer, Statistics
from tidemill.runtime.views.moments import read_frontiers
from tidemill.runtime.views.outlet import Outlet
from tidemill.runtime.views.source_totals import rows_of
from tidemill.sql.catalog import Catalog, Entry


class Listener(Protocol):
    """An open address at which other sites ask."""

    def close(self) -> None: ...


class Transport(Protocol):
    """How sites reach each other. `me` are the options of the local site, if there is one."""

    def connect(self, site: str, options: dict[str, Any], me: Entry | None) -> Peer: ...

    def listen(self, name: str, options: dict[str, Any], catalog: Catalog, service: Service) -> Listener: ...


class Sites:
    """What a database has to do with other sites. Without any it does nothing."""

    def __init__(
        self,
        paths: Paths,
        catalog: Catalog,
        workload: Workload,
        outlet: Callable[[], Outlet],
        lock: threading.RLock,
        transport: Transport,
    ) -> None:
        self._paths, self._catalog, self._workload, self._outlet = paths, catalog, workload, outlet
        self.transport = transport
        self.is_open = False
        self.threads = True  # False: a test makes every step of a conversation itself
        self.service = Service(paths, catalog, workload, outlet, lock)
        self.imports = Imports(paths, catalog, workload, self._describe)
        self.imports.forget_edge = self.service.forget
        self.joins = SiteJoins(paths, catalog, workload, self.imports, self.service, self._measure, self._link)
        self.changes = PlanChanges(
            catalog, workload, self.joins, outlet, lock, self._find_begun, self._refuses, self._find_traffic
        )
        self.imports.plan, self.service.known = self.joins.plan, self.imports.resolve_names
        self.sessions: dict[str, Session] = {}
        self._listener: Listener | None = None
        self._awaited: tuple[int, Awaited, Physical] | None = None  # of a plan version

    # ---- running ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Listen, and begin the conversations that are not there yet."""
        self.is_open, self.service.is_closed, me = True, False, local_site(self._catalog)
        if me is not None and self._listener is None:
            self._listener = self.transport.listen(me.name, me.options, self._catalog, self.service)
        for entry in self._catalog.of("site"):
            if not entry.options[LOCAL] and entry.options["address"] and entry.name.lower() not in self.sessions:
                session = self.sessions[entry.name.lower()] = self._session(entry)
                if self.threads:
                    session.start()

    def close(self) -> None:
        """End all conversations and stop listening."""
        self.is_open = False
        for session in self.sessions.values():
            session.stop()
        self.sessions.clear()
        self.service.close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def note_edges(self) -> None:
        """The plan has changed: which edges there are, both ways."""
        self.service.show_edges()
        self.imports.note_edges()
        for session in self.sessions.values():
            session.renew()

    def forget(self, entry: Entry) -> None:
        """An entry was dropped: of a site, of an edge, or of something that was exported or read."""
        if entry.kind == "edge":
            self.service.forget(entry)
        if entry.kind == "site":
            session = self.sessions.pop(entry.name.lower(), None)
            if session is not None:
                session.stop()
            if entry.options[LOCAL] and self._listener is not None:
                self._listener.close()
                self._listener = None
        if entry.kind == "stream" or entry.is_stored:
            for site in self._catalog.of("site"):
                site.options[EXPORTS] = [n for n in site.options[EXPORTS] if n != entry.name.lower()]

    # ---- what is shown ---------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """Each other site: whether it is connected, what waits, and its edges both ways."""
        return [self._site_status(e) for e in self._catalog.of("site") if not e.options[LOCAL]]

    def _site_status(self, entry: Entry) -> dict[str, Any]:
        session = self.sessions.get(entry.name.lower())
        reads = [self._reading(spec, session) for spec in self.imports.edges(entry.name)]
        sends = [self._sending(e) for e in self._catalog.of("edge") if e.options["site"].lower() == entry.name.lower()]
        ages = [e["age_seconds"] for e in sends if e["age_seconds"] is not None]
        idle = dict.fromkeys(("problem", "heard_at", "round_trip_seconds", "bandwidth")) | {"connected": False}
        return {
            "name": entry.name,
            "address": entry.options["address"],
            "security": "plaintext" if entry.options[PLAINTEXT] else "mutual TLS",
            **(session.describe() if session is not None else idle),
            "inbox_bytes": sum(e["bytes"] for e in reads),
            "outbox_bytes": sum(e["bytes"] for e in sends),
            "oldest_seconds": max(ages, default=None),
            "exports": list(entry.options[EXPORTS]),
            "reads": reads,
            "sends": sends,
        }

    def _reading(self, spec: SourceSpec, session: Session | None) -> dict[str, Any]:
        inbox = Inbox(self._paths.source(spec.name), spec.name)
        head = inbox.head()
        crossed = session.received.get(spec.name, Traffic()) if session is not None else Traffic()
        return {
            "edge": spec.name,
            "name": f"{spec.origin['site']}.{spec.origin['name']}",
            "text": spec.origin["text"],
            "bytes": inbox.size,
            "received": crossed.bytes,
            "received_rate": crossed.rate,
            "frontier": head.frontier if head.frontier > BEGINNING else None,
            "problem": session.refused.get(spec.name) if session is not None else None,
            "algorithm": spec.origin.get("algorithm", "sp_s"),
            **self._edge_measures(spec, head.frontier),
        }

    def _edge_measures(self, spec: SourceSpec, frontier: int) -> dict[str, Any]:
        """Rows of an edge that have been read, as keys where it brings join values, and how far it is behind the clock
        of this site, in seconds of event time.
        """
        outlet = self._outlet()
        rows = rows_of(outlet.source_totals, spec.name)
        clock = read_frontiers(outlet.known).get("clock", BEGINNING)
        lag = max(clock - frontier, 0) / 1e6 if min(clock, frontier) > BEGINNING else None
        is_keys = is_distinct(str(spec.origin["text"])) or spec.origin["name"].endswith("_keys")
        return {"rows": rows, "known_keys": rows if is_keys else None, "lag_seconds": lag}

    def _sending(self, entry: Entry) -> dict[str, Any]:
        outbox = Outbox(os.path.join(self._paths.departures, entry.id), entry.options["edge"])
        oldest, crossed = outbox.oldest, self.service.sent.get(entry.options["edge"], Traffic())
        return {
            "edge": entry.options["edge"],
            "name": entry.needs[0],
            "text": entry.text,
            "bytes": outbox.size,
            "sent": crossed.bytes,
            "sent_rate": crossed.rate,
            "age_seconds": None if oldest is None else max(time.time() - oldest, 0.0),
        }

    # ---- other sites -----------------------------------------------------------------------------

    def _session(self, entry: Entry) -> Session:
        return Session(
            entry.name,
            self._paths,
            lambda: self._connect(entry),
            lambda: self.imports.edges(entry.name),
            self._find_awaited_time,
            INBOX_BYTES,
            self.changes.consider,
        )

    def _find_begun(self, site: str, edge: str) -> int | None:
        """Up to which stamp an edge may have missed rows; None where the other site has not said it yet."""
        session = self.sessions.get(site.lower())
        return session.begun.get(edge) if session is not None else None

    def _refuses(self, site: str, edge: str) -> bool:
        """Whether the other site refuses an edge."""
        session = self.sessions.get(site.lower())
        return session is not None and edge in session.refused

    def _find_traffic(self, edge: str) -> Traffic | None:
        """What has crossed on an edge, whichever way it goes."""
        found = (session.received.get(edge) for session in self.sessions.values())
        return next((traffic for traffic in found if traffic is not None), self.service.sent.get(edge))

    def _link(self, site: str) -> tuple[float | None, float | None]:
        """Seconds of a round trip and bytes a second, as they were measured last."""
        session = self.sessions.get(site.lower())
        return (session.round_trip_s, session.bandwidth) if session is not None else (None, None)

    def _measure(self, site: str, name: str, columns: tuple[str, ...]) -> Statistics:
        """Ask another site what it knows of a stream."""
        peer = self._connect(find_other_site(self._catalog, site))
        try:
            return peer.measure(name, columns)
        finally:
            peer.close()

    def _connect(self, entry: Entry) -> Peer:
        return self.transport.connect(entry.name, entry.options, local_site(self._catalog))

    def _describe(self, entry: Entry, name: str) -> Description:
        if not entry.options["address"]:
            raise CatalogProblem(
                "TM702", f'site "{entry.name}" has no address', hint="CREATE SITE … AT 'host:7443' names it"
            )
        peer = self._connect(entry)
        try:
            return check_description(entry.name, name, peer.describe(name))
        finally:
            peer.close()

    def _find_awaited_time(self, spec: SourceSpec, closed: int) -> int | None:
        """The first time at which an answer waits for an edge that is closed up to `closed`; None where none does."""
        outlet = self._outlet()
        if not outlet.plan:
            return closed
        if self._awaited is None or self._awaited[0] != outlet.plan:
            plan = load_plan(self._paths.plan(outlet.plan))
            self._awaited = outlet.plan, Awaited.by(plan), plan
        own = self._awaited[1].next_point(spec.name, closed, outlet.progress.get("waits"))
        there = sources_awaited(self._paths, self._awaited[2]).get(spec.name, BEGINNING)
        times = [t for t in (own, there) if t is not None and t >= closed]
        until = min(times, default=None)
        self.service.wait_for(spec.origin.get("lends", ()), until)
        return until
