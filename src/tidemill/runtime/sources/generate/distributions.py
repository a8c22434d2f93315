"""What a generated column holds, as a pure function of (seed, column, row number).

Randomness is counter-based: a hash of the row number, not a stream of draws.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import Column
from tidemill.runtime.sources.columns import arrow_type, convert

Maker = Callable[[np.ndarray], pa.Array]

_HINT = (
    "uniform(low,high), normal(mean,deviation), zipf(exponent,count), choice(a,b:2), sequence, "
    "cycle(n), walk(start,step) or constant(x)"
)
_CALL = re.compile(r"\s*([a-z_]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_ZIPF_LIMIT = 1_000_000  # values: a table of 8 MB, made once in each process
_LARGEST = 1e18  # beyond it whole numbers do not fit into 64 bits
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def salt(seed: int, name: str, draw: int) -> np.uint64:
    """One number for each independent sequence."""
    digest = hashlib.blake2b(f"{seed}/{draw}/{name.lower()}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def splitmix(key: np.uint64, rows: np.ndarray) -> np.ndarray:
    """64 random bits for each row number (the finalizer of splitmix64)."""
    z = (rows.astype(np.uint64) + np.uint64(1)) * _GAMMA + key
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(key: np.uint64, rows: np.ndarray) -> np.ndarray:
    """A number in [0, 1) for each row number."""
    return (splitmix(key, rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def distribution(text: str, column: Column, seed: int) -> Maker:
    """The maker a description such as "uniform(1,200)" names, in the column's type."""
    call = _CALL.fullmatch(str(text))
    build = _BUILDERS.get(call[1]) if call else None
    if call is None or build is None:
        raise SourceProblem("TM403", f'column "{column.name}" has the unknown distribution "{text}"', hint=_HINT)
    arguments = [] if call[2] is None else [a.strip() for a in call[2].split(",")]
    try:
        maker = build(arguments, column, seed)
        maker(np.arange(3, dtype=np.int64))
    except (ValueError, IndexError, OverflowError, pa.ArrowException) as error:
        raise SourceProblem(
            "TM403", f'column "{column.name}" cannot be made by "{text}"', detail=str(error), hint=_HINT
        ) from None
    return maker


def _numbers(arguments: list[str], count: int) -> list[float]:
    if len(arguments) != count:
        raise ValueError(f"{count} arguments are needed, not {len(arguments)}")
    values = [float(a) for a in arguments]
    if not all(abs(v) <= _LARGEST for v in values):
        raise ValueError("arguments must be numbers up to 10^18")
    return values


def _is_whole(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)


def _check_fits(column: Column, *values: float) -> None:
    """Refuse numbers that a column cannot hold: they would come out as its least or greatest one, again and again."""
    low, high = _limits(arrow_type(column.type))
    if not all(low <= v <= high for v in values):
        raise ValueError(f"{column.type} holds numbers from {low} to {high}")


def _limits(kind: pa.DataType) -> tuple[float, float]:
    """The least and greatest number of a type; without limits where it is not one of whole numbers or decimals.

    >>> _limits(pa.int16()), _limits(pa.uint8()), _limits(pa.decimal128(4, 2)), _limits(pa.float64())
    ((-32768, 32767), (0, 255), (-99.99, 99.99), (-inf, inf))
    """
    if pa.types.is_decimal(kind):
        most = (10 ** min(kind.precision, 18) - 1) / 10**kind.scale
        return -most, most
    if not pa.types.is_integer(kind):
        return -math.inf, math.inf
    half = 2 ** (kind.bit_width - 1)
    return (-half, half - 1) if pa.types.is_signed_integer(kind) else (0, 2 * half - 1)


def _to_column(values: np.ndarray, column: Column) -> pa.Array:
    """Numbers in the column's type: rounded for whole types, kept inside small ones."""
    kind = arrow_type(column.type)
    if pa.types.is_floating(kind):
        return pa.array(values).cast(kind)
    if pa.types.is_decimal(kind):
        scaled = np.rint(values * 10.0**kind.scale).astype(np.int64)
        # Integers times 10^-scale, exactly: the same digits, read with the scale of the column.
        return _to_decimals(scaled, kind)
    whole = values if np.issubdtype(values.dtype, np.integer) else np.rint(values)
    if pa.types.is_integer(kind):
        low, high = _limits(kind)
        if kind.bit_width < 64:
            whole = np.clip(whole, low, high)
        elif low == 0:
            whole = np.maximum(whole, 0)
        return pa.array(whole.astype(np.int64)).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(whole != 0)
    return _text(values, column)


def _to_decimals(digits: np.ndarray, kind: pa.DataType) -> pa.Array:
    limit = 10 ** min(kind.precision, 18) - 1
    digits = np.clip(digits, -limit, limit)
    words = np.empty((len(digits), 2), np.int64)
    words[:, 0] = digits
    words[:, 1] = digits >> np.int64(63)
    return pa.Array.from_buffers(kind, len(digits), [None, pa.py_buffer(words)])


def _text(values: np.ndarray, column: Column) -> pa.Array:
    """Numbers as text for columns of any other type."""
    return _convert(pa.array(values).cast(pa.string()), column)


def _convert(values: pa.Array, column: Column) -> pa.Array:
    table, reasons = convert([pa.chunked_array([values])], [column])
    if reasons:
        raise ValueError(next(iter(reasons.values())))
    return table.column(0).combine_chunks()


def _uniform(arguments: list[str], column: Column, seed: int) -> Maker:
    low, high = _numbers(arguments, 2)
    if high < low:
        raise ValueError("the lower bound is above the upper one")
    _check_fits(column, low, high)
    key, kind = salt(seed, column.name, 1), arrow_type(column.type)
    if _is_whole(kind) or pa.types.is_string(kind):
        first, count = math.ceil(low), math.floor(high) - math.ceil(low) + 1
        if count < 1:
            raise ValueError("no whole number lies between the bounds")
        return lambda rows: _to_column(first + np.floor(uniform(key, rows) * count).astype(np.int64), column)
    return lambda rows: _to_column(low + uniform(key, rows) * (high - low), column)


def _normal(arguments: list[str], column: Column, seed: int) -> Maker:
    mean, deviation = _numbers(arguments, 2)
    if deviation < 0:
        raise ValueError("a deviation is not negative")
    _check_fits(column, mean)
    first, second = salt(seed, column.name, 1), salt(seed, column.name, 2)

    def make(rows: np.ndarray) -> pa.Array:
        # Box-Muller; 1 - u keeps the logarithm away from zero.
        radius = np.sqrt(-2.0 * np.log(1.0 - uniform(first, rows)))
        return _to_column(mean + deviation * radius * np.cos(2.0 * np.pi * uniform(second, rows)), column)

    return make


@lru_cache(maxsize=16)
def _zipf_steps(exponent: float, count: int) -> np.ndarray:
    steps = np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -exponent)
    return steps / steps[-1]


def _zipf(arguments: list[str], column: Column, seed: int) -> Maker:
    exponent, count = _numbers(arguments, 2)
    if not (count == int(count) and 1 <= count <= _ZIPF_LIMIT):
        raise ValueError(f"the count is a whole number from 1 to {_ZIPF_LIMIT}")
    if abs(exponent) > 30:
        raise ValueError("the exponent lies between -30 and 30")
    _check_fits(column, 1, count)
    steps, key = _zipf_steps(exponent, int(count)), salt(seed, column.name, 1)
    return lambda rows: _to_column(_pick(steps, uniform(key, rows)) + 1, column)


def _pick(steps: np.ndarray, chance: np.ndarray) -> np.ndarray:
    return np.minimum(np.searchsorted(steps, chance, "right"), len(steps) - 1)


def _choice(arguments: list[str], column: Column, seed: int) -> Maker:
    if not arguments or "" in arguments:
        raise ValueError("a choice needs at least one value")
    pairs = [_split_weight(argument) for argument in arguments]
    weights = np.array([weight for _, weight in pairs])
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("weights are positive numbers")
    steps = np.cumsum(weights) / weights.sum()
    values = _convert(pa.array([value for value, _ in pairs]), column)
    key = salt(seed, column.name, 1)
    return lambda rows: values.take(pa.array(_pick(steps, uniform(key, rows))))


def _split_weight(argument: str) -> tuple[str, float]:
    """ "car:8" is ("car", 8); a tail that is no number belongs to the value, as in 12:30:x."""
    value, colon, weight = argument.rpartition(":")
    try:
        return (value, float(weight)) if colon and value else (argument, 1.0)
    except ValueError:
        return argument, 1.0


def _sequence(arguments: list[str], column: Column, seed: int) -> Maker:
    _numbers(arguments, 0)
    return lambda rows: _to_column(rows, column)


def _cycle(arguments: list[str], column: Column, seed: int) -> Maker:
    (length,) = _numbers(arguments, 1)
    if length < 1 or length != int(length):
        raise ValueError("a cycle has a whole length of at least 1")
    _check_fits(column, length - 1)
    return lambda rows: _to_column(rows % int(length), column)


def _walk(arguments: list[str], column: Column, seed: int) -> Maker:
    """A smooth, bounded stand-in for a random walk: noise at four scales, so that two rows d apart
    differ by about step * sqrt(d) up to d = 4096, and no row needs the ones before it."""
    middle, step = _numbers(arguments, 2)
    _check_fits(column, middle)
    scales = [(period, salt(seed, column.name, period)) for period in (8, 64, 512, 4096)]

    def make(rows: np.ndarray) -> pa.Array:
        total = np.full(len(rows), middle)
        for period, key in scales:
            total += step * math.sqrt(period) * _noise(key, rows, period)
        return _to_column(total, column)

    return make


def _noise(key: np.uint64, rows: np.ndarray, period: int) -> np.ndarray:
    """Smooth noise in [-1, 1): random heights every `period` rows, blended between."""
    knot = rows // period
    part = (rows % period) / period
    blend = part * part * (3.0 - 2.0 * part)
    left, right = uniform(key, knot), uniform(key, knot + 1)
    return 2.0 * (left + (right - left) * blend) - 1.0


def _constant(arguments: list[str], column: Column, seed: int) -> Maker:
    if len(arguments) != 1:
        raise ValueError(f"1 argument is needed, not {len(arguments)}")
    value = _convert(pa.array([arguments[0]]), column)
    return lambda rows: pa.repeat(value[0], len(rows))


_BUILDERS = {
    "uniform": _uniform,
    "normal": _normal,
    "zipf": _zipf,
    "choice": _choice,
    "sequence": _sequence,
    "cycle": _cycle,
    "walk": _walk,
    "constant": _constant,
}
