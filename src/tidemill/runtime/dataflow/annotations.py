"""What the rows of an aggregation set carry besides their count: the parts of Rule 1, as arrays that kernels add up.

Sums of whole numbers are 128-bit words, sums of doubles are doubles, and MIN and MAX (only where nothing is taken back)
are ranks among the values at hand, turned round for MAX, so that the least rank always wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.aggregates import INTEGERS
from tidemill.runtime.dataflow.nested_bytes import is_nested
from tidemill.runtime.dataflow.value_codes import decimal_words, number_rows, one_array, own_codes
from tidemill.runtime.duckdb import duck


@dataclass(frozen=True)
class PartSpec:
    """One part of an input: its column, how it combines, and its SQL over single rows with weight `__diff`."""

    name: str
    type: str
    how: str
    sql: str

    @property
    def kind(self) -> str:
        """'word', 'float' or 'low': where its values are kept."""
        if self.how != "sum":
            return "low"
        return "word" if self.type in INTEGERS else "float"


@dataclass(frozen=True)
class Piece:
    """Rows with columns of parts; row i is table row ids[i] (i itself without ids), its sums times scale[i]."""

    table: pa.Table
    ids: np.ndarray | None = None
    scale: np.ndarray | None = None

    def column(self, name: str) -> pa.ChunkedArray:
        """The values of an extreme, which no scale changes."""
        column = self.table.column(name)
        return column if self.ids is None else column.take(pa.array(self.ids))


@dataclass
class Annotations:
    """Parts of some rows. Part p is column place[p] of the array of its kind; a word takes two columns (low, high)."""

    parts: tuple[PartSpec, ...]
    words: np.ndarray
    floats: np.ndarray
    lows: np.ndarray
    extremes: list[pa.Array] = field(default_factory=list)  # for each low: the values by rank

    def __post_init__(self) -> None:
        counts = {"word": 0, "float": 0, "low": 0}
        self.place: list[int] = []
        for part in self.parts:
            self.place.append(counts[part.kind])
            counts[part.kind] += 1

    @staticmethod
    def of(parts: tuple[PartSpec, ...], pieces: Sequence[Piece], rows: int) -> Annotations:
        """Annotations of the pieces' rows, one after the other."""
        if not parts:
            nothing = np.empty((rows, 0), np.int64)
            return Annotations((), nothing, np.empty((rows, 0)), nothing)
        words = [_word_columns(piece, [p for p in parts if p.kind == "word"]) for piece in pieces]
        floats = [_float_columns(piece, [p for p in parts if p.kind == "float"]) for piece in pieces]
        lows = np.empty((rows, sum(p.kind == "low" for p in parts)), np.int64)
        extremes: list[pa.Array] = []
        for part in parts:
            if part.kind == "low":
                lows[:, len(extremes)], values = _rank([piece.column(part.name) for piece in pieces], part.how)
                extremes.append(values)
        return Annotations(parts, _concat(words), _concat(floats), lows, extremes)

    def take(self, rows: np.ndarray | slice) -> Annotations:
        """The annotations of some rows (numbers, a mask or a slice)."""
        return Annotations(self.parts, self.words[rows], self.floats[rows], self.lows[rows], self.extremes)

    def digits(self, part: int, room: int) -> tuple[np.ndarray, int]:
        """(digits, base) of a word part, every digit of at most `room` bits: x = Σ dₖ · 2^(k·base)."""
        from tidemill.runtime.kernels.joins.delta_join_rows import split_words

        low, high = self._word(part)
        bits = _bit_length(low, high)
        if bits <= room:
            return low.reshape(-1, 1), 0
        digits = np.empty((len(low), -(-(bits + 1) // room)), np.int64)
        split_words(low, high, room, digits)
        return digits, room

    def column(self, part: int) -> pa.Array:
        """The values of a part as its Arrow column."""
        spec, at = self.parts[part], self.place[part]
        if spec.kind == "float":
            return pa.array(self.floats[:, at])
        if spec.kind == "low":
            return extreme_column(self.lows[:, at], self.extremes[at])
        return word_column(*self._word(part), spec.type)

    def _word(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        at = 2 * self.place[part]
        return np.ascontiguousarray(self.words[:, at]), np.ascontiguousarray(self.words[:, at + 1])


def add_up_rows(rows: pa.Table, keys: Sequence[str], parts: tuple[PartSpec, ...]) -> pa.Table:
    """Rows that agree on `keys` as one row with `__n` and parts added up, without those whose sums are all zero."""
    from tidemill.runtime.kernels.joins.delta_join_rows import add_rows

    ids, first = number_rows([rows.column(k) for k in keys], rows.num_rows)
    found = Annotations.of(parts, [Piece(rows)], rows.num_rows)
    n = rows.column("__n").to_numpy().astype(np.int64)
    # Every id appears first in a row that is not before its own place: sums may be made where they will stand.
    add_rows(ids, n, found.words, found.floats, found.lows)
    found, n = found.take(slice(len(first))), n[: len(first)]
    kept = np.flatnonzero((n != 0) | (found.words != 0).any(axis=1) | (found.floats != 0).any(axis=1))
    found = found.take(kept)
    columns = {k: rows.column(k).take(pa.array(first[kept])) for k in keys} | {"__n": pa.array(n[kept])}
    return pa.table(columns | {p.name: found.column(x) for x, p in enumerate(parts)})


def word_column(low: np.ndarray, high: np.ndarray, type_name: str) -> pa.Array:
    """128-bit numbers as a column of a whole-number type; OverflowError where they do not fit.

    >>> word_column(np.array([-2]), np.array([-1]), "BIGINT").to_pylist()
    [-2]
    """
    if type_name == "HUGEINT":
        words = np.ascontiguousarray(np.stack([low, high], axis=1))
        return pa.Array.from_buffers(pa.decimal128(38, 0), len(low), [None, pa.py_buffer(words)])
    if (high != low >> 63).any():
        raise OverflowError(f"a sum does not fit {type_name}")
    return pa.array(low)


def extreme_column(ranks: np.ndarray, values: pa.Array) -> pa.Array:
    """The values of ranks; NULL for a rank behind all values."""
    none = ranks >= len(values)
    return values.take(pa.array(np.where(none, 0, ranks), mask=none))


def _word_columns(piece: Piece, parts: list[PartSpec]) -> np.ndarray:
    from tidemill.runtime.kernels.joins.delta_join_rows import scale_words

    words = np.empty((piece.table.num_rows, 2 * len(parts)), np.int64)
    for at, part in enumerate(parts):
        column = _fill_zeros(piece.table.column(part.name))
        if pa.types.is_decimal(column.type):
            words[:, 2 * at : 2 * at + 2] = decimal_words(column)
        else:
            low = column.to_numpy(zero_copy_only=False).astype(np.int64)
            words[:, 2 * at], words[:, 2 * at + 1] = low, low >> 63
    if piece.ids is not None:
        words = words[piece.ids]
    if piece.scale is not None and parts:
        scale_words(words, piece.scale)
    return words


def _float_columns(piece: Piece, parts: list[PartSpec]) -> np.ndarray:
    floats = np.empty((piece.table.num_rows, len(parts)), np.float64)
    for at, part in enumerate(parts):
        floats[:, at] = _fill_zeros(piece.table.column(part.name)).to_numpy(zero_copy_only=False)
    if piece.ids is not None:
        floats = floats[piece.ids]
    return floats if piece.scale is None else floats * piece.scale[:, None]


def _concat(pieces: list[np.ndarray]) -> np.ndarray:
    """All pieces one after the other. Pieces are not shared, so one alone needs no copy."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _fill_zeros(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, with 0 for NULL."""
    if column.null_count:
        zero = pa.scalar(0).cast(column.type)
        column = pc.fill_null(column, zero)
    return one_array(column)


def _rank(columns: list[pa.ChunkedArray], how: str) -> tuple[np.ndarray, pa.Array]:
    """(rank of each row, values by rank); NULL has no value and the rank behind all."""
    from tidemill.runtime.kernels.joins.delta_join import NOTHING

    kind = columns[0].type
    column = pa.chunked_array([chunk for c in columns for chunk in c.cast(kind).chunks], kind)
    known = column.is_valid().to_numpy()
    ranks = np.full(len(column), NOTHING, np.int64)
    ranks[known], values = rank_values(one_array(column.drop_null()))
    if how == "max":
        ranks[known] = len(values) - 1 - ranks[known]
        values = values[::-1]
    return ranks, values


def rank_values(values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """(rank of each value, the different values in order)."""
    codes = own_codes(values)
    if codes is not None:
        _, first, ranks = np.unique(codes, return_index=True, return_inverse=True)
        return ranks, values.take(pa.array(first))
    if is_nested(values.type):
        return _rank_nested(values)
    coded = values.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places[coded.indices.to_numpy()], coded.dictionary.take(pa.array(order))


def _rank_nested(values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The ranks of lists, structs and maps, which only SQL compares."""
    numbered = pa.table({"x": values, "i": np.arange(len(values))})
    sql = "SELECT dense_rank() OVER (ORDER BY x) - 1 AS rank FROM rows ORDER BY i"
    ranks = duck.run(sql, rows=numbered).column("rank").to_numpy().astype(np.int64)
    first = np.empty(int(ranks.max(initial=-1)) + 1, np.int64)
    first[ranks[::-1]] = np.arange(len(ranks))[::-1]
    return ranks, values.take(pa.array(first))


def _bit_length(low: np.ndarray, high: np.ndarray) -> int:
    """Bits of the greatest magnitude, without the sign."""
    if not len(low):
        return 0
    if (high == low >> 63).all():
        return int((low ^ (low >> 63)).max()).bit_length()
    return 64 + int((high ^ (high >> 63)).max()).bit_length()
