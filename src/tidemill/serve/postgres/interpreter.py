"""Executes the statements of one connection: the protocol's own here, those of the language in the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from tidemill.engine.results import Created
from tidemill.engine.script import is_question
from tidemill.engine.users.session import Session
from tidemill.interrupts import Cancellation
from tidemill.plan import statements as s
from tidemill.serve.postgres import commands as c
from tidemill.serve.postgres.catalog.shadow import ShadowCatalogs
from tidemill.serve.postgres.inference import infer_types
from tidemill.serve.postgres.lexical import Piece
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.qualified_names import drop_qualifiers
from tidemill.serve.postgres.results import Answer, Follow, Outcome, Portal
from tidemill.serve.postgres.services import Services
from tidemill.serve.postgres.settings import SessionSettings

_TAGS: dict[type[s.Statement], str] = {
    s.RegisterSource: "REGISTER SOURCE",
    s.RegisterTable: "REGISTER TABLE",
    s.AlterSource: "ALTER SOURCE",
    s.CreateTaggedStream: "CREATE STREAM",
    s.CreateView: "CREATE VIEW",
    s.CreateSink: "CREATE SINK",
    s.CreateUser: "CREATE ROLE",
    s.AlterUser: "ALTER ROLE",
    s.DropUser: "DROP ROLE",
    s.Grant: "GRANT",
    s.Revoke: "REVOKE",
    s.Restart: "RESTART VIEW",
    s.RestartSource: "RESTART SOURCE",
    s.Skip: "SKIP BATCH",
    s.Set: "SET",
    s.Select: "CREATE QUERY",
    s.Show: "SHOW",
    s.Describe: "DESCRIBE",
    s.Explain: "EXPLAIN",
    s.Why: "EXPLAIN",
    s.Subscribe: "SUBSCRIBE",
}
_UNDONE = "what was defined in this transaction stands: definitions are not undone"


def tag_of(statement: s.Statement) -> str:
    """What a client is told when the statement is done."""
    return f"DROP {statement.kind.upper()}" if isinstance(statement, s.Drop) else _TAGS[type(statement)]


class Interpreter:
    """The state of one connection between statements: parameters, cursors, the transaction."""

    def __init__(
        self, services: Services, session: Session, settings: SessionSettings, shadows: ShadowCatalogs, process: int
    ) -> None:
        self._services, self._session, self._shadows = services, session, shadows
        self.settings, self.process = settings, process
        self.status = "I"  # I, T or E, as ReadyForQuery says it
        self.cursors: dict[str, tuple[bool, Portal]] = {}  # name → (outlives the transaction, rows)
        self.forgotten: list[str] = []  # prepared statements that DEALLOCATE names; '' is all
        self._has_defined = False

    # ---- one statement -------------------------------------------------------------------------

    async def run(self, piece: Piece, cancellation: Cancellation) -> Outcome:
        """Execute a statement."""
        return await self.run_command(c.classify(piece), piece, cancellation)

    async def run_command(self, command: c.Command, piece: Piece, cancellation: Cancellation) -> Outcome:
        """Execute a statement whose kind is known."""
        if self.status == "E" and not isinstance(command, c.Transaction):
            raise ProtocolProblem(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
                hint="ROLLBACK",
            )
        if isinstance(command, c.Language):
            return await self._run_language(piece, cancellation)
        if isinstance(command, c.CatalogQuery):
            return await self._run_catalog(piece, cancellation)
        if isinstance(command, c.Declare):
            return await self._declare(command, cancellation)
        if isinstance(command, c.Fetch):
            return await self._fetch(command, cancellation)
        if isinstance(command, c.CopyTo):
            return await self._copy(command, cancellation)
        return self._run_plain(command)

    def _run_plain(self, command: c.Command) -> Outcome:
        """Statements that only change this connection."""
        if isinstance(command, c.Transaction):
            return self._change_transaction(command)
        if isinstance(command, c.SetParameter):
            return self._set_parameter(command)
        if isinstance(command, c.ShowParameter):
            value = self.settings.get(command.name)
            return Outcome("SHOW", Answer(pa.table({command.name.lower(): [value]})))
        if isinstance(command, c.Reset):
            return self._reset(command)
        if isinstance(command, c.CloseCursor):
            return self._close_cursors(command)
        assert isinstance(command, c.Ignored)
        if command.forgets is not None:
            self.forgotten.append(command.forgets)
        return Outcome(command.tag)

    def _set_parameter(self, command: c.SetParameter) -> Outcome:
        told: tuple[str, ...] = ()
        if "." not in command.name:
            self.settings.get(command.name)  # there is one of the name
            changed = self.settings.set(command.name, command.value)
            told = (changed,) if changed else ()
        if command.column is None:
            return Outcome("SET", changed=told)
        value = command.value if "." in command.name else self.settings.get(command.name)
        return Outcome("SELECT", Answer(pa.table({command.column: [value]})), counts=True, changed=told)

    async def run_definitions(self, pieces: Sequence[Piece], text: str, cancellation: Cancellation) -> Outcome:
        """Execute definitions that follow each other as one step: one version of the plan."""
        if len(pieces) == 1 or self.status == "E":
            return await self.run_command(c.Language(), pieces[0], cancellation)
        start, end = pieces[0].start, pieces[-1].start + len(pieces[-1].text)
        whole = drop_qualifiers(
            Piece(text[start:end], start, [t for p in pieces for t in p.tokens]), self._services.name
        )
        placed = await self._services.run(self._session.parse, whole)
        notices: list[str] = []
        await self._services.run(self._session.execute, whole, lambda result: notices.extend(_notices(result)))
        self._has_defined = True
        tags = [tag_of(part.statement) for part in placed]
        return Outcome(tags[-1], notices=notices, tags=tuple(tags[:-1]))

    async def describe(self, piece: Piece) -> Outcome:
        """The columns of a statement, without executing what changes something."""
        command = c.classify(piece)
        if isinstance(command, c.Language):
            text = drop_qualifiers(piece, self._services.name)
            schema = await self._services.run(self._session.describe, text)
            return Outcome("", None if schema is None else Answer(schema.empty_table()))
        if isinstance(command, c.Fetch):
            return Outcome("", Answer(self._cursor(command.name).outcome.rows.schema.empty_table()))  # type: ignore[union-attr]
        if isinstance(command, c.SetParameter) and command.column is not None:
            return Outcome("", Answer(pa.table({command.column: pa.array([], pa.string())})))
        if isinstance(command, (c.CatalogQuery, c.ShowParameter)):
            return await self.run_command(command, piece, Cancellation())
        return Outcome("")

    async def infer_types(self, piece: Piece, given: Sequence[int]) -> list[int]:
        """The types of parameters; those that the client leaves open are found in the text."""
        relations = await self._services.run(self._session.relations)
        return await self._services.run(infer_types, piece, given, relations)

    # ---- the language --------------------------------------------------------------------------

    async def _run_language(self, piece: Piece, cancellation: Cancellation, *, only_reads: bool = False) -> Outcome:
        text = drop_qualifiers(piece, self._services.name)
        [placed] = await self._services.run(self._session.parse, text)
        statement = placed.statement
        if only_reads and not is_question(statement):
            raise _refuse_query(piece)
        if isinstance(statement, s.Select) and statement.output is None:
            query, settings = self._session.query, self.settings
            table = await self._services.run_query(
                cancellation, query, text, settings.timeout, cancellation, False, settings.time_zone
            )
            return Outcome("SELECT", Answer(table), counts=True)
        if isinstance(statement, s.Subscribe):
            return await self._subscribe(statement, text)
        result = await self._services.run(self._session.execute, text)
        if isinstance(result, Created):
            self._has_defined = True
            return Outcome(tag_of(statement), notices=_notices(result))
        table = result if isinstance(result, pa.Table) else _lines(result)
        return Outcome(tag_of(statement), Answer(table))

    async def _subscribe(self, statement: s.Subscribe, text: str) -> Outcome:
        if statement.others:
            raise ProtocolProblem(
                "0A000", "one view can be subscribed to at a time here", hint="open a connection for each of them"
            )
        schema = await self._services.run(self._session.describe, text)
        most = self._services.limits.subscription_bytes
        subscription = await self._services.run(self._session.subscribe, text, most)
        follow = Follow(subscription, schema, self._services.run, partial(self._session.access.check, statement))
        return Outcome("SUBSCRIBE", follow, counts=True)

    async def _run_catalog(self, piece: Piece, cancellation: Cancellation) -> Outcome:
        shadow = self._shadows.of(self._session)
        context = {
            "database": self._services.name,
            "user": self.settings.get("session_authorization"),
            "process": str(self.process),
        }
        arguments = piece.text, context, self.settings.get, cancellation
        table = await self._services.run_in_turn(shadow.turn, cancellation, shadow.query, *arguments)
        return Outcome("SELECT", Answer(table), counts=True)

    # ---- transactions and parameters -----------------------------------------------------------

    def _change_transaction(self, command: c.Transaction) -> Outcome:
        notices, tag = [], command.tag
        if command.word == "begin":
            if self.status == "T":
                notices.append("there is already a transaction in progress")
            self.status = "T" if self.status == "I" else self.status
            self._has_defined = False
        elif command.word in ("commit", "rollback"):
            tag = "ROLLBACK" if self.status == "E" else tag
            if self.status == "I":
                notices.append("there is no transaction in progress")
            elif tag == "ROLLBACK" and self._has_defined:
                notices.append(_UNDONE)
            self._end_transaction()
        elif self.status == "E":
            if tag != "ROLLBACK":
                raise ProtocolProblem("25P02", "current transaction is aborted", hint="ROLLBACK")
            self.status = "T"
        return Outcome(tag, notices=notices)

    def _end_transaction(self) -> None:
        for name in [name for name, (holds, _) in self.cursors.items() if not holds]:
            self.cursors.pop(name)[1].close()
        self.status = "I"

    def fail(self) -> None:
        """A statement has failed: so has the transaction, if there is one."""
        self.status = "E" if self.status == "T" else self.status

    def _reset(self, command: c.Reset) -> Outcome:
        if command.name is not None:
            changed = self.settings.set(command.name, None) if self.settings.knows(command.name) else None
            return Outcome(command.tag, changed=(changed,) if changed else ())
        told = self.settings.reset()
        if command.tag == "DISCARD ALL":
            self.close()
            self.forgotten.append("")
        return Outcome(command.tag, changed=told)

    # ---- cursors and COPY ----------------------------------------------------------------------

    async def _declare(self, command: c.Declare, cancellation: Cancellation) -> Outcome:
        if command.name in self.cursors:
            raise ProtocolProblem("42P03", f'cursor "{command.name}" already exists', hint=f"CLOSE {command.name}")
        if len(self.cursors) >= self._services.limits.prepared:
            raise ProtocolProblem("54000", "too many cursors are open", hint="CLOSE some of them")
        outcome = await self._run_query(command.query, cancellation)
        # Outside of a transaction a cursor lasts until it is closed.
        portal = Portal(outcome, [0] * len(outcome.fields or ()))
        self.cursors[command.name] = (command.hold or self.status == "I", portal)
        return Outcome("DECLARE CURSOR")

    async def _fetch(self, command: c.Fetch, cancellation: Cancellation) -> Outcome:
        portal = self._cursor(command.name)
        assert portal.outcome.rows is not None
        timeout = command.timeout
        if portal.outcome.rows.is_endless and timeout is None and command.count is None:
            timeout = 0.0
        tables = [t async for t in portal.take(command.count, cancellation, timeout)]
        schema = portal.outcome.rows.schema
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        if command.moves:
            return Outcome(f"MOVE {table.num_rows}")
        return Outcome("FETCH", Answer(table), counts=True)

    async def _copy(self, command: c.CopyTo, cancellation: Cancellation) -> Outcome:
        outcome = await self._run_query(command.query, cancellation)
        return Outcome("COPY", outcome.rows, counts=True, copy=command.form)

    async def _run_query(self, piece: Piece, cancellation: Cancellation) -> Outcome:
        """The rows of a query in another statement; anything else is refused before it is executed."""
        command = c.classify(piece)
        if isinstance(command, c.Language):
            return await self._run_language(piece, cancellation, only_reads=True)
        if isinstance(command, c.CatalogQuery):
            return await self._run_catalog(piece, cancellation)
        raise _refuse_query(piece)

    def _cursor(self, name: str) -> Portal:
        if name not in self.cursors:
            raise ProtocolProblem("34000", f'cursor "{name}" does not exist')
        return self.cursors[name][1]

    def _close_cursors(self, command: c.CloseCursor) -> Outcome:
        if command.name is None:
            self.close()
            return Outcome("CLOSE CURSOR ALL")
        self._cursor(command.name).close()
        del self.cursors[command.name]
        return Outcome("CLOSE CURSOR")

    def close(self) -> None:
        """Close all cursors."""
        for _, portal in self.cursors.values():
            portal.close()
        self.cursors.clear()


def _refuse_query(piece: Piece) -> ProtocolProblem:
    return ProtocolProblem("42601", "a query or SUBSCRIBE is wanted", position=piece.start + 1)


def _notices(result: Any) -> list[str]:
    return [result.message] if isinstance(result, Created) else []


def _lines(result: Any) -> pa.Table:
    return pa.table({"plan": pa.array(str(result).splitlines(), pa.string())})
