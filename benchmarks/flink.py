"""Flink SQL in streaming mode on a cluster inside one JVM.

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

from benchmarks import data, flink_job

VERSION = "2.3.0"
VARIABLE = "TIDEMILL_FLINK"
MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "20000",
}
_HOME = os.path.join(data._BASE, f"flink-{VERSION}")
_PARQUET = f"flink-sql-parquet-{VERSION}.jar"


def python() -> str | None:
    """The Python that has Flink, if there is one."""
    path = os.environ.get(VARIABLE) or os.path.join(_HOME, "bin", "python")
    return path if os.path.exists(path) and os.path.exists(_jar(path)) else None


def install() -> None:
    """Flink by pip, its Parquet format from Maven Central by the Ivy that comes with Spark."""
    from tidemill.runtime.spark.session import java_home

    venv.create(_HOME, with_pip=True)
    path = os.path.join(_HOME, "bin", "python")
    subprocess.run([path, "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}"], check=True)
    (ivy,) = _spark_jars("ivy")
    java = os.path.join(java_home() or "", "bin", "java") if java_home() else "java"
    pattern = os.path.join(_HOME, "[artifact]-[revision].[ext]")
    wanted = ["-dependency", "org.apache.flink", "flink-sql-parquet", VERSION, "-notransitive", "-confs", "default"]
    cache = ["-cache", os.path.join(_HOME, "ivy"), "-retrieve", pattern]
    subprocess.run([java, "-jar", ivy, *wanted, *cache], check=True)


class Flink:
    """A process with Flink's Python, asked by lines of JSON (see flink_job.py)."""

    def __init__(self) -> None:
        from tidemill.runtime.spark.session import java_home

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

    def run(
        self,
        sources: dict[str, Any],
        views: list[str],
        inserts: list[str],
        settings: dict[str, str],
        swallowed: Sequence[str] = (),
    ) -> dict[str, float]:
        """Seconds from the statement set to its end, and of its job alone."""
        request = {
            "cores": len(os.sched_getaffinity(0)),
            "sources": sources,
            "tables": views,
            "inserts": inserts,
            "settings": settings,
            "swallowed": list(swallowed),
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


def source(folder: str, columns: dict[str, str], readers: int, key: str | None = None) -> dict[str, Any]:
    """Parquet files in their order as a table with event time `ts`; with a key it has one version of each row."""
    return {"folder": folder, "columns": columns, "readers": readers, "key": key}


def sink(name: str, columns: dict[str, str], folder: str) -> str:
    """A table that is written to Parquet files.

    >>> print(sink("q", {"sip": "INT", "n": "BIGINT"}, "/answers"))
    CREATE TEMPORARY TABLE q (TS TIMESTAMP(3), sip INT, n BIGINT) WITH ('connector' = 'filesystem',\
 'path' = 'file:///answers/q', 'format' = 'parquet')
    """
    typed = ", ".join(f"{n} {kind}" for n, kind in {"TS": "TIMESTAMP(3)", **columns}.items())
    place = os.path.join(folder, name)
    return (
        f"CREATE TEMPORARY TABLE {name} ({typed})"
        f" WITH ('connector' = 'filesystem', 'path' = 'file://{place}', 'format' = 'parquet')"
    )


def _jar(path: str) -> str:
    """The Parquet format lies in the environment's folder."""
    return os.path.join(os.path.dirname(os.path.dirname(path)), _PARQUET)


def _spark_jars(prefix: str) -> list[str]:
    import pyspark

    return sorted(glob.glob(os.path.join(pyspark.__path__[0], "jars", f"{prefix}*.jar")))
