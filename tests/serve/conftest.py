"""A console that remembers, and a fake database behind every command."""

from __future__ import annotations

import io

import pytest
from fake_db import FakeDatabase
from rich.console import Console

from tidemill.serve import opening


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=100, highlight=False, markup=False)


@pytest.fixture
def db(monkeypatch):
    fake = FakeDatabase()
    monkeypatch.setattr(opening, "connect", lambda path, **settings: fake)
    return fake
