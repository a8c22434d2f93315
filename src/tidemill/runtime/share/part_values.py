"""From Arrow columns to the numbers that hash tables and fragments combine (`plan.fragments` says which).

A part that is zero for every row of a chunk is left out: most integers need no high limb, most doubles no remainder.
A column of ones is None, and 32-bit integers are not widened: the hash tables accept both.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.fragments import LEAST, LIMB, MOST, FragmentPart

# Doubles are added up as whole numbers of 2^-40, as far as 64 bits hold them; beyond that in two limbs, up to 2^111.
_FIX, _BIG, _HUGE = 2.0**40, 2.0**62, 2.0**111
_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)


PartValues = dict[str, np.ndarray | None]


def lift_parts(parts: tuple[FragmentPart, ...], column: pa.ChunkedArray | None) -> PartValues:
    """What each row of a chunk contributes to each part; parts that nothing contributes to are missing."""
    found: PartValues = {}
    if column is None:
        return {p.name: None for p in parts}
    valid = None if column.null_count == 0 else column.is_valid().to_numpy()
    plain = [p for p in parts if p.lift in ("valid", "whole", "low", "high", "order")]
    for part in plain:
        if part.lift == "valid":
            found[part.name] = None if valid is None else valid.astype(np.int64)
            continue
        values = _lift_integers(part, column, valid)
        if values is not None:
            found[part.name] = values
    for squared in (False, True):
        wanted: dict[str, str] = {p.lift: p.name for p in parts if p not in plain and p.squared == squared}
        if wanted:
            lifts = _split_doubles(_to_doubles(column, valid, squared))
            found |= {wanted[lift]: values for lift, values in lifts.items() if values.any()}
    return found


def _lift_integers(part: FragmentPart, column: pa.ChunkedArray, valid: np.ndarray | None) -> np.ndarray | None:
    if part.lift in ("whole", "low", "high") and valid is None and column.type == pa.int32():
        return column.to_numpy() if part.lift != "high" else None
    numbers = whole_numbers(column)
    if part.lift == "order":
        numbers = to_order(column, numbers)
        return numbers if valid is None else np.where(valid, numbers, part.nothing)
    if valid is not None:
        numbers = np.where(valid, numbers, 0)
    if part.lift == "whole":
        return numbers
    if is_narrow(numbers):
        return numbers if part.lift == "low" else None
    return numbers & (LIMB - 1) if part.lift == "low" else numbers >> 32


def is_narrow(numbers: np.ndarray) -> bool:
    """True when sums of these numbers stay far from the ends of 64 bits."""
    return not len(numbers) or (int(numbers.min()) >= -(1 << 31) and int(numbers.max()) < 1 << 31)


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """A column as 64-bit integers: integers, booleans, days, microseconds, unscaled decimals; nulls are 0."""
    kind = column.type
    if pa.types.is_floating(kind):
        return np.zeros(0, np.int64)
    if pa.types.is_decimal(kind):
        return np.concatenate([_unscale(c) for c in column.chunks]) if column.num_chunks else np.zeros(0, np.int64)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, 0)
    return column.to_numpy().astype(np.int64, copy=False)


def _unscale(chunk: pa.Array) -> np.ndarray:
    if not pa.types.is_decimal128(chunk.type):
        chunk = chunk.cast(pa.decimal128(chunk.type.precision, chunk.type.scale))
    if chunk.null_count:
        chunk = pc.fill_null(chunk, pa.scalar(0, chunk.type))
    words = np.frombuffer(chunk.buffers()[1], np.int64).reshape(-1, chunk.type.byte_width // 8)
    return words[chunk.offset : chunk.offset + len(chunk), 0].copy()


def to_order(column: pa.ChunkedArray, numbers: np.ndarray) -> np.ndarray:
    """Numbers in the order of the values. Doubles by their bits; NaN is the greatest, as in DuckDB."""
    if not pa.types.is_floating(column.type):
        return numbers
    values = pc.fill_null(column, 0.0).to_numpy().astype(np.float64)
    values[np.isnan(values)] = np.nan  # one NaN, with a positive sign
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ _SIGN, bits)


def doubles_from_order(numbers: np.ndarray) -> np.ndarray:
    """The inverse of `to_order` for doubles.

    >>> doubles_from_order(to_order(pa.chunked_array([[-1.5, 0.0, 2.0]]), np.zeros(0, np.int64))).tolist()
    [-1.5, 0.0, 2.0]
    """
    return np.where(numbers < 0, numbers ^ _SIGN, numbers).view(np.float64)


def _to_doubles(column: pa.ChunkedArray, valid: np.ndarray | None, squared: bool) -> np.ndarray:
    if pa.types.is_floating(column.type):
        values = pc.fill_null(column, 0.0).to_numpy().astype(np.float64)
    elif pa.types.is_decimal(column.type):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
    else:
        values = whole_numbers(column).astype(np.float64)
    if valid is not None:
        values = np.where(valid, values, 0.0)
    return values * values if squared else values


def _split_doubles(values: np.ndarray) -> dict[str, np.ndarray]:
    """Limbs of a DOUBLE: value = (f2·2^64 + f1·2^32 + f0) / 2^40 + r below 2^62; limbs g above; b beyond 2^111."""
    size = np.abs(values)
    small = size < _BIG
    found = _split_limbs(np.where(small, values, 0.0), "f")
    if not small.all():
        finite = np.isfinite(values)
        large = finite & ~small & (size < _HUGE)
        found |= {n: v for n, v in _split_limbs(np.where(large, values, 0.0) / 512.0 / _FIX, "g").items() if n != "r"}
        found["b"] = np.where(finite & (size >= _HUGE), values, 0.0) * 2.0**-540
        found["nan"] = np.isnan(values).astype(np.int64)
        found["inf"] = (values == np.inf).astype(np.int64)
        found["neg"] = (values == -np.inf).astype(np.int64)
    return found


def _split_limbs(values: np.ndarray, letter: str) -> dict[str, np.ndarray]:
    # By magnitude: the difference of a small negative number and its floor would round.
    sign, size = np.sign(values), np.abs(values)
    top = np.floor(size * 2.0**-24)
    rest = size - top * 2.0**24
    middle = np.floor(rest * 256.0)
    rest -= middle / 256.0
    low = np.rint(rest * _FIX)
    rest -= low / _FIX
    whole = {f"{letter}0": low, f"{letter}1": middle, f"{letter}2": top}
    return {name: (limb * sign).astype(np.int64) for name, limb in whole.items()} | {"r": rest * sign}


def empty_part(part: FragmentPart, rows: int) -> np.ndarray:
    """The column of a part to which no row contributed."""
    kind = np.float64 if part.type == "DOUBLE" else np.int64
    return np.full(rows, part.nothing, kind)


__all__ = ["LEAST", "MOST", "doubles_from_order", "empty_part", "is_narrow", "lift_parts", "to_order", "whole_numbers"]
