"""Names with a database and a schema: `public.v` is `v`. Blanks take their place, so that positions stay right."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.serve.postgres.lexical import Piece, Token

SCHEMA = "public"


def drop_qualifiers(piece: Piece, database: str) -> str:
    """The text of a statement without the qualifiers that all of its names have.

    >>> from tidemill.serve.postgres.lexical import split_statements
    >>> drop_qualifiers(split_statements('SELECT a.b FROM "lot"."public".v')[0], "lot")
    'SELECT a.b FROM                v'
    """
    text, tokens, at = list(piece.text), piece.tokens, 0
    while at + 2 < len(tokens):
        length = _qualifier(tokens[at : at + 5], database)
        if length and (at == 0 or tokens[at - 1].text != "."):
            for place in range(tokens[at].start - piece.start, tokens[at + length].start - piece.start):
                text[place] = text[place] if text[place] in "\r\n" else " "
        at += max(length, 1)
    return "".join(text)


def _qualifier(found: Sequence[Token], database: str) -> int:
    """How many tokens before a name are its qualifier."""
    is_name = [t.kind in ("word", "name") for t in found]
    dots = [t.text == "." for t in found]
    is_long = len(found) == 5 and dots[1] and dots[3] and all(is_name[::2])
    if is_long and found[0].name == database.lower() and found[2].name == SCHEMA:
        return 4
    if len(found) >= 3 and dots[1] and is_name[0] and is_name[2] and found[0].name == SCHEMA:
        return 2
    return 0
