"""The simple protocol: a text of statements, executed one after the other until one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidemill.interrupts import Cancellation
from tidemill.serve.postgres import messages as m
from tidemill.serve.postgres.commands import Language, classify
from tidemill.serve.postgres.interpreter import Interpreter
from tidemill.serve.postgres.lexical import Piece, split_statements
from tidemill.serve.postgres.sending import Sender


async def run_simple(body: bytes, sender: Sender, interpreter: Interpreter, cancellation: Cancellation) -> None:
    """Execute the text of a Query message."""
    text = m.Body(body).text()
    pieces = split_statements(text)
    if not pieces:
        sender.write(m.EMPTY_QUERY)
    for group in group_pieces(pieces):
        start = group[0].start
        sender.point_into(text[start:], lambda offset, start=start: offset + start)  # type: ignore[misc]
        if len(group) > 1:
            outcome = await interpreter.run_definitions(group, text, cancellation)
        else:
            outcome = await interpreter.run(group[0], cancellation)
        await sender.send_answer(outcome, interpreter.settings, cancellation)


def group_pieces(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Definitions that follow each other are one group, every other statement is alone."""
    group: list[Piece] = []
    for piece in pieces:
        command = classify(piece)
        is_definition = isinstance(command, Language) and command.is_definition
        if group and not is_definition:
            yield group
            group = []
        if is_definition:
            group.append(piece)
        else:
            yield [piece]
    if group:
        yield group
