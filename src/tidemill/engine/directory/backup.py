"""Backups: a directory with all parts of a database as they were after one micro-batch, and a list of its files.

A backup is made under another name, and renamed when it is complete. `backup.json` has the size and the checksum of
every file. A backup cannot be opened, only restored: the files are copied, each is compared with the list, the parts
are examined as `tidemill doctor` does, and then the new directory is renamed to its target.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from tidemill.engine.directory.copying import Copier, copy_parts
from tidemill.engine.directory.examine import examine
from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.progress import Checkpoint
from tidemill.runtime.durable import sync_folder
from tidemill.runtime.integrity import Checksum, checksum, damaged, missing
from tidemill.runtime.paths import Paths, read_json, write_json
from tidemill.version import __version__

HoldBatch = Callable[[], AbstractContextManager[tuple[int, Checkpoint | None]]]
Tell = Callable[[dict[str, Any]], None]
_BLOCK = 1 << 20  # bytes that are copied at a time: from 64 KB to 4 MB the time differs by a quarter at most


@dataclass(frozen=True)
class Backup:
    """What was backed up or restored: the directory, the last batch in it, how many files and bytes."""

    path: str
    batch: int
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.path}: batch {self.batch}, {self.files:,} files, {self.bytes:,} bytes"


class Progress:
    """Reports how many files are done, and of how many where that is known."""

    def __init__(self, tell: Tell | None) -> None:
        self._tell = tell
        self.begin("copied", None)

    def begin(self, step: str, total: int | None) -> None:
        """Another step: files are `copied`, or `checked`."""
        self._step, self._total, self._done = step, total, 0

    def __call__(self, name: str) -> None:
        self._done += 1
        if self._tell is not None:
            self._tell({"step": self._step, "files": self._done, "of": self._total, "file": name})


def back_up(paths: Paths, target: str, hold_batch: HoldBatch, progress: Tell | None, links: bool) -> Backup:
    """Make a backup. Inside `hold_batch()` the parts do not change; it gives the batch and the checkpoint."""
    told = Progress(progress)
    _check_outside(paths.root, target)
    with _make_folder(target) as folder:
        copier = Copier(paths.root, folder, links, told)
        with hold_batch() as (batch, checkpoint):
            copy_parts(copier, batch, checkpoint)
        told.begin("checked", len(copier.names))
        files = {name: _measure_file(os.path.join(folder, name), name, told) for name in sorted(copier.names)}
        write_json(
            os.path.join(folder, os.path.basename(paths.backup)),
            {"tidemill": __version__, "database": paths.database, "batch": batch, "made": time.time(), "files": files},
        )
        _check_parts(folder, target)
    return Backup(os.path.abspath(target), batch, len(files), sum(size for size, _ in files.values()))


def restore(backup: str, target: str, progress: Tell | None = None) -> Backup:
    """A database from a backup: it answers as after the batch of the backup, and goes on from there."""
    told = Progress(progress)
    paths = Paths(backup)
    listed = read_json(paths.backup)
    if listed is None:
        raise EngineProblem("TM640", f'there is no backup in "{backup}"', hint="tidemill backup DB TARGET makes one")
    files: dict[str, list[int]] = listed["files"]
    _check_outside(paths.root, target)
    with _make_folder(target) as folder:
        told.begin("copied", len(files))
        for name, (size, wanted) in files.items():
            _copy_checked(os.path.join(paths.root, name), os.path.join(folder, name), size, wanted)
            told(name)
        _check_parts(folder, target)
    return Backup(os.path.abspath(target), listed["batch"], len(files), sum(size for size, _ in files.values()))


@contextmanager
def _make_folder(target: str) -> Iterator[str]:
    """Make a folder that is renamed to `target` at the end; it is removed after an error."""
    target = os.path.abspath(target)
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise EngineProblem("TM641", f'"{target}" is there already', hint="choose a directory that does not exist")
    folder = f"{target}.part-{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder, 0o700)
        yield folder
        os.replace(folder, target)
        sync_folder(os.path.dirname(target))
    except OSError as error:
        raise EngineProblem(
            "TM640", f'"{target}" cannot be written: {error.strerror or error}', hint="is there room on the disk?"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_outside(root: str, target: str) -> None:
    mine, theirs = os.path.realpath(root), os.path.realpath(target)
    if os.path.commonpath([mine, theirs]) in (mine, theirs):
        raise EngineProblem(
            "TM641", f'"{target}" and "{root}" are in one another', hint="choose a directory outside of it"
        )


def _measure_file(path: str, name: str, told: Progress) -> tuple[int, int]:
    found = os.path.getsize(path), checksum(path)
    told(name)
    return found


def _copy_checked(source: str, target: str, size: int, wanted: int) -> None:
    """Copy and check a file. Never a link: a restored database and its backup share no files."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    found, length = Checksum(like=wanted), 0
    try:
        with open(source, "rb") as from_, open(target, "xb") as to:
            while block := from_.read(_BLOCK):
                found.add(block)
                length += to.write(block)
    except FileNotFoundError:
        raise missing(source, "it is in the list of the backup") from None
    if (length, found.value) != (size, wanted):
        raise damaged(source, "it is not what was backed up")
    shutil.copymode(source, target)


def _check_parts(folder: str, target: str) -> None:
    """Refuse a copy in which `tidemill doctor` would find a failure."""
    bad = [finding for finding in examine(folder) if finding.state == "fail"]
    if bad:
        raise EngineProblem(
            "TM642",
            f'the parts of "{os.path.abspath(target)}" would not fit together',
            detail="\n".join(f"{finding.part}: {finding.detail}" for finding in bad),
            hint="tidemill doctor --db DIR looks at a database or a backup",
        )
