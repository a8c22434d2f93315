"""`python -m benchmarks.wire`: what crosses between two sites for each algorithm, as a page of docs/benchmarks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sites.certificates import make_authority, make_certificate
from tests.sites.emulator import Emulator, refusal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "sites.md"
PORT, PATIENCE_S = 7443, 240.0
STREAM = """
REGISTER SOURCE {0}Source (k {1}, v VARCHAR, tm INTEGER) FROM FILES '{2}/{0}/*.csv'
  WITH (timestamp = 'tm', batch_rows = {3});
CREATE TAGGED STREAM {0} OVER {0}Source;
"""
JOIN = "SELECT A.k, A.v AS a, B.v AS b FROM Near [WINDOW 3] A JOIN paris.Far [WINDOW 3] B ON A.k = B.k"


@dataclass(frozen=True)
class Case:
    """Rows of both streams, how many of them come in a micro-batch, and the algorithms that are compared."""

    name: str
    near: Callable[[random.Random], list[tuple[Any, str, int]]]
    far: Callable[[random.Random], list[tuple[Any, str, int]]]
    kind: str
    batch: int
    algorithms: tuple[str, ...]


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
        "INTEGER",
        300,
        ("sp_s", "sm_s1", "sm_s2", "bloom"),
    ),
    Case(
        "everything matches, 1,250 B rows, 300/s",
        rows(1, 10, 2, 10),
        rows(1, 1250, 300, 10),
        "INTEGER",
        300,
        ("sp_s", "auto"),
    ),
    Case(
        "10⁵ keys of 36 B, 5 % match",
        each_key(100_000, 36, 10),
        rows(2_000_000, 100, 2000, 10, 36),
        "VARCHAR",
        20_000,
        ("sp_s", "sm_s1", "bloom"),
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


def write(folder: Path, name: str, found: list[Any], last: int) -> None:
    (folder / name).mkdir(exist_ok=True)
    lines = [f"{k},{v},{t}" for k, v, t in found]
    text = "k,v,tm\n" + "\n".join([*lines, f",,{last}", f",,{last + 1}"]) + "\n"
    draft = folder / f"{name}.part"
    draft.write_text(text)
    draft.rename(folder / name / "1.csv")


def measure(case: Case, algorithm: str, delay: float = 0.025) -> tuple[int, int, int]:
    """(bytes that crossed, packets, rows of the log) of a case."""
    chance = random.Random(7)
    near, far = case.near(chance), case.far(chance)
    last = max(near[-1][2], far[-1][2]) + 10
    with tempfile.TemporaryDirectory() as name, Emulator(delay=delay) as network:
        folder = Path(name)
        make_authority(folder)
        (folder / "token").write_text("a shared secret\n")
        for site in ("paris", "lyon"):
            make_certificate(folder, site)
        paris, lyon = Site(network, 0, folder / "p"), Site(network, 1, folder / "l")
        for stream in ("Near", "Far"):
            (folder / stream).mkdir()
        paris.ask(execute=site_text(folder, "paris", "lyon", network.addresses))
        lyon.ask(execute=site_text(folder, "lyon", "paris", network.addresses[::-1]))
        paris.ask(execute=STREAM.format("Far", case.kind, folder, case.batch) + "EXPORT STREAM Far TO SITE lyon")
        lyon.ask(execute=STREAM.format("Near", case.kind, folder, case.batch))
        paris.ask(execute="CREATE VIEW Running AS SELECT count(*) AS n FROM Far")
        lyon.ask(execute="CREATE VIEW Running AS SELECT count(*) AS n FROM Near")
        paris.ask(start=1)
        lyon.ask(start=1)
        lyon.ask(execute=f"SET site_join = {algorithm}; CREATE STREAMED VIEW V AS {JOIN}")
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
    """The rows of the log, when there are no more of them."""
    seen: list[int] = []
    while len(seen) < 4 or len(set(seen[-4:])) > 1:
        time.sleep(0.5)
        seen.append(lyon.ask(rows="V"))
    return seen[-1]


def report(found: dict[str, dict[str, tuple[int, int, int]]]) -> str:
    """The page."""
    lines = [
        "# Bytes on the wire",
        "",
        "Two sites in network namespaces, with mutual TLS, and between them a forwarder that counts every IP packet.",
        "So the numbers have everything in them: rows, join values, requests, frontiers, TLS and TCP.",
        "`python -m benchmarks.wire` writes this page (Linux, root).",
        "",
        "| case | algorithm | bytes | packets | against `sp_s` | rows of the log |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for case, results in found.items():
        whole = results["sp_s"][0]
        for algorithm, (size, packets, log) in results.items():
            lines.append(f"| {case} | `{algorithm}` | {size:,} | {packets:,} | {size / whole:.1%} | {log:,} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    why = refusal()
    if why:
        sys.exit(f"no emulated network: {why}")
    found: dict[str, dict[str, tuple[int, int, int]]] = {}
    chosen = [c for c in CASES if not sys.argv[1:] or any(word in c.name for word in sys.argv[1:])]
    for case in chosen:
        for algorithm in case.algorithms:
            found.setdefault(case.name, {})[algorithm] = measured = measure(case, algorithm)
            print(case.name, algorithm, *(f"{n:,}" for n in measured), flush=True)
    if len(chosen) == len(CASES):
        PAGE.write_text(report(found))


if __name__ == "__main__":
    main()
