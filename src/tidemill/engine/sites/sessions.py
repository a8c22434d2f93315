"""A conversation with another site: this one asks, the other delivers.

A message is in the inbox, synced, before the next request acknowledges it. Whatever fails, the conversation begins
again and continues behind what the inbox has; nothing is lost or taken twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tidemill.engine.sites.traffic import Traffic
from tidemill.errors import EngineProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.inbox import Inbox
from tidemill.runtime.sites.messages import LARGEST_BYTES, decode_header
from tidemill.runtime.sites.protocol import HEARTBEAT_S, Delivery, Peer, Want, Wish, decode_problem
from tidemill.runtime.sources.site.connector import check_rows

INBOX_BYTES = 256 << 20  # on disk, that wait to be read; then no more rows are asked for
CONSIDER_S = 30.0  # between two looks at what joins cost
_LONG_ANSWER = 64 << 10  # bytes; shorter ones say nothing about the bandwidth
_LAST_WEIGHT = 0.2  # of the last round trip in the average
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0  # after a failure

Edges = Callable[[], list[SourceSpec]]
Awaited = Callable[[SourceSpec, int], int | None]  # the time that an edge is waited for, which is not closed yet


class Session:
    """Reads the edges of one site. `step` is one request; `start` repeats it in a thread."""

    def __init__(
        self,
        site: str,
        paths: Paths,
        connect: Callable[[], Peer],
        edges: Edges,
        awaited: Awaited,
        most: int,
        consider: Callable[[], None] = lambda: None,
    ) -> None:
        self.site, self._consider, self._considered = site, consider, time.monotonic()
        self._paths, self._connect, self._edges, self._awaited, self._most = paths, connect, edges, awaited, most
        self._peer: Peer | None = None
        self._greeted: frozenset[str] = frozenset()
        self._recovered: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.problem: str | None = "not connected yet"
        self.refused: dict[str, str] = {}  # edge → why
        self.heard_at: float | None = None
        self.round_trip_s: float | None = None
        self.received: dict[str, Traffic] = {}  # by edge
        self.begun: dict[str, int] = {}  # edge → all rows of a greater stamp are taken into account
        self.bandwidth: float | None = None  # bytes a second, of long answers

    def step(self, patience: float = 0.0) -> bool:
        """One request and its answer; whether something arrived. A failure is raised, and the next step begins anew."""
        edges = {spec.name: Inbox(self._paths.source(spec.name), spec.name) for spec in self._edges()}
        try:
            peer = self._peer = self._peer or self._connect()
            self._greet(peer, edges)
            asked = {name: inbox for name, inbox in edges.items() if name not in self.refused}
            if not asked:
                return False
            began = time.monotonic()
            found = peer.fetch({name: self._want(name, inbox) for name, inbox in asked.items()}, patience)
            self._note_round_trip(time.monotonic() - began - found.held - found.seconds)
            arrived = self._keep(found, asked)
            if found.seconds and sum(map(len, found.messages)) >= _LONG_ANSWER:
                self.bandwidth = sum(map(len, found.messages)) / found.seconds
        except BaseException as error:
            self.disconnect(str(error))
            raise
        self.problem, self.heard_at = None, time.time()
        return arrived

    def disconnect(self, why: str = "not connected") -> None:
        """Let go of the other site; the next step connects again."""
        peer, self._peer, self._greeted, self.problem = self._peer, None, frozenset(), why
        if peer is not None:
            peer.close()

    def renew(self) -> None:
        """Edges have come or gone: a request that the other site holds back is broken off, and the next one says so."""
        peer = self._peer
        if self._thread is not None and peer is not None and self._greeted != {spec.name for spec in self._edges()}:
            peer.interrupt()

    def start(self) -> None:
        """Go on in a thread until `stop`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name=f"site {self.site}")
            self._thread.start()

    def stop(self) -> None:
        """End the thread and the connection. A request that is held back by the other site is not waited for."""
        self._stop.set()
        peer = self._peer
        if peer is not None:
            peer.close()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
        self.disconnect()

    def _run(self) -> None:
        pause = _FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                if self._edges() or self._greeted:
                    self.step(HEARTBEAT_S)
                else:
                    self._stop.wait(_FIRST_PAUSE_S)
                pause = _FIRST_PAUSE_S
                if self.refused:
                    self._stop.wait(_LONGEST_PAUSE_S)
                if time.monotonic() - self._considered > CONSIDER_S and not self._stop.is_set():
                    self._considered = time.monotonic()
                    self._consider()
            except Exception:  # `problem` tells it
                self._stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _greet(self, peer: Peer, edges: dict[str, Inbox]) -> None:
        """Tell the other site which edges there are, when these have changed or one was refused."""
        if self._greeted == frozenset(edges) and not self.refused:
            return
        wishes = {}
        origins = {spec.name: spec.origin for spec in self._edges()}
        for name, inbox in edges.items():
            if name not in self._recovered:
                inbox.recover()
                self._recovered.add(name)
            head = inbox.head()
            origin = origins.get(name, {})
            wishes[name] = Wish(str(origin.get("text", "")), head.seq, head.frontier, int(origin.get("expires", -1)))
        began = time.monotonic()
        refused = peer.greet(self._paths.database, wishes)
        if self.round_trip_s is None:  # the other site has worked meanwhile: requests for rows say it better
            self.round_trip_s = time.monotonic() - began
        self.refused = {edge: str(decode_problem(self.site, found)) for edge, found in refused.items()}
        self._greeted = frozenset(edges)

    def _note_round_trip(self, seconds: float) -> None:
        """What a request and its answer took on the way, in an average that weighs the last ones more."""
        known = self.round_trip_s
        self.round_trip_s = max(seconds, 0.0) if known is None else known + _LAST_WEIGHT * (max(seconds, 0.0) - known)

    def _want(self, name: str, inbox: Inbox) -> Want:
        head = inbox.head()
        spec = next((s for s in self._edges() if s.name == name), None)
        until = self._awaited(spec, head.frontier) if spec is not None else None
        return Want(head.seq, head.chain, head.frontier, head.ended, until, inbox.size <= self._most)

    def _keep(self, found: Delivery, asked: dict[str, Inbox]) -> bool:
        """Put what arrived into the inboxes; whether anything is new."""
        arrived, specs = False, {spec.name: spec for spec in self._edges()}
        for data in found.messages:
            if len(data) > LARGEST_BYTES:
                raise EngineProblem(
                    "TM713", f"a message has {len(data):,} bytes", hint=f"at most {LARGEST_BYTES:,} are taken"
                )
            header = decode_header(data, f"site {self.site}")
            edge = header.edge
            if edge not in asked or edge not in specs:
                raise EngineProblem("TM712", f'site "{self.site}" sent a message of edge "{edge}"', hint="see status")
            if asked[edge].append(data, partial(check_rows, specs[edge])):
                arrived = True
                self.received.setdefault(edge, Traffic()).add(len(data), header.rows, header.frontier)
        for note in found.notes:
            if note.edge in asked:
                if note.begun is not None:
                    self.begun.setdefault(note.edge, note.begun)
                arrived |= asked[note.edge].note(note.after, note.frontier, note.ended, note.end)
        self.refused |= {e: str(decode_problem(self.site, why)) for e, why in found.refused.items()}
        return arrived

    def describe(self) -> dict[str, Any]:
        """The conversation as the status shows it."""
        return {
            "connected": self.problem is None and self._peer is not None,
            "problem": self.problem,
            "heard_at": self.heard_at,
            "round_trip_seconds": self.round_trip_s,
            "bandwidth": self.bandwidth,
        }
