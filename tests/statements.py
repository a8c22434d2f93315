"""Statements of any kind, for tests that know which kind to expect."""

from __future__ import annotations

from typing import Any

from tidemill.sql.parse import statements


def parse(text: str) -> list[Any]:
    """All statements of `text`."""
    return [*statements.parse(text)]


def parse_one(text: str) -> Any:
    """The only statement of `text`."""
    return statements.parse_one(text)
