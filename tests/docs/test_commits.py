"""Subjects of commits have the form `area: what changes`, in at most 72 characters, as CONTRIBUTING asks."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.places import ROOT

SINCE = "9dc9678d0ac5802de055f6b83ad99cb89acc9dc1"  # earlier subjects were not checked
MOST = 72
FORM = re.compile(r"[a-z][\w ,/.-]*: \S.*")


def git(*words: str) -> str | None:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def complaint(subject: str) -> str | None:
    """What is wrong with a subject; None if nothing is."""
    if len(subject) > MOST:
        return f"{len(subject)} characters, at most {MOST}: {subject}"
    if not FORM.fullmatch(subject) or subject.split(":")[0] in ("wip", "style", "fix"):
        return f"not of the form `area: what changes`: {subject}"
    return None


def test_subjects_of_commits():
    if git("cat-file", "-e", f"{SINCE}^{{commit}}") is None:
        pytest.skip("SUBJECTS OF COMMITS ARE NOT CHECKED: this copy has no git history")
    log = git("log", "--no-merges", "--format=%s", f"{SINCE}..HEAD")
    assert log is not None
    assert [text for subject in log.splitlines() if (text := complaint(subject)) is not None] == []


@pytest.mark.parametrize("subject", ["wip: try it", "a change without its area", f"area: {'x' * 70}", "Area: capital"])
def test_a_wrong_subject_is_found(subject: str) -> None:
    assert complaint(subject) is not None
    assert complaint("sql/bind: names of views, and their keys") is None
