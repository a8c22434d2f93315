"""Files of a database directory that say that they are whole, and the errors about those that are not.

A JSON file ends with a checksum of all that comes before it, as one more key, so any JSON parser can read it. Other
files have theirs in what names them: a segment in the manifest of its shard, an answer file in the view store, rows of
the feedback in its notes, rows on their way to a shard or to the outlet in their letter. A file without a checksum is
from before there were any.

JSON has a CRC-32, everything else XXH3, which reads 20 GB/s where CRC-32 reads 3: of a thousand unlike queries, CRC-32
took 4 % of the time. Files of older databases have a CRC-32 as well; it is known by its size (`Checksum`).
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import xxhash

from tidemill.errors import EngineProblem

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
RESTORE = "put the whole directory back from a copy that was made while the database was closed"
_LET_IN = "let the user of this process read it"
_SUM = b'\n"__sum": '
# Something else is in the place of a file, its disk fails, or it is not for this user. Other errors, such as too many
# open files, are not about the file.
_UNREADABLE = {errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.EACCES, errno.EPERM}
# DuckDB raises these for damaged files and for other reasons; the text of the error contains one of the signs.
_BROKEN = ("Error", "IOException", "SerializationException", "InternalException", "FatalException")
_SIGNS = (
    "corrupt",
    "checksum",
    "not a valid duckdb",
    "could not read",
    "could not load",
    "failed to load",
    "serializ",
    "magic bytes",
    "assertion",
    "internal error",
    "fatal error",
    "has been invalidated",
    "cannot open file",
    "no files found",
    "parquet",
    "snappy",
    "thrift",
    "failed to read",
    "wal file",
)


def missing(path: str, why: str, hint: str = RESTORE) -> EngineProblem:
    """A part of the database is missing, although another part refers to it."""
    return EngineProblem("TM606", f"a part of the database is missing: {path}", detail=why, hint=hint)


def damaged(path: str, why: str, hint: str = RESTORE) -> EngineProblem:
    """A file is not what was written."""
    return EngineProblem("TM607", f"a file of the database is damaged: {path}", detail=why, hint=hint)


def foreign(path: str, found: str, wanted: str) -> EngineProblem:
    """A part belongs to another database."""
    return EngineProblem(
        "TM608",
        f"a part of another database is in the directory: {path}",
        detail=f"it belongs to database {found or 'without a name'}, format.json is of {wanted}",
        hint=RESTORE,
    )


def misfit(path: str, why: str) -> EngineProblem:
    """A part is older or newer than the others."""
    return EngineProblem("TM609", f"the parts of the database do not fit together: {path}", detail=why, hint=RESTORE)


@contextmanager
def openable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Opening a file of ours: one that is there and cannot be read or replaced is refused with its name."""
    try:
        yield
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        hint = _LET_IN if isinstance(error, PermissionError) else RESTORE
        raise damaged(os.fspath(path), f"it cannot be used: {error.strerror}", hint) from error


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file of ours; FileNotFoundError where there is none."""
    with openable(path), open(path, "rb") as source:
        return source.read()


def stamp(text: bytes) -> bytes:
    """A JSON object with a checksum at its end.

    >>> stamp(b'{"n": 1}')
    b'{"n": 1,\\n"__sum": 4177008085}\\n'
    """
    body = text.rstrip()[:-1].rstrip()
    return body + (b"" if body == b"{" else b",") + _SUM + b"%d}\n" % zlib.crc32(body)


def parse_stamped(path: str, text: bytes) -> dict[str, Any]:
    """The JSON object that was `stamp`ed, without its checksum; anything else is damage."""
    at = text.rfind(_SUM)
    if at >= 0:
        body = text[:at].removesuffix(b",")
        if text[at:] != _SUM + b"%d}\n" % zlib.crc32(body):
            raise damaged(path, "its checksum is not that of its content")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"it is not the JSON that was written: {error}") from None
    if not isinstance(found, dict):
        raise damaged(path, "it is not the JSON that was written")
    found.pop("__sum", None)
    return found


_XXH3 = 1 << 62  # set in every checksum by XXH3: none of them is taken for a CRC-32, and all fit into a BIGINT


def checksum_of(data: Any) -> int:
    """The checksum of some bytes, or of anything that has a buffer of them.

    >>> checksum_of(b"tide") == checksum_of(memoryview(b"tide")), checksum_of(b"tide") >> 62
    (True, 1)
    """
    return xxhash.xxh3_64_intdigest(data) & (_XXH3 - 1) | _XXH3


def checksum(path: str) -> int:
    """Of all bytes of a file."""
    return _of_file(path, checksum_of)


def is_checksum(data: Any, wanted: int) -> bool:
    """Whether some bytes have a checksum, made today or by an older version.

    >>> is_checksum(b"tide", checksum_of(b"tide")), is_checksum(b"tide", zlib.crc32(b"tide")), is_checksum(b"tidy", 7)
    (True, True, False)
    """
    return wanted == (checksum_of(data) if wanted >= _XXH3 else zlib.crc32(data))


class Checksum:
    """The checksum of bytes that come in blocks, by the method by which a given one was made."""

    def __init__(self, like: int) -> None:
        self._crc, self._xxh3 = 0, xxhash.xxh3_64() if like >= _XXH3 else None

    def add(self, block: bytes) -> None:
        if self._xxh3 is None:
            self._crc = zlib.crc32(block, self._crc)
        else:
            self._xxh3.update(block)

    @property
    def value(self) -> int:
        return self._crc if self._xxh3 is None else self._xxh3.intdigest() & (_XXH3 - 1) | _XXH3


def verify(path: str, size: int, wanted: int) -> None:
    """A file has the bytes that were written."""
    check_size(path, size)
    if not _of_file(path, lambda content: is_checksum(content, wanted)):
        raise damaged(path, "its checksum is not that of its content")


def _of_file(path: str, call: Callable[[Any], T]) -> T:
    """What a function makes of all bytes of a file, which are mapped; an empty file cannot be."""
    if not os.path.getsize(path):
        return call(b"")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return call(content)


def part(path: str, whole: pa.Buffer, start: int, end: int, wanted: int) -> pa.Buffer:
    """Some bytes of a file that is mapped, if they are what was written."""
    if end > whole.size:
        raise damaged(path, f"it has {whole.size:,} bytes, and {end:,} were written")
    found = whole.slice(start, end - start)
    if not is_checksum(found, wanted):
        raise damaged(path, f"the checksum of bytes {start} to {end} is not that of their content")
    return found


def check_size(path: str, size: int | None) -> None:
    """Check that a file exists and has its noted size; None: the size was not noted."""
    try:
        with openable(path):
            found = os.path.getsize(path)
    except FileNotFoundError:
        raise missing(path, "it is named by what was committed") from None
    if size is not None and found != size:
        raise damaged(path, f"it has {found:,} bytes and should have {size:,}")


@contextmanager
def arrow_file(path: str) -> Iterator[None]:
    """Reading an Arrow or Parquet file of ours: what cannot be read is missing or damaged."""
    try:
        yield
    except FileNotFoundError:
        raise missing(path, "it is named by what was committed") from None
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.startswith("pyarrow"):
            raise damaged(path, str(error).splitlines()[0]) from error
        raise


@contextmanager
def duckdb_file(path: str, opening: bool = False) -> Iterator[None]:
    """Using a DuckDB file of ours: what DuckDB cannot read is damaged. A full disk and the like stay what they are.

    While the file is being opened every error is about its bytes: no statement has run yet.
    """
    try:
        yield
    except Exception as error:
        if is_damage(error) or (opening and _is_duckdb(error) and not _is_refusal(error)):
            raise damaged(path, str(error).splitlines()[0]) from error
        raise


def is_damage(error: BaseException) -> bool:
    """Whether DuckDB complains about bytes that it has read.

    >>> import duckdb
    >>> is_damage(duckdb.IOException('IO Error: Corrupt database file: computed checksum 1 does not match'))
    True
    >>> is_damage(duckdb.IOException('IO Error: Could not write to file "x": No space left on device'))
    False
    """
    text = str(error).lower()
    broken = _is_duckdb(error) and type(error).__name__ in _BROKEN
    return broken and not _is_refusal(error) and any(sign in text for sign in _SIGNS)


def _is_duckdb(error: BaseException) -> bool:
    # By name: most processes that read files of ours never load DuckDB.
    return type(error).__module__ in ("duckdb", "_duckdb")


def _is_refusal(error: BaseException) -> bool:
    """Whether the system refuses, whatever is in the file."""
    text = str(error).lower()
    return any(sign in text for sign in ("no space left", "permission denied", "could not set lock", "too many open"))
