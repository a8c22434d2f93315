"""Compile kernels before the first batch needs them.

numba compiles a function for the types of its first call, seconds each, and keeps the machine code in a folder: the
`__pycache__` beside the source or, where that cannot be written, the user's cache (`~/.cache/numba`). A folder named
by NUMBA_CACHE_DIR comes before both. Later processes load what is kept in milliseconds. `warm` calls each kernel of
some groups with the types that the engine uses, on a row or two. Which groups a plan needs: needed.py.

    python -m tidemill.runtime.kernels.compiling.warm [GROUP …]
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numba.core.dispatcher import Dispatcher

from tidemill.runtime import kernels as package
from tidemill.runtime.kernels.compiling.cache import compile_missing
from tidemill.runtime.kernels.compiling.lazy import prepare
from tidemill.runtime.kernels.grouping.distinct import turn_values
from tidemill.runtime.kernels.grouping.extremes import slide_extremes
from tidemill.runtime.kernels.grouping.neighbours import find_neighbours
from tidemill.runtime.kernels.grouping.ranks import Moves, Rows, Wanted, walk_ranks
from tidemill.runtime.kernels.grouping.tagging import tag_steps, walk_records
from tidemill.runtime.kernels.grouping.versions import run_in_time, show_versions
from tidemill.runtime.kernels.joins import delta_join_rows
from tidemill.runtime.kernels.joins.delta_join import (
    Groups,
    Probes,
    Sums,
    Terms,
    Versions,
    add_pairs,
    count_pairs,
    find_pairs,
    walk,
)
from tidemill.runtime.kernels.joins.presence import count_partners, room_for_partners, tell_presence
from tidemill.runtime.kernels.parquet.pages import SLACK, read_pages
from tidemill.runtime.kernels.share import (
    bits,
    intercede,
    intercede_extremes,
    intercede_finer,
    intercede_rows,
    intercede_running,
    sliding,
    sliding_folds,
    sliding_rows,
)
from tidemill.runtime.kernels.share.edges import ascending, floor_edges, fragment_runs
from tidemill.runtime.kernels.share.lfta import GREATEST, LEAST, RAW, SUM, Tables, TableSpec
from tidemill.runtime.kernels.share.sketch import fill_trial_tables, sketch
from tidemill.runtime.kernels.text import lines
from tidemill.runtime.kernels.text.spool import find_records, frame_lines


class Warmth(NamedTuple):
    """How many kernels there are, how many this process had to compile, and the folder where they are kept."""

    kernels: int
    compiled: int
    folder: str


def warm(groups: Iterable[str] | None = None, wanted: Callable[[], bool] = lambda: True) -> Warmth:
    """Call every kernel of these groups once, all when none is named; stops between two groups when it is no longer
    `wanted`.
    """
    for group in GROUPS if groups is None else groups:
        if wanted():
            GROUPS[group]()
    found = kernels().values()
    misses = sum(sum(kernel.stats.cache_misses.values()) for kernel in found)
    folders = sorted({str(kernel.stats.cache_path) for kernel in found})
    return Warmth(len(found), misses, ", ".join(folders))


def kernels() -> dict[str, Dispatcher]:
    """Every function of this folder whose machine code is kept, by module and name."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        found.update(_kernels_of(importlib.import_module(info.name)))
    return found


def _kernels_of(module: ModuleType) -> dict[str, Dispatcher]:
    name = module.__name__
    own = {n: v for n, v in vars(module).items() if isinstance(v, Dispatcher) and v.py_func.__module__ == name}
    return {f"{name.rpartition('.')[2]}.{n}": v for n, v in own.items() if v.stats.cache_path is not None}


def _prepare(*modules: ModuleType) -> None:
    """Those that name their types need no call."""
    for module in modules:
        for kernel in _kernels_of(module).values():
            prepare(kernel)


def _edges() -> None:
    slides, phases, out = np.array([5]), np.array([0]), np.empty(1, np.int64)
    # Times come out of Arrow as they are, read-only, or as a copy without the late ones.
    for times in _both(np.array([7])):
        ascending(times)
        fragment_runs(times, slides, phases, np.empty(1, np.int64), out)
    floor_edges(np.array([7]), slides, phases, out)


def _tables() -> None:
    """The loops get addresses of columns: one compilation serves all types and numbers of them."""
    tables = Tables([TableSpec(RAW, (0,), 1, True)], 1, [SUM, LEAST, GREATEST], [SUM])
    tables.map([[0]], [[0]])
    tables.push([np.array([7])], [0], [0], [None, np.array([1]), np.array([1])], [np.array([1.0])])
    tables.bucket(0, 0, [7])
    tables.flush()


def _pages() -> None:
    for kind in (np.int32, np.int64):
        read_pages(np.zeros(1, np.uint8), True, True, np.empty(2 * SLACK, np.uint8), np.empty(1, kind))


def _sketches() -> None:
    for kind in (np.int64, np.int32):
        for column in _both(np.array([7], kind)):
            sketch([column], [0])
            fill_trial_tables([column], [0], [(1, 1)])


def _tagging() -> None:
    """Times and orders come out of Arrow as they are, read-only, or sorted."""
    one, none = np.zeros(1, np.int64), np.full(1, -1, np.int64)
    last, old, new = (np.empty(1, np.int64) for _ in range(3))
    for column in _both(one):
        walk_records(one, one, column, column, column, np.zeros(1, np.bool_), none.copy(), none.copy(), last, old, new)
    step, row, diff = (np.empty(2, np.int64) for _ in range(3))
    tag_steps(old, new, np.ones(1, np.bool_), step, row, diff)


def _versions() -> None:
    one, wide = np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
    key, at, before, n = (np.empty(2, np.int64) for _ in range(4))
    last, sums = np.full(1, -1, np.int64), np.empty((2, 1), np.int64)
    run_in_time(one, one, one, one, wide, one, one, wide, last, key, at, before, n, sums)
    words, null, none, out = np.empty(8, np.int64), np.zeros((1, 4), np.bool_), one - 1, np.empty(4, np.int64)
    show_versions(1, key, at, before, n, sums, none, none, one, one + 1, out, out.copy(), out.copy(), words, null)


def _extremes() -> None:
    one = np.zeros(1, np.int64)
    slide_extremes(one, one, np.ones(1, np.int64), one, one, one.copy(), one.copy(), one.copy())
    turn_values(one, np.array([0, 1]), one, one, np.ones(1, np.int64), one.copy(), one.copy())


def _ranks() -> None:
    """One row comes."""
    one, two = np.zeros(1, np.int64), np.array([0, 1])
    moves = Moves(two, one, one, one + 1, -1)
    walk_ranks(Rows(two, one, one), moves, Wanted(0, 0, 1, True, True), one.copy())
    find_neighbours(one, one + 1, moves, 1)


def _sliding() -> None:
    _prepare(bits, sliding_folds, sliding_rows, sliding)


def _running() -> None:
    _prepare(intercede, intercede_finer, intercede_rows, intercede_extremes, intercede_running)


def _delta_join() -> None:
    """One probe meets one version. Operators pass 64-bit columns of their own, so there are no other types."""
    one, none, floats = np.zeros(1, np.int64), np.zeros((1, 0), np.int64), np.zeros((1, 0))
    ids, found, first = (np.empty(1, np.int64) for _ in range(3))
    delta_join_rows.match_values(one, one, ids, found, first)
    delta_join_rows.hash_words(one, np.zeros(1, np.uint64))
    delta_join_rows.hash_texts(np.zeros(2, np.int64), np.zeros(0, np.uint8), np.zeros(1, np.uint64))
    start = np.empty(2, np.int64)
    order = delta_join_rows.order_rows(one, one, 1, 1, start)
    kept, step, word = np.empty(1, np.bool_), np.empty(1, np.int64), np.zeros((1, 2), np.int64)
    delta_join_rows.run_versions(order, one, one, np.ones(1, np.int64), word, floats, none, kept, step)
    delta_join_rows.add_rows(one, np.ones(1, np.int64), word, floats, none)
    delta_join_rows.scale_words(word, np.ones(1, np.int64))
    delta_join_rows.split_words(one, one, 30, np.empty((1, 2), np.int64))
    delta_join_rows.join_words(word, 30, np.empty(1, np.int64), np.empty(1, np.int64))
    partners = room_for_partners(1, 1)
    count_partners(order, start, one, np.ones(1, np.int64), partners)
    tell_presence(order, start, one, np.ones(1, np.int64), one, partners, 1)
    probes = Probes(order, one, one, np.ones(1, np.int64))
    versions = Versions(order, start, one, one, one, kept, np.ones(1, np.int64))
    count_pairs(probes, versions, walk(1), False, np.empty(1, np.int64))
    find_pairs(0, 1, probes, versions, walk(1), False, np.empty(1, np.int64), np.empty(1, np.int64))
    groups = Groups(one, one, 1, True, np.zeros(1, np.int32), np.empty(1, np.int64))
    sums = Sums(np.zeros((1, 1), np.int64), floats, none)
    add_pairs(
        0, 1, probes, versions, walk(1), False, Terms(one, none, floats, none, one, none, floats, none), groups, sums
    )


def _lines() -> None:
    """Text is read-only as it comes, from a file or a socket."""
    text, one, out = np.frombuffer(b'{"a":1}\n', np.uint8), np.zeros(1, np.int64), np.empty(200, np.uint8)
    starts, ends, offsets = np.zeros(1, np.int64), np.full(1, 7), np.array([0, 1])
    taken, name = np.zeros(1, np.uint8), np.frombuffer(b"a", np.uint8)
    lines.take_csv(text, starts, ends, one, one, one, 44, 34, 100, out, taken)
    lines.take_json(text, starts, ends, one, one, one, name, offsets, 100, out, taken)
    lines.count_fields(text, starts, ends, name, offsets, np.zeros((3, 1), np.int64))


def _spool() -> None:
    text, none, marks = np.frombuffer(b"7\n", np.uint8), np.zeros(0, np.int64), np.empty(0, np.bool_)
    frame_lines(text, 0, 100, np.empty(200, np.uint8))
    find_records(text, -1, none, none, none, marks)


GROUPS: dict[str, Callable[[], None]] = {
    "lines": _lines,
    "spool": _spool,
    "edges": _edges,
    "tables": _tables,
    "pages": _pages,
    "sketches": _sketches,
    "tagging": _tagging,
    "versions": _versions,
    "extremes": _extremes,
    "ranks": _ranks,
    "sliding": _sliding,
    "running": _running,
    "delta_join": _delta_join,
}


def _both(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The column, and the same read-only, which is another type for the compiler."""
    fixed = column.copy()
    fixed.flags.writeable = False
    return column, fixed


if __name__ == "__main__":
    if sys.argv[1:]:  # for cache.py
        for name in sys.argv[1:]:
            folders = warm([name]).folder
            print("done", name, flush=True)
        print("kept", folders, flush=True)
    else:
        compile_missing(GROUPS).wait()
        done = warm()
        print(f"{done.kernels} kernels are ready, kept in {done.folder}")
