"""Databases for the examples of the paper."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase


@pytest.fixture(params=[1, 2], ids=["one shard", "two shards"])
def db(tmp_path, request):
    database = LocalDatabase(str(tmp_path / "db"), shards=request.param)
    yield database
    database.close()
