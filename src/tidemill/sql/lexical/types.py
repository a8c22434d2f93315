"""Column types: every usual spelling, and the one name DuckDB has for it. Nested ones are read by DuckDB itself."""

from __future__ import annotations

import re
from functools import lru_cache

import duckdb
from sqlglot.tokens import Token, TokenType

_SPELLINGS = {
    "TINYINT": "TINYINT INT1",
    "SMALLINT": "SMALLINT INT2 SHORT",
    "INTEGER": "INTEGER INT INT4 SIGNED",
    "BIGINT": "BIGINT INT8 LONG",
    "HUGEINT": "HUGEINT INT128",
    "UTINYINT": "UTINYINT UINT8",
    "USMALLINT": "USMALLINT UINT16",
    "UINTEGER": "UINTEGER UINT UINT32",
    "UBIGINT": "UBIGINT UINT64",
    "FLOAT": "FLOAT FLOAT4 REAL",
    "DOUBLE": "DOUBLE FLOAT8 DOUBLE_PRECISION",
    "DECIMAL": "DECIMAL NUMERIC DEC",
    "VARCHAR": "VARCHAR STRING TEXT CHAR CHARACTER BPCHAR CHARACTER_VARYING CHAR_VARYING",
    "BOOLEAN": "BOOLEAN BOOL LOGICAL",
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP DATETIME TIMESTAMP_US TIMESTAMP_WITHOUT_TIME_ZONE",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ TIMESTAMP_WITH_TIME_ZONE",
    "INTERVAL": "INTERVAL",
    "BLOB": "BLOB BYTEA BINARY VARBINARY BYTES",
    "UUID": "UUID",
}
_TYPES = {spelling.replace("_", " "): name for name, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_TYPES["TIMESTAMP_US"] = _TYPES.pop("TIMESTAMP US")
TYPE_NAMES = tuple(_TYPES)
_NESTED = ("STRUCT", "MAP", "ENUM", "JSON", "ROW")
_DIGITS = re.compile(r"[0-9]{1,9}")


def column_type(words: list[Token]) -> str | None:
    """DuckDB's name of the type these words spell, None if they spell none."""
    return _plain_type(words) or _nested_type(words)


def _nested_type(words: list[Token]) -> str | None:
    """STRUCT(…), MAP(…), ENUM(…), JSON and lists; their parts are words, names, texts and signs of types only."""
    texts = [word.text for word in words]
    begins = bool(texts) and texts[0].upper() in _NESTED
    if not begins and (len(texts) < 3 or texts[-1] != "]"):
        return None
    parts = all(map(_is_part, words)) and _is_closed(words)
    return _ask_type(" ".join(map(_spell, words))) if parts else None


def _is_closed(words: list[Token]) -> bool:
    """Whether no bracket ends what stands around the words."""
    open_brackets: list[str] = []
    for word in words:
        if word.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        if word.text in ("(", "["):
            open_brackets.append(")" if word.text == "(" else "]")
        elif word.text in (")", "]") and (not open_brackets or open_brackets.pop() != word.text):
            return False
    return not open_brackets


def _is_part(word: Token) -> bool:
    spelled = word.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return spelled or word.text in ("(", ")", "[", "]", ",") or re.fullmatch(r"\w+", word.text) is not None


def _spell(word: Token) -> str:
    if word.token_type is TokenType.STRING:
        return "'" + word.text.replace("'", "''") + "'"
    if word.token_type is TokenType.IDENTIFIER:
        return '"' + word.text.replace('"', '""') + '"'
    return word.text


@lru_cache(maxsize=256)
def _ask_type(text: str) -> str | None:
    try:
        with duckdb.connect() as duck:
            return str(duck.sql(f"SELECT CAST(NULL AS {text}) AS x").types[0])
    except duckdb.Error:
        return None


def _plain_type(words: list[Token]) -> str | None:
    if any(word.token_type in (TokenType.STRING, TokenType.IDENTIFIER) for word in words):
        return None
    texts = [" ".join(word.text.upper().split()) for word in words]
    begin = texts.index("(") if "(" in texts else len(texts)
    name = _TYPES.get(" ".join(texts[:begin]))
    if name is None:
        return None
    sizes = _parse_sizes(texts[begin:])
    if sizes is None:
        return None
    if name == "DECIMAL":
        return _decimal_type(sizes)
    if sizes and (name != "VARCHAR" or len(sizes) > 1):
        return None
    return name


def _parse_sizes(texts: list[str]) -> list[int] | None:
    """The numbers in (10, 2); empty without parentheses, None if it is something else."""
    if not texts:
        return []
    inner = texts[1:-1]
    if texts[-1] != ")" or len(inner) not in (1, 3) or inner[1:2] not in ([], [","]):
        return None
    numbers = inner[::2]
    return [int(number) for number in numbers] if all(map(_DIGITS.fullmatch, numbers)) else None


def _decimal_type(sizes: list[int]) -> str | None:
    width, scale = (*sizes, 0)[:2] if sizes else (18, 3)
    return f"DECIMAL({width},{scale})" if 1 <= width <= 38 and scale <= width else None
