"""A whole database that is put back from a copy: the other site refuses it, whichever of the two it is."""

from __future__ import annotations

import shutil

import pytest

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.sites.two_sites import Network

SOURCE = """
REGISTER SOURCE S (k INTEGER, at INTEGER) FROM FILES '{}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM T OVER S;
CREATE SITE lyon WITH (plaintext = true);
EXPORT STREAM T TO SITE lyon;
"""


@pytest.mark.parametrize("restored", ["paris", "lyon"])
def test_a_restored_site_is_refused_and_told_why(tmp_path, restored):
    network, rows = Network(), tmp_path / "rows"
    rows.mkdir()
    with CheckpointedDatabase(str(tmp_path / "paris")) as paris, CheckpointedDatabase(str(tmp_path / "lyon")) as lyon:
        network.add("paris", paris)
        network.add("lyon", lyon)
        paris.execute(SOURCE.format(rows))
        lyon.execute("CREATE SITE paris AT 'localhost:7443' WITH (plaintext = true)")
        lyon.execute("CREATE STREAMED VIEW V AS SELECT k FROM paris.T")
        network.settle("lyon", "paris")
    for number in range(3):
        (rows / f"{number}.csv").write_text(f"k,at\n{number},{2 * number}\n{number},{2 * number + 1}\n")
        with (
            CheckpointedDatabase(str(tmp_path / "paris")) as paris,
            CheckpointedDatabase(str(tmp_path / "lyon")) as lyon,
        ):
            network.add("paris", paris)
            network.add("lyon", lyon)
            paris.run(final=False)
            network.settle("lyon", "paris")
            lyon.run(final=False)
            network.pump("lyon", "paris")
            problem = lyon.status()["sites"][0]["reads"][0]["problem"]
            assert ("TM711" in str(problem)) == (number == 2), problem
        if number == 0:
            shutil.copytree(tmp_path / restored, tmp_path / "copy")
        if number == 1:
            shutil.rmtree(tmp_path / restored)
            shutil.move(tmp_path / "copy", tmp_path / restored)
