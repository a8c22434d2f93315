"""On a machine without machine code a plan compiles what it uses, once, in processes side by side."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import int64, types

from tests.harness import LocalDatabase
from tests.kernels.test_warm import WORKLOAD
from tests.places import IMPORTS, ROOT
from tidemill.errors import EngineProblem
from tidemill.runtime.kernels.compiling import cache as module
from tidemill.runtime.kernels.compiling.cache import Compilation, compile_missing, compiled_groups
from tidemill.runtime.kernels.compiling.lazy import compiled, prepare
from tidemill.runtime.kernels.compiling.needed import SECONDS, groups_of
from tidemill.runtime.kernels.compiling.warm import GROUPS, kernels, warm
from tidemill.runtime.paths import load_plan

JOIN = """
    REGISTER SOURCE Orders (customer INTEGER, paid DOUBLE, at TIMESTAMP) FROM GENERATE (rate = 10, rows = 100, seed = 1,
        customer = 'uniform(1,9)', paid = 'normal(74,6)') WITH (timestamp = 'at');
    REGISTER SOURCE Visits (customer INTEGER, pages INTEGER, at TIMESTAMP) FROM GENERATE (rate = 10, rows = 100,
        seed = 2, customer = 'uniform(1,9)', pages = 'uniform(1,9)') WITH (timestamp = 'at');
    CREATE TAGGED STREAM O OVER Orders; CREATE TAGGED STREAM V OVER Visits;
    CREATE VIEW Both AS SELECT o.customer, count(*) AS n, sum(o.paid) AS paid, max(v.pages) AS most
    FROM O [RANGE 5 SECONDS SLIDE 1 SECOND] o JOIN V [RANGE 5 SECONDS SLIDE 1 SECOND] v ON o.customer = v.customer
    GROUP BY o.customer;
"""
LATEST = """
    REGISTER SOURCE Readings (room INTEGER, temp DOUBLE, at TIMESTAMP) FROM FILES '{folder}/*.csv'
    WITH (timestamp = 'at');
    CREATE TAGGED STREAM Rooms OVER Readings KEY room;
    CREATE VIEW Current AS SELECT room, temp FROM Rooms;
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A user who has compiled nothing."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def test_every_group_has_its_seconds():
    assert set(SECONDS) == set(GROUPS)


def test_a_kernel_with_a_signature_is_compiled_at_its_first_call():
    @compiled(int64(types.Array(int64, 1, "C", readonly=True)))
    def total(values):
        return values.sum()

    assert not total.signatures
    assert total(np.array([1, 2])) == 3 and len(total.signatures) == 1
    with pytest.raises(TypeError):
        total("text")
    assert len(total.signatures) == 1


def test_prepared_is_compiled_once():
    @compiled(int64(int64))
    def one_more(value):
        return value + 1

    prepare(one_more)
    prepare(one_more)
    assert len(one_more.signatures) == 1 and one_more(2) == 3


def test_a_text_file_compiles_no_windows(tmp_path):
    (tmp_path / "a.csv").write_text("room,temp,at\n1,2.5,2024-01-01 00:00:00\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(LATEST.format(folder=tmp_path))
        db.run()
        assert set(groups_of(load_plan(db.paths.plan(db.outlet.plan)))) == {"lines", "edges", "tagging"}


@pytest.mark.parametrize("name", ["WORKLOAD", "JOIN", "LATEST"])
def test_a_plan_calls_kernels_of_its_groups_only(tmp_path, name):
    code = (
        f"from tests.kernels.test_kept import kernels_outside\n"
        f"print('outside', kernels_outside({str(tmp_path)!r}, {name!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": IMPORTS}
    )
    assert "outside []" in done.stdout, done.stdout + done.stderr


def kernels_outside(folder: str, name: str) -> list[str]:
    """Kernels that were compiled at work although the groups of the plan were warm."""
    (Path(folder) / "a.csv").write_text("room,temp,at\n1,2.5,2024-01-01 00:00:00\n1,3.5,2024-01-01 00:00:01\n")
    with LocalDatabase(os.path.join(folder, "db")) as db:
        db.execute({"WORKLOAD": WORKLOAD, "JOIN": JOIN, "LATEST": LATEST.format(folder=folder)}[name])
        db.runner.publisher.publish()
        warm(groups_of(load_plan(db.paths.plan(db.catalog.version))))
        before = {n: set(k.signatures) for n, k in kernels().items()}
        db.run()
    return [n for n, k in kernels().items() if set(k.signatures) != before[n]]


def test_what_is_missing_is_compiled_and_noted(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "code"))
    assert compiled_groups() == ()
    said = io.StringIO()
    compile_missing(["tagging", "spool"]).wait(said)
    assert "0 of 2 groups" in said.getvalue()
    assert set(compiled_groups()) == {"tagging", "spool"}
    assert compile_missing(["tagging", "edges"]).groups == ["edges"]


def test_machine_code_that_was_removed_is_missing(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "code"))
    compile_missing(["tagging"]).wait(io.StringIO())
    for path in list((tmp_path / "code").rglob("*.nbi")):
        path.unlink()
    assert compiled_groups() == ()


def test_nothing_to_compile_says_nothing(cache):
    said = io.StringIO()
    Compilation([]).wait(said)
    assert said.getvalue() == ""


def test_a_terminal_sees_progress(cache, monkeypatch, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "code"))
    said = Terminal()
    compile_missing(["tagging"]).wait(said)
    assert said.getvalue().count("\r") > 2 and said.getvalue().endswith("\r")


def test_where_nothing_can_be_kept_there_is_an_error(cache, monkeypatch, tmp_path):
    # The user of the tests may be allowed to write everywhere: the compiler's words are played back.
    compiler = tmp_path / "python"
    compiler.write_text("#!/bin/sh\necho 'RuntimeError: cannot cache function: no locator available'; exit 1\n")
    compiler.chmod(0o700)
    monkeypatch.setattr(module.sys, "executable", str(compiler))  # type: ignore[attr-defined]
    with pytest.raises(EngineProblem, match="cannot be compiled") as found:
        compile_missing(["tagging"]).wait(io.StringIO())
    problem = found.value
    assert problem.code == "TM521" and "no locator" in problem.detail and "NUMBA_CACHE_DIR" in problem.hint
    assert compiled_groups() == ()


def test_the_session_loads_only_what_is_kept(cache, monkeypatch):
    from tidemill.runtime.spark import warm_up

    called = []
    monkeypatch.setattr("tidemill.runtime.kernels.compiling.warm.warm", lambda *groups, **_: called.append(groups))
    warm_up.load_kernels()
    assert not called
