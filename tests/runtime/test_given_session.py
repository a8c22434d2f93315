"""A session in which no job can run is refused when the database is opened, and nothing is made."""

from __future__ import annotations

import os
import pickle
import sys

import pyspark
import pytest
from pyspark import cloudpickle

import tidemill
from tidemill.errors import EngineProblem
from tidemill.runtime.spark import given_session
from tidemill.runtime.spark.given_session import check_session, check_workers, looking


def test_a_spark_connect_session_is_refused_before_anything_is_made(tmp_path):
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(EngineProblem) as caught:
        tidemill.open(str(tmp_path / "db"), spark=remote)
    assert caught.value.code == "TM645" and "Connect" in caught.value.message and caught.value.hint
    assert not (tmp_path / "db").exists()


class Context:
    """As much of a SparkContext as is asked, whose workers are this process."""

    def __init__(self, master: str, error: str | None = None) -> None:
        self.master, self.defaultParallelism, self.error, self.jobs = master, 2, error, 0

    def parallelize(self, numbers, count):
        self.jobs += 1
        return self

    def mapPartitions(self, function):
        self.function = pickle.loads(cloudpickle.dumps(function))  # as it comes to a worker
        return self

    def collect(self):
        if self.error:
            raise RuntimeError(self.error)
        return [*self.function(iter([0])), *self.function(iter([1]))]


class Session:
    version = pyspark.__version__

    def __init__(self, *given: str | None) -> None:
        self.sparkContext = Context(*given)


@pytest.fixture(autouse=True)
def classic(monkeypatch):
    monkeypatch.setattr(given_session, "_is_classic", lambda spark: isinstance(spark, Session))


def test_workers_that_have_all_are_taken(tmp_path):
    session = Session("spark://master:7077")
    check_session(session)
    check_workers(session, str(tmp_path), tidemill.__version__)
    assert session.sparkContext.jobs == 1


@pytest.mark.parametrize("master", ["local", "local[4]", "local[4,2]"])
def test_workers_of_this_machine_are_not_asked(tmp_path, master):
    session = Session(master)
    check_workers(session, str(tmp_path), tidemill.__version__)
    assert session.sparkContext.jobs == 0


def test_another_spark_is_refused():
    session = Session("local")
    session.version = "3.5.1"
    with pytest.raises(EngineProblem, match=r"TM646.*3\.5\.1"):
        check_session(session)


@pytest.mark.parametrize(
    "error, said",
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.12, PySpark",
            "3.9",
        ),
        ("Error from python worker:\n  ModuleNotFoundError: No module named 'tidemill'\n", "'tidemill'"),
        ("something else", "cannot run Python"),
    ],
)
def test_workers_with_another_python_are_named(tmp_path, error, said):
    with pytest.raises(EngineProblem) as caught:
        check_workers(Session("spark://master:7077", error), str(tmp_path), "0")
    assert caught.value.code == "TM646" and said in caught.value.message and error in str(caught.value.detail)


def test_a_worker_without_a_package_or_with_another_version_says_so(tmp_path):
    [(_, python, missing, place)] = looking(str(tmp_path), "0.0.1", ("tidemill", "no_such_package"))(iter([0]))
    assert python == sys.executable and place == ""
    assert len(missing) == 2 and "0.0.1" in missing[0] and "no_such_package" in missing[1]


def test_a_directory_that_a_worker_does_not_see_is_named(tmp_path):
    with pytest.raises(EngineProblem, match=r"TM646.*cannot use"):
        check_workers(Session("spark://master:7077"), str(tmp_path / "elsewhere"), tidemill.__version__)


def test_the_look_carries_its_own_code(tmp_path):
    """A worker without our package can still say that it lacks it."""
    sent = cloudpickle.dumps(looking(str(tmp_path), "0", ("json",)))
    assert b"given_session" not in sent
    assert os.fspath(tmp_path).encode() in sent
