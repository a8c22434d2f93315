"""The exercise of CONTRIBUTING.md works as written: applied to a copy of the code, its commands pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.docs.exercise import Exercise, exercises, listed_files, patched
from tests.places import ROOT

ALL = exercises()
MOST_FILES = 4


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.title)
def test_an_exercise_touches_the_files_it_lists(exercise: Exercise):
    assert exercise.files == listed_files(exercise.title) and 0 < len(exercise.files) <= MOST_FILES


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.title)
def test_an_exercise_works_as_written(exercise: Exercise, tmp_path):
    for name in ("src", "tests", "docs", "benchmarks"):  # with compiled kernels, which take minutes to make
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.svg", ".cache"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    exercise.apply(tmp_path)
    assert exercise.commands
    for command in exercise.commands:
        line = command.replace(".venv/bin/python", sys.executable)
        outside = {**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"}
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-1000:]}"


def test_a_change_that_no_longer_fits_is_found():
    with pytest.raises(AssertionError):
        patched("something else\n", "-a\n+b\n")


def test_there_are_three_exercises():
    assert len(ALL) == 3
