"""Plans executed by the slow twins of the paper's algorithms: bytes, messages and operations, as seconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from benchmarks.experiments.sites.settings import CONSTANTS, DELTA, Point
from tests.sites.twins import MultiWay, Step, Wire, run_sequences
from tests.sites.twins.data import Kind, count_bytes, make_stream
from tidemill.optimize.sites import Constants, Link, SequencePlan


@cache
def run_join(name: str, first: Kind, second: Kind, tau: int, seconds: int) -> tuple[Wire, float]:
    """A one-way join, and over how many seconds it was counted; latency and bandwidth change nothing of it."""
    return count_bytes(name, first, second, tau, delta=DELTA, seconds=seconds)


def time_point(name: str, point: Point, seconds: int) -> float:
    """Execution time in a second: transmission and processing."""
    wire, counted = run_join(name, point.first, point.second, point.tau, seconds)
    return execution_time(wire, point.link, CONSTANTS, counted)


def count_point(name: str, point: Point, seconds: int) -> float:
    """Bytes a second."""
    wire, counted = run_join(name, point.first, point.second, point.tau, seconds)
    return wire.total / counted


def execution_time(wire: Wire, link: Link, constants: Constants, seconds: float) -> float:
    work = wire.work
    spent = work.probes * constants.c_p + work.updates * constants.c_u + work.hashes * constants.c_h
    return (wire.seconds(link.latency, link.bandwidth) + spent) / seconds


def time_plan(
    kinds: Sequence[Kind],
    pairs: Sequence[tuple[int, int]],
    plan: SequencePlan,
    link: Link,
    *,
    shared: bool = False,
    tau: int = 100,
    intervals: int = 5,
) -> float:
    """Execution time of a plan in a second, counted over some intervals after the windows have filled.

    The rows of the last step of each sequence are counted as probes and not made: the paper charges no result.
    """
    grace = DELTA + tau
    warm = -(-(max(k.window for k in kinds) + grace) // tau) * tau
    until = warm + intervals * tau
    streams = [make_stream(i, k, until, 5, len(pairs)) for i, k in enumerate(kinds)]
    wire = Wire(counting=lambda t: t > warm)
    sequences = []
    for head, steps in enumerate(plan):
        made = MultiWay(wire, streams, pairs, head, [Step(s.stream, s.algorithm) for s in steps], grace, shared)
        made.joins[-1].makes_rows = False
        sequences.append(made)
    run_sequences(sequences, until, tau)
    return execution_time(wire, link, CONSTANTS, intervals * tau / 1000)
