"""The extended protocol: prepared statements, parameters, portals with limits on rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.interrupts import Cancellation
from tidemill.serve.postgres import messages as m
from tidemill.serve.postgres.fields import TEXT, Field, row_description, spread_formats
from tidemill.serve.postgres.interpreter import Interpreter
from tidemill.serve.postgres.lexical import Piece, find_parameters, split_statements
from tidemill.serve.postgres.parameters import BoundText, bind_values, literal_of, null_of
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.results import Outcome, Portal
from tidemill.serve.postgres.sending import Sender
from tidemill.serve.postgres.services import Services

MOST_PARAMETERS = 32_767  # as far as the counts in messages reach


@dataclass
class Prepared:
    """A statement that waits for its parameters; None for an empty text."""

    text: str
    piece: Piece | None
    types: list[int]
    fields: list[Field] | None = None
    is_described: bool = False


@dataclass
class BoundPortal:
    """A statement with its parameters. It is executed when its columns or its rows are asked for."""

    prepared: Prepared
    bound: BoundText
    formats: list[int]
    portal: Portal | None = None


class Extended:
    """The prepared statements and portals of one connection."""

    def __init__(self, sender: Sender, interpreter: Interpreter, services: Services) -> None:
        self._sender, self._interpreter, self._services = sender, interpreter, services
        self._statements: dict[str, Prepared] = {}
        self._portals: dict[str, BoundPortal] = {}

    # ---- messages ------------------------------------------------------------------------------

    async def parse(self, body: bytes) -> None:
        """Parse: a text under a name."""
        data = m.Body(body)
        name, text = data.text(), data.text()
        types = [data.int32() & 0xFFFF_FFFF for _ in range(_count(data))]
        if name and name in self._statements:
            raise ProtocolProblem("42P05", f'prepared statement "{name}" already exists')
        self._check_room(self._statements)
        self._sender.point_into(text)
        pieces = split_statements(text)
        if len(pieces) > 1:
            raise ProtocolProblem(
                "42601", "cannot insert multiple commands into a prepared statement", position=pieces[1].start + 1
            )
        piece = pieces[0] if pieces else None
        count = max(find_parameters(piece.tokens) if piece else 0, len(types))
        if count > MOST_PARAMETERS:
            raise ProtocolProblem("54023", f"a statement has at most {MOST_PARAMETERS:,} parameters", hint="use a list")
        self._statements[name] = Prepared(text, piece, types + [0] * (count - len(types)))
        self._sender.write(m.PARSE_COMPLETE)

    async def bind(self, body: bytes) -> None:
        """Bind: values for the parameters of a statement."""
        data = m.Body(body)
        name, prepared = data.text(), self._statement(data.text())
        forms = [data.int16() for _ in range(_count(data))]
        values = [None if (n := data.int32()) < 0 else data.take(n) for _ in range(_count(data))]
        formats = [data.int16() for _ in range(_count(data))]
        if len(values) != len(prepared.types):
            wanted = len(prepared.types)
            raise ProtocolProblem("08P01", f"{len(values)} values are given, and the statement has {wanted} parameters")
        if len(forms) > 1 and len(forms) != len(values):
            raise ProtocolProblem("08P01", "the number of parameter formats does not fit")
        self._sender.point_into(prepared.text)
        forms = spread_formats(forms, len(values))
        if any(v is not None and v[:1] == b"{" for v in values):  # an array, as far as the text says
            await self._settle_types(prepared)
        literals = [literal_of(v, t, form) for v, t, form in zip(values, prepared.types, forms, strict=True)]
        self._check_room(self._portals)
        self._drop_portal(name)
        bound = bind_values(prepared.piece, literals) if prepared.piece else BoundText("")
        self._portals[name] = BoundPortal(prepared, bound, formats)
        self._sender.write(m.BIND_COMPLETE)

    async def describe(self, body: bytes, cancellation: Cancellation) -> None:
        """Describe: parameters of a statement, columns of a statement or portal."""
        kind, name = body[:1], m.Body(body[1:]).text()
        if kind == b"S":
            prepared = self._statement(name)
            await self._describe_statement(prepared)
            self._sender.write(m.parameter_description([oid or TEXT for oid in prepared.types]))
            self._write_fields(prepared.fields, [0] * len(prepared.fields or ()))
        elif kind == b"P":
            portal = await self._find(name, cancellation)
            self._write_fields(portal.outcome.fields if portal else None, portal.formats if portal else [])
        else:
            raise ProtocolProblem("08P01", "only statements and portals can be described")

    async def execute(self, body: bytes, cancellation: Cancellation) -> None:
        """Execute: rows of a portal, up to a limit."""
        data = m.Body(body)
        name, most = data.text(), data.int32()
        portal = await self._find(name, cancellation)
        if portal is None:
            self._sender.write(m.EMPTY_QUERY)
            return
        if portal.is_done and portal.outcome.rows is not None and portal.outcome.counts:
            self._sender.write(m.command_complete(f"{portal.outcome.tag} 0"))
            return
        self._sender.send_notices(portal.outcome, self._interpreter.settings)
        portal.outcome.notices, portal.outcome.changed = [], ()
        await self._sender.send_portal(portal, most if most > 0 else None, cancellation)
        await self._sender.drain()

    async def close(self, body: bytes) -> None:
        """Close: forget a statement or a portal; that there is none is no error."""
        kind, name = body[:1], m.Body(body[1:]).text()
        if kind == b"S":
            self._statements.pop(name, None)
        else:
            self._drop_portal(name)
        self._sender.write(m.CLOSE_COMPLETE)

    def sync(self) -> None:
        """Sync: outside of a transaction portals end."""
        if self._interpreter.status == "I":
            self._close_portals()

    # ---- parts ---------------------------------------------------------------------------------

    async def _find(self, name: str, cancellation: Cancellation) -> Portal | None:
        """The portal of this name; cursors of DECLARE are portals too."""
        if name not in self._portals and name in self._interpreter.cursors:
            return self._interpreter.cursors[name][1]
        return await self._open(self._portal(name), cancellation)

    async def _open(self, bound: BoundPortal, cancellation: Cancellation) -> Portal | None:
        """The portal with its outcome; None for an empty statement."""
        if bound.portal is None and bound.prepared.piece is not None:
            start = bound.prepared.piece.start
            self._sender.point_into(bound.bound.text, lambda offset: bound.bound.place(offset) + start)
            piece = split_statements(bound.bound.text)[0]
            outcome = await self._interpreter.run(piece, cancellation)
            count = len(outcome.fields or ())
            try:
                formats = self._check_formats(spread_formats(bound.formats, count), count)
            except ProtocolProblem:
                outcome.close()
                raise
            bound.portal = Portal(outcome, formats)
        return bound.portal

    async def _describe_statement(self, prepared: Prepared) -> None:
        """Find the types of parameters and the columns of a statement, over parameters that are NULL."""
        if prepared.is_described or prepared.piece is None:
            return
        await self._settle_types(prepared)
        literals = [null_of(oid) for oid in prepared.types]
        text = bind_values(prepared.piece, literals).text
        self._sender.point_into(prepared.text)
        outcome: Outcome = await self._interpreter.describe(split_statements(text)[0])
        prepared.fields, prepared.is_described = outcome.fields, True

    async def _settle_types(self, prepared: Prepared) -> None:
        """The types that the client left open are those that the text asks for."""
        if 0 in prepared.types and prepared.piece is not None:
            prepared.types = await self._interpreter.infer_types(prepared.piece, prepared.types)

    def _write_fields(self, fields: list[Field] | None, formats: Sequence[int]) -> None:
        self._sender.write(m.NO_DATA if fields is None else row_description(fields, formats))

    def _check_formats(self, formats: list[int], count: int) -> list[int]:
        if len(formats) != count or any(form not in (0, 1) for form in formats):
            raise ProtocolProblem("08P01", "the number of result formats does not fit")
        return formats

    def _check_room(self, kept: dict[str, Prepared] | dict[str, BoundPortal]) -> None:
        if len(kept) >= self._services.limits.prepared:
            raise ProtocolProblem("54000", "too many prepared statements or portals", hint="close some of them")

    def _statement(self, name: str) -> Prepared:
        if name not in self._statements:
            raise ProtocolProblem("26000", f'prepared statement "{name}" does not exist')
        return self._statements[name]

    def _portal(self, name: str) -> BoundPortal:
        if name not in self._portals:
            raise ProtocolProblem("34000", f'portal "{name}" does not exist')
        return self._portals[name]

    def _drop_portal(self, name: str) -> None:
        dropped = self._portals.pop(name, None)
        if dropped is not None and dropped.portal is not None:
            dropped.portal.close()

    def _close_portals(self) -> None:
        for name in list(self._portals):
            self._drop_portal(name)

    def forget(self, names: list[str]) -> None:
        """Forget prepared statements that were deallocated; '' is all of them."""
        for name in names:
            if name:
                self._statements.pop(name, None)
            else:
                self._statements.clear()
        names.clear()

    def close_all(self) -> None:
        """The connection ends."""
        self._close_portals()
        self._statements.clear()


def _count(data: m.Body) -> int:
    found = data.int16()
    if found < 0:
        raise ProtocolProblem("08P01", "a count in a message is negative")
    return found
