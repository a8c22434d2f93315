"""What this database answers to other sites: descriptions of what is exported, edges, and their rows.

The caller is known by its certificate. It may read what is exported to it and nothing else. Only rows of committed
micro-batches leave, with how far time is closed behind them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from tidemill.engine.sites.edges import EXPIRES, LENT, QUERY, bind_edge, describe_lent, expiry_of, new_edge
from tidemill.engine.sites.exports import may_read
from tidemill.engine.sites.fragments import departing_view, describe_export
from tidemill.engine.sites.measures import Measures
from tidemill.engine.sites.queries import check_names_read, parse_query
from tidemill.engine.sites.traffic import Traffic
from tidemill.engine.workload import Workload
from tidemill.errors import CatalogProblem, EngineProblem, TidemillError
from tidemill.plan.below import Below
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sources import SITE
from tidemill.runtime.durable import read_note, write_note
from tidemill.runtime.messages.ticks import OVER_FOR_GOOD
from tidemill.runtime.paths import Paths, load_plan
from tidemill.runtime.sites.limits import note_awaited, note_size
from tidemill.runtime.sites.messages import NONE, Link, decode_header
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.sites.protocol import (
    HEARTBEAT_S,
    Delivery,
    Description,
    Note,
    Statistics,
    Want,
    Wish,
    encode_problem,
)
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.views.moments import read_frontiers
from tidemill.runtime.views.outlet import Outlet
from tidemill.sql.catalog import Catalog, Entry

_LOCK_S = 5.0  # how long a request waits for the statement that is executed
Refusals = dict[str, dict[str, Any]]


class Service:
    """Answers requests. `changed` is called with the lock held when edges came or went."""

    def __init__(
        self, paths: Paths, catalog: Catalog, workload: Workload, outlet: Callable[[], Outlet], lock: threading.RLock
    ) -> None:
        self._paths, self._catalog, self._workload = paths, catalog, workload
        self.measures = Measures(paths.measures, paths.database, catalog, outlet)
        self._outlet, self._lock = outlet, lock
        self.changed: Callable[[str], None] = lambda cause: None
        self._news = threading.Condition()
        self._moment = 0  # counts what may be news
        self.is_closed = False
        self._by_site: dict[str, dict[str, Entry]] = {}  # site → edge; as it was when the plan last changed
        self._ended = read_note(self._end_path)
        self.sent: dict[str, Traffic] = {}  # by edge
        self.awaited: dict[str, int] = {}  # edges that are lent for a join here: the time that this site waits for
        self._noted: dict[str, int | None] = {}  # edge → the time that the planner knows to be awaited
        self._sources: tuple[int, dict[str, frozenset[str]]] = (-1, {})  # of a plan version: sources of edges
        self.known: Callable[[Any], AbstractContextManager[Any]] = nullcontext  # names of other sites in a statement
        for entry in catalog.of("edge"):
            self._workload.shipped[entry.id] = bind_edge(workload, entry)

    # ---- requests --------------------------------------------------------------------------------

    def describe(self, caller: str, name: str) -> Description:
        """What an exported stream or view is. No lock is taken: the caller may hold its own while it waits."""
        for entry in self._edges(caller):
            if LENT in entry.options and entry.options["edge"] == name:
                return describe_lent(self._workload, entry)
        found = describe_export(self._workload, may_read(self._catalog, caller), name)
        back = bool(self._catalog.find(caller, "site").options["address"])
        return replace(found, answers_back=back, rate=self.measures.rate_of(name))

    def measure(self, caller: str, name: str, columns: tuple[str, ...]) -> Statistics:
        """What is known of an exported stream; what is not known of its join values is measured from now on."""
        found = describe_export(self._workload, may_read(self._catalog, caller), name)
        self.measures.ask(found.name, columns)
        return self.measures.statistics(found.name, columns)

    def greet(self, caller: str, database: str, wishes: dict[str, Wish]) -> Refusals:
        """Begin edges that are new, forget those that the caller does not name; edges that are refused, and why."""
        refused: Refusals = {}
        with self._lock_or_refuse():
            asked = [e for e in self._edges(caller) if LENT not in e.options]
            gone = [e for e in asked if e.options["edge"] not in wishes or _is_other(e, database)]
            for entry in gone:
                self._forget(entry)
            made = False
            for edge, wish in wishes.items():
                try:
                    made |= self._begin(caller, database, edge, wish)
                except TidemillError as error:
                    refused[edge] = encode_problem(error)
            if self.measures.take_up() or gone or made:
                self.changed(f"edges of site {caller}")
        return refused

    def fetch(self, caller: str, wants: dict[str, Want], patience: float) -> Delivery:
        """Rows and times that the caller has not; held back until there are some, at most `patience` seconds."""
        began = time.monotonic()
        until = began + min(patience, HEARTBEAT_S)
        while True:
            with self._news:
                seen = self._moment
            is_late = time.monotonic() >= until
            found = self._collect(caller, wants, is_late)
            if is_late or not found.is_empty or self.is_closed:
                return replace(found, held=time.monotonic() - began)
            with self._news:
                while self._moment == seen and self._news.wait(max(until - time.monotonic(), 0.0)):
                    pass

    # ---- what happens here -----------------------------------------------------------------------

    def wake(self, *_: Any) -> None:
        """A micro-batch was committed, or the input is over: requests that wait look again."""
        with self._news:
            self._moment += 1
            self._news.notify_all()

    def close(self) -> None:
        """Answer the requests that wait."""
        self.is_closed = True
        self.wake()

    def mark_end(self, final: bool) -> None:
        """A finite run has taken in everything; with `final` the input is over for good."""
        outlet = self._outlet()
        end = int(outlet.known.get("floor", BEGINNING)) - 1 if final else BEGINNING
        self._ended = {"batch": outlet.committed, "end": end}
        if any(self._catalog.of("edge")):
            write_note(self._end_path, self._ended)
        self.wake()

    def revoke(self) -> None:
        """Forget edges that read what is not exported any more; the caller holds the lock and publishes the plan."""
        for entry in list(self._catalog.of("edge")):
            readable = may_read(self._catalog, entry.options["site"])
            own = [n for n in entry.needs if self._is_own(n)]
            if LENT not in entry.options and not all(n.lower() in readable for n in own):
                self._forget(entry)

    def _is_own(self, name: str) -> bool:
        """Whether a name that an edge reads belongs to this site."""
        found = self._catalog.find(name)
        source = self._catalog.find(found.needs[0], "source").spec if found.kind == "stream" else None
        return found.kind != "site" and not (source is not None and source.kind == SITE)

    def forget(self, entry: Entry) -> None:
        """An edge was dropped together with what it reads."""
        self._workload.shipped.pop(entry.id, None)

    def show_edges(self) -> None:
        """Let the outlet know which edges there are."""
        shipping, shown = self._outlet().shipping, list(self._catalog.of("edge"))
        shipping.edges = {e.id: departing_view(e, self._workload.shipped[e.id]) for e in shown}
        found_expiries = ((e.id, expiry_of(e, self._workload.unit_us)) for e in shown)
        shipping.expiries = {edge: expiry for edge, expiry in found_expiries if expiry is not None}
        shipping.forget()
        found: dict[str, dict[str, Entry]] = {}
        for entry in shown:
            found.setdefault(entry.options["site"].lower(), {})[entry.options["edge"]] = entry
        self._by_site = found

    # ---- edges -----------------------------------------------------------------------------------

    def _begin(self, caller: str, database: str, edge: str, wish: Wish) -> bool:
        """An edge, if it is new. One that the caller has rows of cannot be."""
        known = next((e for e in self._edges(caller) if e.options["edge"] == edge), None)
        if known is not None and (known.text == wish.text or LENT in known.options):
            return False
        if known is not None or wish.after != NONE or wish.frontier > BEGINNING:
            raise EngineProblem(
                "TM711",
                f'edge "{edge}" is not known here, and rows of it have arrived there',
                detail="one of the databases was restored from a backup, or the export was revoked",
                hint="DROP the views that read it and create them again",
            )
        exported = may_read(self._catalog, caller)
        entry = new_edge(self._workload, caller, edge, wish.text, **{"database": database, EXPIRES: wish.expires})
        if not entry.options[QUERY]:
            self.add(entry, exported)
            return True
        statement = parse_query(wish.text)
        check_names_read(self._workload, caller, exported, statement.query)
        with self.known(statement) as known:
            entry.options |= known.options
            self.add(entry)
        return True

    def add(self, entry: Entry, exported: set[str] | None = None) -> None:
        """A new edge; the caller publishes the plan."""
        node = bind_edge(self._workload, entry, exported)
        self._catalog.add(entry)
        self._workload.shipped[entry.id] = node

    def _forget(self, entry: Entry) -> None:
        self._workload.drop(entry.name)
        self.forget(entry)

    def _edges(self, caller: str) -> list[Entry]:
        return [e for e in self._catalog.of("edge") if e.options["site"].lower() == caller.lower()]

    # ---- rows ------------------------------------------------------------------------------------

    def _collect(self, caller: str, wants: dict[str, Want], is_late: bool) -> Delivery:
        messages: list[bytes] = []
        notes: list[Note] = []
        refused: Refusals = {}
        outlet, room = self._outlet(), sizes.delivery_bytes
        # First how far time is closed, then the batch: rows of a batch in between are sent, its time is not yet.
        frontiers = read_frontiers(outlet.known)
        committed = outlet.committed
        known = self._by_site.get(caller.lower(), {})
        for edge, want in wants.items():
            try:
                if edge not in known:
                    raise CatalogProblem("TM703", f'there is no edge "{edge}"', hint="was the export revoked?")
                found, note = self._take(known[edge], want, frontiers, committed, room, is_late)
            except TidemillError as error:
                refused[edge] = encode_problem(error)
                continue
            messages += found
            room -= sum(map(len, found))
            notes += [note] if note is not None else []
        return Delivery(tuple(messages), tuple(notes), refused)

    def _take(
        self, entry: Entry, want: Want, frontiers: dict[str, int], committed: int, room: int, is_late: bool
    ) -> tuple[list[bytes], Note | None]:
        """Messages of one edge, and what is closed behind them where these are all."""
        edge, shipping = entry.options["edge"], self._outlet().shipping
        if entry.id in shipping.stopped:
            raise EngineProblem(
                "TM715",
                f'edge "{edge}" has stopped',
                detail=shipping.stopped[entry.id],
                hint="DROP the views that read it and create them again",
            )
        outbox = Outbox(os.path.join(self._paths.departures, entry.id), edge)
        outbox.acknowledge(Link(want.after, want.chain), committed)
        note_size(self._paths, entry.id, outbox.size, shipping.most_bytes)
        frontier = frontiers.get(f"view {entry.id}", BEGINNING)
        if frontier < want.frontier:
            raise EngineProblem(
                "TM711",
                f'edge "{edge}" was further than it is here: this database was restored from a backup',
                hint="DROP the views that read it and create them again",
            )
        found = outbox.pending(want.after, committed, room) if want.room and room > 0 else []
        headers = [decode_header(data, f'edge "{edge}"') for data in found]
        for data, header in zip(found, headers, strict=True):
            self.sent.setdefault(edge, Traffic()).add(len(data), header.rows, header.frontier)
        last = headers[-1].seq if found else want.after
        if last != outbox.last_before(committed + 1):
            return found, None
        ended, end = self._end_of(entry, frontier, committed)
        is_awaited = self._is_awaited(entry, want, frontier)
        is_news = bool(found) or ended != want.ended or (frontier > want.frontier and (is_awaited or is_late))
        begun = self._find_beginning(entry, frontiers)
        return found, Note(edge, last, frontier, ended, end, begun) if is_news else None

    def _find_beginning(self, entry: Entry, frontiers: dict[str, int]) -> int | None:
        """Rows of a greater stamp came when the edge was there: the greatest stamp so far is no less than that of any
        row before it. None until a batch has had the edge.
        """
        if f"view {entry.id}" not in frontiers:
            return None
        outlet = self._outlet()
        known = outlet.progress.get("sources", {})
        return max((known[n]["top"] for n in self._sources_of(entry) if n in known), default=BEGINNING)

    def wait_for(self, edges: Iterable[str], until: int | None) -> None:
        """This site waits for an answer to what it lends on edges: their time is told as soon as it is closed."""
        for edge in edges:
            if until is not None and self.awaited.get(edge) != until:
                self.awaited[edge] = until
                self.wake()

    def _is_awaited(self, entry: Entry, want: Want, frontier: int) -> bool:
        """Whether the time up to the frontier is waited for, there or here; the planner is told what is not closed."""
        times = (want.until, self.awaited.get(entry.options["edge"]))
        until = [t for t in times if t is not None]
        pending = max((t for t in until if t >= frontier), default=None)
        if self._noted.get(entry.id) != pending:
            self._noted[entry.id] = pending
            note_awaited(self._paths, entry.id, pending)
        return any(frontier > t for t in until)

    def _end_of(self, entry: Entry, frontier: int, committed: int) -> tuple[bool, int]:
        """Whether an edge has ended in a finite run, and the greatest time of its input where that is over for good:
        the run has ended, or all sources of the edge have while the run still waits for another site.
        """
        if self._ended.get("batch") == committed:
            return True, int(self._ended.get("end", BEGINNING))
        outlet = self._outlet()
        progress = outlet.progress
        if progress.get("batch") != committed or not outlet.plan:
            return False, BEGINNING
        notes = [progress["sources"].get(n, {}) for n in self._sources_of(entry)]
        if not notes or not all(note.get("over") for note in notes):
            return False, BEGINNING
        return True, frontier - 1 if all(note["over"] == OVER_FOR_GOOD for note in notes) else BEGINNING

    def _sources_of(self, entry: Entry) -> frozenset[str]:
        """The sources below an edge, in the plan that is in force."""
        version = self._outlet().plan
        if self._sources[0] != version and version:
            plan = load_plan(self._paths.plan(version))
            below = Below(plan)
            self._sources = version, {o.view: below.sources(o.op) for o in plan.outputs}
        return self._sources[1].get(entry.id, frozenset())

    @contextmanager
    def _lock_or_refuse(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=_LOCK_S):
            raise EngineProblem("TM714", "the site is busy", hint="it is asked again")
        try:
            yield
        finally:
            self._lock.release()

    @property
    def _end_path(self) -> str:
        return os.path.join(self._paths.departures, "end.json")


def _is_other(entry: Entry, database: str) -> bool:
    """Whether an edge belongs to another database that had the same name."""
    return bool(entry.options["database"] != database)
