"""What joins between sites are chosen by: a sample of the join values of a stream, and how wide its columns are.

The sample is a KMV sketch: of all values that came, the `MOST` with the least hashes, each with the number of its rows.
A value that is in it at the end has been in it since it first came, so its count is exact. The hashes are the same at
every site, so two samples say how many values two streams have in common, and which share of the rows has them.
Readers fill samples of a batch, which are added up; sites send them to each other in some 8 KB.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.runtime.sites.messages import CODEC

MOST = 512  # values in a sample; the number of distinct values is off by some 1 / sqrt(MOST)
MEASURED = "measured"  # the option of a source: sequences of columns whose values are sampled
_SPACE = 2.0**64  # how many hashes there are
_PACKED_ROWS = 200  # by which it is judged how well a column is compressed: messages of live streams have about as many


@dataclass(frozen=True)
class Sample:
    """Hashes in ascending order, and how many rows had the value of each."""

    hashes: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray, counts: np.ndarray | None = None) -> Sample:
        """The sample of values with these hashes, which may come several times.

        >>> made = Sample.of(np.array([7, 3, 7], np.uint64))
        >>> made.hashes.tolist(), made.counts.tolist(), made.distinct
        ([3, 7], [1, 2], 2.0)
        """
        counts = np.ones(len(hashes), np.int64) if counts is None else counts
        found, places = np.unique(hashes, return_inverse=True)
        totals = np.bincount(places, counts, len(found)).astype(np.int64)
        return cls(found[:MOST], totals[:MOST])

    def add(self, other: Sample) -> Sample:
        """The sample of both together."""
        return Sample.of(np.concatenate([self.hashes, other.hashes]), np.concatenate([self.counts, other.counts]))

    @property
    def is_full(self) -> bool:
        return len(self.hashes) >= MOST

    @property
    def distinct(self) -> float:
        """How many different values there are, about."""
        return (MOST - 1) * _SPACE / float(self.hashes[-1]) if self.is_full else float(len(self.hashes))

    def below(self, limit: int | None) -> Sample:
        """The values whose hashes are at most `limit`."""
        kept = slice(None) if limit is None else self.hashes <= np.uint64(limit)
        return Sample(self.hashes[kept], self.counts[kept])

    def encode(self) -> str:
        """As it travels and is stored."""
        return base64.b64encode(self.hashes.astype("<u8").tobytes() + self.counts.astype("<i8").tobytes()).decode()

    @classmethod
    def decode(cls, text: str) -> Sample:
        """The inverse of `encode`; ValueError where the text is not a sample.

        >>> made = Sample.of(np.array([7, 3, 7], np.uint64))
        >>> Sample.decode(made.encode()).counts.tolist()
        [1, 2]
        """
        data = base64.b64decode(text, validate=True)
        half = len(data) // 2
        if len(data) % 16 or half > 8 * MOST:
            raise ValueError("not a sample of join values")
        hashes, counts = np.frombuffer(data[:half], "<u8"), np.frombuffer(data[half:], "<i8")
        if (np.diff(hashes.astype(object)) <= 0).any() or (counts < 1).any():
            raise ValueError("not a sample of join values")
        return cls(hashes.astype(np.uint64), counts.astype(np.int64))


@dataclass(frozen=True)
class Overlap:
    """Values that two streams have in common, and of each stream the share of the rows that has them."""

    common: float
    left: float
    right: float


def compare(left: Sample, right: Sample) -> Overlap:
    """What two samples have in common, by the hashes that both would contain.

    >>> a, b = (Sample.of(np.array(h, np.uint64)) for h in ([1, 2, 2, 2], [2, 9, 9]))
    >>> compare(a, b)
    Overlap(common=1.0, left=0.75, right=0.3333333333333333)
    """
    limits = [int(s.hashes[-1]) for s in (left, right) if s.is_full]
    limit = min(limits, default=None)
    a, b = left.below(limit), right.below(limit)
    both = np.intersect1d(a.hashes, b.hashes, assume_unique=True)
    scale = 1.0 if limit is None else _SPACE / float(limit)
    shares = [
        float(s.counts[np.isin(s.hashes, both)].sum()) / float(s.counts.sum()) if len(s.counts) else 0.0 for s in (a, b)
    ]
    return Overlap(len(both) * scale, *shares)


class KeyBytes(NamedTuple):
    """Bytes of some different values, which travel without repetitions, and the number of these values."""

    bytes: int = 0
    different: int = 0


@dataclass(frozen=True)
class Measure:
    """What is known of some rows: their number, the bytes that each column has as it travels, and of sequences of
    columns, by `name_of`, encoded samples and what their different values weigh.
    """

    rows: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    keys: dict[str, KeyBytes] = field(default_factory=dict)

    def add(self, other: Measure) -> Measure:
        """Both together.

        >>> one = Measure(2, {"k": 8}, {}, {"k": KeyBytes(8, 1)})
        >>> one.add(one)
        Measure(rows=4, bytes={'k': 16}, values={}, keys={'k': KeyBytes(bytes=16, different=2)})
        """
        widths, samples, keys = dict(self.bytes), dict(self.values), dict(self.keys)
        for name, size in other.bytes.items():
            widths[name] = widths.get(name, 0) + size
        for name, text in other.values.items():
            samples[name] = Sample.decode(samples[name]).add(Sample.decode(text)).encode() if name in samples else text
        for name, found in other.keys.items():
            known = keys.get(name, KeyBytes())
            keys[name] = KeyBytes(known.bytes + found.bytes, known.different + found.different)
        return Measure(self.rows + other.rows, widths, samples, keys)


def measure_rows(rows: pa.Table, wanted: Iterable[Sequence[str]]) -> Measure:
    """The measure of some rows, with samples of the wanted columns."""
    widths = {name: packed_bytes(rows.column(name)) for name in rows.column_names}
    listed = [columns for columns in wanted if set(rows.column_names).issuperset(columns)]
    samples = {name_of(columns): Sample.of(hash_rows(rows, columns)).encode() for columns in listed}
    keys = {name_of(columns): _key_bytes(rows, columns) for columns in listed}
    return Measure(rows.num_rows, widths, samples, keys)


def _key_bytes(rows: pa.Table, columns: Sequence[str]) -> KeyBytes:
    different = rows.slice(0, _PACKED_ROWS).select(list(columns)).group_by(list(columns)).aggregate([])
    return KeyBytes(sum(packed_bytes(column) for column in different.columns), different.num_rows)


def packed_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of a column as messages have it, compressed; by its first rows where there are many.

    >>> packed_bytes(pa.chunked_array([["tide" * 100] * 1000])) < 10_000
    True
    """
    count = min(len(column), _PACKED_ROWS)
    if not count:
        return 0
    taken = column.slice(0, count).take(pa.array(np.arange(count)))
    size = 0
    for chunk in taken.chunks:
        for buffer in chunk.buffers():
            if buffer is not None and buffer.size:
                size += min(buffer.size, len(pa.compress(buffer, codec=CODEC, asbytes=True)))
    return size * len(column) // count


def merge_measures(found: Iterable[Mapping[str, Measure]]) -> dict[str, Measure]:
    """The measures of several readers, by source."""
    total: dict[str, Measure] = {}
    for measures in found:
        for source, measure in measures.items():
            total[source] = total.get(source, Measure()).add(measure)
    return total


def name_of(columns: Iterable[str]) -> str:
    """The name of a sample of columns; their order does matter."""
    return "\x1f".join(columns)


def hash_rows(rows: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """64 bits for the values of each row, without rows that have a NULL; equal values have equal bits everywhere."""
    present = rows.select(list(columns)).drop_null()
    found = np.zeros(present.num_rows, np.uint64)
    for column in present.columns:
        found = _mix(found ^ _hash_column(column))
    return found


def _hash_column(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_temporal(column.type):
        wide = pa.int32() if column.type.bit_width == 32 else pa.int64()
        column = column.cast(wide)
    if pa.types.is_integer(column.type):
        return _mix(column.cast(pa.int64(), safe=False).to_numpy().view(np.uint64))
    coded = pc.dictionary_encode(column.cast(pa.large_string())).combine_chunks()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.chunk(0) if coded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    digests = [hashlib.blake2b(v.encode(), digest_size=8).digest() for v in coded.dictionary.to_pylist()]
    hashes = np.frombuffer(b"".join(digests), "<u8") if digests else np.zeros(0, np.uint64)
    return hashes[coded.indices.to_numpy()].astype(np.uint64)


def _mix(bits: np.ndarray) -> np.ndarray:
    """A permutation of 64 bits after which all bits look random (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        bits = bits + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))
