"""Live events: server-sent events that a browser resumes by itself.

A subscription's events have whole batches, with the last batch as their id. A client that comes back with it
(`Last-Event-ID`) gets the changes after it, each once; where they are not kept any more, `reset` says that the contents
follow anew.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from tidemill.engine.results import Moment
from tidemill.engine.users.session import Session
from tidemill.errors import TidemillError
from tidemill.plan.python_values import json_text
from tidemill.serve.http.answers import problem_dict, table_dict
from tidemill.serve.postgres.services import Services

ALIVE_S = 10.0  # between comments that show that the connection is there
_LOOK_S = 0.5
_AT_ONCE_S = 0.001
_BATCH = "batch-"
_NOT_KEPT = {"TM232", "TM233"}


def event(name: str, data: Any, number: str | None = None) -> bytes:
    """
    >>> event("batch", {"n": 1}, "7")
    b'id: 7\\nevent: batch\\ndata: {"n": 1}\\n\\n'
    """
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {json_text(data)}\n\n".encode()


class Bell:
    """Rings in the loop when a function is called in any thread."""

    def __init__(self) -> None:
        self._loop, self._rung = asyncio.get_running_loop(), asyncio.Event()

    def ring(self, *_: Any) -> None:
        """Wake the threads that wait for events."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float) -> bool:
        """Whether it rang in time."""
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
        except TimeoutError:
            return False
        self._rung.clear()
        return True


def subscribe_text(view: str, after: str | None) -> str:
    """The statement that follows a view from its contents, or from a time or a batch on.

    >>> print(subscribe_text("V", None))
    SUBSCRIBE "V" WITH (progress = 'batch')
    >>> print(subscribe_text('a"b', "12"))
    SUBSCRIBE "a""b" AS OF 12 WITH (progress = 'batch')
    >>> print(subscribe_text("V", "batch-7"))
    SUBSCRIBE "V" AS OF BATCH 7 WITH (progress = 'batch')
    """
    name = '"' + view.replace('"', '""') + '"'
    if after is None:
        return f"SUBSCRIBE {name} WITH (progress = 'batch')"
    batch = after.removeprefix(_BATCH)
    if batch != after and batch.isdecimal():
        return f"SUBSCRIBE {name} AS OF BATCH {batch} WITH (progress = 'batch')"
    is_number = after.lstrip("-").isdigit()
    moment = after if is_number else "TIMESTAMP '" + after.replace("'", "''") + "'"
    return f"SUBSCRIBE {name} AS OF {moment} WITH (progress = 'batch')"


async def follow_view(
    services: Services, session: Session, view: str, after: str | None, stopping: asyncio.Event
) -> AsyncIterator[bytes]:
    """Events of a view: `contents` first where nothing is resumed, then `changes`; `failed` at the end of all."""
    bell, most = Bell(), services.limits.subscription_bytes
    try:
        try:
            subscription = await services.run(session.subscribe, subscribe_text(view, after), most)
        except TidemillError as problem:
            if after is None or problem.code not in _NOT_KEPT:
                raise
            yield event("reset", problem_dict(problem))
            subscription, after = await services.run(session.subscribe, subscribe_text(view, None), most), None
    except TidemillError as problem:
        yield event("failed", problem_dict(problem))
        return
    subscription.notify(bell.ring)
    name, quiet = "contents" if after is None else "changes", 0.0
    try:
        while not stopping.is_set():
            if not _is_readable(services, session, view):
                yield event("failed", {"code": "TM301", "message": f'there is no view "{view}" any more', "hint": None})
                return
            found = await services.run(subscription.next, _AT_ONCE_S)
            if found is not None:
                yield event(name, _moment_dict(found), None if found.batch is None else f"{_BATCH}{found.batch}")
                name, quiet = "changes", 0.0
            elif subscription.closed:
                return
            elif not await bell.wait(_LOOK_S):
                quiet += _LOOK_S
                if quiet >= ALIVE_S:
                    yield b": alive\n\n"
                    quiet = 0.0
    except TidemillError as problem:
        yield event("failed", problem_dict(problem))
    finally:
        subscription.close()


async def follow_batches(
    services: Services, describe: Callable[[], Any], stopping: asyncio.Event, least: float
) -> AsyncIterator[bytes]:
    """An event after a batch, at most one in `least` seconds, and one now and then while none comes."""
    bell, listeners = Bell(), services.db.outlet.listeners
    listeners.append(bell.ring)
    try:
        while not stopping.is_set():
            try:
                found = await services.run(describe)
            except TidemillError as problem:
                yield event("failed", problem_dict(problem))
                return
            yield event("status", found, str(found["status"]["batch"]))
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), least)
            await bell.wait(_LOOK_S)
    finally:
        listeners.remove(bell.ring)


def _is_readable(services: Services, session: Session, view: str) -> bool:
    """Whether the view is still there and granted."""
    return view.lower() in services.db.catalog.entries and session.access.may_read(view)


class EventStream(StreamingResponse):
    """Events for one client. One that takes nothing for `stuck` seconds is let go: its browser comes back."""

    def __init__(self, content: AsyncIterator[bytes], stuck: float) -> None:
        super().__init__(content, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._stuck = stuck

    async def stream_response(self, send: Send) -> None:
        """Send, as long as the client takes it."""

        async def send_in_time(message: Message) -> None:
            await asyncio.wait_for(send(message), self._stuck)

        with suppress(TimeoutError):
            await super().stream_response(send_in_time)


def _moment_dict(found: Moment) -> dict[str, Any]:
    tables = list(found.changes.values())
    told = {"as_of": _time_text(found.as_of), "batch": found.batch}
    return {**told, **({"changes": table_dict(tables[0])} if tables else {})}


def _time_text(moment: int | dt.datetime | None) -> str | None:
    """A time as AS OF reads it."""
    if moment is None:
        return None
    return str(moment) if isinstance(moment, int) else moment.replace(tzinfo=None).isoformat(" ")
