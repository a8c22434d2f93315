"""A real standalone cluster: a master and two workers from the pip package, the driver beside them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import tidemill
from tests.harness import LocalDatabase
from tests.network import free_port
from tests.spark import scenario
from tests.spark.cluster_driver import VIEWS
from tests.spark.processes import Child, module, until
from tidemill.runtime.spark.session import java_home

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
WORKERS = 2


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


def _has_run(worker: Path) -> bool:
    """An executor of this worker has finished tasks."""
    return any("Finished task" in log.read_text(errors="replace") for log in worker.glob("*/*/stderr"))
