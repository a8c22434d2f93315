"""Which files a glob shows, and what can be known of a new file before it is read."""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Container, Iterator
from typing import Any

import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.files import columnar, lined
from tidemill.runtime.sources.files.growth import is_followed, mark_of, settle_seconds, takes_half
from tidemill.runtime.sources.files.log import Entry
from tidemill.runtime.sources.files.names import base_directory, inner_name, packing
from tidemill.runtime.sources.files.packed import unpacked_bytes

_EXTENSIONS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
FORMATS = ("parquet", "csv", "json", "arrow")


class NotYet(Exception):
    """The file is still being written."""


def is_inside(path: str, base: str) -> bool:
    """Whether the file, symlinks followed, lies under the base directory."""
    real = os.path.realpath(base)
    return os.path.commonpath([os.path.realpath(path), real]) == real


def new_files(pattern: str, taken: Container[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Regular, non-empty, visible files by name; each part below the base counts for visibility."""
    base = base_directory(pattern)
    for path in sorted(glob.glob(pattern, recursive=True)):
        if path in taken or _is_hidden(os.path.relpath(path, base)):
            continue
        try:
            facts = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(facts.st_mode) and facts.st_size > 0:
            yield path, facts


def _is_hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.split(os.sep))


def describe(path: str, facts: os.stat_result, spec: SourceSpec, base: str, live: bool) -> dict[str, Any]:
    """`size`, `mtime_ns`, `format`, `length`, `bad` and `mark` of a new file; NotYet while it is unsettled."""
    seen = {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "mark": None}
    if not is_allowed(path, spec, base):
        reason = f"symbolic link leads outside {base}; WITH (follow_links = true) reads it"
        return {**seen, "format": "none", "length": 1, "bad": reason}
    kind = spec.format or _EXTENSIONS.get(os.path.splitext(inner_name(path))[1].lower())
    if kind is None:
        return {**seen, "format": "none", "length": 1, "bad": "the file name does not tell the format"}
    try:
        size, length, bad = _measure(path, kind, spec, facts, live)
        mark = None if bad else mark_of(path, size)
    except FileNotFoundError:
        raise NotYet from None
    except (OSError, pa.ArrowException) as error:
        if live and _is_fresh(facts, spec):
            raise NotYet from None
        size, length, mark, bad = facts.st_size, 1, None, f"cannot be read as {kind}: {str(error).splitlines()[0]}"
    return {**seen, "size": size, "format": kind, "length": 1 if bad else length, "bad": bad, "mark": mark}


def is_allowed(path: str, spec: SourceSpec, base: str) -> bool:
    """Whether a file may be read where it is: links may lead out of the folder only with follow_links."""
    return bool(spec.options.get("follow_links")) or is_inside(path, base)


def _measure(path: str, kind: str, spec: SourceSpec, facts: os.stat_result, live: bool) -> tuple[int, int, str | None]:
    """How many bytes of a file are taken, how many positions that is, and why it is bad as a whole."""
    packed = packing(path)
    if kind in ("parquet", "arrow"):
        if packed:
            return facts.st_size, 1, f"{kind} files are not read from inside {packed}: they are compressed themselves"
        footer = columnar.read_footer(path, kind, facts.st_size, facts.st_mtime_ns)
        return facts.st_size, footer.rows, columnar.mismatch(footer, spec)
    size = facts.st_size if packed else _taken_bytes(path, kind, facts, spec, live)
    return size, unpacked_bytes(path) if packed else size, lined.header_problem(path, kind, spec)


def _taken_bytes(path: str, kind: str, facts: os.stat_result, spec: SourceSpec, live: bool) -> int:
    """How much of a new text is taken: whole lines, and a last line without a line end where that is not waited for."""
    if not is_followed(path, kind, spec):
        # A text that ends inside a line is probably still being written, like a parquet file without a footer.
        if live and _is_fresh(facts, spec) and lined.whole_end(path, 0, facts.st_size) < facts.st_size:
            raise NotYet
        return facts.st_size
    size = facts.st_size if takes_half(facts, spec, live) else lined.whole_end(path, 0, facts.st_size)
    if not size:
        raise NotYet
    return size


def _is_fresh(facts: os.stat_result, spec: SourceSpec) -> bool:
    # A clock that was set back makes nothing young for long.
    return abs(time.time() - facts.st_mtime) < settle_seconds(spec)


def check_unchanged(entry: Entry, spec: SourceSpec, base: str) -> None:
    """A listed file must still be what was listed; text may have grown behind its listed end."""
    try:
        size = os.stat(entry.path).st_size
        alike = entry.mark is None or mark_of(entry.path, entry.size) == entry.mark
    except OSError as error:
        raise SourceProblem(
            "TM401",
            f'source "{spec.name}" cannot read a file it has listed',
            detail=str(error),
            hint="put the file back; files may be removed only after they have been processed",
        ) from None
    grows = entry.format in ("csv", "json") and packing(entry.path) is None
    if not alike or not (size >= entry.size if grows else size == entry.size):
        now = f"and has {size}" if size != entry.size else "as it has now, but others"
        raise SourceProblem(
            "TM401",
            f'a file of source "{spec.name}" has changed since it was listed',
            detail=f"{entry.path} had {entry.size} bytes {now}",
            hint="write files under another name and rename them when they are complete",
        )
    if not is_allowed(entry.path, spec, base):
        raise SourceProblem(
            "TM401",
            f'a file of source "{spec.name}" has become a link to another place',
            detail=f"{entry.path} leads outside {base}",
        )
