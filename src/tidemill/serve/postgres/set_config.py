"""SELECT set_config('TimeZone', 'Europe/Paris', false): SET as a query, which answers with the value."""

from __future__ import annotations

from tidemill.serve.postgres.lexical import Piece


def read_set_config(piece: Piece) -> tuple[str, str, str] | None:
    """The name, the value and the column of a query that is nothing but one call of set_config with constants.

    >>> from tidemill.serve.postgres.lexical import split_statements
    >>> read_set_config(split_statements("SELECT set_config('TimeZone', 'UTC', false) AS z")[0])
    ('TimeZone', 'UTC', 'z')
    >>> read_set_config(split_statements("SELECT set_config(a, 'UTC', false) FROM v")[0])
    """
    tokens = list(piece.tokens)
    if [token.word for token in tokens[1:3]] == ["PG_CATALOG", "."]:
        del tokens[1:3]
    words, column = [token.word for token in tokens], "set_config"
    if len(tokens) == 11 and words[-2] == "AS":
        column, words, tokens = tokens[-1].name, words[:-2], tokens[:-2]
    shape = [word for place, word in enumerate(words) if place not in (3, 5, 7)]
    if shape != ["SELECT", "SET_CONFIG", "(", ",", ",", ")"] or words[7] not in ("TRUE", "FALSE"):
        return None
    name, value = tokens[3], tokens[5]
    return (name.value, value.value, column) if name.kind == value.kind == "string" else None
