"""Files → filter → per-key count refreshed every 10 s of event time, against Spark Structured Streaming.

Both sides have a process and a Spark session of their own, warmed up on a small input; a measurement is one whole
streaming query over the files, from its start to its last answer. Starting a session is not measured on either side.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import data, plots
from benchmarks.report import Check, Result, Table
from benchmarks.sides import Side, alternate, medians, quiet

FILES, FILES_A_BATCH = 16, 4
ROUNDS, TARGET = 3, 3.0
KEPT = "proto = 1 OR proto = 2 OR proto = 3"
VIEWS = {
    "count": f"CREATE COMPLETE VIEW v AS SELECT k, count(*) AS n FROM S SYNC EVERY 10 SECONDS WHERE {KEPT} GROUP BY k",
    "windows": "CREATE RSTREAM VIEW v AS SELECT k, count(*) AS n FROM S [RANGE 10 SECONDS SLIDE 10 SECONDS]"
    f" WHERE {KEPT} GROUP BY k",
}
STORES = {
    "in memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "RocksDB": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
NAMES = {"count": "running count", "windows": "tumbling windows of 10 s"}
BATCHES = {"same": "same batches", "default": "default batches"}


class TidemillSide:
    """Tidemill as a user gets it: `tidemill.open` and `run`."""

    def measure(self, folder: str, work: str, batch_rows: int | None) -> dict[str, Any]:
        import tidemill

        limit = f", batch_rows = {batch_rows}" if batch_rows else ""
        with data.scratch("throughput") as place, quiet(), tidemill.open(os.path.join(place, "db")) as db:
            db.execute(f"""REGISTER SOURCE P (k INT, proto INT, len INT, ts TIMESTAMP) FROM FILES '{folder}/*.parquet'
                           WITH (timestamp = 'ts'{limit}); CREATE TAGGED STREAM S OVER P; {VIEWS[work]}""")
            _ = db.spark  # the session is there before the clock starts
            ends: list[float] = []
            began = time.perf_counter()
            summary = db.run(lambda _: ends.append(time.perf_counter() - began))
            seconds = time.perf_counter() - began
            columns = "k, n" if work == "count" else '"TS", k, n'
            return {
                "seconds": seconds,
                "ends": ends,
                "rows": summary.rows,
                "batches": summary.batches,
                "answer": _sorted(db.query(f"SELECT {columns} FROM v")),
            }


class SparkSide:
    """Spark's own parquet source and state, in a session set up for it: code generation, a large heap, one shuffle
    partition for each core."""

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        from tidemill.runtime.session import java_home

        os.environ["JAVA_HOME"] = java_home() or os.environ.get("JAVA_HOME", "")
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        cores = len(os.sched_getaffinity(0))
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "4g",
            "spark.sql.shuffle.partitions": str(cores),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
            "spark.sql.streaming.pollingDelay": "10ms",
        }
        builder = SparkSession.builder.master(f"local[{cores}]").appName("spark side")
        for name, value in settings.items():
            builder = builder.config(name, value)
        with quiet():
            self.spark = builder.getOrCreate()

    def measure(self, folder: str, work: str, files: int | None, store: str, closing: bool) -> dict[str, Any]:
        """`closing`: windows leave the state when the watermark has passed them, and come out once, complete."""
        from pyspark.sql import functions as f

        self.spark.conf.set("spark.sql.streaming.stateStore.providerClass", STORES[store])
        source = self.spark.readStream.schema("k INT, proto INT, len INT, ts TIMESTAMP")
        if files:
            source = source.option("maxFilesPerTrigger", str(files))
        rows = source.parquet(folder).where(KEPT)
        if work == "count":
            answer = rows.groupBy("k").count()
        else:
            rows = rows.withWatermark("ts", "0 seconds") if closing else rows
            counted = rows.groupBy(f.window("ts", "10 seconds"), "k").count()
            answer = counted.select(f.col("window.end").alias("TS"), "k", "count")
        seen: list[pa.Table] = []
        ends: list[float] = []

        def take(batch: Any, _: int) -> None:
            seen.append(batch.toArrow())
            ends.append(time.perf_counter() - began)

        with data.scratch("throughput") as place, quiet():
            writer = answer.writeStream.outputMode("append" if closing else "update").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", place).foreachBatch(take)
            began = time.perf_counter()
            query = writer.start()
            query.awaitTermination()
            seconds = time.perf_counter() - began
            counted_rows = sum(p["numInputRows"] for p in query.recentProgress)
            batches = len([p for p in query.recentProgress if p["numInputRows"]])
        answer = _sorted(_latest(seen))
        return {"seconds": seconds, "ends": ends[:batches], "rows": counted_rows, "batches": batches, "answer": answer}


def _latest(seen: list[pa.Table]) -> pa.Table:
    """The last count of each key: later batches replace earlier ones."""
    names = seen[0].column_names[:-1]
    numbered = [t.append_column("batch", pa.array([i] * t.num_rows, pa.int64())) for i, t in enumerate(seen)]
    whole = pa.concat_tables(numbered)
    last = whole.group_by(names).aggregate([("batch", "max")]).rename_columns([*names, "batch"])
    return whole.join(last, [*names, "batch"], join_type="inner").select([*names, "count"])


def _sorted(table: pa.Table) -> pa.Table:
    """Rows in order, with the types of both sides made the same."""
    names = table.column_names
    columns = {"n" if n in ("n", "count") else n: table.column(n) for n in names}
    types = {"TS": pa.timestamp("us"), "k": pa.int64(), "n": pa.int64()}
    plain = pa.table({n: c.cast(types[n]) for n, c in columns.items()})
    return plain.sort_by([(n, "ascending") for n in plain.column_names]).combine_chunks()


def check_equal(work: str, ours: pa.Table, theirs: pa.Table, end: Any) -> None:
    """Both sides counted the same; of the windows those that had closed when the stream ended."""
    if work == "windows":
        ours, theirs = (t.filter(pc.less_equal(t.column("TS"), end)) for t in (ours, theirs))
    if ours.num_rows == 0 or not ours.equals(theirs):
        raise AssertionError(f"{work}: {ours.num_rows} rows against {theirs.num_rows} of Spark, or other values")


def run(quick: bool, steps: Any) -> Result:
    rows = 2_000_000 if quick else 20_000_000
    folder, small = data.packets(rows, FILES), data.packets(rows // 20, FILES)
    end = pa.scalar(_last_time(folder), pa.timestamp("us"))
    batch_rows = rows * FILES_A_BATCH // FILES
    cuts = ["same"] if quick else list(BATCHES)
    plans = {
        "count": [("in memory", False), ("RocksDB", False)],
        "windows": [("in memory", True), ("RocksDB", True), ("in memory", False)],
    }
    steps.expect(4 + sum(len(p) for p in plans.values()) + 2 * len(VIEWS) * len(cuts) * ROUNDS)
    runs: dict[str, dict[str, dict[str, list[Any]]]] = {}
    tried: dict[str, dict[str, float]] = {}
    with Side(TidemillSide) as ours, Side(SparkSide) as theirs:
        for work in VIEWS:
            ours.ask("measure", small, work, batch_rows // 20)
            steps.done(f"warm-up, {NAMES[work]}")
            theirs.ask("measure", small, work, FILES_A_BATCH, *plans[work][0])
            steps.done(f"warm-up, {NAMES[work]}")
        for work in VIEWS:
            tried[work] = {}
            for plan in plans[work]:
                tried[work][_plan_name(work, *plan)] = theirs.ask("measure", folder, work, FILES_A_BATCH, *plan)[
                    "seconds"
                ]
                steps.done("which setting is best for Spark")
            best = min(plans[work], key=lambda p: tried[work][_plan_name(work, *p)])
            runs[work] = {}
            for cut in cuts:
                mine, its = (batch_rows, FILES_A_BATCH) if cut == "same" else (None, None)
                found = runs[work][cut] = alternate(
                    {
                        "tidemill": lambda work=work, mine=mine: ours.ask("measure", folder, work, mine),
                        "spark": lambda work=work, its=its, best=best: theirs.ask("measure", folder, work, its, *best),
                    },
                    ROUNDS,
                    lambda work=work, cut=cut: steps.done(f"{NAMES[work]}, {BATCHES[cut]}"),
                )
                for a, b in zip(found["tidemill"], found["spark"], strict=True):
                    check_equal(work, a["answer"], b["answer"], end)
                    assert a["rows"] == b["rows"] == rows, (a["rows"], b["rows"], rows)
    return _result(rows, batch_rows, runs, tried)


def _pace(runs: list[Any]) -> tuple[float, float]:
    """Medians: seconds to the first answer, and from one answer to the next."""
    gaps = [b - a for r in runs for a, b in pairwise(r["ends"])]
    return median(r["ends"][0] for r in runs), median(gaps)


def _plan_name(work: str, store: str, closing: bool) -> str:
    if work == "count":
        return f"{store} state"
    return f"{store} state, {'watermark and append' if closing else 'update'}"


def _last_time(folder: str) -> Any:
    import pyarrow.parquet as pq

    last = sorted(os.listdir(folder))[-1]
    return pc.max(pq.read_table(os.path.join(folder, last), columns=["ts"]).column("ts")).as_py()


def _result(rows: int, batch_rows: int, runs: dict[str, Any], tried: dict[str, Any]) -> Result:
    result = Result(
        "Throughput against Spark Structured Streaming",
        f"{rows:,} packet rows (k of 1,000 keys, proto, len, ts over one hour) in {FILES} Parquet files; half of them"
        " pass the filter. Time is one whole streaming query from its start to its last answer, in sessions that had"
        " already run the same query on a twentieth of the data; starting the session is not included on either side."
        " *Running count*: Tidemill keeps a COMPLETE view right at every 10 s of event time; Spark's running count is"
        " refreshed at the end of each micro-batch only, which is less work. *Tumbling windows*: the counts of every"
        " key in every 10 s window, as rows, on both sides."
        f" *Same batches*: {batch_rows:,} rows or {FILES_A_BATCH} files a micro-batch; *default batches*: what each"
        " side takes when nothing is said (Spark: everything at once). Spark runs with code generation, a 4 GB heap,"
        " a shuffle partition for each core, and whichever of the settings below was fastest.",
    )
    lines = []
    for work, cuts in runs.items():
        for cut, found in cuts.items():
            seconds = medians(found, "seconds")
            speed = {side: rows / s for side, s in seconds.items()}
            ratio = speed["tidemill"] / speed["spark"]
            lines.append(
                [
                    NAMES[work],
                    BATCHES[cut],
                    found["tidemill"][0]["batches"],
                    found["spark"][0]["batches"],
                    seconds["tidemill"],
                    seconds["spark"],
                    speed["tidemill"] / 1e6,
                    speed["spark"] / 1e6,
                    ratio,
                ]
            )
            result.series.setdefault("bars", []).append(
                [f"{NAMES[work]},\n{BATCHES[cut]}", speed["tidemill"] / 1e6, speed["spark"] / 1e6]
            )
            if cut == "same":
                result.checks.append(
                    Check(
                        f"{NAMES[work]}: rows/s against Spark, same batches, whole query with its start",
                        f"≥ {TARGET:g} ×",
                        f"{ratio:.2f} ×",
                        ratio >= TARGET,
                    )
                )
                sustained = _pace(found["spark"])[1] / _pace(found["tidemill"])[1]
                result.checks.append(
                    Check(
                        f"{NAMES[work]}: sustained rows/s against Spark, same batches, after the first answer",
                        f"≥ {TARGET:g} ×",
                        f"{sustained:.2f} ×",
                        sustained >= TARGET,
                    )
                )
    result.tables.append(
        Table(
            "Medians",
            [
                "query",
                "batches",
                "batches of Tidemill",
                "of Spark",
                "Tidemill s",
                "Spark s",
                "Tidemill M rows/s",
                "Spark M rows/s",
                "ratio",
            ],
            lines,
        )
    )
    apart = [
        [NAMES[w], side, *_pace(found[side])]
        for w, cuts in runs.items()
        for c, found in cuts.items()
        if c == "same"
        for side in found
    ]
    result.tables.append(
        Table(
            "Where the time goes (same batches, seconds)",
            ["query", "side", "first answer after", "each further batch"],
            apart,
            "The first answer includes the start of the query, which on Tidemill's side starts Python processes."
            " All of it is in the ratio above.",
        )
    )
    every = [
        [NAMES[w], BATCHES[c], side, " ".join(f"{r['seconds']:.2f}" for r in found[side])]
        for w, cuts in runs.items()
        for c, found in cuts.items()
        for side in found
    ]
    result.tables.append(Table("All runs, seconds", ["query", "batches", "side", "seconds"], every))
    result.tables.append(
        Table(
            "Settings tried for Spark (same batches, one run each)",
            ["query", "setting", "seconds"],
            [[NAMES[w], name, s] for w, found in tried.items() for name, s in found.items()],
        )
    )
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    figure, (axes,) = plots.panels(1)
    figure.set_size_inches(8, 3.4)
    names = [name for name, _, _ in series["bars"]]
    plots.bars(
        axes,
        "files → filter → per-key count",
        "million rows/s",
        names,
        {
            "Tidemill": [a for _, a, _ in series["bars"]],
            "Spark Structured Streaming": [b for _, _, b in series["bars"]],
        },
    )
    return [plots.save(figure, folder, "throughput", "rows per second of Tidemill and of Spark Structured Streaming")]
