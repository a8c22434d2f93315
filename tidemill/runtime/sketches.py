"""Group counts of many attribute sets over one block of rows: sketches that readers make and the stage merges."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from tidemill.runtime.kernels.sketch import estimate, merge, sketch
from tidemill.runtime.thresholds import sizes

_PRECISION = 11


class Sketches:
    """One sketch for each candidate attribute set."""

    def __init__(self, candidates: list[list[int]]) -> None:
        self.candidates = candidates
        self.rows = 0
        self.registers: list[np.ndarray] = []

    def add(self, attributes: list[np.ndarray]) -> None:
        """Look at the first rows of the share; what comes later is not counted."""
        if self.rows or not attributes:
            return
        self.rows = min(sizes.sketched_rows, len(attributes[0]))
        block = [a[: self.rows] for a in attributes]
        self.registers = [sketch(block, c, _PRECISION) for c in self.candidates]

    def texts(self) -> list[str]:
        """The registers as text for a tick."""
        return [base64.b64encode(r.tobytes()).decode() for r in self.registers]


def merged(notes: list[dict[str, Any]], candidates: list[list[int]]) -> dict[str, Any]:
    """The notes of all readers of one source as one: counters add up, sketches merge."""
    seen = [n for n in notes if n["rows"]]
    if not seen:
        return {"rows": 0}
    groups = []
    for i, numbers in enumerate(candidates):
        registers = [np.frombuffer(base64.b64decode(n["sketches"][i]), np.uint8) for n in seen]
        whole = registers[0]
        for other in registers[1:]:
            whole = merge(whole, other)
        groups.append([numbers, round(float(estimate(whole)))])
    return {
        "rows": sum(n["rows"] for n in seen), "tuples": sum(n["tuples"] for n in seen), "groups": groups,
        "first": min(n["first"] for n in seen), "last": max(n["last"] for n in seen),
        "relations": np.sum([n["relations"] for n in seen], axis=0).tolist(),
    }
