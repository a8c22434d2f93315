"""Flink SQL in streaming mode on a cluster inside one JVM: window table functions, event time, state on the heap.

Flink is an extra with libraries of its own and lives in its own virtual environment: `python -m benchmarks.peers
--flink` makes it; TIDEMILL_FLINK names the Python of another one, in whose folder lies the jar of the Parquet format.
Without Flink its columns stay empty.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import venv
from collections.abc import Sequence
from typing import Any

from benchmarks import data
from benchmarks.peers import flink_job
from benchmarks.peers.workloads import Query

VERSION = "2.3.0"
VARIABLE = "TIDEMILL_FLINK"
SETTINGS: dict[str, dict[str, str]] = {
    "two phases": {},
    "one phase": {"table.optimizer.agg-phase-strategy": "ONE_PHASE"},
    "two phases, mini-batches": {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "20000",
    },
}
_HOME = os.path.join(data._BASE, f"flink-{VERSION}")
_PARQUET = f"flink-sql-parquet-{VERSION}.jar"


def python() -> str | None:
    """The Python that has Flink, if there is one."""
    path = os.environ.get(VARIABLE) or os.path.join(_HOME, "bin", "python")
    return path if os.path.exists(path) and os.path.exists(_jar(path)) else None


def install() -> None:
    """Flink by pip, its Parquet format from Maven Central by the Ivy that comes with Spark."""
    from tidemill.runtime.session import java_home

    venv.create(_HOME, with_pip=True)
    path = os.path.join(_HOME, "bin", "python")
    subprocess.run([path, "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}"], check=True)
    (ivy,) = _spark_jars("ivy")
    java = os.path.join(java_home() or "", "bin", "java") if java_home() else "java"
    pattern = os.path.join(_HOME, "[artifact]-[revision].[ext]")
    wanted = ["-dependency", "org.apache.flink", "flink-sql-parquet", VERSION, "-notransitive", "-confs", "default"]
    cache = ["-cache", os.path.join(_HOME, "ivy"), "-retrieve", pattern]
    subprocess.run([java, "-jar", ivy, *wanted, *cache], check=True)


class FlinkSide:
    """A process with Flink's Python, asked by lines of JSON."""

    def __init__(self) -> None:
        from tidemill.runtime.session import java_home

        path = python()
        assert path is not None, "Flink is not installed"
        jars = [_jar(path), *_spark_jars("hadoop-client-")]  # Flink's Parquet needs Hadoop's classes, which Spark has
        heap = {"JVM_ARGS": "-Xms4g -Xmx4g", "HADOOP_CLASSPATH": os.pathsep.join(jars)}
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FLINK_HOME")}
        self.process = subprocess.Popen(
            [path, flink_job.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**kept, **heap, "JAVA_HOME": java_home() or os.environ.get("JAVA_HOME", "")},
        )

    def measure(self, folder: str, queries: Sequence[Query], setting: str, kept: str) -> dict[str, Any]:
        """Seconds from the statement set to its end; the answers are Parquet files in a folder."""
        used = {"len", "ts"}.union(*(q.keys for q in queries))
        request = {
            "cores": len(os.sched_getaffinity(0)),
            "folder": folder,
            "columns": [n for n in ("sip", "dip", "sp", "dp", "len", "ts") if n in used],
            "tables": [sink(q, kept) for q in queries],
            "inserts": [insert(q) for q in queries],
            "settings": SETTINGS[setting],
        }
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"error": "the process is gone"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return dict(answer)

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def sink(query: Query, folder: str) -> str:
    keys = "".join(f"{k} INT, " for k in query.keys)
    place = os.path.join(folder, query.name)
    return (
        f"CREATE TEMPORARY TABLE {query.name} (TS TIMESTAMP(3), {keys}n BIGINT, total BIGINT)"
        f" WITH ('connector' = 'filesystem', 'path' = 'file://{place}', 'format' = 'parquet')"
    )


def insert(query: Query) -> str:
    """
    >>> print(insert(Query("q", ("sip",), 600, 60)))
    INSERT INTO q SELECT window_end, sip, count(*), sum(CAST(len AS BIGINT)) FROM TABLE(HOP(TABLE P, DESCRIPTOR(ts),\
 INTERVAL '60' SECOND(6), INTERVAL '600' SECOND(6))) GROUP BY window_start, window_end, sip
    """
    slide, length = (f"INTERVAL '{n}' SECOND(6)" for n in (query.slide, query.range))
    kind, sizes = ("TUMBLE", slide) if query.slide == query.range else ("HOP", f"{slide}, {length}")
    window = f"{kind}(TABLE P, DESCRIPTOR(ts), {sizes})"
    return (
        f"INSERT INTO {query.name} SELECT window_end, {query.by}, count(*), sum(CAST(len AS BIGINT))"
        f" FROM TABLE({window}){query.where} GROUP BY window_start, window_end, {query.by}"
    )


def _jar(path: str) -> str:
    """The Parquet format lies in the environment's folder."""
    return os.path.join(os.path.dirname(os.path.dirname(path)), _PARQUET)


def _spark_jars(prefix: str) -> list[str]:
    import pyspark

    return sorted(glob.glob(os.path.join(pyspark.__path__[0], "jars", f"{prefix}*.jar")))
