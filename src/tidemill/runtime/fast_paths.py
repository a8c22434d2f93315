"""Switches of the fast paths: special ways to compute what a general way computes too, only faster.

No answer depends on a switch. Each path says in its own file what it equals and where it applies; everywhere else, and
where it is off, the general way is used.

`SET fast_paths_off = 'running_totals, group_walk'` switches paths off for a database. The plan carries the names, and
readers, shards and the outlet obey the plan of their batch. `TIDEMILL_FAST_PATHS_OFF` has names that are off in a
process and in those that it starts, whatever the plans say.

    >>> with without(["group_walk"]):
    ...     is_on("group_walk"), is_on("pair_sums")
    (False, True)
    >>> is_on("group_walk")
    True
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

VARIABLE = "TIDEMILL_FAST_PATHS_OFF"

FastPath = Literal[
    "parquet_pages",  # sources/files/pages.py: pages of numbers are decoded by a kernel, not by Arrow
    "plain_text",  # sources/text/plain.py: plain records are read in blocks, not field by field
    "ordered_rows",  # reader/ordered_rows.py: rows in order are passed on in pieces, without copies
    "running_totals",  # share/reader/running_totals/totals.py: many queries of one raw relation, without hash tables
    "row_templates",  # share/stage/row_templates.py: simple select lists by Arrow, not by DuckDB
    "plain_columns",  # operators/plain_columns.py: columns that are only passed on do not go through SQL
    "different_rows",  # state/different_rows.py: rows that have no equal are not grouped
    "row_references",  # row_references.py: texts of joined and ranked rows are copied when they are stored or sent
    "joined_pairs",  # operators/joined_pairs.py: matching rows of a join are found in arrays, not in SQL
    "narrow_sort",  # operators/ranking/sorted_moves.py: rankings sort the columns of the order, not whole rows
    "early_limit",  # operators/ranking/early_limit.py: rows that cannot be among the first are not sorted
    "group_walk",  # operators/grouping/group_walk.py: GROUP BY in arrays, not in SQL
    "joint_groups",  # operators/grouping/joint_group.py: groupings by one key walk the rows they share, in arrays
    "numbered_answers",  # operators/numbered_answers.py: answers of RSTREAM in arrays, not in SQL
    "pair_sums",  # joins/pair_sums.py: pairs of a join are added up as they are found, without joined rows
    "value_presence",  # joins/value_presence.py: values of a joined group are told without looking at pairs
    "preview",  # planning/preview.py: a few rows are read before the first batch
    "answer_files",  # answer_files/__init__.py: shards write many append-only rows to files, not into messages
    "gc_control",  # garbage_collection.py: Python looks for garbage less often while plans and batches are made
]
NAMES: tuple[FastPath, ...] = get_args(FastPath)


def parse_names(text: str) -> tuple[FastPath, ...]:
    """Names separated by commas or blanks, in the order of `NAMES`; ValueError with the first unknown one.

    >>> parse_names("pair_sums, group_walk"), parse_names("")
    (('group_walk', 'pair_sums'), ())
    """
    said = text.replace(",", " ").split()
    unknown = [name for name in said if name not in NAMES]
    if unknown:
        raise ValueError(unknown[0])
    return tuple(name for name in NAMES if name in said)


_ALWAYS_OFF = frozenset(parse_names(os.environ.get(VARIABLE, "")))
_off: ContextVar[tuple[frozenset[str], ...]] = ContextVar("fast paths that are off", default=(_ALWAYS_OFF,))


def is_on(path: FastPath) -> bool:
    """Whether the path may be taken here."""
    return not any(path in names for names in _off.get())


@contextmanager
def without(paths: Iterable[str]) -> Iterator[None]:
    """Inside, in this thread, these paths are off too."""
    mine = frozenset(paths)
    _off.set((*_off.get(), mine))
    try:
        yield
    finally:
        # Readers are generators: blocks that overlap need not end in the order in which they began.
        _off.set(tuple(names for names in _off.get() if names is not mine))


__all__ = ["NAMES", "VARIABLE", "FastPath", "is_on", "parse_names", "without"]
