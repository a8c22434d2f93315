"""A real standalone cluster: a master and two workers from the pip package, the driver beside them."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyspark
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import tidemill
from tests.harness import LocalDatabase
from tests.network import free_port
from tests.properties.effort import thorough
from tests.spark import scenario
from tests.spark.cluster_driver import VIEWS
from tests.spark.processes import Child, module, until
from tidemill.runtime.spark.session import java_home
from tidemill.serve.cli import app

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
WORKERS = 2


SERVED = """
REGISTER SOURCE Readings (room INTEGER, at TIMESTAMP)
FROM GENERATE (rate = 2000, seed = 7, room = 'uniform(1,9)', start = 'now') WITH (timestamp = 'at');
CREATE TAGGED STREAM Log OVER Readings;
CREATE VIEW PerRoom AS SELECT room, count(*) AS n FROM Log GROUP BY room;
CREATE SINK Lake FROM PerRoom TO DELTA '{lake}' WITH (mode = 'upsert');
"""


@pytest.fixture
def environment() -> dict[str, str]:
    """What master, workers and driver need to find Java, Spark and the interpreter of the tests."""
    found = {
        "SPARK_HOME": os.path.dirname(pyspark.__file__),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    home = java_home()
    return {**found, "JAVA_HOME": home} if home else found


@pytest.fixture
def master(tmp_path, environment) -> Iterator[str]:
    """The address of a cluster with two workers of one core each."""
    address = f"spark://127.0.0.1:{(port := free_port())}"
    start = os.path.join(environment["SPARK_HOME"], "bin", "spark-class")
    deploy = "org.apache.spark.deploy"
    log = tmp_path / "master.log"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    children = [Child([start, f"{deploy}.master.Master", *here, "--port", str(port)], log=log, env=environment)]
    try:
        until(lambda: "Starting Spark master" in log.read_text(), 60, "the master")
        for number in range(WORKERS):
            children.append(
                Child(
                    [
                        start,
                        f"{deploy}.worker.Worker",
                        *here,
                        "--cores",
                        "1",
                        "--memory",
                        "1g",
                        "--work-dir",
                        str(tmp_path / f"worker{number}"),
                        address,
                    ],
                    log=tmp_path / f"worker{number}.log",
                    env=environment,
                )
            )
        until(lambda: log.read_text().count("Registering worker") == WORKERS, 60, "the workers")
        yield address
    finally:
        for child in children:
            child.end()


def test_a_cluster_answers_as_one_process_does(master, environment, tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    scenario.write_input(data, files=4, rows=20)
    with LocalDatabase(str(tmp_path / "wanted")) as db:
        scenario.create(db, data, tmp_path / "wanted out", views=VIEWS)
        db.run(final=True)
        wanted = scenario.everything(db, tmp_path / "wanted out")
    driver = Child(
        module("tests.spark.cluster_driver", master, str(tmp_path / "db"), str(data), str(out)),
        log=tmp_path / "driver.log",
        env=environment,
    )
    try:
        until(lambda: not driver.is_alive, 200, "the run on the cluster")
    finally:
        driver.end()
    assert driver.process.returncode == 0, driver.tail()
    assert re.search(r"executors (\d+)", driver.tail()).group(1) == str(WORKERS)
    assert all(_has_run(tmp_path / f"worker{number}") for number in range(WORKERS)), "both workers take part"
    with tidemill.open(str(tmp_path / "db")) as db:
        assert scenario.differences(scenario.everything(db, out), wanted) == ""


def written_files(lake: Path) -> list[str]:
    """The files that are in a table: three rows each, so workers have written them and not the library."""
    return [os.path.basename(uri) for uri in DeltaTable(str(lake)).file_uris()] if lake.exists() else []


@pytest.mark.skipif(not thorough(), reason="half a minute: TIDEMILL_THOROUGH=1")
def test_a_server_computes_on_a_cluster(master, environment, tmp_path):
    (tmp_path / "init.sql").write_text(SERVED.format(lake=tmp_path / "lake"))
    given = ["--db", str(tmp_path / "db"), "--init", str(tmp_path / "init.sql"), "--master", master]
    memory = ["--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"]
    served = Child(
        module("tidemill.serve.cli", "serve", *given, *memory, "--port", "0", "--no-http", "--shards", "2"),
        log=tmp_path / "served.log",
        env={**environment, "TIDEMILL_THRESHOLDS": "lake_file_rows=3"},
    )
    try:
        until(lambda: "ready: " in served.tail() or not served.is_alive, 200, "the server")
        port = re.search(r"ready: postgresql://127\.0\.0\.1:(\d+)/", served.tail()).group(1)
        with psycopg.connect(f"host=127.0.0.1 port={port} user=ann dbname=tidemill", autocommit=True) as connection:

            def count() -> int:
                return int(connection.execute("SELECT coalesce(sum(n), 0) AS n FROM PerRoom").fetchone()[0])

            until(lambda: count() > 0, 120, "rows")
            before = count()
            until(lambda: count() > before, 60, "more rows")
            until(lambda: len(written_files(tmp_path / "lake")) >= 3, 60, "files of the lake")
        os.kill(served.process.pid, signal.SIGTERM)
        until(lambda: not served.is_alive, 120, "the end of the server")
    finally:
        served.end()
    assert served.process.returncode == 0, served.tail()
    assert all(_has_run(tmp_path / f"worker{number}") for number in range(WORKERS)), "both workers take part"
    assert all(re.fullmatch(r"part-[0-9a-f]{32}\.parquet", name) for name in written_files(tmp_path / "lake"))
    assert DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().num_rows == 9


def test_settings_of_a_cluster_need_a_cluster(tmp_path):
    for given, said in ((["--conf", "spark.x=1"], "--master"), (["--master", "spark://h:1", "--conf", "x"], "spark.")):
        done = CliRunner().invoke(app, ["serve", "--db", str(tmp_path / "db"), *given])
        assert done.exit_code == 2 and said in done.output


def _has_run(worker: Path) -> bool:
    """An executor of this worker has finished tasks."""
    return any("Finished task" in log.read_text(errors="replace") for log in worker.glob("*/*/stderr"))
