"""Both sides over the same lines, and the page."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np

from benchmarks.live import sender
from benchmarks.live.spark_side import SparkSide
from benchmarks.live.tidemill_side import TidemillSide
from benchmarks.report import Check, Result, Table
from benchmarks.sides import Side

TARGETS = {"csv": 500_000, "json": 250_000}
PACED, MEDIAN_S, LATE_S = 20_000, 0.7, 1.2
BEHIND, BEHIND_S = "as fast as they are taken", 6.0  # two batches of three seconds: the one under way and its own
SETTLE_S = 6.0
FORMS = {"csv": "CSV", "json": "JSON"}


def compare(quick: bool, steps: Any) -> Result:
    ours, theirs = (300_000, 30_000) if quick else (4_000_000, 40_000)
    seconds, rounds = (10.0, 1) if quick else (30.0, 3)
    steps.expect(2 * rounds + 3 + 2 + 2)
    rates: dict[str, dict[str, list[dict[str, Any]]]] = {"Tidemill": {}, "Spark": {}}
    latency: dict[str, list[float]] = {}
    with Side(sender.Sender) as sending:
        with Side(TidemillSide) as side:
            for form in FORMS:
                rates["Tidemill"][form] = [_pushed(side, sending, form, ours, steps) for _ in range(rounds)]
            latency["Tidemill"] = _paced(side, sending, seconds)
            steps.done("Tidemill: latency")
            behind = _flooded(side, sending, seconds)
            steps.done("Tidemill: overload")
        with Side(SparkSide) as side:
            for form in FORMS:
                rates["Spark"][form] = [_served(side, sending, form, theirs)]
                steps.done(f"Spark: {FORMS[form]}")
            latency["Spark"] = _served_paced(side, sending, seconds)
            steps.done("Spark: latency")
    parsing = {form: _parsing(form, 50_000 if quick else 200_000, steps) for form in FORMS}
    return _result(rates, latency, parsing, seconds, behind)


def _pushed(side: Side, sending: Side, form: str, rows: int, steps: Any) -> dict[str, Any]:
    """The file to the port, as fast as it is taken."""
    path = sender.prepared(form, rows)
    port = side.ask("open")
    side.tell("take", rows)
    began = sending.ask("push", path, port)
    found = side.answer()
    side.ask("close")
    steps.done(f"Tidemill: {FORMS[form]}")
    return {**found, "rows": rows, "rate": rows / (found["end"] - began)}


def _paced(side: Side, sending: Side, seconds: float) -> list[float]:
    port = side.ask("open")
    sending.tell("pace", port, PACED, seconds)
    found = side.ask("follow", seconds, SETTLE_S)
    sending.answer()
    side.ask("close")
    return list(found)


def _flooded(side: Side, sending: Side, seconds: float) -> dict[str, Any]:
    """Latencies where the sender is always faster than the engine, and rows/s that were taken."""
    port = side.ask("open")
    sending.tell("flood", port, seconds)
    found = side.ask("follow", seconds, SETTLE_S)
    sent = sending.answer()
    side.ask("close")
    return {"latency": list(found), "rate": sent / seconds}


def _served(side: Side, sending: Side, form: str, rows: int) -> dict[str, Any]:
    """The same to Spark, which connects by itself; a small file first, so that its code is compiled."""
    found: dict[str, Any] = {}
    for count in (rows // 10, rows):
        port = sending.ask("listen")
        takers = side.ask("open", port, form)
        sending.tell("serve", sender.prepared(form, count), takers)
        found = side.ask("take", count)
        began = sending.answer()
        side.ask("close")
        found = {**found, "rows": count, "rate": count / (found["end"] - began)}
    return found


def _served_paced(side: Side, sending: Side, seconds: float) -> list[float]:
    port = sending.ask("listen")
    takers = side.ask("open", port, "csv")
    sending.tell("serve_paced", takers, PACED, seconds)
    found = side.ask("follow", seconds, SETTLE_S)
    sending.answer()
    side.ask("close")
    return list(found)


def _parsing(form: str, rows: int, steps: Any) -> dict[str, float]:
    """ns of processor time a row to make typed rows of lines: in blocks, and record by record as before."""
    from tidemill.plan.sources import Column, SourceSpec
    from tidemill.runtime.sources.text.decode import decode
    from tidemill.runtime.sources.text.lines import declared_layout, find_lines

    columns = tuple(Column(*item.split()) for item in sender.COLUMNS.split(", "))
    spec = SourceSpec("Readings", "port", columns)
    lines = find_lines(sender.lines(form, rows, 1, 0, 10))
    found: dict[str, list[float]] = {"in blocks": [], "one by one": []}
    for _ in range(5):
        for name in found:
            began = time.process_time()
            decode(lines, spec, declared_layout(spec) if form == "csv" else None, plain=name == "in blocks")
            found[name].append((time.process_time() - began) / rows * 1e9)
    steps.done(f"parsing {FORMS[form]}")
    return {name: median(times) for name, times in found.items()}


def _result(
    rates: dict[str, Any],
    latency: dict[str, list[float]],
    parsing: dict[str, Any],
    seconds: float,
    behind: dict[str, Any],
) -> Result:
    result = Result("Live text input", SETUP.format(paced=PACED, seconds=seconds, settle=SETTLE_S))
    middle = {
        side: {form: median(r["rate"] for r in found) for form, found in forms.items()} for side, forms in rates.items()
    }
    rows = []
    for form, name in FORMS.items():
        first = rates["Tidemill"][form]
        spent = median(r["processor_s"] / r["rows"] * 1e9 for r in first)
        rows.append(
            [
                name,
                first[0]["rows"],
                rates["Spark"][form][0]["rows"],
                round(middle["Tidemill"][form]),
                round(middle["Spark"][form]),
                middle["Tidemill"][form] / middle["Spark"][form],
                round(spent),
                " ".join(f"{r['rate']:,.0f}" for r in first),
            ]
        )
    result.tables.append(
        Table(
            "Rows/s into the four views",
            [
                "lines",
                "rows of Tidemill",
                "rows of Spark",
                "Tidemill rows/s",
                "Spark rows/s",
                "ratio",
                "Tidemill, all processes: ns of processor time a row",
                "all runs of Tidemill",
            ],
            rows,
        )
    )
    result.tables.append(_latencies(latency, behind))
    result.tables.append(
        Table(
            "Parsing alone, ns of processor time a row",
            ["lines", "in blocks", "one by one"],
            [
                [name, round(parsing[form]["in blocks"]), round(parsing[form]["one by one"])]
                for form, name in FORMS.items()
            ],
        )
    )
    for form, name in FORMS.items():
        rate = middle["Tidemill"][form]
        result.checks.append(
            Check(
                f"{name} lines of a port into four views, two quiet cores",
                f"≥ {TARGETS[form]:,} rows/s",
                f"{rate:,.0f} rows/s",
                rate >= TARGETS[form],
            )
        )
    for share, target in ((50, MEDIAN_S), (95, LATE_S)):
        found = float(np.percentile(latency["Tidemill"], share))
        result.checks.append(
            Check(
                f"{PACED:,} rows/s: from the sending to `subscribe`, {share} % of the rows",
                f"≤ {target} s",
                f"{found:.2f} s",
                found <= target,
            )
        )
    result.checks.append(behind_check(behind["latency"]))
    result.series = {
        "rate": middle,
        "paced": PACED,
        "latency": {
            side: [float(np.percentile(found, s)) for s in range(1, 101)] for side, found in latency.items() if found
        },
    }
    return result


def _latencies(latency: dict[str, list[float]], behind: dict[str, Any]) -> Table:
    shares = (50, 75, 90, 95, 99, 100)
    taken = {
        **{(side, f"{PACED:,}"): found for side, found in latency.items()},
        ("Tidemill", f"{BEHIND}: {behind['rate']:,.0f}"): behind["latency"],
    }
    rows = [
        [side, pace, len(found), *(float(np.percentile(found, s)) if found else "-" for s in shares)]
        for (side, pace), found in taken.items()
    ]
    return Table("Latency, seconds", ["side", "rows/s sent", "rows", *(f"{s} %" for s in shares)], rows)


def behind_check(latency: list[float]) -> Check:
    """Where the engine falls behind, latency stays bounded; no row at all is no answer."""
    found = float(np.percentile(latency, 95)) if latency else float("inf")
    return Check(
        f"rows sent {BEHIND}: from the sending to `subscribe`, 95 % of the rows",
        f"≤ {BEHIND_S:g} s",
        f"{found:.2f} s" if latency else "no row",
        found <= BEHIND_S,
    )


SETUP = (
    "Sensor readings (sensor, value, kind, n, at; 47 bytes as CSV, 86 as JSON) over one TCP connection into a "
    "filter, a grouped view every second, a sliding window of 10 s every second by sensor, and a grouped join with "
    "a table, all four at once. Rows/s: lines that were made before, sent as fast as they are taken; the clock runs "
    "from the first byte to the commit of the batch with the last row, in an engine that is up. What arrives is "
    "synced to disk before it counts. Latency: {paced:,} rows/s over {seconds:g} s, of which the first {settle:g} s "
    "do not count; from the moment a row is sent to the moment a subscriber of the filter has it; the sender shares "
    "the cores. The same with rows that are sent as fast as they are taken, more than the engine can do: what waits "
    "in sockets is part of it. Spark: socket source, from_csv or from_json, the same four questions, each a query "
    "of its own with foreachBatch. What differs: Spark's socket source keeps rows in memory and loses them in a "
    "crash; each query needs a socket, so every line is sent and parsed four times; the grouped answers are "
    "refreshed at each micro-batch and not at each second of event time. Spark had run on a tenth of the lines "
    "before, and gets fewer of them: its socket source looks every row of a micro-batch up from the beginning of a "
    "list, so that a batch takes time quadratic in its rows, and with 200,000 lines at once it did not come to an "
    "end in minutes. *Parsing alone*: lines into typed columns, in blocks and as before."
)
