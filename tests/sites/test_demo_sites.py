"""The demo of two sites does what it says: its scripts run, rows cross, and a part of the bytes is enough."""

from __future__ import annotations

import re

from rich.console import Console

import tidemill
from tests.docs.test_docs import LiveDatabase
from tidemill.serve.demo_sites import run_sites_demo


def test_two_sites_on_one_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(tidemill, "open", lambda path: LiveDatabase(path))
    console = Console(record=True, width=200)
    run_sites_demo(console, str(tmp_path), 4.0)
    shown = re.findall(r"([\d,]+) changes of the join; +([\d,]+) bytes crossed, +([\d,]+) for", console.export_text())
    changes, narrow, whole = (int(n.replace(",", "")) for n in shown[-1])
    assert changes > 0 and 0 < narrow < whole / 2
