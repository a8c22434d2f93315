"""Where each fast path begins, and which paths a run takes: a workload that never enters its path measures nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tidemill.runtime import row_references
from tidemill.runtime.answer_files.index import AnswerFiles
from tidemill.runtime.fast_paths import FastPath
from tidemill.runtime.joins.pair_sums import PairSums
from tidemill.runtime.joins.value_presence import ValuePresence
from tidemill.runtime.operators import plain_columns
from tidemill.runtime.operators.grouping.group_walk import GroupWalk
from tidemill.runtime.operators.grouping.joint_group import JointGroup
from tidemill.runtime.operators.joined_pairs import Matching
from tidemill.runtime.operators.numbered_answers import NumberedAnswers
from tidemill.runtime.operators.ranking.early_limit import EarlyLimit
from tidemill.runtime.operators.ranking.sorted_moves import MoveOrder
from tidemill.runtime.planning import preview
from tidemill.runtime.reader import ordered_rows
from tidemill.runtime.share.reader.running_totals.totals import RunningTotals
from tidemill.runtime.share.stage.row_templates import RowTemplate
from tidemill.runtime.sources.files.pages import Pages
from tidemill.runtime.sources.text import plain
from tidemill.runtime.state import different_rows

# What is called when a path is taken: the owner and the name.
ENTRIES: dict[FastPath, tuple[Any, str]] = {
    "parquet_pages": (Pages, "_column"),
    "plain_text": (plain, "take_plain"),
    "ordered_rows": (ordered_rows, "cut_in_order"),
    "running_totals": (RunningTotals, "push"),
    "row_templates": (RowTemplate, "table"),
    "plain_columns": (plain_columns, "_run_steps"),
    "different_rows": (different_rows, "_hash_rows"),
    "row_references": (row_references, "_refer"),
    "joined_pairs": (Matching, "pairs"),
    "narrow_sort": (MoveOrder, "_sort_peers"),
    "early_limit": (EarlyLimit, "leave_out"),
    "group_walk": (GroupWalk, "walk"),
    "joint_groups": (JointGroup, "_walk"),
    "numbered_answers": (NumberedAnswers, "answers"),
    "pair_sums": (PairSums, "tables"),
    "value_presence": (ValuePresence, "count_values"),
    "preview": (preview, "_look"),
    "answer_files": (AnswerFiles, "adopt"),
    "gc_control": (gc, "set_threshold"),
}


@contextmanager
def watch_entries() -> Iterator[set[str]]:
    """The paths that are taken inside, in this process."""
    taken: set[str] = set()

    def spy(path: str, plain_call: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if path != "answer_files" or given[1]:  # no file is nothing to adopt
                taken.add(path)
            return plain_call(*given, **named)

        return call

    with ExitStack() as stack:
        for path, (owner, name) in ENTRIES.items():
            stack.enter_context(patch.object(owner, name, spy(path, getattr(owner, name))))
        yield taken
