"""Copies the parts of a database directory into another one as of one micro-batch, while the job may run.

The caller holds the locks of statements and of the outlet, so the views stay at a batch V that Spark has committed, or
is about to commit. The next batch may be computed meanwhile: it adds files, and removes none that the state after V
needs. So the copy has the state after V and some files of a later attempt, as after a crash. The order matters for
three things:

    1. offsets behind V stay out, so that the copy plans its next batch itself;
    2. what names a file of a state store is copied before the files: they are there before they are named;
    3. of a spool the head is copied before the sums and these before the records: what a head names is there.

A file that is complete under its name never changes: it is linked where the file system allows that. Others are copied.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable

from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.progress import Checkpoint

_NOTES = (
    "format.json",
    "catalog.json",
    "control.json",
    "progress.json",
    "status.json",
    "operators.json",
    "measures.json",
)
_LOGS = ("offsets", "commits")


class Copier:
    """Copies files of one directory, by their names in it, and remembers which."""

    def __init__(self, root: str, target: str, links: bool, tell: Callable[[str], None]) -> None:
        self.root, self.target, self.links, self.tell = root, target, links, tell
        self.names: list[str] = []

    def take(self, name: str, final: bool = False) -> None:
        """Copy one file; a file that is gone is not needed. `final`: its bytes never change."""
        source, target = os.path.join(self.root, name), os.path.join(self.target, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            if not (final and self.links and _link(source, target)):
                shutil.copy(source, target)
        except FileNotFoundError:
            return
        self.names.append(name)
        self.tell(name)

    def take_folder(self, folder: str, final: bool = False) -> None:
        """Copy all files below a folder."""
        for name in self.list_files(folder):
            self.take(name, final)

    def take_apart(self, name: str) -> None:
        """Copy a file that DuckDB has open, in another process: a process that closes a file loses its locks on it."""
        source, target = os.path.join(self.root, name), os.path.join(self.target, name)
        if not os.path.exists(source):
            return
        done = subprocess.run(["cp", "-p", "--", source, target], capture_output=True, text=True)
        if done.returncode:
            raise EngineProblem(
                "TM640", "the backup cannot be written", detail=done.stderr.strip(), hint="is there room on the disk?"
            )
        self.names.append(name)
        self.tell(name)

    def list_files(self, folder: str) -> list[str]:
        """The files below a folder. Hidden files are incomplete, except those with Hadoop's checksums."""
        found = []
        for place, _, names in os.walk(os.path.join(self.root, folder)):
            inside = os.path.relpath(place, self.root)
            found += [os.path.join(inside, n) for n in names if not n.startswith(".") or n.endswith(".crc")]
        return sorted(name for name in found if not name.endswith(".part"))


def copy_parts(copier: Copier, batch: int, checkpoint: Checkpoint | None) -> None:
    """All parts of a database whose views are at `batch`; the last file is that of the views."""
    for name in _NOTES:
        copier.take(name)
    for folder in ("plans", "feedback", "sealed"):
        copier.take_folder(folder, final=True)
    copier.take_folder("undelivered")
    copier.take_folder("departures")
    _copy_checkpoint(copier, batch, checkpoint)
    copier.take_folder("state", final=True)
    _copy_sources(copier)
    for name in ("views.duckdb", "views.duckdb.wal"):
        copier.take_apart(name)


def _copy_checkpoint(copier: Copier, batch: int, checkpoint: Checkpoint | None) -> None:
    committed = -1 if checkpoint is None else checkpoint.committed
    if batch < 0 and committed < 0:  # a first batch that is under way begins again
        return
    first = 0 if checkpoint is None else checkpoint.first
    last = {"offsets": max(batch, committed) - first, "commits": committed - first}
    inside = copier.list_files("checkpoint")
    logs = [name for name in inside if _part(name) in _LOGS]
    _take_all(copier, (name for name in logs if _number(name) <= last[_part(name)]), final=False)
    _take_all(copier, (name for name in inside if _part(name) not in (*_LOGS, "state")), final=False)
    # Spark replaces the metadata, and never a file of a partition.
    state = [name for name in inside if _part(name) == "state"]
    _take_all(copier, (name for name in state if _is_metadata(name)), final=False)
    _take_all(copier, (name for name in state if not _is_metadata(name) and not _is_table(name)), final=True)
    later = copier.list_files(os.path.join("checkpoint", "state"))
    _take_all(copier, (name for name in later if _is_table(name)), final=True)


def _copy_sources(copier: Copier) -> None:
    def ending(name: str) -> str:
        return os.path.splitext(name)[1]

    named = (".sums", ".log", ".msg")  # what heads name
    plain = [name for name in copier.list_files("sources") if ending(name) not in named]
    _take_all(copier, (name for name in plain if os.path.basename(name) != "lock"), final=False)
    for part in named:  # listed after the heads were copied, which name records in them
        _take_all(copier, (name for name in copier.list_files("sources") if ending(name) == part), final=False)


def _take_all(copier: Copier, names: Iterable[str], final: bool) -> None:
    for name in names:
        copier.take(name, final)


def _part(name: str) -> str:
    """The folder of the checkpoint that a file is in.

    >>> _part("checkpoint/offsets/12"), _part("checkpoint/metadata")
    ('offsets', 'metadata')
    """
    return name.split(os.sep)[1]


def _number(name: str) -> float:
    """The batch number of a file in a log; infinite for a file without one."""
    found = os.path.basename(name)
    return int(found) if found.isdigit() else math.inf


def _is_table(name: str) -> bool:
    return "SSTs" in name.split(os.sep)


def _is_metadata(name: str) -> bool:
    return any(part.startswith("_") for part in name.split(os.sep))


def _link(source: str, target: str) -> bool:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        return False
    return True
