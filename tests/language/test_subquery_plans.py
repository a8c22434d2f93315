"""How subqueries become joins, by example: each way with a query on which it is taken, and one on which it must not be.

`TIDEMILL_GOLDEN=1 pytest tests/language/test_subquery_plans.py` writes the plans anew; read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import LocalDatabase
from tests.rules.test_rules import SETUP, _Readable
from tests.statements import parse_one
from tidemill.engine.views.answering import Beginning
from tidemill.plan.show.plans import Explanation

FILE = Path(__file__).with_name("subquery_plans.yaml")
CASES = [(i, name) for i, case in enumerate(yaml.safe_load(FILE.read_text())) for name in case if name != "unnesting"]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    db = LocalDatabase(str(tmp_path_factory.mktemp("plans")))
    db.execute(SETUP)
    yield db
    db.close()


@pytest.mark.parametrize(("index", "name"), CASES)
def test_a_subquery_becomes_the_plan_that_is_written_down(index: int, name: str, database: LocalDatabase) -> None:
    data = yaml.safe_load(FILE.read_text())
    case = data[index][name]
    plan = str(Explanation({"q": database.workload.bind(parse_one(case["sql"]).query, Beginning(1)).node}))
    if os.environ.get("TIDEMILL_GOLDEN"):
        case["plan"] = plan
        FILE.write_text(yaml.dump(data, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=1000))
        return
    assert plan == case["plan"]


def test_every_way_has_a_query_on_which_it_must_not_be_taken() -> None:
    for case in yaml.safe_load(FILE.read_text()):
        kinds = [name for name in case if name != "unnesting"]
        assert kinds[0] == "fires" and kinds[1].startswith("must not") and len(kinds) == 2
        assert case["fires"]["plan"] != case[kinds[1]]["plan"]
