"""Errors as clients of Postgres know them: SQLSTATE, message, detail, hint and the position in the text."""

from __future__ import annotations

import re
from collections.abc import Callable

from tidemill.errors import TidemillError

_STATES = {
    "TM106": "0A000",  # feature_not_supported
    "TM201": "42703",  # undefined_column
    "TM203": "42804",  # datatype_mismatch
    "TM206": "42803",  # grouping_error
    "TM207": "42883",  # undefined_function
    "TM217": "22023",  # invalid_parameter_value
    "TM301": "42P01",  # undefined_table
    "TM302": "42P07",  # duplicate_table
    "TM306": "2BP01",  # dependent_objects_still_exist
    "TM330": "42501",  # insufficient_privilege
    "TM331": "42704",  # undefined_object
    "TM332": "2BP01",
    "TM516": "53200",  # out_of_memory
    "TM517": "57014",  # query_canceled
    "TM518": "53400",  # configuration_limit_exceeded
    "TM519": "54000",  # program_limit_exceeded
    "TM520": "57P01",  # admin_shutdown
    "TM522": "57014",
}
_CLASSES = {"TM1": "42601", "TM2": "0A000", "TM3": "42P17", "TM4": "58030", "TM5": "58000", "TM6": "58000"}
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class ProtocolProblem(Exception):
    """An error of the protocol or of a statement that only this server knows; `fatal` ends the connection."""

    def __init__(
        self,
        state: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.state, self.message, self.detail, self.hint = state, message, detail, hint
        self.position, self.fatal = position, fatal


def state_of(code: str) -> str:
    """The SQLSTATE of an error of the engine.

    >>> state_of("TM301"), state_of("TM101"), state_of("TM504")
    ('42P01', '42601', '58000')
    """
    return _STATES.get(code) or _CLASSES.get(code[:3], "XX000")


def error_fields(error: BaseException, text: str = "", place: Callable[[int], int] | None = None) -> dict[str, str]:
    """The fields of an ErrorResponse. Line and column of the error are positions in `text`; `place` turns an offset in
    it into one of the text that the client has sent.
    """
    if isinstance(error, ProtocolProblem):
        severity = "FATAL" if error.fatal else "ERROR"
        found = {"S": severity, "V": severity, "C": error.state, "M": error.message}
        detail, hint = error.detail, error.hint
        if error.position is not None:
            found["P"] = str(error.position)
    elif isinstance(error, TidemillError):
        found = {"S": "ERROR", "V": "ERROR", "C": state_of(error.code), "M": f"{error.code} {error.message}"}
        detail, hint = error.detail, error.hint
        if error.line is not None and text:
            offset = offset_of(text, error.line, error.column or 1)
            found["P"] = str((place(offset) if place else offset) + 1)
    else:
        found = {"S": "ERROR", "V": "ERROR", "C": "XX000", "M": f"internal error: {type(error).__name__}"}
        detail, hint = None, "the log of the server has more about it"
    if detail:
        found["D"] = detail
    if hint:
        found["H"] = hint
    return found


def notice_fields(message: str, severity: str = "NOTICE", state: str = "00000") -> dict[str, str]:
    """The fields of a NoticeResponse."""
    return {"S": severity, "V": severity, "C": state, "M": message}


def offset_of(text: str, line: int, column: int) -> int:
    """Where a line and column, both from 1, are in a text.

    >>> offset_of("ab\\ncd", 2, 2)
    4
    """
    starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]
    return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))
