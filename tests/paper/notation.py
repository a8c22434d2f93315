"""Streams and answers in the notation of paper 004: Tag<Attributes>Timestamp, for example u<a,95>4."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.harness import LocalDatabase

TUPLE = re.compile(r"<([^>]*)>(-?\d+)")


def raw(text: str) -> list[tuple[Any, ...]]:
    """Rows of a raw stream, the timestamp last.

    >>> raw("<a,99>1 <b,>2")
    [('a', 99, 1), ('b', None, 2)]
    """
    return [(*(_value(v) for v in values.split(",")), int(at)) for values, at in TUPLE.findall(text)]


def _value(text: str) -> Any:
    if text == "":
        return None
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def write(path: Path, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    """Rows as json lines, complete when the file appears."""
    part = path.with_name("." + path.name)
    part.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    part.rename(path)


class Feed:
    """A directory of json lines behind a source; `at` is its event time, in clock units."""

    def __init__(self, db: LocalDatabase, folder: Path, name: str, columns: str, *, options: str = "") -> None:
        self.folder, self.count = folder / name, 0
        self.folder.mkdir(parents=True)
        self.names = [part.split()[0] for part in columns.split(", ")] + ["at"]
        more = f", {options}" if options else ""
        db.execute(
            f"REGISTER SOURCE {name} ({columns}, at BIGINT) FROM FILES '{self.folder}/*.json'"
            f" WITH (timestamp = 'at'{more})"
        )

    def send(self, rows: str | list[tuple[Any, ...]]) -> Feed:
        """One more file."""
        self.count += 1
        write(self.folder / f"{self.count:06d}.json", self.names, raw(rows) if isinstance(rows, str) else rows)
        return self


def tagged(db: LocalDatabase, name: str) -> list[str]:
    """All changes of a view, in order. A column TS of the view itself is the timestamp at the end as well."""
    return [_tuple(row) for row in db.changes(name).to_pylist()]


def _tuple(row: dict[str, Any]) -> str:
    values = [v for k, v in row.items() if k not in ("TAG", "TS", "OLD")] or [row["TS"]]
    return f"{row['TAG']}<{','.join('' if v is None else str(v) for v in values)}>{row['TS']}"


def answers(db: LocalDatabase, name: str) -> dict[Any, list[tuple[Any, ...]]]:
    """The relation after each time at which it changed, rebuilt from the tagged changes alone."""
    rows: Counter[tuple[Any, ...]] = Counter()
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for change in db.changes(name).to_pylist():
        row = tuple(v for k, v in change.items() if k not in ("TAG", "TS", "OLD"))
        if change["TAG"] == "-":
            rows[row] -= 1
        else:
            rows[row] += 1
        if change["TAG"] == "u":
            rows[tuple(v for k, v in change["OLD"].items() if k != "TS")] -= 1
        assert min(rows.values()) >= 0, f"{name} takes back what it never gave: {change}"
        found[change["TS"]] = sorted(rows.elements(), key=str)
    return found


def rows_of(db: LocalDatabase, sql: str) -> list[tuple[Any, ...]]:
    """An ad hoc answer as tuples."""
    return [tuple(row.values()) for row in db.query(sql).to_pylist()]
