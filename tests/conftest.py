"""What tests of several folders use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one local session of all ordinary Spark tests."""
    from tidemill.runtime.spark.session import local_session

    session = local_session(log=str(tmp_path_factory.mktemp("spark") / "spark.log"))
    yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def costs_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Plans do not depend on what somebody measured on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
