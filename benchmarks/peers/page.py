"""The comparison as tables and promises."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks import flink, packets
from benchmarks.peers.figures import Figures
from benchmarks.peers.workloads import ASKED, EACH, ONE, PANES, SHARED, WORKS
from benchmarks.report import Check, Result, Table
from benchmarks.sides import IN_AN_ENGINE_THAT_IS_UP, WHOLE

TARGETS = {
    "Spark": {"W1": 15.0, "W2": 60.0, "W3": 150.0},
    "Flink": {"W1": 15.0, "W2": 8.0, "W3": 30.0},
    "DuckDB": {"W1": 1.0, "W2": 0.5, "W3": 3.0},
}
MANY_TARGET, MIXTURE_TARGET = 1 / 3, 20.0
# The ways to write a work as it is asked, and those that need knowledge of the engine and of all queries at once.
SIDES = {"Spark": (EACH,), "Flink": ("flink",), "DuckDB": (ASKED,)}
BY_HAND = {"Spark": (ONE, PANES), "DuckDB": (SHARED,)}
ABSENT, NONE = "not installed", "–"


def page(found: Figures) -> Result:
    """Everything that was measured."""
    result = Result("Window aggregates against Spark, Flink and DuckDB", _setup(found))
    result.tables += [_rates(found), _steady(found), _ways(found), _many(found), _mixture(found), _every(found)]
    result.tables.append(_tried(found))
    for work in WORKS:
        for peer in TARGETS:
            result.checks += _checks(found, work, peer)
    result.checks += [*_many_checks(found), _mixture_check(found)]
    result.series = _series(found)
    return result


def _setup(found: Figures) -> str:
    works = "; ".join(f"*{name}*: {work.title}" for name, work in WORKS.items())
    compared = ", ".join(f"{rows:,} rows of {work}" for work, rows in found.compared.items())
    return (
        f"{found.rows:,} rows (sip, dip, sp, dp, len, ts) of a generated packet trace in 16 Parquet files:"
        f" {packets.RATE:,} packets a second of event time, flows of {packets.FLOW} packets that interleave,"
        f" {packets.SOURCES} to {packets.GROUPS:,} groups a minute in one to four attributes, as in the trace of paper"
        f" 002. {works}; each query has count(*) and sum(len). *W5*: {found.many_queries:,} queries as in Table II of"
        f" paper 003, slides of {found.many_slides} by its Zipf law and ranges of 1 to 50 slides, each with one of 36"
        " predicates and one of 15 group-bys, Tidemill only; the paper's short slides are left out, so that the answers"
        " have less than a tenth as many rows as the input."
        " A rate is rows of input per second over the whole query to its last answer, in sessions that had run the same"
        " on a smaller trace."
        + IN_AN_ENGINE_THAT_IS_UP
        + " Of W5 the time to create the views stands by itself. Answers end in"
        " Tidemill's stored views, in Spark's driver as Arrow tables, in Parquet files of Flink, in tables in memory of"
        f" DuckDB. Spark and Flink ran once, Tidemill and DuckDB in turns, rounds: {found.rounds}. Spark: availableNow,"
        f" a watermark without delay, append. Flink {flink.VERSION}: streaming mode, window table functions, one"
        " statement set, so that the queries of a work read the source once, state on the heap, no checkpoints."
        " DuckDB is no streaming engine: it is what a machine can do when it has all rows at once."
        " The targets are about the queries *as asked*: each is written by itself and shares nothing with its"
        " neighbours; in Spark with its window function, in DuckDB, which has none, over panes of the query's slide."
        " *By hand* stands beside it, without a target: the fastest of all ways in which an expert who knows the engine"
        " and all the queries can write the work. Every side's answers were equal"
        f" to Tidemill's in all windows that ended before the last packet: {compared}."
        + ("" if flink.python() else " Flink is not installed here.")
    )


def _best(found: Figures, work: str, peer: str, steady: bool = False) -> float | None:
    """The rate of the fastest way as asked, which is what counts."""
    return _fastest(found, work, SIDES[peer], steady)


def _by_hand(found: Figures, work: str, peer: str, steady: bool = False) -> float | None:
    """The rate of the fastest way of all; None when nothing was written by hand."""
    hand = _fastest(found, work, BY_HAND[peer], steady)
    return None if hand is None else max(hand, _best(found, work, peer, steady) or 0.0)


def _fastest(found: Figures, work: str, sides: tuple[str, ...], steady: bool) -> float | None:
    rate = found.steady if steady else found.rate
    rates = [r for side in sides if (r := rate(work, side)) is not None]
    return max(rates) if rates else None


def _millions(rate: float | None) -> float | str:
    return ABSENT if rate is None else rate / 1e6


def _times(mine: float, other: float | None) -> float | str:
    return ABSENT if other is None else mine / other


def _table(found: Figures, title: str, steady: bool, note: str) -> Table:
    rows = []
    for work in WORKS:
        mine = found.steady(work, "tidemill") if steady else found.rate(work, "tidemill")
        assert mine is not None
        peers = [_best(found, work, peer, steady) for peer in TARGETS]
        shown_hand: list[float | str] = []
        for peer in BY_HAND:
            hand = _by_hand(found, work, peer, steady)
            shown_hand += [NONE, NONE] if hand is None else [hand / 1e6, mine / hand]
        rows.append([work, mine / 1e6, *map(_millions, peers), *(_times(mine, p) for p in peers), *shown_hand])
    columns = ["work", "Tidemill", *TARGETS, *(f"Tidemill : {peer}" for peer in TARGETS)]
    for peer in BY_HAND:
        columns += [f"{peer}, by hand", f"Tidemill : {peer}, by hand"]
    return Table(title, columns, rows, note)


def _rates(found: Figures) -> Table:
    return _table(
        found,
        f"Million rows/s, {WHOLE}, {found.rows:,} rows",
        False,
        "*By hand*: Spark counts every row in each window that it is in. A user who knows this can write every sliding"
        " query in two steps, first windows of one slide, then windows over those; and the four group-bys in one pass"
        " that copies each row four times. For DuckDB he can write one scan for all queries, into panes of all twenty"
        " windows, or into groups of all attributes that feed the four group-bys. It is shown beside the queries as"
        " they are asked, which is what the targets are about.",
    )


def _steady(found: Figures) -> Table:
    return _table(
        found,
        "Million rows/s, sustained",
        True,
        f"Tidemill from the end of its first micro-batch to the end of its last, and DuckDB's fastest way of all, over"
        f" {found.long_rows:,} rows; Flink's job without planning and submission; Spark and DuckDB as asked as above.",
    )


def _ways(found: Figures) -> Table:
    names = {"flink": "Flink", ASKED: "DuckDB, as asked", SHARED: "DuckDB, by hand", EACH: "Spark, as asked"}
    rows = [
        [work, names.get(side, "Spark, by hand"), how, _millions(found.rate(work, side))]
        for work, ways in found.ways.items()
        for side, how in ways.items()
    ]
    return Table("How the others ran", ["work", "side", "way", "million rows/s"], rows)


def _many(found: Figures) -> Table:
    rows = []
    for which, count in (("one", 1), ("all", found.many_queries)):
        runs = found.many[which]
        whole = found.long_rows / median(r["running"] for r in runs) / 1e6
        steady = median(r["sustained"] for r in runs) / 1e6
        rows.append([count, whole, steady, runs[0]["out"], median(r["creating"] for r in runs)])
    return Table(
        f"W5, Tidemill, {found.long_rows:,} rows",
        ["queries", "million rows/s, whole run", "sustained", "rows of the answers", "creating the views s"],
        rows,
    )


def _mixture_seconds(found: Figures) -> tuple[float, float]:
    """Tidemill's, statements included, and DuckDB's for all queries at the pace of the sample."""
    sample = median(r["seconds"] for r in found.mixture["duckdb"])
    return median(r["seconds"] for r in found.mixture["tidemill"]), sample * found.many_queries / found.mixture_sample


def _mixture(found: Figures) -> Table:
    mine, other = _mixture_seconds(found)
    out = found.mixture["tidemill"][0]["out"]
    rows = [
        [side, s, found.rows / s / 1e6, (found.rows + out) / s / 1e6]
        for side, s in (("Tidemill", mine), ("DuckDB, one by one", other))
    ]
    return Table(
        f"A mixture of {found.many_queries:,} unlike queries, {found.rows:,} rows in, {out:,} rows of answers",
        ["side", "seconds", "million rows/s in", "million rows/s in and out"],
        rows,
        "Ranges and slides of 20 to 600 s, one or two group attributes, predicates of one or two comparisons joined by"
        " AND or OR, count(*) with sum, min or max. Tidemill's time includes the statements and their planning. DuckDB"
        f" answered {found.mixture_sample} of the queries, over panes of the query's slide; its seconds are scaled to"
        " all of them.",
    )


def _mixture_check(found: Figures) -> Check:
    mine, other = _mixture_seconds(found)
    what = f"mixture of {found.many_queries:,} unlike queries: rows/s against DuckDB answering one by one, whole run"
    return Check(what, f"≥ {MIXTURE_TARGET:g} ×", f"{other / mine:.2f} ×", other / mine >= MIXTURE_TARGET)


def _every(found: Figures) -> Table:
    rows = [
        [f"{work}, {size:,} rows", side, " ".join(f"{r['seconds']:.2f}" for r in runs)]
        for size, works in ((found.rows, found.runs), (found.long_rows, found.long))
        for work, sides in works.items()
        for side, runs in sides.items()
    ]
    for which, runs in found.many.items():
        rows.append([f"W5, {which}", "tidemill", " ".join(f"{r['seconds']:.2f}" for r in runs)])
    return Table("All runs, seconds", ["work", "side", "seconds"], rows)


def _tried(found: Figures) -> Table:
    return Table(
        "Ways tried (one run each; Spark and Flink on a smaller trace)", ["work", "side", "way", "seconds"], found.tried
    )


def _checks(found: Figures, work: str, peer: str) -> list[Check]:
    made = []
    for steady, which in ((False, WHOLE), (True, "sustained")):
        mine = found.steady(work, "tidemill") if steady else found.rate(work, "tidemill")
        other, target = _best(found, work, peer, steady), TARGETS[peer][work]
        assert mine is not None
        if other is not None:
            ratio = mine / other
            what = f"{work}, {WORKS[work].title}: rows/s against {peer} as asked, {which}"
            made.append(Check(what, f"≥ {target:g} ×", f"{ratio:.2f} ×", ratio >= target))
    return made


def _many_checks(found: Figures) -> list[Check]:
    one, every = found.many["one"], found.many["all"]
    whole = median(r["running"] for r in one) / median(r["running"] for r in every)
    steady = median(r["sustained"] for r in every) / median(r["sustained"] for r in one)
    return [
        Check(
            f"W5: rows/s of {found.many_queries:,} queries against one, {which}",
            "≥ 1/3",
            f"{ratio:.2f}",
            ratio >= MANY_TARGET,
        )
        for which, ratio in (("whole run", whole), ("sustained", steady))
    ]


def _series(found: Figures) -> dict[str, Any]:
    def rates(of: Any) -> list[float]:
        return [(of(work) or 0.0) / 1e6 for work in WORKS]

    return {
        "works": [f"{name}: {work.title}" for name, work in WORKS.items()],
        "sides": {
            "Tidemill, sustained": rates(lambda w: found.steady(w, "tidemill")),
            "Tidemill, whole query": rates(lambda w: found.rate(w, "tidemill")),
            "DuckDB in batch": rates(lambda w: _best(found, w, "DuckDB")),
            "DuckDB, by hand": rates(lambda w: _by_hand(found, w, "DuckDB")),
            "Flink SQL": rates(lambda w: _best(found, w, "Flink")),
            "Spark Structured Streaming": rates(lambda w: _best(found, w, "Spark")),
            "Spark, by hand": rates(lambda w: _by_hand(found, w, "Spark")),
        },
    }
