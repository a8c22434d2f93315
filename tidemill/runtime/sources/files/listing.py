"""Which files a glob shows, and what can be known of a new file before it is read."""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Iterator

import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.files import columnar, lined
from tidemill.runtime.sources.files.log import Entry

_EXTENSIONS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow",
}
FORMATS = ("parquet", "csv", "json", "arrow")


class NotYet(Exception):
    """The file is still being written."""


def base_directory(pattern: str) -> str:
    """The directory no matched file may leave.

    >>> base_directory("/data/in/2024-*/x.csv"), base_directory("/data/in/a.csv")
    ('/data/in', '/data/in')
    """
    parts = pattern.split(os.sep)
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return os.sep.join(parts[:fixed]) or os.sep


def is_inside(path: str, base: str) -> bool:
    """Whether the file, symlinks followed, lies under the base directory."""
    real = os.path.realpath(base)
    return os.path.commonpath([os.path.realpath(path), real]) == real


def new_files(pattern: str, taken: set[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Regular, non-empty, visible files by name; each part below the base counts for visibility."""
    base = base_directory(pattern)
    for path in sorted(glob.glob(pattern, recursive=True)):
        if path in taken or _hidden(os.path.relpath(path, base)):
            continue
        try:
            facts = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(facts.st_mode) and facts.st_size > 0:
            yield path, facts


def _hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.split(os.sep))


def describe(path: str, facts: os.stat_result, spec: SourceSpec, base: str, live: bool) -> dict:
    """`size`, `mtime_ns`, `format`, `length` and `bad` of a new file; NotYet while it is unsettled."""
    seen = {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns}
    if not is_inside(path, base):
        return {**seen, "format": "none", "length": 1, "bad": f"symbolic link leads outside {base}"}
    kind = spec.format or _EXTENSIONS.get(os.path.splitext(path)[1].lower())
    if kind is None:
        return {**seen, "format": "none", "length": 1, "bad": "the file name does not tell the format"}
    try:
        length, bad = _measure(path, kind, spec, facts)
    except FileNotFoundError:
        raise NotYet from None
    except (OSError, pa.ArrowException) as error:
        if live and _is_fresh(facts, spec):
            raise NotYet from None
        length, bad = 1, f"cannot be read as {kind}: {str(error).splitlines()[0]}"
    # A text that ends inside a line is probably still being written, like a parquet file without a footer.
    if live and kind in ("csv", "json") and _is_fresh(facts, spec) and not lined.is_whole(path, facts.st_size):
        raise NotYet
    return {**seen, "format": kind, "length": 1 if bad else length, "bad": bad}


def _measure(path: str, kind: str, spec: SourceSpec, facts: os.stat_result) -> tuple[int, str | None]:
    if kind in ("parquet", "arrow"):
        shape = columnar.shape(path, kind, facts.st_size, facts.st_mtime_ns)
        return shape.rows, columnar.mismatch(shape, spec)
    return facts.st_size, lined.header_problem(path, kind, spec)


def _is_fresh(facts: os.stat_result, spec: SourceSpec) -> bool:
    settle = float(spec.options.get("settle_seconds", 2))
    return abs(time.time() - facts.st_mtime) < settle  # a clock that was set back makes nothing young for long


def check_unchanged(entry: Entry, spec: SourceSpec, base: str) -> None:
    """A listed file must still be what was listed; text may have grown behind its listed end."""
    try:
        size = os.stat(entry.path).st_size
    except OSError as error:
        raise SourceProblem(
            "TM401", f'source "{spec.name}" cannot read a file it has listed', detail=str(error),
            hint="put the file back; files may be removed only after they have been processed") from None
    same = size >= entry.size if entry.format in ("csv", "json") else size == entry.size
    if not same:
        raise SourceProblem(
            "TM401", f'a file of source "{spec.name}" has changed since it was listed',
            detail=f"{entry.path} had {entry.size} bytes and has {size}",
            hint="write files under another name and rename them when they are complete")
    if not is_inside(entry.path, base):
        raise SourceProblem("TM401", f'a file of source "{spec.name}" has become a link to another place',
                            detail=f"{entry.path} leads outside {base}")
