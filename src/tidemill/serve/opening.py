"""Databases for one command: in the given directory, or in a temporary one."""

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
    """The database in that directory. The import is here because it loads Spark, which is slow."""
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
    """An open database; it is closed at the end, also after an error."""
    given = {name: value for name, value in settings.items() if value is not None}
    with directory(path, console) as where:
        db = connect(where, **given)
        try:
            yield db
        finally:
            db.close()


@contextmanager
def open_existing(path: str, console: Console) -> Iterator[Database]:
    """An existing database, opened. A directory without one is an error; it is not created."""
    if not os.path.isdir(path) or not os.listdir(path):
        raise EngineProblem("TM622", f'there is no database in "{path}"', hint="--db names the directory of a database")
    with database(path, console) as opened:
        yield opened
