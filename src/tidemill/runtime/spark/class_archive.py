"""Spark's classes as the JVM keeps them in memory, in a file that the next JVM maps (application class-data sharing).

A good third of what a JVM does until the first micro-batch is to find, parse and verify 15,000 classes. The first one
that runs here writes them to an archive when it ends; later ones begin with them. An archive is machine state that the
JVM trusts, so it is in a folder that no other user can write to. The JVM itself refuses an archive of another Java, of
other jars or one that was not finished, and then starts as without it.
"""

from __future__ import annotations

import os
import time
import zlib
from contextlib import suppress

import pyspark

from tidemill.runtime.private_folders import is_private, user_folder

SWITCH = "TIDEMILL_JAVA_ARCHIVE"  # "off": no archive is used or made
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"  # whatever is wrong with an archive, the JVM runs
_BEGUN = ".draft"
_WRITING_S, _UNUSED_S = 600, 30 * 86_400  # age of an archive that is begun, or not used: then it goes


def archive_options(home: str | None) -> str:
    """Options of a JVM of this Java: to map the archive of its classes, or to write one when it ends; or none."""
    if not home or os.environ.get(SWITCH) == "off" or not _can_share(home):
        return ""
    folder = user_folder("java-classes")
    if not os.path.isdir(folder) or not is_private(
        folder
    ):  # a folder of this process only: no later process would find it
        return ""
    path = os.path.join(folder, f"{_key(home):08x}.jsa")
    _adopt(folder, path)
    if os.path.exists(path):
        return f"-XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}"
    return f"-XX:ArchiveClassesAtExit={path}.{os.getpid()}{_BEGUN} {_QUIET}"


def _can_share(home: str) -> bool:
    """Whether this is a HotSpot JVM with an archive of its own classes, which ours adds to."""
    return os.path.exists(os.path.join(home, "lib", "server", "classes.jsa"))


def _key(home: str) -> int:
    """Another number for another Java or another set of jars."""
    facts = [os.path.realpath(home), pyspark.__version__]
    for place in (os.path.join(home, "lib", "server"), os.path.join(os.path.dirname(pyspark.__file__), "jars")):
        with suppress(OSError):
            facts += [place, str(os.stat(place).st_mtime_ns)]
    return zlib.crc32("\0".join(facts).encode())


def _adopt(folder: str, path: str) -> None:
    """Take over an archive that a JVM has finished since; remove unfinished and unused ones."""
    for name in sorted(os.listdir(folder)):
        found = os.path.join(folder, name)
        with suppress(OSError):
            if name.endswith(_BEGUN) and found.startswith(path) and _is_whole(found):
                os.unlink(found) if os.path.exists(path) else os.rename(found, path)
            elif time.time() - os.stat(found).st_mtime > (_WRITING_S if name.endswith(_BEGUN) else _UNUSED_S):
                os.unlink(found)
    with suppress(OSError):
        os.utime(path)


def _is_whole(path: str) -> bool:
    """Whether the header is there: the JVM writes it last."""
    with open(path, "rb") as file:
        return any(file.read(4))
