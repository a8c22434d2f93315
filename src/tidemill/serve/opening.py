"""Databases for one command: the directory that was asked for, or a temporary one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tidemill.errors import EngineProblem

if TYPE_CHECKING:
    from tidemill.engine import Database


def connect(path: str, **settings: Any) -> Database:
    """The database in that directory. The import waits until here: it brings Spark along."""
    import tidemill

    return tidemill.open(path, **settings)


def stored_status(path: str) -> dict[str, Any]:
    """What the process that runs the database last wrote about itself."""
    from tidemill.engine import read_status

    return read_status(path)


@contextmanager
def directory(path: str | None, console: Console) -> Iterator[str]:
    """The directory to work in; a temporary one is announced, and removed at the end."""
    if path is not None:
        yield path
        return
    made = tempfile.mkdtemp(prefix="tidemill-")
    console.print(Text(f"database: {made} (temporary; --db DIR keeps one)", style="dim"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def database(path: str | None, console: Console, **settings: Any) -> Iterator[Database]:
    """An open database that is closed in any case."""
    given = {name: value for name, value in settings.items() if value is not None}
    with directory(path, console) as where:
        db = connect(where, **given)
        try:
            yield db
        finally:
            db.close()


@contextmanager
def existing(path: str, console: Console) -> Iterator[Database]:
    """An open database that was there before: a misspelled directory is not made."""
    if not os.path.isdir(path) or not os.listdir(path):
        raise EngineProblem("TM622", f'there is no database in "{path}"', hint="--db names the directory of a database")
    with database(path, console) as opened:
        yield opened
