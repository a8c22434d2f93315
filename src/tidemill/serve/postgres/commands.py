"""Which statements are the protocol's own, and what they say. All others are statements of the language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidemill.serve.postgres.catalog.names import is_catalog_query
from tidemill.serve.postgres.lexical import Piece, Token, split_statements
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.rows import CopyFormat
from tidemill.serve.postgres.set_config import read_set_config
from tidemill.serve.postgres.settings import SessionSettings, read_seconds


@dataclass(frozen=True)
class Language:
    """A statement of the language; `is_definition`: it may be executed together with those around it."""

    is_definition: bool = False


@dataclass(frozen=True)
class CatalogQuery:
    """A SELECT over pg_catalog or information_schema."""


@dataclass(frozen=True)
class Transaction:
    """BEGIN, COMMIT, ROLLBACK and savepoints: nothing is undone, the tags are right."""

    word: str  # begin, commit, rollback, savepoint
    tag: str


@dataclass(frozen=True)
class SetParameter:
    """`column`: of the value that set_config answers with."""

    name: str
    value: str | None
    column: str | None = None


@dataclass(frozen=True)
class ShowParameter:
    name: str


@dataclass(frozen=True)
class Reset:
    """RESET name, or of all with None. `tag` is that of DISCARD too."""

    name: str | None
    tag: str = "RESET"


@dataclass(frozen=True)
class Declare:
    """DECLARE c CURSOR FOR query."""

    name: str
    hold: bool
    query: Piece


@dataclass(frozen=True)
class Fetch:
    """FETCH or MOVE: at most `count` rows, all with None. `timeout` is how long a subscription is waited for."""

    name: str
    count: int | None
    timeout: float | None = None
    moves: bool = False


@dataclass(frozen=True)
class CloseCursor:
    name: str | None


@dataclass(frozen=True)
class CopyTo:
    """COPY … TO STDOUT."""

    query: Piece
    form: CopyFormat = field(default_factory=CopyFormat)


@dataclass(frozen=True)
class Ignored:
    """A statement that has no effect here; `name` is of a prepared statement that is forgotten."""

    tag: str
    forgets: str | None = None


Command = (
    Language
    | CatalogQuery
    | Transaction
    | SetParameter
    | ShowParameter
    | Reset
    | Declare
    | Fetch
    | CloseCursor
    | CopyTo
    | Ignored
)


class _Cursor:
    """Reads the tokens of a piece."""

    def __init__(self, piece: Piece, at: int = 0) -> None:
        self.piece, self.tokens, self.at = piece, piece.tokens, at

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *words: str) -> bool:
        """Read one of the words if it is next."""
        if self.token is not None and self.token.word in words:
            self.at += 1
            return True
        return False

    def next(self, what: str) -> Token:
        token = self.token
        if token is None:
            raise self.fail(what)
        self.at += 1
        return token

    def fail(self, what: str) -> ProtocolProblem:
        token = self.token
        place = token.start if token is not None else self.piece.start + len(self.piece.text)
        found = f'"{token.text}"' if token is not None else "the end"
        return ProtocolProblem("42601", f"expected {what} but found {found}", position=place + 1)

    def rest(self, end: int | None = None) -> Piece:
        """What is left, up to the token `end`, as a statement of its own."""
        tokens = self.tokens[self.at : end]
        if not tokens:
            raise self.fail("a query")
        start = self.piece.start
        text = self.piece.text[tokens[0].start - start : tokens[-1].end - start]
        return Piece(text, tokens[0].start, tokens)


def classify(piece: Piece) -> Command:
    """What a statement is."""
    read = _READERS.get(piece.words(1)[0])
    if read is not None:
        return read(piece)
    config = read_set_config(piece)
    if config is not None:
        return SetParameter(*config)
    if is_catalog_query(piece):
        return CatalogQuery()
    words = piece.words(2)
    return Language(words[0] in ("REGISTER", "CREATE", "DROP") and words[1:] != ("USER",))


def _read_begin(piece: Piece) -> Command:
    return Transaction("begin", "START TRANSACTION" if piece.words(1) == ("START",) else "BEGIN")


def _read_end(piece: Piece) -> Command:
    words = piece.words(4)
    if words[0] in ("COMMIT", "END"):
        return Transaction("commit", "COMMIT")
    return Transaction("savepoint" if "TO" in words else "rollback", "ROLLBACK")


def _read_savepoint(piece: Piece) -> Command:
    return Transaction("savepoint", piece.words(1)[0])


def _read_set(piece: Piece) -> Command:
    at = 2 if piece.words(2)[1:] in (("SESSION",), ("LOCAL",)) and len(piece.tokens) > 3 else 1
    cursor = _Cursor(piece, at)
    if cursor.take("TRANSACTION", "CHARACTERISTICS", "CONSTRAINTS"):
        return Ignored("SET")
    if cursor.take("TIME"):
        cursor.take("ZONE")
        return SetParameter("TimeZone", _values(cursor))
    if cursor.take("NAMES"):
        return SetParameter("client_encoding", _values(cursor))
    name = cursor.next("the name of a setting").name
    while cursor.take("."):
        name += "." + cursor.next("a name").name
    if not SessionSettings.knows(name):
        return Language()
    if not cursor.take("=", "TO"):
        raise cursor.fail("= or TO")
    return SetParameter(name, _values(cursor))


def _values(cursor: _Cursor) -> str | None:
    values = [token.value for token in cursor.tokens[cursor.at :] if token.word != ","]
    if not values:
        raise cursor.fail("a value")
    return None if values[0].upper() == "DEFAULT" else ", ".join(values)


def _read_show(piece: Piece) -> Command:
    words = piece.words(5)
    if words[1:] == ("TRANSACTION", "ISOLATION", "LEVEL"):
        return ShowParameter("transaction_isolation")
    if words[1:3] == ("TIME", "ZONE"):
        return ShowParameter("TimeZone")
    name = piece.tokens[1].name if len(piece.tokens) == 2 else ""
    return ShowParameter(name) if name and SessionSettings.knows(name) else Language()


def _read_reset(piece: Piece) -> Command:
    name = _Cursor(piece, 1).next("a name").name
    return Reset(None if name == "all" else name)


def _read_declare(piece: Piece) -> Command:
    cursor = _Cursor(piece, 1)
    name = cursor.next("the name of a cursor").name
    hold = False
    while not cursor.take("FOR"):
        if cursor.take("WITH"):
            hold = True
        elif not cursor.take("BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "SCROLL", "CURSOR", "HOLD", "WITHOUT"):
            raise cursor.fail("CURSOR FOR")
    return Declare(name, hold, cursor.rest())


def _read_fetch(piece: Piece) -> Command:
    cursor = _Cursor(piece, 1)
    if cursor.take("BACKWARD", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
        raise ProtocolProblem("55000", "a cursor only goes forward", hint="write FETCH FORWARD n FROM c")
    cursor.take("NEXT")
    cursor.take("FORWARD")
    count: int | None = 1
    if cursor.take("ALL"):
        count = None
    elif cursor.token is not None and cursor.token.kind == "number":
        count = _whole(cursor)
    cursor.take("FROM", "IN")
    name, timeout = cursor.next("the name of a cursor").name, None
    if cursor.take("WITH"):
        timeout = _read_timeout(cursor)
    if cursor.token is not None:
        raise cursor.fail("the end of the statement")
    return Fetch(name, count, timeout, piece.words(1)[0] == "MOVE")


def _whole(cursor: _Cursor) -> int:
    token = cursor.next("a number")
    if not token.text.isdigit() or len(token.text) > 18:
        cursor.at -= 1
        raise cursor.fail("a whole number")
    return int(token.text)


def _read_timeout(cursor: _Cursor) -> float:
    """WITH (timeout = '1s')."""
    if not (cursor.take("(") and cursor.take("TIMEOUT")):
        raise cursor.fail("(timeout = '1s')")
    cursor.take("=")
    found = read_seconds(cursor.next("a length of time").value)
    if not cursor.take(")"):
        raise cursor.fail(")")
    return found


def _read_close(piece: Piece) -> Command:
    token = _Cursor(piece, 1).next("the name of a cursor")
    return CloseCursor(None if token.word == "ALL" else token.name)


def _read_copy(piece: Piece) -> Command:
    cursor = _Cursor(piece, 1)
    query = _copied_query(cursor)
    if not cursor.take("TO"):
        hint = "data comes from sources: REGISTER SOURCE"
        raise ProtocolProblem("0A000", "only COPY … TO STDOUT is possible", hint=hint)
    if not cursor.take("STDOUT"):
        raise ProtocolProblem("0A000", "COPY writes to STDOUT only", hint="CREATE SINK writes files")
    return CopyTo(query, _read_format(cursor))


def _copied_query(cursor: _Cursor) -> Piece:
    """The query in parentheses, or SELECT of a relation, without changing where errors point."""
    if cursor.token is not None and cursor.token.text == "(":
        end = _closing(cursor)
        cursor.at += 1
        query = cursor.rest(end)
        cursor.at = end + 1
        return query
    begin = cursor.next("a query or a name")
    end, columns = begin.end, "*"
    while cursor.take("."):
        end = cursor.next("a name").end
    if cursor.token is not None and cursor.token.text == "(":
        closing = _closing(cursor)
        start = cursor.piece.start
        columns = cursor.piece.text[cursor.token.end - start : cursor.tokens[closing].start - start]
        cursor.at = closing + 1
    name = cursor.piece.text[begin.start - cursor.piece.start : end - cursor.piece.start]
    return split_one(f"SELECT {columns} FROM {name}")


def split_one(text: str) -> Piece:
    """The only statement of a text that the server has made."""
    return split_statements(text)[0]


def _closing(cursor: _Cursor) -> int:
    depth = 0
    for place in range(cursor.at, len(cursor.tokens)):
        depth += {"(": 1, ")": -1}.get(cursor.tokens[place].text, 0)
        if depth == 0:
            return place
    cursor.at = len(cursor.tokens)
    raise cursor.fail(")")


def _read_format(cursor: _Cursor) -> CopyFormat:
    """WITH (FORMAT csv, HEADER, …), and the older CSV HEADER."""
    found: dict[str, str] = {}
    cursor.take("WITH")
    cursor.take("(")
    while cursor.token is not None and not cursor.take(")"):
        word = cursor.next("an option").word
        if word in ("CSV", "BINARY", "TEXT"):
            found["FORMAT"] = word
        elif word in ("FORMAT", "DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING"):
            cursor.take("AS")
            found[word] = cursor.next(f"a value of {word}").value
        elif word == "HEADER":
            found[word] = "off" if cursor.take("FALSE", "OFF") else "on"
            cursor.take("TRUE", "ON")
        elif word != ",":
            cursor.at -= 1
            raise cursor.fail("an option of COPY")
    return _make_format(found)


def _make_format(found: dict[str, str]) -> CopyFormat:
    kind = found.get("FORMAT", "text").strip("'\"").lower()
    if kind not in ("text", "csv", "binary"):
        raise ProtocolProblem("22023", f'COPY format "{kind}" is not known', hint="text, csv or binary")
    delimiter = found.get("DELIMITER", "," if kind == "csv" else "\t")
    quote = found.get("QUOTE", '"')
    if len(delimiter) != 1 or len(quote) != 1 or delimiter in "\n\r\\":
        raise ProtocolProblem("22023", "DELIMITER and QUOTE are one character", hint="for example DELIMITER ';'")
    return CopyFormat(
        kind, delimiter, found.get("NULL", "" if kind == "csv" else "\\N"), found.get("HEADER") == "on", quote
    )


def _read_discard(piece: Piece) -> Command:
    return Reset(None, "DISCARD " + " ".join(piece.words(3)[1:]))


def _read_deallocate(piece: Piece) -> Command:
    cursor = _Cursor(piece, 1)
    cursor.take("PREPARE")
    token = cursor.next("the name of a statement")
    return Ignored("DEALLOCATE" + " ALL" * (token.word == "ALL"), "" if token.word == "ALL" else token.name)


def _ignore(piece: Piece) -> Command:
    return Ignored(piece.words(1)[0])


_READERS: dict[str, Callable[[Piece], Command]] = {
    "BEGIN": _read_begin,
    "START": _read_begin,
    "COMMIT": _read_end,
    "END": _read_end,
    "ROLLBACK": _read_end,
    "ABORT": _read_end,
    "SAVEPOINT": _read_savepoint,
    "RELEASE": _read_savepoint,
    "SET": _read_set,
    "SHOW": _read_show,
    "RESET": _read_reset,
    "DECLARE": _read_declare,
    "FETCH": _read_fetch,
    "MOVE": _read_fetch,
    "CLOSE": _read_close,
    "COPY": _read_copy,
    "DISCARD": _read_discard,
    "DEALLOCATE": _read_deallocate,
    "LISTEN": _ignore,
    "UNLISTEN": _ignore,
}
