"""Chromium, as Debian has it, driven by Playwright; and a console in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.installed import need
from tests.places import ROOT

FLAGS = """--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking
--disable-component-update --disable-sync --disable-extensions --no-first-run --no-default-browser-check""".split()


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; it may only ask this server."""
    from playwright.sync_api import sync_playwright

    program = need("chromium", "chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


class ConsoleProcess:
    """A database and its console."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.http.console_child", str(self.folder), str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )
        self.address = self.process.stdout.readline().strip()
        self.port = int(self.address.split(":")[2].partition("/")[0])

    def tell(self, word: str) -> str:
        """`stop` or `start` the server, with another token; the database stays."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def write_readings(folder: Path, number: int, rows: list[tuple[int, float, int]]) -> None:
    """A file of (room, temp, time)."""
    made = folder / f".{number:05}.csv"
    made.write_text("room,temp,at\n" + "".join(f"{r},{t},{a}\n" for r, t, a in rows), encoding="utf-8")
    made.rename(folder / f"{number:05}.csv")
