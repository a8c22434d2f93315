"""Passwords and keys of other systems: an option says where one is, and only a process that connects reads it.

The catalog, plans, logs and backups hold 'env:NAME' or 'file:/path', never the secret itself.
"""

from __future__ import annotations

import os

from tidemill.errors import SourceProblem

_ENV, _FILE = "env:", "file:"


def check_secret(option: str, value: object) -> None:
    """Refuse a secret that is written out."""
    if not isinstance(value, str) or not value.startswith((_ENV, _FILE)):
        raise SourceProblem(
            "TM407",
            f"{option} is a secret, which does not belong into a statement",
            hint=f"{option} = 'env:NAME' for a variable of the environment, or 'file:/path' for a file",
        )


def read_secret(option: str, value: str) -> str:
    """The secret itself, without the line end of its file."""
    check_secret(option, value)
    kind, _, place = value.partition(":")
    try:
        return os.environ[place] if kind == "env" else _read(place)
    except (KeyError, OSError) as error:
        why = "the variable is not set" if isinstance(error, KeyError) else str(error)
        raise SourceProblem(
            "TM541",
            f"{option} cannot be read from {value}",
            detail=why,
            hint="it must be there for the server and for every worker",
        ) from None


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().rstrip("\r\n")
