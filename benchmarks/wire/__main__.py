"""`python -m benchmarks.wire`: what crosses between two sites for each algorithm, as a page of docs/benchmarks.

Some 25 minutes: ten measurements of about a minute each, and twenty points.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.wire.points import measure_points, summarise
from tests.sites.certificates import make_authority, make_certificate
from tests.sites.emulator import Emulator, refusal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "sites.md"
PORT, PATIENCE_S, SETTLED_S = 7443, 240.0, 3.0
STREAM = """
REGISTER SOURCE {0}Source (k {1}, v {4}, tm INTEGER) FROM FILES '{2}/{0}/*.csv'
  WITH (timestamp = 'tm', batch_rows = {3});
CREATE TAGGED STREAM {0} OVER {0}Source;
"""
JOIN = "SELECT A.k, A.v AS a, B.v AS b FROM Near [WINDOW 3] A JOIN paris.Far [WINDOW 3] B ON A.k = B.k"


BY_ROWS = (
    "SELECT B.k, count(*) AS n, sum(B.v) AS s FROM Near [WINDOW 30] A JOIN paris.Far SYNC EVERY 10 [WINDOW 30] B"
    " ON A.k = B.k GROUP BY B.k"
)
SETS = "CREATE VIEW Sets AS SELECT k, count(*) AS n, sum(v) AS s FROM Far SYNC EVERY 10 [WINDOW 30] GROUP BY k"
BY_SETS = "SELECT B.k, sum(B.n) AS n, sum(B.s) AS s FROM Near [WINDOW 30] A JOIN paris.Sets B ON A.k = B.k GROUP BY B.k"


@dataclass(frozen=True)
class Case:
    """Rows of both streams, how many of them come in a micro-batch, and the algorithms that are compared.

    `kinds` are the types of the join column and the other one. With `known` a join has asked for samples, and ten
    seconds of rows have come, before the view is made. `queries`: other texts by algorithm, and what paris exports
    for them.
    """

    name: str
    near: Callable[[random.Random], list[tuple[Any, Any, int]]]
    far: Callable[[random.Random], list[tuple[Any, Any, int]]]
    kinds: tuple[str, str]
    batch: int
    algorithms: tuple[str, ...]
    known: bool = False
    queries: Mapping[str, str] = field(default_factory=dict)
    exported: str = ""

    def query(self, algorithm: str) -> str:
        return self.queries.get(algorithm, JOIN)


def numbers(keys: int, rate: int, seconds: int) -> Callable[[random.Random], list[Any]]:
    """Rows of two numbers."""
    return lambda chance: [(chance.randrange(keys), chance.randrange(10**9), n // rate) for n in range(rate * seconds)]


def rows(keys: int, size: int, rate: int, seconds: int, width: int = 0) -> Callable[[random.Random], list[Any]]:
    """Rows of `size` bytes that cannot be compressed, with keys drawn from 0 to `keys`."""

    def make(chance: random.Random) -> list[Any]:
        found = []
        for n in range(rate * seconds):
            key = chance.randrange(keys)
            named = f"{key:0{width}d}" if width else key
            found.append((named, chance.randbytes(size // 2).hex()[:size], n // rate))
        return found

    return make


def each_key(keys: int, width: int, seconds: int) -> Callable[[random.Random], list[Any]]:
    """Every key once."""
    return lambda chance: [(f"{n:0{width}d}", "", n * seconds // keys) for n in range(keys)]


CASES = (
    Case(
        "5 % of rows match, 1,250 B rows, 300/s",
        rows(5, 1250, 300, 10),
        rows(100, 1250, 300, 10),
        ("INTEGER", "VARCHAR"),
        300,
        ("sp_s", "sm_s1", "sm_s2", "bloom"),
    ),
    Case(
        "everything matches, 1,250 B rows, 300/s",
        rows(50, 10, 20, 20),
        rows(50, 1250, 300, 20),
        ("INTEGER", "VARCHAR"),
        300,
        ("sp_s", "auto"),
        known=True,
    ),
    Case(
        "10⁵ keys of 36 B, 5 % match",
        each_key(100_000, 36, 10),
        rows(2_000_000, 100, 2000, 10, 36),
        ("VARCHAR", "VARCHAR"),
        20_000,
        ("sp_s", "sm_s1", "bloom"),
    ),
    Case(
        "grouped join, SYNC EVERY 10 s, 100 groups",
        numbers(100, 10, 40),
        numbers(100, 3_000, 40),
        ("INTEGER", "BIGINT"),
        3_000,
        ("sp_s", "a view of sets"),
        queries={"sp_s": BY_ROWS, "a view of sets": BY_SETS},
        exported=SETS,
    ),
)


class Site:
    """A site in its namespace."""

    def __init__(self, network: Emulator, side: int, folder: Path) -> None:
        command = network.command(side, sys.executable, "-m", "benchmarks.wire.site", str(folder))
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def ask(self, **command: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a site has ended")
        return json.loads(line)


def site_text(folder: Path, me: str, other: str, addresses: tuple[str, str]) -> str:
    """The statements that make a site known to the other."""
    own = f"ca = '{folder}/ca.pem', certificate = '{folder}/{me}.pem', key = '{folder}/{me}.key'"
    return (
        f"CREATE LOCAL SITE {me} AT '{addresses[0]}:{PORT}' WITH ({own});"
        f"CREATE SITE {other} AT '{addresses[1]}:{PORT}' WITH ({own}, token_file = '{folder}/token')"
    )


def write(folder: Path, name: str, found: list[Any], last: int | None = None, number: int = 1) -> None:
    """A file of rows; with `last` all times up to it are closed behind them."""
    lines = [f"{k},{v},{t}" for k, v, t in found]
    lines += [] if last is None else [f",,{last}", f",,{last + 1}"]
    draft = folder / f"{name}.part"
    draft.write_text("k,v,tm\n" + "\n".join(lines) + "\n")
    draft.rename(folder / name / f"{number}.csv")


def measure(case: Case, algorithm: str, delay: float = 0.025) -> tuple[int, int, int]:
    """(bytes that crossed, packets, rows of the log) of a case."""
    chance = random.Random(7)
    near, far = case.near(chance), case.far(chance)
    last = max(near[-1][2], far[-1][2]) + 40
    with tempfile.TemporaryDirectory() as name, Emulator(delay=delay) as network:
        folder = Path(name)
        paris, lyon = connect(network, folder)
        begin(case, folder, paris, lyon)
        if case.known:
            near, far = learn(folder, paris, lyon, near, far)
        setting = "sp_s" if algorithm in case.queries else algorithm
        lyon.ask(execute=f"SET site_join = {setting}; CREATE STREAMED VIEW V AS {case.query(algorithm)}")
        time.sleep(3.0)  # edges are agreed upon
        before = sum(network.bytes), sum(network.packets)
        write(folder, "Near", near, last)
        write(folder, "Far", far, last)
        wait(lyon, last)
        crossed = sum(network.bytes) - before[0], sum(network.packets) - before[1]
        found = settled(lyon)
        paris.close()
        lyon.close()
        return (*crossed, found)


def connect(network: Emulator, folder: Path) -> tuple[Site, Site]:
    """Both sites, which know each other."""
    make_authority(folder)
    (folder / "token").write_text("a shared secret\n")
    for site in ("paris", "lyon"):
        make_certificate(folder, site)
    paris, lyon = Site(network, 0, folder / "p"), Site(network, 1, folder / "l")
    paris.ask(execute=site_text(folder, "paris", "lyon", network.addresses))
    lyon.ask(execute=site_text(folder, "lyon", "paris", network.addresses[::-1]))
    return paris, lyon


def begin(case: Case, folder: Path, paris: Site, lyon: Site) -> None:
    """Both sites run, with a view of their own each."""
    for site, stream in ((paris, "Far"), (lyon, "Near")):
        (folder / stream).mkdir()
        kind, other = case.kinds
        site.ask(execute=STREAM.format(stream, kind, folder, case.batch, other))
        site.ask(execute=f"CREATE VIEW Running AS SELECT count(*) AS n, max(v) AS v FROM {stream}")
    paris.ask(execute="EXPORT STREAM Far TO SITE lyon")
    if case.exported:
        paris.ask(execute=f"{case.exported}; EXPORT VIEW Sets TO SITE lyon")
    paris.ask(start=1)
    lyon.ask(start=1)


def learn(folder: Path, paris: Site, lyon: Site, near: list[Any], far: list[Any]) -> tuple[list[Any], list[Any]]:
    """A join has asked for samples, and the first ten seconds have come; the rows of the seconds after them."""
    lyon.ask(execute=f"CREATE VIEW Early AS {JOIN}")
    time.sleep(3.0)
    for name, found in (("Near", near), ("Far", far)):
        write(folder, name, [row for row in found if row[2] < 10], number=0)
    time.sleep(15.0)
    lyon.ask(execute="DROP VIEW Early")
    time.sleep(1.0)
    return [row for row in near if row[2] >= 10], [row for row in far if row[2] >= 10]


def wait(lyon: Site, last: int) -> None:
    """Until all edges that lyon reads are closed up to the last time."""
    end = time.monotonic() + PATIENCE_S
    while True:
        reads = lyon.ask(reads=1)
        if reads and all((frontier or 0) >= last * 1_000_000 for _, frontier, _ in reads):
            return
        if time.monotonic() > end:
            raise RuntimeError(f"the sites have not finished: {reads}")
        time.sleep(0.2)


def settled(lyon: Site) -> int:
    """The rows of the log, when everything that has arrived is answered."""
    while lyon.ask(idle=1) < SETTLED_S:
        time.sleep(0.2)
    return int(lyon.ask(rows="V"))


def report(found: dict[str, dict[str, tuple[int, int, int]]], summary: list[str]) -> str:
    """The page."""
    lines = [
        "# Bytes on the wire",
        "",
        "Two sites in network namespaces, with mutual TLS, and between them a forwarder that counts every IP packet.",
        "So the numbers have everything in them: rows, join values, requests, frontiers, TLS and TCP.",
        "`python -m benchmarks.wire` writes this page (Linux, root; some 25 minutes), and a word chooses cases:"
        " `python -m benchmarks.wire grouped`, `points`.",
        "",
        "| case | algorithm | bytes | packets | against `sp_s` | rows of the log |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for case, results in found.items():
        whole = results["sp_s"][0]
        for algorithm, (size, packets, log) in results.items():
            lines.append(f"| {case} | `{algorithm}` | {size:,} | {packets:,} | {size / whole:.1%} | {log:,} |")
    return "\n".join([*lines, "", *summary]) + "\n"


def main() -> None:
    """Words choose cases by their names; without any all cases and points are measured, and the page is written."""
    why = refusal()
    if why:
        sys.exit(f"no emulated network: {why}")
    found: dict[str, dict[str, tuple[int, int, int]]] = {}
    words = sys.argv[1:]
    for case in [c for c in CASES if not words or any(word in c.name for word in words)]:
        for algorithm in case.algorithms:
            found.setdefault(case.name, {})[algorithm] = measured = measure(case, algorithm)
            print(case.name, algorithm, *(f"{n:,}" for n in measured), flush=True)
    if not words or "points" in words:
        summary = summarise(measure_points())
        print("\n".join(summary), flush=True)
        if not words:
            PAGE.write_text(report(found, summary))


if __name__ == "__main__":
    main()
