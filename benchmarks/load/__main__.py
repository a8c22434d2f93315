"""`python -m benchmarks.load [--seconds 600] [--rate 1000000]` prints the page and writes docs/benchmarks/load.md.

It needs psql. Nothing else should run on the machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import data
from benchmarks.load import clients
from benchmarks.load.page import PAGE, Measured, render
from benchmarks.load.workload import statements
from benchmarks.memory import Sampler

_READY = re.compile(r"ready: postgresql://127\.0\.0\.1:(\d+)/")
_CONSOLE = re.compile(r"console: http://127\.0\.0\.1:(\d+)/")


def main(
    seconds: Annotated[int, typer.Option(help="of the measurement", min=1)] = 600,
    rate: Annotated[int, typer.Option(help="rows a second of the generator", min=1)] = 1_000_000,
    warm: Annotated[int, typer.Option(help="seconds before the measurement")] = 60,
    readers: Annotated[int, typer.Option(help="psql processes that ask", max=20)] = 20,
    subscribers: Annotated[int, typer.Option(help="psql processes that subscribe")] = 20,
    out: Annotated[Path, typer.Option(help="the page to write")] = PAGE,
) -> None:
    """Serve, load, measure, write."""
    with data.scratch("load") as place:
        init = Path(place, "init.sql")
        init.write_text(statements(rate), encoding="utf-8")
        server = _serve(place, init)
        noted = clients.Noted()
        try:
            port, http = _ports(server)
            threads = clients.start(port, readers, subscribers, noted)
            time.sleep(warm)
            found = _measure(server.pid, http, seconds)
            noted.stopping.set()
            for thread in threads:
                thread.join(30)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(180)
    began, ended = found.began, found.ended
    found.answers = sorted(took for at, took in noted.answers if began <= at <= ended)
    found.ages = sorted(age for at, age in noted.ages if began <= at <= ended)
    found.failures = noted.failures
    found.rate, found.readers, found.subscribers = rate, readers, subscribers
    text = render(found)
    print(text)
    out.write_text(text, encoding="utf-8")
    if noted.failures:
        sys.exit(1)


def _serve(place: str, init: Path) -> subprocess.Popen[str]:
    command = ["-m", "tidemill.serve.cli", "serve", "--db", os.path.join(place, "db"), "--init", str(init)]
    return subprocess.Popen(
        [sys.executable, *command, "--port", "0", "--http-port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def _ports(server: subprocess.Popen[str]) -> tuple[int, int]:
    """The ports of both doors; what the server logs afterwards is read and dropped."""
    assert server.stderr is not None
    port, lines = 0, list[str]()
    for line in server.stderr:
        lines.append(line)
        if found := _READY.search(line):
            port = int(found[1])
        elif port and (found := _CONSOLE.search(line)):
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return port, int(found[1])
    raise RuntimeError("the server has ended: " + "".join(lines[-20:]))


def _measure(pid: int, http: int, seconds: int) -> Measured:
    """Rows that came in and memory, while the clients note their times."""
    sampler, rows, began = Sampler(pid), _rows(http), time.time()
    while time.time() < began + seconds:
        sampler.sample()
        time.sleep(min(2.0, max(0.0, began + seconds - time.time())))
    ended = time.time()
    python = max(s["driver"] + s["workers"] for s in sampler.samples)
    first = sampler.samples[0]["driver"] + sampler.samples[0]["workers"]
    return Measured(began, ended, _rows(http) - rows, python, first, max(s["jvm"] for s in sampler.samples))


def _rows(http: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.search(r'^tidemill_source_rows_total\{source="Packets"\} (\S+)$', text, re.MULTILINE)
    assert found is not None, "the metrics have no rows of the source"
    return float(found[1])


if __name__ == "__main__":
    typer.run(main)
