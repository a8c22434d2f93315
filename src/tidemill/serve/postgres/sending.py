"""Writes to one client, as fast as it reads. A subscriber that does not read at all is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pyarrow as pa

from tidemill.interrupts import Cancellation
from tidemill.serve.postgres import messages as m
from tidemill.serve.postgres.fields import Field, fields_of, row_description
from tidemill.serve.postgres.problems import notice_fields
from tidemill.serve.postgres.results import Outcome, Portal
from tidemill.serve.postgres.rows import data_rows
from tidemill.serve.postgres.services import log
from tidemill.serve.postgres.settings import SessionSettings
from tidemill.serve.postgres.zones import in_zone

HIGH_WATER = 256 << 10  # bytes that wait to be sent before a statement waits for the client
_LOOK_S = 0.5


def _same(offset: int) -> int:
    return offset


class Sender:
    """The way to a client. `context` is the text that errors point into, and how its offsets are told."""

    def __init__(self, writer: asyncio.StreamWriter, stuck_seconds: float, settings: SessionSettings) -> None:
        self._writer, self._stuck_seconds, self._settings = writer, stuck_seconds, settings
        self.context: tuple[str, Callable[[int], int]] = ("", _same)
        writer.transport.set_write_buffer_limits(HIGH_WATER)

    def point_into(self, text: str, place: Callable[[int], int] = _same) -> None:
        """Errors from now on are of this text."""
        self.context = (text, place)

    def write(self, data: bytes) -> None:
        """Send soon."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent."""
        await self._writer.drain()

    def abort(self) -> None:
        """Let the client go at once."""
        self._writer.transport.abort()

    def send_notices(self, outcome: Outcome, settings: SessionSettings) -> None:
        """What is told beside the result: notices, parameters, and tags of statements that were executed together."""
        for text in outcome.notices:
            self.write(m.report("N", notice_fields(text)))
        for name in outcome.changed:
            self.write(m.parameter_status(name, settings.get(name)))
        for tag in outcome.tags:
            self.write(m.command_complete(tag))

    async def send_answer(self, outcome: Outcome, settings: SessionSettings, cancellation: Cancellation) -> None:
        """Everything about a statement of the simple protocol."""
        self.send_notices(outcome, settings)
        fields = outcome.fields
        formats = [0] * len(fields or ())
        if fields is not None:
            self.write(row_description(fields, formats))
        await self.send_portal(Portal(outcome, formats), None, cancellation)

    async def send_portal(self, portal: Portal, most: int | None, cancellation: Cancellation) -> None:
        """At most this many rows, and how the statement ended."""
        outcome, count = portal.outcome, 0
        fields = fields_of(outcome.rows.schema) if outcome.rows is not None else []
        if outcome.copy is not None:
            self.write(m.copy_out(len(fields), outcome.copy.is_binary) + outcome.copy.begin(fields))
        try:
            async for table in portal.take(most, cancellation):
                self._write_rows(portal, table, fields, count == 0)
                count += table.num_rows
                await self._drain_rows(portal)
        except BaseException:
            portal.close()
            raise
        if outcome.copy is not None:
            self.write(outcome.copy.end(count == 0) + m.COPY_DONE)
        if most is not None and not portal.is_done:
            self.write(m.PORTAL_SUSPENDED)
        else:
            portal.close()
            self.write(m.command_complete(outcome.tag + (f" {count}" if outcome.counts else "")))

    def _write_rows(self, portal: Portal, table: pa.Table, fields: Sequence[Field], is_first: bool) -> None:
        copy, table = portal.outcome.copy, in_zone(table, self._settings.time_zone)
        self.write(copy.rows(table, fields, is_first) if copy is not None else data_rows(table, fields, portal.formats))

    async def _drain_rows(self, portal: Portal) -> None:
        """Wait for the client. One whose queue of changes is full meanwhile has some seconds to read on; then the next
        thing that it gets is the error about it.
        """
        rows = portal.outcome.rows
        if rows is None or not rows.is_endless:
            await self.drain()
            return
        draining = asyncio.ensure_future(self.drain())
        try:
            while not (await asyncio.wait({draining}, timeout=_LOOK_S))[0]:
                if rows.is_behind:
                    await asyncio.wait({draining}, timeout=self._stuck_seconds)
                    break
            if not draining.done():
                log.warning("a subscriber that does not read was cut off")
                self.abort()
                raise ConnectionResetError
            await draining
        finally:
            draining.cancel()
