"""What is known of join values outlives the database that is open: it is written and read as it is."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tidemill.engine.sites.measures import Measures
from tidemill.runtime.sites.join_values import KeyBytes, Measure

KNOWN = Measure(2, {"k": 8}, {"k": ""}, {"k": KeyBytes(8, 1)})
WRITTEN = {"S": {"rows": 2, "bytes": {"k": 8}, "values": {"k": ""}, "keys": {"k": [8, 1]}}}


def measures(path: Any) -> Measures:
    nothing = cast(Any, None)
    return Measures(str(path), "d", nothing, nothing)


def test_what_is_written_is_read(tmp_path):
    first = measures(tmp_path / "measures.json")
    first._found = {"S": KNOWN}
    first.save()
    assert json.loads((tmp_path / "measures.json").read_text())["sources"] == WRITTEN, "as versions before had it"
    assert measures(tmp_path / "measures.json")._found == {"S": KNOWN}


@pytest.mark.parametrize("sources", [None, {"S": 7}, {"S": {"bytes": {}, "keys": {"k": [1, 2, 3]}}}])
def test_a_file_of_another_form_counts_as_no_statistics(tmp_path, sources):
    (tmp_path / "measures.json").write_text(json.dumps({"database": "d", "sources": sources}))
    assert measures(tmp_path / "measures.json")._found == {}
