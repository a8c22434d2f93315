"""Every error a user can meet: a stable code, a message, a detail and a hint.

Codes: TM1xx text that cannot be parsed, TM2xx statements that cannot be planned, TM3xx names and
catalog, TM4xx sources and input, TM5xx the running engine, TM6xx the database directory.
"""

from __future__ import annotations

from typing import Any


class TidemillError(Exception):
    """What went wrong, where, why, and what to type instead.

    >>> str(TidemillError("TM301", 'no view named "lots"', hint="SHOW VIEWS lists them"))
    'TM301 no view named "lots"\\nhint:   SHOW VIEWS lists them'
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.line = line
        self.column = column
        super().__init__(self.render())

    def render(self) -> str:
        """The error as people see it; position, detail and hint only where they are known."""
        where = f" at line {self.line}, column {self.column}" if self.line is not None else ""
        parts = [f"{self.code} {self.message}{where}"]
        if self.detail:
            parts.append(f"detail: {self.detail}")
        if self.hint:
            parts.append(f"hint:   {self.hint}")
        return "\n".join(parts)

    def at(self, place: tuple[int, int]) -> TidemillError:
        """The same error, pointing at a line and column; one that points somewhere already stays."""
        if self.line is not None:
            return self
        return type(self)(self.code, self.message, detail=self.detail, hint=self.hint, line=place[0], column=place[1])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.code, self.message, self.detail, self.hint, self.line, self.column)


class SyntaxProblem(TidemillError):
    """The text is not a statement of the language."""


class PlanProblem(TidemillError):
    """The statement is understood but cannot be run as asked."""


class CatalogProblem(TidemillError):
    """A name is unknown, taken, or still needed by others."""


class SourceProblem(TidemillError):
    """Input cannot be reached or read."""


class EngineProblem(TidemillError):
    """The running job or the database directory refuses."""


def _rebuild(
    kind: type[TidemillError],
    code: str,
    message: str,
    detail: str | None,
    hint: str | None,
    line: int | None,
    column: int | None,
) -> TidemillError:
    return kind(code, message, detail=detail, hint=hint, line=line, column=column)
