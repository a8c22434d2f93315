"""Looks at a Spark session that the user gives, before a database is opened with it.

The job needs what Spark Connect does not have: a JVM beside this process, which calls back into it. And on a cluster
every worker needs the same Python, our packages, and the database directory under the same path. What is missing would
fail the first batch with a worker's traceback; here it is found before, and the error names it.
"""

from __future__ import annotations

import re
from typing import Any

from tidemill.errors import EngineProblem

PACKAGES = ("tidemill", "pyspark", "pyarrow", "duckdb", "numpy", "numba", "pandas")
# Text, because what comes from a module of ours would be looked for in that module, which a worker may not have.
_LOOK = """
def look(numbers):
    import importlib, os, socket, sys
    missing = []
    for name in packages:
        try:
            found = importlib.import_module(name)
        except ImportError as error:
            missing.append(f"{name} ({error})")
            continue
        if name == "tidemill" and found.__version__ != version:
            missing.append(f"tidemill {version}, it has {found.__version__}")
    if not os.path.isdir(root):
        place = "it does not see the directory"
    elif not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        place = "it may not read and write in the directory"
    else:
        place = ""
    yield socket.gethostname(), sys.executable, missing, place
"""
_HINT = 'see "A cluster, step by step" in docs/operations.md'


def check_session(spark: Any) -> None:
    """Refuse a session in which no job of ours can run; None is one that is made when it is needed."""
    if spark is None:
        return
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise EngineProblem(
            "TM645",
            "a Spark Connect session cannot run a database",
            detail="the job calls back into this process, and a Connect client has no JVM beside it",
            hint="give a session with a master of its own, SparkSession.builder.master(…), or none",
        )
    import pyspark

    if not _is_classic(spark):
        return
    own, given = (text.split(".")[:2] for text in (pyspark.__version__, spark.version))
    if own != given:
        raise EngineProblem(
            "TM646", f"the session is of Spark {spark.version}, pyspark here is {pyspark.__version__}", hint=_HINT
        )


def check_workers(spark: Any, root: str, version: str) -> None:
    """Refuse a cluster whose workers lack something, our `version` among it; a session on this machine has what this
    process has.
    """
    if spark is None or not _is_classic(spark) or is_on_this_machine(spark):
        return
    context = spark.sparkContext
    count = max(1, context.defaultParallelism)
    try:
        found = context.parallelize(range(count), count).mapPartitions(looking(root, version)).collect()
    except Exception as error:
        raise worker_problem(str(error)) from error
    for host, python, missing, place in found:
        if missing:
            raise EngineProblem("TM646", f"a worker lacks {missing[0]}", detail=f"{python} on {host}", hint=_HINT)
        if place:
            raise EngineProblem(
                "TM646", f"a worker cannot use {root}", detail=f"{place}; {python} on {host}", hint=_HINT
            )


def is_on_this_machine(spark: Any) -> bool:
    """Whether the tasks of a session run beside this process."""
    return re.match(r"local(\[|$)", spark.sparkContext.master) is not None


def _is_classic(spark: Any) -> bool:
    # Imported here: a command that needs no job does not wait for Spark's libraries.
    from pyspark.sql import SparkSession

    return isinstance(spark, SparkSession)


def looking(root: str, version: str, packages: tuple[str, ...] = PACKAGES) -> Any:
    """A function that looks around in a worker; it carries its own code."""
    space: dict[str, Any] = {"__name__": "__main__", "root": root, "packages": packages, "version": version}
    exec(_LOOK, space)
    return space["look"]


def worker_problem(text: str) -> EngineProblem:
    """Why no task ran on a worker, from what Spark says.

    >>> worker_problem("… [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in "
    ...                "driver: 3.12, PySpark cannot run …").message
    'the workers have Python 3.10, this process has 3.12'
    >>> worker_problem("…\\nModuleNotFoundError: No module named 'tidemill'\\n…").message
    "a worker lacks a package: No module named 'tidemill'"
    >>> worker_problem('Cannot run program "python3.12": error=2, No such file or directory').message
    'a worker cannot start Python: Cannot run program "python3.12": error=2, No such file or directory'
    """
    versions = re.search(r"different (?:minor )?version: (\S+?) than that in\s+driver: ([\d.]+\d)", text)
    package = re.search(r"No module named \S+", text)
    program = re.search(r"Cannot run program .*", text)
    if versions:
        said = f"the workers have Python {versions[1]}, this process has {versions[2]}"
    elif package:
        said = f"a worker lacks a package: {package[0]}"
    elif program:
        said = f"a worker cannot start Python: {program[0]}"
    else:
        said = "the workers of the session cannot run Python"
    return EngineProblem("TM646", said, detail=text[:2000], hint=_HINT)
