"""What an experiment missed is on its page with the reason, and the page says what the results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.experiments.report import render

DOCS = Path(__file__).resolve().parents[2] / "docs" / "experiments"
RESULTS = json.loads((DOCS / "results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RESULTS)
def test_every_missed_check_has_a_reason(name):
    unexplained = [c["what"] for c in RESULTS[name]["checks"] if not c["met"] and not c.get("why")]
    assert unexplained == []


def test_the_page_has_every_reason():
    page = (DOCS / "README.md").read_text(encoding="utf-8")
    assert page == render(RESULTS)
    missed = [c for result in RESULTS.values() for c in result["checks"] if not c["met"]]
    listed = page.split("## Missed, and why")[1].split("\n## ")[0]
    assert missed and listed.count("\n- **") == len(missed)
