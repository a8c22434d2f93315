"""HyperLogLog sketches of group counts over coded attributes."""

from __future__ import annotations

import numpy as np
from numba import njit


def sketch(attrs: np.ndarray, positions: np.ndarray, p: int = 12) -> np.ndarray:
    """Registers of the groups of these attributes."""
    registers = np.zeros(1 << p, np.uint8)
    _fill(attrs, positions, p, registers)
    return registers


def merge(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The sketch of both inputs together."""
    return np.maximum(one, other)


def estimate(registers: np.ndarray) -> float:
    """Distinct groups: linear counting while many registers are empty, the harmonic mean beyond."""
    m = len(registers)
    raw = 0.7213 / (1 + 1.079 / m) * m * m / np.sum(np.exp2(-registers.astype(np.float64)))
    empty = int(np.count_nonzero(registers == 0))
    if raw <= 2.5 * m and empty:
        return float(m * np.log(m / empty))
    return float(raw)


@njit(cache=True, nogil=True)
def _fill(attrs, positions, p, registers):
    for i in range(attrs.shape[1]):
        h = np.uint64(0x9E3779B97F4A7C15)
        for a in positions:
            h ^= np.uint64(attrs[a, i])
            h *= np.uint64(0xBF58476D1CE4E5B9)
            h ^= h >> np.uint64(29)
            h *= np.uint64(0x94D049BB133111EB)
            h ^= h >> np.uint64(32)
        place = h >> np.uint64(64 - p)
        rest = h << np.uint64(p)
        rank = np.uint8(1)
        while rank <= 64 - p and rest < np.uint64(1) << np.uint64(63):
            rest <<= np.uint64(1)
            rank += np.uint8(1)
        if rank > registers[place]:
            registers[place] = rank
