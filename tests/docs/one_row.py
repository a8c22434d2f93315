"""Follows one row from a file to a view, and writes down what each function on its way returns.

`python -m tests.docs.one_row` writes the values into docs/architecture/one_row.md; test_one_row.py compares them.
The first line of a block names a function and, where only part of its value is shown, the way to each part:

    ```text runtime.planning.planner.Planner.latest sources.Readings.position
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow as pa

from tests.harness import LocalDatabase
from tests.places import ROOT

PAGE = ROOT / "docs" / "architecture" / "one_row.md"
BLOCK = re.compile(r"(?<=^```text )([\w. ]+)\n(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`((?:sql|plan|optimize|runtime|engine|serve)(?:\.\w+)+)`")
INPUT = re.compile(r"^```(csv|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FINGERPRINT = re.compile(r"\b[0-9a-f]{18}\b")
ROOM = 3  # whose row we follow
PLAN = "plan"  # the block that shows the plan instead of a function's value
HIDDEN = ("__arrival",)  # when the file was listed: never twice the same


@dataclass(frozen=True)
class Step:
    """A function on the row's way, and which parts of its value the page shows; no parts for the whole value."""

    name: str
    parts: tuple[str, ...] = ()
    is_mentioned: bool = False  # named in the text, without a block of its own

    @classmethod
    def of(cls, heading: str) -> Step:
        name, *parts = heading.split()
        return cls(name, tuple(parts))

    def show(self, value: Any) -> str:
        named = [(part.rpartition(".")[2], show(picked(value, part))) for part in self.parts]
        shown = [text if "\n" in text else f"{name}: {text}" for name, text in named] or [show(value)]
        return FINGERPRINT.sub("…", "\n".join(shown))


def resolve(name: str) -> Any:
    """What a dotted name below tidemill means: a module, a class, a function or a method.

    >>> resolve("runtime.stage.stage.Stage.step").__name__
    'step'
    """
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(["tidemill", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def code_of(name: str) -> CodeType:
    found = resolve(name)
    code = getattr(found, "__wrapped__", found).__code__
    assert isinstance(code, CodeType)
    return code


def picked(value: Any, way: str) -> Any:
    """A part of a value by keys, indexes and attributes.

    >>> picked([{"a": "x"}], "0.a")
    'x'
    """
    for step in way.split("."):
        if isinstance(value, (list, tuple)) and step.isdigit():
            value = value[int(step)]
        else:
            value = value[step] if isinstance(value, dict) else getattr(value, step)
    return value


def show(value: Any) -> str:
    """A value as the page prints it: tables as columns with the rows of our room, the rest as JSON.

    >>> print(show(pa.table({"room": [3, 8], "temp": [88, 70]})))
    room | temp
    3    | 88
    """
    if isinstance(value, pa.Table):
        return show_table(value)
    if isinstance(value, (str, bytes)):
        return value if isinstance(value, str) else "Arrow IPC bytes"
    if is_dataclass(value):
        known = {f.name: getattr(value, f.name) for f in fields(value)}
        shown = {name: show(part) for name, part in known.items() if not is_empty(part)}
        return "\n".join(text if "\n" in text else f"{name}: {text}" for name, text in shown.items())
    if isinstance(value, (tuple, list)) and not is_plain(value):
        return "\n".join(show(part) for part in value if has_our_row(part))
    return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value, ensure_ascii=False)


def show_table(table: pa.Table) -> str:
    table = table.drop_columns([name for name in HIDDEN if name in table.column_names])
    rows = [row for row in table.to_pylist() if row.get("room", ROOM) == ROOM]
    cells = [table.column_names, *([str(v) for v in row.values()] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(" | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def is_empty(value: Any) -> bool:
    """Says nothing on the page: None, a property that does not hold, no rows, an empty collection."""
    if isinstance(value, pa.Table):
        return value.num_rows == 0
    return value is None or value is False or (hasattr(value, "__len__") and len(value) == 0)


def is_plain(value: Any) -> bool:
    """Whether a value is all JSON."""
    if isinstance(value, (list, tuple)):
        return all(is_plain(part) for part in value)
    return not isinstance(value, (pa.Table, np.ndarray, bytes)) and not is_dataclass(value)


def has_our_row(value: Any) -> bool:
    """Whether a value holds the row, or no rows at all; other shards and chunks are passed over."""
    if isinstance(value, pa.Table):
        return "room" not in value.column_names or ROOM in value.column("room").to_pylist()
    if isinstance(value, (tuple, list)):
        return all(has_our_row(part) for part in value) or any(
            has_our_row(part) for part in value if not is_plain(part)
        )
    rows = getattr(value, "rows", None)
    return has_our_row(rows) if isinstance(rows, pa.Table) else True


def follow(steps: list[Step], run: Callable[[], Any]) -> dict[Step, str]:
    """What each function returned (or yielded first) while `run` ran, where our row was in it."""
    wanted = {code_of(step.name): step for step in steps}
    seen: dict[Step, str] = {}

    def watch(frame: FrameType, event: str, value: Any) -> None:
        step = wanted.get(frame.f_code)
        if step is not None and step.is_mentioned:
            seen[step] = ""
        elif event == "return" and step is not None and step not in seen and not is_empty(value) and has_our_row(value):
            seen[step] = step.show(value)

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


def steps_of(page: str) -> list[Step]:
    """All functions of the page: those with a block, then those that the text mentions only."""
    shown = [Step.of(heading) for heading, _ in BLOCK.findall(page)]
    mentioned = sorted(set(NAMED.findall(page)) - {step.name for step in shown})
    return [*shown, *(Step(name, is_mentioned=True) for name in mentioned)]


def values(page: str) -> dict[Step, str]:
    """The page's own file and statements, run in an empty folder."""
    inputs, steps = dict(INPUT.findall(page)), steps_of(page)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("readings").mkdir()
            Path("readings/1.csv").write_text(inputs["csv"], encoding="utf-8")
            with LocalDatabase("db", cores=1) as db:
                db.execute(inputs["sql"])
                plan = FINGERPRINT.sub("…", str(db.explain()))
                seen = follow([s for s in steps if s.name != PLAN], lambda: (db.run(), db.changes("Hot")))
        finally:
            os.chdir(before)
    return {**seen, Step(PLAN): plan}


def written(page: str) -> str:
    """The page with the values of today."""
    seen = values(page)
    return BLOCK.sub(lambda found: f"{found[1]}\n{seen.get(Step.of(found[1]), 'not passed')}\n", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
