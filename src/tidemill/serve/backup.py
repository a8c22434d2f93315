"""Backups from the command line: by this process, or by the one that has the database open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from tidemill.serve import opening


def run_backup(console: Console, db: str, target: str, links: bool) -> None:
    """Back up; who has the database open does it, since only that process knows when nothing changes."""
    from tidemill.engine import ask_for_backup, held

    with _shown(console, f"backing up {db}") as tell:
        if held(db):
            made = ask_for_backup(db, target, links, tell)
        else:
            with opening.existing(db, console) as opened:
                made = opened.backup(target, links=links, progress=tell)
    console.print(Text(f"backup {made}"))


def run_restore(console: Console, backup: str, target: str) -> None:
    """Restore into a new directory."""
    from tidemill.engine import restore

    with _shown(console, f"restoring {backup}") as tell:
        made = restore(backup, target, tell)
    console.print(Text(f"restored {made}"))


@contextmanager
def _shown(console: Console, what: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A line on a terminal that says how far it is."""
    with console.status(Text(what)) as line:

        def tell(note: dict[str, Any]) -> None:
            if "files" in note:
                total = f" of {note['of']:,}" if note.get("of") else ""
                line.update(Text(f"{what}: {note['files']:,}{total} files {note['step']}"))

        yield tell
