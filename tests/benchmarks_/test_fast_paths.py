"""The benchmark of fast paths has every path, with different workloads, and runs them with the path on and off."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from benchmarks import fast_paths
from benchmarks.fast_paths.measure import Comparison, Sizes, compare, cost
from benchmarks.fast_paths.works import PATHS, UNCHANGED
from tidemill.runtime.fast_paths import NAMES


def test_every_path_has_two_workloads_at_least():
    assert list(PATHS) == list(NAMES)
    assert all(len(set(works.values())) >= 2 for works in PATHS.values())


SOME = ("plain_text", "early_limit", "numbered_answers", "pair_sums", "value_presence", "preview")


@pytest.mark.parametrize("path", SOME)
def test_workloads_answer_the_same_without_the_path(path):
    for work in PATHS[path].values():
        on, off = (cost(path, off, work, Sizes(20_000, 4, 1)) for off in ("", path))
        assert on.row_ns > 0 and off.row_ns > 0 and on.answers == off.answers


def test_a_comparison_says_whether_the_path_is_taken():
    work = UNCHANGED["a refreshed count"]
    walked, joined = (compare(path, work, Sizes(20_000, 4, 1)) for path in ("group_walk", "pair_sums"))
    assert walked.taken and not joined.taken
    assert walked.answer_rows == joined.answer_rows > 0 and walked.ratio == walked.off / walked.on


def test_the_page_names_paths_that_win_less_than_twice_or_are_not_taken():
    class Steps:
        def expect(self, count): ...
        def done(self, what): ...

    some = {"group_walk": PATHS["group_walk"], "preview": PATHS["preview"]}
    times = {
        "": Comparison(10.0, 10.0, 1, 1.0, False),
        "group_walk": Comparison(10.0, 20.0, 1, 2.0, True),
        "preview": Comparison(10.0, 10.1, 1, 1.01, False),
    }
    with (
        patch.dict(fast_paths.PATHS, some, clear=True),
        patch.object(fast_paths, "compare", lambda path, work, sizes: times[path]),
    ):
        result = fast_paths.run(True, Steps())
    assert [row[-1] for row in result.tables[0].rows] == [1.0] * len(UNCHANGED) + [2.0, 2.0, 1.01, 1.01]
    assert not result.checks[0].met and result.checks[0].measured == "all but preview (0 of 2)"
    assert not result.checks[1].met
    assert result.checks[1].measured == "all but preview over many windows, preview over a mixture of queries"
