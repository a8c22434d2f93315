"""Columns of random texts, made without a loop over rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_LETTERS, _SHORTEST, _OTHERWISE = 26, 3, 13


def spread_texts(chance: np.random.Generator, rows: int, longest: int, special: str = " ") -> pa.Array:
    """Texts of 3 to `longest` - 1 characters: small letters, one in 13 of them `special`, none of these at the ends."""
    lengths = chance.integers(_SHORTEST, longest, rows)
    characters = _letters(chance, int(lengths.sum()))
    characters[chance.integers(0, _OTHERWISE, len(characters)) == 0] = ord(special)
    return pc.utf8_trim(_strings(lengths, characters), special)


def exact_texts(chance: np.random.Generator, lengths: NDArray[np.int64]) -> pa.Array:
    """Texts of small letters, each of its own length."""
    return _strings(lengths, _letters(chance, int(lengths.sum())))


def filling(chance: np.random.Generator, sizes: NDArray[np.int64], wanted: int) -> pa.Array:
    """Texts that bring rows of this many bytes to `wanted` bytes on average, up to a fifth of the missing part off."""
    missing = np.maximum(wanted - sizes, 0)
    swing = np.round(missing * 0.2).astype(np.int64)
    lengths = missing - swing + (chance.random(len(sizes)) * 2 * swing).astype(np.int64)
    return exact_texts(chance, lengths)


def digits(chance: np.random.Generator, rows: int, groups: int) -> pa.Array:
    """Groups of four digits."""
    parts = [pc.utf8_lpad(pa.array(chance.integers(0, 10_000, rows)).cast(pa.string()), 4, "0") for _ in range(groups)]
    return pc.binary_join_element_wise(*parts, " ")


def bytes_of(column: pa.Array) -> NDArray[np.int64]:
    """How long each text is."""
    return pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)


def _letters(chance: np.random.Generator, count: int) -> NDArray[np.uint8]:
    return chance.integers(ord("a"), ord("a") + _LETTERS, count, dtype=np.uint8)


def _strings(lengths: NDArray[np.int64], characters: NDArray[np.uint8]) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(characters))]
    return pa.StringArray.from_buffers(len(lengths), buffers[1], buffers[2])
