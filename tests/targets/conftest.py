"""One PostgreSQL server for all tests of the folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.targets.postgres_server import Server, find_programs


@pytest.fixture(scope="session")
def postgres():
    # Not under the folders of pytest: those belong to root, and the server to another user.
    with tempfile.TemporaryDirectory(prefix="tidemill-postgres-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        server = Server(find_programs(), Path(folder))
        yield server
        server.stop("immediate")
