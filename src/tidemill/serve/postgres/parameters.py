"""Values of parameters ($1, $2, …) as literals of SQL. Nothing of a value is ever read as SQL."""

from __future__ import annotations

import datetime as dt
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill.serve.postgres import fields as f
from tidemill.serve.postgres.lexical import Piece
from tidemill.serve.postgres.messages import decode_text
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.values import interval_text

_WHOLE = re.compile(r"[+-]?\d{1,40}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_INTEGERS = (f.INT2, f.INT4, f.INT8, f.OID)
_CASTS = {
    f.FLOAT4: "FLOAT",
    f.FLOAT8: "DOUBLE",
    f.DATE: "DATE",
    f.TIME: "TIME",
    f.TIMESTAMP: "TIMESTAMP",
    f.TIMESTAMPTZ: "TIMESTAMPTZ",
    f.INTERVAL: "INTERVAL",
    f.UUID: "UUID",
}
_NULLS = {**_CASTS, f.INT2: "SMALLINT", f.INT4: "INTEGER", f.TEXT: "VARCHAR", f.BOOL: "BOOLEAN", f.BYTEA: "BLOB"}
_BASE, _US = dt.datetime(2000, 1, 1), dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class BoundText:
    """A statement with literals in the place of parameters. `moves`: (place in the text, by how much it is longer)."""

    text: str
    moves: tuple[tuple[int, int], ...] = ()

    def place(self, offset: int) -> int:
        """The offset in the text of the client."""
        return offset - sum(longer for at, longer in self.moves if at < offset)


def bind_values(piece: Piece, literals: Sequence[str]) -> BoundText:
    """The text of a statement with a literal for each parameter.

    >>> from tidemill.serve.postgres.lexical import split_statements
    >>> bind_values(split_statements("SELECT $2, '$1', $1")[0], ["1", "'x'"]).text
    "SELECT 'x', '$1', 1"
    """
    parts, moves, at, made = [], [], piece.start, 0
    for place, token in enumerate(piece.tokens):
        if token.kind == "parameter":
            number = int(token.text[1:])
            if not 1 <= number <= len(literals):
                raise ProtocolProblem("42P02", f"there is no parameter ${number}", position=token.start + 1)
            before, literal = piece.text[at - piece.start : token.start - piece.start], literals[number - 1]
            words = [t.word for t in piece.tokens[max(0, place - 3) : place]]
            if words[-2:] == ["AS", "OF"] or words == ["AS", "OF", "BATCH"]:
                literal = _moment(literal, "SUBSCRIBE" if words[-1] == "BATCH" else piece.words(1)[0])
            parts += [before, literal]
            made += len(before) + len(literal)
            moves.append((made - 1, len(literal) - (token.end - token.start)))
            at = token.end
    return BoundText("".join(parts) + piece.text[at - piece.start :], tuple(moves))


def _moment(literal: str, statement: str) -> str:
    """A literal as AS OF takes it: a number, or a time with its word in front; something that it takes for NULL.

    >>> _moment("'4'", "SELECT"), _moment("CAST('2024-03-01 12:00:00' AS TIMESTAMP)", "SUBSCRIBE")
    ('4', "TIMESTAMP '2024-03-01 12:00:00'")
    """
    found = re.fullmatch(r"(?:CAST\()?('[^']*'|NULL)(?: AS \w+\))?", literal)
    if found is None:
        return literal
    if found[1] == "NULL":  # only to find the columns
        return "0" if statement == "SUBSCRIBE" else "LATEST"
    return found[1][1:-1] if _WHOLE.fullmatch(found[1][1:-1]) else f"TIMESTAMP {found[1]}"


def literal_of(data: bytes | None, oid: int, form: int) -> str:
    """The literal of one value, as the client sent it.

    >>> literal_of(b"it's", f.TEXT, 0), literal_of(b"-5", f.INT4, 0), literal_of(b"\\0\\7", f.INT2, 1)
    ("'it''s'", '(-5)', '7')
    """
    if data is None:
        return "NULL"
    try:
        return _from_text(read_binary(data, oid) if form == 1 else decode_text(data), oid)
    except (struct.error, ValueError, OverflowError):
        name = f.NAMES.get(oid, f"type {oid}")
        raise ProtocolProblem("22P02", f"the value of a parameter is no {name}") from None


def null_of(oid: int) -> str:
    """NULL of a type: a statement has the same columns with it as with a value.

    >>> null_of(f.INT4), null_of(f.TIMESTAMPTZ), null_of(1007)
    ('CAST(NULL AS INTEGER)', 'CAST(NULL AS TIMESTAMPTZ)', 'NULL')
    """
    kind = _NULLS.get(oid)
    return f"CAST(NULL AS {kind})" if kind else "NULL"


def _from_text(text: str, oid: int) -> str:
    if "\0" in text:
        raise ProtocolProblem("22021", "a text cannot have a zero character")
    if oid in _INTEGERS:
        return _numeral(text, _WHOLE)
    if oid == f.NUMERIC:
        return _numeral(text, _NUMBER)
    if oid == f.BOOL:
        return "TRUE" if text.strip().lower() in ("t", "true", "1", "on", "yes", "y") else "FALSE"
    if oid == f.BYTEA:
        return "CAST(" + quote("".join(f"\\x{byte:02X}" for byte in _read_bytes(text))) + " AS BLOB)"
    if oid in f.ELEMENTS:
        element = f.ELEMENTS[oid]
        return "[" + ", ".join("NULL" if e is None else _from_text(e, element) for e in split_array(text)) + "]"
    return f"CAST({quote(text)} AS {_CASTS[oid]})" if oid in _CASTS else quote(text)


def quote(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def _numeral(text: str, form: re.Pattern[str]) -> str:
    text = text.strip()
    if not form.fullmatch(text):
        raise ValueError(text)
    # Without the parentheses  x-$1  would begin a comment.
    return f"({text})" if text[0] in "+-" else text


def _read_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()


def split_array(text: str) -> list[str | None]:
    """The elements of an array of one dimension.

    >>> split_array('{1,NULL,"a,\\\\"b"}')
    ['1', None, 'a,"b']
    """
    found = re.fullmatch(r"\{(.*)\}", text.strip(), re.DOTALL)
    if found is None or not _ELEMENTS.fullmatch(found[1]):
        raise ValueError(text)
    items = [m for m in _ELEMENT.finditer(found[1])] if found[1].strip() else []
    return [_element(m[0].strip()) for m in items]


_ONE = r'\s*(?:"(?:[^"\\]|\\.)*"|[^,"{}\\]+)\s*'
_ELEMENT = re.compile(_ONE, re.DOTALL)
_ELEMENTS = re.compile(rf"\s*|{_ONE}(?:,{_ONE})*", re.DOTALL)


def _element(text: str) -> str | None:
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    return None if text.upper() == "NULL" else text


# ---- binary values -----------------------------------------------------------------------------


def read_binary(data: bytes, oid: int) -> str:
    """The text of a value in binary."""
    if oid in _BINARIES:
        return _BINARIES[oid](data)
    if oid in f.ELEMENTS:
        return _array_text(data)
    return decode_text(data)


def _array_text(data: bytes) -> str:
    dimensions, _, element = struct.unpack_from(">iiI", data)
    if dimensions == 0:
        return "{}"
    if dimensions != 1:
        raise ValueError("an array of several dimensions")
    (count,), at, parts = struct.unpack_from(">i", data, 12), 20, []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", data, at)
        at += 4
        if length < 0:
            parts.append("NULL")
        else:
            text = read_binary(data[at : at + length], element)
            parts.append('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
            at += length
    return "{" + ",".join(parts) + "}"


def numeric_text(data: bytes) -> str:
    """A numeric in binary as text.

    >>> from decimal import Decimal
    >>> from tidemill.serve.postgres.values import numeric_binary
    >>> [numeric_text(numeric_binary(Decimal(n))) for n in ("-12345.678", "0", "100000000", "0.00001")]
    ['-12345.678', '0', '100000000', '0.00001']
    """
    count, weight, sign, scale = struct.unpack_from(">hhHh", data)
    if sign not in (0, 0x4000):
        raise ValueError("not a number")
    groups = struct.unpack_from(f">{count}h", data, 8)
    whole = "".join(f"{groups[i] if i < count else 0:04}" for i in range(weight + 1)).lstrip("0") or "0"
    part = "".join(f"{groups[i] if 0 <= i < count else 0:04}" for i in range(weight + 1, weight + 1 + -(-scale // 4)))
    return ("-" if sign else "") + whole + (f".{part[:scale]}" if scale else "")


def _timestamp_text(data: bytes) -> str:
    return (_BASE + struct.unpack(">q", data)[0] * _US).isoformat(sep=" ")


def _interval_text(data: bytes) -> str:
    us, days, months = struct.unpack(">qii", data)
    return interval_text((months, days, us * 1000))


_BINARIES: dict[int, Callable[[bytes], str]] = {
    f.BOOL: lambda d: "t" if d != b"\0" else "f",
    f.INT2: lambda d: str(struct.unpack(">h", d)[0]),
    f.INT4: lambda d: str(struct.unpack(">i", d)[0]),
    f.INT8: lambda d: str(struct.unpack(">q", d)[0]),
    f.OID: lambda d: str(struct.unpack(">I", d)[0]),
    f.OID: lambda d: str(struct.unpack(">I", d)[0]),
    f.FLOAT4: lambda d: repr(struct.unpack(">f", d)[0]),
    f.FLOAT8: lambda d: repr(struct.unpack(">d", d)[0]),
    f.NUMERIC: numeric_text,
    f.BYTEA: lambda d: "\\x" + d.hex(),
    f.DATE: lambda d: (_BASE + dt.timedelta(days=struct.unpack(">i", d)[0])).date().isoformat(),
    f.TIME: lambda d: (_BASE + struct.unpack(">q", d)[0] * _US).time().isoformat(),
    f.TIMESTAMP: _timestamp_text,
    f.TIMESTAMPTZ: lambda d: _timestamp_text(d) + "+00:00",
    f.INTERVAL: _interval_text,
    f.UUID: lambda d: str(uuid.UUID(bytes=d)),
}
