"""AS OF at the end of a query or a subscription: the time as of which it reads its views, or the batch."""

from __future__ import annotations

from decimal import Decimal

from sqlglot.tokens import Token, TokenType

from tidemill.plan.statements import AsOf
from tidemill.sql.lexical.tokens import problem

_LONGEST = 18  # digits of a whole number of 64 bits
_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}
_HINT = "write AS OF 5, AS OF TIMESTAMP '2024-03-01 12:00:00' or AS OF LATEST"


def take_as_of(tokens: list[Token]) -> tuple[AsOf | None, list[Token]]:
    """The clause at the end of a query, and the query without it. Elsewhere `AS of` gives a column that name."""
    for length in (3, 4):
        words = [_word(token) for token in tokens[-length:]]
        if len(tokens) > length and words[:2] == ["AS", "OF"] and (length == 3 or words[2] in _BEFORE_VALUES):
            place = tokens[-length]
            where = (place.line, place.col)
            if words[2] == "BATCH" and length == 4:
                return AsOf(None, where, _read_batch(tokens[-1])), tokens[:-length]
            value = _read_value(words[2], tokens[-1], length == 4)
            return AsOf(value, where), tokens[:-length]
    return None, tokens


_BEFORE_VALUES = ("TIMESTAMP", "DATE", "-", "BATCH")


def _read_batch(token: Token) -> int:
    if token.token_type != TokenType.NUMBER or not token.text.isdigit() or len(token.text) > _LONGEST:
        raise problem("TM101", "AS OF BATCH needs the number of a batch", token, hint="write AS OF BATCH 42")
    return int(token.text)


def _read_value(before: str, last: Token, is_long: bool) -> Decimal | str | None:
    if last.token_type == TokenType.NUMBER and (not is_long or before == "-"):
        number = Decimal(last.text)
        return -number if is_long else number
    if last.token_type == TokenType.STRING and before != "-":
        return last.text
    if not is_long and _word(last) == "LATEST":
        return None
    raise problem("TM101", "AS OF needs a time", last, hint=_HINT)


def _word(token: Token) -> str:
    return "" if token.token_type in _QUOTED else token.text.upper()
