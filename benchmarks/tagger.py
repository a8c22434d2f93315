"""Tagger, merged select-tagger, synchronizer, presynchronization: paper 004, sections 10.3 to 10.5, figures 6 to 11.

The axes are the paper's; the machine is not, so what is checked are its findings and not its seconds. Pipelines run in
this process: time is reading and operators, without storing the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks import data
from benchmarks.report import Check, Result, Table
from benchmarks.sides import alternate, medians
from benchmarks.tagger_plots import draw
from benchmarks.temperature import (
    HOT,
    MORE_ROOMS,
    PERIODS,
    PIPELINES,
    RATE,
    RATES,
    ROOMS,
    SPAN,
    STEEPER,
    TAGGER,
    Run,
    arriving,
    costs,
    measure,
    pipeline,
    selecting,
)

__all__ = ["draw", "run"]
NOISE = 1.05  # two times nearer than this are equal


class Experiments:
    """All figures; each adds its table, its series and the findings that it checks."""

    def __init__(self, quick: bool, steps: Any) -> None:
        self.tuples = 60_000 if quick else 1_200_000
        self.rounds = 3
        self.thin = 3 if quick else 1
        self.steps = steps
        self.result = Result(
            "Tagger, select-tagger, synchronizer, presynchronization",
            f"The experiments of paper 004, sections 10.3 to 10.5: {self.tuples:,} readings of {ROOMS} or {MORE_ROOMS}"
            f" rooms in {data.BUILDINGS} buildings, {RATE:,} tuples a second, temperatures from {data.COLDEST} to"
            f" {data.HOTTEST}. Time is reading and operators of one pipeline in one process (one reader, one shard),"
            " without storing the answer; the first run of each pipeline stores it, to be counted and compared, the"
            " others drop it. The paper ran one tuple at a time on a 2.4 GHz Pentium 4 (12 to 16 thousand tuples/s);"
            " here a micro-batch is a set of tuples, so the axes are the same and the seconds are not.",
        )

    def run(self) -> Result:
        self.steps.expect(self._count())
        for figure in (self.figure6, self.figure7, self.figure8, self.figure9, self.figure10, self.figure11):
            figure()
        return self.result

    def _count(self) -> int:
        rates = 2 * (len(RATES[:: self.thin]) + len(STEEPER[:: self.thin])) + 2 * self.rounds
        three = len(PIPELINES) * self.rounds
        sizes = len(self._sizes()) * three + len(self._selectivities()) * (three + 3 * self.rounds)
        return rates + sizes + len(self._periods()) * (4 + 2 * self.rounds)

    def _sizes(self) -> list[int]:
        return [self.tuples * n // 6 for n in (2, 3, 4, 5, 6)][:: 2 if self.thin > 1 else 1]

    def _selectivities(self) -> list[int]:
        """In parts of the 28 temperatures, so that key and non-key predicates select exactly as much."""
        return [0, 14, 28] if self.thin > 1 else [0, 4, 8, 12, 16, 20, 24, 28]

    def _periods(self) -> tuple[int, ...]:
        return PERIODS[:: self.thin]

    def finding(self, what: str, target: str, measured: str, met: bool) -> None:
        self.result.checks.append(Check(what, target, measured, met))

    def figure6(self) -> None:
        """Arrival rate against execution time, and the rate at which the pipeline is saturated."""
        rows, series = [], {"rates": [], "input": [], str(ROOMS): [], str(MORE_ROOMS): []}
        for rate in (*RATES[:: self.thin], *STEEPER[:: self.thin]):
            row: list[Any] = [rate, self.tuples / rate]
            for rooms in (ROOMS, MORE_ROOMS):
                row.append(arriving(self.tuples, rooms, rate))
                series[str(rooms)].append(row[-1])
                self.steps.done(f"figure 6: {rate:,} tuples/s")
            series["rates"].append(rate)
            series["input"].append(row[1])
            rows.append(row)
        found = alternate(
            {str(rooms): pipeline(data.readings(self.tuples, rooms, RATE), TAGGER) for rooms in (ROOMS, MORE_ROOMS)},
            self.rounds,
            lambda: self.steps.done("figure 6: saturation"),
        )
        speed = {rooms: self.tuples / median(r["seconds"] for r in runs) for rooms, runs in found.items()}
        self.result.series["6"] = series | {"saturation": speed}
        self.result.tables.append(
            Table(
                "Figure 6: effect of the arrival rate, seconds",
                ["tuples/s", "input time", f"{ROOMS} rooms", f"{MORE_ROOMS} rooms"],
                rows,
                f"Most tuples/s when all of them are there: {speed[str(ROOMS)]:,.0f} with {ROOMS} rooms,"
                f" {speed[str(MORE_ROOMS)]:,.0f} with"
                f" {MORE_ROOMS}. The rates of the paper are far below this, so there the execution time is the input"
                " time and the"
                " last micro-batch; rows below 20,000 continue the axis to saturation. The clock of arrivals is"
                " simulated, the work of each micro-batch is measured.",
            )
        )
        ratio = speed[str(MORE_ROOMS)] / speed[str(ROOMS)]
        self.finding(
            "figure 6: throughput does not depend on the number of rooms",
            f"{MORE_ROOMS} against {ROOMS} rooms within 0.8 to 1.25",
            f"{ratio:.2f}",
            0.8 <= ratio <= 1.25,
        )

    def _three(self, files: str, predicate: str, what: str, **options: Any) -> dict[str, list[Run]]:
        sides = {
            name: pipeline(files, selecting(stream, predicate), without, **options)
            for name, (stream, without) in PIPELINES.items()
        }
        found = alternate(sides, self.rounds, lambda: self.steps.done(what))
        separate, merged = (found[n][0] for n in list(PIPELINES)[:2])
        assert separate["answer"] == merged["answer"], "the merged select-tagger gave other tuples"
        return found

    def figure7(self) -> None:
        """Input size against execution time of the three pipelines."""
        rows: list[list[Any]] = []
        series: dict[str, list[float]] = {name: [] for name in PIPELINES}
        for size in self._sizes():
            found = self._three(data.readings(size, ROOMS, RATE), "R.Temperature > 80", f"figure 7: {size:,} tuples")
            seconds = medians(found, "seconds")
            for name in PIPELINES:
                series[name].append(seconds[name])
            rows.append([size, *seconds.values()])
        self.result.series["7"] = {"sizes": self._sizes(), "seconds": series}
        last = dict(zip(PIPELINES, rows[-1][1:], strict=True))
        self.result.tables.append(
            Table(
                "Figure 7: cost of the tagging operation, seconds",
                ["tuples", *PIPELINES],
                rows,
                "Tuples/s at the largest size: "
                + ", ".join(f"{n} {self.tuples / s:,.0f}" for n, s in last.items())
                + " (paper: 12,000, 14,000, 16,000).",
            )
        )
        self.result.tables.append(costs(found, self.tuples))
        separate, merged, plain = last.values()
        self.finding(
            "figure 7: the merged select-tagger is at least as fast as tagger and select",
            f"≤ {NOISE:g} × its time",
            f"{merged / separate:.2f} ×",
            merged <= NOISE * separate,
        )
        self.finding(
            "figure 7: tagging does not double the time of a selection",
            "merged < 2 × select only",
            f"{merged / plain:.2f} ×",
            merged < 2 * plain,
        )

    def figure8(self) -> None:
        """Selectivity of a predicate on the key against time and state."""
        files, rows = data.readings(self.tuples, ROOMS, RATE), []
        series: dict[str, Any] = {
            "selectivity": [],
            "seconds": {n: [] for n in PIPELINES},
            "state": {n: [] for n in PIPELINES},
        }
        fits = True
        for part in self._selectivities():
            kept = ROOMS * part // SPAN
            found = self._three(files, f"R.RoomID < {kept}", f"figure 8: {part / SPAN:.2f}", watch_state=True)
            seconds = list(medians(found, "seconds").values())
            state = [runs[0]["state"] for runs in found.values()]
            series["selectivity"].append(part / SPAN)
            for name, s, n in zip(PIPELINES, seconds, state, strict=True):
                series["seconds"][name].append(s)
                series["state"][name].append(n)
            fits = fits and state == [ROOMS, kept, 0]
            rows.append([part / SPAN, *seconds, *state])
        self.result.series["8"] = series
        self.result.tables.append(
            Table(
                "Figure 8: effect of key selectivity",
                ["selectivity", *(f"{n}, s" for n in PIPELINES), *(f"{n}, rows of state" for n in PIPELINES)],
                rows,
                "The merged operator's predicate is on the key alone, so it is tested before records travel, as without"
                " tagging. What tagging still adds is the tagger, and the second change of every update in the gate.",
            )
        )
        total = {n: sum(series["seconds"][n]) for n in PIPELINES}
        separate, merged, _ = total.values()
        self.finding(
            "figure 8: merged is faster than separate over all key selectivities",
            "< 1 ×",
            f"{merged / separate:.2f} ×",
            merged < separate,
        )
        low = [i for i, part in enumerate(self._selectivities()) if 0 < part <= SPAN // 2]
        tagged, plain = (sum(series["seconds"][n][i] for i in low) for n in list(PIPELINES)[1:])
        self.finding(
            "figure 8: up to a selectivity of one half, tagging costs nearly nothing",
            "merged ≤ 1.2 × select only",
            f"{tagged / plain:.2f} ×",
            tagged <= 1.2 * plain,
        )
        self.finding(
            "figure 8: merged state is proportional to the key selectivity, separate state is all rooms, append-only"
            " has none",
            "exactly",
            "exactly" if fits else f"{[r[-3:] for r in rows]}",
            fits,
        )

    def figure9(self) -> None:
        """Selectivity of a predicate on another column, for calm and wild readings, with the merged select-tagger."""
        calm, wild = data.readings(self.tuples, ROOMS, RATE, calm=True), data.readings(self.tuples, ROOMS, RATE)
        names = ("key", "non-key, distribution 1 (calm)", "non-key, distribution 2 (wild)")
        series: dict[str, Any] = {"selectivity": []} | {
            what: {n: [] for n in names} for what in ("seconds", "state", "output", "changes", "whole")
        }
        rows = []
        for part in self._selectivities():
            hotter = f"R.Temperature > {data.HOTTEST - part}"
            inputs = ((wild, f"R.RoomID < {ROOMS * part // SPAN}"), (calm, hotter), (wild, hotter))
            sides = {
                name: pipeline(files, selecting("RoomTempStr", predicate), watch_state=True)
                for name, (files, predicate) in zip(names, inputs, strict=True)
            }
            found = alternate(sides, self.rounds, lambda part=part: self.steps.done(f"figure 9: {part / SPAN:.2f}"))
            series["selectivity"].append(part / SPAN)
            for name, runs in found.items():
                series["seconds"][name].append(median(r["seconds"] for r in runs))
                series["state"][name].append(runs[0]["most"])
                for what, field in (("output", "output"), ("changes", "tagged"), ("whole", "whole")):
                    series[what][name].append(runs[0][field])
            rows.append([part / SPAN, *(series[what][n][-1] for what in ("seconds", "state", "output") for n in names)])
        self.result.series["9"] = series | {"names": list(names)}
        between = [i for i, s in enumerate(series["selectivity"]) if 0 < s < 1]
        titles = [f"{n}, {unit}" for unit in ("s", "most rows of state", "output tuples") for n in names]
        self.result.tables.append(
            Table(
                "Figure 9: effect of non-key selectivity (merged select-tagger)",
                ["selectivity", *titles],
                rows,
                "State is looked at after every micro-batch; the most rows that were there. "
                + _alike(series, between, names),
            )
        )
        output = {n: [series["output"][n][i] for i in between] for n in names}
        met = all(k < c < w for k, c, w in zip(*output.values(), strict=True))
        self.finding(
            "figure 9: a non-key predicate gives more output tuples than a key predicate, and more when rooms"
            " fluctuate",
            "key < calm < wild, at every selectivity between 0 and 1",
            " · ".join(
                f"{series['selectivity'][i]:.2f}: " + " / ".join(f"{series['output'][n][i]:,}" for n in names)
                for i in between[:3]
            ),
            met,
        )
        slower = _ratio(series["seconds"], between, names)
        self.finding(
            "figure 9: distribution 2 costs more time than distribution 1",
            f"> {NOISE:g} ×",
            f"{slower:.2f} ×",
            slower > NOISE,
        )
        self.finding(
            "figure 9: the state may reach the number of rooms, and never exceeds it",
            f"≤ {ROOMS}, reached at selectivity 1",
            str(max(max(s) for s in series["state"].values())),
            all(max(series["state"][n]) == ROOMS for n in names),
        )

    def figure10(self) -> None:
        """Synchronization period against output tuples, for few and many rooms."""
        series: dict[str, Any] = {"periods": [p / 10 for p in self._periods()], str(ROOMS): [], str(MORE_ROOMS): []}
        rows = []
        for tenths in self._periods():
            row: list[Any] = [tenths / 10]
            for rooms in (ROOMS, MORE_ROOMS):
                files = data.readings(self.tuples, rooms, RATE)
                view = f"{TAGGER} SYNC EVERY {tenths * 100} MILLISECONDS"
                paper, ours = (
                    measure(files, view, ("presynchronize",)),
                    measure(files, view),
                )
                assert paper["answer"] == ours["answer"], "the synchronizer above and below the tagger differ"
                series[str(rooms)].append(ours["output"])
                row.append(ours["output"])
                for _ in range(2):
                    self.steps.done(f"figure 10: every {tenths / 10:g} s, {rooms} rooms")
            rows.append(row)
        self.result.series["10"] = series
        self.result.tables.append(
            Table(
                "Figure 10: tuples out of the synchronizer",
                ["period s", f"{ROOMS} rooms", f"{MORE_ROOMS} rooms"],
                rows,
                f"{self.tuples:,} tuples go in. The synchronizer above the tagger, as in the paper, and below it"
                " (presynchronized) gave the same tuples.",
            )
        )
        falls = all(
            a > b
            for rooms in (ROOMS, MORE_ROOMS)
            for a, b in zip(series[str(rooms)], series[str(rooms)][1:], strict=False)
        )
        self.finding(
            "figure 10: a longer period gives fewer tuples",
            "falls at every step",
            "falls" if falls else "does not",
            falls,
        )
        grows = all(a < b for a, b in zip(series[str(ROOMS)], series[str(MORE_ROOMS)], strict=True))
        ratio = series[str(MORE_ROOMS)][-1] / series[str(ROOMS)][-1]
        self.finding(
            "figure 10: more rooms give more tuples", "at every period", f"{ratio:.2f} × at the longest", grows
        )

    def figure11(self) -> None:
        """Tuples into the aggregate and time, with and without presynchronization."""
        files, rows = data.readings(self.tuples, ROOMS, RATE), []
        names = {"without": ("presynchronize",), "with": ()}
        series: dict[str, Any] = {
            "steps": [p / 10 for p in self._periods()],
            "tuples": {n: [] for n in names},
            "seconds": {n: [] for n in names},
        }
        for tenths in self._periods():
            every = f"SYNC EVERY {tenths * 100} MILLISECONDS"
            view = f"CREATE STREAMED VIEW V AS SELECT V.Building, V.cntRooms FROM ({HOT}) V {every}"
            found = alternate(
                {name: pipeline(files, view, without) for name, without in names.items()},
                self.rounds,
                lambda tenths=tenths: self.steps.done(f"figure 11: every {tenths / 10:g} s"),
            )
            assert found["with"][0]["answer"] == found["without"][0]["answer"], "presynchronization changed the answer"
            for name, runs in found.items():
                series["tuples"][name].append(runs[0]["tagged"])
                series["seconds"][name].append(median(r["seconds"] for r in runs))
            rows.append([tenths / 10, *(series[what][n][-1] for what in ("tuples", "seconds") for n in names)])
        self.result.series["11"] = series
        self.result.tables.append(
            Table(
                "Figure 11: presynchronization",
                ["step s", "tuples into the aggregate, without", "with", "s, without", "s, with"],
                rows,
                "Tuples are changes that leave the tagger for the aggregate; an update is two of them, the old row"
                " and the new one.",
            )
        )
        fewer = all(b < a for a, b in zip(series["tuples"]["without"], series["tuples"]["with"], strict=True))
        part = sum(series["tuples"]["with"]) / sum(series["tuples"]["without"])
        self.finding(
            "figure 11: presynchronization gives the aggregate fewer tuples",
            "at every step",
            f"{part:.2f} × in all",
            fewer,
        )
        faster = sum(series["seconds"]["with"]) / sum(series["seconds"]["without"])
        self.finding(
            "figure 11: presynchronization saves time (paper: about half)", "< 1 ×", f"{faster:.2f} ×", faster < 1
        )


def _ratio(values: dict[str, list[float]], between: list[int], names: Sequence[str]) -> float:
    """Distribution 2 against distribution 1, over the selectivities between 0 and 1."""
    calm, wild = (sum(values[name][i] for i in between) for name in names[1:])
    return wild / calm


def _alike(series: dict[str, Any], between: list[int], names: Sequence[str]) -> str:
    """Why the two distributions cost about the same."""
    output, changes, whole = (_ratio(series[what], between, names) for what in ("output", "changes", "whole"))
    return (
        f"Distribution 2 gives {output:.2f} × the output tuples of distribution 1, but {changes:.2f} × its changes: a"
        " row that is replaced and a row that leaves and comes again are two changes each. The paper's difference"
        " begins where changes become tagged tuples, behind the pipeline: with making and storing them, in one run of"
        f" each, it is {whole:.2f} × in time."
    )


def run(quick: bool, steps: Any) -> Result:
    measure(data.readings(6_000, ROOMS, RATE), TAGGER)  # imports and first statements are not measured
    return Experiments(quick, steps).run()
