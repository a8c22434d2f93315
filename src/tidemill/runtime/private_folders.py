"""Folders outside a database that only the user can write to: programs are started there, sockets listen there.

A folder with a predictable name in a place where every user may write can be made by another user first. So a
kept folder is in the user's own cache and is checked before each use; where that fails, a new one is made for this
process, with a random name.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path


def user_folder(name: str) -> str:
    """A folder that is kept for the user from process to process, or else the one of this process."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(os.path.abspath(base), "tidemill", name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        safe = is_private(folder) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        safe = False
    return folder if safe else os.path.join(process_folder(), name)


@cache
def process_folder() -> str:
    """A new folder for this process, removed when it ends."""
    folder = tempfile.mkdtemp(prefix="tidemill-")
    atexit.register(_remove, folder, os.getpid())
    return folder


def is_private(folder: str) -> bool:
    """True when only the user and root can write there, or put another folder in its place.

    Every folder on the way belongs to one of the two and is not writable for others; in one with the sticky bit, as
    /tmp, others can add names but not replace those of the user.
    """
    path = Path(os.path.abspath(folder))
    own, *above = [path, *path.parents]
    return _is_ours(own, sticky=False) and all(_is_ours(place, sticky=True) for place in above)


def _is_ours(place: Path, sticky: bool) -> bool:
    facts = os.lstat(place)
    if stat.S_ISLNK(facts.st_mode):  # a link counts for where it leads; only one that others can replace is not ours
        return sticky and facts.st_uid in (0, os.geteuid()) and is_private(os.path.realpath(place))
    closed = not facts.st_mode & 0o022 or (sticky and bool(facts.st_mode & stat.S_ISVTX))
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid in (0, os.geteuid()) and closed


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # forked processes inherit this
        shutil.rmtree(folder, ignore_errors=True)
