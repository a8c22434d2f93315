"""Sites in one process, joined by a network that fails: requests and answers that are lost, answers that come late or
twice, databases that crash at a point of the protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.harness import LocalDatabase
from tidemill.engine.sites.service import Service
from tidemill.errors import EngineProblem
from tidemill.runtime.sites.protocol import Delivery, Description, Statistics, Want, Wish

FAULTS = ("", "", "", "request lost", "answer lost", "answer late", "answer twice")


class Cut(EngineProblem):
    """The network lost something."""


def _cut() -> Cut:
    return Cut("TM702", "the simulated network lost something", hint="try again")


class Network:
    """Who is where, what happens to the next request, and what was counted."""

    def __init__(self) -> None:
        self.nodes: dict[str, LocalDatabase] = {}
        self.fault = ""
        self.late: dict[tuple[str, str], list[Delivery]] = {}
        self.cut: set[tuple[str, str]] = set()  # (from, to): nothing passes
        self.counts = {"requests": 0, "lost": 0, "late": 0, "twice": 0, "bytes": 0, "messages": 0}

    def add(self, name: str, db: LocalDatabase) -> None:
        """A database as the site of that name."""
        self.nodes[name] = db
        db.state.sites.transport = _Transport(self, name)
        db.state.sites.threads = False

    def pump(self, reader: str, site: str, fault: str = "") -> bool:
        """One request of a site to another; whether something arrived. What the network does is no error of a test."""
        db = self.nodes[reader]
        db.state.sites.open()
        session = db.state.sites.sessions[site]
        self.fault = fault
        try:
            return session.step(0.0)
        except Cut:
            return True
        except EngineProblem as problem:
            if problem.code not in ("TM710", "TM712"):  # an old answer that came late is refused, and asked for again
                raise
            return True
        finally:
            self.fault = ""

    def settle(self, reader: str, site: str) -> None:
        """Requests until nothing is new."""
        while self.pump(reader, site):
            pass


class _Transport:
    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name = network, name

    def connect(self, site: str, options: dict[str, Any], me: Any) -> _Peer:
        return _Peer(self.network, self.name, site)

    def listen(self, name: str, options: dict[str, Any], catalog: Any, service: Service) -> _Peer:
        return _Peer(self.network, name, name)


class _Peer:
    """A site as another one sees it; everything passes through JSON, as on the wire."""

    def __init__(self, network: Network, caller: str, site: str) -> None:
        self.network, self.caller, self.site = network, caller, site

    @property
    def _service(self) -> Service:
        return self.network.nodes[self.site].state.sites.service

    def describe(self, name: str) -> Description:
        return Description.from_json(json.loads(json.dumps(self._service.describe(self.caller, name).to_json())))

    def measure(self, name: str, columns: tuple[str, ...]) -> Statistics:
        self._pass()
        found = self._service.measure(self.caller, name, columns)
        return Statistics.from_json(json.loads(json.dumps(found.to_json())))

    def greet(self, database: str, wishes: dict[str, Wish]) -> dict[str, Any]:
        self._pass()
        sent = json.loads(json.dumps({e: asdict(w) for e, w in wishes.items()}))
        return self._service.greet(self.caller, database, {e: Wish(**w) for e, w in sent.items()})

    def fetch(self, wants: dict[str, Want], patience: float) -> Delivery:
        network, link = self.network, (self.site, self.caller)
        network.counts["requests"] += 1
        self._pass()
        if network.fault == "request lost":
            network.counts["lost"] += 1
            raise _cut()
        sent = json.loads(json.dumps({e: asdict(w) for e, w in wants.items()}))
        found = self._service.fetch(self.caller, {e: Want(**w) for e, w in sent.items()}, patience)
        network.counts["bytes"] += sum(map(len, found.messages))
        network.counts["messages"] += len(found.messages)
        if network.fault in ("answer lost", "answer late") or (self.site, self.caller) in network.cut:
            network.counts["lost"] += 1
            if network.fault == "answer late":
                network.late.setdefault(link, []).append(found)
            raise _cut()
        waiting = network.late.get(link)
        if waiting and not found.messages:
            network.counts["late"] += 1
            return waiting.pop(0)
        if network.fault == "answer twice":
            network.counts["twice"] += 1
            return Delivery((*found.messages, *found.messages), (*found.notes, *found.notes), found.refused)
        return found

    def interrupt(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""

    def _pass(self) -> None:
        if (self.caller, self.site) in self.network.cut:
            self.network.counts["lost"] += 1
            raise _cut()


@contextmanager
def two_sites(folder: Path, **options: Any) -> Iterator[tuple[Network, LocalDatabase, LocalDatabase]]:
    """Paris and lyon, which know each other."""
    network = Network()
    with (
        LocalDatabase(str(folder / "paris"), **options) as paris,
        LocalDatabase(str(folder / "lyon"), **options) as lyon,
    ):
        network.add("paris", paris)
        network.add("lyon", lyon)
        paris.execute("CREATE SITE lyon WITH (plaintext = true)")
        lyon.execute("CREATE SITE paris AT 'localhost:7443' WITH (plaintext = true)")
        yield network, paris, lyon


@contextmanager
def equal_sites(folder: Path, *names: str, **options: Any) -> Iterator[tuple[Network, list[LocalDatabase]]]:
    """Sites that can all ask each other."""
    network = Network()
    with ExitStack() as stack:
        made = [stack.enter_context(LocalDatabase(str(folder / name), **options)) for name in names]
        for name, db in zip(names, made, strict=True):
            network.add(name, db)
            db.execute(f"CREATE LOCAL SITE {name} AT 'localhost:7443' WITH (plaintext = true)")
            for other in names:
                if other != name:
                    db.execute(f"CREATE SITE {other} AT 'localhost:7443' WITH (plaintext = true)")
        yield network, made


def finish_together(network: Network) -> None:
    """All input is there: finite runs of all sites, each of which waits for the others."""
    for db in network.nodes.values():
        db.stop()
    waiting = list(network.nodes.values())

    def run_next() -> None:
        settle_all(network)
        if waiting:
            db = waiting.pop()
            db.on_idle = run_next
            db.run()
        else:
            for db in network.nodes.values():
                db.step()
        settle_all(network)

    while waiting:
        run_next()


def settle_all(network: Network) -> None:
    """Requests between all sites until nothing is new."""
    pairs = [(a, b) for a in network.nodes for b in network.nodes if a != b]
    while any([network.pump(a, b) for a, b in pairs]):
        pass


def finish(network: Network, paris: LocalDatabase, lyon: LocalDatabase) -> None:
    """All input is there: close both sides, paris first."""
    paris.stop()
    network.settle("lyon", "paris")
    paris.run()
    network.settle("lyon", "paris")
    lyon.stop()
    lyon.run()


def crash(db: LocalDatabase, work: Callable[[], Any]) -> None:
    """Do something, then lose everything that is in memory only."""
    work()
    db.state.sites.sessions.clear()
    db.reopen_outlet()
