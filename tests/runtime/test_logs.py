"""The log of Spark is bounded, whichever process has it open."""

from __future__ import annotations

import os

from tidemill.runtime.spark.log_file import bound_log


def test_a_log_keeps_its_end_and_whoever_appends_goes_on(tmp_path):
    path = str(tmp_path / "spark.log")
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in range(1000):
        os.write(writer, b"line %d\n" % number)
    assert bound_log(path, most=100)
    kept = (tmp_path / "spark.log.1").read_text().splitlines()
    assert kept[-1] == "line 999" and kept[0].startswith("line ") and len("\n".join(kept)) < 100
    assert os.stat(tmp_path / "spark.log.1").st_mode & 0o077 == 0
    os.write(writer, b"next\n")
    os.close(writer)
    assert (tmp_path / "spark.log").read_text() == "next\n"
    assert not bound_log(path, most=100)


def test_a_log_that_is_not_there_stops_nothing(tmp_path):
    assert not bound_log(str(tmp_path / "spark.log"))
