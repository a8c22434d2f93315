"""What tests of several folders use."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MEMORY = Path("/dev/shm")
ROOM = 8 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Databases of tests live in memory where the machine has room for them: small tests mostly wait for fsync.

    A TMPDIR of the user's stays.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= ROOM:
        place = MEMORY / f"tidemill-tests-{os.getuid()}"
        place.mkdir(mode=0o700, exist_ok=True)
        if place.stat().st_uid == os.getuid():
            os.environ["TMPDIR"] = tempfile.tempdir = str(place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Half a million objects of modules and collected tests stay to the end: no search for garbage looks at them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Libraries report objects that nothing has freed at the end."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one local session of all ordinary Spark tests."""
    from tidemill.runtime.spark.session import local_session

    session = local_session(log=str(tmp_path_factory.mktemp("spark") / "spark.log"))
    yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def costs_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Plans do not depend on what was measured on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def plans_as_they_are_read() -> Iterator[None]:
    """Every plan that a test publishes is equal to what is read from its file, as other processes do."""
    from tidemill.plan.physical import Physical
    from tidemill.runtime import paths

    keep, to_json = paths._keep_plan, Physical.to_json

    def compare_and_keep(known: tuple[str, int], plan: Physical) -> Physical:
        read = paths._parse_plan(known[0])
        assert read == plan or Physical.to_json is not to_json, "a plan changes when it is written and read"
        return keep(known, read)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "_keep_plan", compare_and_keep)
        yield
