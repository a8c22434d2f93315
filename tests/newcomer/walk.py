"""Every example of some pages, from top to bottom in one folder, with the installed tidemill and nothing else.

Blocks of SQL are saved and given to `tidemill run`; those of Python are run as scripts. What the page prints below a
block must come out, word for word; spaces between columns do not count. The words behind ``` are those of
tests/docs/test_docs.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGES = """
import sys, tidemill
with tidemill.open(sys.argv[1]) as db:
    for row in db.changes(sys.argv[2]).to_pylist():
        values = [v for k, v in row.items() if k not in ("TAG", "TS", "OLD")] or [row["TS"]]
        print(f"{row['TAG']}<{','.join('NULL' if v is None else str(v) for v in values)}>{row['TS']}")
"""


class Walk:
    """One page: files as they appear, a database for each example that begins."""

    def __init__(self, page: Path) -> None:
        self.page, self.setup, self.number, self.failed = page, "", 0, 0
        self.file, self.database, self.said = Path(), "", ""
        self.text = page.read_text(encoding="utf-8")

    def all(self) -> int:
        for kind, words, body, _ in self.blocks():
            if kind in ("csv", "json") and "later" not in words:
                self.write(words[0], body)
        for kind, words, body, line in self.blocks():
            try:
                self.one(kind, words, body)
            except (AssertionError, subprocess.CalledProcessError) as error:
                self.failed += 1
                print(f"FAILED {self.page.name}:{line} {error}", flush=True)
        return self.failed

    def blocks(self) -> list[tuple[str, list[str], str, int]]:
        return [
            (found[1], found[2].split(), found[3], self.text.count("\n", 0, found.start()) + 1)
            for found in FENCE.finditer(self.text)
        ]

    def one(self, kind: str, words: list[str], body: str) -> None:
        if kind in ("csv", "json") and "later" in words:
            self.write(words[0], body)
        elif kind == "sql" and words[:1] == ["setup"]:
            self.setup = body
        elif kind == "sql" and words[:1] == ["then"]:
            self.ask(body)
        elif kind == "sql" and not words:
            self.number += 1
            self.database = f"{self.page.stem}-{self.number}"
            self.ask(self.setup + body)
        elif kind == "python" and not words:
            self.write(f"{self.page.stem}.py", body)
            self.call(sys.executable, f"{self.page.stem}.py")
        elif kind == "text":
            self.compare(words, body)

    def ask(self, text: str) -> None:
        self.write(f"{self.database}.sql", text)
        self.said = self.call(
            str(Path(sys.executable).with_name("tidemill")), "run", f"{self.database}.sql", "--db", self.database
        )

    def compare(self, words: list[str], body: str) -> None:
        if words[:1] == ["changes"]:
            found = self.call(sys.executable, "-c", CHANGES, self.database, words[1]).split()
            assert sorted(found) == sorted(body.split()), f"{found} instead of {body.split()}"
            return
        lines = [line.split() for line in self.said.splitlines()]
        for wanted in body.splitlines():
            assert wanted.split() in lines, f"{wanted!r} is not in\n{self.said}"

    def write(self, name: str, body: str) -> None:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")

    def call(self, *command: str) -> str:
        print(f"{self.page.name}: {Path(command[0]).name} {' '.join(command[1:3])[:60]}", flush=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


if __name__ == "__main__":
    sys.exit(sum(Walk(Path(page)).all() for page in sys.argv[1:]))
