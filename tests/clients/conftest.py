"""A live database with its server in a process of their own, shared by the tests of a file."""

from __future__ import annotations

from tests.postgres.conftest import db, feed, process, server

__all__ = ["db", "feed", "process", "server"]
