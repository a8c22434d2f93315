"""The receiving end of a port source: lines from TCP senders into a durable spool.

A record is visible once it is synced to disk: the `head` file names the end of the last visible
record and a clock that no later record's arrival time precedes. When readers fall behind by more
than the backlog (some seconds of work, `backlog.py`), the spooler stops receiving and TCP holds the
senders; nothing is dropped.
A sender's last line counts without a line end when the sender closes; when the spooler itself
stops, an unfinished line is left to the sender, which sees the connection break. So it is with senders that
break the limits of a port (`senders`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.durable import sync_folder
from tidemill.runtime.integrity import read_bytes
from tidemill.runtime.sources.clock import SteadyClock
from tidemill.runtime.sources.port.backlog import Backlog
from tidemill.runtime.sources.port.checksums import SumWriter, recover_sums
from tidemill.runtime.sources.port.framing import Splitter, frame, frame_one_by_one
from tidemill.runtime.sources.port.segments import read_json, records, segment_path, segments, write_json
from tidemill.runtime.sources.port.senders import Sender, Senders
from tidemill.runtime.sources.records import max_record_bytes
from tidemill.runtime.thresholds import sizes

BACKLOG_BYTES = 64 << 20  # on disk and in no batch yet, until the pace of batches is known (`Backlog`)
_RECEIVE = 256 << 10  # bytes taken from a socket at a time: a socket seldom has more
# Looks are system calls of some microseconds.
_TICK = 0.1  # s between two looks for what nothing announces, such as a stop
_QUIET_TICK = 0.5  # when everything received is on disk and no sender waits
_SYNC_PAUSE = 0.01  # s between two syncs, at least: one takes as long on a usual disk (measured: 11 ms)
_SYNC_REST = 3  # and as many times as long as the last one took, so that the disk is ours for a quarter of the time
_PATIENCE = 0.02  # s between two attempts to go on, of a held-back sender or for a lock
_DRAIN = 0.5  # s for lines that are on their way when the port is closed


class Spooler:
    """A TCP server for one port source; runs in the engine's process."""

    def __init__(
        self,
        spec: SourceSpec,
        directory: str,
        max_backlog_bytes: int | None = None,
        segment_bytes: int | None = None,
        senders: Senders | None = None,
        clock: Callable[[int], SteadyClock] = SteadyClock,
    ) -> None:
        self.spec = spec
        self.senders = senders or Senders.of(spec)
        self._clock = clock
        self._directory = Path(directory)
        self._backlog = Backlog(max_backlog_bytes or int(spec.options.get("backlog_bytes", BACKLOG_BYTES)))
        self._segment_bytes = segment_bytes or sizes.spool_bytes
        self._limit = max_record_bytes(spec)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._arrived = threading.Event()
        self._threads: list[threading.Thread] = []
        self._committed = 0
        self._deadline = 0.0

    @property
    def address(self) -> tuple[str, int]:
        """Where senders connect."""
        return self._listener.getsockname()[:2]

    @property
    def received(self) -> int:
        """The byte behind the last record that has arrived."""
        return self._byte

    def start(self) -> None:
        """Recover the spool, then listen."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._guard = _claim(self._directory, self.spec.name)
        try:
            self._recover()
            frame(b"\n", 0, self._limit)  # loads the loop now: lines that come while it is loaded arrive at one time
            self._listener = _listen(self.spec)
        except BaseException:
            self._guard.close()
            raise
        self._publish()
        for body in (self._accept, self._tick):
            self._spawn(body)

    def stop(self) -> None:
        """Stop receiving; every complete line received is durable and visible afterwards."""
        self._deadline = time.monotonic() + _DRAIN
        self._stopping.set()
        self._arrived.set()
        # Closing alone would not wake the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        # The accepting thread first: after it no new sender can appear.
        for thread in self._threads[:2]:
            thread.join()
        with self._lock:
            threads = list(self._threads)
        for sender in list(self.senders.present):
            with contextlib.suppress(OSError):
                sender.socket.shutdown(socket.SHUT_RD)
        for thread in threads:
            thread.join()
        self._listener.close()
        self._sync()
        self._publish()
        self._segment.close()
        self._sums.close()
        self._guard.close()

    def _spawn(self, body: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=body, args=arguments, daemon=True, name=f"spool {self.spec.name}")
        with self._lock:
            others = [t for t in self._threads[2:] if t.is_alive() or t.ident is None]
            self._threads = [*self._threads[:2], *others, thread]
        thread.start()

    # The spool

    def _recover(self) -> None:
        """Cut a torn tail off and continue behind the last complete record."""
        head = read_json(self._directory / "head")
        self._last = head.get("clock", 0)
        self._byte = max(head.get("byte", 0), read_json(self._directory / "committed").get("byte", 0))
        existing = segments(self._directory)
        if existing:
            last = existing[-1]
            data = read_bytes(last.path)
            found = records(data, last.start)
            end = int(found.end[-1]) if len(found.end) else 0
            self._last = max(self._last, int(found.arrival[-1]) if end else 0)
            if last.start + end < self._byte:
                raise SourceProblem(
                    "TM406",
                    f'the spool of source "{self.spec.name}" is damaged',
                    detail=f"{last.path} ends before byte {self._byte}",
                )
            os.truncate(last.path, end)
            recover_sums(last.path, last.start, data[:end])
            self._byte = last.start + end
        self._open_segment(existing[-1].start if existing else self._byte)
        self._time = self._clock(self._last)
        self._synced = self._byte
        # Arrival of the first record that is not synced, and of the first behind a sync that is under way.
        self._waiting_since: int | None = None
        self._behind_sync: int | None = None
        os.fsync(self._segment.fileno())

    def _open_segment(self, start: int) -> None:
        """Begin a segment, or leave everything as it is."""
        path = segment_path(self._directory, start)
        segment = open(path, "ab", buffering=0)  # noqa: SIM115 - lives on
        try:
            sums = SumWriter(path)
            sync_folder(self._directory)
        except OSError:
            segment.close()
            if not path.stat().st_size:
                path.unlink()
            raise
        self._segment, self._segment_start, self._sums = segment, start, sums

    def _append(self, lines: list[tuple[bytes, int]]) -> None:
        """Write (bytes, length mark) records with one arrival time that is never before another's."""
        with self._lock:
            self._last = max(self._last, self._time.now())
            self._put(frame_one_by_one(lines, self._last))

    def _append_block(self, block: bytes) -> None:
        """The same with the records of whole lines."""
        with self._lock:
            self._last = max(self._last, self._time.now())
            data = frame(block, self._last, self._limit)
            self._put(data if data is not None else frame_one_by_one(Splitter(self._limit).feed(block), self._last))

    def _put(self, data: bytes | memoryview) -> None:
        if not len(data):
            return
        self._write(data)
        self._sums.add(self._byte, data)
        self._waiting_since = self._last if self._waiting_since is None else self._waiting_since
        self._behind_sync = self._last if self._behind_sync is None else self._behind_sync
        self._byte += len(data)
        if self._byte - self._segment_start >= self._segment_bytes:
            self._roll()
        self._arrived.set()

    def _write(self, data: bytes | memoryview) -> None:
        size = self._byte - self._segment_start
        while True:
            try:
                view = memoryview(data)
                while view:
                    view = view[self._segment.write(view) :]
                return
            except OSError:
                # A full disk: leave no half record behind, hold the senders, and try again.
                os.truncate(self._segment.name, size)
                if self._stopping.wait(0.5):
                    raise

    def _roll(self) -> None:
        # Synced before its successor exists, so that only the last segment can be torn.
        os.fsync(self._segment.fileno())
        self._synced, self._waiting_since = self._byte, None
        full, sums = self._segment, self._sums
        # Out of file handles: this one grows on, and the next record tries again.
        with contextlib.suppress(OSError):
            self._open_segment(self._byte)
            full.close()
            sums.close()

    def _tick(self) -> None:
        """Make visible what arrives as soon as it is there, with pauses that leave the disk alone most of the time."""
        while not self._stopping.is_set():
            behind = self._synced < self._byte or self._byte - self._committed > self._backlog.limit
            self._arrived.wait(_TICK if behind else _QUIET_TICK)
            self._arrived.clear()
            began = time.monotonic()
            # A full disk passes: senders are held, and the next tick tries again.
            with contextlib.suppress(OSError):
                self._sync()
                self._publish()
                self._note_commit()
            self.senders.look()
            self._stopping.wait(min(max(_SYNC_REST * (time.monotonic() - began), _SYNC_PAUSE), _TICK))

    def _sync(self) -> None:
        """Bring to disk what is there now. Receiving goes on meanwhile, into the same segment or into the next one."""
        with self._lock:
            end, self._behind_sync = self._byte, None
            if self._synced == end:
                return
            # A copy of the handle: the segment may be closed when it is full.
            handle = os.dup(self._segment.fileno())
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        with self._lock:
            # A segment that was filled meanwhile has been synced to its end, and the clock reset.
            if self._synced < end:
                self._synced, self._waiting_since = end, self._behind_sync

    def _publish(self) -> None:
        """Make what is synced visible, with a clock that later arrivals cannot precede."""
        with self._lock:
            if self._waiting_since is None:
                self._last = max(self._last, self._time.now())
                clock = self._last
            else:
                clock = self._waiting_since
            head = {"byte": self._synced, "clock": clock}
        write_json(self._directory / "head", head)

    # The senders

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # Out of file handles, or stopped.
                self._stopping.wait(_TICK)
                continue
            connection.settimeout(None)
            sender = self.senders.admit(connection)
            if sender is None:
                connection.close()
                continue
            try:
                self._spawn(self._receive, sender)
            except RuntimeError:  # no more threads
                self.senders.leave(sender)
                connection.close()

    def _receive(self, sender: Sender) -> None:
        splitter = Splitter(self._limit)
        try:
            while self._may_receive(sender):
                try:
                    data = sender.socket.recv(_RECEIVE)
                except OSError:
                    data = b""
                if not data:
                    break
                self._take(splitter, data)
                self.senders.heard(sender, splitter.held, b"\n" in data)
            if not self._stopping.is_set() and not sender.dismissed:
                self._keep(splitter.rest())
        finally:
            self.senders.leave(sender)
            sender.socket.close()

    def _may_receive(self, sender: Sender) -> bool:
        if self._byte - self._committed <= self._backlog.limit:
            return self._has_room()
        with self.senders.waiting(sender):
            return self._has_room()

    def _note_commit(self) -> None:
        self._committed = read_json(self._directory / "committed").get("byte", 0)
        with self._lock:
            self._backlog.commit(self._committed, self._byte)

    def _take(self, splitter: Splitter, data: bytes) -> None:
        block = splitter.block(data)
        if block is None:
            self._keep(splitter.feed(data))
        elif block:
            self._append_block(block)

    def _keep(self, lines: list[tuple[bytes, int]]) -> None:
        if lines:
            self._append(lines)

    def _has_room(self) -> bool:
        """Wait until the backlog has fallen; False when the spooler stops first.

        What a stopping spooler finds in the socket it still takes, but not for ever.
        """
        while self._byte - self._committed > self._backlog.limit:
            self._backlog.hold()
            with contextlib.suppress(OSError):  # out of file handles
                self._note_commit()
            if self._byte - self._committed > self._backlog.limit and self._stopping.wait(_PATIENCE):
                return False
        return not self._stopping.is_set() or time.monotonic() < self._deadline


def _claim(directory: Path, name: str) -> IO[bytes]:
    """The lock that marks a running spooler."""
    guard = open(directory / "lock", "wb")  # noqa: SIM115 - held until stop
    # A reader that asks whether a spooler runs holds the lock for an instant.
    for _ in range(20):
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return guard
        except OSError:
            time.sleep(_PATIENCE)
    guard.close()
    raise SourceProblem(
        "TM406",
        f'source "{name}" already has a spooler',
        detail=str(directory),
        hint="stop the other process that runs this database",
    )


def _listen(spec: SourceSpec) -> socket.socket:
    host, port = spec.origin.get("host", "127.0.0.1"), int(spec.origin.get("port", 0))
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(64)
        except OSError:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        in_use = getattr(error, "errno", None) == errno.EADDRINUSE
        raise SourceProblem(
            "TM405",
            f'port {port} of source "{spec.name}" is in use'
            if in_use
            else f'source "{spec.name}" cannot listen on {host} port {port}',
            detail=str(error),
            hint="stop the program that listens there or register the source with another port",
        ) from None
    # Waking up now and then lets the accepting thread notice a stop.
    listener.settimeout(2 * _TICK)
    return listener
