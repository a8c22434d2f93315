"""A database directory belongs to one process at a time and says which version wrote it."""

from __future__ import annotations

import fcntl
import os
from typing import IO, Any

from tidemill import __version__
from tidemill.errors import EngineProblem
from tidemill.runtime.layout import Paths, read_json, write_json

FORMAT = 1


class Directory:
    """The lock on a database directory, and its format."""

    def __init__(self, root: str) -> None:
        self.paths = Paths(root)
        try:
            os.makedirs(self.paths.root, exist_ok=True)
            # Stays open as long as the lock is held.
            self._file: IO[str] | None = open(self.paths.lock, "a+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise EngineProblem("TM602", f'cannot use the directory "{root}": {error.strerror}',
                                hint="choose a directory you can write to") from None
        self._lock(root)
        self._check_format()

    def release(self) -> None:
        """Let another process in."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None

    def _lock(self, root: str) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            owner = self._file.read().strip()
            self._file.close()
            raise EngineProblem(
                "TM601", f'the database "{root}" is in use by another process',
                detail=f"process {owner}" if owner else None,
                hint="stop it first; tidemill status --db DIR shows what it does",
            ) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _check_format(self) -> None:
        path = os.path.join(self.paths.root, "format.json")
        found: Any = read_json(path)
        if found is None:
            write_json(path, {"format": FORMAT, "tidemill": __version__})
        elif found["format"] > FORMAT:
            self.release()
            raise EngineProblem(
                "TM603", f'the database was written by Tidemill {found["tidemill"]}, newer than this {__version__}',
                hint="upgrade: pip install --upgrade tidemill",
            )


def held(root: str) -> bool:
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
