"""The file that a server begins with: what stands already is left as it is, so that the same command goes on."""

from __future__ import annotations

import pytest

from tests.live import LiveDatabase
from tidemill.errors import TidemillError
from tidemill.serve.serving import run_init

TEXT = """
REGISTER SOURCE S (a INTEGER, at TIMESTAMP)
FROM GENERATE (rate = 10, rows = 20, seed = 7, a = 'uniform(1,9)') WITH (timestamp = 'at');
CREATE TAGGED STREAM T OVER S;
CREATE VIEW V AS SELECT a FROM T;
CREATE USER admin PASSWORD 'x';
CREATE USER reader PASSWORD 'y';
GRANT SELECT ON V TO reader;
SET query_time = '30 seconds';
"""


def test_the_same_file_can_be_executed_again(tmp_path):
    with LiveDatabase(str(tmp_path / "db")) as db:
        run_init(db, TEXT)
        db.execute("ALTER USER reader PASSWORD 'changed'")
        verifier, view = db.catalog.users["reader"].verifier, db.catalog.entries["v"].id
        run_init(db, TEXT)
        assert db.catalog.users["reader"].verifier == verifier and db.catalog.entries["v"].id == view
        assert db.catalog.users["reader"].reads == ["v"]
    with LiveDatabase(str(tmp_path / "db")) as db:
        assert db.catalog.users["reader"].verifier == verifier and db.catalog.users["admin"].privileges == ["all"]


def test_an_error_in_the_file_has_its_place(tmp_path):
    with LiveDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError) as found:
        run_init(db, TEXT + "CREATE VIEW W AS SELECT b FROM T;")
    assert found.value.line == 10
