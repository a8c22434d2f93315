"""Runs in Flink's own Python: one request a line on standard input, one answer a line on standard output.

A request: cores, sources, tables (DDL of sinks and views), inserts, swallowed (SELECTs whose rows are dropped),
settings. All inserts are one statement set, so
that they read each source once. The files are read in their order, as many at once as a source has readers: a table of
the filesystem connector would give them to its readers in any order, and Flink drops rows behind the watermark. Inside,
it is the same reader.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
import traceback
from typing import Any


class Runner:
    """One JVM with a cluster inside for all requests."""

    def __init__(self, cores: int) -> None:
        from pyflink.common import Configuration

        self.cores = cores
        self.settings = Configuration()
        for name, value in {
            "parallelism.default": str(cores),
            "taskmanager.numberOfTaskSlots": str(cores),
            "taskmanager.memory.managed.size": "2g",
            "taskmanager.memory.network.max": "512m",
            "state.backend.type": "hashmap",
            "pipeline.object-reuse": "true",
            "table.local-time-zone": "UTC",
        }.items():
            self.settings.set_string(name, value)

    def measure(self, request: dict[str, Any]) -> dict[str, float]:
        """Seconds of the whole statement set, and of the job itself without planning and submission."""
        from pyflink.datastream import StreamExecutionEnvironment
        from pyflink.table import StreamTableEnvironment, TableDescriptor

        env = StreamExecutionEnvironment.get_execution_environment(self.settings)
        tables = StreamTableEnvironment.create(env)
        for name, value in request["settings"].items():
            tables.get_config().set(name, value)
        for name, source in request["sources"].items():
            self._source(env, tables, name, **source)
        for ddl in request["tables"]:
            tables.execute_sql(ddl)
        statements = tables.create_statement_set()
        for insert in request["inserts"]:
            statements.add_insert_sql(insert)
        for select in request.get("swallowed", ()):
            nowhere = TableDescriptor.for_connector("blackhole").build()  # its columns are those of the query
            statements.add_insert(nowhere, tables.sql_query(select))
        began = time.perf_counter()
        result = statements.execute()
        result.wait()
        seconds = time.perf_counter() - began
        job = result.get_job_client().get_job_execution_result().result().get_net_runtime() / 1000
        return {"seconds": seconds, "job": job}

    def _source(
        self,
        env: Any,
        tables: Any,
        view: str,
        folder: str,
        columns: dict[str, str],
        key: str | None,
        readers: int,
        time: str = "ts",
    ) -> None:
        """A view over the columns that are wanted of all files, in order. Rows without a time are there before all."""
        from pyflink.common import Configuration, WatermarkStrategy
        from pyflink.datastream import DataStream
        from pyflink.datastream.connectors.file_system import FileSource
        from pyflink.datastream.connectors.hybrid_source import HybridSource
        from pyflink.datastream.formats.parquet import ParquetColumnarRowInputFormat
        from pyflink.table import DataTypes, Schema

        known = {
            "INT": DataTypes.INT(),
            "BIGINT": DataTypes.BIGINT(),
            "VARCHAR": DataTypes.STRING(),
            "TIMESTAMP": DataTypes.TIMESTAMP(3),
        }
        types = {name: known[kind] for name, kind in columns.items()}
        row = DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in types.items()])
        form = ParquetColumnarRowInputFormat(row, Configuration(), 2048, True, True)
        files = sorted(glob.glob(os.path.join(folder, "*.parquet")))
        sources = [
            FileSource.for_bulk_file_format(form, *files[first : first + readers]).build()
            for first in range(0, len(files), readers)
        ]
        chain = HybridSource.builder(sources[0])
        for source in sources[1:]:
            chain = chain.add_source(source)
        # Python's from_source knows no way to say that rows are Flink's internal ones, which need no conversion.
        stream = DataStream(
            env._j_stream_execution_environment.fromSource(
                chain.build().get_java_function(),
                WatermarkStrategy.no_watermarks()._j_watermark_strategy,
                view,
                form._j_bulk_format.getProducedType(),
            )
        )
        stream._j_data_stream.setParallelism(readers)
        schema = Schema.new_builder()
        for name, kind in types.items():
            schema = schema.column(name, kind.not_null() if name == key else kind)
        if time not in columns:
            time = "ts"
            schema = schema.column_by_expression("ts", "CAST(TIMESTAMP '1970-01-01 00:00:00' AS TIMESTAMP(3))")
        # Several packets have the same millisecond: a window may close only when the next one has begun.
        schema = schema.watermark(time, f"`{time}` - INTERVAL '0.001' SECOND")
        if key:
            schema = schema.primary_key(key)
        tables.create_temporary_view(view, stream, schema.build())


def serve() -> None:
    """Answer until the input ends. What the JVM prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "w")
    hole = os.open(os.devnull, os.O_WRONLY)
    os.dup2(hole, 1)
    os.dup2(hole, 2)
    runner: Runner | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            runner = runner or Runner(request["cores"])
            answer: dict[str, Any] = runner.measure(request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
