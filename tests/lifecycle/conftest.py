"""Databases that live for one test, and the way to let them catch up."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase


@pytest.fixture
def db(tmp_path):
    database = LocalDatabase(str(tmp_path / "db"))
    yield database
    database.close()
