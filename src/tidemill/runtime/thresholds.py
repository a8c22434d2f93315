"""Every size at which the engine takes another path: above it the answer is computed, moved or kept in another way.

No answer depends on a threshold. Read them when they are needed (`sizes.slice_rows`), never bind one to a name at
import or as a default argument: tests change them.

    >>> with changed(slice_rows=3):
    ...     sizes.slice_rows
    3
    >>> with smallest():
    ...     sizes.slice_rows, sizes.inline_bytes
    (3, 0)

`TIDEMILL_THRESHOLDS` sets them for a process and those that it starts, such as Spark's workers: `smallest`, or
`smallest,slice_rows=3`, or `slice_rows=3,inline_bytes=0`.

Not here, because compiled kernels have them as constants, which is what lets the compiler unroll their loops: `STEP`
and `STRETCH`, rows that are taken at a time, and `_NEAR`, signatures that are looked through one by one; tests of the
kernels pass them. Nor those of the optimizers: what they choose is a plan, and tests install plans of every kind. Nor
ratios, such as how many rows must be equal for combining to pay, or how much larger a batch may be than the one before:
few rows pass them as well as many. Nor limits on what
is accepted (`MAX_RECORD_BYTES`, the backlog of a port) or kept (`HISTORY_ROWS`), which change what a user sees.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields

from tidemill.plan.physical import SEALED_ROWS

VARIABLE = "TIDEMILL_THRESHOLDS"
_ANY = 1 << 40  # more than anything that is compared with it


def _size(usual: int, least: int) -> int:
    """A threshold: its usual value, and the one with which a few rows already take the other path."""
    return field(default=usual, metadata={"smallest": least})


@dataclass
class Thresholds:
    """One value for each; the comment states what is counted, and what happens above the value."""

    # Joins.
    expired_rows: int = _size(1000, 1)  # rows of a side of a band join: those that cannot match any more are removed
    kept_growth: int = _size(2, 1)  # times the rows kept last time, before rows are removed again; for `prune_rows` too
    slice_rows: int = _size(100_000, 3)  # changes of a batch: they are joined in slices of time
    piece_pairs: int = _size(4_000_000, 2)  # pairs of one step of a delta join: they are made in pieces
    direct_groups: int = _size(1 << 16, 0)  # groups of pair sums: added up by hash, not at their place
    scattered_rows: int = _size(10_000, 0)  # changes of an aggregation set: sorted by hash before they are looked up
    hot_pairs: int = _size(20_000, 1)  # pairs of a batch: keys with many of them are reported
    hot_samples: int = _size(256, 8)  # pairs, and changes of an input, that are sampled to find these keys
    set_sample_rows: int = _size(20_000, 4)  # rows of a set that are counted for its statistics
    largest_sample: int = _size(50_000, 4)  # rows of one segment that are counted for them
    word_sums: int = _size(1 << 61, 8)  # that a sum of a joint grouping may reach: SQL adds it up, not a walk
    walked_high: int = _size(1 << 40, 0)  # high words of a sum: SQL adds it up, not the walk in arrays

    # State.
    different_rows: int = _size(1000, 1)  # rows, at least, of which equal ones are looked for by their hash
    inline_bytes: int = _size(16_384, 0)  # of a segment: it is a file of its own, not in the blob
    piece_bytes: int = _size(8 << 20, 64)  # of a message between processes: it is cut
    tagged_rows: int = _size(1 << 20, 2)  # rows of a keyed stream that are taken together
    ranked_rows: int = _size(65_536, 1)  # changes of a ranking that forgets, twice as many: taken in slices of time
    version_rows: int = _size(1 << 20, 4)  # rows of versions of partitions: window functions take them in pieces

    # Messages.
    inbox_bytes: int = _size(64 << 10, 0)  # of a reader's message: it is a file
    outbox_bytes: int = _size(256 << 10, 0)  # of a shard's messages: they are a file
    alone_bytes: int = _size(64 << 10, 0)  # of the rows of a view output: they are not copied into a block with others

    # Views.
    alone_rows: int = _size(1024, 0)  # changes of a view: it has statements of its own
    pooled_append_views: int = _size(8, 1)  # append-only views above `alone_rows`: they share statements nevertheless,
    pooled_append_rows: int = _size(32_768, 0)  # as long as a view has no more changes than this
    sorted_rows: int = _size(65_536, 0)  # changes: they are written unsorted
    pooled_views: int = _size(8, 2)  # views alike: their logs are in one pool
    own_rows: int = _size(4096, 4)  # rows of one view in a pool, up to twice as many: they move to its own table
    rewrite_rows: int = _size(8192, 4)  # rows of a pool: those that cancel are removed
    fold_below: int = _size(20_000, 0)  # rows of a view: recent changes are merged when they are a quarter of them
    sealed_rows: int = _size(SEALED_ROWS, 1)  # rows of one output and batch: a shard writes them to a file
    row_group_rows: int = _size(122_880, 2)  # of such a file
    merged_files: int = _size(8, 2)  # files of one size class: they become one
    merged_rows: int = _size(524_288, 4)  # of a file: it is not merged any more

    # Tables of shared windows in the readers.
    pending_entries: int = _size(1 << 20, 0)  # evicted: they are put together, or leave before the share is done
    kept_cells: int = _size(1 << 22, 4)  # cells of queries: they leave before the share is done
    block_rows: int = _size(1 << 16, 2)  # rows that go through the tables at a time
    edge_rows: int = _size(64, 0)  # since tables that feed others were emptied: they are, when a fragment begins
    fragments: int = _size(1 << 18, 1)  # of one generation of tables: another one begins
    few_entries: int = _size(1 << 12, 1)  # evicted: they are put together
    fragment_sums: int = _size(1 << 22, 0)  # sums of one fragment, or four for each row: cells are made one by one
    waiting_accumulators: int = _size(1 << 16, 1)  # of user aggregates: they are sent
    numbered_rows: int = _size(1 << 17, 2)  # rows whose fragments are numbered together
    sketched_rows: int = _size(1 << 17, 4)  # rows that are sampled for the number of groups
    span: int = _size(1 << 16, 0)  # between the first and the last cut of predicates: no table of their classes

    # Running totals in the readers.
    running_rows: int = _size(1 << 20, 1)  # of a share: whether running totals pay is decided
    running_rows_an_entry: int = _size(2, 0)  # rows for each entry, at least, for them to pay
    running_cells_a_row: int = _size(4, _ANY)  # cells for each row, at most
    running_looks_a_row: int = _size(32, _ANY)  # lookups of groups for each row, at most
    running_groups: int = _size(1 << 10, 1)  # groups for which there is room in any case
    running_bytes: int = _size(1 << 29, 0)  # of running totals: all leave, and they begin anew
    running_room: int = _size(1 << 20, 1)  # cells for which memory is taken at a time
    running_classes: int = _size(64, 2)  # classes of rows: queries that would make more of them have tables
    running_queries: int = _size(8, 1)  # of a leaf, on average: where others have tables, these have running totals
    running_alone: int = _size(64, 1)  # queries of a raw relation that feeds no other: they have running totals
    running_stacks: int = _size(1 << 28, 0)  # bytes of least and greatest values: all leave, and they begin anew
    running_rows_in_order: int = _size(64, _ANY)  # for each that is not: late ones are put aside, not early ones

    # Fragments in the shards.
    large_rows: int = _size(50_000, 2)  # of a segment of fragments: it is not merged in every batch
    large_segments: int = _size(8, 1)  # large segments: they are merged
    prune_rows: int = _size(50_000, 1)  # stored rows: those that no window needs are removed
    prune_segments: int = _size(4, 0)  # segments that hold them: they are rewritten
    sampled_rows: int = _size(1 << 17, 2)  # rows: only a sample of starts is tested for equal rows
    run_rows: int = _size(64, 1)  # of equal start, on average: they are moved as slices
    ranked_starts: int = _size(1 << 16, 1)  # different ones: not sorted by rank
    counted_hashes: int = _size(1 << 16, 1)  # how many are different is estimated before they are numbered

    # Readers and sources.
    reader_piece_rows: int = _size(10_000, 0)  # of one piece in memory: it is not copied into one table with others
    chunk_rows: int = _size(1 << 20, 3)  # of a columnar file, or of what is gathered: the next chunk begins
    chunk_lines: int = _size(1 << 19, 3)  # of a text file
    chunk_records: int = _size(1 << 18, 3)  # of a port
    kafka_slice: int = _size(1 << 16, 3)  # new records of a topic: they are cut into slices
    kafka_messages: int = _size(10_000, 2)  # that are taken from the client at once
    kafka_ahead_bytes: int = _size(64 << 20, 64)  # of one partition, fetched and not used yet: it waits for the others
    cdc_changes: int = _size(100_000, 3)  # of a table that are asked for at once
    cdc_idle_bytes: int = _size(16 << 20, 0)  # of other tables in PostgreSQL's log: they are acknowledged
    kafka_kept_slices: int = _size(100_000, 4)  # that were read for good: the log is written anew without earlier ones
    generated_rows: int = _size(1 << 18, 3)  # that are generated at a time
    block_bytes: int = _size(8 << 20, 16)  # of a text file that are read at a time
    unpacked_bytes: int = _size(256 << 20, 0)  # of a compressed text: a batch may take a part of it
    forgotten_entries: int = _size(4096, 1)  # of a log of files that grow, read for good: it is written anew
    numbered_entries: int = _size(1 << 22, 1)  # of it: their numbers are no longer part of those of their rows
    watched_files: int = _size(256, 1)  # listed files: a live source checks at most this many again at a time

    # Sizes of batches.
    aggregated_rows: int = _size(4_000_000, 50)  # of a first batch of which partial aggregates travel
    raw_rows: int = _size(1_000_000, 50)  # of a first batch of which rows travel
    assumed_rows: int = _size(500_000, 50)  # of a first batch whose tables were chosen without statistics
    least_rows: int = _size(1_000_000, 50)  # of any other batch
    most_rows: int = _size(64_000_000, 5_000)  # of any batch, however little its rows send
    second_rows: int = _size(1 << 18, 3)  # of a source that is read a second time, in a batch of a live job
    telling_rows: int = _size(100_000, 1)  # of a batch from which the size of the next one is learnt
    preview_rows: int = _size(1 << 17, 4)  # of each end of the files that a preview reads
    preview_group_rows: int = _size(2_000_000, _ANY)  # of a row group of a file: no preview
    most_first_rows: int = _size(32_000_000, 100)  # of a first batch where a preview is all that is known

    # Statistics of shared windows, and the memory of their readers.
    sketched_patterns: int = _size(256, 1)  # sets of predicates that hold together, of which rows are counted
    trial_table_rows: int = _size(1 << 14, 1)  # rows that are put through trial tables
    running_least_bytes: int = _size(1 << 25, 0)  # of running totals: with less, tables are used
    predicate_rows: int = _size(4096, 1)  # of a chunk, where memory is limited: predicates are evaluated piece by piece
    beside_bytes_least: int = _size(1 << 22, 1)  # beside tables whose memory a user has limited

    # What reaches far, and what is cut or kept in pieces.
    far_rows: int = _size(16, 0)  # that window functions look back and ahead: whole partitions are computed
    copied_bytes: int = _size(1 << 20, 0)  # of the answer to an ad hoc query: it stays in its file
    site_part_bytes: int = _size(8 << 20, 64)  # rows of a batch for another site: a further message begins
    spool_bytes: int = _size(16 << 20, 64)  # of a file of a port's spool: another one begins
    key_files: int = _size(8, 1)  # of a table of PostgreSQL: they are merged
    delivery_bytes: int = _size(16 << 20, 64)  # of rows for another site: the rest is for its next request
    lake_file_rows: int = _size(1 << 18, 2)  # of a batch for a sink: more are written by workers, each file as large
    growing_files: int = _size(64, 1)  # of a live source that are checked every time: others wait for their turn

    # What a batch should send; the next one has as many rows as send that much.
    sent_bytes: int = _size(128 << 20, 1 << 14)  # rows as they are, which operators make more of
    folded_bytes: int = _size(384 << 20, 1 << 14)  # what readers made of many rows


def names() -> list[str]:
    """The name of every threshold."""
    return [f.name for f in fields(Thresholds)]


def _smallest(one: Field[int]) -> int:
    return int(one.metadata["smallest"])


def parse_thresholds(text: str) -> dict[str, int]:
    """What the text of the variable sets.

    >>> parse_thresholds("slice_rows=3"), parse_thresholds("smallest,slice_rows=3")["own_rows"], parse_thresholds("")
    ({'slice_rows': 3}, 4, {})
    """
    found: dict[str, int] = {}
    for word in filter(None, (w.strip() for w in text.split(","))):
        name, _, value = word.partition("=")
        if name == "smallest":
            found |= {f.name: _smallest(f) for f in fields(Thresholds)}
        elif name not in names() or not value.isdigit():
            raise ValueError(f"{VARIABLE}: {word!r} is not 'smallest' and not the name of a threshold = a number")
        else:
            found[name] = int(value)
    return found


sizes = Thresholds(**parse_thresholds(os.environ.get(VARIABLE, "")))


@contextmanager
def changed(**values: int) -> Iterator[Thresholds]:
    """Other values in this process, as long as the block runs."""
    before = {name: getattr(sizes, name) for name in values}
    for name, value in values.items():
        setattr(sizes, name, value)
    try:
        yield sizes
    finally:
        for name, value in before.items():
            setattr(sizes, name, value)


@contextmanager
def smallest(**others: int) -> Iterator[Thresholds]:
    """All thresholds at their smallest, but for `others`."""
    with changed(**{f.name: _smallest(f) for f in fields(Thresholds)} | others) as found:
        yield found


@contextmanager
def mixed(seed: int) -> Iterator[Thresholds]:
    """Each threshold at its smallest or its usual value, drawn by the seed."""
    draw = random.Random(seed)
    with changed(**{f.name: draw.choice((_smallest(f), _usual(f))) for f in fields(Thresholds)}) as found:
        yield found


def _usual(one: Field[int]) -> int:
    assert isinstance(one.default, int)
    return one.default


__all__ = ["VARIABLE", "Thresholds", "changed", "mixed", "names", "parse_thresholds", "sizes", "smallest"]
