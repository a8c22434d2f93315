"""The comparison as tables and promises."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.report import Check, Result, Table
from benchmarks.sides import IN_AN_ENGINE_THAT_IS_UP, WHOLE, medians
from benchmarks.throughput.comparison import CUTS, Measured
from benchmarks.throughput.questions import EVERY, FILES, FILES_A_BATCH, NAMES

TARGET, ASKED = 3.0, "refreshed"
# What a ratio is of: the question and Spark's side of it.
LABELS = {
    ("refreshed", "spark"): f"{NAMES['refreshed']}, as asked",
    ("refreshed", "by hand"): f"{NAMES['refreshed']}; Spark's totals by hand in foreachBatch",
    ("count", "spark"): f"{NAMES['count']}; Spark shows it once a micro-batch: less work",
    ("windows", "spark"): f"{NAMES['windows']}; no running count",
}


def page(found: Measured) -> Result:
    """Everything that was measured."""
    result = Result("Throughput against Spark Structured Streaming", _setup(found))
    result.tables += [_medians(found), _pace_table(found), _every(found), _tried(found)]
    result.checks += _checks(found)
    result.series["bars"] = [
        [f"{_short(work, side)},\n{CUTS[cut]}", *(found.rows / seconds[s] / 1e6 for s in ("tidemill", side))]
        for work, side, cut, seconds in _compared(found)
    ]
    return result


def _setup(found: Measured) -> str:
    return (
        f"{found.rows:,} packet rows (k of 1,000 keys, proto, len, ts over one hour) in {FILES} Parquet files; half of"
        " them pass the filter. Time is one whole streaming query to its last answer, in sessions that had already run"
        " the same query on a twentieth of the data."
        + IN_AN_ENGINE_THAT_IS_UP
        + f" *{NAMES['refreshed'].capitalize()}* is the question of the target: at every {EVERY} s of event time,"
        " for each key with new rows, a row with the time and the count so far. Tidemill: a STREAMED view with SYNC"
        " EVERY. Spark: windows with a watermark of 0 s in append mode and a running sum of each key above them, in one"
        " query and with all state in Spark, in whichever of the ways below is fastest; beside it the same windows"
        " with the running sum by hand in foreachBatch, whose totals the user keeps in files of his own. Both sides"
        f" said the same at each of the {found.points.get('refreshed', 0):,} refresh points before the last row."
        f" Two other questions stand beside it, without a target. *{NAMES['count'].capitalize()}*: Tidemill keeps a"
        f" COMPLETE view right at every {EVERY} s; Spark's count is refreshed at the end of each micro-batch only,"
        f" which is less work and says less. *{NAMES['windows'].capitalize()}*: the counts of each window by"
        f" themselves, as rows, on both sides. *Same batches*: {found.batch_rows:,} rows or {FILES_A_BATCH} files a"
        " micro-batch; *default batches*: what each side takes when nothing is said (Spark: everything at once). Spark"
        " runs with code generation, a 4 GB heap and a shuffle partition for each core."
    )


def _short(work: str, side: str) -> str:
    return NAMES[work] + ("; by hand" if side == "by hand" else "")


def _compared(found: Measured) -> list[tuple[str, str, str, dict[str, float]]]:
    """Question, Spark's side of it, cut, and the median seconds of all sides."""
    return [
        (work, side, cut, medians(runs, "seconds"))
        for work, cuts in found.runs.items()
        for side in ("spark", "by hand")
        for cut, runs in cuts.items()
        if side in runs
    ]


def _medians(found: Measured) -> Table:
    lines = []
    for work, side, cut, seconds in _compared(found):
        runs, mine, its = found.runs[work][cut], seconds["tidemill"], seconds[side]
        batches = [runs[s][0]["batches"] for s in ("tidemill", side)]
        speeds = [found.rows / s / 1e6 for s in (mine, its)]
        lines.append([LABELS[work, side], CUTS[cut], *batches, mine, its, *speeds, its / mine])
    columns = [
        "question", "batches", "batches of Tidemill", "of Spark", "Tidemill s", "Spark s", "Tidemill M rows/s",
        "Spark M rows/s", "ratio",
    ]  # fmt: skip
    return Table("Medians", columns, lines)


def pace(runs: list[Any]) -> tuple[float, float]:
    """Medians: seconds to the first answer, and from one answer to the next.

    >>> pace([{"ends": [3.0, 4.0, 5.0]}, {"ends": [2.0, 3.0, 6.0]}])
    (2.5, 1.0)
    """
    gaps = [b - a for r in runs for a, b in pairwise(r["ends"])]
    return median(r["ends"][0] for r in runs), median(gaps)


def _pace_table(found: Measured) -> Table:
    rows = [
        [NAMES[work], side, *pace(runs)] for work, cuts in found.runs.items() for side, runs in cuts["same"].items()
    ]
    return Table(
        "Where the time goes (same batches, seconds)",
        ["question", "side", "first answer after", "each further batch"],
        rows,
        "The first answer includes the start of the query, or the statements; all of it is in the ratio above. Bringing"
        f" up Tidemill's job, which is not, took {_warming(found):.1f} s.",
    )


def _warming(found: Measured) -> float:
    """The median time to bring the engine up in a session that is there."""
    return median(r["warm"] for cuts in found.runs.values() for sides in cuts.values() for r in sides["tidemill"])


def _every(found: Measured) -> Table:
    rows = [
        [NAMES[work], CUTS[cut], side, " ".join(f"{r['seconds']:.2f}" for r in runs)]
        for work, cuts in found.runs.items()
        for cut, sides in cuts.items()
        for side, runs in sides.items()
    ]
    return Table("All runs, seconds", ["question", "batches", "side", "seconds"], rows)


def _tried(found: Measured) -> Table:
    rows = [
        [NAMES[work], way, store, seconds]
        for work, ways in found.tried.items()
        for (way, store), seconds in ways.items()
    ]
    return Table(
        "Ways tried for Spark (same batches, one run each)",
        ["question", "way", "state", "seconds"],
        rows,
        "Spark refuses applyInPandasWithState above an aggregation, so it can only take the rows themselves.",
    )


def _checks(found: Measured) -> list[Check]:
    """The target is about the question as asked, with the same batches."""
    runs = found.runs[ASKED]["same"]
    seconds = medians(runs, "seconds")
    ratios = {
        WHOLE: seconds["spark"] / seconds["tidemill"],
        "after the first answer": pace(runs["spark"])[1] / pace(runs["tidemill"])[1],
    }
    return [
        Check(
            f"{NAMES[ASKED]}: rows/s against Spark, same batches, {which}",
            f"≥ {TARGET:g} ×",
            f"{ratio:.2f} ×",
            ratio >= TARGET,
        )
        for which, ratio in ratios.items()
    ]
