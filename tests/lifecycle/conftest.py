"""Databases that live for one test, and the way to let them catch up."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.paper.notation import Feed


@pytest.fixture
def db(tmp_path):
    database = LocalDatabase(str(tmp_path / "db"))
    yield database
    database.close()


@pytest.fixture
def feed(db, tmp_path):
    """Rows for a stream K with key k."""
    made = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER")
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k")
    return made
