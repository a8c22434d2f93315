"""Section 8.2 of paper 002: is the time of the engine really c1 for each probe and c2 for each eviction?

The paper fits cpu_cnt = c1 · in_tuple_cnt + c2 · out_tuple_cnt to log records of one query. Here a record is one
micro-batch of the engine, from the reader's first row to the end of the stage, in one process: rows read, probes (rows
times relations, since there are no phantoms), entries evicted, and seconds of the processor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.experiments.checks import Explained
from benchmarks.experiments.phantoms.setting import Part, Setting
from benchmarks.report import Check, Table
from tidemill.engine.workload import Workload
from tidemill.plan.physical import Physical
from tidemill.runtime.calibrate.sharing import batch_cost
from tidemill.runtime.paths import Paths, write_bytes
from tidemill.runtime.spark.shard_labels import shard_labels
from tidemill.sql.catalog import Catalog
from tidemill.sql.parse.statements import parse

ATTRIBUTES, GROUPS = "abcd", 2_000
MEMORIES = (1, 8_000, 24_000, 64_000, 1 << 18)
QUERIES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Record:
    """One micro-batch."""

    rows: int
    probes: int
    evictions: int
    seconds: float


@dataclass(frozen=True)
class Fit:
    """Seconds for each term, and how far the fit is from the records."""

    terms: tuple[float, ...]
    square_error: float
    median_error: float

    @property
    def ratio(self) -> float:
        """c2 / c1: evictions stand last, probes before them."""
        return self.terms[-1] / self.terms[-2]


def fitted(records: Sequence[Record], terms: Callable[[Record], tuple[float, ...]]) -> Fit:
    """Least squares; the square error is relative to the mean square of the times.

    >>> line = [Record(n, n, e, 2.0 * n + 30.0 * e) for n, e in ((10, 1), (10, 5), (40, 2))]
    >>> fit = fitted(line, lambda r: (r.probes, r.evictions))
    >>> round(fit.ratio, 6), round(fit.square_error, 6)
    (15.0, 0.0)
    """
    given, times = np.array([terms(r) for r in records], float), np.array([r.seconds for r in records])
    found = np.linalg.lstsq(given, times, rcond=None)[0]
    off = given @ found - times
    return Fit(
        tuple(map(float, found)), float((off**2).sum() / (times**2).sum()), float(np.median(np.abs(off / times)))
    )


def costs(setting: Setting, done: Callable[[str], None]) -> Part:
    """Records of several batch sizes, table sizes and numbers of relations, and the fits of two models to them."""
    sizes, rounds = ((60_000, 120_000), 2) if setting.quick else ((200_000, 400_000, 800_000), 5)
    records = costs_of(sizes, rounds)
    done("regression of c1 and c2")
    paper = fitted(records, lambda r: (r.rows, r.evictions))
    ours = fitted(records, lambda r: (1.0, r.rows, r.probes, r.evictions))
    table = Table(
        "Section 8.2: processor time of micro-batches by least squares, nanoseconds",
        ["model", "a row", "a probe (c1)", "an eviction (c2)", "c2 / c1", "mean square error", "median error"],
        [
            [
                "rows in and entries out, as the paper",
                paper.terms[0] * 1e9,
                "",
                paper.terms[1] * 1e9,
                paper.terms[1] / paper.terms[0],
                f"{paper.square_error:.2%}",
                f"{paper.median_error:.1%}",
            ],
            [
                "a batch, rows, probes and evictions",
                *(t * 1e9 for t in ours.terms[1:]),
                ours.ratio,
                f"{ours.square_error:.2%}",
                f"{ours.median_error:.1%}",
            ],
        ],
        f"{len(records)} records: {', '.join(f'{s:,}' for s in sizes)} generated rows, {QUERIES[0]} to {QUERIES[-1]}"
        f" relations of {GROUPS:,} groups without phantoms, tables of {MEMORIES[0]} to {MEMORIES[-1]:,} units; least of"
        f" {rounds} runs each. A row is made, stamped and given a fragment whatever the relations are, so it has a term"
        f" of its own, as has a micro-batch ({ours.terms[0] * 1e3:.1f} ms). In Gigascope an eviction crosses from the"
        " card to the host and costs 15 probes. Here entries of one group are put together in the reader, and one more"
        " of a group that leaves anyway is all that a configuration can save.",
    )
    return Part([], [table], [_check(ours)])


def _check(fit: Fit) -> Check:
    return Explained(
        "section 8.2: time by rows, probes and evictions, mean square error",
        "< 1 %",
        f"{fit.square_error:.2%}; c2 / c1 = {fit.ratio:.1f}",
        fit.square_error < 0.01,
        "Entries are put together by sorting, so an eviction costs more where there are many; and a probe of a table"
        " that leaves the cache costs more than one of a small table. The model has one constant for each.",
    )


def costs_of(sizes: Sequence[int], rounds: int) -> list[Record]:
    """All combinations; they take turns, so that a busy moment does not fall on one of them alone."""
    with tempfile.TemporaryDirectory(prefix="tidemill-") as folder:
        points = [(rows, queries, memory) for rows in sizes for queries in QUERIES for memory in MEMORIES]
        for version, point in enumerate(points, 1):
            write_bytes(Paths(folder).plan(version), _plan(version, *point).to_json().encode())
        taken: list[list[float]] = [[] for _ in points]
        evicted = [0] * len(points)
        for _ in range(rounds):
            for i in range(len(points)):
                seconds, evicted[i] = batch_cost(folder, i + 1)
                taken[i].append(seconds)
    return [Record(rows, rows * queries, evicted[i], min(taken[i])) for i, (rows, queries, _) in enumerate(points)]


def _plan(version: int, rows: int, queries: int, memory: int) -> Physical:
    """One raw relation for each query; its window ends after the last row, so that nothing is reported."""
    workload = Workload(Catalog(), 1_000_000)
    for name, value in (("lfta_memory", str(memory)), ("phantoms", "off")):
        workload.sharing.set(name, value)
    workload.sharing.settings.budget = None  # entries wait and are put together as in a roomy reader
    columns = ", ".join(f"{a} INTEGER" for a in ATTRIBUTES)
    drawn = ", ".join(f"{a} = 'uniform(1,{GROUPS})'" for a in ATTRIBUTES)
    text = (
        f"REGISTER SOURCE S ({columns}, v INTEGER, at TIMESTAMP) FROM GENERATE (rate = 1000000, rows = {rows},"
        f" {drawn}, v = 'uniform(1,100)') WITH (timestamp = 'at'); CREATE TAGGED STREAM T OVER S;"
    )
    text += ";".join(
        f"CREATE VIEW W{a} AS SELECT {a}, count(*) AS n, sum(v) AS s FROM T [RANGE 1 HOUR] GROUP BY {a}"
        for a in ATTRIBUTES[:queries]
    )
    source, stream, *views = parse(text)
    workload.register(source)  # type: ignore[arg-type]
    workload.create_stream(stream)  # type: ignore[arg-type]
    for view in views:
        workload.create_view(view)  # type: ignore[arg-type]
    return workload.physical(version, shard_labels(1), keep=True)
