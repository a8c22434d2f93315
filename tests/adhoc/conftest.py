"""A small database with a secret file beside it."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase

SECRET = "the-secret-of-the-file"
SETUP = """
REGISTER SOURCE S (room INTEGER, temp DOUBLE, at TIMESTAMP)
FROM GENERATE (rate = 10, rows = 200, seed = 7, room = 'uniform(1,9)', temp = 'normal(70,5)') WITH (timestamp = 'at');
CREATE TAGGED STREAM T OVER S;
CREATE VIEW ByRoom AS SELECT room, count(*) AS n, max(temp) AS hottest FROM T GROUP BY room;
CREATE VIEW Log AS SELECT room, temp, at FROM T;
CREATE STREAMED VIEW Flow AS SELECT room FROM T;
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("adhoc")


@pytest.fixture(scope="module")
def secret(place):
    """A file that no query may ever show."""
    path = place / "secret.csv"
    path.write_text(f"word\n{SECRET}\n")
    return str(path)


@pytest.fixture(scope="module")
def db(place, secret):
    with LocalDatabase(str(place / "db")) as db:
        db.execute(SETUP)
        db.run()
        yield db
