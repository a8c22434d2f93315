"""The driver of a job on a standalone cluster: python -m tests.spark.cluster_driver MASTER DATABASE DATA OUT

A process of its own, because one process has one JVM and thereby one master.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import tidemill
from tests.spark import scenario
from tidemill.runtime.spark import session

VIEWS = ("Levels", "Sizes", "Occupied", "Report")
SETTINGS = {
    **session.SETTINGS,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.log.level": "WARN",
    # Without this the first tasks would all run on the worker that registers first.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


def main(master: str, path: str, data: str, out: str) -> None:
    builder = SparkSession.builder.master(master).appName("tidemill on a cluster")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    with tidemill.open(path, spark=spark) as db:
        scenario.create(db, Path(data), Path(out), batch_rows=40, views=VIEWS)
        print(db.run(final=True))
    print("executors", len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
