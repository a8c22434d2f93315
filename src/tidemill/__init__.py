"""Tidemill: continuous SQL on Apache Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.runtime.freed_memory import keep_freed_memory
from tidemill.version import __version__

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

    from tidemill.engine import Database
    from tidemill.engine.directory.backup import Backup
    from tidemill.serve.remote import RemoteDatabase

keep_freed_memory()  # before anything imports pyarrow

__all__ = ["__version__", "as_of", "connect", "open", "restore"]


def open(path: str, **options: Any) -> Database:
    """Open the database in a directory, which is created when it does not exist; see engine.Database."""
    # Imported here: workers import subpackages of tidemill and must not load the whole engine.
    from tidemill.engine import Database
    from tidemill.engine.show.notebook import show_tables

    show_tables()
    return Database(path, **options)


def connect(url: str) -> RemoteDatabase:
    """A database that another process serves (`tidemill serve`): `postgresql://user:password@host:5433/tidemill`."""
    from tidemill.engine.show.notebook import show_tables
    from tidemill.serve.remote import RemoteDatabase

    show_tables()
    return RemoteDatabase(url)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tidemill` calls; see serve/notebook.py."""
    from tidemill.serve.notebook import load_ipython_extension as load

    load(shell)


def restore(backup: str, target: str, **options: Any) -> Backup:
    """Make a database in the new directory `target` from a backup, after everything in it was checked."""
    from tidemill.engine import restore as restored

    return restored(backup, target, **options)


def as_of(answer: pa.Table) -> int | dt.datetime | None:
    """The time that the answer of a query is as of: in clock units, or UTC; None where it has none."""
    from tidemill.engine.statements.moment import as_of as found

    return found(answer)
