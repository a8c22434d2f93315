"""A live database with both servers before it, shared by the tests of a file; and input that grows."""

from __future__ import annotations

import pytest

from tests.http.serving import HttpThread
from tests.postgres.conftest import db, feed

__all__ = ["db", "feed"]


@pytest.fixture(scope="module")
def server(db):
    started = HttpThread(db)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def client(server):
    return server.client()
