"""What the experiments of paper 004 share: how much is measured, and the result that every figure adds to."""

from __future__ import annotations

from typing import Any

from benchmarks import data
from benchmarks.report import Check, Result
from benchmarks.temperature import MORE_ROOMS, PERIODS, RATE, ROOMS


class Sheet:
    """Sizes and axes of one run, and its result: tables, series, and the findings that were checked."""

    def __init__(self, quick: bool, steps: Any) -> None:
        self.tuples = 60_000 if quick else 1_200_000
        self.rounds = 3
        self.thin = 3 if quick else 1
        self.steps = steps
        self.result = Result(
            "Tagger, select-tagger, synchronizer, presynchronization",
            f"The experiments of paper 004, sections 10.3 to 10.5: {self.tuples:,} readings of {ROOMS} or {MORE_ROOMS}"
            f" rooms in {data.BUILDINGS} buildings, {RATE:,} tuples a second, temperatures from {data.COLDEST} to"
            f" {data.HOTTEST}. One pipeline runs in one process (one reader, one shard). Times of figures 7 to 11 are"
            " of the processor, in all threads. *Operators* is reading and operators; *with output* is also the making"
            " of tagged tuples and storing them in the view, which here happens behind the pipeline. The paper's time"
            " ends with the tagged tuple, so it lies between the two. The paper ran one tuple at a time on a 2.4 GHz"
            " Pentium 4 (12 to 16 thousand tuples/s); here a micro-batch is a set of tuples, so the axes are the same"
            " and the seconds are not.",
        )

    @property
    def sizes(self) -> list[int]:
        return [self.tuples * n // 6 for n in (2, 3, 4, 5, 6)][:: 2 if self.thin > 1 else 1]

    @property
    def selectivities(self) -> list[int]:
        """In parts of the 28 temperatures, so that key and non-key predicates select exactly as much."""
        return [0, 14, 28] if self.thin > 1 else [0, 4, 8, 12, 16, 20, 24, 28]

    @property
    def periods(self) -> tuple[int, ...]:
        return PERIODS[:: self.thin]

    def finding(self, what: str, target: str, measured: str, met: bool) -> None:
        self.result.checks.append(Check(what, target, measured, met))
