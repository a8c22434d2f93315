"""Which statements ask the catalog of Postgres, by the names in them."""

from __future__ import annotations

from tidemill.serve.postgres.catalog.relations import INFORMATION, RELATIONS
from tidemill.serve.postgres.lexical import Piece

SCHEMAS = ("pg_catalog", "information_schema")
_CALLS = {  # functions of Postgres without a counterpart in the language, besides pg_…
    "version",
    "current_database",
    "current_schema",
    "current_schemas",
    "current_setting",
    "set_config",
    "format_type",
    "obj_description",
    "col_description",
    "shobj_description",
    "quote_ident",
    "to_regclass",
    "to_regtype",
    "txid_current",
    "inet_server_addr",
    "inet_server_port",
    "inet_client_addr",
    "inet_client_port",
}
_WORDS = {"current_user", "session_user", "current_role", "current_catalog", "current_schema", "user"}
_BEFORE_NAMES = {"FROM", "JOIN", ",", "AS", "."}


def is_catalog_query(piece: Piece) -> bool:
    """Whether a query is about the catalog: it names a relation or a function of it, or the user of the session."""
    if piece.words(1)[0] not in ("SELECT", "WITH", "(", "VALUES", "TABLE"):
        return False
    tokens = piece.tokens
    for place, token in enumerate(tokens):
        if token.kind not in ("word", "name"):
            continue
        name, after = token.name, tokens[place + 1].text if place + 1 < len(tokens) else ""
        if name in SCHEMAS and after == ".":
            return True
        if after == "(" and token.kind == "word" and (name in _CALLS or name.startswith(("pg_", "has_"))):
            return True
        if name in RELATIONS and name not in INFORMATION and _reads(piece, place):
            return True
        if token.kind == "word" and name in _WORDS and _is_value(piece, place, after):
            return True
    return False


def _reads(piece: Piece, place: int) -> bool:
    """Whether a name stands where a relation is named."""
    return place > 0 and piece.tokens[place - 1].word in ("FROM", "JOIN", ",")


def _is_value(piece: Piece, place: int, after: str) -> bool:
    """Whether a word like CURRENT_USER is meant, and not a column or a table of that name."""
    before = piece.tokens[place - 1].word if place else ""
    return before not in ("FROM", "JOIN", "AS", ".") and after not in (".", "(")
