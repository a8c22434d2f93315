"""Databases for single questions."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase


@pytest.fixture
def db(tmp_path):
    database = LocalDatabase(str(tmp_path / "db"))
    yield database
    database.close()
