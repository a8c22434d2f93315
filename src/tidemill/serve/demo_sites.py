"""`tidemill demo --sites`: two databases on this machine join their streams; what crosses is counted."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tidemill.errors import EngineProblem
from tidemill.interrupts import plain_interrupts
from tidemill.serve.demo import PATIENCE, script_path, show_progress
from tidemill.serve.follow import check_alive
from tidemill.serve.opening import connect

if TYPE_CHECKING:
    from tidemill.engine import Database

PARIS, LYON = "sites_paris.sql", "sites_lyon.sql"
SECONDS, EVERY = 30.0, 3.0


def run_sites_demo(console: Console, directory: str, seconds: float | None) -> None:
    """Open both sites, start them, and show what crosses until the time is over or ctrl-C."""
    texts = {name: script_path(name).read_text(encoding="utf-8") for name in (PARIS, LYON)}
    console.print(Text(f"The SQL of this demo: {script_path(PARIS)} and {script_path(LYON)}", style="dim"))
    paris = lyon = None
    with plain_interrupts():
        try:
            with show_progress(console, plain=True) as tell:
                tell("opening paris and lyon")
                paris, lyon = (connect(os.path.join(directory, name)) for name in ("paris", "lyon"))
                tell("starting Spark; lyon asks paris for its stream")
                _begin(paris, lyon, texts)
                tell("first answers")
                _wait_for_rows(paris, lyon)
            _show(console, paris, lyon, SECONDS if seconds is None else seconds)
        except KeyboardInterrupt:
            console.print(Text("stopped", style="dim"))
        finally:
            for db in (lyon, paris):
                if db is not None:
                    db.close()


def _begin(paris: Database, lyon: Database, texts: dict[str, str]) -> None:
    port, other = _free_port(), _free_port()
    paris.execute(f"CREATE LOCAL SITE paris AT 'localhost:{port}' WITH (plaintext = true)")
    paris.execute(f"CREATE SITE lyon AT 'localhost:{other}' WITH (plaintext = true)")
    paris.execute(texts[PARIS])
    paris.start()
    lyon.execute(f"CREATE LOCAL SITE lyon AT 'localhost:{other}' WITH (plaintext = true)")
    lyon.execute(f"CREATE SITE paris AT 'localhost:{port}' WITH (plaintext = true)")
    lyon.execute(texts[LYON])
    lyon.start()


def _wait_for_rows(paris: Database, lyon: Database) -> None:
    end = time.monotonic() + PATIENCE
    while not all(edge["received"] for edge in _edges(lyon)) or not lyon.changes("Both").num_rows:
        check_alive(paris)
        check_alive(lyon)
        if time.monotonic() > end:
            raise EngineProblem("TM502", "the demo has no results", hint="tidemill doctor finds out what is missing")
        time.sleep(0.1)


def _show(console: Console, paris: Database, lyon: Database, seconds: float) -> None:
    """A line every few seconds: answers, and bytes that crossed beside those of the whole stream."""
    began = time.monotonic()
    while True:
        narrow, whole = (edge["received"] for edge in _edges(lyon))
        narrow += sum(edge["received"] for edge in _edges(paris))  # the join values
        line = (
            f"{time.monotonic() - began:5.0f} s  {lyon.changes('Both').num_rows:6,} changes of the join;"
            f" {narrow:9,} bytes crossed, {whole:9,} for the whole stream ({narrow / max(whole, 1):.0%})"
        )
        console.print(Text(line))
        if time.monotonic() - began >= seconds:
            return
        time.sleep(min(EVERY, seconds))
        check_alive(paris)
        check_alive(lyon)


def _edges(db: Database) -> list[dict[str, Any]]:
    """What a site reads from the other. Lyon: the rows of the join and the whole stream, in the order of creation."""
    [site] = db.status()["sites"]
    found: list[dict[str, Any]] = site["reads"]
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])
