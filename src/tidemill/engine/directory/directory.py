"""A database directory: one process at a time has it open; it records its format and id, and is private."""

from __future__ import annotations

import fcntl
import os
import stat
import uuid
from typing import IO, Any

from tidemill.errors import EngineProblem
from tidemill.runtime.integrity import damaged, missing
from tidemill.runtime.paths import Paths, read_json, write_json
from tidemill.version import __version__

FORMAT = 2
_PARTS = ("control", "plans", "state", "checkpoint", "answer_files", "progress", "sources")  # made after the format


def read_format(paths: Paths) -> dict[str, Any] | None:
    """The content of `format.json`, None where there is none."""
    found: dict[str, Any] | None = read_json(paths.format)
    if found is not None and not {"format", "tidemill"} <= found.keys():
        raise damaged(paths.format, "it does not say a format")
    return found


class Directory:
    """The lock on a database directory, its format, its id and its permissions.

    `shared`: other users may read its files, as the umask allows; None keeps the choice of the last time.
    """

    database: str
    shared: bool

    def __init__(self, root: str, shared: bool | None = None) -> None:
        self.paths = Paths(root)
        if os.path.exists(self.paths.backup):
            raise EngineProblem(
                "TM644",
                f'"{root}" is a backup, not a database',
                hint=f"tidemill restore {root} DIR makes a database of it",
            )
        try:
            _make(self.paths.root)
            # Stays open as long as the lock is held.
            self._file: IO[str] | None = open(self.paths.lock, "a+", encoding="utf-8", opener=_private)  # noqa: SIM115
        except OSError as error:
            raise EngineProblem(
                "TM602",
                f'cannot use the directory "{root}": {error.strerror}',
                hint="choose a directory you can write to",
            ) from None
        self._lock(root)
        try:
            self._open(shared)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock, so that another process can open the directory."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None

    def check_outside(self, path: str) -> None:
        """Refuse a path inside the directory: files there that no batch knows are removed."""
        mine, theirs = os.path.realpath(self.paths.root), os.path.realpath(path)
        if os.path.commonpath([mine, theirs]) == mine:
            raise EngineProblem(
                "TM626", "a sink cannot write into the directory of the database", hint="choose a folder outside of it"
            )

    def establish(self) -> None:
        """Write `format.json`, after all that it refers to."""
        write_json(
            self.paths.format,
            {"format": FORMAT, "tidemill": __version__, "database": self.database, "shared": self.shared},
        )
        self.fresh, self.format = False, FORMAT

    def _open(self, shared: bool | None) -> None:
        found = read_format(self.paths)
        self.fresh = found is None
        if found is None:
            self._check_fresh()
            found = {"format": FORMAT}
        self._check_format(found)
        self.format = int(found["format"])
        self.database = str(found.get("database") or uuid.uuid4().hex)
        self.shared = bool(found.get("shared")) if shared is None else shared
        self._protect()
        if not self.fresh and self.shared != bool(found.get("shared")):
            write_json(self.paths.format, {**found, "shared": self.shared})

    def _lock(self, root: str) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            owner = self._file.read().strip()
            self._file.close()
            raise EngineProblem(
                "TM601",
                f'the database "{root}" is in use by another process',
                detail=f"process {owner}" if owner else None,
                hint="stop it first; tidemill status --db DIR shows what it does",
            ) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _check_fresh(self) -> None:
        """Without a format there may be nothing else, except the empty catalog and the empty view
        store of a process that died while it made the database.
        """
        catalog = read_json(self.paths.catalog)
        there = [getattr(self.paths, name) for name in _PARTS if os.path.exists(getattr(self.paths, name))]
        if there or (catalog is not None and (catalog.get("entries") or catalog.get("version"))):
            raise missing(self.paths.format, f"but {there[0] if there else self.paths.catalog} is there")

    def _check_format(self, found: dict[str, Any]) -> None:
        if int(found["format"]) > FORMAT:
            raise EngineProblem(
                "TM603",
                f"the database was written by Tidemill {found['tidemill']}, newer than this {__version__}",
                hint="upgrade: pip install --upgrade tidemill",
            )

    def _protect(self) -> None:
        """Set the mode of the directory: private, or as the umask allows where it is shared."""
        facts = os.stat(self.paths.root)
        if self.shared:
            # Files in a directory with the setgid bit get its group, which workers of another user may be in.
            wanted = 0o777 & ~_umask() | facts.st_mode & stat.S_ISGID
        elif facts.st_mode & stat.S_ISVTX:
            raise EngineProblem(
                "TM610",
                f'all users may write to "{self.paths.root}"',
                hint=f"give the database a directory of its own, for example {os.path.join(self.paths.root, 'db')}",
            )
        else:
            wanted = 0o700
        if stat.S_IMODE(facts.st_mode) == wanted:
            return
        if facts.st_uid == os.geteuid() or os.geteuid() == 0:
            os.chmod(self.paths.root, wanted)
        elif not self.shared:
            raise EngineProblem(
                "TM610",
                f'the directory "{self.paths.root}" belongs to another user',
                hint="use a directory of your own, or open it with shared=True",
            )


def _private(path: str, flags: int) -> int:
    """An opener for files that only their owner may read."""
    return os.open(path, flags, 0o600)


def _make(root: str) -> None:
    """The directory itself is made for this user alone; those above it as the umask says."""
    os.makedirs(os.path.dirname(root), exist_ok=True)
    if not os.path.isdir(root):
        os.mkdir(root, 0o700)


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def is_held(root: str) -> bool:
    """True when some process holds the directory now."""
    path = Paths(root).lock
    if not os.path.exists(path):
        return False
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
    return False
