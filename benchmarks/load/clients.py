"""Real psql processes: readers that ask ten times a second, subscribers that note how old what they get is."""

from __future__ import annotations

import calendar
import itertools
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import IO

from benchmarks.load.workload import followed, questions

PERIOD_S = 0.1
_END = "answered"


@dataclass
class Noted:
    """Measurements of all clients: (when, seconds)."""

    answers: list[tuple[float, float]] = field(default_factory=list)
    ages: list[tuple[float, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


def start(port: int, readers: int, subscribers: int, noted: Noted) -> list[threading.Thread]:
    """The threads of all clients."""
    threads = [threading.Thread(target=_read, args=(port, i, noted), daemon=True) for i in range(readers)]
    threads += [threading.Thread(target=_follow, args=(port, i, noted), daemon=True) for i in range(subscribers)]
    for thread in threads:
        thread.start()
    return threads


def _psql(port: int) -> subprocess.Popen[str]:
    command = ["stdbuf", "-oL", "psql", "-XAqt", f"host=127.0.0.1 port={port} user=load dbname=tidemill"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )


def _pipes(client: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert client.stdin is not None and client.stdout is not None
    return client.stdin, client.stdout


def _read(port: int, number: int, noted: Noted) -> None:
    """A question each tenth of a second; one that took longer is followed by the next at once."""
    client = _psql(port)
    to, back = _pipes(client)
    due = time.time() + number * PERIOD_S / 20
    for text in itertools.cycle(questions(number)):
        time.sleep(max(0.0, due - time.time()))
        if noted.stopping.is_set():
            break
        began = time.time()
        to.write(f"{text};\n\\echo {_END}\n")
        while (line := back.readline()) and line.strip() != _END:
            if "ERROR" in line:
                noted.failures.append(line.strip())
        if not line:
            noted.failures.append(f"reader {number} has ended")
            break
        noted.answers.append((began, time.time() - began))
        due = max(due + PERIOD_S, time.time())
    client.kill()
    client.wait()


def _follow(port: int, number: int, noted: Noted) -> None:
    """The age of the time up to which changes are complete, whenever it is told."""
    client = _psql(port)
    to, back = _pipes(client)
    to.write(f"COPY (SUBSCRIBE {followed(number)} WITH (progress = true)) TO STDOUT;\n")
    while not noted.stopping.is_set() and (line := back.readline()):
        if line.startswith("p\t"):
            now = time.time()
            noted.ages.append((now, now - _seconds(line.split("\t")[1].strip())))
        elif "ERROR" in line:
            noted.failures.append(line.strip())
    if not noted.stopping.is_set():
        noted.failures.append(f"subscriber {number} has ended")
    client.kill()
    client.wait()


def _seconds(moment: str) -> float:
    """
    >>> _seconds("1970-01-02 00:00:01.5")
    86401.5
    """
    whole, _, part = moment.partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%d %H:%M:%S")) + float(f"0.{part or 0}")
