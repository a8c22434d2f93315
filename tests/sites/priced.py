"""What each way to join is said to cost and what it does cost, in one process: seven views that differ in nothing but
the algorithm, over streams of a few seconds, and the bytes of their edges.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import LocalDatabase
from tests.sites.two_sites import Network, equal_sites, settle_all
from tidemill.engine.sites.remarks import _beginning
from tidemill.plan.sites import ALGORITHMS
from tidemill.sql.bind.imported_names import IMPORTS, PLACED

STREAM = """
REGISTER SOURCE {0}Source (k {2}, v VARCHAR, tm INTEGER) FROM FILES '{1}/{0}/*.csv' WITH (timestamp = 'tm');
CREATE TAGGED STREAM {0} OVER {0}Source;
"""
JOIN = "SELECT A.k, A.v AS a, B.v AS b FROM Near [WINDOW {0}] A JOIN paris.Far [WINDOW {0}] B ON A.k = B.k"


@dataclass(frozen=True)
class Kind:
    """Rows a second, their join values 0, 1, 2, …, and bytes of a row that cannot be compressed to less than half."""

    rate: int
    keys: int
    size: int


@dataclass(frozen=True)
class Point:
    """Two streams whose join values are whole numbers, or texts of `width` letters, and the window of both."""

    near: Kind
    far: Kind
    width: int = 0
    window: int = 3


def measure_point(
    folder: Path, point: Point, warm: int = 30, seconds: int = 6, algorithms: tuple[str, ...] = tuple(ALGORITHMS)
) -> dict[str, tuple[float, float]]:
    """For each algorithm bytes a second both ways, as EXPLAIN says and as counted."""
    clock = _Clock(folder, point)
    with equal_sites(folder, "paris", "lyon") as (network, (paris, lyon)):
        _begin(folder, point, network, paris, lyon)
        clock.tick(network, warm)
        for db in (paris, lyon):
            db.state.sites.service.measures.interval = 1.0  # as if a second here took a second
        for name in algorithms:
            options = "" if name == "auto" else f" WITH (site_join = '{name}')"
            lyon.execute(f"CREATE STREAMED VIEW V_{name}{options} AS {JOIN.format(point.window)}")
        settle_all(network)
        for _ in range(2 * point.window + 1):
            clock.tick(network)
        before = {name: crossed(lyon, f"V_{name}") for name in algorithms}
        for _ in range(seconds):
            clock.tick(network)
        after = {name: crossed(lyon, f"V_{name}") for name in algorithms}
        return {n: (_predicted(lyon, f"V_{n}"), (after[n] - before[n]) / seconds) for n in algorithms}


def crossed(db: LocalDatabase, view: str) -> int:
    """Bytes that have crossed, both ways, for the join of a view."""
    options = db.catalog.find(view).options
    read = {*options.get(IMPORTS, {}).values(), *options.get(PLACED, ())[:1]}
    beginning, total = _beginning(read), 0
    for site in db.status()["sites"]:
        total += sum(e["received"] for e in site["reads"] if e["edge"] in read or e["edge"].startswith(beginning))
        total += sum(e["sent"] for e in site["sends"] if e["edge"].startswith(beginning))
    return total


def _predicted(db: LocalDatabase, view: str) -> float:
    [way] = [w for w in db.catalog.find(view).options["site_costs"] if w.get("chosen")]
    assert not way["assumed"], way
    return float(way["in"] + way["out"])


def _begin(folder: Path, point: Point, network: Network, paris: LocalDatabase, lyon: LocalDatabase) -> None:
    """Both sites know their streams and sample them, because a join has asked."""
    kind = "VARCHAR" if point.width else "INTEGER"
    for name in ("Near", "Far"):
        (folder / name).mkdir()
    paris.execute(STREAM.format("Far", folder, kind) + "EXPORT STREAM Far TO SITE lyon")
    paris.execute("CREATE VIEW W AS SELECT k, v FROM Far")
    lyon.execute(STREAM.format("Near", folder, kind) + "CREATE VIEW W AS SELECT k, v FROM Near")
    lyon.execute(f"CREATE VIEW Early AS {JOIN.format(point.window)}")
    settle_all(network)
    lyon.execute("DROP VIEW Early")
    settle_all(network)
    paris.start()
    lyon.start()


class _Clock:
    """Seconds of both streams, one after the other."""

    def __init__(self, folder: Path, point: Point) -> None:
        self._folder, self._point, self._chance, self._time = folder, point, random.Random(5), 0

    def tick(self, network: Network, seconds: int = 1) -> None:
        """One more second, or several at once, and all that follows from it."""
        for name, kind in (("Near", self._point.near), ("Far", self._point.far)):
            times = [self._time + n // kind.rate for n in range(seconds * kind.rate)]
            lines = "".join(f"{self._key(kind)},{self._text(kind)},{time}\n" for time in times)
            (self._folder / name / f"{self._time:04d}.csv").write_text("k,v,tm\n" + lines)
        self._time += seconds
        for _ in range(3):
            for db in network.nodes.values():
                db.step()
                settle_all(network)

    def _key(self, kind: Kind) -> Any:
        key = self._chance.randrange(kind.keys)
        return f"{key:0{self._point.width}d}" if self._point.width else key

    def _text(self, kind: Kind) -> str:
        return self._chance.randbytes(kind.size // 2).hex()
