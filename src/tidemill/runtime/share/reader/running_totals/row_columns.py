"""The columns of rows as the loop over rows reads them: by address, so that int32 columns need no copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidemill.runtime.kernels.share.intercede_rows import ONES


class RowColumns(NamedTuple):
    """Addresses and item sizes of the columns, attributes before parts; pairs[w] are the one or two columns of word w
    of a group's key. `held` keeps the memory at the addresses alive.
    """

    addresses: np.ndarray
    sizes: np.ndarray
    pairs: np.ndarray
    held: list[np.ndarray | None]

    @classmethod
    def of(cls, pairs: np.ndarray, attributes: Sequence[np.ndarray], parts: Sequence[np.ndarray | None]) -> RowColumns:
        """`pairs` are the attributes of each word of a key; None among the parts is a column of ones."""
        order = [a for pair in pairs.tolist() for a in pair if a >= 0]
        held = [_readable(c) for c in (*(attributes[a] for a in order), *parts)]
        addresses = np.array([0 if c is None else c.__array_interface__["data"][0] for c in held], np.int64)
        sizes = np.array([ONES if c is None else c.itemsize for c in held], np.int64)
        place = np.cumsum([0, *((pairs >= 0).sum(axis=1))])[:-1]
        own = np.stack([place, np.where(pairs[:, 1] >= 0, place + 1, -1)], axis=1)
        return cls(addresses, sizes, own, held)


def _readable(column: np.ndarray | None) -> np.ndarray | None:
    """A column as the loops read it: int32 as it is, everything else as int64."""
    if column is None:
        return None
    return np.ascontiguousarray(column, None if column.dtype == np.int32 else np.int64)
