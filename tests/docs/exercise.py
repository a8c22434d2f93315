"""The exercise of CONTRIBUTING.md as data: what it writes, what it changes and what it runs.

```python tests/sources/test_x.py    a new file
```diff src/tidemill/plan/x.py       changes of a file: context, - and + lines; @@ between two places
```sh                                commands
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.places import ROOT

_BLOCK = re.compile(r"^```(\w+)(?: ([\w./]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Exercise:
    """One of the exercises: its title, (path, text) of new files, (path, hunks) of changed ones, commands."""

    title: str
    written: tuple[tuple[str, str], ...]
    changed: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]

    @property
    def files(self) -> set[str]:
        return {path for path, _ in (*self.written, *self.changed)}

    def apply(self, folder: Path) -> None:
        """Do it in a copy of the repository."""
        for path, text in self.written:
            assert not (folder / path).exists(), path
            (folder / path).write_text(text, encoding="utf-8")
        for path, hunks in self.changed:
            text = (folder / path).read_text(encoding="utf-8")
            for hunk in hunks.split("@@\n"):
                text = patched(text, hunk)
            (folder / path).write_text(text, encoding="utf-8")


def patched(text: str, hunk: str) -> str:
    """The text with one hunk applied; what it replaces must be there exactly once.

    >>> patched("a\\nb\\n", " a\\n-b\\n+c\\n")
    'a\\nc\\n'
    """
    lines = hunk.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(before) == 1, f"{text.count(before)} times in the file:\n{before}"
    return text.replace(before, after)


def exercises() -> list[Exercise]:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("## An exercise")[2].partition("\n## ")[0]
    found = []
    for part in section.split("\n### ")[1:]:
        blocks = _BLOCK.findall(part)
        found.append(
            Exercise(
                part.splitlines()[0],
                tuple((path, text) for kind, path, text in blocks if kind in ("python", "yaml")),
                tuple((path, text) for kind, path, text in blocks if kind == "diff"),
                tuple(line for kind, _, text in blocks if kind == "sh" for line in text.splitlines()),
            )
        )
    return found


def listed_files(title: str) -> set[str]:
    """The files in the table of an exercise."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    part = page.partition(f"### {title}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    return set(re.findall(r"^\| `([\w./]+)` \|", part, re.MULTILINE))
